"""The task own: problems of a file, what is refused, and verdicts and answers by each grader."""

import pytest
from support.json_lines import write_json_lines
from support.refusals import refusal_of, wrongly_refused

from harness import Problem
from harness.testing import findings
from harness_tasks.own import Own

CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Say red."}]
LINES = [
    {"id": "first", "prompt": "Say red.", "reference": "red"}, {"prompt": "What is 6 * 7?", "reference": 42},
    {"messages": CHAT, "reference": {"word": "red"}, "other": "is left out"},
]  # fmt: skip
ONE = {"prompt": "?", "reference": "red"}
CHECK = 'cmp -s "$1" "$2"\n'


@pytest.fixture
def own(tmp_path):
    """The task of these lines."""

    def call(lines=LINES, **parameters):
        return Own(file=str(write_json_lines(tmp_path / "q.jsonl", lines)), **parameters)

    return call


@pytest.fixture
def command(tmp_path):
    (tmp_path / "check.sh").write_text(CHECK)
    return f"sh {tmp_path / 'check.sh'} {{response_file}} {{reference_file}}"


def status(task, reference, response, finish=""):
    [verdict] = task.verify_all(Problem("a", "?", reference), [response], finish=[finish])
    return verdict.status


def test_a_line_is_a_problem_with_the_lines_number_as_its_id_and_text_as_reference(own):
    task = own()
    first, second, chat = task.problems("test")
    assert first == Problem("first", "Say red.", "red")
    assert second == Problem("line-2", "What is 6 * 7?", "42")
    assert (chat.id, chat.prompt) == ("line-3", "system: Be brief.\n\nuser: Say red.")
    assert chat.reference == '{"word": "red"}'
    assert task.messages(chat) == CHAT
    assert task.messages(first) == [{"role": "user", "content": "Say red."}]


WRONG_LINES = [
    ([{"prompt": "?"}], "line 1: no value in column 'reference' (columns: prompt)"),
    ([ONE, {"reference": "red"}], "line 2: no value in column 'prompt'"), ([], "has no rows"),
    ([{**ONE, "messages": CHAT}], "line 1: has prompt and messages: give one of them"),
    ([{"messages": CHAT[:1], "reference": "x"}], "line 1: messages must be a list of"),
    ([{"messages": "Say red.", "reference": "x"}], "line 1: messages must be a list of"),
    ([{**ONE, "id": "a"}, {**ONE, "id": "a"}], "line 2: problem 'a' is there already (line 1)"),
    ([{**ONE, "reference": "..."}], "reference has no letter or digit, got '...'"),
]  # fmt: skip
WRONG_PARAMETERS = [
    ({"pattern": "x"}, "pattern goes with grader=regex, got grader=exact"),
    ({"command": "x {response_file}"}, "command goes with grader=command"),
    ({"grader": "command"}, "own: command: say where the response goes"),
    ({"grader": "regex", "pattern": "("}, "own: pattern is no regular expression"),
    ({"tolerance": 1.0}, "tolerance goes with grader=number, got grader=exact"),
    ({"timeout_s": 5.0}, "timeout_s goes with grader=command"),
    ({"grader": "number", "tolerance": float("nan")}, "tolerance must be >= 0"),
]
WRONG_REFERENCES = [  # for a grader
    ("number", "needs a number as reference, got 'red': put such lines into a file of their own with grader=exact"),
    ("choice", "needs a letter from A to J as reference"),
]


def test_a_wrong_line_or_parameter_is_refused(own, tmp_path):
    assert not wrongly_refused(WRONG_LINES, lambda lines: own(lines).problems("test"))
    assert not wrongly_refused(WRONG_REFERENCES, lambda grader: own([ONE], grader=grader).problems("test"))
    assert not wrongly_refused(WRONG_PARAMETERS, lambda given: Own(**given))
    pattern = own([{**ONE, "reference": "("}], grader="regex")
    assert "reference is no regular expression" in refusal_of(pattern.problems, "test")
    assert "cannot read" in refusal_of(Own(file=str(tmp_path / "absent.jsonl")).problems, "test")
    assert "own: say which file has the problems" in refusal_of(Own().problems, "test")


