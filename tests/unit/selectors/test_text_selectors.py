"""The selectors on texts, answers, lengths and log-probabilities, and random network distillation."""

from __future__ import annotations

import math
import pickle
import random
import re
from collections import Counter
from itertools import islice, pairwise, permutations, product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare
from support.processes import printed_by
from support.selector_pools import mixed_pool, pool_of

from harness import HarnessError, Pool
from harness_selectors.answer_round_robin import AnswerRoundRobin
from harness_selectors.dedup import Dedup
from harness_selectors.length import Length
from harness_selectors.likelihood import Logprob, Unlikely
from harness_selectors.ngram_coverage import WORD, NgramCoverage, reference_order
from harness_selectors.numerics import set_coverage
from harness_selectors.outcome_ucb import OutcomeUcb
from harness_selectors.rnd import RandomNetworkDistillation, _Distillation
from harness_selectors.uniform import Uniform

RANDOM = [
    AnswerRoundRobin(),
    AnswerRoundRobin(order="random", unanswered="cluster"),
    OutcomeUcb(),
    OutcomeUcb(bonus="batch", value="none"),
    Dedup(),
    Dedup(by="answer"),
    RandomNetworkDistillation(width=8, steps=2),
]
FIXED = [
    Logprob(),
    Logprob(per="token"),
    Unlikely(),
    Unlikely(per="token"),
    Length(),
    Length(first="long"),
    NgramCoverage(),
    NgramCoverage(weights="idf"),
    NgramCoverage(unit="character", ngrams=3),
]
EVERY = pytest.mark.parametrize("selector", RANDOM + FIXED, ids=repr)
ANSWERS = st.lists(st.sampled_from(["1", "2", "3", "4", None]), min_size=1, max_size=12)
TEXTS = st.lists(st.lists(st.sampled_from("abcd"), max_size=5).map(" ".join), min_size=1, max_size=8)


def ranked(selector, pool: Pool, seed: int = 0) -> list[int]:
    return list(selector.rank(pool, np.random.default_rng(seed)))


def frequencies(selector, pool: Pool, draws: int) -> Counter:
    rng = np.random.default_rng(99)
    return Counter(tuple(selector.rank(pool, rng)) for _ in range(draws))


def assert_equally_often(selector, pool: Pool, orders: set[tuple[int, ...]], draws: int) -> None:
    seen = frequencies(selector, pool, draws)
    assert set(seen) <= orders
    assert chisquare([seen[order] for order in orders]).pvalue > 0.001


# All of them.


@EVERY
@pytest.mark.parametrize("n", [0, 1, 2, 40])
def test_every_response_is_ranked_once(selector, n):
    assert sorted(ranked(selector, mixed_pool(n))) == list(range(n))


@EVERY
def test_identical_responses_are_ranked_once_each(selector):
    same = Pool(["say so"] * 7, np.ones((7, 3), np.float32), np.full(7, -2.0), np.full(7, 3), ["so"] * 7)
    order = ranked(selector, same)
    assert sorted(order) == list(range(7))
    if selector in FIXED or isinstance(selector, RandomNetworkDistillation):
        assert order == list(range(7))


@EVERY
def test_the_first_picks_are_those_of_the_full_order(selector):
    pool = mixed_pool(60)
    assert list(islice(selector.rank(pool, np.random.default_rng(3)), 9)) == ranked(selector, pool, 3)[:9]


@EVERY
def test_picks_are_plain_integers(selector):
    assert {type(index) for index in ranked(selector, mixed_pool(20))} == {int}


@EVERY
def test_one_seed_gives_one_order_also_after_a_journey_to_another_process(selector):
    pool = mixed_pool(40)
    assert ranked(selector, pool, 4) == ranked(pickle.loads(pickle.dumps(selector)), pool, 4)


@pytest.mark.parametrize("selector", RANDOM, ids=repr)
def test_random_selectors_give_other_orders_for_other_seeds(selector):
    assert len({tuple(ranked(selector, mixed_pool(40), seed)) for seed in range(4)}) == 4


