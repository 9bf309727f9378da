"""Checks for `harness gpu-check` that end in every way in which one can; a process of their own runs each."""

from __future__ import annotations

import os
import signal
import sys
import threading

from harness.errors import HarnessError, Lacking
from harness_plugins.gpu_check.checklist import Check
from harness_plugins.gpu_check.record import Result, Setting, judged

HELD = "hold"  # `waits` hangs as long as a file of this name is in its folder


def passes(setting: Setting) -> Result:
    return judged(True, f"with {setting.model}", {"speed": (1234.5678, "tokens/s"), "rows": (3, "rows")})


def fails(setting: Setting) -> Result:
    return judged(False, "the orders differ", {"picks": (float("nan"), "of 4")})


def lacks(setting: Setting) -> Result:
    raise Lacking("no such library here")


def refuses(setting: Setting) -> Result:
    raise HarnessError(f"vllm: its log is {setting.files}/a.log")


def raises(setting: Setting) -> Result:
    raise ZeroDivisionError("of\nzero")


def segfaults(setting: Setting) -> Result:
    os.kill(os.getpid(), signal.SIGSEGV)


def exits(setting: Setting) -> Result:
    print("CUDA driver says no", flush=True)
    sys.exit(3)


def hangs(setting: Setting) -> Result:
    threading.Event().wait()


def waits(setting: Setting) -> Result:
    if (setting.files / HELD).exists():
        threading.Event().wait()
    return judged(True, ", ".join(f"{name} {outcome}" for name, outcome in setting.outcomes.items()), {})


def check(function: str, limit_s: float = 60.0) -> Check:
    """One of these functions as a check."""
    return Check(function, f"support.gpu_checks:{function}", limit_s)
