"""Ranking: each trial from a stream of its own, up to the first correct response, on the pool as selectors see it."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from support.json_lines import write_json_lines
from support.paths import TOY
from support.processes import descendants
from support.searches import Recorder
from support.stores import contents, files_of

from harness import HarnessError, Outcome, Pool, Problem
from harness.columns.orders import centred, checked_pool, learnt_order, pick_after, ranking_rng
from harness.columns.store import about, read
from harness.system.children import end_limited

SELECTORS = """
import time


class InOrder:
    needs = ()

    def rank(self, pool, rng):
        note("ranked")
        yield from range(len(pool))


class Shuffled(InOrder):
    def rank(self, pool, rng):
        note("ranked")
        yield from rng.permutation(len(pool))


class Spawning(InOrder):
    def rank(self, pool, rng):
        note("ranked")
        yield from rng.spawn(1)[0].permutation(len(pool))


class Loose(InOrder):
    '''Picks nothing after the third response, and what is there is no index.'''

    def rank(self, pool, rng):
        yield from (2, 99, "x")


class OfEach:
    needs = ()

    def select(self, pool, k, rng):
        return rng.choice(len(pool), k, replace=False)


class Probable(InOrder):
    needs = ("logprobs",)


class Sees:
    needs = ("embeddings", "logprobs")

    def rank(self, pool, rng):
        note(json.dumps([pool.texts, pool.embeddings.tolist(), pool.answers, pool.lengths.tolist()]))
        note(sorted(vars(pool) if hasattr(pool, "__dict__") else pool.__slots__))
        yield from range(len(pool))


class Repeats(InOrder):
    def rank(self, pool, rng):
        return [0, 0]


class Ends(InOrder):
    def rank(self, pool, rng):
        return [0, 1]


class Outside(InOrder):
    def rank(self, pool, rng):
        return [4]


class Named(InOrder):
    def rank(self, pool, rng):
        return ["0"]


class Raises(InOrder):
    def rank(self, pool, rng):
        yield 0
        raise ZeroDivisionError("oh")


class Hangs(InOrder):
    def rank(self, pool, rng):
        note(os.getpid())
        if pool.texts[0] == "die":
            os._exit(3)
        while pool.texts[0] == "hang":
            time.sleep(0.01)
        yield from range(len(pool))
"""
NAMES = [
    *("InOrder", "Shuffled", "Spawning", "Loose", "OfEach", "Probable"),
    *("Sees", "Repeats", "Ends", "Outside", "Named", "Raises", "Hangs"),
]
POOL = {"a": ["r0", "r1", "r2", "r3"], "b": ["s0", "s1", "s2"]}
CORRECT = {"a": [False, False, True, False], "b": [False] * 3}


@pytest.fixture
def ranked(harness, tmp_path, plugin):
    """Rank a pool by a selector of `SELECTORS`; the outcome, and each problem's (trial, k, picks)."""
    own = plugin(SELECTORS, selector=NAMES)

    def call(selector, *options, pool=POOL, correct=CORRECT, store=tmp_path / "runs", **columns):
        lines = [
            {
                "problem_id": name,
                "responses": texts,
                "correct": correct[name],
                **{c: v[name] for c, v in columns.items()},
            }
            for name, texts in pool.items()
        ]
        path = write_json_lines(tmp_path / "pool.jsonl", lines)
        sizes = ("--n", 3) if pool is POOL else ()
        fixed = ("--pool", path, "--plugin", TOY, "--plugin", own, "--trials", 3, "--seed", 5, "--store", store)
        before = set(files_of(store, "orders"))
        outcome = harness("run", *fixed, *sizes, "--selector", selector, "--json", *options)
        made = [read(each) for each in sorted(set(files_of(store, "orders")) - before)]
        picks = [[tuple(row.values()) for row in table.to_pylist()] if table.num_columns else [] for table in made]
        return outcome, picks

    return call


def test_an_order_ends_at_the_first_correct_response_and_an_unsolvable_pool_is_not_ranked(ranked, noted):
    outcome, picks = ranked("inorder")
    assert picks == [[(trial, 0, [0, 1, 2]) for trial in range(3)], []]
    assert noted() == ["ranked"]  # it took no random number: one ranking serves all trials
    assert outcome.rows[0]["samples_to_correct"] == (3 + 4) / 2
    assert ranked("loose")[1][0] == [(trial, 0, [2]) for trial in range(3)]  # nothing after it is looked at


