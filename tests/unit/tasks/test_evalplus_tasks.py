"""MBPP+ and HumanEval+: what is correct, answers, the check before a run, prompts and data."""

import gzip
import hashlib
import json
import multiprocessing
import os
from dataclasses import replace
from pathlib import Path

import pytest
from corpora.responses import HEADED, LACKING, RIGHT_ALONE, RIGHT_WITH_HEAD, WRONG_WITH_HEAD
from support.evalplus_problems import BEGUN, HALF, ROW, SOLUTION, block, verdicts_here, written
from support.refusals import refusal_of, wrongly_refused
from support.task_files import parquet

from harness.columns.store import Memo
from harness.columns.verdicts import graded
from harness_tasks.evalplus_tasks import UNSAFE_EXEC, HumanEvalPlus, MbppPlus

pytestmark = pytest.mark.usefixtures("ground_truth_cache")


def test_a_right_program_is_correct_however_it_is_written_and_talk_is_no_program(mbpp, problem):
    body = "    total = 0\n    for n in numbers:\n        total += n * (1 - n % 2)\n    return total"
    loop = f"def sum_even(numbers):\n{body}"
    right = [block(SOLUTION), SOLUTION, f"Here:\n```\n{loop}\n```\nIt loops.", block(ROW["prompt"] + loop)]
    no_function = ["def sum_odd(n): return 0", "class Solution:\n    def sum_even(self, n): pass"]
    rows = [(text, "no program") for text in ("I cannot.", "", "Python's def could define sum_even(n).")]
    rows += [(text, "no function sum_even") for text in no_function]
    rows += [(text, "") for text in right] + [(block("def sum_even(n): return 0"), "base: test 1")]
    verdicts = mbpp.verify_all(problem, [text for text, _ in rows * 3])
    assert [verdict.reason for verdict in verdicts] == [reason for _, reason in rows * 3]
    assert all((verdict.status == "correct") == (not verdict.reason) for verdict in verdicts)
    assert {verdict.route for verdict in verdicts if not verdict.reason} == {"base+plus"}
    assert mbpp.verify_all(problem, []) == mbpp.answers(problem, []) == []


def test_a_response_that_was_cut_off_in_its_second_program_is_graded_by_its_first(mbpp, problem):
    response = f"{block(SOLUTION)}\nShorter:\n```python\ndef sum_even(numbers):\n    return sum(n for"
    verdicts, _ = graded(mbpp, problem, [response] * 2, finish=["length", "stop"])
    assert [verdict.status for verdict in verdicts] == ["correct", "wrong"]
    assert mbpp.answer(problem, response, finish="length") == mbpp.answer(problem, block(SOLUTION))


def test_only_base_tests_count_where_they_are_asked_for(tmp_path, problem):
    base = MbppPlus(written(tmp_path, ROW), tests="base")
    verdict = base.verify(problem, block("def sum_even(n):\n    return 6 if n else 0"))
    assert (verdict.status, verdict.route) == ("correct", "base")
    assert refusal_of(MbppPlus, tests="both") == "mbppplus: tests must be 'plus' or 'base', got 'both'"


def test_a_completion_is_graded_with_its_prompt(tmp_path):
    task = HumanEvalPlus(written(tmp_path, HALF))
    [problem] = task.problems("test")
    assert task.plain(problem) == BEGUN
    assert task.verify(problem, "    return 0.5 * x\n\ndef other(").status == "correct"
    assert task.verify(problem, "    return round(x / 2, 1)\n").reason == "plus: test 1"


@pytest.fixture
def headed(tmp_path):
    """HumanEval+ with one problem, whose prompt has a head."""
    row = {"prompt": HEADED, "entry_point": "doubled", "canonical_solution": "    return math.floor(twice(sum(xs)))\n"}
    inputs = {"base_input": [[[1.0, 2.5]], [[0.5]]], "plus_input": [[[0.75]], [[]]]}
    return HumanEvalPlus(written(tmp_path, {**HALF, **row, **inputs}))


def alone(task, problem, responses, folder):
    """The statuses of responses that are graded one after the other, with one memory."""
    known = Memo(folder / f"{len(list(folder.iterdir()))}.jsonl")
    return [graded(task, problem, [text], known=known)[0][0].status for text in responses]


