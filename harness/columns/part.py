"""A component by its spec, such as `repexp:lam=0.1`: plain data that any process can be sent, and builds once.

Components themselves are never sent: an engine would take its loaded weights along.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.plugin_system.component import build, described, parameters, parse_spec, source_hash
from harness.plugin_system.registry import Registry, is_own, load_registry


@dataclass(frozen=True)
class Part:
    """A component of a run: its kind, its spec, what the harness adds to its arguments, and files with plugins."""

    kind: str
    spec: str
    options: tuple[tuple[str, Any], ...] = ()
    plugins: tuple[Path, ...] = ()

    @property
    def name(self) -> str:
        """Its name, without parameters."""
        return parse_spec(self.spec).name

    @property
    def built(self) -> Any:
        """The component; built once in a process, so that a model is loaded once."""
        return _built(self)

    @property
    def described(self) -> Any:
        """All that fixes what it makes: a part of keys."""
        return _described(self)

    @property
    def is_own(self) -> bool:
        """Whether it is an object of the caller's session, which no other process can build."""
        return is_own(self.spec)


@functools.cache
def registry(plugins: tuple[Path, ...]) -> Registry:
    """What is installed, and what these files register; read once in a process, until `forget`."""
    return load_registry(plugins)


@functools.cache
def _built(part: Part) -> Any:
    return build(registry(part.plugins), part.kind, part.spec, **dict(part.options))


@functools.cache
def _described(part: Part) -> Any:
    component = part.built
    if part.kind == "engine":  # its code is in no key: responses are expensive
        return dict(component.identity())
    if part.kind == "sampler":  # its parameters fix all that it does, unless it steers
        steers = {"name": part.name, "code": source_hash(component)} if getattr(component, "steers", False) else {}
        return {**steers, **parameters(component)}
    registration = registry(part.plugins).find(part.kind, part.name)
    if part.kind == "task":
        return {"task": part.spec, "grader": component.grader, "code": source_hash(component, registration)}
    return described(registration, component)


def identity(part: Part) -> dict[str, Any]:
    """What fixes the component's own model, if it has one; else {}."""
    return dict(part.built.identity()) if hasattr(part.built, "identity") else {}


def forget() -> None:
    """Forget what was built: a plugin may have been installed or edited since."""
    for clear in CACHES:
        clear()


CACHES = [registry.cache_clear, _built.cache_clear, _described.cache_clear]  # what `forget` calls
