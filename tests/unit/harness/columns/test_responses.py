"""Responses: kept one problem at a time, those that a server did not give too; and the vectors and scores of them."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.random_projection import SparseRandomProjection
from support.refusals import refusal_of, wrongly_refused
from support.stores import contents, files_of

from harness import HarnessError, Problem
from harness.columns.responses import seed_of
from harness.columns.store import read
from harness.columns.vectors import embedded, project, scored

PROBLEM = Problem("p", "Say red.")
ENGINE = """
class Losing(Parrot):
    '''Loses the rows that a file beside this one names (prompt -> rows), as a busy server does.'''
    def sample(self, request):
        lost = json.loads((HERE / "lost.json").read_text())
        names = [prompt[-1]["content"].split()[2] for prompt in request.prompts]
        note(*names if request.rows is None else [f"{n}:{rows}" for n, rows in zip(names, request.rows)])
        given = []
        for j, responses in enumerate(super().sample(replace(request, done=lambda j, responses: None))):
            rows = list(range(request.n)) if request.rows is None else request.rows[j]
            missing = {row: "busy" for row in lost.get(names[j], []) if row in rows}
            rows = [row for row in rows if row not in missing]
            lists = {name: [getattr(responses, name)[row] for row in rows] for name in ("texts", "finish", "token_ids")}
            arrays = {name: getattr(responses, name)[rows] for name in ("lengths", "logprobs")}
            states = {"mean": responses.states["mean"][rows] + lost.get("nan", 0)}
            given.append(replace(responses, **lists, **arrays, states=states, missing=missing))
            for _ in range(2):  # what is reported twice counts once
                request.done(j, given[-1])
        return given
"""
EVERY = ("responses", "vectors", "verdicts", "orders", "choices")


@pytest.fixture
def losing(toy, tmp_path, plugin):
    """Run the engine that loses these rows, on problems of 16 responses."""
    own = plugin(ENGINE, engine=["Losing"])

    def call(lost, embedder="letters", store=tmp_path / "runs"):
        (tmp_path / "plugins" / "lost.json").write_text(json.dumps(lost))
        fixed = ("--engine", "losing", "--plugin", own, "--embedder", embedder, "--selector", "spread")
        return toy(*fixed, store=store)

    return call


def test_rows_that_did_not_come_are_told_asked_for_again_and_all_after_them_is_made_anew(losing, tmp_path, noted, new):
    whole = losing({}, store=tmp_path / "whole")
    partly = losing({"1": [0, 15], "4": [3]})
    line = "sample: 3 of 96 responses did not come (busy): 2 problems have a smaller N; the next run asks for them"
    assert (partly.code, line in partly.err) == (0, True)
    assert new() == dict.fromkeys(EVERY, 6) | {"cells": 1}
    paths = files_of(tmp_path / "runs", "responses")
    assert [path.name.partition(".")[0] for path in paths if ".part." in path.name] == ["test_1", "test_4"]
    assert [len(read(path)) for path in paths] == [16, 14, 16, 16, 15, 16]
    noted()
    again = losing({"4": [3]})  # one came, one did not
    assert (again.code, sorted(noted())) == (0, ["1:[0, 15] 4:[3]"])
    assert "sample: 1 of 96 responses did not come (busy): 1 problem has a smaller N" in again.err
    assert new() == dict.fromkeys(EVERY, 1)
    assert losing({}).rows == whole.rows
    assert noted() == ["4:[3]"]
    assert contents(tmp_path / "whole").items() <= contents(tmp_path / "runs").items()
    assert losing({}).rows == whole.rows
    assert noted() == []


@pytest.mark.parametrize(
    ("lost", "words"),
    [
        ({"0": [1, 2, 3], "5": [7, 8]}, "5 of 96 responses did not come (busy), more than 5%; what came is"),
        ({"2": [*range(16)]}, "16 of 96 responses did not come (busy), among them all of problem 'test/2'; "),
        ({"2": [*range(15)], "3": [1, 2]}, "17 of 32 responses asked for did not come (busy); what came is"),
    ],
)
def test_too_many_missing_rows_are_one_line_and_what_came_is_kept(losing, tmp_path, noted, lost, words):
    refused = losing(lost)
    assert (refused.code, refused.out, f"error: sample: {words}" in refused.err) == (2, "", True)
    assert files_of(tmp_path / "runs", "verdicts") == []
    noted()
    assert losing({}).code == 0
    asked = " ".join(noted())
    assert [name for name, rows in lost.items() if f"{name}:{rows}" not in asked] == []


def test_each_problem_has_a_random_stream_of_its_own_and_fewer_rows_are_the_first_ones(toy, tmp_path):
    texts = []
    for n in (4, 16):
        toy("--n", n, "--selector", "uniform", store=tmp_path / str(n))
        texts.append([read(path)["text"].to_pylist() for path in files_of(tmp_path / str(n), "responses")])
    assert texts[0] == [each[:4] for each in texts[1]]
    assert len(set(map(tuple, texts[1]))) == 6
    assert len({seed_of(*each) for each in (("sample", 0, PROBLEM), ("sample", 1, PROBLEM), ("rank", 0, PROBLEM))}) == 3


# Vectors and scores.


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
    (None, "embedder 'x': gave "),
    ([["a"], ["b"]], "embedder 'x': gave ndarray of <U1, expected (n, d) numbers"),
    (np.ones((3, 2)), "embedder 'x': gave shape (3, 2) for 2 responses"),
]
NO_SCORES = [
    ([1.0], "scorer 'x', problem 'p': gave shape (1,) for 2 responses"),
    ([1.0, -np.inf], "or infinity: a number each, NaN if unknown"),
]


def test_what_is_no_vector_or_no_score_for_each_response_is_one_line(losing):
    for value in ([[1, 2], [3, 4]], np.array([[True], [False]]), csr_matrix(np.eye(2)), np.eye(2, dtype=np.uint8)):
        assert embedded(gives(value), "x", PROBLEM, ["a", "b"]).shape[0] == 2
    assert wrongly_refused(NO_VECTORS, lambda value: embedded(gives(value), "x", PROBLEM, ["a", "b"])) == []
    np.testing.assert_array_equal(scored(gives([1, None]), "x", PROBLEM, [], ["a", "b"]), [1, np.nan])
    assert wrongly_refused(NO_SCORES, lambda value: scored(gives(value), "x", PROBLEM, [], ["a", "b"])) == []
    outcome = losing({"nan": np.nan}, "hidden-mean")
    line = "error: engine 'losing', problem 'test/0': its vector of response 0 holds NaN or infinity"
    assert (outcome.code, outcome.out, line in outcome.err) == (2, "", True)


def test_wide_vectors_are_scikit_learns_sparse_projection_of_that_seed_and_narrow_ones_are_left_alone():
    wide = np.random.default_rng(0).normal(size=(1200, 300)).astype(np.float32)  # more than one block
    for given in (wide, csr_matrix(np.where(wide > 1, wide, 0))):
        expected = SparseRandomProjection(n_components=64, random_state=7).fit(wide).transform(given)
        expected = expected if isinstance(expected, np.ndarray) else expected.toarray()
        np.testing.assert_array_equal(project(given, 64, 7, "x"), expected.astype(np.float32))
    np.testing.assert_array_equal(project(csr_matrix(wide), 300, 0, "x"), wide)
    wide[2, 5] = np.nan
    for given in (wide, csr_matrix(wide)):
        for dim in (8, 512):
            assert refusal_of(project, given, dim, 0, "x") == "x: its vector of response 2 holds NaN or infinity"
