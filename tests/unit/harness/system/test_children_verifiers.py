"""`harness verify` and `own:grader=command` tell a judgement from a failed program, and miss a script beforehand."""

import os
import sys

import pytest
from support.json_lines import write_json_lines
from support.refusals import error_line
from support.verifying import outcomes_in

PATH = "import sys; path = sys.argv[1]\n"
DATACLASS = "from dataclasses import dataclass\n@dataclass\nclass Dock:\n    site: str\n    def __post_init__(self):\n"
UNITTEST = "import sys, unittest; path = sys.argv.pop()\nclass T(unittest.TestCase):\n    def test(self):\n        "

# A program, which gets the response's file. The response is code that raises NameError.
ERRORS = [
    PATH + "import subprocess; subprocess.run(['sh', '-c', 'exit 127', path], check=True)",
    PATH + "float(path)",
    PATH + "raise RuntimeError(f'no licence for {path}')",
    PATH + "raise RuntimeError(f'the log of {path}:\\nstep 1\\nFAILED to dock')",
    PATH + 'raise RuntimeError(f\'what is\\n  File "{path}", line 1, in <module>\\n  File "<string>", line 1, in f\')',
    PATH + "raise RuntimeError('as in\\nFile \"<string>\"\\nAssertionError')",
    PATH + DATACLASS + "        {}['licence']\nDock('a')",
    PATH + "try: exec(open(path).read())\nexcept NameError: open('/nowhere/log')",
    PATH + "try: assert False\nexcept AssertionError: {}['key']",
    PATH + "raise RuntimeError('x' * 1_000_000)",
    "import no_such_module",
    "def f(:",
    "raise ValueError('two\\nlines')",
    "raise ExceptionGroup('two', [AssertionError('a'), KeyError('licence')])",
    "import traceback\ntry: {}['licence']\nexcept KeyError: traceback.print_exc(); raise SystemExit(1)",
    UNITTEST + "import no_such_module\nunittest.main()",
]
WRONG = [
    "raise SystemExit(1)",
    "import sys; print('wrong', file=sys.stderr); sys.exit(1)",
    "print('Traceback (most recent call last):'); raise SystemExit(1)",
    "import sys; print('  File \"x\", line 1\\nValueError: 3', file=sys.stderr); sys.exit(1)",
    "assert 1 == 2, 'two lines\\nof reason'",
    "try: 1 / 0\nexcept ZeroDivisionError: assert False, 'no number'",
    "try: 1 / 0\nexcept ZeroDivisionError as cause: raise AssertionError from cause",
    PATH + "exec(open(path).read())",
    PATH + "names = {}\nexec('def f(): return ' + open(path).read(), names)\nnames['f']()",
    PATH + "eval('1 +')",
    PATH + "import runpy; runpy.run_path(path)",
    PATH + "import subprocess\ndone = subprocess.run([sys.executable, path])\nassert done.returncode == 0",
    PATH + "import subprocess\nsys.exit(subprocess.run([sys.executable, path]).returncode)",
    PATH + "import subprocess; done = subprocess.run([sys.executable, path], capture_output=True); sys.exit(1)",
    UNITTEST + "self.assertEqual(1, 2)\nunittest.main()",
    UNITTEST + "exec(open(path).read())\nunittest.main()",
]

# Whole commands.
COMMANDS = {
    "{python} -c 'import no_such_module' {response_file}": "error",
    "{python} -c 'def f(:' {response_file}": "error",
    "{python} -c 'exec(open(__import__(\"sys\").argv[1]).read())' {response_file}": "wrong",
    "{python} -m no_such_module {response_file}": "error",
    "{python} -m no.such.module {response_file}": "error",
    "env PYTHONHOME=/nowhere {python} {response_file}": "error",
    "sh -c '{python} -m no_such_module {response_file}'": "error",
    "{python} {response_file}": "wrong",
    "sh -c 'grep -q 42 {response_file}'": "wrong",
    "sh -c 'no_such_program {response_file}'": "error",
}


@pytest.fixture
def verify(harness, tmp_path, monkeypatch):
    """Run `harness verify` in order on pool.jsonl: `verify(command, *options)`."""
    monkeypatch.chdir(tmp_path)
    write_json_lines(tmp_path / "pool.jsonl", [{"problem_id": "p", "responses": ["undefined_name\n"] * 3}])

    def call(command, *options):
        fixed = ("--pool", "pool.jsonl", "--selector", "in-order", "--budget", 99, "--json")
        return harness("verify", "--verifier", command, *fixed, *options)

    return call


def written(folder, programs):
    """The programs' files, by name."""
    for place, program in enumerate(programs):
        (folder / f"check_{place}.py").write_text(program)
    return {f"check_{place}.py": program for place, program in enumerate(programs)}


