"""`harness select`: the right responses, without looking at a verdict; every fault one line; selectors that go on."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file
from scipy.stats import chisquare
from support.documents import code_blocks
from support.paths import ROOT, TOY
from support.processes import harness_command, printed_by, run_to_end
from support.refusals import error_line
from support.selector_pools import mixed_pool
from support.tiny_checkpoints import save_checkpoint
from support.vector_pools import assert_greedy, every_family, gains, mmr_scores, pool_of, residuals, tiny_sets

from harness import Pool, Responses
from harness_selectors.answer_round_robin import AnswerRoundRobin
from harness_selectors.dedup import Dedup
from harness_selectors.dpp_map import DPPMap, reference_residuals
from harness_selectors.facility_location import FacilityLocation
from harness_selectors.kcenter import KCenter, reference_distances
from harness_selectors.kmeans_pp import KMeansPP
from harness_selectors.mmr import MMR
from harness_selectors.ngram_coverage import NgramCoverage, reference_order
from harness_selectors.numerics.similarity import reference_cosines, reference_gaussian
from harness_selectors.outcome_ucb import OutcomeUcb
from harness_selectors.repexp import RepExp, reference_bonuses

SAID = ["say red", "say blue", "say green", "say red", "say pink and grey"]
LINES = [{"problem_id": f"test/{i}", "responses": SAID, "prompt": f"Say colour {i} (test)."} for i in range(3)]


@pytest.fixture
def write(tmp_path):
    """Write a file of JSON lines (or of text), or of arrays, and return its path."""

    def call(name, content):
        path = tmp_path / name
        if name.endswith(".npz"):
            np.savez(path, **content)
        elif name.endswith(".safetensors"):
            save_file(content, path)
        else:
            text = content if isinstance(content, str) else "".join(json.dumps(line) + "\n" for line in content)
            path.write_text(text)
        return path

    return call


@pytest.fixture
def select(harness, tmp_path):
    """Run `harness select ... --json`; the store is in the test's own folder."""

    def call(*args, form="--json"):
        return harness("select", "--store", tmp_path / "runs", "--plugin", TOY, *([form] if form else []), *args)

    return call


@pytest.fixture
def pool(write):
    return write("pool.jsonl", LINES)


def orders(outcome) -> dict[str, list[int]]:
    assert outcome.code == 0, outcome.err
    return {row["problem_id"]: row["order"] for row in outcome.rows}


# RepExp's picks, by brute force on features made here.


def features(vectors, dim=512, seed=0, centre=True):
    """As the harness promises them, in float64: projected where wider than `dim`, then centred over all rows."""
    from sklearn.random_projection import SparseRandomProjection

    h = vectors.astype(np.float64)
    if h.shape[1] > dim:
        zeros = np.zeros((1, h.shape[1]), np.float32)
        h = SparseRandomProjection(n_components=dim, random_state=seed).fit(zeros).transform(h)
    return h - h.mean(axis=0) if centre else h


def assert_greedy_bonuses(h, before, order, lam=1.0) -> None:
    """Every pick of the order has the largest bonus of the rows left, to 1e-6 relative."""
    picked = list(before)
    for index in order:
        bonus = reference_bonuses(h, lam, picked)
        left = np.setdiff1d(np.arange(len(h)), picked)
        assert index in left
        assert bonus[index] >= bonus[left].max() * (1 - 1e-6)
        picked.append(index)


