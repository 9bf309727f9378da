"""What all selectors have in common: their parameters and columns, ties, randomness, and how they go on.

The conformance kit shows the rest: permutations, purity, pickling, seeds, and pools out of the ordinary.
"""

import math
from collections import Counter
from dataclasses import fields
from importlib.util import find_spec
from itertools import permutations

import numpy as np
from scipy.stats import chisquare
from support.processes import printed_by
from support.refusals import refusal_of
from support.selector_pools import after, assert_equally_often, mixed_pool, pool_of, ranked
from support.vector_pools import FAMILIES, on_every_family, vector_pool

from harness import Pool
from harness.plugin_system.component import build
from harness.plugin_system.registry import load_registry

REGISTRY = load_registry()


def of(*specs):
    """Spec -> the selector."""
    return {spec: build(REGISTRY, "selector", spec) for spec in specs}


FIXED_VECTORS = of(
    *("repexp:first=max", "kcenter:first=max", "dpp-map:first=max", "mmr"),
    *("dpp-map:kernel=cosine,first=max", "mmr:alpha=0.1,quality=logprob", "facility-location"),
    *("facility-location:similarity=rbf", "facility-location:similarity=euclidean"),
    *("score-mmr:by=logprob", "score-dpp:by=mean-logprob"),
)
RANDOM_FIRST = of("repexp", "kcenter", "dpp-map", "dpp-map:kernel=cosine")
RANDOM_VECTORS = RANDOM_FIRST | of("kmeans-pp", "rnd:width=8,steps=2")
TEXTS = of(
    *("uniform", "dedup", "dedup:by=answer", "answer-round-robin", "outcome-ucb", "outcome-ucb:bonus=batch"),
    *("answer-round-robin:order=random,unanswered=cluster", "outcome-ucb:bonus=batch,value=none,unanswered=cluster"),
    *("majority", "majority:turns=true,weight=mean-logprob,by=logprob,unanswered=cluster", "score:by=logprob"),
)
FIXED_TEXTS = of(
    *("logprob", "logprob:per=token", "unlikely", "unlikely:per=token", "length", "length:first=long", "in-order"),
    *("ngram-coverage", "ngram-coverage:weights=idf", "ngram-coverage:unit=character,ngrams=3"),
)
FIXED = FIXED_VECTORS | FIXED_TEXTS
SUBSETS = of("kmeans", "k-dpp", "k-dpp:kernel=linear", "k-dpp:kernel=rbf", *["kmedoids"] * bool(find_spec("kmedoids")))


def test_every_parameter_refuses_what_is_no_choice_or_out_of_range_in_one_line():
    wrong = {int: [0, -1], float: [-1.0, math.nan, math.inf], type(None): [0.0, math.nan, math.inf], str: ["nonsense"]}
    lines = {}
    for registration in REGISTRY.of_kind("selector"):
        made = registration.load()()
        for field, value in ((field.name, getattr(made, field.name)) for field in fields(made)):
            if value is not False and not (value is None and field in ("by", "weight")):  # the name of any score
                for each in wrong[type(value)]:
                    line = lines[registration.name, field, str(each)] = refusal_of(type(made), **{field: each})
                    assert line.startswith(f"{registration.name}: {field} must be "), line
                    assert line.endswith(f", got {each!r}"), line
    assert lines["repexp", "lam", "inf"] == "repexp: lam must be > 0 and finite, got inf"
    assert lines["mmr", "alpha", "nan"] == "mmr: alpha must be in [0, 1], got nan"
    assert lines["kcenter", "first", "nonsense"] == "kcenter: first must be 'random' or 'max', got 'nonsense'"
    assert lines["rnd", "steps", "0"] == "rnd: steps must be >= 1, got 0"


def test_a_column_that_is_missing_is_refused():
    bare, rng = pool_of(["a", "b"]), np.random.default_rng(0)
    lines = [refusal_of(lambda s=s: list(s.rank(bare, rng))) for s in (FIXED_VECTORS | RANDOM_VECTORS).values()]
    lines += [refusal_of(s.select, bare, 1, rng) for s in SUBSETS.values()]
    assert [line for line in lines if ": the pool has no embeddings; it needs an embedder" not in line] == []
    for spec, selector in of("mmr", "logprob", "unlikely:per=token").items():
        for logprobs, fault in (([math.nan] * 3, "has no log-prob"), ([-1, math.nan, -2], "of response 1 is nan")):
            line = refusal_of(selector.rank, pool_of(embeddings=np.eye(3), logprobs=logprobs), rng)
            assert line.startswith(f"{spec.split(':')[0]}: the ")
            assert fault in line


