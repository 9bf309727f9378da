"""Engine esm3 around a child that is not ESM3, and what of that child needs no esm; with ESM3: tests/environments."""

import importlib.util
import sys
from collections import Counter

import numpy as np
import pytest
from support.refusals import refusal_of

from harness import Sampler
from harness.records import SampleRequest
from harness_plugins.engines.esm3.engine import WEIGHTS, Esm3, masked
from harness_plugins.proteins.tiny import CHILD

STUB = """
# Answers as ESM3's child does: row i is the i-th letter, three rows fit into memory.
import json, sys
for line in sys.stdin:
    request, answer = json.loads(line), {}
    if request["do"] == "sample":
        length, rows = len(request["prompt"]), [row for _, row in request["rows"]]
        answer = {"sequences": [chr(65 + row) * length for row in rows], "logprobs": [-1.0] * len(rows)}
        answer["tokens"] = [[row] * length for row in rows]
        if request["steps"] == 13:
            sys.exit("unlucky")
        if len(rows) > 3:
            answer = {"out_of_memory": "3 rows fit"}
        if request["top_p"] < 0.5:
            answer = {"error": "KeyError: top_p"}
    print(json.dumps(answer), flush=True)
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "tiny" / WEIGHTS).parent.mkdir(parents=True)
    (tmp_path / "tiny" / WEIGHTS).write_bytes(b"weights")
    (tmp_path / "tiny" / "sizes.json").write_text('{"d_model": 64}')
    return tmp_path / "tiny"


@pytest.fixture
def engine(folder, tmp_path):
    python = tmp_path / "python"
    python.write_text(f"#!{sys.executable}{STUB}")
    python.chmod(0o755)
    return lambda **options: Esm3(str(folder), python=str(python), device="cpu", test_weights=True, **options)


def chat(text):
    return [{"role": "system", "content": "x"}, {"role": "user", "content": text}]


def sample(engine, prompt, n, **sampler):
    return engine.sample(SampleRequest([chat(prompt)], n=n, sampler=Sampler(**sampler), max_tokens=100, seeds=[7]))[0]


def test_rows_come_in_batches_that_fit_into_memory_and_the_child_ends_with_its_engine(engine):
    small = engine(batch=8)
    responses = sample(small, " ____ ", 7)
    assert responses.texts == [letter * 4 for letter in "ABCDEFG"]
    assert (list(responses.finish), responses.lengths.tolist()) == (["stop"] * 7, [4] * 7)
    assert (responses.logprobs.tolist(), responses.token_ids[6]) == ([-1.0] * 7, [6] * 4)
    assert small._chunks.size == 3
    process = small._child._process
    assert "_child" not in small.__getstate__()  # it does not travel
    del small
    assert process.wait() is not None


def test_a_child_that_fails_or_dies_is_one_line(engine):
    assert refusal_of(sample, engine(), "____", 1, top_p=0.1) == "esm3: KeyError: top_p"
    assert refusal_of(sample, engine(steps=13), "____", 1) == "esm3: its process ended (unlucky)"


def test_what_esm3_cannot_do_is_refused_and_wrong_options_and_folders_at_once(engine, folder, tmp_path):
    for prompt, sampler, words in (
        ("Say something.", {}, "a prompt is a sequence of _ and amino acids"),
        ("MKTA", {}, "has no _ to fill in"),
        ("_" * 101, {}, "a sequence of 101 is longer than --max-tokens 100"),
        ("____", {"top_k": 4}, "takes temperature and top_p"),
    ):
        assert words in refusal_of(sample, engine(), prompt, 1, **sampler)
    assert masked(chat(" MK_\n_A ")) == "MK__A"
    engine().check([chat("_" * 2048)], 5000)
    assert "ESM3's context of 2048" in refusal_of(engine().check, [chat("_" * 2049)], 5000)
    assert "choose --embedder esmc" in refusal_of(engine().encode)
    assert "alphabet must be one of canonical, all, got 'rna'" in refusal_of(engine, alphabet="rna")
    assert refusal_of(engine, steps=0) == "esm3: steps must be at least 1, got 0"
    assert "as no published ESM3-open has: is it random?" in refusal_of(Esm3, str(folder))
    (folder / "sizes.json").unlink()
    assert Esm3(str(folder)).name == "tiny"  # taken for the published one
    line = refusal_of(Esm3, str(tmp_path))
    assert f"has no {WEIGHTS}: give a clone of biohub/esm3-sm-open-v1" in line


def test_alphabet_annealing_and_steps_stand_in_the_identity(engine, monkeypatch):
    versions = {"esm": "3.2.1", "torch": "2.13", "cuda": True}
    monkeypatch.setattr("harness_plugins.engines.esm3.engine.installed", lambda python: versions)
    identity = engine().identity()
    assert (identity["dtype"], identity["esm"], identity["model"]) == ("float32", "3.2.1", "random weights: tiny")
    for options in ({"annealing": False}, {"steps": 2}, {"alphabet": "all"}):
        assert engine(**options).identity() == identity | options != identity


@pytest.fixture(scope="module")
def child():
    spec = importlib.util.spec_from_file_location("esm3_child", CHILD / "child.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_masked_position_is_filled_once_and_the_temperature_falls_only_where_it_is_annealed(child):
    for steps, positions in [(1, 9), (4, 24), (20, 916), (100, 7), (64, 64)]:
        counts = child.schedule(steps, positions)
        assert (sum(counts), len(counts), min(counts) >= 0) == (positions, min(steps, positions), True)
    assert child.schedule(4, 24) == [2, 5, 8, 9]
    assert [child.annealed(step, 3, 1.0, True) for step in range(3)] == pytest.approx([1.0, 0.25, 1e-6])
    assert child.annealed(0, 1, 0.7, True) == pytest.approx(0.49)
    assert {child.annealed(step, 3, 0.7, False) for step in range(3)} == {0.7}


def test_letters_are_drawn_as_likely_as_the_logits_say(child):
    import torch
    from scipy.stats import chisquare

    logits, valid = torch.tensor([2.0, 1.0, 0.0, -1.0, 3.0]), torch.tensor([0, 1, 3])
    rows, uniform = logits.expand(1, 20_000, 5), torch.as_tensor(np.random.default_rng(1).random((1, 20_000)))
    tokens, logprobs = child.sampled_letters(rows, 0.7, valid, 1.0, uniform)
    counts = Counter(tokens[0].tolist())
    assert set(counts) == {0, 1, 3}
    expected = (logits[valid].double() / 0.7).softmax(-1).numpy() * 20_000
    assert chisquare([counts[0], counts[1], counts[3]], expected).pvalue > 0.01
    assert logprobs[0, 0] == pytest.approx(float(logits.log_softmax(-1)[tokens[0, 0]]))
    outside = child.sampled_letters(rows, 0.7, valid, 0.5, uniform)[0]
    assert set(outside[0].tolist()) == {0, 1, 3}  # the nucleus holds only 4, which may not be sampled
