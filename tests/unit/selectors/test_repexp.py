"""RepExp and uniform: the right picks on every kind of features, lazily, and nothing else touched."""

from __future__ import annotations

from collections import Counter
from itertools import islice, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy.stats import chisquare
from support.repexp_features import HARSH, ORDINARY, assert_greedy, clustered, fewer_than_dimensions, gaussian
from support.selector_pools import pool_of

from harness import HarnessError
from harness_selectors.numerics import elliptical, elliptical_bounds
from harness_selectors.repexp import RepExp, reference_bonuses, reference_order
from harness_selectors.uniform import Uniform

Floats = NDArray[np.floating]


def repexp(h: Floats, lam: float = 1.0, first: str = "random", seed: int = 0) -> list[int]:
    return list(RepExp(lam=lam, first=first).rank(pool_of(embeddings=h), np.random.default_rng(seed)))


@pytest.fixture(params=["tiny active set", "usual active set"])
def active(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small pools fit into the usual active set whole; a tiny one sends them through bounds, joining and leaving.

    With that margin a block goes on with picks that are not sure until it is full, and is cut afterwards.
    """
    if request.param.startswith("tiny"):
        shrunk = {"ACTIVE": 4, "FEW": 2, "SLOTS": 6, "WHOLE": 7, "BLOCK": 5, "MARGIN": -1e3, "RENEW": 10}
        for name, value in shrunk.items():
            monkeypatch.setattr(elliptical, name, value)
        monkeypatch.setattr(elliptical_bounds, "CHUNK", 5)
        monkeypatch.setattr(elliptical_bounds, "LASTING", 3)


@pytest.mark.usefixtures("active")
@pytest.mark.parametrize("lam", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("family", ORDINARY)
def test_every_pick_has_the_best_bonus(family, lam):
    h = family(np.random.default_rng(1)).astype(np.float32)
    assert_greedy(h, repexp(h, lam), lam)


@pytest.mark.usefixtures("active")
@pytest.mark.parametrize("lam", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("family", HARSH)
def test_every_pick_has_the_best_bonus_on_badly_conditioned_features(family, lam):
    h = family(np.random.default_rng(2)).astype(np.float32)
    assert_greedy(h, repexp(h, lam), lam)


@pytest.mark.usefixtures("active")
@pytest.mark.parametrize("lam", [1e-38, 1e38])
def test_bonuses_that_float32_cannot_hold_are_ordered_too(lam):
    sizes = np.random.default_rng(19).uniform(1, 9, size=30).astype(np.float32)
    order = repexp(np.diag(sizes), lam)
    assert order[1:] == [i for i in np.argsort(-sizes) if i != order[0]]


@pytest.mark.parametrize("family", [gaussian, clustered, fewer_than_dimensions])
def test_the_order_is_that_of_the_reference(family):
    h = family(np.random.default_rng(3)).astype(np.float32)
    order = repexp(h)
    assert order == reference_order(h, 1.0, order[:1])


def test_a_pool_larger_than_the_active_set_is_ordered_as_by_the_reference():
    rng = np.random.default_rng(4)
    h = rng.normal(size=(1500, 24)) @ rng.normal(size=(24, 48)) + 0.3 * rng.normal(size=(1500, 48))
    h = (h - h.mean(axis=0)).astype(np.float32)
    order = repexp(h)
    assert order == reference_order(h, 1.0, order[:1])


def mixture(rng: np.random.Generator, n: int) -> Floats:
    """More distinct rows than fit into the active set, so near to each other that few picks are sure at once."""
    return (3 * rng.normal(size=(30, 24))[rng.integers(30, size=n)] + rng.normal(size=(n, 24))).astype(np.float32)


@pytest.mark.parametrize("margin", [-1e3, 0.1, 1.0])
def test_a_block_goes_on_after_its_sure_picks_and_is_cut_before_the_first_wrong_one(margin, monkeypatch):
    h, blocks, fall = mixture(np.random.default_rng(20), 1500), [], elliptical_bounds.OutsideRows.fall

    def recorded_fall(self, bound, v, best, sure, active):
        right = fall(self, bound, v, best, sure, active)
        blocks.append((sure, right, len(v)))
        return right

    monkeypatch.setattr(elliptical, "MARGIN", margin)
    monkeypatch.setattr(elliptical_bounds.OutsideRows, "fall", recorded_fall)
    order = repexp(h)
    assert order == reference_order(h, 1.0, order[:1])
    assert all(1 <= sure <= right <= tried for sure, right, tried in blocks)
    assert (sum(right for _, right, _ in blocks) > 1.3 * sum(sure for sure, _, _ in blocks)) == (margin < 1)
    assert any(right < tried for _, right, tried in blocks) == (margin < 1)


@pytest.mark.usefixtures("active")
def test_copies_come_in_the_order_of_their_indices_however_their_block_ends():
    rng = np.random.default_rng(21)
    row = rng.permutation(np.repeat(np.arange(800), 2))
    h = mixture(rng, 800)[row]
    order = repexp(h)
    early = np.flatnonzero(np.isin(row, row[order[:9]]))[::-2].tolist()  # of copies the later ones among them
    for before, rest in ((order[:1], order[1:]), (early, list(RepExp().rank_after(pool_of(embeddings=h), early, rng)))):
        assert sorted(before + rest) == list(range(1600))
        assert row[rest].tolist() == row[reference_order(h, 1.0, before)[len(before) :]].tolist()
        assert all((np.diff([index for index in rest if row[index] == i]) > 0).all() for i in range(800))


@pytest.mark.parametrize("renew", [10, 10**9])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e60])
def test_bounds_stay_bounds_and_are_nearly_exact_once_computed_anew(renew, scale, monkeypatch):
    h = scale * mixture(np.random.default_rng(22), 1500).astype(np.float64)
    excess, activate_largest = [], elliptical._Greedy._activate_largest

    def checked(self, forced):
        if self.factor is not None:
            left = self.bound > -np.inf
            exact = np.square(self.h[left].astype(np.float64) @ self.factor).sum(axis=1)
            assert (self.bound[left] >= exact * (1 - 1e-9)).all()
            excess.append(np.median(self.bound[left] / exact) - 1)
        activate_largest(self, forced)

    monkeypatch.setattr(elliptical, "RENEW", renew)
    monkeypatch.setattr(elliptical, "STALE", 1e-4)
    monkeypatch.setattr(elliptical._Greedy, "_activate_largest", checked)
    repexp(h, lam=scale**2)
    assert len(excess) > 5
    assert (max(excess) < 1e-3) == (renew == 10)


@settings(max_examples=60, deadline=None)
@given(
    h=arrays(np.float32, st.tuples(st.integers(1, 14), st.integers(1, 6)), elements=st.integers(-3, 3)),
    lam=st.sampled_from([0.01, 1.0, 100.0]),
)
def test_small_integer_features_full_of_ties_are_ordered_greedily(h, lam):
    assert_greedy(h, repexp(h, lam, first="max"), lam, first=0)


@pytest.mark.usefixtures("active")
def test_ties_go_to_the_lowest_index():
    signs = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]] * 10, np.float32)
    assert repexp(signs, first="max")[:3] == [0, 1, 2]
    assert repexp(np.ones((40, 3), np.float32), first="max") == list(range(40))
    assert repexp(np.zeros((40, 3), np.float32), first="max") == list(range(40))
    assert repexp(np.tile(np.eye(5, dtype=np.float32), (8, 1)), first="max") == list(range(40))
    hypercube = np.array([[1 - 2 * (i >> bit & 1) for bit in range(7)] for i in range(128)], np.float32)
    assert repexp(hypercube, first="max")[0] == 0


def test_equal_rows_after_a_random_first_pick_come_in_the_order_of_their_indices():
    order = repexp(np.zeros((9, 2), np.float32), seed=5)
    assert order[1:] == sorted(order[1:])


def test_the_reference_bonuses_are_those_of_the_inverse():
    h = np.random.default_rng(5).normal(size=(8, 3))
    for k in range(9):
        inverse = np.linalg.inv(0.7 * np.eye(3) + sum((np.outer(row, row) for row in h[:k]), np.zeros((3, 3))))
        assert reference_bonuses(h, 0.7, range(k)) == pytest.approx([row @ inverse @ row for row in h], rel=1e-12)


def test_picks_of_the_reference_and_ours_maximise_the_log_determinant():
    h = np.random.default_rng(6).normal(size=(8, 5))
    kernel = np.eye(8) + h @ h.T / 0.7
    order = repexp(h, lam=0.7, first="max")
    assert order == reference_order(h, 0.7, [])
    for k in range(8):
        gain = {i: np.linalg.slogdet(kernel[np.ix_(s, s)])[1] for i in order[k:] for s in [[*order[:k], i]]}
        assert max(gain, key=gain.__getitem__) == order[k]


@pytest.mark.usefixtures("active")
@pytest.mark.parametrize("lam", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("family", ORDINARY + HARSH)
def test_after_picks_made_before_the_rest_is_ordered_greedily(family, lam):
    h = family(np.random.default_rng(12))
    before = np.random.default_rng(13).permutation(len(h))[:7].tolist()
    rest = list(RepExp(lam=lam).rank_after(pool_of(embeddings=h), before, np.random.default_rng(0)))
    assert_greedy(h, before + rest, lam, first=len(before))


@pytest.mark.parametrize("first", ["random", "max"])
def test_after_the_beginning_of_its_own_order_it_goes_on_with_that_order(first):
    pool = pool_of(embeddings=np.random.default_rng(14).normal(size=(900, 20)).astype(np.float32))
    order = list(RepExp(first=first).rank(pool, np.random.default_rng(0)))
    for k in (0, 1, 50, 899, 900):
        assert list(RepExp(first=first).rank_after(pool, order[:k], np.random.default_rng(0))) == order[k:]


def test_all_copies_of_a_row_but_those_picked_before_are_still_offered():
    h = np.repeat(np.eye(3, dtype=np.float32), 2, axis=0)
    assert list(RepExp().rank_after(pool_of(embeddings=h), [3, 0, 1], np.random.default_rng(0))) == [4, 2, 5]


def test_float16_embeddings_are_ranked_as_their_float32_values():
    h = gaussian(np.random.default_rng(7)).astype(np.float16)
    assert repexp(h) == repexp(h.astype(np.float32))


def test_one_response_is_ranked_alone_and_none_are_not_ranked():
    assert repexp(np.ones((1, 4), np.float32)) == [0]
    assert repexp(np.empty((0, 4), np.float32)) == []


def test_the_first_picks_are_those_of_the_full_order():
    h = np.random.default_rng(8).normal(size=(700, 10)).astype(np.float32)
    ranking = RepExp().rank(pool_of(embeddings=h), np.random.default_rng(0))
    assert list(islice(ranking, 40)) == repexp(h)[:40]


def test_pulling_few_picks_does_little_of_the_work(monkeypatch):
    work = Counter()
    join, fall = elliptical._ActiveSet.join, elliptical_bounds.OutsideRows.fall

    def counted_join(self, rows, g):
        work["joins"] += len(rows)
        join(self, rows, g)

    def counted_fall(self, *args):
        work["falls"] += 1
        return fall(self, *args)

    monkeypatch.setattr(elliptical._ActiveSet, "join", counted_join)
    monkeypatch.setattr(elliptical_bounds.OutsideRows, "fall", counted_fall)
    h = np.random.default_rng(9).normal(size=(3000, 16)).astype(np.float32)
    ranking = RepExp().rank(pool_of(embeddings=h), np.random.default_rng(0))
    assert not work
    list(islice(ranking, 16))
    few = work.copy()
    list(ranking)
    assert few["falls"] <= 16
    assert few["falls"] * 10 < work["falls"]
    assert few["joins"] * 5 < work["joins"]


def test_the_same_seed_gives_the_same_order():
    h = clustered(np.random.default_rng(10)).astype(np.float32)
    assert repexp(h, seed=3) == repexp(h, seed=3)


def test_only_the_first_pick_depends_on_the_rng_and_it_takes_one_number():
    h = gaussian(np.random.default_rng(11)).astype(np.float32)
    rng, same = np.random.default_rng(12), np.random.default_rng(12)
    order = list(RepExp().rank(pool_of(embeddings=h), rng))
    assert order[0] == same.integers(len(h))
    assert rng.random() == same.random()


def test_first_max_uses_no_randomness_and_starts_with_the_longest_row():
    h = gaussian(np.random.default_rng(13)).astype(np.float32)
    rng = np.random.default_rng(14)
    assert next(RepExp(first="max").rank(pool_of(embeddings=h), rng)) == np.linalg.norm(h, axis=1).argmax()
    assert rng.random() == np.random.default_rng(14).random()


def test_the_first_pick_is_uniform():
    pool, rng = pool_of(embeddings=np.array([[0], [1], [1], [5], [-9], [100]], np.float32)), np.random.default_rng(15)
    firsts = Counter(next(RepExp().rank(pool, rng)) for _ in range(1800))
    assert chisquare([firsts[i] for i in range(6)]).pvalue > 0.001


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_embeddings_are_not_changed(dtype):
    h = np.random.default_rng(16).normal(size=(600, 6)).astype(dtype)
    before = h.copy()
    repexp(h)
    assert np.array_equal(h, before)


def test_a_pool_without_embeddings_asks_for_an_embedder():
    with pytest.raises(HarnessError, match="repexp: the pool has no embeddings; it needs an embedder"):
        RepExp().rank(pool_of(embeddings=np.empty((5, 0), np.float32)), np.random.default_rng(0))


@pytest.mark.parametrize(("lam", "allowed"), [(-1.0, "> 0, got -1.0"), (0.0, "> 0, got 0.0"), (np.nan, "> 0, got nan")])
def test_a_lam_that_is_not_positive_is_refused(lam, allowed):
    with pytest.raises(HarnessError, match=f"repexp: lam must be {allowed}"):
        RepExp(lam=lam)


def test_an_infinite_lam_and_an_unknown_first_are_refused():
    with pytest.raises(HarnessError, match="repexp: lam must be > 0 and finite, got inf"):
        RepExp(lam=np.inf)
    with pytest.raises(HarnessError, match="repexp: first must be 'random' or 'max', got 'min'"):
        RepExp(first="min")


def test_the_selectors_say_which_columns_they_need():
    assert RepExp.needs == ("embeddings",)
    assert Uniform.needs == ()


def test_uniform_ranks_every_order_equally_often():
    pool, rng = pool_of(embeddings=np.empty((3, 0), np.float32)), np.random.default_rng(17)
    orders = Counter(tuple(Uniform().rank(pool, rng)) for _ in range(6000))
    assert chisquare([orders[order] for order in permutations(range(3))]).pvalue > 0.001
    assert sum(orders.values()) == sum(orders[order] for order in permutations(range(3)))