def test_an_exit_code_of_1_is_wrong_unless_the_program_failed_by_itself(verify, tmp_path):
    turns = [program for pair in zip(ERRORS, WRONG, strict=True) for program in pair]  # never five errors
    lines = [{"problem_id": name, "responses": ["undefined_name\n"]} for name in written(tmp_path, turns)]
    write_json_lines(tmp_path / "pool.jsonl", lines)
    outcome = verify(f"{sys.executable} -S {{problem_id}} {{response_file}}", "--workers", 1)
    outcomes = [each[2] for each in outcomes_in(tmp_path / "verify.jsonl")]
    expected = ["error", "wrong"] * len(ERRORS)
    assert [turn for turn, was, due in zip(turns, outcomes, expected, strict=True) if was != due] == []
    assert outcome.rows["errors"] == len(ERRORS)


def test_the_words_before_the_script_make_no_difference(verify, tmp_path):
    wrong = {}
    for place, (command, expected) in enumerate(COMMANDS.items()):
        command, journal = command.replace("{python}", f"{sys.executable} -S"), tmp_path / f"{place}.jsonl"
        assert verify(command, "--budget", 1, "--journal", journal).code == 0
        if [each[2] for each in outcomes_in(journal)] != [expected]:
            wrong[command] = journal.read_text()
    assert wrong == {}


def test_errors_of_a_program_are_counted_and_checked_again_by_retry_errors(verify, tmp_path):
    (tmp_path / "dock.py").write_text(ERRORS[0])
    command = "python dock.py {response_file}"
    outcome = verify(command)
    assert (outcome.rows["calls"], outcome.rows["errors"]) == (3, 3)
    assert outcome.rows["commonest_error"].startswith("exit code 1: subprocess.CalledProcessError: ")
    (tmp_path / "dock.py").write_text("raise SystemExit(1)")
    again = verify(command, "--retry-errors")
    assert (again.rows["calls"], again.rows["errors"], again.rows["failed"]) == (6, 3, 0)
    assert [each[2] for each in outcomes_in(tmp_path / "verify.jsonl")] == ["error"] * 3 + ["wrong"] * 3


@pytest.mark.parametrize("tier", ["bwrap", "none"])
@pytest.mark.parametrize(("programs", "errors"), [(ERRORS, len(ERRORS)), (WRONG, 0)])
def test_the_task_own_tells_the_same_apart(harness, tmp_path, monkeypatch, tier, programs, errors):
    if tier == "none":
        monkeypatch.setenv("HARNESS_SANDBOX_TIER", "none")
    elif os.system("bwrap --ro-bind / / true 2>/dev/null"):
        pytest.skip("bubblewrap does not work here")
    questions = [{"id": str(i), "prompt": f"Say {i}.", "reference": program} for i, program in enumerate(programs)]
    pool = [{"problem_id": each["id"], "responses": ["undefined_name\n"]} for each in questions]
    command = f"{sys.executable} -S {{reference_file}} {{response_file}}"
    task = f"own:file={write_json_lines(tmp_path / 'questions.jsonl', questions)},grader=command,command='{command}'"
    fixed = ("--selector", "uniform", "--unsafe-exec", "--store", tmp_path / "runs", "--json")
    outcome = harness("run", "--task", task, "--pool", write_json_lines(tmp_path / "pool.jsonl", pool), *fixed)
    (row,) = outcome.rows
    assert (row["problems"], row["errors"], row["solvable"]) == (len(programs), errors, 0)


# What is not there.


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("python chek.py {response_file}", "there is no file 'chek.py' in "),
        ("chek {response_file}", "there is no program 'chek'"),
        ("./check.py {response_file}", "there is no program './check.py': give its path"),
    ],
)
def test_a_program_or_script_that_is_not_there_costs_no_call(verify, harness, tmp_path, command, words):
    (tmp_path / "check.py").touch()
    assert words in error_line(verify(command))
    assert not (tmp_path / "verify.jsonl").exists()
    questions = write_json_lines(tmp_path / "questions.jsonl", [{"id": "p", "prompt": "Say red.", "reference": "red"}])
    task = f"own:file={questions},grader=command,command='{command}'"
    outcome = harness("run", "--task", task, "--pool", tmp_path / "pool.jsonl", "--selector", "uniform", "--json")
    assert words in error_line(outcome)


@pytest.mark.parametrize(
    "command",
    [
        "python check.py {response_file} --out new.py",
        "python folder {response_file}",
        "python -c pass {response_file} new.py",
        "python -m json.tool --no-indent data.json new.py {index}",
        "python {response_file} new.py",
        "python check_{index}.py {response_file}",
        "bash true {response_file}",
        "node check {response_file}",
        "env X=1 python check.py {response_file}",
        "cat new.py {response_file}",
    ],
)
def test_no_command_that_may_run_is_refused(verify, tmp_path, command):
    (tmp_path / "folder").mkdir()
    for name in ("check.py", "check_0.py", "check.js", "folder/__main__.py"):
        (tmp_path / name).touch()
    (tmp_path / "data.json").write_text("1")
    outcome = verify(command, "--budget", 1)
    assert (outcome.code, outcome.rows["calls"]) == (0, 1)
