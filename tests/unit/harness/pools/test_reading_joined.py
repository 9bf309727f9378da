"""A pool file read with the problem of each line: what is left out, what is refused, and what the user is told."""

import pytest
from support.refusals import refusal_of
from support.toy import Colours

from harness.pools.reading import IdTable, Joined, Joiner, remarks

TASK = Colours()  # its prompts are `Say colour 0 (test).`
PROMPTS = [problem.prompt for problem in TASK.problems("test")]


@pytest.fixture
def index_of(written):
    """The index of a pool of these lines, joined to the toy task, also by a table of ids."""

    def call(lines, *rows):
        ids = IdTable(written([*rows], "table.jsonl")) if rows else None
        pool = Joined(written(lines), Joiner(TASK, TASK.problems("test"), ids))
        joined = [problem.id for _, problem in pool]
        index = pool.index()
        assert joined == [entry["id"] for entry in index["entries"]]
        return index

    return call


def line(name, prompt=None, **more):
    return {"problem_id": name, "responses": ["x"], "prompt": prompt, **more}


def test_the_index_says_of_each_joined_line_what_it_brings(index_of, written):
    index = index_of([line("a", PROMPTS[1], correct=[True]), line("test/0", reference="red")])
    shared = {"n": 1, "figures": False}
    assert index["entries"] == [
        {"id": "test/1", "line": "a", "way": "prompt", "prompt": PROMPTS[1], "reference": None, "graded": True}
        | shared,
        {"id": "test/0", "line": "test/0", "way": "id", "prompt": "", "reference": "red", "graded": False} | shared,
    ]
    own = Joined(written([line("p", "What?", reference=7)]), None)
    assert [(problem.id, problem.prompt, problem.reference) for _, problem in own] == [("p", "What?", 7)]
    assert [entry["way"] for entry in own.index()["entries"]] == [""]


def test_how_lines_joined_and_which_did_not_is_told(index_of):
    lost = [line(f"lost-{i}") for i in range(6)]
    lines = [line("test/0"), line("a", PROMPTS[1]), line("c"), *lost]
    assert list(remarks(index_of(lines, {"task_id": "test/3", "pool_id": "c"}))) == [
        "pool: joined 1 by the table of --ids, 1 by id, 1 by prompt",
        "pool: 6 of 9 problems join to none of the task's: 'lost-0', 'lost-1', 'lost-2', 'lost-3', 'lost-4', ...",
    ]
    assert not list(remarks(index_of([line("test/0")])))


def test_a_pool_of_which_nothing_joins_or_two_lines_join_to_one_problem_is_refused(index_of, written):
    elsewhere = refusal_of(index_of, [line("elsewhere"), line("x")])
    assert "none of its 2 problems is the task's, by id or by prompt; the first is 'elsewhere'" in elsewhere
    assert elsewhere.endswith("check the split, or give a table of --ids")
    row = {"task_id": "HumanEval/0", "pool_id": "line-1"}
    assert refusal_of(index_of, [line("line-1")], row).endswith("check the split, or the table")
    assert "names no line of pool" in refusal_of(index_of, [line("test/0")], row)
    double = refusal_of(index_of, [line("a", PROMPTS[1]), line("test/1")])
    assert "'test/1' and 'a' both join to problem 'test/1'" in double
