"""`harness select`: the right responses, without a verdict and never those that were verified; a fault is one line."""

import json
from functools import cache, partial

import numpy as np
import pytest
from corpora.selection_faults import OPTIONS, VECTORS, VECTORS_ALONE, VERIFIED
from sklearn.random_projection import SparseRandomProjection
from support.choosing import LINES, RESPONSES, choose, of_duplicates, written
from support.paths import TOY
from support.refusals import refusal_of
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


def features(vectors, dim=512, seed=0, centre=True):
    """As the harness promises them, in float64: projected where wider than `dim`, then centred over all rows."""
    h = vectors.astype(np.float64)
    if h.shape[1] > dim:
        zeros = np.zeros((1, h.shape[1]), np.float32)
        h = SparseRandomProjection(n_components=dim, random_state=seed).fit(zeros).transform(h)
    return h - h.mean(axis=0) if centre else h


@pytest.mark.parametrize("centre", [True, False], ids=["centred", "as they are"])
@pytest.mark.parametrize("width", [6, 40, 700], ids=["narrow", "as wide as dim", "wide"])
def test_picks_of_repexp_maximise_the_bonus_also_after_what_was_verified(orders, write, width, centre):
    vectors = {name: of_duplicates(60, width, seed) for seed, name in enumerate("abc")}
    verified = {name: [17, 3, 59, *range(20, 30)] for name in "ac"}
    done = write("v.jsonl", [{"problem_id": name, "indices": indices} for name, indices in verified.items()])
    given = {"embeddings": write("E.npz", vectors), "dim": 40, "seed": 3, "centre": centre}
    for lam, k, options, before in ((1.0, 60, {}, {}), (0.5, 47, {"verified": done}, verified)):
        chosen = orders(f"repexp:lam={lam}", k, **given, **options)
        assert list(chosen) == list(vectors)
        for name, order in chosen.items():
            h = features(vectors[name], dim=40, seed=3, centre=centre)
            whole = before.get(name, []) + order
            whole += set(range(60)) - set(whole)
            start, end = len(before.get(name, [0])), len(before.get(name, [])) + k
            assert_greedy(whole, 60, partial(reference_bonuses, h, lam), start, end=end, rtol=1e-6)


def test_the_order_is_that_of_the_first_trial_of_a_run(harness, orders, write, tmp_path):
    lines = [line | {"responses": [f"{text} {i}" for i in range(4) for text in RESPONSES]} for line in LINES]
    pool = write("pool.jsonl", [line | {"correct": [False] * 19 + [True]} for line in lines])
    vectors = write("E.npz", {line["problem_id"]: of_duplicates(20, 4, 7) for line in lines})
    options = ("--pool", pool, "--embeddings", vectors, "--selector", "repexp", "--seed", "5")
    assert harness("run", *options, "--store", tmp_path / "of-run").code == 0
    [cell] = all_cells(tmp_path / "of-run")
    pulled = [entry["orders"][0] for entry in cell["problems"]]
    chosen = orders("repexp", 20, pool=pool, embeddings=vectors, seed=5)
    assert [chosen[name][: len(order)] for name, order in zip(chosen, pulled, strict=True)] == pulled
    assert sum(map(len, pulled)) > 3


def test_verdicts_are_not_needed_and_make_no_difference(orders, write):
    bare = orders("repexp", 3, pool=write("a.jsonl", LINES))
    for correct in ([True] * 5, [False, True, False, False, True]):
        graded = write("b.jsonl", [line | {"correct": correct} for line in LINES])
        assert orders("repexp", 3, pool=graded) == bare


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


def test_vectors_alone_are_enough_their_rows_are_the_responses(orders, write):
    vectors = {name: of_duplicates(n, 3, n) for name, n in (("plate b", 50), ("plate a", 8))}
    path = write("E.safetensors", vectors)
    chosen = orders("kcenter:first=max", 8, embeddings=path)
    assert set(chosen) == set(vectors)
    assert sorted(chosen["plate a"]) == list(range(8))
    pool = write("P.jsonl", [{"problem_id": name, "responses": ["x"] * len(h)} for name, h in vectors.items()])
    assert orders("kcenter:first=max", 8, pool=pool, embeddings=path) == chosen


