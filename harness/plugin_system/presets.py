"""A task's own defaults, and its named settings (`--preset`), filled in where an option was not given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.errors import HarnessError, did_you_mean

from .component import Spec, parse_spec
from .registry import Registry, load_registry

ENGINE = "transformers"


def filled(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of `harness run`, by field of `RunConfig`, with those that the task's defaults and `preset` add.

    What was given stays. A pool that is there already needs no engine, and, where it brings vectors, no embedder.
    """
    options = dict(given)
    values = _values(options) if options["task"] else {}
    if options["preset"] and not options["task"]:
        raise HarnessError("run: --preset goes with --task: it names settings of a task")
    for name, value in values.items():
        needless = name == "embedder" and options["embeddings"]
        if not options.get(name) and not needless:
            options[name] = value
    options["engine"] = options["engine"] or ENGINE
    return options


def graded_as_the_paper(registry: Registry, task: str) -> str:
    """The task's spec with the parameters that it takes under `--paper` and in RL (`Task.paper["task"]`).

    Given ones stay. They stand in the spec, hence in labels, in the record of an RL run, and in every verdict's key.
    """
    spec = parse_spec(task)
    papers = getattr(registry.find("task", spec.name).load(), "paper", {}).get("task", {})
    return str(Spec(spec.name, {**papers, **spec.params}))


def _values(options: Mapping[str, Any]) -> dict[str, Any]:
    """What the task fills in, by option."""
    name = parse_spec(options["task"]).name
    factory = load_registry(options["plugin_files"]).find("task", name).load()
    presets = getattr(factory, "presets", {})
    preset = options["preset"]
    if preset and preset not in presets:
        known = did_you_mean(preset, presets).replace("installed", "there") if presets else "(the task has none)"
        raise HarnessError(f"task {name!r}: no preset {preset!r} {known}")
    values = {**getattr(factory, "defaults", {}), **(presets[preset] if preset else {})}
    return {"selectors" if option == "selector" else option: value for option, value in values.items()}
