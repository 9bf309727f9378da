"""What all selectors have in common: their parameters and columns, ties, randomness, and how they go on.

The conformance kit shows the rest: permutations, purity, pickling, seeds, and pools out of the ordinary.
"""

import math
import sys
from collections import Counter
from functools import partial
from itertools import permutations

import numpy as np
import pytest
from corpora.selector_refusals import ROWS
from scipy.stats import chisquare
from support.processes import printed_by
from support.refusals import refusal_of
from support.selector_pools import after, assert_equally_often, mixed_pool, pool_of, ranked
from support.vector_pools import FAMILIES, on_every_family, vector_pool

from harness import Pool
from harness.plugin_system.registry import load_registry
from harness_selectors.answer_round_robin import AnswerRoundRobin
from harness_selectors.dedup import Dedup
from harness_selectors.dpp_map import DPPMap
from harness_selectors.facility_location import FacilityLocation
from harness_selectors.in_order import InOrder
from harness_selectors.k_dpp import KDPP
from harness_selectors.kcenter import KCenter
from harness_selectors.kmeans import KMeans
from harness_selectors.kmeans_pp import KMeansPP
from harness_selectors.kmedoids import KMedoids
from harness_selectors.length import Length
from harness_selectors.likelihood import Logprob, Unlikely
from harness_selectors.mmr import MMR
from harness_selectors.ngram_coverage import NgramCoverage
from harness_selectors.outcome_ucb import OutcomeUcb
from harness_selectors.repexp import RepExp
from harness_selectors.rnd import RandomNetworkDistillation
from harness_selectors.uniform import Uniform

RND = partial(RandomNetworkDistillation, width=8, steps=2)
FIXED_VECTORS = [
    *(RepExp(first="max"), RepExp(first="max", device="cpu"), KCenter("max"), DPPMap(first="max")),
    *(DPPMap("cosine", first="max"), MMR(), MMR(alpha=0.1, quality="logprob")),
    *(FacilityLocation(), FacilityLocation("rbf"), FacilityLocation("euclidean")),
]
RANDOM_FIRST = [RepExp(), KCenter(), DPPMap(), DPPMap("cosine")]
RANDOM_VECTORS = [*RANDOM_FIRST, KMeansPP(), RND()]
RANDOM_TEXTS = [
    *(Uniform(), Dedup(), Dedup(by="answer"), AnswerRoundRobin(), OutcomeUcb(), OutcomeUcb(bonus="batch")),
    AnswerRoundRobin(order="random", unanswered="cluster"),
    OutcomeUcb(bonus="batch", value="none", unanswered="cluster"),
]
FIXED_TEXTS = [
    *(Logprob(), Logprob(per="token"), Unlikely(), Unlikely(per="token"), Length(), Length(first="long")),
    *(NgramCoverage(), NgramCoverage(weights="idf"), NgramCoverage(unit="character", ngrams=3)),
]
VECTORS, TEXTS = FIXED_VECTORS + RANDOM_VECTORS, FIXED_TEXTS + RANDOM_TEXTS
FIXED = FIXED_VECTORS + FIXED_TEXTS
SUBSETS = [KMeans(), KDPP(), KDPP("linear"), KDPP("rbf")]


def test_a_wrong_parameter_is_refused_in_one_line():
    registry = load_registry()
    for name, parameter, value, fault in ROWS:
        selector = registry.find("selector", name).load()
        assert refusal_of(selector, **{parameter: value}) == f"{name}: {fault}"


def test_a_selector_says_which_columns_it_needs():
    needs = {selector: {"embeddings"} for selector in VECTORS + SUBSETS} | {selector: set() for selector in TEXTS}
    needs |= {MMR(): {"embeddings", "logprobs"}, MMR(0.1, "logprob"): {"embeddings", "logprobs"}}
    needs |= {selector: {"logprobs"} for selector in TEXTS if isinstance(selector, Logprob | Unlikely)}
    assert {selector: set(selector.needs) for selector in needs} == needs


def test_a_column_that_is_missing_is_refused():
    bare, rng = pool_of(["a", "b"]), np.random.default_rng(0)
    lines = {s: refusal_of(lambda s=s: list(s.rank(bare, rng))) for s in VECTORS}
    lines |= {s: refusal_of(s.select, bare, 1, rng) for s in SUBSETS}
    assert [line for line in lines.values() if ": the pool has no embeddings; it needs an embedder" not in line] == []
    for selector, name in ((MMR(), "mmr"), (Logprob(), "logprob"), (Unlikely(per="token"), "unlikely")):
        for logprobs, fault in (([math.nan] * 3, "has no log-prob"), ([-1, math.nan, -2], "of response 1 is nan")):
            line = refusal_of(selector.rank, pool_of(embeddings=np.eye(3), logprobs=logprobs), rng)
            assert line.startswith(f"{name}: the ")
            assert fault in line


def test_one_response_is_ranked_alone_and_none_are_not_ranked():
    for selector in VECTORS + TEXTS:
        none = mixed_pool(0).part([]) if selector in TEXTS else vector_pool(np.empty((0, 4), np.float32))
        assert ranked(selector, none) == [], selector
        order = ranked(selector, vector_pool(np.zeros((1, 4), np.float32)))
        assert order == [0], selector
        assert type(order[0]) is int, selector


