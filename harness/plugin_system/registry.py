"""Find plugins, and list and load what they register.

Entry points are loaded one by one. Whatever goes wrong with one is recorded as a `Fault` (plugin, version, problem,
traceback) and never stops a command that does not need it; `harness doctor` lists all faults. A command that waits for
a plugin says for which (`named`).
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import sys
import threading
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, distributions
from pathlib import Path
from types import ModuleType
from typing import Any

import pluggy

from harness import hookspecs
from harness.errors import Escaped, HarnessError, contained, did_you_mean

GROUP = "harness"
COMMANDS = "harness.commands"  # entry points with commands: the only ones that every command imports
KINDS = (
    *("task", "sampler", "engine", "embedder", "scorer", "selector", "executor", "trainer", "bonus"),
    *("plot", "layout", "command"),
)
IMPORT_S, RANK_S = 10.0, 60.0  # seconds after which the user is told what the command waits for


def plural(kind: str) -> str:
    """The plural of a kind: "bonuses"."""
    return f"{kind}es" if kind.endswith("s") else f"{kind}s"


HOOKS = {f"register_{plural(kind)}": kind for kind in KINDS}


@contextmanager
def named(what: str, after_s: float) -> Iterator[None]:
    """Print one line on stderr if the code inside is still running after `after_s` seconds; `what` names it.

    C code that never releases the interpreter delays this line too.
    """
    line = f"waiting: {what} has taken {after_s:g} s so far"
    timer = threading.Timer(after_s, lambda: print(line, file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@dataclass(frozen=True)
class Origin:
    """Where a plugin came from: a distribution's entry point; or a file, by its name, no version, and its path."""

    dist: str
    version: str
    entry: str

    def __str__(self) -> str:
        return f"{self.dist} {self.version}".strip()


@dataclass(frozen=True)
class Fault:
    """One problem of one plugin, with the traceback of the exception, if one was raised."""

    origin: Origin
    problem: str
    trace: str = ""

    def __str__(self) -> str:
        return f"plugin {self.origin.entry!r} from {self.origin} {self.problem}"


@dataclass(frozen=True)
class Registration:
    """A component that a plugin registered; `factory` is a callable or "package.module:Class".

    described   what fixes the component's behaviour, where no file tells it: that of an object of a Python session
    controls    of a selector: the specs, such as "length:first=long", that are ranked beside selectors by vectors
    """

    kind: str
    name: str
    factory: str | Callable[..., Any]
    origin: Origin
    described: Mapping[str, Any] | None = None
    controls: Sequence[str] = ()

    @property
    def full_name(self) -> str:
        """`dist/name`, which is unambiguous unless the distribution registers the name twice."""
        return f"{self.origin.dist}/{self.name}"

    def load(self) -> Callable[..., Any]:
        """Return the factory, imported if necessary; HarnessError with kind, name and origin if that fails."""
        if not isinstance(self.factory, str):
            return self.factory
        module, _, attribute = self.factory.partition(":")
        what = f"{self.kind} {self.name!r} from {self.origin}"
        try:
            with contained(), named(f"importing {what}", IMPORT_S):
                loaded = getattr(importlib.import_module(module), attribute)
        except Exception as failure:
            raise HarnessError(f"{what} failed to import: {failure}") from failure
        if not callable(loaded):
            raise HarnessError(f"{what}: {self.factory} is not callable")
        return loaded  # type: ignore[no-any-return]

    def own_doc(self) -> str:
        """The factory's docstring; "" if it is the one that `dataclass` generates."""
        factory = self.load()
        text = inspect.getdoc(factory) or ""
        return "" if text.startswith(f"{getattr(factory, '__name__', '')}(") else text

    def summary(self) -> str:
        """The first line of the factory's docstring, or of its module's if it has none; of a command group its help."""
        factory = self.load()
        help_of_group = getattr(getattr(factory, "info", None), "help", None)
        module = sys.modules.get(getattr(factory, "__module__", ""))
        text = help_of_group if isinstance(help_of_group, str) else self.own_doc() or inspect.getdoc(module) or ""
        return text.split("\n")[0]


# The selectors of `harness.run` and `harness.select` that are objects of the caller's (`component.registered`).
SESSION = "session"  # their distribution
own_selectors: ContextVar[tuple[Registration, ...]] = ContextVar("own_selectors", default=())


def is_own(selector: str) -> bool:
    """Whether the selector of that name is an object of the caller's: no other process can build it."""
    return any(registration.name == selector for registration in own_selectors.get())


@dataclass
class Registry:
    """All registrations, and all faults of plugins."""

    registrations: list[Registration] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    def of_kind(self, kind: str) -> list[Registration]:
        """The registrations of a kind, sorted by name."""
        return sorted((r for r in self.registrations if r.kind == kind), key=lambda r: (r.name, r.origin.dist))

    @property
    def controls(self) -> list[str]:
        """The specs of selectors that stand beside selectors by vectors."""
        return [spec for registration in self.of_kind("selector") for spec in registration.controls]

    def find(self, kind: str, name: str) -> Registration:
        """The registration of that name (`name` or `dist/name`); HarnessError if there is none or more than one."""
        known = self.of_kind(kind)
        matches = [r for r in known if name in (r.name, r.full_name)]
        if not matches:
            raise HarnessError(f"unknown {kind} {name!r} {did_you_mean(name, [r.name for r in known])}{self.hint()}")
        if len(matches) > 1:
            origins = " and ".join(f"{r.origin} (entry point {r.origin.entry!r})" for r in matches)
            choices = " or ".join(sorted({repr(r.full_name) for r in matches}))
            raise HarnessError(f"{kind} {name!r} is registered by {origins}: write {choices}")
        return matches[0]

    def hint(self) -> str:
        """Return the end of a message on an unknown name: it names the plugins with faults; "" if there are none."""
        broken = sorted({f"{fault.origin.entry!r} of {fault.origin}" for fault in self.faults})
        return f"; broken plugins, see `harness doctor`: {', '.join(broken)}" if broken else ""


