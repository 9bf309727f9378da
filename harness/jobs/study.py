"""Study files: the options of `harness run` in TOML, under the names of the long options (docs/studies.md).

    task = "game24"
    selector = ["repexp", "uniform"]
    max-tokens = 64

Relative paths in a study are relative to its folder, and so is a `model` that begins with a dot. Dashes in names may be
underscores. A cell records its run's options under the same names.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.plugin_system.command_options import fields_of, option_names
from harness.plugin_system.registry import SESSION
from harness.results import cells
from harness.results.cells import Cell
from harness.results.rows import HASHED
from harness.system.json_text import storable

from .options import BESIDE, RunConfig, checked, non_defaults

OPTION = option_names(RunConfig)  # field -> option, with underscores
UNRECORDED = ("store", "executor", "prices", "max_cost", "max_tokens_total")
FIELD = {option: name for name, option in OPTION.items()} | {name: name for name in (*BESIDE, "selectors")}


def read_study(path: Path) -> dict[str, Any]:
    """The options in a study file: field of `RunConfig`, "preset" or "track" -> value, paths as seen from here.

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
    return _moved(values, lambda each: path.parent / each)


def merged(path: Path | None, given: Mapping[str, Any], is_given: Callable[[str], bool]) -> dict[str, Any]:
    """The options of the study at `path` (None: no study), replaced by those of `given` that `is_given` names."""
    options = read_study(path) if path else {}
    return {**given, **{name: value for name, value in options.items() if not is_given(name)}}


def config(path: Path | None, options: Mapping[str, Any]) -> RunConfig:
    """The config of complete options; if it cannot be carried out, the error names the study that they come from."""
    try:
        return RunConfig(**fields_of(RunConfig, options))
    except HarnessError as failure:
        raise HarnessError(f"study {path}: {failure}" if path else str(failure)) from None


def write_study(path: Path, options_of: RunConfig, track: Sequence[str] = ()) -> None:
    """Write a study from which `read_study` gives the same options; what is as the default is left out.

    HarnessError if the file exists with another content: someone's comments may be in it.
    """
    values = _moved(non_defaults(options_of), lambda each: _seen_from(path.parent, each))
    options = {OPTION[name]: _plain(value) for name, value in values.items()} | (
        {"track": list(track)} if track else {}
    )
    content = "".join(f"{name.replace('_', '-')} = {_toml(value)}\n" for name, value in options.items())
    try:
        written = content.encode()
    except UnicodeEncodeError:
        raise HarnessError(
            f"study {path}: a path or text in the options is not Unicode, which TOML cannot hold"
        ) from None
    if path.exists() and not (path.is_file() and path.read_bytes() == written):
        raise HarnessError(f"--save-config {path}: exists and holds something else: name another file, or remove it")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(written)


def recorded(config: RunConfig, selector: str) -> dict[str, Any]:
    """The options by which a cell's run can be repeated, as JSON values.

    Not `store`, which holds the cell, nor `executor`, nor what may be spent: a cell is the same bytes wherever and with
    whatever means it was made.
    """
    values = {**non_defaults(config), "selectors": (selector,)}
    options = {OPTION[name]: _plain(value) for name, value in values.items() if name not in UNRECORDED}
    plain: dict[str, Any] = json.loads(storable(json.dumps(options, ensure_ascii=False)))
    return plain


# Paths.


def _moved(values: Mapping[str, Any], move: Callable[[Path], Path]) -> dict[str, Any]:
    """The options with all relative paths moved."""

    def place(name: str, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(place(name, item) for item in value)
        if name == "model" and isinstance(value, str) and value.startswith("."):
            moved = move(Path(value))
            return value if moved == Path(value) else os.path.join(".", moved)
        return move(value) if isinstance(value, Path) and not value.is_absolute() else value

    return {name: place(name, value) for name, value in values.items()}


def _seen_from(folder: Path, path: Path) -> Path:
    """The path, relative to the current folder, as it is written in a file of another folder."""
    parent = os.path.relpath(os.path.realpath(path.parent), os.path.realpath(folder))
    return path if os.path.realpath(folder) == os.getcwd() else Path(parent, path.name)


# Values.


def _plain(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def _toml(value: Any) -> str:
    """A text, number, boolean or list of texts in TOML; a basic string escapes as JSON does, and DEL too."""
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value).lower() if isinstance(value, bool) else repr(value)


# `harness rerun CELL`: the options by which a cell was made, and how the cell that they make now differs from it.

OUTCOMES = ("n", "c", "errors", "ranks", "orders", "hits")


def config_of(path: Path, cell: Cell, given: Mapping[str, Any]) -> RunConfig:
    """The config that a cell records, with the fields in `given` in place of its own.

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
            "plugin (docs/a-new-selector.md)"
        )
    options = checked(RunConfig, cell["config"], f"cell {path}", FIELD)
    unsaid = [words for name, words in _powers(options) if name not in given]
    if unsaid:
        raise HarnessError(
            f"rerun: cell {path} was made with {' '.join(unsaid)}: give that too, if you trust where the cell is from"
        )
    return RunConfig(**{**options, **given})


def _powers(options: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Field and command line of the options that run code of the user's, or reach other machines."""
    if files := options.get("plugin_files"):
        yield "plugin_files", " ".join(f"--plugin {file}" for file in files)
    if ":" in options.get("engine", ""):
        yield "engine", f"--engine {options['engine']}"
    if options.get("executor", "local").partition(":")[0] != "local":
        yield "executor", f"--executor {options['executor']}"
    if options.get("unsafe_exec"):
        yield "unsafe_exec", "--unsafe-exec"


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