def test_orders_go_on_to_the_m_th_correct_response_and_with_enrichment_at_least_to_five_per_cent(ranked, tmp_path):
    pool = {"many": [f"r{i}" for i in range(60)], "few": ["s0", "s1", "s2"], "none": ["t0", "t1"]}
    correct = {"many": [i in (0, 1, 50) for i in range(60)], "few": [True, False, True], "none": [False] * 2}

    def lengths(*options):
        outcome, picks = ranked("inorder", *options, "--trials", 1, pool=pool, correct=correct)
        return [len(order[0][2]) if order else 0 for order in picks], outcome.rows[0]

    assert lengths("--correct", 1)[0] == [1, 1, 0]
    made, row = lengths("--correct", 2)
    assert (made, row["samples_to_correct"], row["solvable"]) == ([3, 2, 0], (3 + 2 + 3) / 3, 2)
    made, row = lengths("--correct", 3)
    assert (made, row["samples_to_correct"], row["samples_to_correct_oracle"]) == (
        [0, 51, 0],
        (51 + 4 + 3) / 3,
        (3 + 4 + 3) / 3,
    )
    made, row = lengths("--correct", 3, "--enrichment")
    assert made == [1, 51, 0]
    assert row["enrichment_factor"] == pytest.approx({"1": (20 + 1.5) / 2, "5": (2 / 3 * 20 + 1.5) / 2})
    assert lengths("--enrichment")[0] == [1, 3, 0]
    subset, _ = ranked("ofeach", "--correct", 2, "--enrichment", pool=pool, correct=correct)
    assert subset.rows[0]["pass_at_k"]["2"] <= 2 / 3  # two of two: not many of the sets of "few"
    assert subset.rows[0]["pass_at_k"]["1"] == 0


def test_each_trial_has_a_stream_of_its_own_also_where_the_ranker_spawns_one(ranked, noted):
    _, [picks, _] = ranked("shuffled")
    for trial, _, order in picks:
        whole = ranking_rng(5, Problem("a", ""), trial).permutation(3).tolist()
        assert order == whole[: whole.index(2) + 1]
    assert len(noted()) == len(picks) == 3
    ranked("spawning")
    assert len(noted()) == 3


def test_a_subset_method_has_a_subset_of_each_budget_from_a_stream_of_its_own(ranked, tmp_path):
    _, [picks, unsolvable] = ranked("ofeach")
    expected = []
    for trial in range(3):
        rngs = ranking_rng(5, Problem("a", ""), trial).spawn(3)
        expected += [
            (trial, k, rng.choice(3, k, replace=False).tolist()) for k, rng in zip((1, 2, 3), rngs, strict=True)
        ]
    assert (picks, unsolvable) == (expected, [])
    assert {about(read(path))["kind"] for path in files_of(tmp_path / "runs", "orders")} == {"subset"}


BROKEN = {
    "raises": "raised ZeroDivisionError: oh (own.py:",
    "ends": "raised HarnessError: the ranking ended after 2 of 3 responses",
    "repeats": "raised HarnessError: index 0 was picked twice",
    "outside": "raised HarnessError: index 4 is outside the pool of 3",
    "named": "raised HarnessError: an index must be an integer, got '0'",
}


@pytest.mark.parametrize("selector", BROKEN)
def test_a_broken_selector_fails_alone_and_is_named_with_problem_and_trial(ranked, selector):
    outcome, _ = ranked(selector, "--selector", "inorder")
    assert (outcome.code, [row["selector"] for row in outcome.rows]) == (1, ["inorder"])
    [line] = [line for line in outcome.err.splitlines() if line.startswith("failed: ")]
    words = BROKEN[selector].replace("raised HarnessError: ", "")
    assert f"selector '{selector}', problem 'a', trial 0: " in line
    assert words in line


def test_a_selector_that_reads_log_probabilities_is_refused_a_pool_without(ranked):
    line = "selector 'probable' needs log-probabilities, which the pool does not carry"
    outcome, _ = ranked("probable", "--selector", "inorder")
    assert line in outcome.err
    assert [row["selector"] for row in outcome.rows] == ["inorder"]  # who does not read them does not mind
    given = {"a": [-1.0, -2.0, -3.0, -4.0], "b": [-1.0, -2.0, -3.0]}
    assert ranked("probable", logprobs=given)[0].code == 0


