"""The hooks by which plugins register components. They serve discovery only: a run calls components directly.

A plugin is any module (or object) with such functions, named in the entry-point group "harness". `contracts` says what
a component must offer. The factory is a callable or, so that listing plugins imports nothing heavy, a string:

    from harness import hookimpl

    @hookimpl
    def register_selectors(register):
        register("shortest", "my_package.shortest:Shortest")
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pluggy

hookspec = pluggy.HookspecMarker("harness")
hookimpl = pluggy.HookimplMarker("harness")


Register: TypeAlias = Callable[..., None]  # register(name, factory), the factory a callable or "module:Class"


@hookspec
def register_tasks(register: Register) -> None:
    """register("game24", "harness_tasks.game24:Game24"): built with `data=FILE or None`."""


@hookspec
def register_samplers(register: Register) -> None:
    """register("min-p", MinP): a dataclass that is, or has the fields of, `harness.Sampler`."""


@hookspec
def register_engines(register: Register) -> None:
    """register("transformers", "my_package.engine:Transformers"): built with `model=NAME or None`."""


@hookspec
def register_embedders(register: Register) -> None:
    """register("tfidf", "my_package.tfidf:Tfidf"): vectors from texts, or from the engine's hidden states."""


@hookspec
def register_scorers(register: Register) -> None:
    """register("reward-model", "my_package.reward:Reward"): a number for each response, which selectors read."""


@hookspec
def register_selectors(register: Register) -> None:
    """register("uniform", "my_package.uniform:Uniform"): `rank(pool, rng)` or `select(pool, k, rng)`.

    `register("norm", "my_package.norm:Norm", controls=["norm"])`: a simple order that is ranked beside every selector
    that reads vectors, and stands in the section of random and oracle; tables say which selectors cannot be told from
    it. `controls` are its specs, so that `length:first=long` can be one.
    """


@hookspec
def register_executors(register: Register) -> None:
    """register("local", "my_package.local:Local"): `map(function, items)`, in order."""


@hookspec
def register_trainers(register: Register) -> None:
    """register("verl", "my_package.verl:Verl"): launches RL runs (`check`, `launch`, `saved`, `export`)."""


@hookspec
def register_bonuses(register: Register) -> None:
    """register("repexp", "my_package.bonus:RepExpBonus"): `shape(rollouts, step, seed, memory)`, the rewards of RL."""


@hookspec
def register_plots(register: Register) -> None:
    """register("scatter", "my_package.scatter:Scatter"): a figure of `harness plot`; its docstring says what it shows.

    `rows(request)` returns the plotted data, a list of flat dicts, from the cells in `request.folders`; `draw(rows)` a
    matplotlib Figure, made from that table and from nothing else. `request` has all options of the command.
    """


@hookspec
def register_layouts(register: Register) -> None:
    """register("verl", "my_package.layouts:Verl"): reads pool files of another tool, see `harness.pools.record`."""


@hookspec
def register_commands(register: Register) -> None:
    """register("rl", "my_package.commands:rl_app"), a typer.Typer: a group of commands; or a function: one command.

    In a name of two words ("pool push") the first is an existing group. Only modules named in the entry-point group
    "harness.commands" are asked: `harness --help` imports no other plugin. Options that many commands share are in
    `harness.plugin_system.command_options`.
    """
