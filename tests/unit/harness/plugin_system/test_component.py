"""From text on a command line to a built component and back."""

from dataclasses import dataclass
from typing import Literal

import pytest
from support.refusals import refusal_of

from harness.plugin_system.component import build, parameters, parse_spec
from harness.plugin_system.registry import Origin, Registration, Registry


@dataclass(frozen=True)
class Knobs:
    """A component with one parameter of each type."""

    lam: float = 1.0
    count: int = 3
    first: Literal["random", "max"] = "random"
    flag: bool = False
    most: int | None = None


def failing():
    raise ValueError("no knobs")


@pytest.fixture
def registry():
    origin = Origin("dist", "1", "entry")
    return Registry(
        [Registration("selector", "knobs", Knobs, origin), Registration("selector", "none", failing, origin)]
    )


def test_text_is_converted_to_the_declared_types_and_back(registry):
    built = build(registry, "selector", "knobs:lam=0.1,count=7,first=max,flag=true,most=none")
    assert built == Knobs(0.1, 7, "max", True, None)
    assert parameters(built) == {"lam": 0.1, "count": 7, "first": "max", "flag": True, "most": None}
    assert [str(parse_spec(text)) for text in ("knobs:lam=0.1,first=max", "knobs")] == [
        "knobs:lam=0.1,first=max",
        "knobs",
    ]


def test_a_wrong_spec_is_one_clear_line(registry):
    table = {
        "knobs:lam=abc": "knobs: lam must be a valid number",
        "knobs:count=1.5": "knobs: count must be a valid integer",
        "knobs:count=none": "knobs: count must be a valid integer",
        "knobs:first=last": "knobs: first must be 'random' or 'max', got 'last'",
        "knobs:lamda=1": "knobs: no parameter 'lamda' (did you mean 'lam'? it takes lam, count, first, flag, most)",
        "knobs:lam": "parameters are written name:key=value",
        "knobs:lam=1,lam=2": "parameters are written name:key=value",
        "knobs:=1": "parameters are written name:key=value",
        ":lam=1": "a name is missing",
        "knob": "unknown selector 'knob' (did you mean 'knobs'?",
        "none:x=1": "none: no parameter 'x' (it takes none)",
        "none": "selector 'none' from dist 1 cannot be built: raised ValueError: no knobs (test_component.py:",
    }
    lines = {spec: refusal_of(build, registry, "selector", spec) for spec in table}
    assert [line for spec, line in lines.items() if table[spec] not in line] == []