@pytest.mark.parametrize("selector", FIXED, ids=repr)
def test_the_others_use_no_randomness(selector):
    rng = np.random.default_rng(5)
    list(selector.rank(mixed_pool(40), rng))
    assert rng.random() == np.random.default_rng(5).random()


@EVERY
def test_the_global_random_streams_stay_where_they_were(selector):
    def streams():
        return random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()

    before = streams()
    ranked(selector, mixed_pool(40))
    assert streams() == before


@EVERY
def test_the_pool_is_not_changed(selector):
    pool, same = mixed_pool(40), mixed_pool(40)
    ranked(selector, pool)
    for column in ("embeddings", "logprobs", "lengths"):
        assert np.array_equal(getattr(pool, column), getattr(same, column))


@pytest.mark.parametrize("selector", FIXED, ids=repr)
def test_fixed_orders_follow_the_responses_wherever_they_stand(selector):
    rng = np.random.default_rng(6)
    texts = [" ".join(chr(0x4E00 + 40 * i + j) for j in range(size)) for i, size in enumerate(rng.permutation(30) + 1)]
    logprobs, lengths = -rng.exponential(20, size=30), rng.permutation(30) + 1
    order = ranked(selector, pool_of(texts, lengths=lengths, logprobs=logprobs))
    moved = rng.permutation(30)
    shuffled = pool_of([texts[i] for i in moved], lengths=lengths[moved], logprobs=logprobs[moved])
    assert moved[ranked(selector, shuffled)].tolist() == order


def test_the_selectors_say_which_columns_they_need():
    needs = {type(selector).__name__: selector.needs for selector in RANDOM + FIXED}
    assert needs.pop("RandomNetworkDistillation") == ("embeddings",)
    assert needs.pop("Logprob") == needs.pop("Unlikely") == ("logprobs",)
    assert set(needs.values()) == {()}


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: AnswerRoundRobin(order="big"), "answer-round-robin: order must be 'size' or 'random', got 'big'"),
        (lambda: AnswerRoundRobin(unanswered="first"), "answer-round-robin: unanswered must be 'last' or 'cluster'"),
        (lambda: OutcomeUcb(c=-1.0), "outcome-ucb: c must be >= 0, got -1.0"),
        (lambda: OutcomeUcb(c=math.nan), "outcome-ucb: c must be >= 0, got nan"),
        (lambda: OutcomeUcb(c=math.inf), "outcome-ucb: c must be >= 0 and finite, got inf"),
        (lambda: OutcomeUcb(bonus="both"), "outcome-ucb: bonus must be 'historical' or 'batch', got 'both'"),
        (lambda: OutcomeUcb(value="reward"), "outcome-ucb: value must be 'share' or 'none', got 'reward'"),
        (lambda: OutcomeUcb(unanswered="first"), "outcome-ucb: unanswered must be 'last' or 'cluster', got 'first'"),
        (lambda: Logprob(per="word"), "logprob: per must be 'response' or 'token', got 'word'"),
        (lambda: Unlikely(per="word"), "unlikely: per must be 'response' or 'token', got 'word'"),
        (lambda: Length(first="shortest"), "length: first must be 'short' or 'long', got 'shortest'"),
        (lambda: Dedup(by="meaning"), "dedup: by must be 'text' or 'answer', got 'meaning'"),
        (lambda: NgramCoverage(ngrams=0), "ngram-coverage: ngrams must be at least 1, got 0"),
        (lambda: NgramCoverage(unit="token"), "ngram-coverage: unit must be 'word' or 'character', got 'token'"),
        (lambda: NgramCoverage(weights="tf"), "ngram-coverage: weights must be 'uniform' or 'idf', got 'tf'"),
        (lambda: RandomNetworkDistillation(batch=0), "rnd: batch must be at least 1, got 0"),
        (lambda: RandomNetworkDistillation(steps=0), "rnd: steps must be at least 1, got 0"),
        (lambda: RandomNetworkDistillation(width=0), "rnd: width must be at least 1, got 0"),
        (lambda: RandomNetworkDistillation(rate=0.0), "rnd: rate must be > 0, got 0.0"),
        (lambda: RandomNetworkDistillation(rate=math.inf), "rnd: rate must be > 0 and finite, got inf"),
    ],
)
def test_a_wrong_parameter_is_refused_in_one_line(build, message):
    with pytest.raises(HarnessError, match=re.escape(message)):
        build()


