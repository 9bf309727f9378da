"""What a user's command gets, and what its end says about a response."""

import os
import resource
import subprocess
import sys

import pytest
from support.json_lines import write_json_lines
from support.processes import harness_command
from support.refusals import refusal_of
from support.searches import config_of
from support.verifying import outcomes_in

from harness.jobs.selection import Candidates
from harness.records import Problem
from harness.system.children import words_of
from harness.verifying.journal import Check
from harness.verifying.verifiers import NAMES, OPTION, CommandVerifier

# The response is the program's own text: what it prints and how it ends.
RUN = f"{sys.executable} -S {{response_file}}"
HOSTILE = 'it\'s "$(touch owned)"; `touch owned` {index} \\ \n\u00e9\U0001f600'


def checks(folder, texts, problem_id="p", prompt="", **options):
    write_json_lines(folder / "pool.jsonl", [{"problem_id": problem_id, "prompt": prompt, "responses": texts}])
    from harness.pools.record import PoolRecord

    candidates = Candidates(Problem(problem_id, prompt), PoolRecord(problem_id, texts).as_responses())
    with CommandVerifier(config_of(folder, **{"verifier": RUN} | options)) as verify_one:
        return [verify_one(candidates, index) for index in range(len(texts))]


def test_the_exit_code_is_the_outcome(tmp_path):
    texts = ["", "raise SystemExit(1)", "raise SystemExit(2)", "import os; os.kill(os.getpid(), 9)"]
    right, wrong, error, killed = checks(tmp_path, texts)
    assert (right, wrong) == (Check("p", 0, "correct"), Check("p", 1, "wrong"))
    assert (error.outcome, error.reason) == ("error", "exit code 2")
    assert (killed.outcome, killed.reason) == ("error", "ended by signal 9")


def test_an_exception_of_the_program_is_an_error_and_one_of_the_response_is_wrong(tmp_path):
    (tmp_path / "check.py").write_text("import runpy, sys\nrunpy.run_path(sys.argv[1])\nint('x')\n")
    verifier = f"{sys.executable} {tmp_path / 'check.py'} {{response_file}}"
    own = checks(tmp_path, ["", "1 / 0", "print('{'"], verifier=verifier)
    assert [check.outcome for check in own] == ["error", "wrong", "wrong"]
    assert own[0].reason.startswith("exit code 1: ValueError: ")


def test_a_last_line_with_a_value_is_a_measurement(tmp_path):
    value, text = "print('log'); print('{\"value\": 3.5}')", "print('3.5')"
    assert checks(tmp_path, [value])[0] == Check("p", 0, "measured", 3.5)
    assert checks(tmp_path, [value], threshold=3.5)[0] == Check("p", 0, "correct", 3.5)
    assert checks(tmp_path, [value], threshold=3.6)[0] == Check("p", 0, "wrong", 3.5)
    assert checks(tmp_path, [value], top=3)[0] == Check("p", 0, "measured", 3.5)
    for options in ({"threshold": 1.0}, {"top": 1}):
        reason = checks(tmp_path, [text], **options)[0].reason
        assert reason.startswith(
            f"exit code 0, but no value: with --{next(iter(options))} the last line of stdout must be"
        )
    assert checks(tmp_path, ["print('{\"value\": NaN}')"], top=1)[0].reason == "the value nan is not finite"


def test_a_check_that_takes_too_long_is_an_error(tmp_path):
    (late,) = checks(tmp_path, ["import time; time.sleep(600)"], timeout=0.5)
    assert (late.outcome, late.reason) == ("error", "no end within 0.5 s")


def test_no_text_of_a_pool_is_read_as_a_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "show.py").write_text(
        "import sys\nresponse, prompt, *words = sys.argv[1:]\n"
        "texts = [open(path, newline='').read() for path in (response, prompt)]\n"
        "sys.exit(texts + words != eval(open('expected').read()))"
    )
    (tmp_path / "expected").write_text(repr([HOSTILE, HOSTILE * 2, f"id={HOSTILE}", "0", "{x y}"]))
    verifier = f"{sys.executable} show.py {{response_file}} {{prompt_file}} id={{problem_id}} {{index}} '{{x y}}'"
    assert checks(tmp_path, [HOSTILE], HOSTILE, HOSTILE * 2, verifier=verifier) == [Check(HOSTILE, 0, "correct")]
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("true {respons_file}", "nothing is put in for {respons_file} (did you mean 'response_file'"),
        ("true response.txt", "say where the response goes"),
        ("sh -c 'true {index}", "No closing quotation"),
        ("cat {response_file} | grep 4", "no shell reads '|': write sh -c '...'"),
        ("cat {response_file}; true", "no shell reads ';'"),
        ("true {index} && true", "no shell reads '&&'"),
        ("true {index} 2>log", "no shell reads '>'"),
    ],
)
def test_a_command_that_cannot_check_a_response_is_refused(command, words):
    assert words in refusal_of(words_of, command, NAMES, OPTION)


def test_what_is_quoted_is_no_operator_of_a_shell():
    words = ["sh", "-c", "cat {response_file} | grep 4", "a;b", ">"]
    assert words_of("""sh -c 'cat {response_file} | grep 4' "a;b" \\>""", NAMES, OPTION) == words


