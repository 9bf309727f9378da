"""Find the Python environment that has EvolutionaryScale's `esm` (ESM3), and the versions in it.

No extra of the harness names `esm`: every version of it requires transformers below 5 (3.2.1 below 4.48.2), so the
harness could not be installed. Installed without its requirements it runs with transformers 5.23; in a separate
environment its requirements can be met.
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

_VERSIONS_SCRIPT = """
import json, importlib.metadata as m
import torch
try:
    version = m.version("esm")
except m.PackageNotFoundError:
    version = None
print(json.dumps({"esm": version, "torch": torch.__version__, "cuda": torch.cuda.is_available()}))
"""


def find_python(requested: str | None) -> Path:
    """Return the interpreter that has `esm`; HarnessError if none is found.

    That is `requested`, else the one that HARNESS_ESM_PYTHON names, else this one if it has `esm`, else `.venv-esm` in
    the current folder.
    """
    return ESM3.find(requested, find_spec)


@cache
def installed(python: Path) -> dict[str, Any]:
    """Return the versions of `esm` and `torch`, and whether torch finds a GPU (`cuda`); HarnessError without `esm`."""
    versions: dict[str, Any] = ESM3.answer(python, _VERSIONS_SCRIPT)
    if versions["esm"] is None:
        raise HarnessError(f"esm3: {python} has no esm: {MAKE}")
    return versions