# Answers.


def turns(answers, order) -> list[tuple[int, int]]:
    """For each pick that has an answer: how often that answer came before, and minus how often it is in the pool."""
    votes, seen, picks = Counter(answers), Counter(), []
    for index in order:
        if answers[index] is not None:
            picks.append((seen[answers[index]], -votes[answers[index]]))
            seen[answers[index]] += 1
    return picks


@given(answers=ANSWERS, seed=st.integers(0, 99))
def test_answers_come_in_turn_the_commonest_first_and_what_has_none_last(answers, seed):
    order = ranked(AnswerRoundRobin(), pool_of(answers=answers), seed)
    assert turns(answers, order) == sorted(turns(answers, order))
    without = [index for index in order if answers[index] is None]
    assert order[len(order) - len(without) :] == without


@given(answers=ANSWERS, seed=st.integers(0, 99))
def test_no_answer_can_be_a_cluster_like_the_others(answers, seed):
    named = ["none" if answer is None else answer for answer in answers]
    order = ranked(AnswerRoundRobin(unanswered="cluster"), pool_of(answers=answers), seed)
    assert order == ranked(AnswerRoundRobin(), pool_of(answers=named), seed)


def test_every_order_that_the_turns_allow_comes_equally_often():
    pool = pool_of(answers=["a", "b", "a", "c", None, None])
    orders = {
        (*first, *others, *second, *rest)
        for first, second in (((0,), (2,)), ((2,), (0,)))
        for others in permutations((1, 3))
        for rest in permutations((4, 5))
    }
    assert_equally_often(AnswerRoundRobin(), pool, orders, 4000)


def test_in_random_order_a_common_answer_is_no_more_likely_to_be_first():
    pool, rng = pool_of(answers=["a"] * 8 + ["b", "c"]), np.random.default_rng(7)
    firsts = Counter(pool.answers[next(AnswerRoundRobin(order="random").rank(pool, rng))] for _ in range(3000))
    assert chisquare([firsts[answer] for answer in "abc"]).pvalue > 0.001


def best_score(selector: OutcomeUcb, answers, order, t) -> tuple[float, float]:
    """The score of pick t, and the best score of all that were left, from the definition."""
    answered = [answer for answer in answers if answer is not None]
    before = Counter(answers[index] for index in order[:t])

    def score(answer):
        share = answered.count(answer) / len(answers) if selector.value == "share" else 0.0
        others = before[answer]
        bonus = min(1, math.sqrt(1 / (others + 1))) if selector.bonus == "historical" else -others / (t + 1)
        return share + selector.c * bonus

    left = [score(answers[index]) for index in order[t:] if answers[index] is not None]
    return score(answers[order[t]]), max(left)


@pytest.mark.parametrize(("bonus", "value"), [*product(["historical", "batch"], ["share", "none"])])
@given(answers=ANSWERS, c=st.sampled_from([0.0, 0.2, 1.0, 50.0]), seed=st.integers(0, 99))
def test_every_pick_of_outcome_ucb_has_the_best_score_left(bonus, value, answers, c, seed):
    selector = OutcomeUcb(c=c, bonus=bonus, value=value)
    order = ranked(selector, pool_of(answers=answers), seed)
    assert sorted(order) == list(range(len(answers)))
    for t in range(sum(answer is not None for answer in answers)):
        score, best = best_score(selector, answers, order, t)
        assert score == pytest.approx(best, abs=1e-12)