def test_with_a_task_problems_are_joined_and_answers_extracted(orders, write):
    lines = [
        {"problem_id": "mine", "prompt": "Say colour 1 (test).", "responses": ["is it red", "say red", "red", "blue"]},
        {"problem_id": "other", "prompt": "Something else.", "responses": ["red"]},
    ]
    pool = write("p.jsonl", lines)
    chosen = orders("answer-round-robin", 2, pool=pool, task="colours")
    assert "1 of 2 problems join to none of the task's: 'other'" in orders.remarks
    assert list(chosen) == ["test/1"]
    assert chosen["test/1"][0] < 3
    assert chosen["test/1"][1] == 3
    verified = write("v.jsonl", [{"problem_id": "test/1", "indices": [1]}])
    assert orders("answer-round-robin", 1, pool=pool, task="colours", verified=verified) == {"test/1": [3]}
    orders("outcome-ucb", 1, pool=pool, task="keyed")
    assert "keyed: grading in room 1" in orders.remarks  # whether answers can be had here is asked first
    ids = write("ids.csv", "task_id,pool_id\ntest/2,other\n")
    assert list(orders("outcome-ucb", 1, pool=pool, task="colours", ids=ids)) == ["test/1", "test/2"]


def test_a_run_reuses_what_select_computed_and_the_other_way_round(harness, orders, pool, tmp_path):
    given = {"pool": pool, "task": "colours", "model": "x", "engine": "toy"}
    orders("spread", 2, **given)
    options = [part for name, value in given.items() for part in (f"--{name}", value)]
    run = harness("run", *options, "--selector", "spread", "--plugin", TOY, "--store", tmp_path / "runs")
    assert "embeddings: reused for 3 of 3 problems" in run.err
    orders("spread", 3, **given)
    assert "embeddings: reused for 3 of 3 problems" in orders.remarks


