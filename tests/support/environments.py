"""Interpreters other than the tests' own: of environments beside it, and of other versions of Python."""

import os
import shutil
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


def pythons(minor: int) -> list[str]:
    """Interpreters of Python 3.MINOR, of pyenv and on the path; a shim on the path may start another version."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    on_path = shutil.which(f"python3.{minor}")
    return [*map(str, sorted(pyenv.glob(f"3.{minor}.*/bin/python3"))), *([on_path] if on_path else [])]
