"""Hash a component's code: its module, and all modules of its distribution that it imports, directly or indirectly.

Imports are read from the source files, inside functions and `try` too; which modules are loaded makes no difference.
`syntax_text` defines which parts of a file count. An import within the distribution enters as the hash of the imported
module, never by path or file name, so that moving a file changes nothing; modules may import each other in a circle.
Imports from other distributions enter by name only, those from `harness` too: code of the core that changes results is
versioned (`harness.store.versions`).
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from .compiled_code import compiled_text
from .syntax_text import Import, SyntaxText, syntax_text

CORE = "harness"
BUILT_IN = frozenset({"harness_tasks", "harness_selectors", "harness_plugins"})
SHARED_FOLDERS = ("site-packages", "dist-packages")
SHOWN = 16  # hex digits


@dataclass(frozen=True)
class Module:
    """A module: its dotted name and its file."""

    name: str
    path: Path

    @property
    def package(self) -> str:
        """The package at which its relative imports (`from . import`) start."""
        return self.name if self.path.stem == "__init__" else self.name.rpartition(".")[0]


def code_hash(of: Iterable[type | Any], dist: str = "", without: frozenset[str] = frozenset()) -> str:
    """The hash of the code of classes or functions, 16 hex digits; "" if all of them belong to the core.

    dist      the distribution that they belong to, "" if none is known
    without   class members that are left out
    """
    roots = list(dict.fromkeys(of))
    graph = _graph(roots, dist, without)
    hashes = _hashes(graph)
    parts = [hashes[module] for module in graph.roots]
    parts += [compiled_text(root) for root in roots if _module(root) is None and not _is_core(root.__module__)]
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:SHOWN] if parts else ""


def modules_of(of: Iterable[type | Any], dist: str = "", without: frozenset[str] = frozenset()) -> list[str]:
    """The dotted names of the modules that `code_hash` hashes, sorted."""
    return sorted(module.name for module in _graph(list(of), dist, without).texts)


@dataclass
class _Graph:
    """Modules with their texts; each import in a text has its module as target, or None outside the distribution."""

    roots: list[Module]
    texts: dict[Module, SyntaxText] = field(default_factory=dict)
    targets: dict[Module, list[tuple[Module | None, str]]] = field(default_factory=dict)


def _graph(roots: Sequence[Any], dist: str, without: frozenset[str]) -> _Graph:
    graph = _Graph([module for module in map(_module, roots) if module is not None])
    todo = list(graph.roots)
    finders = {module: _Finder(module, dist) for module in todo}
    while todo:
        module = todo.pop()
        if module in graph.texts:
            continue
        finder = finders[module]
        text = graph.texts[module] = _text(module.path, without)
        graph.targets[module] = [finder.target(module, origin) for origin in text.imports]
        for target, _ in graph.targets[module]:
            if target is not None and target not in graph.texts:
                finders[target] = finder
                todo.append(target)
    return graph


def _text(path: Path, without: frozenset[str]) -> SyntaxText:
    source = path.read_bytes()
    if path.suffix == ".py":
        return syntax_text(source, without)
    return SyntaxText(hashlib.sha256(source).hexdigest(), ())


def _hashes(graph: _Graph) -> dict[Module, str]:
    """The hash of each module: of its text and of the hashes of its imports, updated in as many rounds as modules.

    No path of imports is longer than that, so each hash covers all modules that are reached; circles need no special
    treatment.
    """
    hashes = {module: text.digest for module, text in graph.texts.items()}
    for _ in range(len(hashes)):
        hashes = {module: _with_imports(graph, module, hashes) for module in hashes}
    return hashes


def _with_imports(graph: _Graph, module: Module, hashes: Mapping[Module, str]) -> str:
    imports = [f"{hashes[target] if target else ''} {name}" for target, name in graph.targets[module]]
    return hashlib.sha256("\n".join([graph.texts[module].digest, *imports]).encode()).hexdigest()


class _Finder:
    """Finds the modules of one component's distribution without importing them."""

    def __init__(self, root: Module, dist: str) -> None:
        self.root = root
        top = root.name.partition(".")[0]
        self._built_in = top in BUILT_IN
        self._container = _container(root)
        of_dist = frozenset() if self._built_in else _top_levels(dist)
        self._tops = BUILT_IN | {top} | (of_dist if top in of_dist else frozenset())
        self._specs: dict[str, ModuleSpec | None] = {}

    def target(self, module: Module, origin: Import) -> tuple[Module | None, str]:
        """The imported module and the name taken from it; outside the distribution None and the full name."""
        if origin.level == -2:
            path = module.path.with_name(origin.module)
            exists = path.is_file() and path != module.path
            return (Module(f"{module.package}.{path.stem}", path), "") if exists else (None, origin.module)
        name = _absolute(module.package, origin)
        if name.partition(".")[0] == CORE and origin.level >= 0:
            return None, f"{CORE}:{origin.name}"
        submodule = self._find(f"{name}.{origin.name}") if origin.name else None
        if submodule:
            return submodule, ""
        imported = self._find(name)
        return (imported, origin.name) if imported else (None, f"{name}:{origin.name}")

    def _find(self, name: str) -> Module | None:
        top, *rest = name.split(".")
        if not top or not self._is_local(top):
            return None
        if name == self.root.name:
            return self.root
        spec = self._spec(top)
        path, folders = Path(spec.origin or "") if spec else Path(), _folders(spec)
        module = Module(top, path) if path.is_file() else None
        for part in rest:
            top = f"{top}.{part}"
            module, folders = _inside(folders, part, top)
        return module

    def _is_local(self, top: str) -> bool:
        if top in self._tops:
            return True
        if self._built_in or top in sys.stdlib_module_names or self._container is None:
            return False
        spec = self._spec(top)
        places = [*_folders(spec), Path(spec.origin or "")] if spec else []
        return bool(places) and places[0].parent == self._container

    def _spec(self, top: str) -> ModuleSpec | None:
        if top not in self._specs:
            try:
                self._specs[top] = importlib.util.find_spec(top)
            except (ImportError, ValueError, AttributeError):  # a module loaded by hand has no spec
                self._specs[top] = None
        return self._specs[top]


