"""The settings and the bonus of a run: the user's, else the preset's, else the task's, else the paper's.

`paper` adds nothing to the task's settings, which are the paper's on its tasks. `exploring` is this project's choice of
what lets RepExp's bonus act (docs/rl-bonus.md): 4 dimensions, half of the paper's group size, and a bonus on the
scale of the rewards. Its values were chosen on dev puzzles of game24 (docs/log.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from harness.errors import HarnessError, did_you_mean
from harness.plugin_system.component import Spec, parse_spec

from .requests import TrainRequest
from .training import Settings

BONUS: Mapping[str, Mapping[str, Any]] = {"repexp": {"dim": 4, "spread": 0.5}}


def settings(request: TrainRequest, of_task: Mapping[str, Any]) -> Settings:
    """Return the run's settings; HarnessError for a name or a value that does not fit."""
    return _checked({**asdict(Settings()), **of_task, **request.settings})


def _checked(given: Mapping[str, Any]) -> Settings:
    from pydantic import TypeAdapter, ValidationError

    names = [each.name for each in fields(Settings)]
    for name in given:
        if name not in names:
            guess = did_you_mean(name, names).replace("installed", "settings")
            raise HarnessError(f"rl: no setting {name!r} {guess}")
    try:
        return TypeAdapter(Settings).validate_python(given)
    except ValidationError as failure:
        fault = failure.errors()[0]
        name = ".".join(map(str, fault["loc"]))
        raise HarnessError(f"rl: {name} {fault['msg'].lower()}, got {fault['input']!r}") from None


def bonus(request: TrainRequest, of_task: Mapping[str, Mapping[str, Any]]) -> Spec:
    """Return the requested bonus, with the parameters that the request does not give."""
    requested = parse_spec(request.bonus)
    of_preset = BONUS if request.preset == "exploring" else {}
    given = {**of_task.get(requested.name, {}), **of_preset.get(requested.name, {})}
    return Spec(requested.name, {**{key: str(value) for key, value in given.items()}, **requested.params})