def test_a_selector_sees_the_first_responses_with_vectors_centred_over_them_and_no_verdict(
    harness, tmp_path, plugin, noted
):
    own = plugin(SELECTORS, selector=NAMES)
    fixed = ("--task", "colours", "--data", "1", "--plugin", TOY, "--plugin", own, "--store", tmp_path / "runs")
    harness("run", *fixed, "--engine", "toy", "--n", "5", "--selector", "sees")
    seen, names = noted()[:2]
    texts, vectors, answers, lengths = json.loads(seen)
    assert answers == [text.split()[-1] for text in texts]
    assert (len(texts), lengths) == (5, [3] * 5)
    np.testing.assert_allclose(np.mean(vectors, axis=0), 0, atol=1e-6)
    assert names == str(["answers", "embeddings", "lengths", "logprobs", "mean", "scores", "texts"])


def test_unit_divides_rows_by_their_length_before_they_are_centred():
    rows = np.array([[3.0, 4.0], [0.0, 2.0], [0.0, 0.0]], np.float32)
    unit = np.array([[0.6, 0.8], [0.0, 1.0], [0.0, 0.0]])
    zeros = np.zeros(3)
    pool = Pool(["x"] * 3, **centred(rows, unit=True), logprobs=zeros, lengths=zeros, answers=[None] * 3)
    np.testing.assert_allclose(pool.embeddings, unit - unit.mean(axis=0), atol=1e-7)
    np.testing.assert_allclose(pool.uncentred, unit, atol=1e-7)
    np.testing.assert_allclose(pool.part([2, 0]).uncentred, unit[[2, 0]], atol=1e-7)


def test_what_no_pool_can_hold_names_its_source():
    with pytest.raises(HarnessError, match="here: pool: logprobs has 0 rows for 1 texts"):
        checked_pool("here", texts=["a"], embeddings=np.ones((1, 1)), logprobs=[], lengths=[1], answers=[None])


def test_the_mean_is_taken_in_double_precision():
    vectors = np.full((3, 1), 2**24, np.float32) + np.array([[0], [2], [4]], np.float32)
    assert centred(vectors)["embeddings"].tolist() == [[-2], [0], [2]]
    assert centred(vectors)["embeddings"].dtype == np.float32
    assert centred(np.zeros((0, 3), np.float32))["embeddings"].shape == (0, 3)


# Selectors that learn.

TOLD = """
class Told:
    '''Says in an error what it was told.'''

    needs = ()

    def rank(self, pool, rng):
        return iter(range(len(pool)))

    def pick_after(self, pool, outcomes, rng):
        if len(outcomes) == TOLD:
            raise RuntimeError([(outcome.index, outcome.value) for outcome in outcomes])
        return len(pool) - 1 - len(outcomes)
"""


def pool_of(n):
    return Pool(["x"] * n, np.zeros((n, 0), np.float32), np.full(n, np.nan), np.ones(n, np.int64), [None] * n)


def test_each_outcome_is_told_after_its_pick_and_an_error_is_none():
    selector, verdicts = Recorder(), ["wrong", "error", "wrong", "correct"]
    order = learnt_order(selector, pool_of(4), verdicts, 0, Problem("p", ""), 0)
    assert [next(order) for _ in range(3)] == [0, 1, 2]
    assert selector.told == [(), (Outcome(0, 0.0),), (Outcome(0, 0.0), Outcome(1, None))]
    assert list(order) == [3]


def test_the_rng_depends_on_seed_problem_trial_and_the_number_of_outcomes_alone():
    def number(*key, count=2):
        selector = SimpleNamespace(pick_after=lambda pool, outcomes, rng: int(rng.integers(10**6)) + 9)
        outcomes = [Outcome(index, 0.0) for index in range(count)]
        return pick_after(selector, range(10**7), outcomes, key[0], Problem(key[1], ""), key[2])

    base = number(0, "p", 0)
    assert number(0, "p", 0) == base
    others = {number(1, "p", 0), number(0, "q", 0), number(0, "p", 1), number(0, "p", 0, count=3)}
    assert len(others | {base}) == 5


