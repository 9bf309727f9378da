"""The checks of a sampler: decoding parameters as data."""

from __future__ import annotations

import json
import math
from typing import Any

from harness.plugin_system.component import parameters, signature

from .checking import Inapplicable, Violation, check, expect, require_refused
from .common_checks import parameter_check, picklable

FIELDS = ("temperature", "top_p", "min_p", "top_k")
OUT_OF_RANGE = {
    "temperature": (0.0, -1.0, math.nan, math.inf),
    "top_p": (0.0, 1.5, math.nan),
    "min_p": (-0.1, 1.0, math.nan),
    "top_k": (-1,),
}


@check("inherit from harness.Sampler, or have its fields")
def contract(sampler: Any) -> None:
    """It has the fields of `harness.Sampler`, and says whether it steers decoding itself."""
    missing = [name for name in FIELDS if not hasattr(sampler, name)]
    expect(not missing, f"it has no {' and no '.join(missing)}")
    steers = getattr(sampler, "steers", None)
    expect(isinstance(steers, bool), f"steers must be True or False, got {steers!r}")
    unrecorded = [name for name in FIELDS if name not in parameters(sampler)]
    expect(not unrecorded, f"{' and '.join(unrecorded)} cannot be recorded: no dataclass field")


@check("see harness.Sampler for the ranges", presumes=(contract,))
def within_ranges(sampler: Any) -> None:
    """Its values are numbers in the ranges that engines take."""
    for name in FIELDS:
        value, number = getattr(sampler, name), int if name == "top_k" else (int, float)
        expect(isinstance(value, number) and not isinstance(value, bool), f"{name} is {value!r}")
    ranges = {
        "temperature > 0": 0 < sampler.temperature < math.inf,
        "0 < top_p <= 1": 0 < sampler.top_p <= 1,
        "0 <= min_p < 1": 0 <= sampler.min_p < 1,
        "top_k >= 0": sampler.top_k >= 0,
    }
    outside = [bound for bound, holds in ranges.items() if not holds]
    expect(not outside, f"{' and '.join(outside)} does not hold: {parameters(sampler)}")


@check("call Sampler.__post_init__, and refuse values that are not finite", presumes=(contract,))
def out_of_range_refused(sampler: Any) -> None:
    """What no engine can sample with is refused with one line, when the sampler is built."""
    settable = [name for name in FIELDS if name in signature(type(sampler))]
    if not settable:
        raise Inapplicable("no field can be set")
    for name in settable:
        for value in OUT_OF_RANGE[name]:
            _require_refused(sampler, name, value)


def _require_refused(sampler: Any, name: str, value: float) -> None:
    settable = {key: old for key, old in parameters(sampler).items() if key in signature(type(sampler))}
    require_refused(lambda: type(sampler)(**{**settable, name: value}), f"{name}={value}")


@check("make it a frozen dataclass: its values are part of a pool's key", presumes=(contract,))
def fixed(sampler: Any) -> None:
    """Its values cannot be changed once it is built, and are plain JSON."""
    json.dumps(parameters(sampler), allow_nan=False)
    try:
        sampler.temperature = sampler.temperature
    except AttributeError:
        return
    raise Violation("its temperature can be changed")


parameters_round_trip = parameter_check("sampler")

CHECKS = (contract, within_ranges, out_of_range_refused, fixed, parameters_round_trip, picklable)
