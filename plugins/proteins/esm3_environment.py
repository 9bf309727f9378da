"""The Python environment that has EvolutionaryScale's `esm` (ESM3): where it is, and what is there.

No extra of the harness names `esm`: every version of it asks for transformers below 5 (3.2.1 for below 4.48.2) and
would keep the harness from installing. Without its requirements it runs beside transformers 5.23; in an environment of
its own it may have what it asks for.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from harness import HarnessError

VARIABLE = "HARNESS_ESM_PYTHON"
BESIDE = Path(".venv-esm") / "bin" / "python"
MAKE = (
    "make one: python -m venv .venv-esm && .venv-esm/bin/pip install torch transformers && .venv-esm/bin/pip install "
    "--no-deps esm==3.2.1.post1 && .venv-esm/bin/pip install attrs biopython biotite brotli cloudpathlib einops httpx "
    "msgpack-numpy pandas tenacity zstd"
)

_ASK = """
import json, importlib.metadata as m
import torch
try:
    found = m.version("esm")
except m.PackageNotFoundError:
    found = None
print(json.dumps({"esm": found, "torch": torch.__version__, "cuda": torch.cuda.is_available()}))
"""


def find_python(asked: str | None) -> Path:
    """The interpreter that has `esm`: as asked, else by `VARIABLE`, else this one, else `.venv-esm` here."""
    named = asked or os.environ.get(VARIABLE)
    if named:
        whose = "python=" if asked else f"{VARIABLE}="
        python = Path(named).expanduser().absolute()  # resolved, it would lose its environment
        if not python.is_file():
            raise HarnessError(f"esm3: {whose}{named} is not there: give the environment's bin/python, or {MAKE}")
        return python
    try:
        version("esm")
    except PackageNotFoundError:
        if BESIDE.is_file():
            return BESIDE.absolute()
        raise HarnessError(
            f"esm3: no environment with esm ({VARIABLE} is not set and {BESIDE} is not there): {MAKE}"
        ) from None
    return Path(sys.executable)


@functools.cache
def installed(python: Path) -> dict[str, Any]:
    """`esm` and `torch`, their versions, and whether torch finds a GPU (`cuda`); HarnessError without `esm`."""
    try:
        asked = subprocess.run([python, "-c", _ASK], capture_output=True, text=True, timeout=300, check=True)
        found: dict[str, Any] = json.loads(asked.stdout)
    except subprocess.CalledProcessError as failure:
        last = (failure.stderr.strip().splitlines() or [str(failure)])[-1]
        raise HarnessError(f"esm3: {python} does not run: {last}") from failure
    except (OSError, ValueError, subprocess.SubprocessError) as failure:
        raise HarnessError(f"esm3: {python} does not run: {str(failure).splitlines()[0]}") from failure
    if found["esm"] is None:
        raise HarnessError(f"esm3: {python} has no esm: {MAKE}")
    return found
