"""For a lab with protein candidates of its own: `harness select` on FASTA, and the guide as it stands."""

from __future__ import annotations

import json
import re
import runpy
import shlex

import numpy as np
from support.paths import ROOT

LETTERS = list("ACDEFGHIKLMNPQRSTVWY")


def test_select_names_the_candidates_and_starts_from_those_that_were_verified(harness, tmp_path):
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(LETTERS, 30)) for _ in range(40)]
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
    letters = ["".join(rng.choice(LETTERS, 40)) for _ in range(40)]
    text = fasta + "".join(f">more-{i} {scores}\n{sequence}\n" for i, sequence in enumerate(letters))
    (tmp_path / "candidates.fasta").write_text(text)
    count = text.count(">")
    np.save(tmp_path / "means.npy", rng.normal(size=(count, 12)))
    (tmp_path / "vectors.py").write_text(script)
    runpy.run_path(str(tmp_path / "vectors.py"))
    (tmp_path / "done.jsonl").write_text(re.findall(r"```json\n(.*?)```", guide, re.S)[0])
    lines = [line for block in re.findall(r"```sh\n(.*?)```", guide, re.S) for line in block.splitlines()]
    assert [line.split()[1] for line in lines] == ["select", "select", "select", "run"]
    for line in lines:
        outcome = harness(*shlex.split(line)[1:])
        assert outcome.code == 0, f"{line}: {outcome.err}"
        assert outcome.out.count("\n") > 16
