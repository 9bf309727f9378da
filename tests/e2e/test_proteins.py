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


@pytest.mark.slow
def test_the_guide_for_a_lab_with_candidates_runs_as_it_stands(harness, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    guide = (ROOT / "docs" / "proteins.md").read_text().partition("## ESM3")[0]
    fasta, script = (re.findall(rf"```{language}\n(.*?)```", guide, re.S)[0] for language in ("text", "python"))
    rng = np.random.default_rng(0)
    scores = "logprob=-90 plddt=60 ptm=0.85"
    text = fasta + "".join(f">more-{i} {scores}\n{letters}\n" for i, letters in enumerate(sequences(40, 40)))
    (tmp_path / "candidates.fasta").write_text(text)
    count = text.count(">")
    np.save(tmp_path / "means.npy", rng.normal(size=(count, 12)))
    (tmp_path / "vectors.py").write_text(script)
    runpy.run_path(str(tmp_path / "vectors.py"))
    (tmp_path / "done.jsonl").write_text(re.findall(r"```json\n(.*?)```", guide, re.S)[0])
    lines = [line for block in re.findall(r"```sh\n(.*?)```", guide, re.S) for line in block.splitlines()]
    assert [line.split()[1] for line in lines] == ["select", "select", "select", "run"]
    outcomes = [harness(*shlex.split(line)[1:]) for line in lines]
    for line, outcome in zip(lines, outcomes, strict=True):
        assert outcome.code == 0, f"{line}: {outcome.err}"
        assert outcome.out.count("\n") > 16
    (chosen,) = harness(*shlex.split(lines[0])[1:], "--json").rows
    assert (chosen["problem_id"], chosen["names"][0] in outcomes[0].out) == ("candidates", True)


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_a_run_killed_while_it_folds_goes_on_at_the_next_chunk_and_gives_the_same_bytes(harness, written, tmp_path):
    pool = written([{"problem_id": "length-20", "responses": sequences(124, 20)}])
    task = f"proteins:length=20,verifier={tiny_esmfold(tmp_path / 'fold')},test_weights=true,device=cpu,plddt_min=0.4"
    options = ("run", "--task", task, "--pool", pool, "--embedder", "tfidf", "--selector", "uniform", "--json")
    whole, killed = (*options, "--store", tmp_path / "whole"), (*options, "--store", tmp_path / "killed")

    def measured():
        files = (tmp_path / "killed" / "memo").rglob("*.jsonl")
        return [line for path in files for line in path.read_text().splitlines() if line]

    table = harness(*whole).out
    kill_when(measured, harness_command(*killed), env=os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"})
    folded = measured()
    assert len(folded) == 64
    again = harness(*killed)
    assert again.out == table
    assert [row["errors"] for row in again.rows] == [0]
    assert measured()[:64] == folded
    assert len(measured()) == 124
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")
