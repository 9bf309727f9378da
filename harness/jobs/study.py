"""The options of `harness run` from a file: a study in TOML (docs/pools.md), or a cell (`harness rerun`).

    task = "game24"
    selector = ["repexp", "uniform"]
    max-tokens = 64

Relative paths in a study are relative to its folder, and so is a `model` that begins with a dot. Dashes in names may be
underscores. A cell records its run's options under the same names (`options.recorded`).
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.plugin_system.registry import SESSION
from harness.results import cells
from harness.results.cells import Cell
from harness.results.rows import HASHED

from .options import FIELD, RunConfig, checked


def read_study(path: Path) -> dict[str, Any]:
    """The options in a study file: field of `RunConfig`, or "preset" -> value, paths as seen from here.

    HarnessError, in one line that names the file and the option, for anything else.
    """
    if not path.is_file():
        raise HarnessError(
            f"study {path}: no such file; `harness run FILE` takes a file of options; give --selector once for each one"
        )
    try:
        given = tomllib.loads(path.read_bytes().decode())
    except (ValueError, RecursionError) as failure:
        hint = "" if path.suffix == ".toml" else "; a file of responses goes with --pool"
        raise HarnessError(f"study {path}: is no TOML, the form of a file of options ({failure}){hint}") from None
    twice = [name for name in given if "-" in name and name.replace("-", "_") in given]
    if twice:
        raise HarnessError(f"study {path}: {twice[0]!r} and {twice[0].replace('-', '_')!r} are one option: keep one")
    values = checked(
        RunConfig, {name.replace("-", "_"): value for name, value in given.items()}, f"study {path}", FIELD
    )

    def moved(name: str, value: Any) -> Any:
        """A path as seen from here, not from the study."""
        if isinstance(value, tuple):
            return tuple(moved(name, item) for item in value)
        if name == "model" and isinstance(value, str) and value.startswith("."):
            return value if path.parent == Path() else os.path.join(".", path.parent / value)
        return path.parent / value if isinstance(value, Path) and not value.is_absolute() else value

    return {name: moved(name, value) for name, value in values.items()}


# `harness rerun CELL`: the options by which a cell was made, and how the cell that they make now differs from it.

OUTCOMES = ("n", "c", "errors", "ranks", "orders", "found", "hits")


def config_of(path: object, cell: Cell, given: Mapping[str, Any]) -> RunConfig:
    """The config that the cell at `path` records, with the fields in `given` in place of its own.

    HarnessError if the cell records none, or one that cannot be carried out. A cell may be a stranger's: what runs code
    or sends data elsewhere (a plugin file, an engine with parameters, ...) must be in `given`, as the user's own word.
    """
    if not isinstance(cell.get("config"), dict):
        raise HarnessError(
            f"rerun: cell {path} records no options (an older version made it): run it by its own command"
        )
    if cell["inputs"]["ranking"]["selector"]["dist"] == SESSION:
        raise HarnessError(
            f"rerun: cell {path}: its selector is an object of a Python session: run it there again, or make it a "
            "plugin (docs/plugins.md)"
        )
    options = checked(RunConfig, cell["config"], f"cell {path}", FIELD)
    files, engine, executor = (options.get(name, "") for name in ("plugin_files", "engine", "executor"))
    powers = {  # field -> the options that run code of the user's, or reach other machines
        "plugin_files": " ".join(f"--plugin {file}" for file in files),
        "engine": f"--engine {engine}" if ":" in engine else "",
        "executor": f"--executor {executor}" if executor.partition(":")[0] not in ("", "local") else "",
        "unsafe_exec": "--unsafe-exec" if options.get("unsafe_exec") else "",
    }
    if unsaid := [words for name, words in powers.items() if words and name not in given]:
        raise HarnessError(
            f"rerun: cell {path} was made with {' '.join(unsaid)}: give that too, if you trust where the cell is from"
        )
    return RunConfig(**{**options, **given})


def difference(before: Cell, now: Cell) -> str:
    """How a cell that was made again differs from the one before, in one line."""
    old, new = cells.key_of(before), cells.key_of(now)
    if old != new:
        names = list(_other_inputs(before["inputs"], now["inputs"])) or ["the problems"]
        return f"another cell, {new}, not {old}: {', '.join(names)} changed"
    if "failed" in before:
        return f"the same cell, {new}, which had failed"
    pairs = zip(before["problems"], now["problems"], strict=True)
    others = sum(any(one.get(name) != other.get(name) for name in OUTCOMES) for one, other in pairs)
    if others:
        return f"the same cell, {new}, with other outcomes for {others} of {len(now['problems'])} problems"
    return f"the same cell, {new}, with the same outcomes"


def _other_inputs(before: Mapping[str, Any], now: Mapping[str, Any], where: str = "") -> Iterator[str]:
    """The dotted names of the inputs that differ, without the keys of stages, which follow from other inputs."""
    for name in dict.fromkeys([*before, *now]):
        old, new = before.get(name), now.get(name)
        if isinstance(old, dict) and isinstance(new, dict):
            yield from _other_inputs(old, new, f"{where}{name}.")
        elif old != new and name not in HASHED:
            yield f"{where}{name}"
