"""Pools of candidates: SMILES, tables with assays, SDF; FASTA and tables of sequences."""

from __future__ import annotations

import gzip
import importlib.util

import pytest
from corpora.pool_faults import SEQUENCES
from support.json_lines import read_json_lines
from support.pool_files import LAYOUTS, notes_on
from support.refusals import refusal_of, wrongly_refused

from harness.pools.reading import Layouts, read_pool

needs_rdkit = pytest.mark.skipif(importlib.util.find_spec("rdkit") is None, reason="needs rdkit, the extra chem")

SCREEN = """NR-AR,p53,mol_id,SMILES,logP
0,active,T1,CCO,-0.3
1,,T2,"CC(=O)Nc1ccc(O)cc1",1
,Inactive,T3,C/C=C\\C,2.5
1,inactive,T2,CCO,0
"""
ASSAYS = {"NR-AR": (["CCO", "CC(=O)Nc1ccc(O)cc1", "CCO"], [False, True, True], ["T1", "T2", "T2"])}
ASSAYS |= {"p53": (["CCO", "C/C=C\\C", "CCO"], [True, False, False], ["T1", "T3", "T2"])}


def assays_of(path, **options) -> dict:
    """Problem id -> texts, verdicts and names."""
    records = read_pool(path, layouts=Layouts(options=options))
    return {each.problem_id: (each.responses, each.correct, each.names) for each in records}


def test_each_assay_is_a_problem_of_the_molecules_tested_in_it_however_the_table_is_written(written):
    for text, name in (
        (SCREEN, "screen.csv"),
        (SCREEN.replace(",", "\t"), "screen.txt"),
        (gzip.compress(("\ufeff" + SCREEN.replace(",", ";")).encode(), mtime=0), "screen.csv.gz"),
        (SCREEN.replace("SMILES", "Canonical SMILES (RDKit)").replace("mol_id", "Compound ID"), "screen.csv"),
        (SCREEN.replace("\n1,", "\n1.0,").replace("\n0,", "\n0.0,").replace("\n,", "\nnan,"), "a/screen.csv"),  # pandas
    ):
        path = written(text, name)
        assert assays_of(path) == ASSAYS
        counts = "pool: active of tested: NR-AR 2 of 3, p53 1 of 3; not taken: logP"
        assert notes_on(path) == ["pool: read as a table of molecules, 4 molecules", counts]


def test_outcomes_are_chosen_by_name_numbers_by_a_threshold_and_other_pools_take_no_such_option(written):
    path, own = written(SCREEN, "screen.csv"), written([{"problem_id": "a", "responses": ["x"]}])
    assert assays_of(path, outcome=("p53", "NR-AR")) == ASSAYS
    assert assays_of(path, outcome=("logP",), threshold=0)["logP"][1] == [False, True, True, True]
    [(texts, correct, names)] = assays_of(path, outcome=("",)).values()  # `harness select` reads no outcomes
    assert (texts[3], correct, names) == ("CCO", None, ["T1", "T2", "T3", "T2"])
    values = "line 2: logP must be 0 or 1, true or false, active or inactive, or empty, got '-0.3'"
    wrong = [
        ({"outcome": ("logP",)}, values),
        ({"outcome": ("p53",), "threshold": 1.0}, "line 2: p53 must be a number, which --threshold judges, or empty"),
        ({"outcome": ("hERG",)}, "no column 'hERG': it has 'NR-AR', 'p53', 'logP'"),
    ]
    assert not wrongly_refused(wrong, lambda options: assays_of(path, **options))
    line = refusal_of(assays_of, own, skip_unreadable=True)
    assert line == f"pool {own}: read as own, which takes no --skip-unreadable"
    assert Layouts().in_key(path) is None
    assert Layouts(options={"outcome": ("p53",)}).in_key(path) == {"options": {"outcome": ("p53",)}}


def test_a_column_of_problems_divides_the_molecules_unless_it_says_0_and_1(written):
    text = "target,active,smiles\nEGFR,1,CC\nKDR,0,CCC\nEGFR,0,CCO\n"
    assays = {name: texts for name, (texts, *_) in assays_of(written(text, "a.csv")).items()}
    assert assays == {"EGFR/active": ["CC", "CCO"], "KDR/active": ["CCC"]}
    as_label = written("target,smiles\n1,CC\n0,CCC\n", "b.csv")
    assert assays_of(as_label) == {"target": (["CC", "CCC"], [True, False], ())}


def test_files_of_smiles_have_a_name_behind_each(written):
    path = written("smiles zinc_id\n[Na+].[Cl-] table salt\nCCO\n\nC1CC1\tZ3\n", "a.smi")
    assert assays_of(path) == {"a": (["[Na+].[Cl-]", "CCO", "C1CC1"], None, ["table salt", "", "Z3"])}
    assert assays_of(written(gzip.compress(b"CCO a\n"), "b.smi.gz"))["b"][0] == ["CCO"]


