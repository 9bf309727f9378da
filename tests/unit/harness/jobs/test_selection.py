"""`harness select`: the right responses, without a verdict and never those that were verified; a fault is one line."""

import json
from functools import cache, partial

import numpy as np
import pytest
from corpora.selection_faults import OPTIONS, VECTORS, VECTORS_ALONE, VERIFIED
from sklearn.random_projection import SparseRandomProjection
from support.choosing import LINES, RESPONSES, choose, of_duplicates, written
from support.paths import TOY
from support.refusals import wrongly_refused
from support.stores import all_cells
from support.vector_pools import assert_greedy

from harness.plugin_system.registry import load_registry
from harness_selectors.repexp import reference_bonuses


@pytest.fixture
def write(tmp_path):
    return lambda name, content: written(tmp_path / name, content)


@pytest.fixture
def pool(write):
    return write("pool.jsonl", LINES)


@pytest.fixture
def orders(tmp_path):
    """Choose, and return problem id -> order; `orders.remarks` is what the last call said on the way."""

    def call(selector, k, **options):
        chosen, call.remarks = choose(tmp_path, selector, k, **options)
        return {each.problem_id: each.order for each in chosen}

    return call


@pytest.mark.parametrize(("width", "centre"), [(6, True), (700, False)])
def test_picks_of_repexp_maximise_the_bonus_also_after_what_was_verified(orders, write, width, centre):
    vectors = {name: of_duplicates(60, width, seed) for seed, name in enumerate("ab")}
    verified = {"a": [17, 3, 59, *range(20, 30)], "b": []}
    done = write("v.jsonl", [{"problem_id": name, "indices": indices} for name, indices in verified.items()])
    given = {"embeddings": write("E.npz", vectors), "dim": 40, "seed": 3, "centre": centre, "verified": done}
    for name, order in orders("repexp:lam=0.5", 47, **given).items():
        h = vectors[name].astype(np.float64)
        h = SparseRandomProjection(n_components=40, random_state=3).fit_transform(h) if width > 40 else h
        h = h - h.mean(axis=0) if centre else h
        before, whole = len(verified[name]), verified[name] + order
        whole += set(range(60)) - set(whole)
        assert_greedy(whole, 60, partial(reference_bonuses, h, 0.5), before or 1, end=before + 47, rtol=1e-6)


def test_the_order_is_that_of_the_first_trial_of_a_run_and_verdicts_make_no_difference(
    harness, orders, write, tmp_path
):
    lines = [line | {"responses": [f"{text} {i}" for i in range(4) for text in RESPONSES]} for line in LINES]
    graded = write("pool.jsonl", [line | {"correct": [False] * 19 + [True]} for line in lines])
    vectors = write("E.npz", {line["problem_id"]: of_duplicates(20, 4, 7) for line in lines})
    options = ("--pool", graded, "--embeddings", vectors, "--selector", "repexp", "--seed", "5")
    assert harness("run", *options, "--store", tmp_path / "of-run").code == 0
    [cell] = all_cells(tmp_path / "of-run")
    pulled = [entry["orders"][0] for entry in cell["problems"]]
    chosen = orders("repexp", 20, pool=write("bare.jsonl", lines), embeddings=vectors, seed=5)
    assert [chosen[name][: len(order)] for name, order in zip(chosen, pulled, strict=True)] == pulled
    assert sum(map(len, pulled)) > 3
    assert orders("repexp", 20, pool=graded, embeddings=vectors, seed=5) == chosen


def test_without_vectors_or_embedder_it_takes_tfidf_and_says_so_in_one_line(orders, pool, tmp_path):
    chosen = orders("repexp", 4, pool=pool)
    assert orders.remarks == "embedder: tfidf, since the pool has neither --embeddings nor --model\n"
    assert chosen == orders("repexp", 4, pool=pool, embedder="tfidf")
    assert not (tmp_path / "runs").exists()
    for order in orders("dedup", 4, pool=pool).values():
        assert {RESPONSES[index] for index in order} == set(RESPONSES)
    assert orders.remarks == ""
    orders("dedup", 4, pool=pool, embedder="tfidf")
    assert orders.remarks == "selector 'dedup' reads no vectors: none are made\n"


def test_with_a_task_problems_are_joined_and_answers_extracted(orders, write):
    lines = [
        {"problem_id": "mine", "prompt": "Say colour 1 (test).", "responses": ["is it red", "say red", "red", "blue"]},
        {"problem_id": "other", "prompt": "Something else.", "responses": ["red"]},
    ]
    pool = write("p.jsonl", lines)
    chosen = orders("answer-round-robin", 2, pool=pool, task="colours")
    assert "1 of 2 problems join to none of the task's: 'other'" in orders.remarks
    assert list(chosen) == ["test/1"]
    assert (chosen["test/1"][0] < 3, chosen["test/1"][1]) == (True, 3)
    verified = write("v.jsonl", [{"problem_id": "test/1", "indices": [1]}])
    assert orders("answer-round-robin", 1, pool=pool, task="colours", verified=verified) == {"test/1": [3]}
    orders("outcome-ucb", 1, pool=pool, task="keyed")
    assert "keyed: grading in room 1" in orders.remarks  # whether answers can be had here is asked first
    ids = write("ids.csv", "task_id,pool_id\ntest/2,other\n")
    assert list(orders("outcome-ucb", 1, pool=pool, task="colours", ids=ids)) == ["test/1", "test/2"]