def test_a_program_gets_the_names_that_it_lacks_and_no_program_that_works_is_changed(headed):
    [problem] = headed.problems("test")
    right = RIGHT_WITH_HEAD | RIGHT_ALONE
    verdicts = dict(zip(right, headed.verify_all(problem, list(right.values())), strict=True))
    assert {name: verdict for name, verdict in verdicts.items() if verdict.status != "correct"} == {}
    verdicts = headed.verify_all(problem, list(WRONG_WITH_HEAD))
    assert [verdict.reason for verdict in verdicts] == list(WRONG_WITH_HEAD.values())
    assert {verdict.status for verdict in verdicts} == {"wrong"}


def test_programs_that_differ_in_what_is_lent_to_them_have_their_own_verdicts_and_a_behaviour(headed, tmp_path):
    [problem] = headed.problems("test")
    helpers = ["import math", "from cmath import sqrt as lacking", "def lacking(xs): return math.floor(2 * sum(xs))"]
    responses = [block(helper) + "\n" + block(LACKING) for helper in helpers]
    assert alone(headed, problem, responses, tmp_path) == ["wrong", "wrong", "correct"]
    assert alone(headed, problem, responses[::-1], tmp_path) == ["correct", "wrong", "wrong"]
    assert len(set(headed.answers(problem, responses))) == 1
    behaviour = replace(headed, answer_by="behaviour")
    answers = behaviour.answers(problem, [*responses, RIGHT_WITH_HEAD["the function alone"], "def other(): pass"])
    assert answers[0] is answers[1] is answers[4] is None
    assert answers[2] == answers[3] is not None


def test_other_data_has_another_ground_truth(mbpp, problem, tmp_path):
    program = block("def sum_even(n): return {3: 6, 2: 0, 50: 500}.get(len(n), 0)")
    assert mbpp.verify(problem, program).status == "correct"
    more = MbppPlus(written(tmp_path, {**ROW, "plus_input": [*ROW["plus_input"], [[2]]]}))
    assert more.verify(more.problems("test")[0], program).reason == "plus: test 4"
    odd = MbppPlus(written(tmp_path, {**ROW, "canonical_solution": SOLUTION.replace("== 0", "== 1")}))
    assert odd.verify(odd.problems("test")[0], block(SOLUTION)).status == "wrong"


def test_the_answer_is_the_program_in_one_spelling_and_the_verdict_depends_on_its_text_alone(mbpp, problem):
    other = "def sum_even(numbers):  # adds\n    'Adds.'\n    return (sum(n for n in numbers\n        if n%2==0))"
    answers = mbpp.answers(problem, [block(SOLUTION), f"So:\n{block(other)}", "No.", block("def sum_even(n:")])
    assert answers[0] == answers[1] == mbpp.answer(problem, block(other)) is not None
    assert answers[2:] == [None, None]
    key = mbpp.verdict_key(problem, block(SOLUTION), None)
    assert key == mbpp.verdict_key(problem, f"So:\n{block(SOLUTION)}\nIt adds.", None) is not None
    assert key != mbpp.verdict_key(problem, block(SOLUTION.replace("(n for", "( n for")), None)
    assert mbpp.verdict_key(problem, "No.", None) is None
    assert mbpp.grader != "1"  # whose verdicts were shared by programs with one syntax tree


EVEN = "sum(x for x in n if x % 2 == 0)"
SELF_AWARE = [  # two programs with one syntax tree, docstrings aside, of which the second is wrong
    [f"{blank}def sum_even(n): return {EVEN} * (sum_even.__code__.co_firstlineno < 3)" for blank in ("", "\n\n")],
    [
        f"def sum_even(n):\n    {text}return {EVEN} + len(sum_even.__code__.co_consts[0] or '')"
        for text in ("", "'x'\n    ")
    ],
    [f"import sys\ndef sum_even(n): return ({blank}{EVEN} + sys._getframe().f_lineno - 2)" for blank in ("", "\n")],
]


def test_programs_that_see_their_own_text_get_their_own_verdicts_in_any_order(mbpp, problem, tmp_path):
    for pair in SELF_AWARE:
        blocks = list(map(block, pair))
        assert len(set(mbpp.answers(problem, blocks))) == 1
        assert alone(mbpp, problem, blocks, tmp_path) == ["correct", "wrong"]
        assert alone(mbpp, problem, blocks[::-1], tmp_path) == ["wrong", "correct"]


