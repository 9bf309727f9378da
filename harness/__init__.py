"""Benchmark harness for diversity selectors. What a plugin's author needs is importable from here.

`run`, `select`, `verify`, `search` and `read_results` (docs/python.md) are loaded at their first use: they import more.
"""

from importlib import import_module
from typing import Any

from .contracts import Task
from .errors import HarnessError
from .hookspecs import hookimpl
from .records import Message, Outcome, Pool, Problem, Responses, Sampler, SampleRequest, Verdict, correct, error, wrong

__version__ = "0.2.0"

FROM_API = ("read_results", "run", "search", "select", "verify")  # not in __all__: `import *` stays light

__all__ = [
    "HarnessError",
    "Message",
    "Outcome",
    "Pool",
    "Problem",
    "Responses",
    "SampleRequest",
    "Sampler",
    "Task",
    "Verdict",
    "correct",
    "error",
    "hookimpl",
    "wrong",
]


def __getattr__(name: str) -> Any:
    if name not in FROM_API:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("harness.api"), name)  # by name: no import of a lower layer goes up


def __dir__() -> list[str]:
    return sorted({*globals(), *FROM_API})
