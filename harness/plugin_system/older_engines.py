"""Engines whose `sample` has the signature of before `SampleRequest`: they work for one release more, with a notice."""

from __future__ import annotations

import inspect
import sys
from typing import Any

from harness.records import Responses, SampleRequest


def with_request(engine: Any) -> Any:
    """The engine itself where its `sample` takes a request; else one that asks it in the old way."""
    takes = inspect.signature(engine.sample).parameters
    if "max_tokens" not in takes:
        return engine
    name = type(engine).__name__
    print(f"engine {name}: sample(prompts, n=..., ...) is the old form: take one SampleRequest", file=sys.stderr)
    return _Older(engine, frozenset(takes))


class _Older:
    """All of an older engine, but for `sample`."""

    def __init__(self, engine: Any, takes: frozenset[str]) -> None:
        self._engine, self._takes = engine, takes

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_engine"], name)

    def sample(self, request: SampleRequest) -> list[Responses]:
        """Ask with the keywords that the engine takes."""
        given = {name: value for name, value in vars(request).items() if name != "prompts" and name in self._takes}
        if request.rows is None:
            given.pop("rows", None)
        responses: list[Responses] = self._engine.sample(request.prompts, **given)
        return responses
