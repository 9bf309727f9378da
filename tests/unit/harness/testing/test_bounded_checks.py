"""`harness check` in a process of its own: a check that does not end is ended, says so, and stops no other."""

import io

import pytest

from harness.system.progress import Progress
from harness.testing import check_registered, checks

SELECTORS = """
import os, time
from harness import hookimpl

class Endless:
    def rank(self, pool, rng):
        while len(pool) > 300:
            pass
        yield from range(len(pool))

class Dies:
    def rank(self, pool, rng):
        if len(pool) == 1:
            os._exit(3)
        yield from range(len(pool))

class Hangs:
    def rank(self, pool, rng):
        while True:
            pass

@hookimpl
def register_selectors(register):
    for factory in (Endless, Dies, Hangs):
        register(factory.__name__.lower(), factory)
"""


@pytest.fixture
def checked(tmp_path):
    plugin = tmp_path / "selectors.py"
    plugin.write_text(SELECTORS)
    return lambda name, limit_s: check_registered("selector", name, plugin_files=[plugin], limit_s=limit_s)


@pytest.mark.slow
def test_a_check_that_does_not_end_is_a_failure_and_the_others_run(checked):
    rows = {row["check"]: row for row in checked("endless", 3.0)}
    assert list(rows) == [check.name for check in checks("selector")]
    late = [name for name, row in rows.items() if "took longer than 3 s and was ended" in row["what"]]
    assert late == ["time-budget", "memory-budget"]
    assert {rows[name]["outcome"] for name in late} == {"failed"}
    assert rows["same-in-another-process"]["outcome"] == "passed"
    assert {(row["kind"], row["name"]) for row in rows.values()} == {("selector", "endless")}


@pytest.mark.slow
def test_a_check_that_ends_its_process_is_a_failure_too(checked):
    rows = {row["check"]: row for row in checked("dies", 100.0)}
    assert "it ended the process that ran it" in rows["unusual-pools"]["what"]
    assert rows["picklable"]["outcome"] == "passed"


@pytest.mark.slow
def test_what_presumes_a_check_that_did_not_end_is_not_tried(checked, monkeypatch):
    rows = []
    for row in checked("hangs", 2.0):  # each as it ends
        rows.append(row)
        if row["outcome"] == "not applicable":
            break
    assert rows[0]["outcome"] == "failed"
    assert rows[-1]["what"].startswith("first fix what ")


@pytest.mark.slow
def test_the_check_that_takes_long_is_named(checked, monkeypatch):
    monkeypatch.setattr("harness.system.progress.LOOK_EVERY_S", 0.05)
    out = io.StringIO()
    with Progress(out).waiting("checking"):
        found = next(row for row in checked("endless", 4.0) if row["outcome"] == "failed" and "took" in row["what"])
    assert "selector endless, check time-budget ..." in out.getvalue()
    assert found["check"] == "time-budget"
