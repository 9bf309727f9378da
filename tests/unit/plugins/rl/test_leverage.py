"""Leverages against brute force, and the random projection of the states."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.rollouts import brute_force_leverage, random_rows

from harness import HarnessError
from harness_plugins.rl.leverage import centred, leave_one_out, leverage, projected, sparse_projection

SIZES = ((8, 32), (8, 4), (2, 1), (16, 16), (5, 128))


@pytest.mark.parametrize("remembered", [0, 20])
def test_leverage_is_that_of_one_update_a_rollout(remembered):
    for (n, k), lam in itertools.product(SIZES, (0.01, 1.0, 50.0)):
        h, before = centred(random_rows(n + k, n, k)), random_rows(2, remembered, k)
        memory = before.T @ before if remembered else None
        expected = brute_force_leverage(h.numpy(), lam, before.numpy().T @ before.numpy())
        assert leverage(h, lam, memory).numpy() == pytest.approx(expected, abs=1e-9), (n, k, lam)


@given(st.integers(0, 10_000), st.integers(2, 12), st.integers(1, 40), st.floats(1e-6, 1e3), st.floats(1e-3, 1e3))
def test_leverages_are_from_nothing_to_one_and_sum_to_the_trace(seed, n, k, lam, scale):
    h = centred(random_rows(seed, n, k, scale))
    figures, eigenvalues = leverage(h, lam), torch.linalg.svdvals(h) ** 2
    assert bool(((figures >= 0) & (figures <= 1)).all())
    assert float(figures.sum()) == pytest.approx(float((eigenvalues / (eigenvalues + lam)).sum()), abs=1e-10)


@pytest.mark.parametrize(("n", "k", "rank"), [(8, 32, 7), (8, 4, 4)])
def test_leverages_tend_to_the_rank_as_lam_tends_to_nothing(n, k, rank):
    sums = [float(leverage(centred(random_rows(3, n, k)), lam).sum()) for lam in (1e-2, 1e-6, 1e-12)]
    assert sums == sorted(sums)
    assert sums[-1] == pytest.approx(rank, abs=1e-8)


@pytest.mark.parametrize("lam", [0.01, 1.0])
def test_leave_one_out_leaves_the_rollout_out(lam):
    h = centred(random_rows(5, 8, 32))
    expected = []
    for left_out in range(8):
        others = np.delete(h.numpy(), left_out, axis=0)
        inverse = np.linalg.inv(others.T @ others + lam * np.eye(32))
        expected.append(float(h[left_out].numpy() @ inverse @ h[left_out].numpy()))
    assert leave_one_out(leverage(h, lam)).numpy() == pytest.approx(expected, rel=1e-8)


def test_equal_rollouts_have_equal_leverages_and_all_equal_ones_none():
    h = random_rows(6, 8, 32)
    h[3] = h[5]
    figures = leverage(centred(h), 0.01)
    assert float(figures[3]) == pytest.approx(float(figures[5]), abs=1e-12)
    assert leverage(centred(h[:1].repeat(8, 1)), 0.01).numpy() == pytest.approx(0, abs=1e-12)


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


def test_narrow_states_are_not_projected_and_wide_ones_keep_their_lengths_on_average():
    h = random_rows(0, 40, 32)
    assert torch.equal(projected(h.float(), 32, 0, 0), h.float().double())
    wide = random_rows(1, 400, 3584)
    ratio = projected(wide, 128, 0, 0).pow(2).sum(1) / wide.pow(2).sum(1)
    assert float(ratio.mean()) == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_states_that_are_no_numbers_are_refused(value):
    with pytest.raises(HarnessError, match="the hidden states hold NaN or inf"):
        projected(torch.tensor([[0.0, value]]), 32, 0, 0)
