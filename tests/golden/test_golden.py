"""What the code does is what it did: `support/golden.py` says what is run, `make.py` makes the files anew."""

from __future__ import annotations

import pytest
from support import golden
from support.golden import CASES, SHARED, continued_options, differences, machine, read
from support.processes import harness_command, kill_when
from threadpoolctl import threadpool_limits

FAST = [pytest.param(case, id=name) for name, case in CASES.items() if not case.slow]
SLOW = [pytest.param(case, id=name) for name, case in CASES.items() if case.slow]


def compare(case, records):
    """AssertionError with a line for each difference; skipped on another kind of machine than the file was made on."""
    made_on, expected = read(case)
    lines = differences(expected, records)
    if lines and not made_on.items() <= machine().items():
        pytest.skip(f"{len(lines)} of {len(expected)} records differ, but {made_on} made them, and this is {machine()}")
    shown = "\n  ".join(lines[:20])
    assert not lines, f"{case.path.name}: {len(lines)} differences from {len(expected)} records:\n  {shown}"


def check_needs(case):
    if case.needs == "shared" and not SHARED.is_dir():
        pytest.skip("needs shared/data beside the project")
    if case.needs == "smollm2":
        from harness.errors import Lacking
        from harness_plugins.models import smollm2

        try:
            smollm2.fetched()
        except Lacking as lacking:
            pytest.skip(str(lacking))


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("case", FAST)
def test_a_few_problems_come_out_as_before(case, tmp_path, monkeypatch, harness):
    def in_this_process(folder, arguments):
        monkeypatch.chdir(folder)
        outcome = harness(*arguments)
        return outcome.code, outcome.out, outcome.err

    monkeypatch.setattr(golden, "command", in_this_process)
    with threadpool_limits(1):
        compare(case, case.records(tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("case", SLOW)
def test_problems_come_out_as_before(case, tmp_path):
    check_needs(case)
    compare(case, case.records(tmp_path))


@pytest.mark.slow
def test_a_run_that_was_killed_comes_out_as_one_that_was_not(tmp_path):
    store = tmp_path / "runs"

    def some_files():
        return sum(path.is_file() and path.suffix != ".json" for path in store.rglob("*")) > 9

    begun = harness_command("run", "--yes", "--store", store, *continued_options())
    kill_when(some_files, begun, env=golden.ENVIRONMENT)
    compare(CASES["continued"], CASES["continued"].records(tmp_path))
