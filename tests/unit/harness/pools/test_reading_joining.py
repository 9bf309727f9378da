"""Which problem of a task a pool's line answers: by a table, by id, or by prompt."""

import gzip

import pytest
from corpora.pool_faults import ID_TABLES
from support.refusals import wrongly_refused

from harness import HarnessError, Problem, Task
from harness.pools.reading import IdTable, Joiner
from harness.pools.record import PoolRecord

EGGS, HENS = "How many eggs are there?", "How many hens are there?"


class Puzzles(Task):
    """Problems p0, p1, ... with these prompts; asked in a chat of two messages."""

    def __init__(self, *prompts, references=None):
        self.list = [
            Problem(f"p{i}", prompt, references[i] if references else None) for i, prompt in enumerate(prompts)
        ]

    def problems(self, split):
        return self.list

    def messages(self, problem):
        last = f"Solve: {problem.prompt} Answer with a number."
        return [{"role": "system", "content": "Be brief."}, {"role": "user", "content": last}]


def joined(task, prompt, name="line-1", ids=None):
    """The id of the problem that a line with this prompt joins to, and how."""
    problem, way = Joiner(task, task.problems("test"), ids)(PoolRecord(name, ["x"], prompt=prompt))
    return (problem and problem.id, way)


def test_ids_come_before_prompts_and_raw_prompts_before_rendered_ones():
    task = Puzzles(EGGS, "Solve: p Answer with a number.", "p")
    assert joined(task, EGGS, "p2") == ("p2", "id")
    assert joined(task, " How  many\neggs are there?") == ("p0", "prompt")
    assert joined(task, "Solve: p Answer with a number.") == ("p1", "prompt")
    assert joined(task, "Be brief.\nSolve: p Answer with a number.") == ("p2", "rendered")
    assert joined(task, f"Solve: {EGGS} Answer with a number.") == ("p0", "rendered")  # the last message alone
    assert joined(task, f"I said: {EGGS}") == (None, "")
    join = Joiner(task, task.problems("test"))
    assert join(PoolRecord("doc-0", ["x"], more_ids=["p1", "p0"]))[0].id == "p1"
    assert join(PoolRecord("doc-0", ["x"], prompt="unknown", more_prompts=["p", EGGS]))[0].id == "p2"


def test_of_doubles_with_one_reference_the_first_is_taken_and_others_are_left_out():
    assert joined(Puzzles(EGGS, "another one, not this", EGGS, references="181"), EGGS)[0] == "p0"
    assert joined(Puzzles(EGGS, "another one, not this", EGGS, references="182"), EGGS)[0] is None
    assert joined(Puzzles(EGGS, EGGS, EGGS, references="121"), EGGS)[0] is None


# A table of ids


ROWS = [{"task_id": "p3", "prompt": EGGS}, {"task_id": "p2", "prompt": HENS}]
CSV = f"task_id,prompt\np3,{EGGS}\np2,{HENS}\n"


def test_a_table_may_be_json_lines_or_csv_and_name_lines_by_id_or_prompt(written):
    for content, name in (
        (ROWS, "table.jsonl"),
        (CSV, "table.csv"),
        (gzip.compress(CSV.encode(), mtime=0), "table.csv.gz"),
        ([{"task_id": "p3", "pool_id": "line-1"}, {"task_id": "p2", "pool_id": "line-2"}], "by_line.jsonl"),
        ("task_id,pool_id,prompt\np3,line-1,\np2,line-2,elsewhere\n", "by_line.csv"),
        ([{"task_id": 3, "pool_id": 1}, {"task_id": "p3", "pool_id": " line-1 "}, ROWS[1]], "mixed.jsonl"),
    ):
        ids = IdTable(written(content, name))
        lines = [PoolRecord("line-1", ["x"], prompt=EGGS), PoolRecord("line-2", ["x"], prompt=HENS)]
        assert list(map(ids.find, lines)) == ["p3", "p2"], name


def test_a_line_joins_as_the_table_says_or_not_at_all_and_others_as_without_it(written):
    task = Puzzles(EGGS, HENS)
    ids = IdTable(written([{"task_id": "p1", "pool_id": "a"}, {"task_id": "elsewhere", "pool_id": "b"}]))
    assert joined(task, EGGS, "a", ids) == ("p1", "--ids")
    assert joined(task, EGGS, "b", ids) == (None, "--ids")
    assert joined(task, EGGS, "c", ids) == ("p0", "prompt")


def test_a_prompt_that_a_table_gives_to_two_problems_names_none(written):
    task = Puzzles("one", "two", "three")
    rows = [{"task_id": f"p{i}", "prompt": text} for i, text in ((0, "x"), (1, " x "), (2, "y"), (2, "y"), (0, "x"))]
    ids = IdTable(written(rows))
    assert joined(task, "x", ids=ids) == (None, "")
    assert joined(task, "y", ids=ids) == ("p2", "--ids")


def test_each_fault_of_a_table_is_refused_with_its_place(written):
    def read(content):
        return IdTable(written(content, "table.jsonl" if isinstance(content, list) else "table.csv"))

    assert not wrongly_refused(ID_TABLES, read)
    with pytest.raises(HarnessError, match=r"ids .*absent\.csv: no such file"):
        IdTable(written("", "table.csv").with_name("absent.csv"))
