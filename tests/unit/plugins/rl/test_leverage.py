"""Leverages against brute force, and the random projection of the states."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.refusals import refusal_of
from support.rollouts import brute_force_leverage, random_rows

from harness_plugins.rl.leverage import centred, leave_one_out, leverage, projected, sparse_projection

SIZES = ((8, 32), (8, 4), (2, 1), (16, 16), (5, 128))


def test_leverage_is_that_of_one_update_a_rollout():
    for remembered, (n, k), lam in itertools.product((0, 20), SIZES, (0.01, 1.0, 50.0)):
        h, before = centred(random_rows(n + k, n, k)), random_rows(2, remembered, k)
        memory = before.T @ before if remembered else None
        expected = brute_force_leverage(h.numpy(), lam, before.numpy().T @ before.numpy())
        assert leverage(h, lam, memory).numpy() == pytest.approx(expected, abs=1e-8), (remembered, n, k, lam)


@given(st.integers(0, 10_000), st.integers(2, 12), st.integers(1, 40), st.floats(1e-12, 1e3), st.floats(1e-3, 1e3))
def test_leverages_are_from_nothing_to_one_and_sum_to_the_trace_however_small_lam_is(seed, n, k, lam, scale):
    h = centred(random_rows(seed, n, k, scale))
    figures, eigenvalues = leverage(h, lam), torch.linalg.svdvals(h) ** 2
    assert bool(((figures >= 0) & (figures <= 1)).all())
    assert float(figures.sum()) == pytest.approx(float((eigenvalues / (eigenvalues + lam)).sum()), abs=1e-8)


def test_leave_one_out_leaves_the_rollout_out():
    h, lam = centred(random_rows(5, 8, 32)), 0.01
    expected = []
    for left_out in range(8):
        others = np.delete(h.numpy(), left_out, axis=0)
        inverse = np.linalg.inv(others.T @ others + lam * np.eye(32))
        expected.append(float(h[left_out].numpy() @ inverse @ h[left_out].numpy()))
    assert leave_one_out(leverage(h, lam)).numpy() == pytest.approx(expected, rel=1e-8)


def test_the_projection_is_drawn_from_seed_and_step_alone():
    torch.manual_seed(1)
    np.random.seed(1)
    first = sparse_projection(3584, 32, 7, 3).clone()
    others = [sparse_projection(3584, 32, *place) for place in ((8, 3), (7, 4))]  # and the cache forgets the first
    torch.manual_seed(2)
    np.random.seed(2)
    assert torch.equal(first, sparse_projection(3584, 32, 7, 3))
    assert not any(torch.equal(first, other) for other in others)


def test_the_projection_is_the_sparse_one_of_the_authors():
    matrix = sparse_projection(3584, 32, 0, 0)
    assert matrix.shape == (3584, 32)
    values = matrix[matrix != 0]
    assert values.abs().numpy() == pytest.approx(math.sqrt(math.sqrt(3584) / 32))  # ±1.368
    assert len(values) / matrix.numel() == pytest.approx(1 / math.sqrt(3584), rel=0.1)
    assert float((values > 0).double().mean()) == pytest.approx(0.5, abs=0.05)


def test_narrow_states_are_not_projected_and_what_is_no_number_is_refused():
    h = random_rows(0, 40, 32).float()
    assert torch.equal(projected(h, 32, 0, 0), h.double())
    for value in (math.nan, math.inf):
        h[3, 4] = value
        assert refusal_of(projected, h, 32, 0, 0) == "bonus: the hidden states hold NaN or inf"