@pytest.mark.parametrize(("pick", "words"), [(1, "picked twice"), (9, "outside"), (None, "must be an integer")])
def test_a_pick_that_is_none_of_the_rest_is_refused(pick, words):
    selector = SimpleNamespace(pick_after=lambda pool, outcomes, rng: pick)
    with pytest.raises(HarnessError, match=words):
        pick_after(selector, pool_of(3), [Outcome(1, 0.0)], 0, Problem("p", ""))


def test_a_run_tells_outcomes_of_own_picks_alone_ends_at_the_first_correct_one_and_tables_mark_the_selector(
    harness, tmp_path, plugin
):
    correct = [True, False, True, False, False]
    pool = write_json_lines(tmp_path / "p.jsonl", [{"problem_id": "p", "responses": ["x"] * 5, "correct": correct}])

    def run(told, *options):
        own = plugin(TOLD.replace("TOLD", str(told)), selector=["Told"])
        fixed = ("--pool", pool, "--plugin", TOY, "--plugin", own, "--store", tmp_path / "runs")
        return harness("run", "--selector", "told", "--selector", "uniform", *fixed, *options)

    assert "RuntimeError: [] " in run(0).err
    assert "RuntimeError: [(4, 0.0), (3, 0.0)] " in run(2).err
    outcome = run(99, "--explain")
    assert "told (learns)" in outcome.out
    assert "(learns): it is told the outcome of each of its picks before the next" in outcome.out
    rows = run(99, "--json").rows
    assert (rows[0]["selector"], rows[0]["learns"], rows[0]["samples_to_correct"]) == ("told", True, 3)
    assert "learns" not in rows[1]
    assert "RuntimeError: [(4, 0.0), (3, 0.0), (2, 1.0)] " in run(3, "--correct", 2).err
    assert run(99, "--correct", 2, "--json").rows[0]["samples_to_correct"] == 5


# `--rank-timeout`.

SOLVABLE = {"correct": {name: [False, True, False] for name in ("p", "q", "r")}}


@pytest.mark.slow
def test_a_bounded_ranking_gives_the_bytes_of_an_unbounded_one_in_one_process_that_is_kept(ranked, tmp_path, noted):
    pool = {name: [f"{name}{i}" for i in range(3)] for name in "pqr"}
    free, _ = ranked("shuffled", pool=pool, store=tmp_path / "free", **SOLVABLE)
    bounded, _ = ranked("shuffled", "--rank-timeout", "100", pool=pool, **SOLVABLE)
    assert bounded.rows == free.rows
    orders = [
        {name: content for name, content in contents(store).items() if "/orders." in name}
        for store in (tmp_path / "free", tmp_path / "runs")
    ]
    assert orders[0] == orders[1]
    noted()
    ranked("hangs", "--rank-timeout", "100", pool=pool, **SOLVABLE)
    [pid] = set(noted())
    assert int(pid) in descendants()
    end_limited()
    assert int(pid) not in descendants()


@pytest.mark.slow
def test_a_late_ranking_or_one_whose_process_dies_is_one_line_and_the_next_has_a_new_process(ranked):
    def texts(first):
        return {name: [first if name == "q" else name, "y", "z"] for name in "pqr"}

    ranked("hangs", "--rank-timeout", "100", pool=texts("x"), **SOLVABLE)  # the process is there
    outcome, _ = ranked("hangs", "--rank-timeout", "4", "--selector", "inorder", pool=texts("hang"), **SOLVABLE)
    line = "selector 'hangs', problem 'q': ranking took longer than 4 s and was ended (--rank-timeout)"
    assert line in outcome.err
    assert (outcome.code, [row["selector"] for row in outcome.rows]) == (1, ["inorder"])
    outcome, _ = ranked("hangs", "--rank-timeout", "100", "--selector", "inorder", pool=texts("die"), **SOLVABLE)
    assert "selector 'hangs', problem 'q': the process that ranked it died (out of memory?)" in outcome.err
    assert [row["selector"] for row in outcome.rows] == ["inorder"]
    outcome, _ = ranked("raises", "--rank-timeout", "100", pool=texts("x"), **SOLVABLE)
    assert "selector 'raises', problem 'p', trial 0: raised ZeroDivisionError: oh (own.py:" in outcome.err
    assert ranked("hangs", "--rank-timeout", "100", pool=texts("y"), **SOLVABLE)[0].code == 0
