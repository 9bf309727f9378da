"""The Python environment that has EvolutionaryScale's `esm` (ESM3): where it is, and what is there.

No extra of the harness names `esm`: every version of it asks for transformers below 5 (3.2.1 for below 4.48.2) and
would keep the harness from installing. Without its requirements it runs beside transformers 5.23; in an environment of
its own it may have what it asks for.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from harness import HarnessError
from harness_plugins.environments.second_environment import SecondEnvironment

VARIABLE = "HARNESS_ESM_PYTHON"
MAKE = (
    "make one: python -m venv .venv-esm && .venv-esm/bin/pip install torch transformers && .venv-esm/bin/pip install "
    "--no-deps esm==3.2.1.post1 && .venv-esm/bin/pip install attrs biopython biotite brotli cloudpathlib einops httpx "
    "msgpack-numpy pandas tenacity zstd"
)
ESM3 = SecondEnvironment("esm3", "esm", VARIABLE, Path(".venv-esm") / "bin" / "python", MAKE)

_ASK = """
import json, importlib.metadata as m
import torch
try:
    found = m.version("esm")
except m.PackageNotFoundError:
    found = None
print(json.dumps({"esm": found, "torch": torch.__version__, "cuda": torch.cuda.is_available()}))
"""


def find_python(requested: str | None) -> Path:
    """Return the interpreter that has `esm`: `requested`, else by `VARIABLE`, else this one, else `.venv-esm` here."""
    return ESM3.find(requested, find_spec)


@cache
def installed(python: Path) -> dict[str, Any]:
    """`esm` and `torch`, their versions, and whether torch finds a GPU (`cuda`); HarnessError without `esm`."""
    versions: dict[str, Any] = ESM3.answer(python, _ASK)
    if versions["esm"] is None:
        raise HarnessError(f"esm3: {python} has no esm: {MAKE}")
    return versions
