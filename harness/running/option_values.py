"""Options given as plain values (from Python, a study file or a cell): checked, and completed to a `RunConfig`."""

from __future__ import annotations

import dataclasses
import json
import os
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harness.errors import HarnessError, did_you_mean
from harness.plugin_system.command_options import Help, fields_of
from harness.plugin_system.presets import filled

from .config import RunConfig

BESIDE = {"preset": str | None, "track": Sequence[str]}  # options of `harness run` that are no fields of its config


def checked(record: type, given: Mapping[str, Any], who: str, names: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return field -> value, of the type that the field declares; a text will do for a path, and for a list of one.

    record  a dataclass of options
    given   name -> value
    who     how messages begin
    names   name -> field; None: the names are the fields'

    HarnessError, in one line, for a name that is no option, and for a value of another type.
    """
    hints = BESIDE | typing.get_type_hints(record)
    names = names or {field.name: field.name for field in dataclasses.fields(record)}
    unknown = next((name for name in given if name not in names), None)
    if unknown is not None:
        raise HarnessError(
            f"{who}: no option {unknown!r} {did_you_mean(unknown, names).replace('installed', 'options')}"
        )
    return {names[name]: _checked(f"{who}: {name}", value, hints[names[name]]) for name, value in given.items()}


def _checked(who: str, value: Any, hint: Any) -> Any:
    from pydantic import TypeAdapter, ValidationError  # 0.2 s to import

    choices = (hint, *typing.get_args(hint))
    is_list = any(typing.get_origin(choice) is Sequence for choice in choices)
    written = json.dumps(
        [value] if is_list and isinstance(value, (str, Path)) else value, default=_plain, skipkeys=True
    )
    try:
        converted = TypeAdapter(hint).validate_json(written, strict=True)
    except ValidationError as failure:
        reason = failure.errors()[0]["msg"].removeprefix("Input should be ")
        reason = "the path of a file" if Path in choices else reason
        raise HarnessError(f"{who} must be {reason}, got {value!r:.60}") from None
    return tuple(converted) if is_list and converted is not None else converted


def _plain(value: Any) -> Any:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return value.item() if isinstance(value, np.generic) else [None]  # which no option takes


def completed(options: Mapping[str, Any]) -> RunConfig:
    """The config of checked options, with those that are absent from the preset, the task's defaults, and `RunConfig`.

    HarnessError if the config cannot be carried out.
    """
    return RunConfig(**fields_of(RunConfig, filled({**DEFAULTS, "preset": None, **options})))


def non_defaults(config: RunConfig) -> dict[str, Any]:
    """Field -> value, for the fields that differ from their defaults."""
    values = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    return {name: value for name, value in values.items() if value != DEFAULTS[name]}


def _default(field: dataclasses.Field[Any], hint: Any) -> Any:
    """The default of a field; None if something else fills it."""
    about = next((part for part in getattr(hint, "__metadata__", ()) if isinstance(part, Help)), None)
    return None if about and about.filled else field.default


_HINTS = typing.get_type_hints(RunConfig, include_extras=True)
DEFAULTS = {field.name: _default(field, _HINTS[field.name]) for field in dataclasses.fields(RunConfig)}
