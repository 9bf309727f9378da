"""Responses: kept one problem at a time, those that a server did not give too; and the vectors and scores of them."""

import json
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.random_projection import SparseRandomProjection
from support.json_lines import write_json_lines
from support.paths import TOY
from support.refusals import refusal_of, wrongly_refused
from support.stores import contents, files_of

from harness import HarnessError, Problem, Responses
from harness.columns.responses import filled, responses_of, seed_of
from harness.columns.store import read
from harness.columns.vectors import embedded, project, scored

PROBLEM = Problem("p", "Say red.")
ENGINE = """
class Losing(Parrot):
    '''Loses the rows that a file beside this one names (prompt -> rows), as a busy server does.'''

    def sample(self, request):
        lost = json.loads((HERE / "lost.json").read_text()) if (HERE / "lost.json").exists() else {}
        names = [prompt[-1]["content"].split()[2] for prompt in request.prompts]
        note(*names if request.rows is None else [f"{n}:{rows}" for n, rows in zip(names, request.rows)])
        given = []
        for j, responses in enumerate(super().sample(replace(request, done=lambda j, responses: None))):
            rows = list(range(request.n)) if request.rows is None else request.rows[j]
            missing = {row: "busy" for row in lost.get(names[j], []) if row in rows}
            rows = [row for row in rows if row not in missing]
            lists = {name: [getattr(responses, name)[row] for row in rows] for name in ("texts", "finish", "token_ids")}
            arrays = {name: getattr(responses, name)[rows] for name in ("lengths", "logprobs")}
            states = {name: vectors[rows] for name, vectors in responses.states.items()}
            given.append(replace(responses, **lists, **arrays, states=states, missing=missing))
            request.done(j, given[-1])
        return given


class Late(Parrot):
    '''Gives hidden states after all responses, as an engine does that computes them in a second model.'''

    def sample(self, request):
        return super().sample(replace(request, done=lambda j, given: request.done(j, replace(given, states={}))))

    def encode(self, *arguments):
        note("encode")
        return super().encode(*arguments)


class Twice(Parrot):
    def sample(self, request):
        def done(j, responses):
            request.done(j, responses)
            request.done(j, responses)

        return super().sample(replace(request, done=done))
"""


@pytest.fixture
def losing(toy, tmp_path, plugin):
    """Run the engine that loses these rows, on problems of 16 responses."""
    own = plugin(ENGINE, engine=["Losing", "Late", "Twice"])

    def call(lost, *options, engine="losing", store=tmp_path / "runs"):
        (tmp_path / "plugins" / "lost.json").write_text(json.dumps(lost))
        fixed = ("--engine", engine, "--plugin", own, "--embedder", "letters", "--selector", "spread")
        return toy(*fixed, *options, store=store)

    return call


def whole_and(losing, tmp_path, noted):
    outcome = losing({}, store=tmp_path / "whole")
    noted()
    return outcome, {name: content for name, content in contents(tmp_path / "whole").items() if name != ".lock"}


def test_rows_that_did_not_come_are_told_asked_for_again_and_all_after_them_is_made_anew(losing, tmp_path, noted, new):
    outcome, whole = whole_and(losing, tmp_path, noted)
    partly = losing({"1": [0, 15], "4": [3]})
    assert "sample: 3 of 96 responses did not come (busy): 2 problems have a smaller N; the next run asks for them" in (
        partly.err
    )
    assert partly.code == 0
    assert new() == dict.fromkeys(("responses", "vectors", "verdicts", "orders", "choices"), 6) | {"cells": 1}
    paths = files_of(tmp_path / "runs", "responses")
    assert [path.name.partition(".")[0] for path in paths if ".part." in path.name] == ["test_1", "test_4"]
    assert [len(read(path)) for path in paths] == [16, 14, 16, 16, 15, 16]
    noted()
    again = losing({"4": [3]})  # one came, one did not
    assert (again.code, sorted(noted())) == (0, ["1:[0, 15] 4:[3]"])
    assert "sample: 1 of 96 responses did not come (busy): 1 problem has a smaller N" in again.err
    assert new() == dict.fromkeys(("responses", "vectors", "verdicts", "orders", "choices"), 1)
    last = losing({})
    assert noted() == ["4:[3]"]
    assert last.rows == outcome.rows
    assert whole.items() <= contents(tmp_path / "runs").items()
    assert losing({}).rows == outcome.rows
    assert noted() == []


def test_rows_that_come_later_have_vectors_too(losing, tmp_path):
    for lost in ({"1": [0, 15]}, {}):
        assert losing(lost, "--embedder", "hidden-mean").code == 0
    assert {len(read(path)) for path in files_of(tmp_path / "runs", "vectors")} == {14, 16}
    assert len(files_of(tmp_path / "runs", "vectors")) == 7


