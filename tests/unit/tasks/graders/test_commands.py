"""A program of the user's as a grader: its exit code, what it may do, and what is said where it cannot run."""

import os
import shutil
import sys

import pytest
from support.refusals import refusal_of, wrongly_refused

from harness_tasks.graders import commands
from harness_tasks.own import Own

TEXTS = {"response": "é 1\n", "reference": '{"a": 1}', "prompt": "Say é"}


@pytest.fixture(params=["bwrap", "none"])
def graded(request, tmp_path, monkeypatch):
    """The verdict of a Python program, whose arguments are the response's, the reference's and the prompt's file."""
    if request.param == "none":
        monkeypatch.setenv(commands.TIER, "none")
        monkeypatch.setenv(commands.UNSAFE_EXEC, "1")
    elif commands._fault():
        pytest.skip(commands._fault())
    monkeypatch.chdir(tmp_path)

    def call(source, timeout_s=60.0):
        (tmp_path / "check.py").write_text(source)
        command = f"{sys.executable} check.py {{response_file}} {{reference_file}} {{prompt_file}}"
        return commands.run(command, TEXTS, timeout_s)

    return call


def test_the_exit_code_is_the_verdict_the_files_hold_the_texts_and_much_output_is_cut(graded):
    source = f"import sys\nassert [open(name).read() for name in sys.argv[1:]] == {[*TEXTS.values()]!r}\n"
    verdicts = [graded(source + f"print('so it is', file=sys.stderr)\nsys.exit({code})") for code in (0, 1, 2)]
    assert [verdict.status for verdict in verdicts] == ["correct", "wrong", "error"]
    assert [verdict.reason for verdict in verdicts] == ["", "so it is", "the command ended with exit code 2: so it is"]
    assert graded("import sys\nfor _ in range(200): sys.stderr.write('x' * 10_000)\nsys.exit(1)").reason == "x" * 2000


def test_what_fails_itself_is_no_verdict_on_the_response(graded, tmp_path):
    verdict = graded("import nothing_of_this_name")
    assert (verdict.status, verdict.reason[-21:]) == ("error", "nothing_of_this_name'")
    (tmp_path / "check").write_text("#!/no/such/interpreter\n")
    (tmp_path / "check").chmod(0o755)
    verdict = commands.run(f"{tmp_path}/check {{response_file}}", TEXTS, 60.0)
    assert (verdict.status, "No such file or directory" in verdict.reason) == ("error", True)


def test_a_program_that_does_not_end_is_ended_with_its_children_and_the_response_is_wrong(graded):
    source = "import subprocess, sys, time\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(999)'])\n"
    verdict = graded(source + "time.sleep(999)", timeout_s=1.0)
    assert (verdict.status, verdict.reason) == ("wrong", "timeout (1 s)")


CONFINED = """
import os, socket, tempfile
open(tempfile.gettempdir() + '/scratch', 'w').write('x')
for attempt in (lambda: open('mine', 'w'), lambda: os.kill(os.getppid(), 0) or os.listdir('/proc/%d')):
    try: attempt()
    except OSError: pass
    else: raise SystemExit(3)
try: socket.create_connection(('127.0.0.1', 9), 1)
except OSError: pass
else: raise SystemExit(4)
"""


@pytest.mark.parametrize("graded", ["bwrap"], indirect=True)
def test_in_the_sandbox_it_has_no_network_and_writes_to_tmpdir_only(graded, tmp_path):
    assert graded(CONFINED % os.getpid()).status == "correct"
    assert not (tmp_path / "mine").exists()


def test_a_command_that_cannot_run_is_refused_in_one_line_and_without_a_sandbox_the_user_has_to_allow_it(monkeypatch):
    reference = "nothing is put in for {reference} (did you mean 'reference_file'"
    faults = [
        ("python check.py {reference_file}", "say where the response goes"),
        ("python 'check.py {response_file}", "No closing quotation"),
        ("check {response_file} --gold={reference}", reference),
    ]
    assert not wrongly_refused(faults, lambda command: Own(file="f", grader="command", command=command))
    commands._fault.cache_clear()
    monkeypatch.setattr(shutil, "which", lambda program: None)
    line = refusal_of(commands.tier, False)
    assert line.startswith("own: nothing here confines the command (bubblewrap (bwrap) is not installed)")
    assert commands.tier(True)[0] == "none"
    assert "NONE (bubblewrap (bwrap) is not installed)" in commands.tier(True)[1]
    commands._fault.cache_clear()
