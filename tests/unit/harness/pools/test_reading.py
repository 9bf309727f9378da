"""Reading pool files: how they are packed, which layout they have, and which problem of a task each line answers."""

import gzip
import json
import re
from itertools import pairwise

import pytest
from corpora.pool_faults import CODET, ID_TABLES, NO_POOLS, OWN, OWN_LINES
from support.paths import ROOT
from support.pool_files import LAYOUTS, notes_on, pool_refusal, responses_in
from support.refusals import refusal_of, wrongly_refused
from support.toy import Colours

from harness import HarnessError, Problem, Task
from harness.pools.reading import IdTable, Joined, Joiner, Layouts, pool_digest, read_pool, remarks
from harness.pools.record import PoolRecord


def test_whether_a_file_is_packed_is_known_by_its_content_and_a_byte_order_mark_is_skipped(written):
    text = '{"prompt": "Say red.", "samples": ["réd", "blue"]}\n\n{"prompt": "Say blue.", "samples": ["blue"]}'
    packed = gzip.compress(text.encode(), mtime=0)
    for content, name in ((packed, "packed.jsonl"), (text, "plain.jsonl.gz"), ("\ufeff" + text, "marked.jsonl")):
        assert responses_in(written(content, name)) == {"line-1": ["réd", "blue"], "line-3": ["blue"]}, name
    array = written(json.dumps(CODET, indent=2), "array.json")
    assert responses_in(array) == {"line-1": ["red", "blue"], "line-2": ["blue"]}  # numbered by entry


def test_a_folder_of_json_lines_is_one_pool_and_each_of_its_files_counts(written, tmp_path):
    lines = [json.dumps({"problem_id": f"{number}", "responses": ["x"]}).encode() for number in range(2)]
    for content, name in ((lines[0], "0.jsonl"), (gzip.compress(lines[1]), "1.jsonl.gz"), ("no pool", "notes.txt")):
        written(content, f"parts/{name}")
    parts = tmp_path / "parts"
    assert list(responses_in(parts)) == ["0", "1"]
    digests = [pool_digest(parts, Layouts())]
    for content, name in (("more notes", "notes.txt"), ([OWN], "0.jsonl"), ([OWN], "3.jsonl")):
        written(content, f"parts/{name}")
        digests.append(pool_digest(parts, Layouts()))
    assert [first == second for first, second in pairwise(digests)] == [True, False, False]


def test_lines_that_need_no_grouping_are_read_one_at_a_time(written):
    for line in (CODET[0], OWN):
        records = read_pool(written(json.dumps(line) + "\nbroken\n"))
        assert next(records).responses
        with pytest.raises(HarnessError, match="line 2: not JSON"):
            next(records)


def test_what_is_no_pool_a_malformed_line_or_missing_is_refused_in_one_line_with_the_place(written, tmp_path):
    assert not wrongly_refused(NO_POOLS, lambda content: list(read_pool(written(content), layouts=LAYOUTS)))
    assert not wrongly_refused(OWN_LINES, lambda line: list(read_pool(written([line]))))
    assert pool_refusal(written("")).endswith("see docs/pools.md")
    assert pool_refusal(tmp_path / "absent.jsonl").endswith("no such file")
    (tmp_path / "bare").mkdir()
    assert "a folder without *.jsonl files" in pool_refusal(tmp_path / "bare")
    (tmp_path / "loop.jsonl").symlink_to("loop.jsonl")
    assert refusal_of(lambda: list(read_pool(tmp_path / "loop.jsonl"))).startswith("pool ")


def test_every_line_that_the_document_shows_is_read_as_what_it_says(written):
    table = re.findall(r"^\| ([\w-]+) \| `(\{.*?\})`", (ROOT / "docs" / "pools.md").read_text(), re.M)
    assert [name for name, _ in table] == ["own", "evalplus", "CodeT", "lm-eval", "verl"]
    for name, line in table:
        path = written(line + "\n")
        assert sum(map(len, responses_in(path).values())) in (1, 2)
        note = "".join(notes_on(path)).replace("lm-evaluation-harness", "lm-eval")
        assert note.startswith(f"pool: read as {name} samples") or name == "own"


