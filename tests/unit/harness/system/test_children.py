"""A child and all that descends from it ends with it; and whether a user's program judged or failed by itself."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.json_lines import read_json_lines, write_json_lines
from support.processes import descendants, wait_for, wait_until_ended
from support.refusals import error_line

from harness import HarnessError
from harness.system.children import Lost, Warden, Wardens, limited, run_child

# A child that starts a server in a session of its own, which starts another and ignores SIGTERM.
FAMILY = """
import os, signal, subprocess, sys, time
server = '''
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
inner = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print("pids", os.getpid(), inner.pid, flush=True)
time.sleep(600)
'''
child = subprocess.Popen([sys.executable, "-c", server], start_new_session=True)
print("pids", os.getpid(), child.pid, flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
sys.exit(3)
"""
END_S = 60.0  # a loaded machine takes long to end processes


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log"
    path.touch()
    return path


@pytest.fixture
def warden():
    warden = Warden()
    yield warden
    warden.close()


def pids(log):
    lines = [line.split()[1:] for line in log.read_text().splitlines() if line.startswith("pids")]
    return [int(pid) for line in lines for pid in line]


def test_a_late_call_is_ended_with_all_that_it_started_and_the_next_has_a_new_process(tmp_path):
    evaluated = lambda code, limit_s=100: limited(eval, code, limit_s)  # noqa: E731
    pid = evaluated("__import__('os').getpid()")
    assert pid != os.getpid()
    with pytest.raises(HarnessError, match="ZeroDivisionError: division by zero"):
        evaluated("1 / 0")
    assert evaluated("__import__('os').getpid()") == pid  # calls share a process
    started = "__import__('subprocess').Popen(['sleep', '1000']).pid"
    noted = f"open({str(tmp_path / 'pids')!r}, 'w').write(f\"{{__import__('os').getpid()}} {{{started}}}\")"
    with pytest.raises(TimeoutError):
        evaluated(f"{noted} and __import__('time').sleep(1000)", 2)
    wait_until_ended(map(int, (tmp_path / "pids").read_text().split()), END_S)
    with pytest.raises(EOFError):
        evaluated("__import__('os')._exit(1)")
    assert evaluated("[1, None]") == [1, None]


def test_what_a_child_leaves_running_is_ended_and_what_was_there_before_is_not(tmp_path, log, warden):
    stop = tmp_path / "stop"
    watch = lambda: stop.touch() if len(pids(log)) == 4 else None  # noqa: E731
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as other:
        assert run_child([sys.executable, "-c", FAMILY, stop], {}, log, watch, grace_s=0.5) == 3
        wait_until_ended(pids(log), END_S)
        assert other.poll() is None
        other.kill()
    command = [sys.executable, "-c", FAMILY, str(tmp_path / "never")]
    assert warden.run(command, log=log, limit_s=1.5, grace_s=0.5).status is None  # its time is up
    wait_until_ended(pids(log), END_S)


def test_the_status_of_a_child_is_returned_and_its_output_appended(log, warden):
    log.write_text("before\n")
    script = "import os, sys; print(os.environ['WORD'], flush=True); print('err', file=sys.stderr); sys.exit(7)"
    assert run_child([sys.executable, "-c", script], {"WORD": "given"}, log) == 7
    assert log.read_text() == "before\ngiven\nerr\n"
    ended = warden.run(["sh", "-c", "echo out; echo no >&2; exit 3"])
    assert (ended.status, ended.out, ended.err) == (3, "out\n", "no\n")
    assert warden.run(["sh", "-c", "kill -9 $$"]).status == -signal.SIGKILL
    out = warden.run(["sh", "-c", "head -c 9000000 /dev/zero; echo end"]).out
    assert (len(out), out[-5:]) == (1 << 20, "\0end\n")
    for command in (["no-such-program"], ["echo", "a\0b"]):
        with pytest.raises(OSError, match=r"No such file|null byte"):
            warden.run(command)
    assert warden.run(["true"]).status == 0


def test_wardens_are_kept_for_the_next_command_and_closed_together():
    wardens = Wardens()
    with wardens.one() as first, wardens.one() as other:
        assert (first.run(["true"]).status, other is first) == (0, False)
    with wardens.one() as again:
        assert again in (first, other)
        wardens.close()
        with pytest.raises(Lost):
            again.run(["true"])
    assert not first.folder.exists()


OWNER = """
import sys
from pathlib import Path
from harness.system import children
command = [sys.executable, "-c", sys.argv[1], sys.argv[2]]
print(children.run_child(command, {}, Path(sys.argv[3]), grace_s=0.5), flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_an_owner_that_is_killed_takes_the_child_and_its_family_along(tmp_path, log, number):
    line = [sys.executable, "-c", OWNER, FAMILY, tmp_path / "stop", log]
    with subprocess.Popen(line, stdout=subprocess.PIPE, env={**os.environ, "TMPDIR": str(tmp_path)}) as owner:
        try:
            wait_for(lambda: len(pids(log)) == 4 or owner.poll() is not None, what="the family")
            everyone = [*descendants(owner.pid), *pids(log)]
            words = Path(f"/proc/{everyone[0]}/cmdline").read_text().split("\0")
            [folder] = [Path(word) for word in words if "harness-" in word]
            assert folder.exists()
        finally:
            owner.send_signal(number)
    wait_until_ended(everyone, END_S)
    assert not folder.exists()


# `harness verify` and `own:grader=command` tell a judgement from a failed program, and miss a script beforehand.

PATH = "import sys; path = sys.argv[1]\n"
DATACLASS = "from dataclasses import dataclass\n@dataclass\nclass Dock:\n    site: str\n    def __post_init__(self):\n"
UNITTEST = "import sys, unittest; path = sys.argv.pop()\nclass T(unittest.TestCase):\n    def test(self):\n        "

# A program, which gets the response's file. The response is code that raises NameError.
ERRORS = [
    PATH + "float(path)",
    PATH + 'raise RuntimeError(f\'what is\\n  File "{path}", line 1, in <module>\\n  File "<string>", line 1, in f\')',
    PATH + DATACLASS + "        {}['licence']\nDock('a')",
    PATH + "try: exec(open(path).read())\nexcept NameError: open('/nowhere/log')",
    PATH + "raise RuntimeError('x' * 1_000_000)",
    "def f(:",
    "raise ExceptionGroup('two', [AssertionError('a'), KeyError('licence')])",
    UNITTEST + "import no_such_module\nunittest.main()",
]
WRONG = [
    "raise SystemExit(1)",
    "import sys; print('  File \"x\", line 1\\nValueError: 3', file=sys.stderr); sys.exit(1)",
    "try: 1 / 0\nexcept ZeroDivisionError: assert False, 'no number'",
    PATH + "exec(open(path).read())",
    PATH + "names = {}\nexec('def f(): return ' + open(path).read(), names)\nnames['f']()",
    PATH + "eval('1 +')",
    PATH + "import subprocess\nsys.exit(subprocess.run([sys.executable, path]).returncode)",
    UNITTEST + "exec(open(path).read())\nunittest.main()",
]
PROGRAMS = [program for pair in zip(ERRORS, WRONG, strict=True) for program in pair]  # never five errors

# Whole commands.
COMMANDS = {
    "{python} -c 'import no_such_module' {response_file}": "error",
    "{python} -c 'exec(open(__import__(\"sys\").argv[1]).read())' {response_file}": "wrong",
    "{python} -m no.such.module {response_file}": "error",
    "{python} {response_file}": "wrong",
    "sh -c 'grep -q 42 {response_file}'": "wrong",
    "sh -c 'no_such_program {response_file}'": "error",
    # No command that may run is refused before.
    "{python} -c pass {response_file} new.py": "correct",
    "{python} check_{index}.py {response_file} --out new.py": "correct",
}


@pytest.fixture
def verify(harness, tmp_path, monkeypatch):
    """Run `harness verify` in order on pool.jsonl; its outcome, and the outcomes in the journal."""
    monkeypatch.chdir(tmp_path)
    write_json_lines(tmp_path / "pool.jsonl", [{"problem_id": "p", "responses": ["undefined_name\n"] * 3}])

    def call(command, *options):
        fixed = ("--pool", "pool.jsonl", "--selector", "in-order", "--budget", 99, "--json")
        outcome, journal = harness("verify", "--verifier", command, *fixed, *options), Path("verify.jsonl")
        lines = read_json_lines(journal) if journal.exists() else []
        return outcome, [line["outcome"] for line in lines if "outcome" in line]

    return call


def test_an_exit_code_of_1_is_wrong_unless_the_program_failed_by_itself(verify, tmp_path):
    for place, program in enumerate(PROGRAMS):
        (tmp_path / f"check_{place}.py").write_text(program)
    lines = [{"problem_id": f"check_{place}.py", "responses": ["undefined_name\n"]} for place in range(len(PROGRAMS))]
    write_json_lines(tmp_path / "pool.jsonl", lines)
    _, outcomes = verify(f"{sys.executable} -S {{problem_id}} {{response_file}}")
    expected = ["error", "wrong"] * len(ERRORS)
    assert [program for program, was, due in zip(PROGRAMS, outcomes, expected, strict=True) if was != due] == []


def test_the_words_before_the_script_make_no_difference(verify, tmp_path):
    (tmp_path / "check_0.py").touch()
    wrong = {}
    for command, expected in COMMANDS.items():
        _, outcomes = verify(command.replace("{python}", f"{sys.executable} -S"), "--budget", 1)
        if outcomes != [expected]:
            wrong[command] = (tmp_path / "verify.jsonl").read_text()
        (tmp_path / "verify.jsonl").unlink()
    assert wrong == {}


@pytest.mark.parametrize("tier", ["bwrap", "none"])
def test_the_task_own_tells_the_same_apart(harness, tmp_path, monkeypatch, tier):
    if tier == "none":
        monkeypatch.setenv("HARNESS_SANDBOX_TIER", "none")
    elif os.system("bwrap --ro-bind / / true 2>/dev/null"):
        pytest.skip("bubblewrap does not work here")
    lines = [{"id": str(i), "prompt": f"Say {i}.", "reference": program} for i, program in enumerate(PROGRAMS[:12])]
    questions = write_json_lines(tmp_path / "questions.jsonl", lines)
    pool = [{"problem_id": each["id"], "responses": ["undefined_name\n"]} for each in lines]
    command = f"{sys.executable} -S {{reference_file}} {{response_file}}"
    task = ("--task", f"own:file={questions},grader=command,command='{command}'", "--unsafe-exec")
    pool = ("--pool", write_json_lines(tmp_path / "pool.jsonl", pool), "--store", tmp_path / "runs")
    [row] = harness("run", *task, *pool, "--selector", "uniform", "--json").rows
    assert (row["problems"], row["errors"], row["solvable"]) == (12, 6, 0)


def test_a_program_or_script_that_is_not_there_costs_no_call(verify, tmp_path):
    (tmp_path / "check.py").touch()
    for command, words in (
        ("python chek.py {response_file}", "there is no file 'chek.py' in "),
        ("./check.py {response_file}", "there is no program './check.py': give its path"),
    ):
        outcome, outcomes = verify(command)
        assert (words in error_line(outcome), outcomes) == (True, [])
