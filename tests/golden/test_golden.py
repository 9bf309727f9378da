"""What the code does is what it did: `support/golden.py` says what is run, `make.py` makes the files anew."""

from __future__ import annotations

import pytest
from support import golden
from support.golden import CASES, CONTINUED, SHARED, differences, machine, read
from support.processes import harness_command, kill_when
from threadpoolctl import threadpool_limits

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def compare(tmp_path, monkeypatch, harness):
    """Run a case in this process: AssertionError with a line for each difference.

    Skipped where it needs what is not here, and where it differs on another kind of machine than its file was made on.
    """

    def in_this_process(folder, arguments):
        monkeypatch.chdir(folder)
        outcome = harness(*arguments)
        return outcome.code, outcome.out, outcome.err

    def call(case):
        if case.needs == "shared" and not SHARED.is_dir():
            pytest.skip("needs shared/data beside the project")
        if case.needs == "smollm2":
            from harness.errors import Lacking
            from harness_plugins.models import smollm2

            try:
                smollm2.fetched()
            except Lacking as lacking:
                pytest.skip(str(lacking))
        for name, value in golden.ENVIRONMENT.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(golden, "command", in_this_process)
        made_on, expected = read(case)
        with threadpool_limits(1):
            lines = differences(expected, case.records(tmp_path))
        if lines and not made_on.items() <= machine().items():
            pytest.skip(f"{len(lines)} of {len(expected)} records differ, but {made_on} made them, not {machine()}")
        assert not lines, "\n  ".join([f"{case.path.name}: {len(lines)} differences:", *lines[:20]])

    return call


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=name, marks=[pytest.mark.slow] * case.slow)
        for name, case in CASES.items()
        if name != "continued"
    ],
)
def test_problems_come_out_as_before(case, compare):
    compare(case)


@pytest.mark.slow
def test_a_run_that_was_killed_comes_out_as_one_that_was_not(compare, tmp_path):
    def some_files():
        return sum(path.is_file() and path.suffix != ".json" for path in (tmp_path / "runs").rglob("*")) > 9

    begun = harness_command("run", "--yes", "--store", tmp_path / "runs", *CONTINUED)
    kill_when(some_files, begun, env=golden.ENVIRONMENT)
    compare(CASES["continued"])