def of_duplicates(n, d, seed):
    """Rows far from the origin, of unequal size; four in ten are copies."""
    rng = np.random.default_rng(seed)
    h = rng.normal(size=(n, d)) * rng.gamma(2.0, 1.0, size=(n, 1)) + 5 * rng.normal(size=d)
    h[6 * n // 10 :] = h[rng.integers(6 * n // 10, size=n - 6 * n // 10)]
    return h.astype(np.float32)


@pytest.mark.parametrize("centre", [True, False], ids=["centred", "as they are"])
@pytest.mark.parametrize("width", [6, 40, 700], ids=["narrow", "as wide as dim", "wide"])
def test_every_pick_of_repexp_maximises_the_bonus_given_the_first(select, write, width, centre):
    vectors = {f"p{i}": of_duplicates(150 + i, width, seed=i) for i in range(3)}
    lines = [{"problem_id": name, "responses": [f"r{i}" for i in range(len(h))]} for name, h in vectors.items()]
    options = ("--selector", "repexp", "-k", "64", "--dim", "40", "--seed", "3", *([] if centre else ["--no-centre"]))
    found = orders(select("--pool", write("P.jsonl", lines), "--embeddings", write("E.npz", vectors), *options))
    assert list(found) == list(vectors)
    for name, order in found.items():
        assert len(order) == 64
        h = features(vectors[name], dim=40, seed=3, centre=centre)
        assert_greedy_bonuses(h, order[:1], order[1:])


@pytest.mark.parametrize("centre", [True, False], ids=["centred", "as they are"])
@pytest.mark.parametrize("width", [6, 700], ids=["narrow", "wide"])
def test_repexp_goes_on_from_what_was_verified(select, write, width, centre):
    vectors = {name: of_duplicates(120, width, seed) for seed, name in enumerate("abc")}
    verified = {"a": [17, 3, 99], "c": [4, *range(60, 110)]}
    listed = write("v.jsonl", [{"problem_id": name, "indices": indices} for name, indices in verified.items()])
    options = ("--selector", "repexp:lam=0.5", "-k", "40", "--dim", "40", *([] if centre else ["--no-centre"]))
    found = orders(select("--embeddings", write("E.npz", vectors), "--verified", listed, *options))
    for name, order in found.items():
        before = verified.get(name, order[:1])
        h = features(vectors[name], dim=40, centre=centre)
        assert_greedy_bonuses(h, before, order if name in verified else order[1:], lam=0.5)


def test_the_real_command_prints_the_orders_as_json(write, tmp_path):
    h = of_duplicates(90, 5, seed=1)
    pool = write("P.jsonl", [{"problem_id": "only", "responses": [str(i) for i in range(90)]}])
    options = ("--pool", pool, "--embeddings", write("E.npz", {"only": h}), "--selector", "repexp", "-k", 64, "--json")
    done = run_to_end(harness_command("select", *options), cwd=tmp_path, check=True)
    (row,) = json.loads(done.stdout)
    assert list(row) == ["problem_id", "order", "ordered"]
    assert (row["problem_id"], len(row["order"]), row["ordered"]) == ("only", 64, True)
    assert_greedy_bonuses(features(h), row["order"][:1], row["order"][1:])
    assert not (tmp_path / "runs").exists()


def test_the_order_is_that_of_the_first_trial_of_a_run(harness, select, write, tmp_path):
    lines = [line | {"responses": [f"{text} {i}" for i in range(4) for text in SAID]} for line in LINES]
    pool = write("pool.jsonl", [line | {"correct": [False] * 19 + [True]} for line in lines])
    vectors = write("E.npz", {line["problem_id"]: of_duplicates(20, 4, 7) for line in lines})
    options = ("--pool", pool, "--embeddings", vectors, "--selector", "repexp", "--seed", "5")
    assert harness("run", *options, "--store", tmp_path / "of-run").code == 0
    pulled = [json.loads(path.read_text())["trials"][0] for path in sorted((tmp_path / "of-run").rglob("test_*.json"))]
    chosen = orders(select(*options, "-k", "20"))
    assert [chosen[name][: len(order)] for name, order in zip(sorted(chosen), pulled, strict=True)] == pulled
    assert sum(map(len, pulled)) > 3


# What it selects from.


def test_verdicts_are_not_needed_and_make_no_difference(select, write):
    options = ("--selector", "repexp", "-k", "3")
    bare = orders(select("--pool", write("a.jsonl", LINES), *options))
    for correct in ([True] * 5, [False, True, False, False, True]):
        graded = write("b.jsonl", [line | {"correct": correct} for line in LINES])
        assert orders(select("--pool", graded, *options)) == bare


def test_without_vectors_or_embedder_it_takes_tfidf_and_says_so_in_one_line(select, pool, tmp_path):
    outcome = select("--pool", pool, "--selector", "repexp", "-k", "4")
    assert outcome.err.splitlines() == ["embedder: tfidf, since the pool has neither --embeddings nor --model"]
    assert orders(outcome) == orders(select("--pool", pool, "--selector", "repexp", "-k", "4", "--embedder", "tfidf"))
    assert not (tmp_path / "runs").exists()
    for order in orders(outcome).values():
        assert set(order) != {0, 3} | set(order[:2])  # "say red" is not taken twice before all others
        assert len(set(order)) == 4


def test_selectors_that_need_no_vectors_run_without_any(select, pool):
    outcome = select("--pool", pool, "--selector", "dedup", "-k", "4")
    assert outcome.err == ""
    for order in orders(outcome).values():
        assert {SAID[index] for index in order} == set(SAID)
    outcome = select("--pool", pool, "--selector", "dedup", "-k", "4", "--embedder", "tfidf")
    assert outcome.err.splitlines() == ["selector 'dedup' reads no vectors: none are made"]


@pytest.mark.parametrize("kind", ["npz", "safetensors"])
def test_vectors_alone_are_enough_their_rows_are_the_responses(select, write, kind):
    vectors = {name: of_duplicates(n, 3, n) for name, n in (("plate b", 50), ("plate a", 8))}
    path = write(f"E.{kind}", vectors)
    found = orders(select("--embeddings", path, "--selector", "kcenter:first=max", "-k", "8"))
    assert set(found) == set(vectors)
    assert sorted(found["plate a"]) == list(range(8))
    pool = write("P.jsonl", [{"problem_id": name, "responses": ["x"] * len(h)} for name, h in vectors.items()])
    beside = orders(select("--pool", pool, "--embeddings", path, "--selector", "kcenter:first=max", "-k", "8"))
    assert beside == found
    table = select("--embeddings", path, "--selector", "uniform", "-k", "2", form=None).out
    assert "plate a" in table


def test_another_embedder_is_used(select, pool):
    found = orders(select("--pool", pool, "--selector", "particular", "-k", "5", "--embedder", "letters"))
    assert found == {line["problem_id"]: [0, 1, 2, 3, 4] for line in LINES}  # it refuses vectors that are not centred
    assert "raised AssertionError" in error_line(
        select("--pool", pool, "--selector", "particular", "-k", "5", "--embedder", "letters", "--no-centre")
    )


@pytest.mark.parametrize(
    ("name", "lines", "ids"),
    [
        (
            "samples.jsonl",
            [{"task_id": f"Mbpp/{i % 2}", "solution": f"x = {i}"} for i in range(6)],
            ["Mbpp/0", "Mbpp/1"],
        ),
        ("codet.jsonl", [{"prompt": "def f():", "samples": ["a", "b", "c"]}], ["line-1"]),
        ("steps.jsonl", [{"input": "2 + 2", "output": f"{i}", "score": 1.0, "step": 4} for i in range(3)], ["line-1"]),
    ],
)
def test_files_of_other_tools_are_read_as_run_reads_them(select, write, name, lines, ids):
    outcome = select("--pool", write(name, lines), "--selector", "uniform", "-k", "3")
    assert list(orders(outcome)) == ids
    assert outcome.err.startswith("pool: read as ")


def test_with_a_task_problems_are_joined_and_answers_extracted(select, write):
    lines = [
        {"problem_id": "mine", "prompt": "Say colour 1 (test).", "responses": ["is it red", "say red", "red", "blue"]},
        {"problem_id": "other", "prompt": "Something else.", "responses": ["red"]},
    ]
    pool = write("p.jsonl", lines)
    outcome = select("--pool", pool, "--task", "colours", "--selector", "answer-round-robin", "-k", "2")
    assert "1 of 2 problems join to none of the task's: 'other'" in outcome.err
    (order,) = orders(outcome).values()
    assert list(orders(outcome)) == ["test/1"]
    assert order[0] < 3
    assert order[1] == 3
    verified = write("v.jsonl", [{"problem_id": "test/1", "indices": [1]}])
    options = ("--pool", pool, "--task", "colours", "--selector", "answer-round-robin", "--verified", verified)
    assert orders(select(*options, "-k", "1")) == {"test/1": [3]}
    outcome = select("--pool", pool, "--task", "keyed", "--selector", "outcome-ucb", "-k", "1")
    assert "keyed: grading in room 1" in outcome.err  # whether answers can be had here is asked first


def test_a_table_of_ids_joins_what_nothing_else_joins(select, write):
    pool = write("p.jsonl", [{"problem_id": "mine", "responses": ["red", "blue"]}])
    ids = write("ids.csv", "task_id,pool_id\ntest/2,mine\n")
    options = ("--pool", pool, "--task", "colours", "--ids", ids, "--selector", "outcome-ucb", "-k", "2")
    assert list(orders(select(*options))) == ["test/2"]


def test_log_probabilities_reach_the_selector(select, write):
    rated = write("p.jsonl", [LINES[0] | {"logprobs": [-5, -4, -1, -2, -3]}])
    assert orders(select("--pool", rated, "--selector", "logprob", "-k", "3")) == {"test/0": [2, 3, 4]}


# Vectors that a model computes: real ones.


@pytest.mark.parametrize("model", ["tiny24", "checkpoint"])
def test_a_models_own_hidden_states_are_the_vectors_and_are_kept(select, write, tmp_path, model):
    from harness_plugins.engines.transformers.engine import Transformers

    name = "tiny24" if model == "tiny24" else str(save_checkpoint(tmp_path / "model", "qwen2"))
    texts = ["Answer: (10 - 6) * 5 + 4", "10 - 6 = 4", "4 * 6 = 24", "Answer: 10 * 4 - 6 - 5", "5", "4 * 6 = 24"]
    pool = write("p.jsonl", [{"problem_id": "one", "prompt": "4 5 6 10", "responses": texts, "correct": [True] * 6}])
    options = (
        "--pool",
        pool,
        "--embedder",
        "hidden-mean",
        "--model",
        name,
        "--selector",
        "repexp:first=max",
        "-k",
        "6",
    )
    outcome = select(*options)
    (order,) = orders(outcome).values()
    n = len(texts)
    responses = Responses(texts, ["stop"] * n, np.zeros(n, np.int64), np.zeros(n))
    chat = [{"role": "user", "content": "4 5 6 10"}]
    h = Transformers(name, device="cpu").encode(chat, responses, ["mean"])["mean"]
    assert_greedy_bonuses(features(h, dim=512), [], order[:5])  # of copies the second is left with next to nothing
    again = select(*options)
    assert "embeddings: reused for 1 of 1 problems" in again.err
    assert orders(again) == orders(outcome)
    assert not list((tmp_path / "runs").rglob("*verdict*"))


def test_a_run_reuses_what_select_computed_and_the_other_way_round(harness, select, pool, tmp_path):
    options = ("--pool", pool, "--task", "colours", "--model", "x", "--engine", "toy", "--selector", "spread")
    assert select(*options, "-k", "2").code == 0
    run = harness("run", *options, "--plugin", TOY, "--store", tmp_path / "runs")
    assert "embeddings: reused for 3 of 3 problems" in run.err
    assert "embeddings: reused for 3 of 3 problems" in select(*options, "-k", "3").err


# What comes out.


def test_json_lines_are_the_same_one_object_a_line(select, pool):
    options = ("--pool", pool, "--selector", "uniform", "-k", "2")
    lines = select(*options, form="--jsonl").out.splitlines()
    assert [json.loads(line) for line in lines] == select(*options).rows
    assert len(lines) == 3


def test_the_table_shows_problem_rank_index_and_how_the_response_begins(select, pool):
    options = ("--pool", pool, "--selector", "length:first=long", "-k", "2")
    rows = [line.strip().split(maxsplit=3) for line in select(*options, form=None).out.splitlines() if "test/" in line]
    assert rows[:2] == [["test/0", "1", "4", "say pink and grey"], ["test/0", "2", "2", "say green"]]
    assert len(rows) == 6


def test_a_subset_method_gives_a_set(select, write):
    vectors = write("E.npz", {"a": np.repeat(np.eye(3, dtype=np.float32), 5, axis=0)})
    outcome = select("--embeddings", vectors, "--selector", "kmeans", "-k", "3")
    (row,) = outcome.rows
    assert row["ordered"] is False
    assert {index // 5 for index in row["order"]} == {0, 1, 2}
    verified = write("v.jsonl", [{"problem_id": "a", "indices": [0, 1, 2, 3, 4]}])
    outcome = select("--embeddings", vectors, "--selector", "kmeans", "-k", "2", "--verified", verified)
    assert sorted(index // 5 for index in outcome.rows[0]["order"]) == [1, 2]
    shown = select("--embeddings", vectors, "--selector", "kmeans", "-k", "1", form=None).out
    assert shown.splitlines()[3].split()[:2] == ["a", "-"]  # a set has no ranks


@pytest.mark.parametrize("text", ["\x1b[31mred\x1b[0m", "\ud800", "[bold]x[/bold]", "", "a\nb\tc", "‮abc", "x" * 10**6])
def test_a_hostile_response_is_shown_harmlessly(select, write, text):
    pool = write("p.jsonl", [{"problem_id": "p", "responses": [text, "say red"]}])
    outcome = select("--pool", pool, "--selector", "uniform", "-k", "2", form=None)
    assert outcome.code == 0, outcome.err
    assert "\x1b" not in outcome.out
    assert "‮" not in outcome.out
    assert max(map(len, outcome.out.splitlines())) < 130
    if "bold" in text:
        assert text in outcome.out


# What was verified is not offered again.


@pytest.mark.parametrize("selector", ["uniform", "dedup", "length", "spread", "kcenter", "ngram-coverage", "head"])
def test_no_selector_offers_what_was_verified(select, write, pool, selector):
    verified = write("v.jsonl", [{"problem_id": "test/1", "indices": [4, 0]}])
    found = orders(select("--pool", pool, "--selector", selector, "-k", "3", "--verified", verified))
    assert sorted(found["test/1"]) == [1, 2, 3]
    assert len(set(found["test/0"])) == 3


def test_a_selector_that_cannot_go_on_is_given_the_rest_with_all_its_columns(select, write, tmp_path):
    plugin = tmp_path / "seen.py"
    plugin.write_text(
        "import json\nfrom harness import hookimpl\n\n\nclass Seen:\n"
        "    def rank(self, pool, rng):\n"
        "        print('SEEN', json.dumps([pool.texts, pool.answers, pool.logprobs.tolist(), pool.lengths.tolist(),"
        " pool.embeddings.tolist()]))\n"
        "        yield from reversed(range(len(pool)))\n\n\n"
        "@hookimpl\ndef register_selectors(register):\n    register('seen', Seen)\n"
    )
    line = LINES[0] | {"logprobs": [-1, -2, -3, -4, -5]}
    vectors = np.arange(5, dtype=np.float32)[:, None] * [[1, 10]]
    verified = write("v.jsonl", [{"problem_id": "test/0", "indices": [3, 1]}])
    outcome = select(
        *("--pool", write("p.jsonl", [line]), "--embeddings", write("E.npz", {"test/0": vectors}), "--task", "colours"),
        *("--plugin", plugin, "--selector", "seen", "-k", "2", "--verified", verified),
        form="--jsonl",
    )
    [row] = outcome.out.splitlines()  # with --jsonl what a plugin prints goes to stderr
    [seen] = [line for line in outcome.err.splitlines() if line.startswith("SEEN ")]
    texts, answers, logprobs, lengths, embeddings = json.loads(seen.removeprefix("SEEN "))
    assert texts == [SAID[0], SAID[2], SAID[4]]
    assert answers == ["red", "green", "grey"]
    assert (logprobs, lengths) == ([-1, -3, -5], [7, 9, 17])
    assert embeddings == [[-2, -20], [0, 0], [2, 20]]  # centred over all five
    assert json.loads(row)["order"] == [4, 2]


GOOD = '{"problem_id": "test/0", "indices": [0, 2]}\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("not json\n", "line 1: not JSON"),
        (GOOD + '{"problem_id": "test/1"', "line 2: not JSON"),
        ("3\n", "line 1: expected JSON objects"),
        (
            '{"problem_id": "test/0"}\n',
            'line 1: expected {"problem_id": ..., "indices": [...]}, got the keys \'problem_id\'',
        ),
        ('{"problem_id": 7, "indices": []}\n', "line 1: problem_id must be a text, got 7"),
        ('{"problem_id": "tset/0", "indices": []}\n', "'tset/0' is none of the 3 of the pool (did you mean 'test/0'?)"),
        ('{"problem_id": "?", "indices": []}\n', "line 1: problem '?' is none of the 3 of the pool"),
        ('{"problem_id": "test/0", "indices": 3}\n', "indices must be a list of whole numbers, got 3"),
        ('{"problem_id": "test/0", "indices": [1.0]}\n', "indices must be whole numbers, got 1.0"),
        ('{"problem_id": "test/0", "indices": [true]}\n', "indices must be whole numbers, got True"),
        ('{"problem_id": "test/0", "indices": ["1"]}\n', "indices must be whole numbers, got '1'"),
        (GOOD + '{"problem_id": "test/1", "indices": [0, 5]}\n', "line 2 (test/1): index 5 is outside 0..4"),
        ('{"problem_id": "test/0", "indices": [-1]}\n', "index -1 is outside 0..4"),
        ('{"problem_id": "test/0", "indices": [2, 1, 2]}\n', "line 1 (test/0): index 2 stands there twice"),
        (GOOD + GOOD, "line 2: problem 'test/0' stands on line 1 already"),
        ('{"problem_id": "test/0", "indices": [4, 3, 2, 1, 0]}\n', "problem 'test/0': all 5 responses are verified"),
        (
            '{"problem_id": "test/0", "indices": [4, 3, 2, 1]}\n',
            "has 5 responses, 4 of them verified: -k 2 is more than",
        ),
    ],
)
def test_a_wrong_file_of_what_was_verified_is_one_clear_line(select, write, pool, text, said):
    line = error_line(select("--pool", pool, "--selector", "repexp", "-k", "2", "--verified", write("v.jsonl", text)))
    assert said in line
    assert "v.jsonl" in line or line.startswith("error: select: problem 'test/0'")


def test_problems_that_the_file_does_not_name_start_fresh(select, write, pool):
    options = ("--pool", pool, "--selector", "kcenter", "-k", "3")
    fresh, nothing = orders(select(*options)), write("none.jsonl", "")
    verified = write("v.jsonl", [{"problem_id": "test/2", "indices": []}, {"problem_id": "test/1", "indices": [0]}])
    found = orders(select(*options, "--verified", verified))
    assert {name: found[name] == order for name, order in fresh.items()}["test/0"]
    assert found["test/2"] == fresh["test/2"]
    assert 0 not in found["test/1"]
    assert orders(select(*options, "--verified", nothing)) == fresh
    assert "absent.jsonl: no such file" in error_line(select(*options, "--verified", "absent.jsonl"))


# Every other fault is one clear line too.


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["-k", "6"], "problem 'test/0' has 5 responses: -k 6 is more than the 5 left"),
        (["-k", "0"], "-k must be at least 1, got 0"),
        (["-k", "2", "--selector", "repex"], "unknown selector 'repex' (did you mean 'repexp'?"),
        (["-k", "2", "--selector", "repexp:lam=-1"], "repexp: lam must be > 0, got -1"),
        (["-k", "2", "--selector", "repexp:lamb=1"], "did you mean 'lam'?"),
        (
            ["-k", "2", "--embedder", "hidden-mean"],
            "embedder 'hidden-mean' takes a model's hidden states: say which --model",
        ),
        (["-k", "2", "--embedder", "hidden-means"], "did you mean 'hidden-mean'?"),
        (["-k", "2", "--embedder", "tfidf", "--model", "tiny24"], "embedder 'tfidf' takes no --model"),
        (["-k", "2", "--model", "tiny25"], "did you mean 'tiny24'?"),
        (["-k", "2", "--model", "x", "--engine", "stateless"], "which engine 'stateless' does not give"),
        (["-k", "2", "--seed", "-1"], "--seed must not be negative"),
        (["-k", "2", "--dim", "0"], "--dim must be at least 1"),
        (
            ["-k", "2", "--selector", "logprob"],
            "selector 'logprob' needs log-probabilities, which the pool does not carry",
        ),
        (
            ["-k", "2", "--selector", "answer-round-robin"],
            "reads canonical answers, which a task extracts: say which --task",
        ),
        (
            ["-k", "2", "--selector", "dedup:by=answer"],
            "reads canonical answers, which a task extracts: say which --task",
        ),
        (["-k", "2", "--task", "colour"], "unknown task 'colour' (did you mean 'colours'?"),
        (["-k", "2", "--ids", "ids.csv"], "say which --task"),
        (["-k", "2", "--task", "colours", "--split", "broken"], "none of its 3 problems is the task's"),
        (["-k", "2", "--embeddings", "absent.npz"], "embeddings absent.npz: no such file"),
        (["-k", "2", "--selector", "twice"], "selector 'twice', problem 'test/0': index 0 was picked twice"),
        (["-k", "2", "--selector", "raising"], "problem 'test/0': raised ZeroDivisionError: oh (toy.py:"),
        (["-k", "2", "--selector", "short"], "problem 'test/0': the ranking ended after 0 of 2 picks"),
        (["-k", "2", "--plugin", "absent.py"], "absent.py: no such file"),
    ],
)
def test_a_wrong_option_is_one_clear_line(select, write, args, said):
    pool = write("pool.jsonl", [{**line, "prompt": ""} if "broken" in args else line for line in LINES])
    args = ["--selector", "repexp", *args] if "--selector" not in args else args
    assert said in error_line(select("--pool", pool, *args))