def test_a_line_may_have_a_column_for_each_thing_known_of_its_responses(written):
    line = {
        **{"problem_id": "a", "responses": ["x", "y"], "prompt": "?", "reference": {"answer": [1, "2"]}},
        **{"logprobs": [-1, -2.5], "logprob_kind": "mean", "correct": [1, False], "finish": ["stop", "length"]},
        **{"names": ["first", ""], "scores": {"rm": [1, 2], "judge": [None, -3]}},
    }
    bare, full = read_pool(
        written([{"problem_id": "b", "responses": ["", "\ud800", "\0"], "scores": [0, None, 1]}, line])
    )
    assert bare == PoolRecord("b", ["", "\ud800", "\0"], scores={"score": [0, None, 1]})
    assert (full, full.correct, str(full.logprobs)) == (PoolRecord(**line), [True, False], "[-1.0, -2.5]")
    responses = full.as_responses()
    assert ([*responses.finish], responses.lengths.tolist()) == (["stop", "length"], [1, 1])
    assert {name: str(column) for name, column in responses.scores.items()} == {"rm": "[1. 2.]", "judge": "[nan -3.]"}
    assert [*bare.as_responses().finish] == ["stop"] * 3


EGGS, HENS = "How many eggs are there?", "How many hens are there?"


class Puzzles(Task):
    """Problems p0, p1, ... with these prompts; asked in a chat of two messages."""

    def __init__(self, *prompts, references="-" * 9):
        self.list = [Problem(f"p{i}", prompt, references[i]) for i, prompt in enumerate(prompts)]

    def problems(self, split):
        return self.list

    def messages(self, problem):
        last = f"Solve: {problem.prompt} Answer with a number."
        return [{"role": "system", "content": "Be brief."}, {"role": "user", "content": last}]


def joined(task, prompt, name="line-1", ids=None, **more):
    """The id of the problem that a line with this prompt joins to, and how."""
    problem, way = Joiner(task, task.problems("test"), ids)(PoolRecord(name, ["x"], prompt=prompt, **more))
    return (problem and problem.id, way)


def test_ids_come_before_prompts_and_raw_prompts_before_rendered_ones():
    task = Puzzles(EGGS, "Solve: p Answer with a number.", "p")
    assert joined(task, EGGS, "p2") == ("p2", "id")
    assert joined(task, " How  many\neggs are there?") == ("p0", "prompt")
    assert joined(task, "Solve: p Answer with a number.") == ("p1", "prompt")
    assert joined(task, "Be brief.\nSolve: p Answer with a number.") == ("p2", "rendered")
    assert joined(task, f"Solve: {EGGS} Answer with a number.") == ("p0", "rendered")  # the last message alone
    assert joined(task, "nothing of the kind") == (None, "")
    assert joined(task, None, "doc-0", more_ids=["p1", "p0"]) == ("p1", "id")
    assert joined(task, "unknown", "doc-0", more_prompts=["p", EGGS]) == ("p2", "prompt")
    # Of doubles with one reference the first is taken, others are left out.
    assert joined(Puzzles(EGGS, "another one, not this", EGGS, references="181"), EGGS)[0] == "p0"
    assert joined(Puzzles(EGGS, "another one, not this", EGGS, references="182"), EGGS)[0] is None


def test_a_table_of_ids_may_be_json_lines_or_csv_and_name_lines_by_id_or_prompt(written):
    rows = [{"task_id": "p3", "prompt": EGGS}, {"task_id": "p2", "prompt": HENS}]
    packed = gzip.compress(f"task_id,prompt\np3,{EGGS}\np2,{HENS}\n".encode(), mtime=0)
    for content, name in (
        (rows, "table.jsonl"),
        (packed, "table.csv.gz"),
        ("task_id,pool_id,prompt\np3,line-1,\np2,line-2,elsewhere\n", "by_line.csv"),
        ([{"task_id": 3, "pool_id": 1}, {"task_id": "p3", "pool_id": " line-1 "}, rows[1]], "mixed.jsonl"),
    ):
        ids = IdTable(written(content, name))
        lines = [PoolRecord("line-1", ["x"], prompt=EGGS), PoolRecord("line-2", ["x"], prompt=HENS)]
        assert list(map(ids.find, lines)) == ["p3", "p2"], name


