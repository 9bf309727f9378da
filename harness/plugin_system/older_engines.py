"""Adapt engines whose `sample` takes separate arguments, as before `SampleRequest`; for one release more."""

from __future__ import annotations

import inspect
import sys
from typing import Any

from harness.records import Responses, SampleRequest


def with_request(engine: Any) -> Any:
    """The engine itself if its `sample` takes a request; else an adapter that calls it with separate arguments."""
    accepted = inspect.signature(engine.sample).parameters
    if "max_tokens" not in accepted:
        return engine
    name = type(engine).__name__
    print(f"engine {name}: sample(prompts, n=..., ...) is the old form: take one SampleRequest", file=sys.stderr)
    return _Older(engine, frozenset(accepted))


class _Older:
    """An older engine with a `sample` that takes a request; everything else is the engine's."""

    def __init__(self, engine: Any, accepted: frozenset[str]) -> None:
        self._engine, self._accepted = engine, accepted

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_engine"], name)

    def sample(self, request: SampleRequest) -> list[Responses]:
        """Call the engine's `sample` with the keywords that it accepts."""
        fields = vars(request).items()
        keywords = {name: value for name, value in fields if name != "prompts" and name in self._accepted}
        if request.rows is None:
            keywords.pop("rows", None)
        responses: list[Responses] = self._engine.sample(request.prompts, **keywords)
        return responses
