"""Checks that fit components of several kinds: their parameters, and whether they can be pickled."""

from __future__ import annotations

import dataclasses
import json
import pickle
from collections.abc import Callable, Mapping
from typing import Any

from harness.plugin_system.component import Spec, build, parameters, signature
from harness.plugin_system.registry import Origin, Registration, Registry

from ..errors import HarnessError
from . import global_rngs
from .checking import Check, Violation, check, error_text, expect, shown

# Kind -> arguments that the harness passes to every factory of the kind; they are not written in specs.
GIVEN_BY_US = {"task": ("data",), "engine": ("model",)}
UNKNOWN = "no_such_parameter"


def parameter_check(kind: str) -> Check:
    """The check `parameters-round-trip` for components of a kind."""

    @check("keep what it is built with as fields of a dataclass, each with its type")
    def parameters_round_trip(component: Any) -> None:
        """Its parameters can be read back, written on a command line and built from again; unknown ones are refused."""
        _require_recorded(component, GIVEN_BY_US.get(kind, ()))
        _require_rebuilt(kind, component)
        _require_strict(component)

    return parameters_round_trip


def require_global_rngs_untouched(action: Callable[[], object]) -> None:
    """Raise Violation if an action uses or seeds a global random number generator."""
    touched = global_rngs.touched_by(action)
    expect(not touched, f"it draws from or seeds the global generator of {' and '.join(touched)}")


@check("hold no generator, lock, open file or lambda")
def picklable(component: Any) -> None:
    """It can be pickled, and its parameters survive."""
    copy = pickled(component)
    expect(
        parameters(copy) == parameters(component),
        f"a pickled copy has the parameters {parameters(copy)}, not {parameters(component)}",
    )


def pickled(component: Any) -> Any:
    """A copy of the component, made by pickling it; Violation if that fails."""
    try:
        return pickle.loads(pickle.dumps(component))
    except Exception as failure:
        raise Violation(f"it cannot be pickled: {error_text(failure)}") from failure


def _require_recorded(component: Any, given_by_us: tuple[str, ...]) -> None:
    """Raise Violation unless the harness can record every argument of the component's class."""
    recorded = parameters(component)
    short_names = set(getattr(component, "__dataclass_fields__", ()))  # an InitVar stands for a field
    lost = [name for name in signature(type(component)) if name not in {*recorded, *short_names, *given_by_us}]
    expect(not lost, f"it is built with {', '.join(lost)}, which no dataclass field keeps")
    try:
        json.dumps(recorded)
    except TypeError as failure:
        raise Violation(f"its parameters {recorded} cannot be recorded as JSON: {failure}") from failure


def _require_rebuilt(kind: str, component: Any) -> None:
    """Raise Violation unless its parameters, written as on a command line, build an equal component."""
    recorded = parameters(component)
    context = {name: recorded.get(name) for name in GIVEN_BY_US.get(kind, ()) if name in signature(type(component))}
    written = _written(component, {name: value for name, value in recorded.items() if name not in context})
    registry = Registry([Registration(kind, "component", type(component), Origin("conformance", "", ""))])
    spec = str(Spec("component", written))
    try:
        rebuilt = build(registry, kind, spec, **context)
    except HarnessError as refusal:
        raise Violation(f"{spec!r} cannot be built again: {refusal}") from refusal
    got = parameters(rebuilt)
    expect(got == recorded, f"{spec!r} gives the parameters {got}, not {recorded}")
    expect(shown(rebuilt) == shown(component), f"{spec!r} gives {shown(rebuilt)}, not {shown(component)}")


def _written(component: Any, recorded: Mapping[str, Any]) -> dict[str, str]:
    """Each parameter as text; those left out have their default value, and it cannot be written as text."""
    defaults = {f.name: f.default for f in dataclasses.fields(component)} if recorded else {}
    texts = {}
    for name, value in recorded.items():
        text = "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
        writable = value is None or (isinstance(value, (bool, int, float, str)) and "," not in text)
        if not writable and defaults[name] == value:
            continue
        expect(writable, f"{name} = {value!r} cannot be written as {name}=value")
        texts[name] = text
    return texts


def _require_strict(component: Any) -> None:
    """Raise Violation unless an unknown parameter is refused."""
    try:
        type(component)(**{UNKNOWN: 1})
    except (TypeError, HarnessError):
        return
    except Exception as failure:
        raise Violation(f"an unknown parameter {error_text(failure)}, not TypeError") from failure
    raise Violation(f"it silently takes a parameter that it does not have ({UNKNOWN}=1)")
