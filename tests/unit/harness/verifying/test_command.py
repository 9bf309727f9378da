"""What a user's command gets, and what its end says about a response."""

import os
import resource
import sys

import pytest
from support.json_lines import read_json_lines, write_json_lines
from support.processes import harness_command, run_to_end
from support.refusals import wrongly_refused

from harness.system.children import words_of
from harness.verifying.verifiers import NAMES, OPTION

# The response is the program's own text: what it prints and how it ends.
RUN = f"{sys.executable} -S {{response_file}}"
HOSTILE = 'it\'s "$(touch owned)"; `touch owned` {index} \\ \n\u00e9\U0001f600'


@pytest.fixture
def verify(harness, tmp_path, monkeypatch):
    """The lines of outcomes that `harness verify` writes for one problem, and its stderr; `before`: run in a child."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)

    def call(responses, *options, verifier=RUN, problem_id="p", prompt="", before=None):
        line = {"problem_id": problem_id, "prompt": prompt, "responses": responses}
        write_json_lines(tmp_path / "pool.jsonl", [line])
        command = ("verify", "--pool", "pool.jsonl", "--selector", "in-order", "--verifier", verifier, "--budget", 99)
        command += ("--until", 99, *options)
        err = run_to_end(harness_command(*command), preexec_fn=before).stderr if before else harness(*command).err
        assert os.listdir(tmp_path / "tmp") == []
        return [line for line in read_json_lines(tmp_path / "verify.jsonl") if "outcome" in line], err

    return call


ENDS = [
    ("", "correct", ""),
    ("raise SystemExit(1)", "wrong", ""),
    ("raise SystemExit(2)", "error", "exit code 2"),
    ("import os; os.kill(os.getpid(), 9)", "error", "ended by signal 9"),
    ("print('{\"value\": NaN}')", "error", "the value nan is not finite"),
    *((text, "correct", "") for text in ("print({'accuracy': 1.0})", "print('{')", "print('[[1 2]]')")),  # no JSON
]
VALUE = "print('log'); print('{\"value\": 3.5}')"


def test_the_exit_code_is_the_outcome(verify):
    lines, err = verify([text for text, *_ in ENDS])
    assert [(line["outcome"], line.get("reason", "")) for line in lines] == [(end, why) for _, end, why in ENDS], err


def test_with_a_threshold_a_value_is_judged_and_its_lack_is_an_error_as_is_what_takes_too_long(verify):
    texts = [VALUE, "print('{\"value\": 3.4}')", "print('3.5')", "import time; time.sleep(600)"]
    lines, err = verify(texts, "--threshold", 3.5, "--timeout", 2)
    assert [line["outcome"] for line in lines] == ["correct", "wrong", "error", "error"], err
    assert lines[2]["reason"].startswith("exit code 0, but no value: with --threshold the last line of stdout must be")
    assert lines[3]["reason"] == "no end within 2 s"


def test_no_text_of_a_pool_is_read_as_a_command(verify, tmp_path):
    (tmp_path / "show.py").write_text(
        "import sys\nresponse, prompt, *words = sys.argv[1:]\n"
        "texts = [open(path, newline='').read() for path in (response, prompt)]\n"
        "sys.exit(texts + words != eval(open('expected').read()))"
    )
    (tmp_path / "expected").write_text(repr([HOSTILE, HOSTILE * 2, f"id={HOSTILE}", "0", "{x y}"]))
    verifier = f"{sys.executable} show.py {{response_file}} {{prompt_file}} id={{problem_id}} {{index}} '{{x y}}'"
    [line], err = verify([HOSTILE], verifier=verifier, problem_id=HOSTILE, prompt=HOSTILE * 2)
    assert line["outcome"] == "correct", err
    assert not (tmp_path / "owned").exists()


REFUSED = [
    ("true {respons_file}", "nothing is put in for {respons_file} (did you mean 'response_file'"),
    ("true response.txt", "say where the response goes"),
    ("sh -c 'true {index}", "No closing quotation"),
    ("cat {response_file} | grep 4", "no shell reads '|': write sh -c '...'"),
    ("true {index} 2>log", "no shell reads '>'"),
]


def test_a_command_that_cannot_check_a_response_is_refused_and_what_is_quoted_is_no_operator():
    assert not wrongly_refused(REFUSED, lambda command: words_of(command, NAMES, OPTION))
    words = ["sh", "-c", "cat {response_file} | grep 4", "a;b", ">"]
    assert words_of("""sh -c 'cat {response_file} | grep 4' "a;b" \\>""", NAMES, OPTION) == words


# What a check may leave behind: the loop goes on, and every outcome is in the journal.

UNREADABLE = {
    "print('{\"value\": 1' + '0' * 5000 + '}')": "a number of 5001 digits is too large",
    "print('{\"value\": 1e999}')": "the value inf is not finite",
    "print('[' * 100_000)": "lists and objects are more than ",
    'print(\'{"value": 1, "value": 2}\')': "the key 'value' is there twice",
    **{f"import os; os.kill(os.getppid(), {number})": "" for number in (9, 15)},
}
FLOOD = """
import os, sys
for _ in range(32):
    print("x" * 1_000_000)
    print("x" * 1_000_000, file=sys.stderr)
sizes = [os.path.getsize(f"{folder}/{name}") for folder, _, names in os.walk(os.environ["TMPDIR"]) for name in names]
sys.exit(sum(sizes) > 1_000_000)
"""
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


def test_checks_that_kill_what_runs_them_print_what_cannot_be_read_or_too_much_are_errors_alone(verify):
    responses = [text for program in UNREADABLE for text in (program, "raise SystemExit(1)")]
    lines, err = verify([*responses, FLOOD], before=os.getpid)
    assert [line["outcome"] for line in lines] == [*["error", "wrong"] * len(UNREADABLE), "correct"], err
    reasons = [line["reason"] for line in lines if line["outcome"] == "error"]
    assert [words for words, reason in zip(UNREADABLE.values(), reasons, strict=True) if words not in reason] == []


@pytest.mark.parametrize("how", ["fifo", "zero"])
def test_files_that_a_check_replaces_hang_nothing(verify, tmp_path, how):
    (tmp_path / "check.py").write_text(SPOIL)
    lines, err = verify(["a", "a"], verifier=f"python -S check.py {{response_file}} {how}")
    assert [line["outcome"] for line in lines] == ["correct"] * 2, err


def test_a_journal_that_cannot_grow_keeps_whole_lines_and_goes_on_when_it_can(verify, tmp_path):
    bounded = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (801, 801))  # noqa: E731
    options = {"verifier": "false {response_file}"}
    _, err = verify(["x"] * 10, "--workers", 2, before=bounded, **options)
    reasons = ("No space left on device", "File too large")
    assert any(f"cannot be written ({reason}): make room" in err for reason in reasons), err
    assert (tmp_path / "verify.jsonl").read_bytes().endswith(b"}\n")
    lines, err = verify(["x"] * 10, "--workers", 2, **options)
    assert sorted(line["index"] for line in lines) == list(range(10)), err