def test_too_many_missing_rows_are_one_line_and_what_came_is_kept(losing, tmp_path, noted):
    outcome, whole = whole_and(losing, tmp_path, noted)
    for lost, words in (
        (
            {"0": [1, 2, 3], "5": [7, 8]},
            "sample: 5 of 96 responses did not come (busy), more than 5%; what came is kept",
        ),
        ({"2": list(range(16))}, "sample: 16 of 32 responses asked for did not come (busy)"),
        ({"2": list(range(15)), "3": [1, 2]}, "sample: 17 of 32 responses asked for did not come (busy); what came is"),
    ):
        shutil.rmtree(tmp_path / "runs", ignore_errors=True)
        refused = losing(lost)
        assert (refused.code, refused.out) == (2, "")
        assert words in refused.err or "among them all of problem 'test/2'; what came is kept" in refused.err
        assert files_of(tmp_path / "runs", "verdicts") == []
        assert losing({}).rows == outcome.rows
        assert whole.items() <= contents(tmp_path / "runs").items()


def test_five_percent_may_be_missing(losing):
    assert losing({"0": [1], "5": [7]}, "--limit", "6", "--n", "8").code == 0  # 2 of 48
    assert losing({"0": [1, 2], "5": [7]}, "--limit", "6", "--n", "9").code == 2  # 3 of 54


def test_rows_that_come_later_stand_in_their_places(losing, tmp_path):
    losing({"1": [0, 3, 15]})
    partly = [path for path in files_of(tmp_path / "runs", "responses") if ".part." in path.name]
    kept = responses_of(read(partly[0]))
    assert (len(kept), sorted(kept.missing)) == (13, [0, 3, 15])
    losing({}, store=tmp_path / "whole")
    every = responses_of(read(files_of(tmp_path / "whole", "responses")[1]))
    rows = [0, 15]
    arrived = Responses(
        texts=[every.texts[row] for row in rows],
        finish=[every.finish[row] for row in rows],
        lengths=every.lengths[rows],
        logprobs=every.logprobs[rows],
        token_ids=None,
        missing={3: "busy"},
    )
    both = filled(kept, arrived)
    present = [row for row in range(16) if row != 3]
    assert both.texts == [every.texts[row] for row in present]
    assert both.logprobs.tolist() == every.logprobs[present].tolist()
    assert (both.token_ids, both.missing) == (None, {3: "busy"})  # tokens are known of all rows or of none


def test_states_that_come_after_the_responses_are_kept_and_not_computed_again(losing, tmp_path, noted):
    late = losing({}, "--embedder", "hidden-mean", engine="late")
    assert (late.code, noted()) == (0, [])
    vectors = contents(tmp_path / "runs")
    losing({}, "--embedder", "hidden-mean", engine="toy", store=tmp_path / "early")
    early = contents(tmp_path / "early")
    assert {name for name in vectors if ".npy" in name} == {name for name in early if ".npy" in name}


def test_a_problem_that_is_reported_twice_counts_once(losing, tmp_path):
    outcome = losing({}, engine="twice")
    assert "sample: 96 responses in" in outcome.err
    assert len(files_of(tmp_path / "runs", "responses")) == 6


def test_each_problem_has_a_random_stream_of_its_own_and_fewer_rows_are_the_first_ones(toy, tmp_path):
    for n, store in ((4, "few"), (16, "many")):
        toy("--n", n, "--selector", "uniform", store=tmp_path / store)
    few, many = (
        [read(path)["text"].to_pylist() for path in files_of(tmp_path / store, "responses")]
        for store in ("few", "many")
    )
    assert few == [texts[:4] for texts in many]
    assert len(set(map(tuple, many))) == 6
    assert len({seed_of(*each) for each in (("sample", 0, PROBLEM), ("sample", 1, PROBLEM), ("rank", 0, PROBLEM))}) == 3


def test_a_pool_file_brings_its_verdicts_and_is_read_again_only_where_they_are_missing(harness, tmp_path, new):
    lines = [{"problem_id": f"p{i}", "responses": ["say red", "say blue"], "correct": [i == 0, True]} for i in range(3)]
    pool = write_json_lines(tmp_path / "pool.jsonl", lines)
    run = ("run", "--pool", pool, "--selector", "in-order", "--store", tmp_path / "runs", "--json")
    rows = harness(*run).rows
    kinds = ("responses", "verdicts", "orders", "choices")
    assert new() == dict.fromkeys(kinds, 3) | {"cells": 1}
    before = contents(tmp_path / "runs")
    files_of(tmp_path / "runs", "verdicts")[1].unlink()
    assert harness(*run).rows == rows
    assert contents(tmp_path / "runs") == before
    lines[2]["correct"] = [True, True]
    write_json_lines(pool, lines)
    assert harness(*run).rows != rows
    assert new() == dict.fromkeys(kinds, 3) | {"cells": 1}  # another file is another pool


# Vectors.


