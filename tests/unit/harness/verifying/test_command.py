"""What a user's command gets, and what its end says about a response."""

import os
import resource
import subprocess
import sys

import pytest
from support.json_lines import write_json_lines
from support.processes import harness_command
from support.refusals import wrongly_refused
from support.searches import config_of
from support.verifying import outcomes_in

from harness.jobs.selection import Candidates
from harness.pools.record import PoolRecord
from harness.records import Problem
from harness.system.children import words_of
from harness.verifying.journal import Check
from harness.verifying.verifiers import NAMES, OPTION, CommandVerifier

# The response is the program's own text: what it prints and how it ends.
RUN = f"{sys.executable} -S {{response_file}}"
HOSTILE = 'it\'s "$(touch owned)"; `touch owned` {index} \\ \n\u00e9\U0001f600'


@pytest.fixture
def checks(tmp_path):
    """Check these responses of one problem by a command."""

    def call(*texts, problem_id="p", prompt="", **options):
        write_json_lines(tmp_path / "pool.jsonl", [{"problem_id": problem_id, "prompt": prompt, "responses": texts}])
        candidates = Candidates(Problem(problem_id, prompt), PoolRecord(problem_id, list(texts)).as_responses())
        with CommandVerifier(config_of(tmp_path, **{"verifier": RUN} | options)) as verify_one:
            return [verify_one(candidates, index) for index in range(len(texts))]

    return call


def test_the_exit_code_is_the_outcome_unless_the_program_failed_or_took_too_long(checks, tmp_path):
    texts = ["", "raise SystemExit(1)", "raise SystemExit(2)", "import os; os.kill(os.getpid(), 9)"]
    late = checks("import time; time.sleep(600)", timeout=1.0)
    shown = [(check.outcome, check.reason) for check in checks(*texts) + late]
    assert shown[:2] == [("correct", ""), ("wrong", "")]
    assert shown[2:] == [("error", why) for why in ("exit code 2", "ended by signal 9", "no end within 1 s")]
    (tmp_path / "check.py").write_text("import runpy, sys\nrunpy.run_path(sys.argv[1])\nint('x')\n")
    own = checks("", "1 / 0", "print('{'", verifier=f"{sys.executable} {tmp_path / 'check.py'} {{response_file}}")
    assert [check.outcome for check in own] == ["error", "wrong", "wrong"]
    assert own[0].reason.startswith("exit code 1: ValueError: ")


def test_a_last_line_with_a_value_is_a_measurement_and_one_that_is_no_json_says_nothing(checks):
    value = "print('log'); print('{\"value\": 3.5}')"
    for options, outcome in (({}, "measured"), ({"threshold": 3.5}, "correct"), ({"threshold": 3.6}, "wrong")):
        assert checks(value, **options) == [Check("p", 0, outcome, 3.5)]
    [check] = checks("print('3.5')", threshold=1.0)
    assert check.reason.startswith("exit code 0, but no value: with --threshold the last line of stdout must be")
    assert checks("print('{\"value\": NaN}')", top=1)[0].reason == "the value nan is not finite"
    texts = ["print({'accuracy': 1.0})", "print('[INFO] done')", "print('{')", "print('nan')", "print('[[1 2]]')"]
    assert {check.outcome for check in checks(*texts)} == {"correct"}


def test_no_text_of_a_pool_is_read_as_a_command(checks, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "show.py").write_text(
        "import sys\nresponse, prompt, *words = sys.argv[1:]\n"
        "texts = [open(path, newline='').read() for path in (response, prompt)]\n"
        "sys.exit(texts + words != eval(open('expected').read()))"
    )
    (tmp_path / "expected").write_text(repr([HOSTILE, HOSTILE * 2, f"id={HOSTILE}", "0", "{x y}"]))
    verifier = f"{sys.executable} show.py {{response_file}} {{prompt_file}} id={{problem_id}} {{index}} '{{x y}}'"
    right = Check(HOSTILE, 0, "correct")
    assert checks(HOSTILE, problem_id=HOSTILE, prompt=HOSTILE * 2, verifier=verifier) == [right]
    assert not (tmp_path / "owned").exists()


