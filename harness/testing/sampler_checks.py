"""The checks of a sampler: decoding parameters as data."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import partial
from typing import Any

from harness.plugin_system.component import parameters, signature

from ..errors import HarnessError
from ..records import Sampler
from .checking import Inapplicable, Violation, check, expect, parameter_check, picklable, require_refused

OUT_OF_RANGE = {
    "temperature": (0.0, -1.0, math.nan, math.inf),
    "top_p": (0.0, 1.5, math.nan),
    "min_p": (-0.1, 1.0, math.nan),
    "top_k": (-1,),
}


@check("inherit from harness.Sampler, or have its fields")
def contract(sampler: Any) -> None:
    """It has the fields of `harness.Sampler`, and says whether it steers decoding itself."""
    missing = [name for name in OUT_OF_RANGE if not hasattr(sampler, name)]
    expect(not missing, f"it has no {' and no '.join(missing)}")
    steers = getattr(sampler, "steers", None)
    expect(isinstance(steers, bool), f"steers must be True or False, got {steers!r}")
    unrecorded = [name for name in OUT_OF_RANGE if name not in parameters(sampler)]
    expect(not unrecorded, f"{' and '.join(unrecorded)} cannot be recorded: no dataclass field")


@check("see harness.Sampler for the ranges", presumes=(contract,))
def within_ranges(sampler: Any) -> None:
    """Its values are numbers in the ranges that engines take."""
    try:
        Sampler(**{name: getattr(sampler, name) for name in OUT_OF_RANGE})
    except HarnessError as refusal:
        raise Violation(f"no engine can sample with it: {refusal}") from refusal


@check("call Sampler.__post_init__, and refuse values that are not finite", presumes=(contract,))
def out_of_range_refused(sampler: Any) -> None:
    """What no engine can sample with is refused with one line, when the sampler is built."""
    factory: Callable[..., Any] = type(sampler)
    own = {name: value for name, value in parameters(sampler).items() if name in signature(factory)}
    settable = [name for name in OUT_OF_RANGE if name in own]
    if not settable:
        raise Inapplicable("no field can be set")
    for name in settable:
        for value in OUT_OF_RANGE[name]:
            require_refused(partial(factory, **own | {name: value}), f"{name}={value}")


@check("make it a frozen dataclass: its values are part of a pool's key", presumes=(contract,))
def fixed(sampler: Any) -> None:
    """Its values cannot be changed once it is built, and are plain JSON."""
    json.dumps(parameters(sampler), allow_nan=False)
    try:
        sampler.temperature = sampler.temperature
    except AttributeError:
        return
    raise Violation("its temperature can be changed")


CHECKS = (contract, within_ranges, out_of_range_refused, fixed, parameter_check("sampler"), picklable)
