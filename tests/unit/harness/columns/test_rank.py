"""Ranking: each trial from a stream of its own, up to the first correct response, on the pool as selectors see it."""

import dataclasses

import numpy as np
import pytest
from support.refusals import refusal_of, wrongly_refused
from support.works import keep_pool, keep_verdicts, work_in

from harness import HarnessError, Problem
from harness.stages import rank
from harness.stages.rank import centred, how_many, load_pool, pool_of, rank_problems
from harness.stages.work import ranking_rng
from harness.store import shards
from harness.store.json_files import read_record

TEXTS = {"a": ["r0", "r1", "r2", "r3"], "b": ["s0", "s1", "s2"]}
FIRST, SECOND = PROBLEMS = [Problem(name, f"Say {name}.", reference="red") for name in TEXTS]


class Selector:
    """Picks in the order of the pool, and keeps what it was given."""

    needs = ()

    def __init__(self, order=None):
        self.order, self.pools = order, []

    def rank(self, pool, rng):
        self.pools.append(pool)
        yield from range(len(pool)) if self.order is None else self.order(pool, rng)


def shuffled(pool, rng):
    return rng.permutation(len(pool))


@pytest.fixture
def work(tmp_path):
    """Two problems, graded wwcw and www; vectors that are not centred."""
    work = work_in(tmp_path, trials=3, seed=5)
    assert keep_pool(work, TEXTS) == PROBLEMS
    for problem, letters in zip(PROBLEMS, ("wwcw", "www"), strict=True):
        keep_verdicts(work, problem, letters, [f"answer {i}" for i in range(len(letters))])
        vectors = np.arange(2.0 * len(letters)).reshape(-1, 2)
        shards.write_vectors(work.embeddings.path(problem), vectors)
    return work


@pytest.fixture
def ranked(work, monkeypatch):
    """Rank with a selector, in a plan of further fields of the work; the records that are then in the store."""

    def call(selector, **fields):
        monkeypatch.setattr(rank, "component", lambda kind, spec, files: selector)
        own = dataclasses.replace(work, selector="chosen", **fields)
        rank_problems(own, PROBLEMS)
        return [read_record(own.rankings.path(problem)) for problem in PROBLEMS]

    return call


def test_an_order_ends_at_the_first_correct_response_and_an_unsolvable_pool_is_not_ranked(ranked):
    selector = Selector()
    assert ranked(selector) == [
        {"kind": "order", "n": 4, "trials": [[0, 1, 2]] * 3},
        {"kind": "order", "n": 3, "trials": []},
    ]
    assert len(selector.pools) == 1  # it drew no random number: one ranking serves all trials
    assert ranked(Selector(lambda pool, rng: (2, 9)))[0]["trials"] == [[2]] * 3  # nothing after it is looked at


def test_each_trial_draws_from_a_stream_of_its_own_also_where_the_ranker_spawns_one(ranked):
    selector = Selector(lambda pool, rng: rng.spawn(1)[0].permutation(len(pool)))
    ranked(selector)
    assert len(selector.pools) == 3
    selector = Selector(shuffled)
    [record, _] = ranked(selector)
    assert len(selector.pools) == 3
    for trial, order in enumerate(record["trials"]):
        whole = ranking_rng(5, FIRST, trial).permutation(4).tolist()
        assert order == whole[: whole.index(2) + 1]


class Together(Selector):
    """Ranks pools together, as many as it says."""

    def __init__(self, many=2):
        super().__init__(shuffled)
        self.many, self.calls = many, []

    def rank_many(self, pools, rngs):
        self.calls.append([len(pool) for pool in pools])
        return [[iter(shuffled(pool, rng)) for rng in own] for pool, own in zip(pools, rngs, strict=True)]


def test_pools_ranked_together_have_the_orders_of_pools_ranked_alone(ranked, work):
    keep_verdicts(work, SECOND, "wcw")
    alone, together = Selector(shuffled), Together()
    assert ranked(together) == ranked(alone)
    assert (together.calls, together.pools) == ([[4, 3]], [])
    single = Together(many=1)
    assert ranked(single) == ranked(alone)
    assert (single.calls, len(single.pools)) == ([], 6)
    assert [how_many(selector) for selector in (alone, together, single)] == [1, 2, 1]
    for problem, letters in zip(PROBLEMS, ("wwww", "www"), strict=True):
        keep_verdicts(work, problem, letters)
    ranked(together)
    assert together.calls == [[4, 3]]  # nothing to rank: not called