def test_ties_go_to_the_lowest_index_and_fixed_orders_leave_the_rng_alone():
    def order(selector, rows):
        n = len(rows)
        pool = Pool(["say so"] * n, rows.astype(np.float32), np.full(n, -1.0), np.ones(n, np.int64), ["so"] * n)
        rng = np.random.default_rng(22)
        picks = list(selector.rank(pool, rng))
        assert rng.random() == np.random.default_rng(22).random()
        return picks

    for spec, selector in FIXED.items():
        assert order(selector, np.ones((300, 3))) == list(range(300)), spec
    for spec, selector in FIXED_VECTORS.items():
        assert order(selector, np.eye(300)) == list(range(300)), spec
        assert order(selector, np.tile(np.eye(4), (3, 1)))[:4] == [0, 1, 2, 3], spec


def test_a_random_first_pick_is_uniform_and_the_only_random_number():
    pool = vector_pool(np.array([[0], [1], [1], [5], [-9], [100]], np.float32))
    for spec, selector in (RANDOM_FIRST | of("kmeans-pp")).items():
        rng = np.random.default_rng(11)
        firsts = Counter(next(selector.rank(pool, rng)) for _ in range(400))
        assert chisquare([firsts[i] for i in range(6)]).pvalue > 0.001, spec
    for spec, selector in RANDOM_FIRST.items():
        rng, same = np.random.default_rng(23), np.random.default_rng(23)
        order = list(selector.rank(vector_pool(FAMILIES["gaussian"]), rng))
        assert order[0] == same.integers(60), spec
        assert rng.random() == same.random(), spec


def test_uniform_gives_every_order_equally_often_in_order_that_of_the_pool_and_first_max_the_farthest_first():
    assert_equally_often(TEXTS["uniform"], pool_of(["a", "b", "c"]), permutations(range(3)), 1000)
    assert ranked(FIXED["in-order"], mixed_pool(20)) == list(range(20))
    h = FAMILIES["one outlier"]
    firsts = {ranked(selector, vector_pool(h))[0] for spec, selector in FIXED_VECTORS.items() if "first=max" in spec}
    assert firsts == {len(h) - 1}


def test_going_on_from_the_first_picks_continues_the_full_ranking():
    faults = []
    for spec, selector in (FIXED | RANDOM_FIRST | TEXTS).items():
        for seed, n in enumerate((2, 13, 60)):
            pool = mixed_pool(n, seed)
            order = ranked(selector, pool, seed)
            for j in {1, n // 3 + 1, n - 1, n} if hasattr(selector, "rank_after") else ():
                if after(selector, pool, order[:j], seed) != order[j:]:
                    faults.append((spec, n, j))
    assert not faults


def test_a_subset_has_k_distinct_responses_and_is_the_same_for_one_seed():
    def check(h):
        for selector in SUBSETS.values():
            for k in (1, 7, len(h)):
                chosen = selector.select(vector_pool(h), k, np.random.default_rng(0))
                assert len(set(chosen) & set(range(len(h)))) == len(chosen) == k
                assert chosen == selector.select(vector_pool(h), k, np.random.default_rng(0))

    on_every_family(check, without=["gaussian", "clustered", "tight clusters", "badly scaled rows", "small grid"])
    for selector in SUBSETS.values():
        for k in (0, 6):
            line = refusal_of(selector.select, vector_pool(np.ones((5, 2))), k, np.random.default_rng(0))
            assert line.endswith(f": k must be in 1..5, the size of the pool, got {k}")


def test_no_selector_loads_a_heavy_library_before_it_ranks():
    code = (
        "import sys; from harness.plugin_system.registry import load_registry\n"
        "for row in load_registry().of_kind('selector'): row.load()()\n"
        "print(sorted({'torch', 'sklearn', 'scipy.stats', 'kmedoids'} & set(sys.modules)))"
    )
    assert printed_by(code) == "[]"
