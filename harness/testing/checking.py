"""What a check is, and the two errors with which it can end: `ConformanceError` and `Inapplicable`."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import SkipTest

from harness.plugin_system.component import parameters

from ..errors import Escaped, HarnessError, contained
from . import global_rngs


class ConformanceError(AssertionError):
    """A component does not do what the harness expects: check, component, what, got, what to do, in one line."""


class Inapplicable(SkipTest):
    """Raised where a check does not apply to a component; the text says why."""


class _FirstFix(Inapplicable):
    """A check is inapplicable because another one, which must pass first, fails."""


FIRST_FIX = "first fix what"


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
        for other in self.presumes:
            if not _holds(other, component):
                raise _FirstFix(f"{FIRST_FIX} {other.name} finds")
        try:
            with contained(), global_rngs.preserved():
                self.function(component)
        except (Inapplicable, HarnessError):
            raise
        except Violation as violation:
            raise self._failed(component, str(violation)) from violation
        except Exception as failure:
            raise self._failed(component, error_text(failure)) from failure

    def _failed(self, component: Any, what: str) -> ConformanceError:
        return ConformanceError(" ".join(f"{self.name}: {shown(component)}: {what}; {self.remedy}".split()))


def check(remedy: str, presumes: tuple[Check, ...] = ()) -> Callable[[Callable[[Any], None]], Check]:
    """Return a decorator that turns a function of a component into a `Check`.

    The function raises Violation where it finds a fault; `remedy` and `presumes` are those of `Check`.
    """
    return lambda function: Check(function, remedy, presumes)


def expect(holds: object, what: str) -> None:
    """Raise Violation(what) unless `holds` is true."""
    if not holds:
        raise Violation(what)


def error_text(failure: BaseException) -> str:
    """The text of an exception: `raised ValueError: message (file.py:12)`, with the innermost line."""
    if isinstance(failure, Escaped) and failure.__cause__:
        failure = failure.__cause__
    frames = traceback.extract_tb(failure.__traceback__)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"raised {type(failure).__name__}: {str(failure)[:200]}{place}"


def shown(component: Any) -> str:
    """Return the component's repr; its class's name if the repr holds an address or has more than 80 characters."""
    text = repr(component)
    return type(component).__name__ if " at 0x" in text or len(text) > 80 else text


def require_refused(call: Callable[[], object], what: str) -> None:
    """Raise Violation unless the call raises a HarnessError of one line; `what` names the refused value."""
    try:
        call()
    except HarnessError as refusal:
        require_one_line(refusal)
    except Exception as failure:
        raise Violation(f"{what} {error_text(failure)}, not HarnessError") from failure
    else:
        raise Violation(f"it takes {what}")


def require_one_line(refusal: HarnessError) -> str:
    """Return the text of a refusal; Violation unless it is exactly one line and not blank."""
    text = str(refusal)
    expect(text.strip() and "\n" not in text, f"its refusal must be one line, got {text!r:.120}")
    return text


_held: dict[tuple[str, type, str], bool] = {}


def remember(check: str, component: Any, held: bool) -> None:
    """Let checks that presume the check with this name rely on what it found, in another process."""
    _held[_held_key(check, component)] = held


def _held_key(check: str, component: Any) -> tuple[str, type, str]:
    return check, type(component), repr((parameters(component), getattr(component, "__dict__", None)))


def _holds(presumed: Check, component: Any) -> bool:
    """Whether a check passes or is inapplicable; it runs once for all equal components."""
    key = _held_key(presumed.name, component)
    if key not in _held:
        try:
            presumed(component)
            _held[key] = True
        except (ConformanceError, _FirstFix):
            _held[key] = False
        except Inapplicable:
            _held[key] = True
    return _held[key]
