"""The task own: problems of a file, what is refused, and verdicts and answers by each grader."""

import re

import pytest
from support.json_lines import write_json_lines
from support.paths import TOY
from support.refusals import refusal_of, wrongly_refused

from harness import Problem
from harness.testing import findings
from harness_tasks.own import Own

CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Say red."}]
LINES = [
    {"id": "first", "prompt": "Say red.", "reference": "red"},
    {"prompt": "What is 6 * 7?", "reference": 42},
    {"messages": CHAT, "reference": {"word": "red"}, "other": "is left out"},
]
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


# Problems


def test_a_line_is_a_problem_with_the_lines_number_as_its_id_and_text_as_reference(own):
    task = own()
    first, second, chat = task.problems("test")
    assert first == Problem("first", "Say red.", "red")
    assert second == Problem("line-2", "What is 6 * 7?", "42")
    assert (chat.id, chat.prompt, chat.reference) == (
        "line-3",
        "system: Be brief.\n\nuser: Say red.",
        '{"word": "red"}',
    )
    assert task.messages(chat) == CHAT
    assert task.messages(first) == [{"role": "user", "content": "Say red."}]


def test_a_wrong_line_is_refused_with_its_place(own, tmp_path):
    faults = [
        ([{"prompt": "?"}], "line 1: no value in column 'reference' (columns: prompt)"),
        ([{"prompt": "?", "reference": " "}], "line 1: no value in column 'reference'"),
        ([ONE, {"reference": "red"}], "line 2: no value in column 'prompt'"),
        ([{**ONE, "messages": CHAT}], "line 1: has prompt and messages: give one of them"),
        ([{"messages": CHAT[:1], "reference": "x"}], "line 1: messages must be a list of"),
        ([{"messages": [{"role": "user"}], "reference": "x"}], "line 1: messages must be a list of"),
        ([{"messages": "Say red.", "reference": "x"}], "line 1: messages must be a list of"),
        ([{**ONE, "id": "a"}, {**ONE, "id": "a"}], "line 2: problem 'a' is there already (line 1)"),
        ([{**ONE, "reference": "..."}], "reference has no letter or digit, got '...'"),
        ([], "has no rows"),
    ]
    assert not wrongly_refused(faults, lambda lines: own(lines).problems("test"))
    by_grader = {
        "number": "needs a number as reference, got 'red': put such lines into a file of their own with grader=exact",
        "choice": "needs a letter from A to J as reference",
    }
    for grader, words in by_grader.items():
        assert words in refusal_of(own([ONE], grader=grader).problems, "test")
    assert "reference is no regular expression" in refusal_of(
        own([{**ONE, "reference": "("}], grader="regex").problems, "test"
    )
    assert "cannot read" in refusal_of(Own(file=str(tmp_path / "absent.jsonl")).problems, "test")
    assert "own: say which file has the problems" in refusal_of(Own().problems, "test")


def test_parameters_that_do_not_fit_are_refused():
    faults = [
        ({"pattern": "x"}, "pattern goes with grader=regex, got grader=exact"),
        ({"command": "x {response_file}"}, "command goes with grader=command"),
        ({"grader": "command"}, "own: command: say where the response goes"),
        ({"grader": "regex", "pattern": "("}, "own: pattern is no regular expression"),
        ({"tolerance": 1.0}, "tolerance goes with grader=number, got grader=exact"),
        ({"timeout_s": 5.0}, "timeout_s goes with grader=command"),
        ({"grader": "number", "tolerance": -1.0}, "tolerance must be >= 0"),
        ({"grader": "number", "tolerance": float("nan")}, "tolerance must be >= 0"),
    ]
    assert not wrongly_refused(faults, lambda parameters: Own(**parameters))


def test_the_revision_is_that_of_the_file_and_of_the_commands_files(own, command, tmp_path):
    with_command = {"grader": "command", "command": command}
    revisions = [own().revision, own(LINES[:1]).revision, own(**with_command).revision]
    (tmp_path / "check.sh").write_text(CHECK + "\n\n")
    revisions.append(own(**with_command).revision)
    assert len({*revisions}) == 4
    assert own().revision == Own(data=own().file).revision == revisions[0]


# Verdicts


def test_each_grader_reads_the_answer_in_its_own_way(own):
    cases = [
        ({}, "Paris", "The answer is **Paris**.", "Rome", "paris"),
        ({"grader": "number"}, "1/2", "So it is 0.5", "#### 2", "1/2"),
        ({"grader": "number", "tolerance": 0.1}, "3.14", "\\boxed{3.2}", "\\boxed{3.3}", "16/5"),
        ({"grader": "choice"}, "(b)", "B) Paris", "I choose C.", "B"),
        ({"grader": "regex"}, r"(?i)\bparis\b", "It is Paris.", "Parish", "it is paris"),
        ({"grader": "regex", "pattern": r"ANSWER=(\w+)"}, "Paris", "ANSWER=no ANSWER=paris", "Paris", "paris"),
    ]
    for parameters, reference, right, wrong, answer in cases:
        task = own(**parameters)
        assert (status(task, reference, right), status(task, reference, wrong)) == ("correct", "wrong"), parameters
        assert task.answer(Problem("a", "?", "not looked at"), right) == answer
        assert status(task, reference, "") == "wrong"


def test_what_was_cut_off_is_no_answer_by_its_end_alone(own):
    cases = [({}, "red", "red"), ({"grader": "number"}, "7", "so 7"), ({"grader": "choice"}, "B", "B. Red")]
    ends = [[status(own(**more), gold, text, finish=end) for end in ("stop", "length")] for more, gold, text in cases]
    assert ends == [["correct", "wrong"]] * 3