def test_a_subset_method_gives_a_set_of_what_is_left(write, tmp_path):
    vectors = write("E.npz", {"a": np.repeat(np.eye(3, dtype=np.float32), 5, axis=0)})
    [chosen], _ = choose(tmp_path, "kmeans", 3, embeddings=vectors)
    assert chosen.row() == {"problem_id": "a", "order": chosen.order, "ordered": False}
    assert {index // 5 for index in chosen.order} == {0, 1, 2}
    verified = write("v.jsonl", [{"problem_id": "a", "indices": [0, 1, 2, 3, 4]}])
    [chosen], _ = choose(tmp_path, "kmeans", 2, embeddings=vectors, verified=verified)
    assert sorted(index // 5 for index in chosen.order) == [1, 2]


def test_no_selector_offers_what_was_verified_and_problems_that_the_file_does_not_name_start_fresh(orders, write, pool):
    verified = write("v.jsonl", [{"problem_id": "test/1", "indices": [4]}, {"problem_id": "test/1", "order": [0, 4]}])
    for selector in ("uniform", "dedup", "length", "spread", "kcenter", "ngram-coverage", "head"):
        chosen = orders(selector, 3, pool=pool, verified=verified)
        assert sorted(chosen["test/1"]) == [1, 2, 3]
        assert len(set(chosen["test/0"])) == 3
    fresh = orders("kcenter", 3, pool=pool)
    verified = write("v.jsonl", [{"problem_id": "test/2", "indices": []}, {"problem_id": "test/1", "indices": [0]}])
    chosen = orders("kcenter", 3, pool=pool, verified=verified)
    assert [chosen[name] for name in ("test/0", "test/2")] == [fresh[name] for name in ("test/0", "test/2")]
    assert orders("kcenter", 3, pool=pool, verified=write("none.jsonl", "")) == fresh


def test_a_selector_that_cannot_go_on_is_given_the_rest_with_all_its_columns(write, tmp_path, capfd):
    plugin = write(
        "seen.py",
        "import json\nfrom harness import hookimpl\n\n\nclass Seen:\n"
        "    def rank(self, pool, rng):\n"
        "        print(json.dumps([pool.texts, pool.answers, pool.logprobs.tolist(), pool.lengths.tolist(),"
        " pool.embeddings.tolist()]))\n"
        "        yield from reversed(range(len(pool)))\n\n\n"
        "@hookimpl\ndef register_selectors(register):\n    register('seen', Seen)\n",
    )
    given = {
        "pool": write("p.jsonl", [LINES[0] | {"logprobs": [-1, -2, -3, -4, -5]}]),
        "embeddings": write("E.npz", {"test/0": np.arange(5, dtype=np.float32)[:, None] * [[1, 10]]}),
        "verified": write("v.jsonl", [{"problem_id": "test/0", "indices": [3, 1]}]),
    }
    [chosen], _ = choose(tmp_path, "seen", 2, task="colours", plugin_files=(TOY, plugin), **given)
    texts, answers, logprobs, lengths, embeddings = json.loads(capfd.readouterr().out)
    assert texts == [RESPONSES[0], RESPONSES[2], RESPONSES[4]]
    assert answers == ["red", "green", "grey"]
    assert (logprobs, lengths) == ([-1, -3, -5], [7, 9, 17])
    assert embeddings == [[-2, -20], [0, 0], [2, 20]]  # centred over all five
    assert chosen.order == [4, 2]


@pytest.fixture
def wrong_lines(tmp_path, monkeypatch):
    """Of rows (options, part of the line), those that are not refused with it, and with what they are refused."""
    monkeypatch.setattr("harness.columns.column.load_registry", cache(load_registry))

    def call(rows, **fixed):
        given = {"selector": "repexp", "k": 2} | fixed
        lines = [(options, fault, refusal_of(choose, tmp_path, **given | options)) for options, fault in rows]
        return [(options, line) for options, fault, line in lines if fault not in line]

    return call


def test_a_wrong_option_is_one_clear_line(wrong_lines, pool, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "E.npz", {"test/0": np.eye(5)})
    assert wrong_lines(OPTIONS, pool=pool) == []
    assert wrong_lines(VECTORS_ALONE, embeddings=tmp_path / "E.npz") == []


def test_a_wrong_file_of_what_was_verified_is_one_clear_line(wrong_lines, pool, tmp_path):
    for text, fault in VERIFIED:
        options = {"verified": written(tmp_path / "v.jsonl", text)}
        assert wrong_lines([(options, fault)], pool=pool) == [], text


def test_wrong_vectors_are_one_clear_line(wrong_lines, pool, tmp_path):
    for arrays, with_pool, fault in VECTORS:
        options = {"embeddings": written(tmp_path / "E.npz", arrays)} | ({"pool": pool} if with_pool else {})
        assert wrong_lines([(options, fault)]) == [], fault


def test_problems_that_a_model_cannot_encode_are_named_before_any_work(wrong_lines, tmp_path):
    bare = written(tmp_path / "bare.jsonl", [LINES[0], {"problem_id": "bare", "responses": ["a", "b"]}])
    small = written(tmp_path / "s.jsonl", [*LINES, {"problem_id": "small", "prompt": "x", "responses": ["a"]}])
    rows = [({"pool": bare}, "problem 'bare' has none: add `prompt`")]
    rows += [({"pool": small}, "problem 'small' has 1 response: -k 2 is more")]
    assert wrong_lines(rows, model="tiny24") == []
    assert not (tmp_path / "runs").exists()


def test_a_pool_that_joins_to_no_problem_of_the_task_is_refused(wrong_lines, tmp_path):
    pool = written(tmp_path / "p.jsonl", [line | {"prompt": ""} for line in LINES])
    rows = [({"task": "colours", "split": "broken"}, "none of its 3 problems is the task's")]
    assert wrong_lines(rows, pool=pool) == []


def test_a_selector_that_offers_what_was_verified_or_too_much_is_caught(wrong_lines, pool, tmp_path):
    plugin = written(
        tmp_path / "again.py",
        "from harness import hookimpl\n\n\nclass Again:\n    needs = ()\n\n"
        "    def rank(self, pool, rng):\n        yield from range(len(pool))\n\n"
        "    def rank_after(self, pool, verified, rng):\n        yield from range(len(pool))\n\n\n"
        "class Many:\n    needs = ()\n\n    def select(self, pool, k, rng):\n        return range(k + 1)\n\n\n"
        "@hookimpl\ndef register_selectors(register):\n    register('again', Again)\n    register('many', Many)\n",
    )
    rows = [({"selector": "again"}, "rank_after gave index 1, which is verified already")]
    rows += [({"selector": "many"}, "select gave 3 indices for k = 2")]
    verified = written(tmp_path / "v.jsonl", [{"problem_id": "test/0", "indices": [1]}])
    assert wrong_lines(rows, pool=pool, verified=verified, plugin_files=(TOY, plugin)) == []
