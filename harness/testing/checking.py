"""What a check is, how the checks of a kind are run, and the checks that several kinds share."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import pickle
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest import SkipTest

import numpy as np

from harness.plugin_system.component import Spec, build, parameters, signature
from harness.plugin_system.registry import Origin, Registration, Registry

from ..errors import HarnessError, contained, did_you_mean, error_text

KINDS = ("task", "sampler", "engine", "embedder", "selector")
FIRST_FIX = "first fix what"
# Kind -> arguments that the harness passes to every factory of the kind; they are not written in specs.
GIVEN_BY_US = {"task": ("data",), "engine": ("model",)}

Finding = dict[str, str]


class ConformanceError(AssertionError):
    """A component does not do what the harness expects: check, component, what, got, what to do, in one line."""


class Inapplicable(SkipTest):
    """Raised where a check does not apply to a component; the text says why."""


class _FirstFix(Inapplicable):
    """A check is inapplicable because another one, which must pass first, fails."""


class Violation(Exception):
    """A check found a fault; the text is what follows `check: component: ` in the message."""


@dataclass(frozen=True)
class Check:
    """One expectation, called with a built component; see the package's docstring.

    `remedy` ends the message of a failure. `presumes` lists checks that must pass first: if one fails, this check is
    `Inapplicable`, so that one mistake is reported only once.

    A HarnessError that the component itself raises (data not available, an extra not installed) passes through: the
    component was not checked.
    """

    function: Callable[[Any], None]
    remedy: str
    presumes: tuple[Check, ...] = ()

    @property
    def name(self) -> str:
        """The check's name in kebab case: `same-rng-same-order`."""
        return self.function.__name__.replace("_", "-")

    @property
    def summary(self) -> str:
        """What is true of a component that passes: the first line of the check's docstring."""
        return (inspect.getdoc(self.function) or "").split("\n")[0]

    def __str__(self) -> str:
        return self.name

    def __call__(self, component: Any) -> None:
        """Return, or raise `ConformanceError` or `Inapplicable`."""
        cause: Exception
        for other in self.presumes:
            if not _holds(other, component):
                raise _FirstFix(f"{FIRST_FIX} {other.name} finds")
        try:
            with contained(), global_rngs_preserved():
                return self.function(component)
        except (Inapplicable, HarnessError):
            raise
        except Violation as violation:
            what, cause = str(violation), violation
        except Exception as failure:
            what, cause = error_text(failure), failure
        raise ConformanceError(" ".join(f"{self.name}: {shown(component)}: {what}; {self.remedy}".split())) from cause


_held: dict[tuple[str, type, str], bool] = {}


def _holds(presumed: Check, component: Any) -> bool:
    """Whether a check passes or is inapplicable; it runs once for all equal components."""
    key = (presumed.name, type(component), state(component))
    if key not in _held:
        try:
            presumed(component)
            _held[key] = True
        except Inapplicable as why:
            _held[key] = not isinstance(why, _FirstFix)
        except ConformanceError:
            _held[key] = False
    return _held[key]


def state(component: Any) -> str:
    """A text that is the same for equal components of a class."""
    return repr((parameters(component), getattr(component, "__dict__", None)))


# Run checks.


def checks(kind: str) -> tuple[Check, ...]:
    """The checks of a kind ("selector", "task", "sampler", "embedder", "engine"), the basic ones first."""
    kind = kind.removesuffix("s")
    if kind not in KINDS:
        raise HarnessError(f"no checks for kind {kind!r} {did_you_mean(kind, KINDS).replace('installed', 'kinds')}")
    of_kind: tuple[Check, ...] = importlib.import_module(f".{kind}_checks", __package__).CHECKS
    return of_kind


def findings(kind: str, component: Any) -> Iterator[Finding]:
    """Run each check of the kind on the component and yield a dict for each: check, outcome and what.

    check    the check's name
    outcome  "passed", "failed" or "not applicable"
    what     what holds, what is wrong, or why the check does not apply, in one line
    """
    return findings_by(lambda check: finding_of(check, component), kind)


def findings_by(run: Callable[[Check], Finding], kind: str) -> Iterator[Finding]:
    """Yield what `run` finds by each check of the kind; one that presumes a check which fails is not run."""
    failed: set[str] = set()
    for check in checks(kind):
        first = [other.name for other in check.presumes if other.name in failed]
        finding = found(check, "not applicable", f"{FIRST_FIX} {first[0]} finds") if first else run(check)
        if first or finding["outcome"] == "failed":
            failed.add(check.name)
        yield finding


def finding_of(check: Check, component: Any) -> Finding:
    """Run one check on the component, without those that it presumes; its finding is as in `findings`."""
    try:
        replace(check, presumes=())(component)
    except Inapplicable as why:
        return found(check, "not applicable", str(why))
    except ConformanceError as failure:
        return found(check, "failed", str(failure))
    return found(check, "passed", check.summary)


def found(check: Check, outcome: str, what: str) -> Finding:
    """A finding of the check."""
    return {"check": check.name, "outcome": outcome, "what": what}


# What checks are written with.