def test_no_selector_offers_what_was_verified_and_problems_that_the_file_does_not_name_start_fresh(orders, write, pool):
    verified = write("v.jsonl", [{"problem_id": "test/1", "indices": [4]}, {"problem_id": "test/1", "order": [0, 4]}])
    for selector in ("uniform", "dedup", "kcenter", "ngram-coverage", "head"):
        fresh, chosen = (orders(selector, 3, pool=pool, **options) for options in ({}, {"verified": verified}))
        assert sorted(chosen["test/1"]) == [1, 2, 3]
        assert chosen | {"test/1": 0} == fresh | {"test/1": 0}


PLUGIN = """
class Seen:
    def rank(self, pool, rng):
        columns = (pool.logprobs, pool.lengths, pool.embeddings)
        print(json.dumps([pool.texts, pool.answers, *(column.tolist() for column in columns)]))
        yield from reversed(range(len(pool)))

class Again:
    needs = ()
    def rank(self, pool, rng):
        yield from range(len(pool))
    def rank_after(self, pool, verified, rng):
        yield from range(len(pool))

class Many:
    needs = ()
    def select(self, pool, k, rng):
        return range(k + 1)
"""


@pytest.fixture
def with_own(plugin):
    return {"plugin_files": (TOY, plugin(PLUGIN, selector=["Seen", "Again", "Many"]))}


def test_a_selector_that_cannot_go_on_is_given_the_rest_with_all_its_columns(write, orders, capfd, with_own):
    given = {
        "pool": write("p.jsonl", [LINES[0] | {"logprobs": [-1, -2, -3, -4, -5]}]),
        "embeddings": write("E.npz", {"test/0": np.arange(5, dtype=np.float32)[:, None] * [[1, 10]]}),
        "verified": write("v.jsonl", [{"problem_id": "test/0", "indices": [3, 1]}]),
    }
    assert orders("seen", 2, task="colours", **with_own, **given) == {"test/0": [4, 2]}
    texts, *columns = json.loads(capfd.readouterr().out)
    assert texts == [RESPONSES[0], RESPONSES[2], RESPONSES[4]]
    assert columns[:3] == [["red", "green", "grey"], [-1, -3, -5], [7, 9, 17]]
    assert columns[3] == [[-2, -20], [0, 0], [2, 20]]  # centred over all five


def test_each_fault_of_options_vectors_and_what_was_verified_is_one_clear_line(
    write, tmp_path, pool, with_own, monkeypatch
):
    monkeypatch.setattr("harness.columns.column.load_registry", cache(load_registry))
    monkeypatch.chdir(tmp_path)

    def wrong(rows, **fixed):
        return wrongly_refused(
            rows, lambda options: choose(tmp_path, **{"selector": "repexp", "k": 2} | fixed | options)
        )

    alone = write("E.npz", {"test/0": np.eye(5)})
    assert wrong(OPTIONS, pool=pool) + wrong(VECTORS_ALONE, embeddings=alone) == []
    for text, fault in VERIFIED:
        assert wrong([({"verified": write("v.jsonl", text)}, fault)], pool=pool) == []
    for arrays, with_pool, fault in VECTORS:
        options = {"embeddings": write("F.npz", arrays)} | ({"pool": pool} if with_pool else {})
        assert wrong([(options, fault)]) == []
    bare = write("bare.jsonl", [LINES[0], {"problem_id": "bare", "responses": ["a", "b"]}])
    small = write("s.jsonl", [*LINES, {"problem_id": "small", "prompt": "x", "responses": ["a"]}])
    rows = [({"pool": bare}, "problem 'bare' has none: add `prompt`")]
    rows += [({"pool": small}, "problem 'small' has 1 response: -k 2 is more")]
    assert wrong(rows, model="tiny24") == []
    other = write("p.jsonl", [line | {"prompt": ""} for line in LINES])
    assert wrong([({"task": "colours", "split": "broken"}, "none of its 3 problems is the task's")], pool=other) == []
    rows = [({"selector": "again"}, "rank_after gave index 1, which is verified already")]
    rows += [({"selector": "many"}, "select gave 3 indices for k = 2")]
    assert (
        wrong(rows, pool=pool, verified=write("v.jsonl", [{"problem_id": "test/0", "indices": [1]}]), **with_own) == []
    )
