"""Which tier is used, what makes one unfit, and the interpreter in it."""

import os
import re
import sys
from pathlib import Path

import pytest
from support.processes import run_to_end
from support.refusals import refusal_of
from support.sandboxes import NINE_SIXTEEN, SQUARE, SQUARES, change_source

from harness_tasks.sandbox import Run, Sandbox, find_tier, tiers, worker


@pytest.fixture(autouse=True)
def _fresh_tiers():
    """What was found out about tiers is forgotten, before and after."""
    tiers._problem.cache_clear()
    yield
    tiers._problem.cache_clear()


def test_a_tier_that_is_asked_for_is_used_or_refused(monkeypatch, each_tier):
    monkeypatch.setenv("HARNESS_SANDBOX_TIER", each_tier.tier)
    tier, remark = find_tier(unsafe_exec=True)
    assert (tier, remark[:9], "\n" in remark) == (each_tier.tier, "sandbox: ", False)
    for unfit, message in (("chroot", "unknown tier 'chroot'"), ("none", "--unsafe-exec")):
        monkeypatch.setenv("HARNESS_SANDBOX_TIER", unfit)
        assert message in refusal_of(find_tier)


def test_where_no_tier_holds_programs_are_refused_with_the_reasons(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    tier, remark = find_tier(unsafe_exec=True)
    assert tier == ("none" if tiers._problem("landlock", None) else "landlock")
    assert "bubblewrap (bwrap) is not installed" in remark
    assert "'bwrap' does not hold here: bubblewrap" in refusal_of(Sandbox, tier="bwrap")
    change_source(monkeypatch, "confinement", "    if version < 1:", "    if version < 1000:")
    assert re.search(r"no bwrap: .*no landlock: .*no Landlock.*--unsafe-exec", refusal_of(find_tier))
    assert find_tier(unsafe_exec=True)[1].startswith("sandbox: NONE")
    tiers._problem.cache_clear()
    monkeypatch.setattr(sys, "platform", "darwin")
    assert "on Linux only, this is darwin" in refusal_of(find_tier, unsafe_exec=True)


@pytest.mark.parametrize(
    ("tier", "old", "new", "harm"),
    [
        ("landlock", 'settings["tier"] == "landlock"', 'settings["tier"] == "nothing"', "read a file outside"),
        ("landlock", "self.filter.install()", "pass", "opened a socket"),
        ("bwrap", "self.filter.install()", "pass", "opened a socket"),
        ("bwrap", 'suite["memory_bytes"]', "(1 << 40)", "took too much memory"),
    ],
)
def test_a_tier_with_a_missing_wall_is_refused(monkeypatch, tier, old, new, harm):
    if problem := tiers._problem(tier, None):
        pytest.skip(problem)
    change_source(monkeypatch, "inside", old, new)
    assert f"the tier '{tier}' does not hold here: a test program {harm}" in refusal_of(Sandbox, tier=tier)


def test_each_canary_does_harm_where_nothing_holds_it(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text(tiers.SECRET)
    canary = "{}\nimport sys\nprint(canary(sys.argv[1]), flush=True)"
    printed = {
        name: run_to_end([sys.executable, "-c", canary.format(code), secret], cwd=tmp_path).stdout
        for name, code in tiers.HARM.items()
    }
    Path("/tmp/canary").unlink(missing_ok=True)
    assert printed == dict.fromkeys(tiers.HARM, "True\n")


def test_what_goes_wrong_with_an_honest_program_or_cannot_be_confined_does_not_run(monkeypatch):
    for outcome in (Run("ok", ["i1"]), Run("killed", detail="SIGSYS")):
        with monkeypatch.context() as patch:
            patch.setattr(worker.Worker, "run", lambda self, suite, program, outcome=outcome: outcome)
            tiers._problem.cache_clear()
            ended = f"an honest test program ended as {outcome.status} {outcome.detail}"
            assert tiers._problem("none", None) == ended.strip()
    change_source(monkeypatch, "inside", "confinement.limit_resources(", "raise OSError; (")
    line = refusal_of(Sandbox, unsafe_exec=True)
    assert re.search(r"no bwrap: .*; no landlock: .*; no none: .* could not be set up", line)


def test_an_unknown_machine_is_not_confined_by_a_filter_for_another(monkeypatch):
    change_source(monkeypatch, "confinement", "seccomp_filter(os.uname().machine,", 'seccomp_filter("vax",')
    for tier in ("bwrap", "landlock"):
        line = refusal_of(Sandbox, tier=tier)
        assert re.search("no table of system calls|not installed|has no Landlock", line)
    with Sandbox(1, tier="none", unsafe_exec=True) as sandbox:
        assert sandbox.run_all(SQUARES, [SQUARE])[0].results == NINE_SIXTEEN


def test_an_interpreter_that_will_not_do_is_refused_in_one_line_and_without_numpy_its_import_fails(
    monkeypatch, tmp_path
):
    path, older = tmp_path / "python", "echo '[false, \"\", [], [], null]'"
    monkeypatch.setenv("HARNESS_SANDBOX_PYTHON", str(path))
    for script, message in ((None, "does not run"), ("exit 1", "does not run"), (older, "is older than Python 3.11")):
        if script:
            path.write_text(f"#!/bin/sh\n{script}\n")
            path.chmod(0o755)
        tiers._problem.cache_clear()
        assert message in refusal_of(Sandbox, unsafe_exec=True)
    base = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    path = path.with_name("bare")
    path.write_text(f'#!/bin/sh\nexec {base} -S "$@"\n')  # no site-packages, no numpy
    path.chmod(0o755)
    monkeypatch.setenv("HARNESS_SANDBOX_PYTHON", str(path))
    with Sandbox(1, unsafe_exec=True) as sandbox:
        assert sandbox.run_all(SQUARES, ["import numpy\n" + SQUARE])[0].detail == "ModuleNotFoundError"
