"""The list of checks, and what runs them: each in a process of its own, for a limited time, one after another."""

from __future__ import annotations

import json
import re
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.system.children import run_child
from harness.system.files import write_atomically

from . import machine
from .anonymous import anonymous
from .record import FAILED, Result

MODULE = "harness_plugins.gpu_check"
SLOWER = 3.0  # a CPU gets so many times the seconds of a GPU
GRACE_S = 5.0
CRASH = re.compile(r"^(Fatal Python error: .*)$.*?^Current thread.*?$\n\s*(File .*?)$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Check:
    """A check: its function, as "module:function", the seconds that it may take on a GPU, and variables of its own."""

    name: str
    function: str
    limit_s: float
    environment: Mapping[str, str] = field(default_factory=dict)


V1 = {"VLLM_USE_V2_MODEL_RUNNER": "0"}
CHECKS = (
    Check("gpu", f"{MODULE}.device_checks:gpu", 60),
    Check("trl-step", f"{MODULE}.device_checks:trl_step", 180),
    Check("transformers-throughput", f"{MODULE}.sampling_checks:transformers_throughput", 300),
    Check("vllm-float32", f"{MODULE}.sampling_checks:vllm_float32", 300),
    Check("vllm-bfloat16", f"{MODULE}.sampling_checks:vllm_bfloat16", 240),
    Check("vllm-v1-runner", f"{MODULE}.sampling_checks:vllm_v1", 240, V1),
    Check("hidden-states", f"{MODULE}.sampling_checks:hidden_states", 120),
    Check("vllm-throughput", f"{MODULE}.sampling_checks:vllm_throughput", 240),
)


def limit_s(check: Check, device: str) -> float:
    """Return the seconds that a check may take on that device."""
    return check.limit_s * (SLOWER if device == "cpu" else 1.0)


def made(check: Check, report: Mapping[str, Any], model: str, files: Path) -> dict[str, Any]:
    """Make a check in a process of its own, and return its entry of the report: outcome, reason, metrics, seconds.

    model   as the user wrote it
    files   an existing folder, for what one check leaves for another, and for logs
    """
    outcomes = {name: entry["outcome"] for name, entry in report["checks"].items()}
    setting = {"device": report["device"], "model": model, "files": str(files.absolute()), "outcomes": outcomes}
    began = time.monotonic()
    result = _result(check, setting, files)
    seconds = round(time.monotonic() - began, 1)
    return {**result, "reason": anonymous(result["reason"]), "seconds": seconds}


class _TimeUp(Exception):
    """A check has taken all of its time."""


def _result(check: Check, setting: Mapping[str, Any], files: Path) -> dict[str, Any]:
    """Return what a check's process has written; a failure if it died, or took too long."""
    task, answer, log = (files / name for name in ("task.json", "result.json", f"{check.name}.log"))
    answer.unlink(missing_ok=True)
    log.unlink(missing_ok=True)
    write_atomically(task, json.dumps({"check": check.function, "setting": setting}).encode())
    limit = limit_s(check, setting["device"])
    deadline = time.monotonic() + limit

    def watch() -> None:
        if time.monotonic() > deadline:
            raise _TimeUp

    environment = {**machine.variables(setting["device"]), **check.environment, "PYTHONFAULTHANDLER": "1"}
    command = [sys.executable, "-P", "-m", f"{MODULE}.child", str(task.absolute())]
    try:
        status = run_child(command, environment, log, watch, GRACE_S)
    except _TimeUp:
        return Result(FAILED, f"not finished after {limit:.0f} s; its log ends with: {_last_line(log)}").to_json()
    with suppress(OSError, ValueError):
        result: dict[str, Any] = json.loads(answer.read_text("utf-8"))
        return result
    return Result(FAILED, f"{_end(status)}; its log ends with: {_last_line(log)}").to_json()


def _end(status: int) -> str:
    if status >= 0:
        return f"its process ended with exit code {status}"
    reason = ", as where memory runs out" if -status == signal.SIGKILL else ""
    return f"its process was ended by {signal.Signals(-status).name}{reason}"


def _last_line(log: Path) -> str:
    """Return a log's last line; after a crash of Python the line that names it, and the place."""
    try:
        text = log.read_bytes()[-100_000:].decode(errors="replace")
    except OSError:
        return "nothing"
    if crash := CRASH.search(text):
        return " in ".join(crash.groups())
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "nothing")