def check(remedy: str, presumes: tuple[Check, ...] = ()) -> Callable[[Callable[[Any], None]], Check]:
    """Return a decorator that turns a function of a component into a `Check`.

    The function raises Violation where it finds a fault; `remedy` and `presumes` are those of `Check`.
    """
    return lambda function: Check(function, remedy, presumes)


def expect(holds: object, what: str) -> None:
    """Raise Violation(what) unless `holds` is true."""
    if not holds:
        raise Violation(what)


def shown(component: Any) -> str:
    """Return the component's repr; its class's name if the repr holds an address or has more than 80 characters."""
    text = repr(component)
    return type(component).__name__ if " at 0x" in text or len(text) > 80 else text


def require_refused(call: Callable[[], object], what: str) -> None:
    """Raise Violation unless the call raises a HarnessError of one line; `what` names the refused value."""
    try:
        call()
    except HarnessError as refusal:
        text = str(refusal)
        expect(text.strip() and "\n" not in text, f"its refusal must be one line, got {text!r:.120}")
    except Exception as failure:
        raise Violation(f"{what} {error_text(failure)}, not HarnessError") from failure
    else:
        raise Violation(f"it takes {what}")


# The random number generators that a whole process shares: Python's, numpy's legacy one and, where loaded, torch's.


def global_rngs() -> dict[str, bytes]:
    """Return library -> the state of its global generator (torch: only the CPU's), as bytes that can be compared."""
    by_library = {"random": pickle.dumps(random.getstate()), "numpy.random": pickle.dumps(np.random.get_state())}
    if torch := sys.modules.get("torch"):
        by_library["torch"] = torch.get_rng_state().numpy().tobytes()
    return by_library


@contextmanager
def global_rngs_preserved(seed: int | None = None) -> Iterator[None]:
    """Restore the states of all generators after the code inside, for which they are seeded if a seed is given."""
    python_state, numpy_state, torch = random.getstate(), np.random.get_state(), sys.modules.get("torch")
    torch_state = None if torch is None else torch.get_rng_state()
    try:
        if seed is not None:
            random.seed(seed)
            np.random.seed(seed)
            if torch is not None:
                torch.manual_seed(seed)
        yield
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)
        if torch is not None:
            torch.set_rng_state(torch_state)


def require_global_rngs_untouched(action: Callable[[], object]) -> None:
    """Raise Violation if an action uses or seeds a global random number generator.

    The generators start from an unlikely seed: code that sets a usual seed such as 0 then changes the state, and is
    noticed.
    """
    with global_rngs_preserved(seed=728_364_501):
        before = global_rngs()
        action()
        after = global_rngs()
    touched = [name for name in before if after[name] != before[name]]
    expect(not touched, f"it draws from or seeds the global generator of {' and '.join(touched)}")


# Checks of several kinds: parameters and pickling.


@check("hold no generator, lock, open file or lambda")
def picklable(component: Any) -> None:
    """It can be pickled, and its parameters survive."""
    copied, own = parameters(pickled(component)), parameters(component)
    expect(copied == own, f"a pickled copy has the parameters {copied}, not {own}")


def pickled(component: Any) -> Any:
    """A copy of the component, made by pickling it; Violation if that fails."""
    try:
        return pickle.loads(pickle.dumps(component))
    except Exception as failure:
        raise Violation(f"it cannot be pickled: {error_text(failure)}") from failure


def parameter_check(kind: str) -> Check:
    """The check `parameters-round-trip` for components of a kind."""

    @check("keep what it is built with as fields of a dataclass, each with its type")
    def parameters_round_trip(component: Any) -> None:
        """Its parameters can be read back, written on a command line and built from again; unknown ones are refused."""
        recorded, accepted = parameters(component), signature(type(component))
        context = {name: recorded.get(name) for name in GIVEN_BY_US.get(kind, ()) if name in accepted}
        short_names = getattr(component, "__dataclass_fields__", ())  # an InitVar stands for a field
        lost = [name for name in accepted if name not in {*recorded, *short_names, *context}]
        expect(not lost, f"it is built with {', '.join(lost)}, which no dataclass field keeps")
        try:
            json.dumps(recorded)
        except TypeError as failure:
            raise Violation(f"its parameters {recorded} cannot be recorded as JSON: {failure}") from failure

        defaults = {f.name: f.default for f in dataclasses.fields(component)} if recorded else {}
        texts = {}
        for name, value in recorded.items():
            text = "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
            writable = value is None or (isinstance(value, (bool, int, float, str)) and "," not in text)
            if name not in context and (writable or defaults[name] != value):
                expect(writable, f"{name} = {value!r} cannot be written as {name}=value")
                texts[name] = text
        spec = str(Spec("component", texts))
        registry = Registry([Registration(kind, "component", type(component), Origin("conformance", "", ""))])
        try:
            got = parameters(build(registry, kind, spec, **context))
        except HarnessError as refusal:
            raise Violation(f"{spec!r} cannot be built again: {refusal}") from refusal
        expect(got == recorded, f"{spec!r} gives the parameters {got}, not {recorded}")

        unknown = "no_such_parameter"
        try:
            type(component)(**{unknown: 1})
        except (TypeError, HarnessError):
            return
        raise Violation(f"it silently takes a parameter that it does not have ({unknown}=1)")

    return parameters_round_trip