GRADED = [  # parameters, reference, a right and a wrong response, the answer of the first
    ({}, "Paris", "The answer is **Paris**.", "Rome", "paris"),
    ({"grader": "number"}, "1/2", "So it is 0.5", "#### 2", "1/2"),
    ({"grader": "number", "tolerance": 0.1}, "3.14", "\\boxed{3.2}", "\\boxed{3.3}", "16/5"),
    ({"grader": "choice"}, "(b)", "B) Paris", "I choose C.", "B"),
    ({"grader": "regex"}, r"(?i)\bparis\b", "It is Paris.", "Parish", "it is paris"),
    ({"grader": "regex", "pattern": r"ANSWER=(\w+)"}, "Paris", "ANSWER=no ANSWER=paris", "Paris", "paris"),
]


def test_each_grader_reads_the_answer_in_its_own_way(own, monkeypatch):
    for parameters, reference, right, wrong, answer in GRADED:
        task = own(**parameters)
        assert (status(task, reference, right), status(task, reference, wrong)) == ("correct", "wrong"), parameters
        assert task.answer(Problem("a", "?", "not looked at"), right) == answer
        assert status(task, reference, "") == "wrong"
    cases = [({}, "red", "red"), ({"grader": "number"}, "7", "so 7"), ({"grader": "choice"}, "B", "B. Red")]
    ends = [[status(own(**more), gold, text, finish=end) for end in ("stop", "length")] for more, gold, text in cases]
    assert ends == [["correct", "wrong"]] * 3  # what was cut off is no answer by its end alone
    monkeypatch.setattr("harness_tasks.graders.stated.LIMIT_S", 1.0)
    verdict = own(grader="regex").verify(Problem("a", "?", r"(a+)+$"), "a" * 40 + "b")
    assert (verdict.status, verdict.reason) == ("wrong", "the search took longer than 1 s")


def test_a_command_decides_and_its_key_and_the_revision_are_those_of_its_files_too(own, command, tmp_path):
    task, problem = own(grader="command", command=command), Problem("a", "?", "red")
    assert task.check(unsafe_exec=True).startswith("sandbox: ")
    assert [verdict.status for verdict in task.verify_all(problem, ["red", "blue"])] == ["correct", "wrong"]
    keys = [task.verdict_key(problem, text, None) for text in ("red", "blue")]
    revisions = [own().revision, own(LINES[:1]).revision, own(grader="command", command=command).revision]
    (tmp_path / "check.sh").write_text(CHECK + "\n\n")
    assert len({*keys, task.verdict_key(problem, "red", None)}) == 3
    revisions.append(own(grader="command", command=command).revision)
    assert len({*revisions}) == 4
    assert own().revision == Own(data=own().file).revision == revisions[0]


REFERENCES = {"exact": ["red", "blue"], "number": ["42", "1/3"], "choice": ["A", "B"], "regex": ["^red$", "blue"]}


@pytest.mark.parametrize("grader", [*REFERENCES, pytest.param("command", marks=pytest.mark.slow)])
def test_the_task_conforms(own, command, grader):
    more = {"command": command} if grader == "command" else {}
    golds = REFERENCES.get(grader, ["red", "blue"])
    lines = [{"prompt": "Say it.", "id": str(i), "reference": gold} for i, gold in enumerate(golds)]
    failed = [row["what"] for row in findings("task", own(lines, grader=grader, **more)) if row["outcome"] == "failed"]
    assert failed == []


def test_given_responses_are_graded_and_where_all_verdicts_are_errors_the_first_reason_is_told(
    harness, own, command, tmp_path, monkeypatch
):
    monkeypatch.setenv("HARNESS_SANDBOX_TIER", "none")
    (tmp_path / "check.sh").write_text("echo 'no such table' >&2; exit 3\n")
    task = own([{"prompt": "2 + 2?", "id": "sum", "reference": "4"}])
    pool = [{"problem_id": "sum", "responses": ["3", "3.0", "It is 4.", "5"]}]
    options = ["--pool", write_json_lines(tmp_path / "pool.jsonl", pool), "--selector", "answer-round-robin"]
    options += ["--store", tmp_path / "runs"]
    outcome = harness("run", "--task", f"own:file={task.file},grader=number", *options, "--json")
    assert outcome.code == 0, outcome.err
    [row] = outcome.rows
    assert row["samples_to_correct_random"] == pytest.approx(2.5)
    assert row["samples_to_correct"] <= 3  # 3 and 3.0 are one answer
    spec = f"own:file={task.file},grader=command,command='{command}'"
    out = harness("run", "--task", spec, *options, "--unsafe-exec").out
    assert "not correct): 4, over 1 %: the verifier needs a look; the first: the command ended with" in out
    assert "exit code 3: no such table\n" in out