def test_what_goes_together_is_checked(select, write, pool):
    vectors = write("E.npz", {"test/0": np.eye(5)})
    wanted = ("--selector", "repexp", "-k", "2")
    assert "--pool FILE, or --embeddings FILE alone" in error_line(select(*wanted))
    assert "not both" in error_line(select(*wanted, "--pool", pool, "--embeddings", vectors, "--embedder", "tfidf"))
    assert "not both" in error_line(select(*wanted, "--pool", pool, "--embeddings", vectors, "--model", "tiny24"))
    assert "--task goes with --pool" in error_line(select(*wanted, "--embeddings", vectors, "--task", "colours"))
    alone = ("--embeddings", vectors, "-k", "2", "--selector")
    assert "reads texts: give --pool beside" in error_line(select(*alone, "ngram-coverage"))
    assert "(and give --pool)" in error_line(select(*alone, "outcome-ucb"))
    assert "needs log-probabilities" in error_line(select(*alone, "mmr"))
    assert "test/0' has 5 responses: -k 6" in error_line(select(*alone, "repexp", "-k", "6"))
    assert select("--pool", pool, "--selector", "repexp").code == 2  # -k is required
    assert "no such file" in error_line(select(*wanted, "--pool", "absent.jsonl"))


@pytest.mark.parametrize(
    ("arrays", "with_pool", "said"),
    [
        ({"test/0": np.zeros((5, 2))}, True, "'test/1' is not in the file"),
        ({f"test/{i}": np.zeros((4, 2)) for i in range(3)}, True, "has shape (4, 2), expected (5, d)"),
        ({"a": np.zeros(4)}, False, "has shape (4,), expected (4, d)"),
        ({"a": np.float32(4)}, False, "has shape (), expected (0, d)"),
        ({"a": np.full((4, 2), np.inf)}, False, "must hold finite numbers"),
        ({"a": np.zeros((4, 2), int)}, False, "must hold finite numbers"),
        ({"a": np.array([[{}]] * 4)}, False, "cannot be read"),
        ({"a": np.zeros((4, 0))}, False, "repexp: the pool has no embeddings"),
        ({"a": np.zeros((0, 2))}, False, "has 0 responses: -k 2"),
        ({}, False, "holds no arrays"),
    ],
)
def test_wrong_vectors_are_one_clear_line(select, write, pool, arrays, with_pool, said):
    source = ("--pool", pool) if with_pool else ()
    assert said in error_line(
        select(*source, "--embeddings", write("E.npz", arrays), "--selector", "repexp", "-k", "2")
    )


