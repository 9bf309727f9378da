"""What is installed: lists of plugins, details of a component, a task's first prompt, faults of plugins."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.errors import HarnessError, did_you_mean
from harness.system import extras

from .component import build, signature
from .registry import HOOKS, KINDS, load_registry


def _kind(text: str) -> str:
    """The kind that a text names, in the singular or plural; HarnessError if there is none."""
    kind = HOOKS.get(f"register_{text}", text)
    if kind not in KINDS:
        raise HarnessError(f"unknown kind {text!r} {did_you_mean(kind, KINDS, 'kinds')}")
    return kind


def listing(kind: str | None, plugin_files: Sequence[Path]) -> list[dict[str, str]]:
    """Return a dict for each registration of a kind (None: of all): its kind, name, plugin (`from`), summary (`what`).

    `what` is the first line of the component's docstring, and for selectors that learn from outcomes a sentence that
    says so; or it says why the component cannot be imported.
    """
    registry = load_registry(plugin_files)
    rows = []
    for registration in (each for listed in ([_kind(kind)] if kind else KINDS) for each in registry.of_kind(listed)):
        try:
            learns = hasattr(registration.load(), "pick_after")
            summary = registration.summary() + (" Learns from outcomes." if learns else "")
        except HarnessError as failure:
            summary = f"broken: {failure}"
        labels = {"kind": registration.kind, "name": registration.name, "from": str(registration.origin)}
        rows.append({**labels, "what": summary})
    return rows


def kind_of(name: str, plugin_files: Sequence[Path]) -> str:
    """The kind of the component of this name, of several the first of `KINDS`; HarnessError if there is none."""
    registered = load_registry(plugin_files).registrations
    kinds = {each.kind for each in registered if name in (each.name, each.full_name)}
    if not kinds:
        guess = did_you_mean(name, {each.name for each in registered}, "")
        raise HarnessError(f"show: nothing is named {name!r}" + (f": {guess}" if guess else ": see `harness list`"))
    return min(kinds, key=KINDS.index)


def details(kind: str, name: str, plugin_files: Sequence[Path]) -> dict[str, Any]:
    """Return one component's kind, name, plugin (`from`), full_name, summary (`what`), parameters, docstrings (`doc`).

    `parameters` maps each name to its type, as text, and its default ("required" if it has none). `data` of a task and
    `model` of an engine are left out: the harness passes them. `doc` joins the docstrings of the module and the class.
    """
    registration = load_registry(plugin_files).find(_kind(kind), name)
    factory = registration.load()
    defaults = inspect.signature(factory).parameters
    parameters = {}
    for key, hint in signature(factory).items():
        if key != {"task": "data", "engine": "model"}.get(registration.kind):
            type_ = hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")
            default = defaults[key].default
            parameters[key] = {"type": type_, "default": "required" if default is inspect.Parameter.empty else default}
    module = inspect.getdoc(sys.modules.get(getattr(factory, "__module__", "")))
    return {
        "kind": registration.kind,
        "name": registration.name,
        "from": str(registration.origin),
        "full_name": registration.full_name,
        "what": registration.summary(),
        "parameters": parameters,
        "doc": "\n\n".join(filter(None, (module, registration.own_doc()))),
    }


def example(kind: str, name: str, data: Path | None, plugin_files: Sequence[Path]) -> dict[str, Any]:
    """Return a task's first problem: its id, its raw prompt, and what an instruct and a base model see of it.

    `data` is the file with the task's problems; None is the task's own source. HarnessError for another kind.
    """
    if _kind(kind) != "task":
        raise HarnessError(f"show --example: for tasks only, got {kind}")
    task = build(load_registry(plugin_files), "task", name, data=data and str(data))
    problem = next(iter(task.problems(task.default_split("")[0])))
    chat = {"messages": task.messages(problem), "plain": task.plain(problem)}
    return {"id": problem.id, "prompt": problem.prompt, **chat}


def diagnosis(plugin_files: Sequence[Path]) -> dict[str, Any]:
    """Return what is registered, which plugins are at fault, and what tasks remark on grading.

    registered  kind -> number of registrations
    faults      dicts of plugin, fault and trace (the traceback, or ""): also for components that cannot be imported
    lacking     line -> the components that it is about: libraries that are not installed, and what installs them
    graders     task -> its remark on grading on this machine (`Task.check`), for tasks that have one
    """
    registry = load_registry(plugin_files)
    faults = [{"plugin": str(f.origin), "fault": str(f), "trace": f.trace} for f in registry.faults]
    lacking: dict[str, list[str]] = {}
    graders: dict[str, str] = {}
    for registration in registry.registrations:
        try:
            libraries = extras.missing(getattr(registration.load(), "libraries", ()))
        except HarnessError as failure:
            faults.append({"plugin": str(registration.origin), "fault": str(failure), "trace": ""})
            continue
        if libraries:
            line = f"{', '.join(libraries)} not installed: {extras.pip_command(libraries)}"
            lacking.setdefault(line, []).append(f"{registration.kind} {registration.name}")
    for registration in registry.of_kind("task"):
        try:
            remark = build(registry, "task", registration.full_name, data=None).check()
        except Exception as failure:
            named = "" if isinstance(failure, HarnessError) else f"{type(failure).__name__}: "
            reason = str(failure).removeprefix(f"{registration.name}: ")
            remark = f"cannot grade on this machine: {named}{reason}"
        if remark:
            graders[registration.name] = remark
    counts = {kind: len(registry.of_kind(kind)) for kind in KINDS}
    return {"registered": counts, "faults": faults, "lacking": lacking, "graders": graders}