def test_ties_go_to_the_lowest_index():
    def order(selector, rows):
        n = len(rows)
        pool = Pool(["say so"] * n, rows.astype(np.float32), np.full(n, -1.0), np.ones(n, np.int64), ["so"] * n)
        return ranked(selector, pool)

    for selector in FIXED:
        assert order(selector, np.ones((300, 3))) == list(range(300)), selector
    for selector in FIXED_VECTORS:
        assert order(selector, np.eye(300)) == list(range(300)), selector
        assert order(selector, np.tile(np.eye(4), (3, 1)))[:4] == [0, 1, 2, 3], selector


def test_selectors_without_randomness_leave_the_rng_alone():
    for selector in FIXED:
        rng = np.random.default_rng(22)
        list(selector.rank(mixed_pool(40), rng))
        assert rng.random() == np.random.default_rng(22).random(), selector


def test_a_random_first_pick_is_uniform_and_the_only_random_number():
    pool = vector_pool(np.array([[0], [1], [1], [5], [-9], [100]], np.float32))
    for selector in [*RANDOM_FIRST, KMeansPP()]:
        rng = np.random.default_rng(11)
        firsts = Counter(next(selector.rank(pool, rng)) for _ in range(600))
        assert chisquare([firsts[i] for i in range(6)]).pvalue > 0.001, selector
    for selector in RANDOM_FIRST:
        rng, same = np.random.default_rng(23), np.random.default_rng(23)
        order = list(selector.rank(vector_pool(FAMILIES["gaussian"]), rng))
        assert order[0] == same.integers(60), selector
        assert rng.random() == same.random(), selector


def test_uniform_gives_every_order_equally_often_and_in_order_the_pools():
    assert_equally_often(Uniform(), pool_of(["a", "b", "c"]), permutations(range(3)), 3000)
    assert ranked(InOrder(), mixed_pool(20)) == list(range(20))


def test_random_selectors_give_other_orders_for_other_seeds():
    for selector in RANDOM_VECTORS + RANDOM_TEXTS:
        assert len({tuple(ranked(selector, mixed_pool(40), seed)) for seed in range(4)}) == 4, selector


def test_the_first_pick_at_most_is_farthest_from_the_mean():
    h = FAMILIES["one outlier"]
    for selector in (RepExp(first="max"), KCenter("max"), DPPMap(first="max"), DPPMap("cosine", first="max")):
        assert ranked(selector, vector_pool(h))[0] == len(h) - 1, selector


def test_float16_vectors_are_ranked_as_their_float32_values():
    h = FAMILIES["gaussian"].astype(np.float16)
    for selector in VECTORS:
        if not (isinstance(selector, DPPMap) and selector.kernel == "rbf"):  # its bandwidth is rounded otherwise
            wide = h.astype(np.float32)
            assert ranked(selector, vector_pool(h)) == ranked(selector, vector_pool(wide)), selector


def test_going_on_from_the_first_picks_continues_the_full_ranking():
    faults = []
    for selector in [*FIXED_VECTORS, *RANDOM_FIRST, *TEXTS]:
        for seed, n in enumerate((2, 13, 60)):
            pool = mixed_pool(n, seed)
            order = ranked(selector, pool, seed)
            for j in {1, 2, n // 3 + 1, n // 2 + 1, n - 1, n} if hasattr(selector, "rank_after") else ():
                if after(selector, pool, order[:j], seed) != order[j:]:
                    faults.append((selector, n, j))
    assert not faults


# Subset methods.


def subsets():
    return [*SUBSETS, KMedoids()] if pytest.importorskip("kmedoids") else SUBSETS


def test_a_subset_has_k_distinct_responses_and_is_the_same_for_one_seed():
    def check(h):
        for selector in subsets():
            for k in (1, 7, len(h) - 1, len(h)):
                chosen = selector.select(vector_pool(h), k, np.random.default_rng(0))
                assert len(chosen) == k
                assert len(set(chosen) & set(range(len(h)))) == k
                assert chosen == selector.select(vector_pool(h), k, np.random.default_rng(0))

    on_every_family(
        check,
        without=["gaussian", "clustered", "tight clusters", "badly scaled rows", "badly scaled columns", "small grid"],
    )


def test_a_subset_that_the_pool_cannot_give_is_refused():
    for selector in subsets():
        for k in (0, 6):
            line = refusal_of(selector.select, vector_pool(np.ones((5, 2))), k, np.random.default_rng(0))
            assert line.endswith(f": k must be in 1..5, the size of the pool, got {k}")


def test_no_selectors_module_loads_a_heavy_library_and_rnd_loads_torch_when_it_is_built(monkeypatch):
    code = (
        "import sys; from harness.plugin_system.registry import load_registry\n"
        "for row in load_registry().of_kind('selector'): row.load()\n"
        "print(sorted({'torch', 'sklearn', 'scipy.stats', 'kmedoids'} & set(sys.modules)))"
    )
    assert printed_by(code) == "[]"
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match="torch"):  # loaded later, the harness would not limit its threads
        RandomNetworkDistillation()