def test_outcome_ucb_goes_on_with_a_common_answer_until_its_bonus_has_fallen():
    pool = pool_of(answers=["a"] * 6 + ["b"] * 3 + ["c"])
    picked = [pool.answers[index] for index in ranked(OutcomeUcb(), pool)]
    # a: .6 + 1, .6 + .707, .6 + .577, .6 + .5, .6 + .447, .6 + .408; b: .3 + 1, .3 + .707, .3 + .577; c: .1 + 1
    assert "".join(picked) in ("aabaacaabb", "aabacaaabb")


def test_without_values_and_with_share_alone_outcome_ucb_is_what_it_should_be():
    pool = mixed_pool(30)
    alone = [pool.answers[index] for index in ranked(OutcomeUcb(c=0.0), pool)]
    votes = Counter(pool.answers)
    assert [votes[answer] for answer in alone if answer] == sorted((votes[a] for a in alone if a), reverse=True)
    for bonus in ("historical", "batch"):
        order = ranked(OutcomeUcb(value="none", bonus=bonus), pool)
        assert [turn for turn, _ in turns(pool.answers, order)] == sorted(
            turn for turn, _ in turns(pool.answers, order)
        )


def test_outcome_ucb_breaks_ties_and_chooses_within_an_answer_at_random():
    pool = pool_of(answers=["a", "b", "a", "b", None])
    answers = [pool.answers[index] for index in range(4)]
    allowed = (answers, answers[::-1])
    orders = {(*order, 4) for order in permutations(range(4)) if [answers[index] for index in order] in allowed}
    assert_equally_often(OutcomeUcb(), pool, orders, 4000)


# Repeats.


def test_dedup_is_uniform_with_the_repeats_moved_to_the_end():
    pool = mixed_pool(50)
    for selector, keys in ((Dedup(), pool.texts), (Dedup(by="answer"), pool.answers)):
        firsts, repeats, seen = [], [], {None}
        for index in ranked(Uniform(), pool, 8):
            (repeats if keys[index] in seen else firsts).append(index)
            seen.add(keys[index])
        assert ranked(selector, pool, 8) == firsts + repeats


def test_dedup_takes_each_text_once_before_any_again_with_the_chances_of_random_order():
    pool = pool_of(["a", "b", "a", "c"])
    expected = Counter()
    for order in permutations(range(4)):
        repeat = max(0, 2, key=order.index)
        expected[(*(index for index in order if index != repeat), repeat)] += 1
    seen = frequencies(Dedup(), pool, 4800)
    assert set(seen) <= set(expected)
    assert chisquare([seen[order] for order in expected], [200 * count for count in expected.values()]).pvalue > 0.001


def test_trailing_whitespace_makes_no_other_text_and_leading_does():
    assert ranked(Dedup(), pool_of(["x", "x \n", " x"]))[:2] != [0, 1]
    for seed in range(8):
        assert 2 in ranked(Dedup(), pool_of(["x", "x \n", " x"]), seed)[:2]


# Lengths and log-probabilities.


@given(lengths=st.lists(st.integers(0, 5), min_size=1, max_size=12))
def test_length_orders_are_sorted_with_ties_to_the_lowest_index(lengths):
    n = range(len(lengths))
    assert ranked(Length(), pool_of(lengths=lengths)) == sorted(n, key=lambda i: lengths[i])
    assert ranked(Length(first="long"), pool_of(lengths=lengths)) == sorted(n, key=lambda i: -lengths[i])


@given(rows=st.lists(st.tuples(st.integers(-6, 0), st.integers(0, 3)), min_size=1, max_size=12))
def test_likelihood_orders_are_sorted_with_ties_to_the_lowest_index(rows):
    n = range(len(rows))
    pool = pool_of(logprobs=[logprob for logprob, _ in rows], lengths=[length for _, length in rows])
    mean = [logprob / max(length, 1) for logprob, length in rows]
    assert ranked(Logprob(), pool) == sorted(n, key=lambda i: -rows[i][0])
    assert ranked(Unlikely(), pool) == sorted(n, key=lambda i: rows[i][0])
    assert ranked(Logprob(per="token"), pool) == sorted(n, key=lambda i: -mean[i])
    assert ranked(Unlikely(per="token"), pool) == sorted(n, key=lambda i: mean[i])