def test_a_subset_method_has_a_subset_of_each_budget_from_a_stream_of_its_own(ranked, work):
    class Subset:
        needs = ()

        def select(self, pool, k, rng):
            return rng.choice(len(pool), k, replace=False)

    [record, unsolvable] = ranked(Subset())
    assert (record["kind"], unsolvable["trials"]) == ("subset", [])
    for trial, subsets in enumerate(record["trials"]):
        rngs = ranking_rng(5, FIRST, trial).spawn(3)
        expected = {str(k): rng.choice(4, k, replace=False).tolist() for k, rng in zip((1, 2, 4), rngs, strict=True)}
        assert subsets == expected


def raising(pool, rng):
    yield 0
    raise ZeroDivisionError("oh")


class TooMany(Together):
    def rank_many(self, pools, rngs):
        raise ValueError("too many")


BROKEN = [
    (Selector(raising), "selector 'chosen', problem 'a', trial 0: raised ZeroDivisionError: oh"),
    (Selector(lambda pool, rng: [0, 1]), "problem 'a', trial 0: the ranking ended after 2 of 4 responses"),
    (Selector(lambda pool, rng: [0, 0]), "problem 'a', trial 0: index 0 was picked twice"),
    (Selector(lambda pool, rng: [4]), "problem 'a', trial 0: index 4 is outside the pool of 4"),
    (TooMany(), "selector 'chosen', problems 'a', ...: raised ValueError: too many"),
]


def test_a_broken_selector_is_named_with_problem_and_trial(ranked):
    assert wrongly_refused(BROKEN, ranked) == []


def test_a_selector_that_reads_log_probabilities_is_refused_a_pool_without(ranked, work):
    class Likely(Selector):
        needs = ("logprobs",)

    assert ranked(Likely())[0]["trials"]
    keep_pool(work, {"a": TEXTS["a"]}, logprobs=np.array([0, np.nan, 0, 0]))
    line = refusal_of(ranked, Likely())
    assert line == "selector 'chosen' needs log-probabilities, which the pool does not carry"
    assert ranked(Selector())  # who does not read them does not mind


def test_a_selector_sees_the_first_responses_with_vectors_centred_over_them(work, ranked):
    assert ranked(Selector(), n=2) == [{"kind": "order", "n": 2, "trials": []}] * 2  # the third is correct
    pool = load_pool(dataclasses.replace(work, n=3), FIRST)
    assert pool.texts == ("r0", "r1", "r2")
    assert pool.embeddings.tolist() == [[-2, -2], [0, 0], [2, 2]]
    assert pool.answers == ("answer 0", "answer 1", "answer 2")
    assert (pool.logprobs.tolist(), pool.lengths.tolist()) == ([0, -0.125, -0.25], [3, 3, 3])
    whole = load_pool(dataclasses.replace(work, embeddings=None), FIRST)
    assert (len(whole), whole.embeddings.shape) == (4, (4, 0))


def test_files_of_another_length_than_the_pool_are_named(work):
    keep_verdicts(work, FIRST, "ww")
    assert "holds 2 rows and not 4" in refusal_of(load_pool, work, FIRST)
    shards.write_vectors(work.embeddings.path(FIRST), np.ones((5, 2)))
    assert "holds 5 rows and not 4" in refusal_of(load_pool, work, FIRST)


def test_what_no_pool_can_hold_names_its_source(work):
    shards.write_vectors(work.embeddings.path(FIRST), np.full((4, 2), np.nan))
    line = refusal_of(load_pool, work, FIRST)
    assert line.startswith(f"pool {work.pool.key}, embedder letters, problem 'a': pool: the embedding of response 0")
    given = dataclasses.replace(work, embeddings=dataclasses.replace(work.embeddings, inputs={}))
    assert "embedder given vectors, problem 'a'" in refusal_of(load_pool, given, FIRST)
    with pytest.raises(HarnessError, match="here: pool: logprobs has 0 rows for 1 texts"):
        pool_of("here", texts=["a"], embeddings=np.ones((1, 1)), logprobs=[], lengths=[1], answers=[None])


def test_the_mean_is_taken_in_double_precision():
    vectors = np.full((3, 1), 2**24, np.float32) + np.array([[0], [2], [4]], np.float32)
    assert centred(vectors).tolist() == [[-2], [0], [2]]
    assert centred(vectors).dtype == np.float32
    assert centred(np.zeros((0, 3), np.float32)).shape == (0, 3)
