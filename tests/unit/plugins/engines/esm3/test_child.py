"""ESM3's sampling, the parts that need no esm: schedule, temperature, letters and streams."""

from __future__ import annotations

import importlib.util
from collections import Counter
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from support.tiny_proteins import CHILD

LETTERS = "ACDEFGHIKLMNPQRSTVWY"


@pytest.fixture(scope="module")
def child():
    spec = importlib.util.spec_from_file_location("esm3_child", CHILD / "child.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_masked_position_is_filled_exactly_once(child):
    for steps, masked in [(1, 9), (4, 24), (20, 64), (20, 916), (100, 7), (64, 64)]:
        counts = child.schedule(steps, masked)
        assert (sum(counts), len(counts)) == (masked, min(steps, masked))
        assert min(counts) >= 0
    assert child.schedule(4, 24) == [2, 5, 8, 9]


def test_the_temperature_falls_with_the_square_of_the_steps_only_where_it_is_annealed(child):
    assert [child.annealed(step, 3, 1.0, True) for step in range(3)] == pytest.approx([1.0, 0.25, 1e-6])
    assert child.annealed(0, 1, 0.7, True) == pytest.approx(0.49)
    assert {child.annealed(step, 3, 0.7, False) for step in range(3)} == {0.7}


def test_the_nucleus_keeps_the_likeliest_letters_within_its_sum_and_always_one(child):
    import torch

    logits = torch.tensor([0.5, 0.3, 0.15, 0.05]).log()
    kept = {top_p: child.nucleus(logits, top_p).isfinite().tolist() for top_p in (1.0, 0.96, 0.81, 0.1)}
    assert {top_p: sum(letters) for top_p, letters in kept.items()} == {1.0: 4, 0.96: 3, 0.81: 2, 0.1: 1}
    assert all(letters == sorted(letters, reverse=True) for letters in kept.values())  # the likeliest stand first


def test_letters_are_drawn_as_likely_as_the_logits_say(child):
    import torch
    from scipy.stats import chisquare

    logits = torch.tensor([2.0, 1.0, 0.0, -1.0, 3.0])
    uniform = torch.as_tensor(np.random.default_rng(1).random((1, 20_000)))
    valid = torch.tensor([0, 1, 3])
    tokens, logprobs = child.sampled_letters(logits.expand(1, 20_000, 5), 0.7, valid, 1.0, uniform)
    counts = Counter(tokens[0].tolist())
    assert set(counts) == {0, 1, 3}
    expected = (logits[valid].double() / 0.7).softmax(-1).numpy() * 20_000
    assert chisquare([counts[0], counts[1], counts[3]], expected).pvalue > 0.01
    assert logprobs[0, 0] == pytest.approx(float(logits.log_softmax(-1)[tokens[0, 0]]))
    outside = child.sampled_letters(logits.expand(1, 20_000, 5), 0.7, valid, 0.5, uniform)[0]
    assert set(outside[0].tolist()) == {0, 1, 3}  # the nucleus holds only 4, which may not be drawn


def test_rows_keep_the_given_letters_and_depend_on_their_seed_and_number_alone(child):
    import torch

    sampler = object.__new__(child.Sampler)
    sampler.device = torch.device("cpu")
    sampler.vocabulary = {name: number for number, name in enumerate(("<cls>", "<eos>", "<mask>", *LETTERS, "X"))}
    passes, logits = [], torch.randn(24, 24, generator=torch.Generator().manual_seed(0))

    def model(sequence_tokens):
        passes.append((sequence_tokens == 2).sum(1).tolist())
        return SimpleNamespace(sequence_logits=logits[sequence_tokens])

    sampler.model = model
    request = {"prompt": "MK__H_____", "steps": 3, "temperature": 1.0, "top_p": 1.0, "annealing": False}
    request["letters"] = LETTERS
    made = sampler.sample(request | {"rows": [[7, row] for row in range(5)]})
    assert passes[0] == [7] * 5
    assert [before[0] - after[0] for before, after in pairwise(passes)] == child.schedule(3, 7)[:2]
    texts = made["sequences"].tolist()
    assert len(set(texts)) == 5
    assert all((text[:2], text[4]) == ("MK", "H") and set(text) <= set(LETTERS) for text in texts)
    assert made["tokens"].shape == (5, 10)
    assert (made["logprobs"] < 0).all()
    again = sampler.sample(request | {"rows": [[7, 3], [8, 3]]})
    assert again["sequences"].tolist()[0] == texts[3] != again["sequences"].tolist()[1]
    assert again["logprobs"][0] == pytest.approx(made["logprobs"][3])
    with pytest.raises(ValueError, match="probabilities are not finite"):
        sampler._columns(torch.full((1, 2), 3), torch.tensor([float("nan")]))
