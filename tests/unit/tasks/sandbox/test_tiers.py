"""Which tier is used, what makes one unfit, and the interpreter in it."""

import os
import re
import sys
from pathlib import Path

import pytest
from support.processes import run_to_end
from support.sandboxes import NINE_SIXTEEN, SQUARE, SQUARES, change_source, results

from harness import HarnessError
from harness_tasks.sandbox import Run, Sandbox, find_tier, tiers, worker


def test_a_tier_that_is_asked_for_is_used_or_refused(monkeypatch, each_tier):
    monkeypatch.setenv("HARNESS_SANDBOX_TIER", each_tier.tier)
    tier, remark = find_tier(unsafe_exec=True)
    assert tier == each_tier.tier
    assert remark.startswith("sandbox: ")
    assert "\n" not in remark
    for unfit, message in (("chroot", "unknown tier 'chroot'"), ("none", "--unsafe-exec")):
        monkeypatch.setenv("HARNESS_SANDBOX_TIER", unfit)
        with pytest.raises(HarnessError, match=message):
            find_tier()


def test_without_bubblewrap_the_next_tier_is_used_and_says_why(monkeypatch, tmp_path, fresh_tiers):
    monkeypatch.setenv("PATH", str(tmp_path))
    tier, remark = find_tier(unsafe_exec=True)
    assert tier == ("none" if tiers._problem("landlock", None) else "landlock")
    assert "bubblewrap (bwrap) is not installed" in remark
    with pytest.raises(HarnessError, match="'bwrap' does not hold here: bubblewrap"):
        Sandbox(tier="bwrap")


def test_where_no_tier_holds_programs_are_refused_with_the_reasons(monkeypatch, tmp_path, fresh_tiers):
    monkeypatch.setenv("PATH", str(tmp_path))
    change_source(monkeypatch, "confinement", ("    if version < 1:", "    if version < 1000:"))
    with pytest.raises(HarnessError, match=r"no bwrap: .*no landlock: .*no Landlock.*--unsafe-exec") as refusal:
        find_tier()
    assert "\n" not in str(refusal.value)
    assert find_tier(unsafe_exec=True)[1].startswith("sandbox: NONE")


def test_programs_run_on_linux_only(monkeypatch, fresh_tiers):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(HarnessError, match="on Linux only, this is darwin"):
        find_tier(unsafe_exec=True)


@pytest.mark.parametrize(
    ("tier", "old", "new", "harm"),
    [
        ("landlock", 'settings["tier"] == "landlock"', 'settings["tier"] == "nothing"', "read a file outside"),
        ("landlock", "self.filter.install()", "pass", "opened a socket"),
        ("bwrap", "self.filter.install()", "pass", "opened a socket"),
        ("bwrap", 'suite["memory_bytes"]', "(1 << 40)", "took too much memory"),
    ],
)
def test_a_tier_with_a_missing_wall_is_refused(monkeypatch, fresh_tiers, tier, old, new, harm):
    if problem := tiers._problem(tier, None):
        pytest.skip(problem)
    change_source(monkeypatch, "inside", (old, new))
    with pytest.raises(HarnessError, match=f"the tier '{tier}' does not hold here: a test program {harm}"):
        Sandbox(tier=tier)


def test_under_bubblewrap_every_file_system_is_read_only():
    if problem := tiers._problem("bwrap", None):
        pytest.skip(problem)
    program = "def solve(x): return [line.split()[4:6] for line in open('/proc/self/mountinfo')]"
    with Sandbox(1, tier="bwrap") as sandbox:
        mounts = re.findall(r'\[s"([^"]*)",s"([^"]*)"\]', results(sandbox, program, 1).results[0])
    assert "/usr/lib" in dict(mounts)
    writable = [place for place, options in mounts if "ro" not in options.split(",")]
    assert [place for place in writable if not place.startswith(("/proc", "/dev/"))] == []


def test_each_canary_does_harm_where_nothing_holds_it(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text(tiers.SECRET)
    canary = "{}\nimport sys\nprint(canary(sys.argv[1]), flush=True)"
    printed = {
        name: run_to_end([sys.executable, "-S", "-c", canary.format(code), secret], cwd=tmp_path).stdout
        for name, code in tiers.HARM.items()
    }
    Path("/tmp/canary").unlink(missing_ok=True)
    assert printed == dict.fromkeys(tiers.HARM, "True\n")


def test_an_honest_program_that_goes_wrong_makes_a_tier_unfit(monkeypatch, fresh_tiers):
    for outcome in (Run("ok", ["i1"]), Run("killed", detail="SIGSYS"), Run("ok")):
        monkeypatch.setattr(worker.Worker, "run", lambda self, suite, program, outcome=outcome: outcome)
        tiers._problem.cache_clear()
        assert (
            tiers._problem("none", None) == f"an honest test program ended as {outcome.status} {outcome.detail}".strip()
        )


def test_what_cannot_be_confined_does_not_run(monkeypatch, fresh_tiers):
    change_source(monkeypatch, "inside", ("confinement.limit_resources(", "raise OSError; ("))
    with pytest.raises(HarnessError, match=r"no bwrap: .*; no landlock: .*; no none: .* could not be set up"):
        Sandbox(unsafe_exec=True)


def test_an_unknown_machine_is_not_confined_by_a_filter_for_another(monkeypatch, fresh_tiers):
    change_source(monkeypatch, "confinement", ("seccomp_filter(os.uname().machine,", 'seccomp_filter("vax",'))
    for tier in ("bwrap", "landlock"):
        with pytest.raises(HarnessError, match=r"no table of system calls|not installed|has no Landlock"):
            Sandbox(tier=tier)
    with Sandbox(1, tier="none", unsafe_exec=True) as sandbox:
        assert sandbox.run_all(SQUARES, [SQUARE])[0].results == NINE_SIXTEEN


# Interpreters


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (None, "does not run"),
        ("exit 1", "does not run"),
        ("echo '[false, \"\", [], [], null]'", "is older than Python 3.11"),
    ],
)
def test_an_interpreter_that_will_not_do_is_refused_in_one_line(monkeypatch, tmp_path, script, message):
    path = tmp_path / "python"
    if script is not None:
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
    monkeypatch.setenv("HARNESS_SANDBOX_PYTHON", str(path))
    with pytest.raises(HarnessError, match=message) as refusal:
        Sandbox(unsafe_exec=True)
    assert "\n" not in str(refusal.value)


def test_without_numpy_programs_that_import_it_just_fail(monkeypatch, tmp_path):
    other = tmp_path / "python"  # an interpreter of its own: no site-packages, no numpy
    base = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    other.write_text(f'#!/bin/sh\nexec {base} -S "$@"\n')
    other.chmod(0o755)
    monkeypatch.setenv("HARNESS_SANDBOX_PYTHON", str(other))
    with Sandbox(1, unsafe_exec=True) as sandbox:
        assert sandbox.run_all(SQUARES, ["import numpy\n" + SQUARE])[0].detail == "ModuleNotFoundError"


def test_of_library_folders_only_the_outermost_outside_the_systems_are_named(tmp_path):
    (tmp_path / "lib" / "inner").mkdir(parents=True)
    (tmp_path / "lib64").symlink_to("lib")
    (tmp_path / "library").mkdir()
    mapped = [str(tmp_path / "lib" / "inner" / "a.so"), str(tmp_path / "library" / "b.so"), "/usr/lib/c.so"]
    folders = list(tiers._library_folders([str(tmp_path), str(tmp_path / "missing")], mapped))
    assert folders == [str(tmp_path / "lib"), str(tmp_path / "library")]