@pytest.mark.parametrize("selector", [Logprob(), Unlikely(per="token")], ids=repr)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_log_probability_that_is_not_finite_is_refused_by_index(selector, bad):
    name = type(selector).__name__.lower()
    with pytest.raises(HarnessError, match=rf"({name}|pool): the log-probability of response 2 is -?(nan|inf)"):
        selector.rank(pool_of(logprobs=[-1.0, -2.0, bad]), np.random.default_rng(0))


# N-grams.


@pytest.mark.parametrize(("unit", "weights"), [*product(["word", "character"], ["uniform", "idf"])])
@given(texts=TEXTS, longest=st.integers(1, 4))
def test_coverage_is_greedy_as_the_reference_is(unit, weights, texts, longest):
    selector = NgramCoverage(ngrams=longest, unit=unit, weights=weights)
    assert ranked(selector, pool_of(texts)) == reference_order(texts, longest, unit, weights)


def test_the_reference_adds_most_to_the_coverage_of_lin_and_bilmes():
    texts = ["a b a", "b c", "a", "c d e", "e e", "d", "a b c", "f"]
    order = reference_order(texts, 1, "word", "uniform")
    for k in range(5):  # then all is covered, and a new round begins
        value = {i: len(set(" ".join(texts[j] for j in [*order[:k], i]).split())) for i in order[k:]}
        assert value[order[k]] == max(value.values())