def load_registry(plugin_files: Iterable[str | Path] = (), groups: Collection[str] = (GROUP, COMMANDS)) -> Registry:
    """Return a registry of everything that the installed distributions, `plugin_files` and the caller register.

    A fault in an installed plugin is recorded. A fault in one of `plugin_files`, which the user named, raises
    HarnessError. `groups`: the groups of entry points that are loaded.
    """
    registry = Registry()
    for origin, entry in _installed(groups):
        try:
            with contained(), named(f"importing plugin {origin.entry!r} from {origin}", IMPORT_S):
                plugin = entry.load()
        except Exception as failure:
            registry.faults.append(Fault(origin, f"failed to import: {_short(failure)}", traceback.format_exc()))
        else:
            registry.faults += _register(registry, origin, plugin)
    for path in map(Path, plugin_files):
        if not path.is_file():
            raise HarnessError(f"--plugin {path}: no such file")
        try:
            with contained(), named(f"importing --plugin {path}", IMPORT_S):
                plugin = load_file(path)
        except Exception as failure:
            raise HarnessError(f"--plugin {path} failed to import: {_short(failure)}") from failure
        for fault in _register(registry, Origin(path.stem, "", str(path)), plugin):
            raise HarnessError(f"--plugin {path} {fault.problem}")
    registry.registrations += own_selectors.get()
    return registry


def _installed(groups: Collection[str]) -> list[tuple[Origin, EntryPoint]]:
    """The entry points of these groups, sorted by distribution and name, each once."""
    entries: dict[tuple[str, str, str], tuple[Origin, EntryPoint]] = {}
    for dist in distributions():
        if wanted := [entry for entry in dist.entry_points if entry.group in groups]:
            about = dist.metadata  # parsed at each access
            for entry in wanted:  # a distribution may be on sys.path twice
                origin = Origin(about["Name"], about["Version"], entry.name)
                entries.setdefault((origin.dist, entry.name, entry.value), (origin, entry))
    return [entries[key] for key in sorted(entries)]


def load_file(path: Path) -> ModuleType:
    """Import a Python file, and return the module: `harness_file_STEM` in `sys.modules`, so that its objects pickle."""
    name = f"harness_file_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise HarnessError(f"--plugin {path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _register(registry: Registry, origin: Origin, plugin: object) -> Iterator[Fault]:
    """Call the hooks of one plugin object, and yield its faults."""
    manager = pluggy.PluginManager(GROUP)
    manager.add_hookspecs(hookspecs)
    try:
        manager.register(plugin)
        manager.check_pending()
    except (pluggy.PluginValidationError, ValueError) as failure:
        problem = f"has a hook of the wrong signature: {' '.join(str(failure).split())}"
        if str(failure).startswith("unknown hook"):
            unknown = str(failure).split("'")[1]
            problem = f"has an unknown hook {unknown!r} {did_you_mean(unknown, HOOKS, 'hooks')}"
        yield Fault(origin, problem, traceback.format_exc())
        return
    implementations = manager.get_hookcallers(plugin) or []
    if not implementations:
        unmarked = next((f"{each} is there but not marked with" for each in dir(plugin) if each in HOOKS), None)
        yield Fault(origin, f"has no hook: {unmarked or 'mark a register_* function with'} @hookimpl")
    for caller in implementations:
        kind, before = HOOKS[caller.name], len(registry.registrations)
        try:
            with contained():
                caller(register=functools.partial(_add, registry, kind, origin))
        except Exception as failure:
            yield Fault(origin, f"raised in {caller.name}: {_short(failure)}", traceback.format_exc())
        else:
            if len(registry.registrations) == before:
                yield Fault(origin, f"registers nothing in {caller.name}: call register(name, factory)")


def _add(registry: Registry, kind: str, origin: Origin, name: Any, factory: Any, controls: Sequence[str] = ()) -> None:
    """What a hook calls as `register(name, factory)`; TypeError for what is no name or no factory."""
    word = name.replace(" ", "-", 1) if kind == "command" else name  # in an existing group: "pool push"
    if not isinstance(word, str) or not word or any(c in word for c in "/:,= \n"):
        raise TypeError(f"register: a name is a word without '/', ':', ',', '=' or blanks, got {name!r}")
    if not callable(factory) and not (isinstance(factory, str) and factory.count(":") == 1):
        raise TypeError(f'register({name!r}): the factory is a callable or "package.module:Class", got {factory!r}')
    registry.registrations.append(Registration(kind, name, factory, origin, controls=controls))


def _short(failure: BaseException) -> str:
    text = str(failure).strip().split("\n")[0]
    kind = type(failure).__name__
    return text if isinstance(failure, (ImportError, Escaped)) and text else f"{kind}: {text}" if text else kind