# What a check may leave behind: the loop goes on, and every outcome is in the journal.

UNREADABLE = {
    "print('{\"value\": 1' + '0' * 400 + '}')": "a number of 401 digits is too large",
    "print('{\"value\": 1' + '0' * 5000 + '}')": "a number of 5001 digits is too large",
    "print('{\"value\": 1e999}')": "the value inf is not finite",
    "print('[' * 100_000)": "lists and objects are more than ",
    "print('{\"value\": ' + '[' * 200 + ']' * 200 + '}')": "lists and objects are more than ",
    'print(\'{"value": 1, "value": 2}\')': "the key 'value' is there twice",
}
SPOIL = """
import os, sys
path, how = sys.argv[1:]
for folder in (os.path.dirname(path), os.path.dirname(os.path.dirname(path))):
    for name in ("out", "err", "response.txt", "prompt.txt"):
        if folder != os.environ["TMPDIR"]:
            if os.path.lexists(f"{folder}/{name}"):
                os.unlink(f"{folder}/{name}")
            os.mkfifo(f"{folder}/{name}") if how == "fifo" else os.symlink("/dev/zero", f"{folder}/{name}")
"""
FLOOD = """
import os, sys
for _ in range(64):
    print("x" * 1_000_000)
    print("x" * 1_000_000, file=sys.stderr)
sizes = [os.path.getsize(f"{folder}/{name}") for folder, _, names in os.walk(os.environ["TMPDIR"]) for name in names]
sys.exit(sum(sizes) > 1_000_000)
"""


def verified(folder, responses, verifier, *options, timeout_s=300, before=lambda: None):
    """The outcomes of `harness verify` on one problem, by a program in check.py, and its stderr."""
    write_json_lines(folder / "pool.jsonl", [{"problem_id": "p", "responses": responses}])
    (folder / "tmp").mkdir(exist_ok=True)
    command = ("verify", "--pool", "pool.jsonl", "--selector", "in-order", "--verifier", verifier, "--budget", 99)
    environment = {**os.environ, "TMPDIR": str(folder / "tmp")}
    done = subprocess.run(
        harness_command(*command, *options),
        cwd=folder,
        env=environment,
        timeout=timeout_s,
        preexec_fn=before,
        capture_output=True,
        text=True,
        check=False,
    )
    return outcomes_in(folder / "verify.jsonl"), done.stderr


def test_a_last_line_that_cannot_be_read_is_an_error_of_that_check_alone(tmp_path):
    responses = [text for program in UNREADABLE for text in (program, "raise SystemExit(1)")]
    for _ in range(2):  # the second time there is nothing to check
        outcomes, err = verified(tmp_path, responses, RUN)
        assert [each[2] for each in outcomes] == ["error", "wrong"] * len(UNREADABLE), err
    reasons = [line for line in (tmp_path / "verify.jsonl").read_text().splitlines() if "reason" in line]
    assert [words for words, line in zip(UNREADABLE.values(), reasons, strict=True) if words not in line] == []


def test_a_last_line_that_is_no_json_says_nothing(tmp_path):
    responses = ["print({'accuracy': 1.0})", "print('[INFO] done')", "print('{')", "print('nan')", "print('[[1 2]]')"]
    for place, text in enumerate(responses):
        assert checks(tmp_path, [text])[0].outcome == "correct", place


@pytest.mark.parametrize("how", ["fifo", "zero"])
def test_files_that_a_check_replaces_hang_nothing(tmp_path, how):
    (tmp_path / "check.py").write_text(SPOIL)
    outcomes, err = verified(tmp_path, ["a"] * 3, f"python -S check.py {{response_file}} {how}", "--until", 9)
    assert [each[2] for each in outcomes] == ["correct"] * 3, err
    assert os.listdir(tmp_path / "tmp") == []


def test_what_a_check_prints_fills_no_disk(tmp_path):
    (tmp_path / "check.py").write_text(FLOOD)
    outcomes, err = verified(tmp_path, ["a"], "python -S check.py {response_file}")
    assert outcomes == [("p", 0, "correct")], err


def test_a_check_that_kills_what_runs_it_is_an_error_and_the_loop_goes_on(tmp_path):
    responses = ["import os; os.kill(os.getppid(), 9)", "raise SystemExit(1)", "import os; os.kill(os.getppid(), 15)"]
    outcomes, err = verified(tmp_path, [*responses, ""], RUN)
    assert [each[2] for each in outcomes] == ["error", "wrong", "error", "correct"], err
    assert os.listdir(tmp_path / "tmp") == []


@pytest.mark.parametrize("limit", [1000, 1001, 1030])
def test_a_journal_that_cannot_grow_keeps_whole_lines_and_goes_on_when_it_can(tmp_path, limit):
    def bounded():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    options = ("false {response_file}", "--workers", 2)
    _, err = verified(tmp_path, ["x"] * 20, *options, before=bounded)
    assert (
        "cannot be written (No space left on device): make room" in err or "cannot be written (File too large)" in err
    )
    assert (tmp_path / "verify.jsonl").read_bytes().endswith(b"}\n")
    outcomes, err = verified(tmp_path, ["x"] * 20, *options)
    assert sorted(each[1] for each in outcomes) == list(range(20)), err
