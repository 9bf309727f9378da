"""The Python environment that verl lives in: where it is, and what is installed there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from harness import HarnessError

from .verl_child.contract import VERSION

VARIABLE = "HARNESS_VERL_PYTHON"
BESIDE = Path(".venv-verl") / "bin" / "python"
MAKE = 'make one: python -m venv .venv-verl && .venv-verl/bin/pip install "diversity-harness[verl]"'

_ASK = """
import json, importlib.metadata as m
def version(name):
    try:
        return m.version(name)
    except m.PackageNotFoundError:
        return None
names = ["verl", "TransferQueue", "vllm", "diversity-harness"]
print(json.dumps({name: version(name) for name in names}))
"""


def find_python(asked: str | None) -> Path:
    """The interpreter that has verl: as asked, else by `VARIABLE`, else this one, else `.venv-verl` here."""
    named = asked or os.environ.get(VARIABLE)
    if named:
        whose = "python=" if asked else f"{VARIABLE}="
        python = Path(named).expanduser().absolute()  # resolved, it would lose its environment
        if not python.is_file():
            raise HarnessError(f"verl: {whose}{named} is not there: give the environment's bin/python, or {MAKE}")
        return python
    if find_spec("verl") is not None:
        return Path(sys.executable)
    if BESIDE.is_file():
        return BESIDE.absolute()
    raise HarnessError(f"verl: no environment with verl ({VARIABLE} is not set and {BESIDE} is not there): {MAKE}")


def installed(python: Path) -> dict[str, str | None]:
    """What the environment has of verl's parts, by name; HarnessError, one line, where a run could not start."""
    try:
        asked = subprocess.run([python, "-c", _ASK], capture_output=True, text=True, timeout=120, check=True)
        found = json.loads(asked.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as failure:
        reason = str(failure).splitlines()[0]
        raise HarnessError(f"verl: {python} does not run: {reason}") from failure
    _require(found, python)
    return found


def _require(found: Mapping[str, str | None], python: Path) -> None:
    install = f"{python} -m pip install"
    if found["verl"] is None:
        raise HarnessError(f"verl: {python} has no verl: {MAKE}")
    if found["verl"] != VERSION:
        wanted = f'this plugin is for {VERSION} and leans on its private parts: {install} "verl[verl-core]=={VERSION}"'
        raise HarnessError(f"verl: {python} has verl {found['verl']}, but {wanted}")
    if found["TransferQueue"] is None:
        raise HarnessError(f'verl: {python} has no TransferQueue: {install} "verl[verl-core]=={VERSION}"')
    if found["diversity-harness"] is None:
        raise HarnessError(
            f"verl: {python} has no diversity-harness, whose plugin verl loads: {install} diversity-harness"
        )