def test_a_search_without_end_is_wrong(own, monkeypatch):
    monkeypatch.setattr("harness_tasks.graders.stated.LIMIT_S", 0.3)
    verdict = own(grader="regex").verify(Problem("a", "?", r"(a+)+$"), "a" * 40 + "b")
    assert (verdict.status, verdict.reason) == ("wrong", "the search took longer than 0.3 s")


def test_a_command_decides_and_its_key_is_the_response_and_its_files(own, command, tmp_path):
    task, problem = own(grader="command", command=command), Problem("a", "?", "red")
    assert task.check(unsafe_exec=True).startswith("sandbox: ")
    assert [verdict.status for verdict in task.verify_all(problem, ["red", "blue"])] == ["correct", "wrong"]
    keys = [task.verdict_key(problem, text, None) for text in ("red", "blue")]
    (tmp_path / "check.sh").write_text(CHECK + "\n\n")
    assert len({*keys, task.verdict_key(problem, "red", None)}) == 3


@pytest.mark.parametrize(
    "grader", ["exact", "number", "choice", "regex", pytest.param("command", marks=pytest.mark.slow)]
)
def test_the_task_conforms(own, command, grader):
    references = {"exact": ["red", "blue"], "number": ["42", "1/3"], "choice": ["A", "B"], "regex": ["^red$", "blue"]}
    references["command"] = references["exact"]
    more = {"command": command} if grader == "command" else {}
    lines = [{"prompt": "Say it.", "id": str(i), "reference": gold} for i, gold in enumerate(references[grader])]
    failed = [row["what"] for row in findings("task", own(lines, grader=grader, **more)) if row["outcome"] == "failed"]
    assert failed == []


# Runs


def run(harness, folder, spec, *more):
    return harness(
        *("run", "--task", spec, "--engine", "toy", "--plugin", TOY, "--embedder", "letters", "--n", 8, "--json"),
        *("--selector", "uniform", "--selector", "answer-round-robin", "--store", folder / "runs", *more),
    )


def reused(outcome):
    return sum(map(int, re.findall(r"pool: reused for (\d+) of", outcome.err)))


@pytest.mark.slow
def test_only_an_edited_line_is_sampled_and_graded_again(harness, own, tmp_path, command, monkeypatch):
    monkeypatch.setenv("HARNESS_SANDBOX_TIER", "none")  # so that the command may count its calls
    lines = [{"prompt": f"Say colour {i}.", "id": f"p{i}", "reference": word} for i, word in enumerate(("red", "blue"))]
    path = own(lines).file
    count = tmp_path / "count"
    (tmp_path / "check.sh").write_text(f"printf x >> {count}\n{CHECK}")
    spec = f"own:file={path},grader=command,command='{command}'"
    options = ("--unsafe-exec",)
    first = run(harness, tmp_path, spec, *options)
    assert first.code == 0, first.err
    assert "sample: 16 responses" in first.err
    graded = [len(count.read_text())]
    edited = [lines[0] | {"prompt": "Say a colour."}, lines[1]]
    own(edited)
    second = run(harness, tmp_path, spec, *options)
    assert reused(second) == 1
    assert "sample: 8 responses" in second.err
    graded.append(len(count.read_text()))
    own([edited[0], lines[1] | {"reference": "green"}])
    third = run(harness, tmp_path, spec, *options)
    assert reused(third) == 2
    assert "sample:" not in third.err
    graded.append(len(count.read_text()))
    assert 0 < graded[0] < graded[1] < graded[2] == 2 * graded[0]  # each problem's responses twice
    assert len({first.rows[0]["cell"], second.rows[0]["cell"], third.rows[0]["cell"]}) == 3


def test_given_responses_are_graded_and_the_answers_selector_reads_answers(harness, own, tmp_path):
    lines = [{"prompt": "2 + 2?", "id": "sum", "reference": "4"}]
    pool = write_json_lines(
        tmp_path / "pool.jsonl", [{"problem_id": "sum", "responses": ["3", "3.0", "It is 4.", "5"]}]
    )
    spec = f"own:file={own(lines).file},grader=number"
    outcome = harness(
        *("run", "--task", spec, "--pool", pool, "--selector", "answer-round-robin", "--store", tmp_path / "runs"),
        "--json",
    )
    assert outcome.code == 0, outcome.err
    assert outcome.rows[0]["samples_to_correct_random"] == pytest.approx(2.5)
    assert outcome.rows[0]["samples_to_correct"] <= 3  # 3 and 3.0 are one answer


def test_a_run_whose_verdicts_are_all_errors_says_the_first_reason(harness, own, command, tmp_path, monkeypatch):
    monkeypatch.setenv("HARNESS_SANDBOX_TIER", "none")
    (tmp_path / "check.sh").write_text("echo 'no such table' >&2; exit 3\n")
    task = own([{"prompt": "Say red.", "id": "p", "reference": "red"}])
    pool = write_json_lines(tmp_path / "pool.jsonl", [{"problem_id": "p", "responses": ["red", "blue"]}])
    spec = f"own:file={task.file},grader=command,command='{command}'"
    store = ("--store", tmp_path / "runs")
    outcome = harness("run", "--task", spec, "--pool", pool, "--selector", "uniform", "--unsafe-exec", *store)
    assert "not correct): 2, over 1 %: the verifier needs a look; the first: the command ended with" in outcome.out
    assert "exit code 3: no such table\n" in outcome.out
