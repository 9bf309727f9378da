"""`harness gpu-check`: however a check ends, it is one line of the file, and the others are made."""

import json
import os
import sys

import pytest
from support import gpu_checks
from support.gpu_checks import check
from support.paths import ROOT
from support.processes import descendants, kill_when, run_to_end, wait_until_ended
from support.refusals import error_line

from harness_plugins.gpu_check import checklist


@pytest.fixture
def made(harness, monkeypatch, tmp_path):
    """Run the command with these checks, by their names in `support/gpu_checks.py`; its outcome and the file."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests"))
    out = tmp_path / "gpu-check.json"

    def call(*names, options=(), model="tiny24", limit_s=60.0):
        monkeypatch.setattr(checklist, "CHECKS", [check(name, limit_s) for name in names])
        outcome = harness("gpu-check", "--device", "cpu", "--model", model, "--out", out, *options)
        return outcome, json.loads(out.read_text())

    return call


def test_a_check_that_fails_raises_crashes_or_exits_is_one_line_and_the_others_are_made(made):
    names = ("fails", "lacks", "refuses", "raises", "segfaults", "exits", "passes")
    outcome, report = made(*names)
    assert outcome.code == 1
    assert list(report["checks"]) == list(names)
    entries = {name: (entry["outcome"], entry["reason"]) for name, entry in report["checks"].items()}
    segfault = entries.pop("segfaults")
    assert entries == {
        "fails": ("failed", "the orders differ"),
        "lacks": ("skipped", "no such library here"),
        "refuses": ("failed", "vllm: its log is PATH"),
        "raises": ("failed", "ZeroDivisionError: of zero"),
        "exits": ("failed", "its process ended with exit code 3; its log ends with: CUDA driver says no"),
        "passes": ("passed", "with tiny24"),
    }
    assert segfault[0] == "failed"
    assert segfault[1].startswith("its process was ended by SIGSEGV; its log ends with: Fatal Python error: Segment")
    assert 'in File "PATH/gpu_checks.py", line' in segfault[1]
    assert report["checks"]["fails"]["metrics"] == {"picks": {"value": None, "unit": "of 4"}}
    metrics = {"speed": {"value": 1235.0, "unit": "tokens/s"}, "rows": {"value": 3, "unit": "rows"}}
    assert report["checks"]["passes"]["metrics"] == metrics
    assert "1 passed, 5 failed, 1 skipped" in outcome.err
    assert "the orders differ" in outcome.out


def test_a_check_that_hangs_is_ended_when_its_time_is_up(made, monkeypatch):
    monkeypatch.setattr(checklist, "SLOWER", 1.0)
    before = set(descendants())
    outcome, report = made("hangs", limit_s=1.5)
    assert outcome.code == 1
    assert report["checks"]["hangs"]["reason"].startswith("not finished after 2 s; its log ends with: ")
    assert set(descendants()) <= before


def test_the_same_command_makes_what_is_missing_and_skipped_checks_and_failed_ones_if_asked(made):
    made("passes", "fails", "lacks")
    outcome, report = made("passes", "fails", "lacks", "waits")
    started = [line.split()[0] for line in outcome.err.splitlines() if " ... " in line]
    assert started == ["lacks", "waits"]
    assert report["checks"]["waits"]["reason"] == "passes passed, fails failed, lacks skipped"
    outcome, _ = made("passes", "fails", options=("--again",))
    assert [line.split()[0] for line in outcome.err.splitlines() if " ... " in line] == ["fails"]


def test_a_file_of_another_model_or_tool_is_refused_and_kept(harness, made, tmp_path):
    made("passes")
    out = tmp_path / "gpu-check.json"
    before = out.read_bytes()
    line = error_line(harness("gpu-check", "--device", "cpu", "--model", "tiny24-medium", "--out", out))
    assert "is of another model (tiny24, now tiny24-medium)" in line
    assert out.read_bytes() == before
    out.write_text('{"format": "something else"}')
    assert "is no file of this command" in error_line(
        harness("gpu-check", "--device", "cpu", "--model", "tiny24", "--out", out)
    )
    out.write_text("{")
    assert "not JSON" in error_line(harness("gpu-check", "--device", "cpu", "--model", "tiny24", "--out", out))


def test_where_nothing_can_be_written_nothing_is_checked(harness, written):
    out = written("a file, no folder", "taken").parent / "taken" / "gpu-check.json"
    line = error_line(harness("gpu-check", "--device", "cpu", "--model", "tiny24", "--out", out))
    assert "give another --out" in line


def test_without_a_gpu_it_is_one_line_that_names_the_way_on_a_cpu(harness, monkeypatch, tmp_path):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    line = error_line(harness("gpu-check", "--model", "tiny24", "--out", tmp_path / "gpu-check.json"))
    assert line == "error: gpu-check: torch finds no CUDA GPU here; --device cpu tries what a CPU can do"
    assert list(tmp_path.iterdir()) == []


def test_after_a_kill_the_finished_checks_are_in_the_file_and_no_process_is_left(tmp_path):
    files = tmp_path / "gpu-check.files"
    files.mkdir()
    (files / gpu_checks.HELD).touch()
    code = (
        "from support.gpu_checks import check; from harness_plugins.gpu_check import checklist\n"
        "checklist.CHECKS = [check('passes'), check('waits')]\n"
        "from harness.cli import main; main()"
    )
    words = ["gpu-check", "--device", "cpu", "--model", "tiny24", "--out", str(tmp_path / "gpu-check.json")]
    command = [sys.executable, "-c", code, *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    out = tmp_path / "gpu-check.json"
    family, others = [], set(descendants())

    def is_in_the_second_check():
        family[:] = [pid for pid in descendants() if pid not in others]
        return out.exists() and "waits" in (files / "task.json").read_text() and len(family) >= 3

    kill_when(is_in_the_second_check, command, env=environment)
    wait_until_ended(family, 60)
    assert list(json.loads(out.read_text())["checks"]) == ["passes"]
    (files / gpu_checks.HELD).unlink()
    done = run_to_end(command, env=environment)
    assert done.returncode == 0, done.stderr
    assert list(json.loads(out.read_text())["checks"]) == ["passes", "waits"]
    assert "passes ..." not in done.stderr