def test_a_model_is_not_asked_about_responses_whose_prompt_is_unknown(select, write):
    pool = write("p.jsonl", [LINES[0], {"problem_id": "bare", "responses": ["a", "b"]}])
    line = error_line(select("--pool", pool, "--model", "tiny24", "--selector", "repexp", "-k", "2"))
    assert "problem 'bare' has none: add `prompt`" in line


def test_sizes_are_checked_before_any_work(select, write, tmp_path):
    pool = write("p.jsonl", [*LINES, {"problem_id": "small", "prompt": "x", "responses": ["a"]}])
    line = error_line(select("--pool", pool, "--model", "tiny24", "--selector", "repexp", "-k", "2"))
    assert "problem 'small' has 1 responses: -k 2 is more than the 1 left" in line
    assert not (tmp_path / "runs").exists()


def test_one_that_offers_what_was_verified_is_caught(select, write, pool, tmp_path):
    plugin = tmp_path / "again.py"
    plugin.write_text(
        "from harness import hookimpl\n\n\nclass Again:\n    needs = ()\n\n"
        "    def rank(self, pool, rng):\n        yield from range(len(pool))\n\n"
        "    def rank_after(self, pool, verified, rng):\n        yield from range(len(pool))\n\n\n"
        "class Many:\n    needs = ()\n\n    def select(self, pool, k, rng):\n        return range(k + 1)\n\n\n"
        "@hookimpl\ndef register_selectors(register):\n    register('again', Again)\n    register('many', Many)\n"
    )
    verified = write("v.jsonl", [{"problem_id": "test/0", "indices": [1]}])
    options = ("--pool", pool, "--plugin", plugin, "-k", "2", "--verified", verified, "--selector")
    assert "rank_after gave index 1, which is verified already" in error_line(select(*options, "again"))
    assert "select gave 3 indices for k = 2" in error_line(select(*options, "many"))


