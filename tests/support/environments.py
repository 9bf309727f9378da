"""The interpreters of environments beside the tests' own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.paths import ROOT


def environment_python(variable: str, name: str) -> Path:
    """The interpreter that a variable names, else of `.venv-NAME`; without one the test is skipped, or fails on CI."""
    beside = ROOT / f".venv-{name}" / "bin" / "python"
    if os.environ.get(variable):
        return Path(os.environ[variable])
    if not beside.is_file() and "CI" not in os.environ:
        pytest.skip(f"needs {variable} or .venv-{name}: make {name}")
    assert beside.is_file(), f"CI builds {beside}"
    return beside
