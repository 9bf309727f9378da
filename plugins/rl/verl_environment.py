"""Find the Python environment that has verl, and check what is installed in it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from harness import HarnessError

from ..environments.second_environment import SecondEnvironment
from .verl_child.contract import VERSION

VARIABLE = "HARNESS_VERL_PYTHON"
MAKE = 'make one: python -m venv .venv-verl && .venv-verl/bin/pip install "diversity-harness[verl]"'
VERL = SecondEnvironment("verl", "verl", VARIABLE, Path(".venv-verl") / "bin" / "python", MAKE)
PARTS = ("verl", "TransferQueue", "vllm", "diversity-harness")


def find_python(requested: str | None) -> Path:
    """Return the Python interpreter of verl's environment; HarnessError if none is found.

    It is `requested`, else the one that HARNESS_VERL_PYTHON names, else this process' own if that has verl, else that
    of `.venv-verl` in the working folder. `installed` checks what is in it.
    """
    return VERL.find(requested, find_spec)


def installed(python: Path) -> dict[str, str | None]:
    """Return the versions of the packages of `PARTS`, by name; None for one that is not installed.

    HarnessError, one line, if a package other than vllm is missing or verl has another version than the plugin needs.
    """
    versions = VERL.versions(python, PARTS)
    _require(versions, python)
    return versions


def _require(versions: Mapping[str, str | None], python: Path) -> None:
    install = f"{python} -m pip install"
    if versions["verl"] is None:
        raise HarnessError(f"verl: {python} has no verl: {MAKE}")
    if versions["verl"] != VERSION:
        needed = f'this plugin is for {VERSION} and leans on its private parts: {install} "verl[verl-core]=={VERSION}"'
        raise HarnessError(f"verl: {python} has verl {versions['verl']}, but {needed}")
    if versions["TransferQueue"] is None:
        raise HarnessError(f'verl: {python} has no TransferQueue: {install} "verl[verl-core]=={VERSION}"')
    if versions["diversity-harness"] is None:
        raise HarnessError(
            f"verl: {python} has no diversity-harness, whose plugin verl loads: {install} diversity-harness"
        )
