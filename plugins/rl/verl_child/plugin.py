"""What verl loads in each of its processes (entry-point group `verl.plugins`), in any run on the machine.

It does nothing unless `RUN` names the folder of a run of ours. verl drops what a plugin raises, so a failure is printed
and kept in `failure`, and the process that starts Ray refuses to go on with one.
"""

from __future__ import annotations

import os
import sys
import traceback
from importlib import import_module

from . import RUN

failure: Exception | None = None


def activate() -> None:
    """Register our trainer in verl, and on CPUs a platform and a sampler."""
    if os.environ.get("VERL_PLATFORM") == "cpu":
        import_module(f"{__package__}.cpu").register()
    import_module(f"{__package__}.trainer")  # registers itself


if os.environ.get(RUN):
    try:
        activate()
    except Exception as raised:
        failure = raised
        traceback.print_exc(file=sys.stderr)