def test_unconfined_grading_must_be_asked_for_and_reaches_workers_which_need_no_torch(mbpp, problem, monkeypatch):
    monkeypatch.setenv("HARNESS_SANDBOX_TIER", "none")
    monkeypatch.setenv(UNSAFE_EXEC, "left over")
    assert "--unsafe-exec" in refusal_of(mbpp.check)
    assert UNSAFE_EXEC not in os.environ
    assert "NONE" in mbpp.check(unsafe_exec=True)
    responses = [block(SOLUTION), block("def sum_even(n): return 6"), "no"]
    with multiprocessing.get_context("spawn").Pool(1) as workers:
        made = workers.apply(verdicts_here, (mbpp, problem, responses))
    verdicts = [("correct", ""), ("wrong", "base: test 2"), ("wrong", "no program")]
    assert made == (verdicts, {"sandbox": "none"}, "1", False)
    monkeypatch.delenv(UNSAFE_EXEC)


# Data


def test_local_files_of_each_kind_hold_the_same_problems(tmp_path):
    rows = [ROW, {**ROW, "task_id": "Mbpp/9002", "plus_input": {}}]
    plain, packed = written(tmp_path, *rows), tmp_path / "data.jsonl.gz"
    packed.write_bytes(gzip.compress(Path(plain).read_bytes()))
    nested = [row | {key: json.dumps(row[key]) for key in ("base_input", "plus_input")} for row in rows]
    files = (plain, str(packed), parquet(tmp_path / "data.parquet", nested))
    first, *others = [MbppPlus(data).problems("test") for data in files]
    assert others == [first] * 2
    assert [problem.id for problem in first] == ["Mbpp/9001", "Mbpp/9002"]
    assert first[0].reference == SOLUTION
    assert ROW.items() >= {name: value for name, value in first[0].meta.items() if name != "sha256"}.items()
    assert first[1].meta["plus_input"] == []
    assert MbppPlus(plain).revision == f"sha256:{hashlib.sha256(Path(plain).read_bytes()).hexdigest()[:16]}"


LIST = "must be a list with a list of arguments for each test"
FAULTY = [  # a change of a row and the complaint about it
    ({"task_id": "Mbpp-7"}, "task_id must be Mbpp/NUMBER or HumanEval/NUMBER, got 'Mbpp-7'"),
    ({"entry_point": "a b"}, "entry_point must be a function's name, got 'a b'"),
    ({"entry_point": None}, "no value in column 'entry_point'"), ({"plus_input": [1]}, f"column 'plus_input' {LIST}"),
    ({"base_input": None}, f"column 'base_input' {LIST}"), ({"plus_input": "[1"}, "column 'plus_input' is no JSON"),
    ({"atol": "much"}, "column 'atol' must be a number of at least 0, got 'much'"),
    ({"atol": True}, "column 'atol' must be a number of at least 0, got True"),
]  # fmt: skip


def test_a_faulty_row_is_named(tmp_path):
    faults = [
        (change, f"mbppplus: data {tmp_path / 'data.jsonl'}, line 2: {complaint}") for change, complaint in FAULTY
    ]
    assert not wrongly_refused(
        faults, lambda change: MbppPlus(written(tmp_path, ROW, {**ROW, "task_id": "Mbpp/1", **change})).problems("test")
    )


def test_a_release_file_that_is_out_of_reach_or_damaged_is_named_with_the_way_round(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")  # nothing listens there
    line = refusal_of(HumanEvalPlus().problems, "test")
    assert line.startswith("humanevalplus: https://github.com/evalplus/humanevalplus_release/releases/")
    assert "HumanEvalPlus.jsonl.gz" in line
    assert line.endswith("give the file with --data FILE")
    (tmp_path / "evalplus").mkdir()
    (tmp_path / "evalplus/MbppPlus-v0.2.0.jsonl").write_text(json.dumps(ROW))
    line = refusal_of(MbppPlus().problems, "test")
    assert line.endswith(" is not MbppPlus v0.2.0: delete it, or give --data FILE")
