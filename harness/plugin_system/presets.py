"""Fill options that the user did not give from a task's `defaults` and from its named presets (`--preset`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.errors import HarnessError, did_you_mean

from .component import Spec, parse_spec
from .registry import Registry, load_registry

ENGINE = "transformers"


def filled(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of `harness run`, as fields of `RunConfig`, completed from the task's defaults and preset.

    Options that the user gave stay; a value of the preset replaces the task's default. The engine is `transformers` if
    nothing names one. With given vectors (`embeddings`) no embedder is filled in.
    """
    options = dict(given)
    if options["preset"] and not options["task"]:
        raise HarnessError("run: --preset goes with --task: it names settings of a task")
    for name, value in _values(options).items():
        is_needless = name == "embedder" and options["embeddings"]
        if not options.get(name) and not is_needless:
            options[name] = value
    options["engine"] = options["engine"] or ENGINE
    return options


def graded_as_the_paper(registry: Registry, task: str) -> str:
    """Return the task's spec with the parameters of `--paper` and RL (`Task.paper["task"]`) added to those in `task`.

    Parameters that are already in `task` stay. All are in the spec, hence in labels, in the record of an RL run, and in
    verdicts' keys.
    """
    spec = parse_spec(task)
    papers = getattr(registry.find("task", spec.name).load(), "paper", {}).get("task", {})
    return str(Spec(spec.name, {**papers, **spec.params}))


def _values(options: Mapping[str, Any]) -> dict[str, Any]:
    """Option -> the value that the task's defaults or the preset give it."""
    if not options["task"]:
        return {}
    name = parse_spec(options["task"]).name
    factory = load_registry(options["plugin_files"]).find("task", name).load()
    presets = getattr(factory, "presets", {})
    preset = options["preset"]
    if preset and preset not in presets:
        known = did_you_mean(preset, presets).replace("installed", "there") if presets else "(the task has none)"
        raise HarnessError(f"task {name!r}: no preset {preset!r} {known}")
    values = {**getattr(factory, "defaults", {}), **(presets[preset] if preset else {})}
    return {"selectors" if option == "selector" else option: value for option, value in values.items()}