def _folders(spec: ModuleSpec | None) -> list[Path]:
    return [Path(place) for place in (spec.submodule_search_locations if spec else None) or []]


def _container(root: Module) -> Path | None:
    """The folder of the root's top-level package or module; None if other distributions are in that folder too."""
    parents = root.path.parents
    container = parents[min(root.package.count(".") + bool(root.package), len(parents) - 1)]
    return None if container.name in SHARED_FOLDERS or "lib-dynload" in container.parts else container


def _absolute(package: str, origin: Import) -> str:
    if origin.level <= 0:
        return origin.module
    parts = package.split(".") if package else []
    base = parts[: len(parts) - origin.level + 1]
    return ".".join([*base, origin.module] if origin.module else base)


def _inside(folders: Iterable[Path], part: str, name: str) -> tuple[Module | None, list[Path]]:
    """The module of that stem in one of the folders (None if it has no file), and the folders of its submodules."""
    spaces = []
    for folder in folders:
        if (folder / part / "__init__.py").is_file():
            return Module(name, folder / part / "__init__.py"), [folder / part]
        for suffix in (".py", *EXTENSION_SUFFIXES):
            if (folder / f"{part}{suffix}").is_file():
                return Module(name, folder / f"{part}{suffix}"), []
        if (folder / part).is_dir():
            spaces.append(folder / part)
    return None, spaces


def _top_levels(dist: str) -> frozenset[str]:
    """The top-level names that a distribution installs; none if it is not installed."""
    try:
        installed = distribution(dist) if dist else None
    except (PackageNotFoundError, ValueError):
        return frozenset()
    if installed is None:
        return frozenset()
    listed = (installed.read_text("top_level.txt") or "").split()
    entries = [entry.module.partition(".")[0] for entry in installed.entry_points]
    files = [file.parts[0].partition(".")[0] for file in installed.files or () if file.suffix == ".py"]
    return frozenset({*listed, *entries, *files}) - {CORE}


def _is_core(module: str) -> bool:
    return module.partition(".")[0] == CORE


def _module(root: Any) -> Module | None:
    """The module that defines the class or function; None if it belongs to the core or has no file."""
    name = root.__module__
    path = getattr(sys.modules.get(name), "__file__", None)
    if _is_core(name) or not path or not Path(path).is_file():
        return None
    spec = getattr(sys.modules[name], "__spec__", None)
    return Module(spec.name if name == "__main__" and spec is not None else name, Path(path))
