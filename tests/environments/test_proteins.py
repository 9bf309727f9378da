"""Proteins on the real classes at tiny random size, with ESM3 in its own environment (`make esm`)."""

import json
import os
from collections import Counter

import numpy as np
import pytest
from support.environments import environment_python
from support.paths import SUPPORT
from support.processes import run_to_end
from support.stores import files_of

from harness import Sampler
from harness.columns.store import read
from harness.records import SampleRequest
from harness_plugins.engines.esm3.engine import VARIABLE, WEIGHTS, Esm3
from harness_plugins.engines.row_chunks import Chunks
from harness_plugins.proteins.tiny import CHILD, TINY_ESM3, tiny_esm3, tiny_esmc, tiny_esmfold

LETTERS = "ACDEFGHIKLMNPQRSTVWY"

pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.slow]


@pytest.fixture(scope="module")
def python():
    return environment_python(VARIABLE, "esm")


@pytest.fixture(scope="module")
def models(tmp_path_factory, python):
    """Folders with tiny models: `esm3`, `esmc`, and ESMFold with heads that say yes (`good`)."""
    folder = tmp_path_factory.mktemp("models")
    tiny_esmc(folder / "esmc")
    tiny_esmfold(folder / "good", plddt=0.99, ptm=0.99)
    tiny_esm3(folder / "esm3", python)
    return folder


def test_sequences_come_as_from_esms_own_sampler(models, python):
    from scipy.stats import chi2_contingency

    command = [python, SUPPORT / "esm_reference.py", CHILD, models / "esm3" / WEIGHTS, json.dumps(TINY_ESM3)]
    quiet = os.environ | {"OMP_NUM_THREADS": "1", "DISABLE_ITERATIVE_SAMPLING_TQDM": "1"}
    reference = json.loads(run_to_end(command, check=True, env=quiet).stdout.splitlines()[-1])
    assert reference["counted"] == [True] * 4
    assert [reference[name] for name in ("heat", "kept", "same")] == [True] * 3
    counts = [Counter("".join(reference[whose])) for whose in ("esm", "ours")]
    table = np.array([[count[letter] for letter in LETTERS] for count in counts])
    assert chi2_contingency(table[:, table.sum(0) > 20]).pvalue > 0.001


def test_a_row_depends_on_seed_and_row_alone_and_keeps_the_letters_that_were_given(models, python):
    engine = Esm3(model=str(models / "esm3"), python=str(python), steps=4, device="cpu", test_weights=True)

    def sample(n, seed=7):
        chat = [{"role": "user", "content": "MK____HE" * 2}]
        return engine.sample(SampleRequest([chat], n=n, sampler=Sampler(), max_tokens=100, seeds=[seed]))[0]

    six = sample(6)
    assert sample(3).texts == six.texts[:3]
    assert sample(3, seed=8).texts != six.texts[:3]
    engine._chunks = Chunks(2)
    again = sample(6)
    assert again.texts == six.texts
    assert again.logprobs == pytest.approx(six.logprobs, abs=1e-4)
    for text, ids in zip(six.texts, six.token_ids, strict=True):
        assert len(text) == len(ids) == 16
        assert (text[:2], text[6:10], text[14:]) == ("MK", "HEMK", "HE")
    assert np.isfinite(six.logprobs).all()
    assert (six.logprobs < 0).all()


def test_the_run_goes_from_masks_to_a_table_and_thresholds_are_moved_for_nothing(harness, models, python, tmp_path):
    def run(length="24+26", **task):
        given = {"length": length, "verifier": models / "good", "test_weights": "true", "device": "cpu", **task}
        spec = "proteins:" + ",".join(f"{name}={value}" for name, value in given.items())
        engine = f"esm3:steps=3,device=cpu,test_weights=true,python={python}"
        embedder = f"esmc:model={models / 'esmc'},device=cpu,test_weights=true"
        fixed = ("--task", spec, "--engine", engine, "--model", models / "esm3", "--embedder", embedder, "--n", 8)
        return harness("run", *fixed, "--selector", "repexp", "--json", "--store", tmp_path / "runs")

    def measured():
        return {path: path.read_bytes() for path in (tmp_path / "runs" / "memo").rglob("*.jsonl")}

    first, kept = run(), measured()
    assert first.code == 0, first.err
    (row,) = first.rows
    assert (row["n"], row["problems"], row["solvable"], row["errors"]) == (8, 2, 2, 0)
    assert (row["samples_to_correct"], row["model"]) == (1.0, "random weights: esm3")
    assert sum(len(content.splitlines()) - 1 for content in kept.values()) == 16
    verdicts = read(files_of(tmp_path / "runs", "verdicts")[0]).to_pylist()
    assert {(verdict["status"], verdict["answer"]) for verdict in verdicts} == {("correct", None)}
    assert all("plddt=0.99" in verdict["reason"] for verdict in verdicts)
    # Random weights are shown and stored.
    assert first.err.count("weights: ESM3-open with RANDOM weights") == 1
    weights = json.loads(next((tmp_path / "runs").glob("*/weights.json")).read_text())
    assert {kind: (row["name"], row["is_random"]) for kind, [row] in weights.items()} == {
        kind: (name, True)
        for kind, name in {"pool": "ESM3-open", "embedding": "ESM C", "verdict": "ESMFold v1"}.items()
    }
    cell = json.loads(next((tmp_path / "runs" / "cells").glob("*.json")).read_text())
    assert [model["is_random"] for model in cell["weights"]] == [True] * 3

    stricter, shorter = run(plddt_min=0.995), run(length="24")
    assert [row["solvable"] for row in stricter.rows] == [0]
    assert "pool: reused for 2 of 2" in stricter.err
    assert "embeddings: reused for 2 of 2" in stricter.err
    assert "pool: reused for 1 of 1" in shorter.err
    assert measured() == kept
