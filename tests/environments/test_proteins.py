"""Proteins on the real classes at tiny random size, with ESM3 in its own environment (`make esm`)."""

import json
import os
import shutil
from collections import Counter

import numpy as np
import pytest
from support.environments import environment_python
from support.paths import SUPPORT
from support.processes import harness_command, run_to_end
from support.stores import files_of

from harness import Sampler
from harness.columns.store import read
from harness.records import SampleRequest
from harness_plugins.engines.esm3.engine import VARIABLE, WEIGHTS, Esm3
from harness_plugins.proteins.tiny import CHILD, TINY_ESM3, tiny_esm3, tiny_esmc, tiny_esmfold

LETTERS = "ACDEFGHIKLMNPQRSTVWY"

pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.slow]


@pytest.fixture(scope="module")
def esm_python():
    return environment_python(VARIABLE, "esm")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Folders with tiny models: `esmc`; ESMFold as `fold`, and with heads that say yes (`good`)."""
    folder = tmp_path_factory.mktemp("models")
    tiny_esmc(folder / "esmc")
    tiny_esmfold(folder / "fold")
    tiny_esmfold(folder / "good", plddt=0.99, ptm=0.99)
    return folder


@pytest.fixture(scope="module")
def esm3_folder(tmp_path_factory, esm_python):
    return tiny_esm3(tmp_path_factory.mktemp("esm3") / "tiny-esm3", esm_python)


@pytest.fixture(scope="module")
def engine(esm3_folder, esm_python):
    return Esm3(model=str(esm3_folder), python=str(esm_python), steps=4, device="cpu", test_weights=True)


def sample(engine, prompt, n, seed=7, **sampler):
    chat = [{"role": "user", "content": prompt}]
    (responses,) = engine.sample(SampleRequest([chat], n=n, sampler=Sampler(**sampler), max_tokens=100, seeds=[seed]))
    return responses


# Engine esm3


def test_sequences_come_as_from_esms_own_sampler(esm3_folder, esm_python):
    from scipy.stats import chi2_contingency

    command = [esm_python, SUPPORT / "esm_reference.py", CHILD, esm3_folder / WEIGHTS, json.dumps(TINY_ESM3)]
    quiet = os.environ | {"OMP_NUM_THREADS": "1", "DISABLE_ITERATIVE_SAMPLING_TQDM": "1"}
    reference = json.loads(run_to_end(command, check=True, env=quiet).stdout.splitlines()[-1])
    assert reference["counted"] == [True] * 4
    assert [reference[name] for name in ("heat", "kept", "same")] == [True] * 3
    counts = [Counter("".join(reference[whose])) for whose in ("esm", "ours")]
    table = np.array([[count[letter] for letter in LETTERS] for count in counts])
    assert chi2_contingency(table[:, table.sum(0) > 20]).pvalue > 0.001


def test_a_row_depends_on_seed_and_row_alone_and_keeps_the_letters_that_were_given(engine, monkeypatch):
    from harness_plugins.engines.row_chunks import Chunks

    prompt = "MK____HE" * 2
    six = sample(engine, prompt, 6)
    assert sample(engine, prompt, 3).texts == six.texts[:3]
    assert sample(engine, prompt, 3, seed=8).texts != six.texts[:3]
    monkeypatch.setattr(engine, "_chunks", Chunks(2))
    again = sample(engine, prompt, 6)
    assert again.texts == six.texts
    assert again.logprobs == pytest.approx(six.logprobs, abs=1e-4)
    for text, ids in zip(six.texts, six.token_ids, strict=True):
        assert len(text) == len(ids) == 16
        assert (text[:2], text[6:10], text[14:]) == ("MK", "HEMK", "HE")
    assert np.isfinite(six.logprobs).all()
    assert (six.logprobs < 0).all()


# Runs


@pytest.fixture
def options(models, esm3_folder, esm_python, tmp_path):
    """The options of a run on the tiny models, with parameters of the task."""

    def call(head, n=8, length="24+26", **task):
        given = {"length": length, "verifier": models / head, "test_weights": "true", "device": "cpu", **task}
        spec = "proteins:" + ",".join(f"{name}={value}" for name, value in given.items())
        engine = f"esm3:steps=3,device=cpu,test_weights=true,python={esm_python}"
        embedder = f"esmc:model={models / 'esmc'},device=cpu,test_weights=true"
        fixed = ("--task", spec, "--engine", engine, "--model", esm3_folder, "--embedder", embedder)
        rest = ("--n", n, "--selector", "repexp", "--selector", "uniform", "--json", "--store", tmp_path / "runs")
        return ("run", *fixed, *rest)

    return call


def test_the_run_goes_from_masks_to_a_table_and_thresholds_are_moved_for_nothing(harness, options, tmp_path):
    first = harness(*options("good"))
    assert first.code == 0, first.err
    for row in first.rows:
        assert (row["n"], row["problems"], row["solvable"], row["errors"]) == (8, 2, 2, 0)
        assert row["samples_to_correct"] == 1.0
        assert row["model"] == "random weights: tiny-esm3"

    def measured():
        return {path: path.read_bytes() for path in (tmp_path / "runs" / "memo").rglob("*.jsonl")}

    kept = measured()
    assert sum(len(content.splitlines()) - 1 for content in kept.values()) == 16
    verdicts = read(files_of(tmp_path / "runs", "verdicts")[0]).to_pylist()
    assert {verdict["status"] for verdict in verdicts} == {"correct"}
    assert all("plddt=0.99" in verdict["reason"] for verdict in verdicts)
    assert [verdict["answer"] for verdict in verdicts] == [None] * 8

    stricter = harness(*options("good", plddt_min=0.995))
    assert [row["solvable"] for row in stricter.rows] == [0, 0]
    assert measured() == kept
    assert "pool: reused for 2 of 2" in stricter.err
    assert "embeddings: reused for 2 of 2" in stricter.err
    shorter = harness(*options("good", length="24"))
    assert "pool: reused for 1 of 1" in shorter.err
    assert measured() == kept

    # Random weights are shown and stored.
    assert first.err.count("weights: ESM3-open with RANDOM weights") == 1
    weights = json.loads(next((tmp_path / "runs").glob("*/weights.json")).read_text())
    named = {"pool": "ESM3-open", "embedding": "ESM C", "verdict": "ESMFold v1"}
    assert {kind: (row["name"], row["is_random"]) for kind, [row] in weights.items()} == {
        kind: (name, True) for kind, name in named.items()
    }
    cell = json.loads(next((tmp_path / "runs" / "cells").glob("*.json")).read_text())
    assert [model["is_random"] for model in cell["weights"]] == [True] * 3


def test_models_in_the_hubs_cache_are_found_by_their_ids_and_pinned_by_their_commits(
    models, esm3_folder, esm_python, tmp_path
):
    commit = "0123456789abcdef0123456789abcdef01234567"
    for repo, folder in (
        ("biohub/esm3-sm-open-v1", esm3_folder),
        ("biohub/ESMC-600M", models / "esmc"),
        ("facebook/esmfold_v1", models / "good"),
    ):
        cached = tmp_path / "hf" / "hub" / f"models--{repo.replace('/', '--')}"
        shutil.copytree(folder, cached / "snapshots" / commit)
        (cached / "refs").mkdir()
        (cached / "refs" / "main").write_text(commit)
    task = "proteins:length=24,device=cpu,test_weights=true"
    engine = f"esm3:steps=2,device=cpu,test_weights=true,python={esm_python}"
    fixed = ("--task", task, "--engine", engine, "--embedder", "esmc:device=cpu,test_weights=true", "--n", 3)
    command = harness_command("run", *fixed, "--selector", "repexp", "--store", tmp_path / "runs", "--json")
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hf")}
    done = run_to_end(command, env=environment)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)
    assert (row["model"], row["samples_to_correct"]) == ("random weights: biohub/esm3-sm-open-v1", 1.0)
    made = {name: next(tmp_path.glob(f"runs/*/{name}")).read_text() for name in ("pool.json", "vectors.*/column.json")}
    assert all(commit in text for text in made.values())