@needs_rdkit
def test_sdf_gives_smiles_titles_and_properties_and_what_rdkit_cannot_read_is_left_out_where_that_is_asked(written):
    from rdkit import Chem

    blocks = []
    for name, smiles, properties in (("a", "OCC", "1\n\n>  <note>\ntwo\nlines"), ("b", "c1ccccc1", "0")):
        block = Chem.MolToMolBlock(Chem.MolFromSmiles(smiles))
        blocks.append(f"{name}{block}>  <active>\n{properties}\n\n$$$$\n")
    path = written("".join(blocks), "screen.txt")
    assert assays_of(path) == {"active": (["CCO", "c1ccccc1"], [True, False], ["a", "b"])}
    assert notes_on(path)[1] == "pool: active of tested: active 1 of 2; not taken: note"
    broken = written(blocks[0].replace("V2000", "V9000") + blocks[1], "screen.sdf")
    line = refusal_of(assays_of, broken)
    assert line == f"pool {broken}, molecule 1 'a': RDKit cannot read it: --skip-unreadable leaves such molecules out"
    assert assays_of(broken, skip_unreadable=True) == {"active": (["c1ccccc1"], [False], ["b"])}
    path, notes = written("smiles,active\nCCO,1\nC(,1\n,0\nCCN,0\n", "a.csv"), []
    read = read_pool(path, notes.append, Layouts(options={"skip_unreadable": True}))
    assert [(record.responses, record.correct) for record in read] == [(["CCO", "CCN"], [True, False])]
    assert notes[1] == "pool: RDKit cannot read 2 of 4 molecules: line 3 ('C('), line 4: left out"


def test_each_fault_of_a_file_is_refused_with_its_line(written):
    wrong = [
        ("a,b\n1,2\n", "a table without a column `smiles`: it has 'a', 'b'"),
        ("smiles,active\nCC,1\n,0\n", "line 3: no SMILES: --skip-unreadable leaves such molecules out"),
        ("smiles,x,x\nCC,1,1\n", "two of its columns are called 'x'"),
        ('smiles,x\n"CC,1\n', "not CSV"),
        ("smiles,x\n", "a table without molecules"),
    ]
    for faults, name in ((wrong, "p.csv"), (SEQUENCES, "p.txt")):
        assert not wrongly_refused(
            faults, lambda content, name=name: list(read_pool(written(content, name), layouts=LAYOUTS))
        )


def test_names_are_kept_in_the_store_and_come_out_again(harness, written, tmp_path):
    fixed, out = ("--store", tmp_path / "runs"), tmp_path / "out.jsonl"
    key = harness("pool", "import", written(SCREEN, "screen.csv"), "--outcome", "p53", *fixed, "--json").rows["pool"]
    assert harness("pool", "export", key, "--out", out, *fixed).code == 0
    [line] = read_json_lines(out)
    assert (line["responses"], line["correct"], line["names"]) == ASSAYS["p53"]
    assert next(read_pool(out)).names == line["names"]
    assert "  1 T3 wrong (given)" in harness("pool", "show", key, *fixed).out.splitlines()


FASTA = """>design-1 made by hand, logprob=-10.5 pLDDT=91.5 pTM=0.9 recovery=0.4
MKTAYIAK
QRLL*
>design-2|logprob=-11;plddt=50,ptm=0.9

mktayiak
"""
TABLE = """name,sequence,logprob,plddt,ptm,recovery
design-1,MKTAYIAKQRLL,-10.5,91.5,0.9,0.4
"design-2",mktayiak,-11,50,0.9,
"""


def test_fasta_and_tables_are_read_alike(written):
    for text, name in (
        (FASTA, "candidates.fasta"),
        (gzip.compress(FASTA.encode(), mtime=0), "candidates.fa.gz"),
        (FASTA.replace("\n", "\r\n"), "candidates.txt"),
        (TABLE, "candidates.csv"),
        ("\ufeff" + TABLE.replace(",", ";"), "candidates.csv"),
    ):
        path = written(text, name)
        (record,) = read_pool(path)
        assert (record.ids, record.responses) == (("candidates", "any"), ["MKTAYIAKQRLL", "MKTAYIAK"])
        assert (record.names[0], list(record.logprobs), record.correct) == ("design-1", [-10.5, -11.0], None)
        assert record.measurements == [{"plddt": 0.915, "ptm": 0.9}, {"plddt": 0.5, "ptm": 0.9}]
        kind = "a table of sequences" if name.endswith("csv") else "FASTA"
        scores = "2 sequences with log-probabilities, pLDDT and pTM; not taken: recovery"
        assert notes_on(path) == [f"pool: read as {kind}, {scores}"]


def test_verdicts_of_ones_own_are_taken_and_stand_before_anothers_figures(written):
    path = written(">a correct=1 plddt=0.9 ptm=0.9\nMK\n>b correct=False plddt=0.9 ptm=0.9\nMKT\n", "p.fasta")
    (record,) = read_pool(path)
    assert (record.correct, record.measurements) == ([True, False], None)
    assert notes_on(path) == ["pool: read as FASTA, 2 sequences with verdicts"]
