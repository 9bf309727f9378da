"""Pools of sequences made elsewhere: FASTA with scores, CSV; and the guide for the person who has them."""

from __future__ import annotations

import gzip
import json
import re
import runpy
import shlex

import numpy as np
import pytest
from support.paths import ROOT

from harness import HarnessError
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


@pytest.fixture
def written(tmp_path):
    def call(text, name="candidates.fasta"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return call


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (FASTA, "candidates.fasta"),
        (gzip.compress(FASTA.encode()), "candidates.fa.gz"),
        (FASTA.replace("\n", "\r\n"), "candidates.txt"),
        (TABLE, "candidates.csv"),
        (TABLE.replace(",", "\t"), "candidates.tsv"),
        ("\ufeff" + TABLE.replace(",", ";"), "candidates.csv"),
    ],
)
def test_fasta_and_tables_are_read_alike(written, text, name):
    said = []
    (record,) = read_pool(written(text, name), said.append)
    assert record.problem_id == "candidates"
    assert record.responses == ["MKTAYIAKQRLL", "MKTAYIAK"]
    assert record.names[0].startswith("design-1")
    assert list(record.logprobs) == [-10.5, -11.0]
    assert record.measurements == [{"plddt": 0.915, "ptm": 0.9}, {"plddt": 0.5, "ptm": 0.9}]
    assert record.correct is None
    kind = "FASTA" if ">" in FASTA and name.split(".")[1] in ("fasta", "fa", "txt") else "a table of sequences"
    assert said == [
        f"pool: read as {kind}, 2 sequences with log-probabilities, pLDDT and pTM; not taken: recovery",
    ]


def test_a_score_counts_only_where_every_sequence_has_it(written):
    (record,) = read_pool(written(">a logprob=-1 plddt=0.9 ptm=0.9\nMK\n>b plddt=0.4\nMKT\n"))
    assert (record.logprobs, record.measurements, record.correct) == (None, None, None)


def test_verdicts_of_ones_own_are_taken_and_stand_before_anothers_figures(written):
    text = ">a correct=1 plddt=0.9 ptm=0.9\nMK\n>b correct=False plddt=0.9 ptm=0.9\nMKT\n"
    (record,) = read_pool(written(text))
    assert record.correct == [True, False]
    assert record.measurements is None


def test_sequences_of_several_problems_are_told_apart_and_doubles_stay(written):
    text = "problem_id,sequence\nlead-2,MKT\nlead-1,MK\nlead-2,MKT\n"
    records = list(read_pool(written(text, "all.csv")))
    assert [(one.problem_id, one.responses) for one in records] == [("lead-2", ["MKT", "MKT"]), ("lead-1", ["MK"])]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (">a\nMK7T\n", "line 1 (a): '7' is no letter of a sequence"),
        (">a\n>b\nMKT\n", "line 1 (a): no sequence"),
        (">a logprob=high\nMKT\n", "line 1 (a logprob=high): logprob must be a number, got 'high'"),
        (">a correct=maybe\nMKT\n", "correct must be true or false, got 'maybe'"),
        (">a plddt=0.9 ptm=1.2\nMKT\n", "plddt is from 0 to 1 or to 100, ptm from 0 to 1"),
        (">a plddt=-1 ptm=0.2\nMKT\n", "plddt is from 0 to 1 or to 100, ptm from 0 to 1"),
        ("name,sequence\na,MKT\nb,\n", "line 3 (b): no sequence"),
    ],
)
def test_what_is_wrong_with_a_file_is_one_line_that_says_where(written, text, said):
    with pytest.raises(HarnessError) as caught:
        list(read_pool(written(text)))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_json_lines_that_speak_of_sequences_are_still_json(written):
    (record,) = read_pool(written('{"problem_id": "a, sequence", "responses": ["x, sequence"]}\n', "pool.jsonl"))
    assert record.responses == ["x, sequence"]


def test_anothers_figures_are_judged_by_the_tasks_thresholds_and_nothing_is_folded(harness, written, tmp_path):
    def solvable(task):
        options = ("--pool", written(FASTA), "--split", "any", "--embedder", "tfidf", "--store", tmp_path / "runs")
        outcome = harness("run", "--task", task, *options, "--selector", "uniform", "--json")
        assert outcome.code == 0, outcome.err
        assert "verdicts: by the pool's own plddt and ptm" in outcome.err
        assert "measure" not in outcome.err
        assert "weights" not in outcome.err
        return outcome.rows[0]["samples_to_correct_random"]

    assert solvable("proteins") == 1.5  # one of two
    assert solvable("proteins:plddt_min=0.4") == 1.0
    assert solvable("proteins:plddt_min=0.95") == 3.0


def test_select_names_the_candidates_and_starts_from_those_that_were_verified(harness, tmp_path):
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("ACDEFGHIKLMNPQRSTVWY"), 30)) for _ in range(40)]
    pool = tmp_path / "candidates.fasta"
    pool.write_text("".join(f">design-{i} logprob={-i}\n{text}\n" for i, text in enumerate(texts)))
    np.savez(tmp_path / "vectors.npz", candidates=rng.normal(size=(40, 8)).astype(np.float32))
    options = ("--pool", pool, "--embeddings", tmp_path / "vectors.npz", "--selector", "repexp", "-k", 16)
    outcome = harness("select", *options, "--json")
    assert outcome.code == 0, outcome.err
    (chosen,) = outcome.rows
    assert chosen["problem_id"] == "candidates"
    assert chosen["names"] == [f"design-{index}" for index in chosen["order"]]
    assert len(set(chosen["order"])) == 16
    assert "design-" in harness("select", *options).out
    done = tmp_path / "done.jsonl"
    done.write_text(json.dumps({"problem_id": "candidates", "indices": chosen["order"]}) + "\n")
    (after,) = harness("select", *options, "--verified", done, "--json").rows
    assert not set(after["order"]) & set(chosen["order"])
    (likely,) = harness("select", "--pool", pool, "--selector", "logprob", "-k", 2, "--json").rows
    assert likely["names"] == ["design-0", "design-1"]


def test_the_guide_for_a_lab_with_candidates_runs_as_it_stands(harness, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    guide = (ROOT / "docs" / "proteins.md").read_text().partition("## ESM3")[0]
    fasta, script = (re.findall(rf"```{language}\n(.*?)```", guide, re.S)[0] for language in ("text", "python"))
    rng = np.random.default_rng(0)
    scores = "logprob=-90 plddt=60 ptm=0.85"
    letters = ["".join(rng.choice(list("ACDEFGHIKLMNPQRSTVWY"), 40)) for _ in range(40)]
    text = fasta + "".join(f">more-{i} {scores}\n{sequence}\n" for i, sequence in enumerate(letters))
    (tmp_path / "candidates.fasta").write_text(text)
    count = text.count(">")
    np.save(tmp_path / "means.npy", rng.normal(size=(count, 12)))
    runpy.run_path(str(_saved(tmp_path / "vectors.py", script)))
    (tmp_path / "done.jsonl").write_text(re.findall(r"```json\n(.*?)```", guide, re.S)[0])
    lines = [line for block in re.findall(r"```sh\n(.*?)```", guide, re.S) for line in block.splitlines()]
    assert [line.split()[1] for line in lines] == ["select", "select", "select", "run"]
    for line in lines:
        outcome = harness(*shlex.split(line)[1:])
        assert outcome.code == 0, f"{line}: {outcome.err}"
        assert outcome.out.count("\n") > 16


def _saved(path, text):
    path.write_text(text)
    return path