def test_given_vectors_load_nothing_that_they_do_not_need(write, tmp_path):
    vectors = write("E.npz", {"a": of_duplicates(30, 4, 0)})
    heavy = {"torch", "transformers", "sklearn", "datasets", "scipy.stats", "scipy.optimize", "matplotlib"}
    code = (
        "import sys; from harness.cli import main\n"
        f"sys.argv = {['harness', 'select', '--embeddings', str(vectors), '--selector', 'repexp', '-k', '3']!r}\n"
        f"main_failed = False\ntry: main()\nexcept SystemExit as stop: main_failed = bool(stop.code)\n"
        f"print('heavy:', main_failed, sorted({heavy!r} & set(sys.modules)))"
    )
    assert printed_by(code, cwd=tmp_path).endswith("heavy: False []")


# What the documents show is run.


@pytest.mark.parametrize("name", ["README.md", "docs/select.md"])
def test_the_documents_commands_run(harness, monkeypatch, tmp_path, write, name):
    rng = np.random.default_rng(0)
    write("responses.jsonl", [line | {"problem_id": f"lead-{i}"} for i, line in enumerate(LINES)])
    write("vectors.npz", {f"lead-{i}": rng.normal(size=(5, 3)) for i in range(3)})
    write("plates.npz", {f"plate-{i}": rng.normal(size=(50, 30)) for i in range(2)})
    write("done.jsonl", [{"problem_id": "lead-0", "indices": [1]}])
    write("24.jsonl", [{"problem_id": "4-5-6-10", "responses": ["Answer: (10 - 6) * 5 + 4", "24", "Answer: 6 * 4"]}])
    monkeypatch.chdir(tmp_path)
    shown = [line for block in code_blocks(name, "sh") for line in re.sub(r"\\\n", " ", block).splitlines()]
    commands = [shlex.split(line, comments=True) for line in shown if line.startswith("harness select")]
    assert len(commands) >= 2
    for command in commands:
        outcome = harness(*command[1:])
        assert outcome.code == 0, (command, outcome.err)
        assert outcome.out