def test_vectors_of_an_engine_or_an_embedder_that_are_no_numbers_end_the_run_in_one_line(toy, plugin):
    own = plugin(
        """
class Holes(Parrot):
    def sample(self, request):
        return [replace(each, states={"mean": each.states["mean"] * np.nan}) for each in super().sample(
            replace(request, done=lambda j, responses: None))]


class Empty:
    state = None

    def embed(self, problem, texts):
        return np.full((len(texts), 3), np.inf)
""",
        engine=["Holes"],
        embedder=["Empty"],
    )
    for options, who in ((("--engine", "holes"), "engine 'holes'"), (("--embedder", "empty"), "embedder 'empty'")):
        outcome = toy("--plugin", own, "--selector", "spread", *options)
        assert (outcome.code, outcome.out) == (2, "")
        assert f"error: {who}, problem 'test/0': its vector of response 0 holds NaN or infinity" in outcome.err


def gives(value):
    """An embedder or scorer that returns a value, or raises it."""

    def call(*arguments):
        if isinstance(value, Exception):
            raise value
        return value

    return SimpleNamespace(state=None, embed=call, score=call)


NO_VECTORS = [
    (ValueError("no"), "embedder 'x', problem 'p': raised ValueError: no"),
    (HarnessError("x: set a key"), "x: set a key"),
    ([[1], [2, 3]], "embedder 'x': gave no (n, d) array of numbers (setting an array element"),
    *((value, "embedder 'x': gave ") for value in (None, 3.0, [[{}], [{}]])),
    ([["a"], ["b"]], "embedder 'x': gave ndarray of <U1, expected (n, d) numbers"),
    (np.ones(2), "embedder 'x': gave shape (2,) for 2 responses"),
    (np.ones((3, 2)), "embedder 'x': gave shape (3, 2) for 2 responses"),
]
NO_SCORES = [
    ([1.0], "scorer 'x', problem 'p': gave shape (1,) for 2 responses"),
    ([[1.0], [2.0]], "gave shape (2, 1) for 2 responses"),
    ([1.0, -np.inf], "or infinity: a number each, NaN if unknown"),
    (["high", "low"], "scorer 'x', problem 'p': raised ValueError: could not convert string to float"),
    (ZeroDivisionError("oh"), "scorer 'x', problem 'p': raised ZeroDivisionError: oh"),
    (HarnessError("say --task"), "say --task"),
]


def test_what_is_no_vector_or_no_score_for_each_response_is_one_line():
    for value in ([[1, 2], [3, 4]], np.array([[True], [False]]), csr_matrix(np.eye(2)), np.eye(2, dtype=np.uint8)):
        assert embedded(gives(value), "x", PROBLEM, ["a", "b"]).shape[0] == 2
    assert wrongly_refused(NO_VECTORS, lambda value: embedded(gives(value), "x", PROBLEM, ["a", "b"])) == []
    np.testing.assert_array_equal(scored(gives([1, None]), "x", PROBLEM, [], ["a", "b"]), [1, np.nan])
    assert wrongly_refused(NO_SCORES, lambda value: scored(gives(value), "x", PROBLEM, [], ["a", "b"])) == []


def test_a_scorers_scores_are_kept_under_its_name_and_join_those_of_the_pool(harness, tmp_path, plugin):
    own = plugin(
        """
class Seen:
    needs = ("scores",)

    def rank(self, pool, rng):
        raise ValueError({name: values.tolist() for name, values in pool.scores.items()})


class Long:
    def score(self, problem, prompt, texts):
        return [len(prompt[0]["content"] + text) if text else None for text in texts]
""",
        selector=["Seen"],
        scorer=["Long"],
    )
    line = {"problem_id": "p", "prompt": "?", "responses": ["x", "", "xyz"], "correct": [False, True, False]}
    pool = write_json_lines(tmp_path / "pool.jsonl", [line | {"scores": {"rm": [1, 2, 3]}}])
    fixed = ("--plugin", TOY, "--plugin", own, "--store", tmp_path / "runs")
    outcome = harness("run", "--pool", pool, "--selector", "seen", "--scorer", "long", *fixed)
    assert "ValueError: {'rm': [1.0, 2.0, 3.0], 'long': [2.0, nan, 4.0]}" in outcome.err


def test_wide_vectors_are_scikit_learns_sparse_projection_of_that_seed_and_narrow_ones_are_left_alone():
    wide = np.random.default_rng(0).normal(size=(1200, 300)).astype(np.float32)  # more than one block
    for seed in (0, 7):
        for given in (wide, csr_matrix(np.where(wide > 1, wide, 0))):
            expected = SparseRandomProjection(n_components=64, random_state=seed).fit(wide).transform(given)
            expected = expected if isinstance(expected, np.ndarray) else expected.toarray()
            np.testing.assert_array_equal(project(given, 64, seed, "x"), expected.astype(np.float32))
    assert not np.allclose(project(wide, 64, 0, "x"), project(wide, 64, 7, "x"))
    np.testing.assert_array_equal(project(csr_matrix(wide), 300, 0, "x"), wide)
    wide[2, 5] = np.nan
    for given in (wide, csr_matrix(wide)):
        for dim in (8, 512):
            assert refusal_of(project, given, dim, 0, "x") == "x: its vector of response 2 holds NaN or infinity"