REFUSED = [
    ("true {respons_file}", "nothing is put in for {respons_file} (did you mean 'response_file'"),
    ("true response.txt", "say where the response goes"),
    ("sh -c 'true {index}", "No closing quotation"),
    ("cat {response_file} | grep 4", "no shell reads '|': write sh -c '...'"),
    ("cat {response_file}; true", "no shell reads ';'"),
    ("true {index} && true", "no shell reads '&&'"),
    ("true {index} 2>log", "no shell reads '>'"),
]


def test_a_command_that_cannot_check_a_response_is_refused_and_what_is_quoted_is_no_operator():
    assert wrongly_refused(REFUSED, lambda command: words_of(command, NAMES, OPTION)) == []
    words = ["sh", "-c", "cat {response_file} | grep 4", "a;b", ">"]
    assert words_of("""sh -c 'cat {response_file} | grep 4' "a;b" \\>""", NAMES, OPTION) == words


# What a check may leave behind: the loop goes on, and every outcome is in the journal.

UNREADABLE = {
    "print('{\"value\": 1' + '0' * 5000 + '}')": "a number of 5001 digits is too large",
    "print('{\"value\": 1e999}')": "the value inf is not finite",
    "print('[' * 100_000)": "lists and objects are more than ",
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


@pytest.fixture
def verified(tmp_path):
    """The outcomes of `harness verify` on one problem, and its stderr."""

    def call(responses, verifier, *options, before=lambda: None):
        write_json_lines(tmp_path / "pool.jsonl", [{"problem_id": "p", "responses": responses}])
        (tmp_path / "tmp").mkdir(exist_ok=True)
        command = ("verify", "--pool", "pool.jsonl", "--selector", "in-order", "--verifier", verifier, "--budget", 99)
        done = subprocess.run(
            harness_command(*command, *options),
            cwd=tmp_path,
            env={**os.environ, "TMPDIR": str(tmp_path / "tmp")},
            timeout=300,
            preexec_fn=before,
            capture_output=True,
            text=True,
            check=False,
        )
        return outcomes_in(tmp_path / "verify.jsonl"), done.stderr

    return call


def test_checks_that_kill_what_runs_them_print_what_cannot_be_read_or_too_much_are_errors_alone(verified, tmp_path):
    killers = [f"import os; os.kill(os.getppid(), {number})" for number in (9, 15)]
    responses = [text for program in (*UNREADABLE, *killers) for text in (program, "raise SystemExit(1)")]
    outcomes, err = verified([*responses, FLOOD], RUN)
    assert [each[2] for each in outcomes] == [*["error", "wrong"] * (len(UNREADABLE) + 2), "correct"], err
    reasons = [line for line in (tmp_path / "verify.jsonl").read_text().splitlines() if "reason" in line]
    assert [words for words, line in zip(UNREADABLE.values(), reasons, strict=False) if words not in line] == []
    assert os.listdir(tmp_path / "tmp") == []


@pytest.mark.parametrize("how", ["fifo", "zero"])
def test_files_that_a_check_replaces_hang_nothing(verified, tmp_path, how):
    (tmp_path / "check.py").write_text(SPOIL)
    outcomes, err = verified(["a"] * 3, f"python -S check.py {{response_file}} {how}", "--until", 9)
    assert [each[2] for each in outcomes] == ["correct"] * 3, err
    assert os.listdir(tmp_path / "tmp") == []


def test_a_journal_that_cannot_grow_keeps_whole_lines_and_goes_on_when_it_can(verified, tmp_path):
    def bounded():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1001, 1001))

    options = ("false {response_file}", "--workers", 2)
    _, err = verified(["x"] * 20, *options, before=bounded)
    reasons = ("No space left on device", "File too large")
    assert any(f"cannot be written ({reason}): make room" in err for reason in reasons), err
    assert (tmp_path / "verify.jsonl").read_bytes().endswith(b"}\n")
    outcomes, err = verified(["x"] * 20, *options)
    assert sorted(each[1] for each in outcomes) == list(range(20)), err
