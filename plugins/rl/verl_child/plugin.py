"""The plugin that verl loads in each of its processes (entry-point group `verl.plugins`), in every run on the machine.

It does nothing unless the variable `RUN` names the folder of a run of the harness. verl ignores exceptions of plugins,
so a failure is printed and stored in `failure`; the process that starts Ray then refuses to continue.
"""

from __future__ import annotations

import os
import sys
import traceback
from importlib import import_module

from . import RUN

failure: Exception | None = None


def activate() -> None:
    """Register the harness' trainer in verl, and on CPUs also a platform and a sampler."""
    if os.environ.get("VERL_PLATFORM") == "cpu":
        import_module(f"{__package__}.cpu").register()
    import_module(f"{__package__}.trainer")  # registers itself


if os.environ.get(RUN):
    try:
        activate()
    except Exception as raised:
        failure = raised
        traceback.print_exc(file=sys.stderr)