def essays(n: int, words: int, seed: int) -> list[str]:
    """Texts of words as rare as in speech, one in four of them twice."""
    rng = np.random.default_rng(seed)
    texts = [" ".join(f"w{rank}" for rank in np.minimum(rng.zipf(1.4, size=words), 500)) for _ in range(n)]
    return [texts[i] if i % 4 else texts[i // 2] for i in range(n)]


@pytest.mark.parametrize("weights", ["uniform", "idf"])
def test_coverage_of_a_larger_pool_is_that_of_the_reference(weights):
    texts = essays(150, 30, seed=9)
    assert ranked(NgramCoverage(weights=weights), pool_of(texts)) == reference_order(texts, 2, "word", weights)


def test_many_rounds_over_few_ngrams_are_those_of_the_reference():
    rng = np.random.default_rng(10)
    texts = [" ".join(rng.choice(list("abcde"), size=4)) for _ in range(120)]
    assert ranked(NgramCoverage(), pool_of(texts)) == reference_order(texts, 2, "word", "uniform")


def test_coverage_picks_as_an_independent_library_does():
    submodlib = pytest.importorskip("submodlib")
    texts = list(dict.fromkeys(essays(60, 40, seed=11)))  # the library breaks ties its own way
    has = set_coverage.incidence(texts, 2, WORD.findall)
    cover = [set(has.indices[start:end].tolist()) for start, end in pairwise(has.indptr)]
    weight = np.random.default_rng(12).integers(1, 1000, size=has.shape[1]).astype(float)
    theirs = submodlib.SetCoverFunction(
        n=len(texts), cover_set=cover, num_concepts=has.shape[1], concept_weights=weight.tolist()
    ).maximize(budget=25, optimizer="LazyGreedy", verbose=False, show_progress=False)
    assert [index for index, _ in theirs] == list(islice(set_coverage.coverage_rounds(has, weight), 25))


def test_case_tells_words_apart_and_spaces_do_not():
    order = ranked(NgramCoverage(), pool_of(["let x be", "let   x\nbe", "let X be"]))
    assert order[:2] == [0, 2]


def test_no_ngram_runs_from_one_text_into_the_next():
    has = set_coverage.incidence(["a b", "c", "", "d e f"], 3, str.split)
    assert has.indptr.tolist() == [0, 3, 4, 4, 10]
    assert has.shape == (4, 10)


def test_texts_without_ngrams_or_weight_come_last_by_index():
    assert ranked(NgramCoverage(), pool_of(["", "a", " ", "a"])) == [1, 3, 0, 2]
    assert ranked(NgramCoverage(weights="idf"), pool_of(["a", "a", "a b"])) == [2, 0, 1]
    worthless = set_coverage.incidence(["a", "b", "a", "c"], 1, str.split)
    assert list(set_coverage.coverage_rounds(worthless, np.array([0.0, 0.0, 1.0]))) == [3, 0, 1, 2]


def test_pulling_few_picks_reads_few_postings(monkeypatch):
    runs, read = set_coverage._runs, []
    monkeypatch.setattr(set_coverage, "_runs", lambda *args: read.append(len(runs(*args))) or runs(*args))
    ranking = NgramCoverage().rank(pool_of(essays(400, 30, seed=13)), np.random.default_rng(0))
    assert not read
    next(ranking)
    assert not read
    list(islice(ranking, 3))
    few = sum(read)
    list(ranking)
    assert 0 < few < sum(read) / 2


# Random network distillation.


def numpy_distillation(h, selector: RandomNetworkDistillation, seed: int) -> list[int]:
    """The file's algorithm without torch: gradients and Adam written out, with the same use of the rng."""
    rng = np.random.default_rng(seed)
    x = h - h.mean(axis=0)
    x = np.clip(x / x.std(axis=0), -5, 5)
    (n, d), width = x.shape, selector.width

    def network():
        return [
            rng.normal(size=(d, width)) * np.sqrt(2 / d),
            np.zeros(width),
            rng.normal(size=(width, width)) * np.sqrt(2 / width),
            np.zeros(width),
        ]

    target, net = network(), network()
    moment, square, order = [0.0] * 4, [0.0] * 4, []
    wanted = np.maximum(x @ target[0] + target[1], 0) @ target[2] + target[3]
    updates = 0
    while len(order) < n:
        error = ((np.maximum(x @ net[0] + net[1], 0) @ net[2] + net[3] - wanted) ** 2).sum(axis=1)
        error[order] = -1
        size = min(selector.batch, 1 + len(order) // 16, n - len(order))
        newest = np.argsort(-error, kind="stable")[:size]
        for _ in range(selector.steps):
            older = rng.choice(order, min(size, len(order)), replace=False) if order else []
            rows = np.concatenate([newest, older]).astype(int)
            hidden = np.maximum(x[rows] @ net[0] + net[1], 0)
            off = 2 * (hidden @ net[2] + net[3] - wanted[rows]) / (len(rows) * width)
            back = (off @ net[2].T) * (hidden > 0)
            gradients = [x[rows].T @ back, back.sum(axis=0), hidden.T @ off, off.sum(axis=0)]
            updates += 1
            for i, gradient in enumerate(gradients):
                moment[i] = 0.9 * moment[i] + 0.1 * gradient
                square[i] = 0.999 * square[i] + 0.001 * gradient**2
                step = np.sqrt(square[i] / (1 - 0.999**updates)) + 1e-8
                net[i] = net[i] - selector.rate * moment[i] / (1 - 0.9**updates) / step
        order += newest.tolist()
    return order


@pytest.mark.parametrize(
    "selector",
    [
        RandomNetworkDistillation(batch=1, width=12),
        RandomNetworkDistillation(steps=4, width=5, rate=0.01),
        RandomNetworkDistillation(batch=2, steps=3, width=8),
    ],
    ids=repr,
)
def test_distillation_is_that_of_a_numpy_loop(selector):
    h = np.random.default_rng(14).normal(size=(90, 7))
    assert ranked(selector, pool_of(embeddings=h), 15) == numpy_distillation(h, selector, 15)


def test_distillation_finds_small_clusters_long_before_random_order_does():
    rng = np.random.default_rng(16)
    cluster = np.repeat(np.arange(20), [400, *[4] * 19])
    h = (4 * rng.normal(size=(20, 24))[cluster] + 0.3 * rng.normal(size=(len(cluster), 24))).astype(np.float32)
    clusters = [
        np.mean([len(set(cluster[ranked(selector, pool_of(embeddings=h), seed)[:40]])) for seed in range(3)])
        for selector in (RandomNetworkDistillation(), Uniform())
    ]
    assert clusters[0] > 18
    assert clusters[1] < 9


def test_a_copy_of_a_pick_is_predicted_and_comes_late():
    h = np.random.default_rng(17).normal(size=(30, 8)).astype(np.float32)
    order = ranked(RandomNetworkDistillation(), pool_of(embeddings=np.vstack([h, h[:5]])))
    place = {index: position for position, index in enumerate(order)}
    assert all(place[i] < place[30 + i] for i in range(5))
    assert np.mean([place[30 + i] for i in range(5)]) > 20


def test_a_batch_holds_no_two_equal_vectors():
    h = np.repeat(np.random.default_rng(18).normal(size=(30, 4)), 4, axis=0).astype(np.float32)
    h[:, 3] = np.tile([0.0, -0.0], 60)  # these are equal too
    order = ranked(RandomNetworkDistillation(batch=8, steps=1), pool_of(embeddings=h))
    start = 0
    while start < len(order):
        size = min(8, 1 + start // 16)
        batch = [index // 4 for index in order[start : start + size]]
        if len({index // 4 for index in order[start:]}) >= size:
            assert len(set(batch)) == len(batch)
            start += size
        else:  # fewer rows are left than a batch holds
            break
    assert start > 60


def test_no_picks_are_trained_on_before_they_are_asked_for(monkeypatch):
    steps = Counter()
    step = _Distillation.step
    monkeypatch.setattr(_Distillation, "step", lambda self, rows: (steps.update(n=1), step(self, rows)))
    pool = pool_of(embeddings=np.random.default_rng(19).normal(size=(200, 6)).astype(np.float32))
    ranking = RandomNetworkDistillation(steps=5).rank(pool, np.random.default_rng(0))
    next(ranking)
    assert steps["n"] == 0
    list(islice(ranking, 4))
    assert steps["n"] == 20


@pytest.mark.parametrize(
    "rows", [np.zeros((5, 3)), np.full((5, 3), 0.1), np.array([[1.0, -0.0]] * 2 + [[1.0, 0.0]] * 3)]
)
def test_vectors_that_are_all_equal_are_ranked_by_index(rows):
    assert ranked(RandomNetworkDistillation(), pool_of(embeddings=rows.astype(np.float32))) == list(range(5))


def test_distillation_does_not_care_for_scale_and_place():
    h = np.random.default_rng(20).normal(size=(40, 5))
    moved = h * np.array([1.0, 1e6, 1e-6, 2.0, -1e3][:5])[None, :].__abs__() + 7.0
    assert ranked(RandomNetworkDistillation(), pool_of(embeddings=h)) == ranked(
        RandomNetworkDistillation(), pool_of(embeddings=moved)
    )


def test_float16_vectors_are_ranked_as_their_float32_values():
    h = np.random.default_rng(21).normal(size=(40, 5)).astype(np.float16)
    assert ranked(RandomNetworkDistillation(), pool_of(embeddings=h)) == ranked(
        RandomNetworkDistillation(), pool_of(embeddings=h.astype(np.float32))
    )


def test_torch_is_loaded_when_distillation_is_built_and_not_when_it_is_listed():
    code = (
        "import sys; from harness_selectors.rnd import RandomNetworkDistillation as Built\n"
        "print('torch' in sys.modules); Built(); print('torch' in sys.modules)"
    )
    assert printed_by(code).split() == ["False", "True"]  # loaded later, the harness would not limit its threads


def test_vectors_that_are_missing_are_refused():
    with pytest.raises(HarnessError, match="rnd: the pool has no embeddings; it needs an embedder"):
        ranked(RandomNetworkDistillation(), pool_of(["a", "b"]))
