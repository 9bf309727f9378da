"""Our picks by independent libraries: the extra `oracles`, which an environment of its own may have."""

from collections import Counter
from itertools import islice, pairwise

import numpy as np
import pytest
from scipy.stats import chisquare
from support.kernels import reference_gaussian, reference_similarities
from support.selector_pools import ranked
from support.vector_pools import large_pool, vector_pool

from harness_selectors.dpp_map import DPPMap
from harness_selectors.facility_location import FacilityLocation
from harness_selectors.k_dpp import reference_law
from harness_selectors.ngram_coverage import WORD, coverage_rounds, incidence

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),  # numpy of their day
]


def covered(s, order):
    """The value of every prefix. Two rows that are each other's nearest tie, and either leads to the same values."""
    return np.maximum.accumulate(s[order], axis=0).sum(axis=1)


@pytest.mark.parametrize("kind", ["cosine", "rbf", "euclidean"])
def test_facility_location_gains_what_apricot_and_submodlib_do(kind):
    apricot, submodlib = pytest.importorskip("apricot"), pytest.importorskip("submodlib")
    h = large_pool()[:300]
    s, order = reference_similarities(h, kind), ranked(FacilityLocation(kind), vector_pool(h))
    theirs = apricot.FacilityLocationSelection(150, metric="precomputed", optimizer="naive").fit(s).ranking
    function = submodlib.FacilityLocationFunction(n=300, mode="dense", sijs=s, separate_rep=False)
    picks = function.maximize(budget=150, optimizer="LazyGreedy", show_progress=False)
    for other in (theirs.tolist(), [index for index, _ in picks]):
        assert order[:20] == other[:20]
        assert covered(s, order[:150]) == pytest.approx(covered(s, other), rel=1e-6)


def test_dpp_map_picks_as_submodlibs_log_determinant_does():
    submodlib = pytest.importorskip("submodlib")
    h = large_pool()[:300]
    theirs = submodlib.LogDeterminantFunction(n=300, mode="dense", lambdaVal=1e-2, sijs=reference_gaussian(h))
    picks = [index for index, _ in theirs.maximize(budget=60, optimizer="NaiveGreedy", show_progress=False)]
    seed = next(seed for seed in range(9999) if np.random.default_rng(seed).integers(300) == picks[0])
    assert ranked(DPPMap(ridge=1e-2), vector_pool(h), seed)[:60] == picks


def test_ngram_coverage_picks_as_submodlib_does():
    submodlib = pytest.importorskip("submodlib")
    rng = np.random.default_rng(11)
    texts = [" ".join(f"w{rank}" for rank in np.minimum(rng.zipf(1.4, size=40), 500)) for _ in range(60)]
    has = incidence(texts, 2, WORD.findall)
    cover = [set(has.indices[start:end].tolist()) for start, end in pairwise(has.indptr)]
    weight = rng.integers(1, 1000, size=has.shape[1]).astype(float)
    theirs = submodlib.SetCoverFunction(
        n=len(texts), cover_set=cover, num_concepts=has.shape[1], concept_weights=weight.tolist()
    ).maximize(budget=25, optimizer="LazyGreedy", verbose=False, show_progress=False)
    assert [index for index, _ in theirs] == list(islice(coverage_rounds(has, weight), 25))


def test_dppy_samples_by_the_law_to_which_k_dpp_is_held():
    dpps = pytest.importorskip("dppy.finite_dpps")
    kernel = reference_gaussian(np.random.default_rng(21).normal(size=(8, 4)).astype(np.float32))
    theirs, state = dpps.FiniteDPP("likelihood", L=kernel), np.random.RandomState(0)
    counts = Counter(tuple(sorted(theirs.sample_exact_k_dpp(3, random_state=state))) for _ in range(3000))
    law = reference_law(kernel, 1e-6, 3)
    often = [s for s in law if law[s] * 3000 >= 5]
    assert chisquare([counts[s] for s in often], [law[s] * 3000 for s in often], sum_check=False).pvalue > 0.001
