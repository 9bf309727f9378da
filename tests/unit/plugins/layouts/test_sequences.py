"""Pools of sequences: FASTA with scores in its headers, and tables with a column of sequences."""

import gzip

import pytest
from corpora.pool_faults import SEQUENCES
from support.pool_files import LAYOUTS, notes_on, responses_in
from support.refusals import wrongly_refused

from harness.pools.reading import read_pool

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


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (FASTA, "candidates.fasta"),
        (gzip.compress(FASTA.encode(), mtime=0), "candidates.fa.gz"),
        (FASTA.replace("\n", "\r\n"), "candidates.txt"),
        (TABLE, "candidates.csv"),
        (TABLE.replace(",", "\t"), "candidates.tsv"),
        ("\ufeff" + TABLE.replace(",", ";"), "candidates.csv"),
    ],
)
def test_fasta_and_tables_are_read_alike(written, text, name):
    path = written(text, name)
    (record,) = read_pool(path)
    assert record.problem_id == "candidates"
    assert record.responses == ["MKTAYIAKQRLL", "MKTAYIAK"]
    assert record.names[0] == "design-1"
    assert record.ids == ("candidates", "any")
    assert list(record.logprobs) == [-10.5, -11.0]
    assert record.measurements == [{"plddt": 0.915, "ptm": 0.9}, {"plddt": 0.5, "ptm": 0.9}]
    assert record.correct is None
    kind = "FASTA" if ">" in FASTA and name.split(".")[1] in ("fasta", "fa", "txt") else "a table of sequences"
    scores = "2 sequences with log-probabilities, pLDDT and pTM; not taken: recovery"
    assert notes_on(path) == [f"pool: read as {kind}, {scores}"]


def test_a_score_counts_only_where_every_sequence_has_it(written):
    path = written(">a logprob=-1 plddt=0.9 ptm=0.9\nMK\n>b plddt=0.4\n;a remark\nMKT\n", "p.fasta")
    (record,) = read_pool(path)
    assert record.responses == ["MK", "MKT"]
    assert (record.logprobs, record.measurements, record.correct) == (None, None, None)
    assert notes_on(path) == ["pool: read as FASTA, 2 sequences"]


def test_verdicts_of_ones_own_are_taken_and_stand_before_anothers_figures(written):
    path = written(">a correct=1 plddt=0.9 ptm=0.9\nMK\n>b correct=False plddt=0.9 ptm=0.9\nMKT\n", "p.fasta")
    (record,) = read_pool(path)
    assert record.correct == [True, False]
    assert record.measurements is None
    assert notes_on(path) == ["pool: read as FASTA, 2 sequences with verdicts"]


def test_sequences_of_several_problems_are_told_apart_and_doubles_stay(written):
    path = written("problem_id,sequence\nlead-2,MKT\nlead-1,MK\nlead-2,MKT\n", "all.csv")
    assert responses_in(path) == {"lead-2": ["MKT", "MKT"], "lead-1": ["MK"]}
    assert list(responses_in(path)) == ["lead-2", "lead-1"]
    assert [record.ids for record in read_pool(path)] == [("lead-2",), ("lead-1",)]


def test_each_fault_of_a_file_is_refused_with_its_line(written):
    assert not wrongly_refused(SEQUENCES, lambda content: list(read_pool(written(content, "p.txt"), layouts=LAYOUTS)))


def test_json_lines_that_speak_of_sequences_are_still_json(written):
    path = written('{"problem_id": "a, sequence", "responses": ["x, sequence"]}\n')
    assert responses_in(path) == {"a, sequence": ["x, sequence"]}
