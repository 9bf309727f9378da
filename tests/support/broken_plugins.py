"""Broken plugins, each with one mistake that people make: what the conformance kit must catch. A plugin file too."""

from __future__ import annotations

from harness import hookimpl
from support import broken_engines, broken_selectors, broken_tasks
from support.broken import BY_KIND, Sound

MODULES = (broken_selectors, broken_tasks, broken_engines)  # importing them fills BY_KIND


@hookimpl
def register_selectors(register):
    register("sound", Sound)
    for factory in BY_KIND["selector"]:
        register(factory.__name__.lower(), factory)


@hookimpl
def register_tasks(register):
    register("lamps", broken_tasks.Lamps)
