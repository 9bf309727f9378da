"""Tanimoto in every selector that takes it: by its definition on bits and counts, from rows that were centred."""

from functools import partial

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from support.kernels import reference_tanimoto
from support.refusals import refusal_of
from support.selector_pools import after, assert_law, ranked
from support.vector_pools import assert_greedy, some_verified

from harness import HarnessError, Pool
from harness_selectors.dpp_map import DPPMap, reference_residuals
from harness_selectors.facility_location import FacilityLocation, reference_gains
from harness_selectors.k_dpp import KDPP, reference_law
from harness_selectors.kcenter import KCenter
from harness_selectors.kmeans import KMedoids
from harness_selectors.mmr import MMR, ScoreMMR, reference_quality, reference_scores
from harness_selectors.numerics.similarity import Tanimoto

RNG = np.random.default_rng(40)
BITS = (RNG.random((40, 30)) < 0.2).astype(np.float32)
COUNTS = RNG.poisson(0.4, size=(40, 30)).astype(np.float32)
COPIES = BITS[RNG.integers(12, size=40)] * (RNG.random((40, 1)) < 0.9).astype(np.float32)  # and zero rows


def centred_pool(h) -> Pool:
    """A pool as the harness makes it: the rows are centred, and it knows their mean."""
    n, mean = len(h), h.mean(axis=0)
    logprobs = -np.random.default_rng(n).gamma(2.0, size=n)
    return Pool(["x"] * n, h - mean, logprobs, np.ones(n, np.int64), [None] * n, {"assay": logprobs**2}, mean)


on_bits_and_counts = pytest.mark.parametrize("h", [BITS, COUNTS, COPIES], ids=["bits", "counts", "copies"])


def test_on_bits_it_is_the_jaccard_similarity():
    assert Tanimoto.of(centred_pool(BITS), "x").block(slice(None), slice(None)) == pytest.approx(
        1 - cdist(BITS.astype(bool), BITS.astype(bool), "jaccard"), abs=1e-12
    )


@on_bits_and_counts
def test_every_ranker_picks_by_its_definition_from_the_start_and_after_what_was_verified(h):
    t, pool, n, verified = reference_tanimoto(h), centred_pool(h), len(h), some_verified(len(h))
    quality, score = reference_quality(pool.logprobs), pool.scores["assay"]
    known = {"rtol": 1e-6, "atol": 3e-7 * n}
    for selector, scores, tolerance in (
        (KCenter(metric="tanimoto"), lambda picked: 1 - t[picked].max(axis=0), {}),
        (FacilityLocation("tanimoto"), partial(reference_gains, t), known),
        (DPPMap("tanimoto"), partial(reference_residuals, t, 1e-6), {"rtol": 1e-7, "atol": 1e-12}),
        (MMR(0.3, similarity="tanimoto"), partial(reference_scores, t, quality, 0.3), {}),
        (ScoreMMR(0.3, similarity="tanimoto"), partial(reference_scores, t, score / score.std(), 0.3), {"atol": 1e-9}),
    ):
        assert_greedy(ranked(selector, pool), n, scores, **tolerance)
        assert_greedy(verified + after(selector, pool, verified), n, scores, start=len(verified), **tolerance)


def test_a_k_dpp_samples_each_set_as_often_as_its_determinant_says_and_no_swap_of_a_medoid_is_better():
    h, rng, selector = COUNTS[:6], np.random.default_rng(12), KDPP("tanimoto")
    pool, law = centred_pool(h), reference_law(reference_tanimoto(h), selector.ridge, 3)
    assert_law(lambda: tuple(selector.select(pool, 3, rng)), law, 400)
    pytest.importorskip("kmedoids")
    distance = 1 - reference_tanimoto(COUNTS)
    chosen = KMedoids(metric="tanimoto").select(centred_pool(COUNTS), 5, np.random.default_rng(0))
    swapped = [distance[[*set(chosen) - {old}, new]].min(axis=0).sum() for old in chosen for new in range(len(COUNTS))]
    assert distance[chosen].min(axis=0).sum() <= min(swapped) + 1e-5


def test_rows_with_entries_below_zero_are_refused_with_the_first_cause():
    pool, rng = centred_pool(COUNTS - 1.5 * (np.arange(40) == 7)[:, None].astype(np.float32)), np.random.default_rng(0)
    rankers = [KCenter(metric="tanimoto"), FacilityLocation("tanimoto"), MMR(similarity="tanimoto")]
    lines = [refusal_of(lambda s=s: list(s.rank(pool, rng))) for s in [*rankers, DPPMap("tanimoto")]]
    lines.append(refusal_of(KDPP("tanimoto").select, pool, 3, rng))
    what = "tanimoto is for bits and counts, but the vector of response 7 has the entry -1.5: take another similarity, "
    names = ("kcenter", "facility-location", "mmr", "dpp-map", "k-dpp")
    assert lines == [f"{name}: {what}or if the vectors were projected, a larger --dim" for name in names]
    with pytest.raises(HarnessError, match="has no embeddings"):
        Tanimoto.of(Pool(["a"], np.zeros((1, 0), np.float32), np.zeros(1), np.ones(1), [None]), "kcenter")