def test_a_line_joins_as_the_table_says_or_not_at_all_and_others_as_without_it(written, tmp_path):
    task = Puzzles(EGGS, HENS)
    ids = IdTable(written([{"task_id": "p1", "pool_id": "a"}, {"task_id": "elsewhere", "pool_id": "b"}]))
    assert [joined(task, EGGS, name, ids) for name in "abc"] == [("p1", "--ids"), (None, "--ids"), ("p0", "prompt")]
    rows = [{"task_id": f"p{i}", "prompt": text} for i, text in ((0, "x"), (1, " x "), (1, "y"), (1, "y"), (0, "x"))]
    ids = IdTable(written(rows))
    assert joined(task, "x", ids=ids) == (None, "")  # a prompt that a table gives to two problems
    assert joined(task, "y", ids=ids) == ("p1", "--ids")
    name = lambda content: "table.jsonl" if isinstance(content, list) else "table.csv"  # noqa: E731
    assert not wrongly_refused(ID_TABLES, lambda content: IdTable(written(content, name(content))))
    assert refusal_of(IdTable, tmp_path / "absent.csv").endswith("absent.csv: no such file")


TWENTY, MAKE = "a" * 20, "Make 24 from the numbers 1 1 1 1"
NUMBERS = Puzzles(MAKE, "12 eggs and 13 hens: which?")
NESTED = Puzzles(EGGS, f"Ada has 3 hens. {EGGS} Say why.", f"{EGGS} Say why, and when.", HENS)


def test_a_prompt_within_a_rendered_chat_joins_the_longest_counts_and_a_number_that_goes_on_is_another_problem():
    for puzzles, text, joins in (
        (NESTED, "<|user|>How many\neggs are there?<|end|>\n<|assistant|>", "p0"),
        (Puzzles(EGGS, "4 5 6 10"), "user Solve: 4 5 6 10 Answer with a number. assistant", "p1"),  # as it is asked
        (Puzzles(TWENTY), f"user {TWENTY}", "p0"),
        (NESTED, f"user Ada has 3 hens. {EGGS} Say why. assistant", "p1"),
        (NESTED, f"{EGGS} Again: {EGGS}", "p0"),
        (NESTED, f"Question: {EGGS} Answer: 3 Question: {HENS} Answer:", None),
        *((NUMBERS, f"user {MAKE}{after} assistant", None) for after in ("3", ".5", "0 and")),
        (NUMBERS, f"user {MAKE}. assistant", "p0"),
        (NUMBERS, "user 1.12 eggs and 13 hens: which? assistant", None),
    ):
        assert joined(puzzles, text) == (joins, "within" if joins else ""), text


TASK = Colours()  # its prompts are `Say colour 0 (test).`


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


def line(name, prompt=None):
    return {"problem_id": name, "responses": ["x"], "prompt": prompt}


def test_how_lines_joined_and_which_did_not_is_told_and_a_pool_of_which_none_joins_is_refused(index_of):
    lines = [line("test/0"), line("a", "Say colour 1 (test)."), line("c"), *(line(f"lost-{i}") for i in range(6))]
    assert list(remarks(index_of(lines, {"task_id": "test/3", "pool_id": "c"}))) == [
        "pool: joined 1 by the table of --ids, 1 by id, 1 by prompt",
        "pool: 6 of 9 problems join to none of the task's: 'lost-0', 'lost-1', 'lost-2', 'lost-3', 'lost-4', ...",
    ]
    assert not list(remarks(index_of([line("test/0")])))
    elsewhere = refusal_of(index_of, [line("elsewhere"), line("x")])
    assert "none of its 2 problems is the task's, by id or by prompt; the first is 'elsewhere'" in elsewhere
    row = {"task_id": "HumanEval/0", "pool_id": "line-1"}
    assert refusal_of(index_of, [line("line-1")], row).endswith("check the split, or the table")
    assert "names no line of pool" in refusal_of(index_of, [line("test/0")], row)
    double = refusal_of(index_of, [line("a", "Say colour 1 (test)."), line("test/1")])
    assert "'test/1' and 'a' both join to problem 'test/1'" in double
