"""For a lab with protein candidates, the guide as it stands; a run that is killed while it folds."""

import os
import re
import runpy
import shlex

import numpy as np
import pytest
from support.paths import ROOT
from support.processes import harness_command, kill_when
from support.stores import contents
from support.tiny_proteins import sequences

from harness_plugins.proteins.tiny import tiny_esmfold

pytestmark = pytest.mark.slow


def test_the_guide_for_a_lab_with_candidates_runs_as_it_stands(harness, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    guide = (ROOT / "docs" / "proteins.md").read_text().partition("## ESM3")[0]
    blocks = {name: re.findall(rf"```{name}\n(.*?)```", guide, re.S) for name in ("text", "python", "json", "sh")}
    more = [f">more-{i} logprob=-90 plddt=60 ptm=0.85\n{text}\n" for i, text in enumerate(sequences(40, 40))]
    fasta = blocks["text"][0] + "".join(more)
    (tmp_path / "candidates.fasta").write_text(fasta)
    np.save(tmp_path / "means.npy", np.random.default_rng(0).normal(size=(fasta.count(">"), 12)))
    (tmp_path / "vectors.py").write_text(blocks["python"][0])
    runpy.run_path(str(tmp_path / "vectors.py"))
    (tmp_path / "done.jsonl").write_text(blocks["json"][0])
    lines = [line for block in blocks["sh"] for line in block.splitlines()]
    assert [line.split()[1] for line in lines] == ["select", "select", "select", "run"]
    outcomes = [harness(*shlex.split(line)[1:]) for line in lines]
    for line, outcome in zip(lines, outcomes, strict=True):
        assert outcome.code == 0, f"{line}: {outcome.err}"
        assert outcome.out.count("\n") > 16
    (chosen,) = harness(*shlex.split(lines[0])[1:], "--json").rows
    assert (chosen["problem_id"], chosen["names"][0] in outcomes[0].out) == ("candidates", True)


@pytest.mark.usefixtures("one_thread")
def test_a_run_killed_while_it_folds_goes_on_at_the_next_chunk_and_gives_the_same_bytes(harness, written, tmp_path):
    pool = written([{"problem_id": "length-12", "responses": sequences(84, 12)}])
    task = f"proteins:length=12,verifier={tiny_esmfold(tmp_path / 'fold')},test_weights=true,device=cpu,plddt_min=0.4"

    def command(store):
        options = ("--task", task, "--pool", pool, "--embedder", "tfidf", "--selector", "uniform", "--json")
        return ("run", *options, "--store", tmp_path / store)

    def measured():
        files = (tmp_path / "killed" / "memo").rglob("*.jsonl")
        return [line for path in files for line in path.read_text().splitlines() if line]

    table = harness(*command("whole")).out
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    kill_when(measured, harness_command(*command("killed")), env=environment)
    folded = measured()
    assert len(folded) == 64
    again = harness(*command("killed"))
    assert (again.out, again.rows[0]["errors"]) == (table, 0)
    assert (measured()[:64], len(measured())) == (folded, 84)
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")