# Selectors that go on from what was verified: as the full ranking does, and rightly from anything.


GOING_ON = [
    RepExp(),
    RepExp(lam=0.1, first="max"),
    KCenter(),
    KCenter(first="max"),
    MMR(),
    MMR(alpha=0.1, quality="logprob"),
    MMR(alpha=1.0),
    FacilityLocation(),
    FacilityLocation("rbf"),
    FacilityLocation("euclidean"),
    DPPMap(),
    DPPMap("cosine"),
    NgramCoverage(),
    NgramCoverage(weights="idf"),
    NgramCoverage(unit="character", ngrams=3),
    Dedup(),
    Dedup(by="answer"),
    AnswerRoundRobin(),
    AnswerRoundRobin(order="random", unanswered="cluster"),
    OutcomeUcb(),
    OutcomeUcb(bonus="batch"),
    OutcomeUcb(bonus="batch", value="none", unanswered="cluster"),
]
FIXED = [one for one in GOING_ON if not isinstance(one, Dedup | AnswerRoundRobin | OutcomeUcb)]


def after(selector, pool: Pool, verified, seed: int = 0) -> list[int]:
    return list(selector.rank_after(pool, tuple(verified), np.random.default_rng(seed)))


@pytest.mark.parametrize("selector", GOING_ON, ids=repr)
def test_going_on_from_the_first_picks_continues_the_full_ranking(selector):
    for seed, n in enumerate((2, 13, 60)):
        pool = mixed_pool(n, seed)
        order = list(selector.rank(pool, np.random.default_rng(seed)))
        for j in {1, 2, n // 3 + 1, n // 2 + 1, n - 1, n} & set(range(1, n + 1)):
            assert after(selector, pool, order[:j], seed) == order[j:]


@pytest.mark.parametrize("selector", FIXED, ids=repr)
def test_going_on_follows_the_responses_wherever_they_stand(selector):
    rng = np.random.default_rng(4)
    texts = [" ".join(chr(0x4E00 + 40 * i + j) for j in range(size)) for i, size in enumerate(rng.permutation(30) + 1)]
    h, logprobs, lengths = (
        rng.normal(size=(30, 7)).astype(np.float32),
        -rng.exponential(20, 30),
        rng.permutation(30) + 1,
    )
    pool = Pool(texts, h, logprobs, lengths, [None] * 30)
    moved = rng.permutation(30)
    shuffled = Pool([texts[i] for i in moved], h[moved], logprobs[moved], lengths[moved], [None] * 30)
    place = np.argsort(moved)
    verified = [7, 2, 28, 11]
    assert moved[after(selector, shuffled, place[verified].tolist())].tolist() == after(selector, pool, verified)


def test_the_order_of_what_was_verified_makes_no_difference_where_only_the_set_counts():
    pool, verified = mixed_pool(40), [31, 4, 17, 8]
    for selector in FIXED:
        if not isinstance(selector, NgramCoverage):  # its rounds depend on the order
            assert after(selector, pool, verified) == after(selector, pool, verified[::-1])


@tiny_sets
@every_family
@pytest.mark.usefixtures("blocks")
def test_going_on_from_anything_every_pick_is_the_best(h):
    n, pool = len(h), pool_of(h)
    verified = np.random.default_rng(n).permutation(n)[: n // 4].tolist()

    def check(selector, score, **tolerance):
        assert_greedy([*verified, *after(selector, pool, verified)], n, score, len(verified), **tolerance)

    check(KCenter(), partial(reference_distances, h))
    check(MMR(0.3), mmr_scores(pool, 0.3), atol=1e-9)
    check(FacilityLocation(), gains(h, "cosine"), rtol=1e-6, atol=3e-7 * n)  # no cosine similarity is above 1
    check(DPPMap(), residuals(reference_gaussian(h), 1e-6), rtol=1e-7, atol=1e-12)


@every_family
def test_dpp_map_with_the_cosine_kernel_goes_on_from_anything(h):
    n = len(h)
    verified = np.random.default_rng(n).permutation(n)[: n // 4].tolist()
    order = [*verified, *after(DPPMap("cosine", ridge=1e-4), pool_of(h), verified)]
    assert_greedy(order, n, residuals(reference_cosines(h), 1e-4), n // 4, rtol=1e-7, atol=1e-11)


@pytest.mark.parametrize("weights", ["uniform", "idf"])
@given(
    texts=st.lists(st.lists(st.sampled_from("abcd"), max_size=4).map(" ".join), min_size=1, max_size=9),
    data=st.data(),
)
def test_ngram_coverage_goes_on_as_the_reference_does(weights, texts, data):
    n = len(texts)
    verified = data.draw(st.permutations(range(n)))[: data.draw(st.integers(1, n))]
    pool = Pool(texts, np.zeros((n, 0)), np.zeros(n), np.zeros(n), [None] * n)
    order = reference_order(texts, 1, "word", weights, verified)
    assert after(NgramCoverage(ngrams=1, weights=weights), pool, verified) == [i for i in order if i not in verified]


def test_d2_sampling_goes_on_by_the_distance_from_what_was_verified():
    h = np.array([[0.0], [10.0], [11.0], [13.0], [3.0], [10.0]], np.float32)
    pool, rng, draws = pool_of(h), np.random.default_rng(5), 3000
    seen = Counter(next(iter(KMeansPP().rank_after(pool, (0, 1), rng))) for _ in range(draws))
    weight = {2: 1.0, 3: 9.0, 4: 9.0}  # index 5 is a copy of a verified one
    assert set(seen) == set(weight)
    expected = [draws * weight[index] / 19 for index in weight]
    assert chisquare([seen[index] for index in weight], expected).pvalue > 0.001
    for seed in range(5):
        order = after(KMeansPP(), pool, (0, 1), seed)
        assert sorted(order) == [2, 3, 4, 5]
        assert order[-1] == 5


def test_an_answer_has_had_as_many_turns_as_responses_with_it_were_verified():
    answers = ["a", "a", "a", "a", "b", "b", "c", None]
    pool = Pool(["x"] * 8, np.zeros((8, 0)), np.zeros(8), np.zeros(8), answers)
    for seed in range(10):
        order = [answers[index] for index in after(AnswerRoundRobin(), pool, (1, 3, 6, 7), seed)]
        assert order == ["b", "b", "a", "a"]  # b has had no turn, a two: b's first and second come before a's third
        order = [answers[index] for index in after(OutcomeUcb(), pool, (1, 3, 4), seed)]
        assert order[:2] == ["c", "a"]  # 1/8 + 1, then 4/8 + √(1/3)


def test_repeats_of_what_was_verified_come_after_all_that_is_new():
    pool = Pool(["a", "b ", "b", "c", "a", "d"], np.zeros((6, 0)), np.zeros(6), np.zeros(6), [None] * 6)
    for seed in range(10):
        order = after(Dedup(), pool, (1, 0), seed)
        assert set(order[:2]) == {3, 5}
        assert set(order[2:]) == {2, 4}


def test_more_verified_than_a_block_holds_are_all_taken():
    h = np.random.default_rng(8).normal(size=(1500, 5)).astype(np.float32)
    pool, verified = pool_of(h), list(range(0, 1500, 2))
    left = np.arange(1, 1500, 2)
    residual = reference_residuals(reference_gaussian(h), 1e-6, verified)
    distance = reference_distances(h, verified)
    first = {selector: after(selector, pool, verified)[0] for selector in (KCenter(), DPPMap(), RepExp(), KMeansPP())}
    assert first[KCenter()] == left[distance[left].argmax()]
    assert first[DPPMap()] == left[residual[left].argmax()]
    assert_greedy_bonuses(h.astype(np.float64), verified, [first[RepExp()]])
    assert first[KMeansPP()] in left


def test_the_contract_is_documented():
    assert "rank_after(self, pool, verified, rng)" in (ROOT / "docs" / "select.md").read_text()
