"""Benchmark harness for diversity selectors. What a plugin's author needs is importable from here."""

from .errors import HarnessError
from .hookspecs import hookimpl
from .records import Message, Pool, Problem, Responses, Sampler, SampleRequest, Verdict, correct, error, wrong
from .task import Task

__version__ = "0.2.0"

__all__ = [
    "HarnessError",
    "Message",
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
