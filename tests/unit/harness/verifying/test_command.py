"""What a user's command gets, and what its end says about a response."""

import sys

import pytest
from support.json_lines import write_json_lines
from support.refusals import refusal_of
from support.searches import config_of

from harness.records import Problem
from harness.running.candidates import Candidates
from harness.verifying.check import Check
from harness.verifying.command import CommandVerifier, words_of

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
        ("no-such-program {index}", "there is no program 'no-such-program'"),
        ("sh -c 'true {index}", "No closing quotation"),
        ("cat {response_file} | grep 4", "no shell reads '|': write sh -c '...'"),
        ("cat {response_file}; true", "no shell reads ';'"),
        ("true {index} && true", "no shell reads '&&'"),
        ("true {index} 2>log", "no shell reads '>'"),
    ],
)
def test_a_command_that_cannot_check_a_response_is_refused(command, words):
    assert words in refusal_of(words_of, command)


def test_what_is_quoted_is_no_operator_of_a_shell():
    words = ["sh", "-c", "cat {response_file} | grep 4", "a;b", ">"]
    assert words_of("""sh -c 'cat {response_file} | grep 4' "a;b" \\>""") == words
