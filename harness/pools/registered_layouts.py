"""The layouts that plugins registered: which one fits a file or line, those that are broken left out."""

from __future__ import annotations

import sys
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

from harness.errors import HarnessError, contained, error_text
from harness.plugin_system.component import Spec, build, described
from harness.plugin_system.registry import Registration, Registry, load_registry
from harness.system.json_text import Line

from .layout import FileLayout, LineLayout
from .own import OWN
from .record import Say

BUILT_IN = "diversity-harness"  # the distribution whose layouts `importing.READER` numbers

Layout: TypeAlias = LineLayout | FileLayout


class Layouts:
    """The layouts of a registry (None: of the installed plugins), built when a file first needs one.

    Those of `--plugin` files and other distributions are asked before the built-in ones, so that a parquet file of
    another tool is not taken for lighteval's; else they are asked in the order of registration. A broken one is left
    out: `say` gets a line (None: stderr), and the message on an unknown layout names it.
    """

    def __init__(self, registry: Registry | None = None, say: Say | None = None) -> None:
        self._given, self._say = registry, say or (lambda line: print(line, file=sys.stderr))
        self._broken: list[str] = []

    @cached_property
    def _registry(self) -> Registry:
        return self._given or load_registry()

    @cached_property
    def _built(self) -> list[tuple[Registration, Layout]]:
        built = []
        for registration in sorted(self._registry.registrations, key=_is_built_in):
            try:
                if registration.kind == "layout":
                    layout = build(self._registry, "layout", Spec(registration.full_name))
                    if not isinstance(layout, (LineLayout, FileLayout)):
                        raise HarnessError("it lacks name, fits, read, keys (of lines) or holds (of files)")
                    built.append((registration, layout))
            except HarnessError as failure:
                self._leave_out(registration, str(failure))
        return built

    def _leave_out(self, registration: Registration, reason: str) -> None:
        name = f"{registration.name!r} of {registration.origin}"
        if name not in self._broken:
            self._broken.append(name)
            self._say(f"pool: layout {name} is left out: {reason}")

    def of_file(self, path: Path) -> FileLayout | None:
        """The first layout of files that fits a file or folder."""
        layout: FileLayout | None = self._first(FileLayout, path)
        return layout

    def of_line(self, line: Line) -> LineLayout:
        """The first layout of lines that fits; HarnessError, which names all that are known, where none does."""
        layout: LineLayout | None = self._first(LineLayout, line.value)
        if layout is not None:
            return layout
        layouts = [OWN, *(layout for _, layout in self._built)]
        known = [f"{layout.name} ({layout.keys})" for layout in layouts if isinstance(layout, LineLayout)]
        known += [layout.holds for layout in layouts if isinstance(layout, FileLayout)]
        left_out = f"; left out as broken: {', '.join(self._broken)}" if self._broken else ""
        raise HarnessError(
            f"{line.where}: unknown layout: its keys are {shown_keys(line)}; known are {'; '.join(known)}{left_out}"
            f"{self._registry.hint()}"
        )

    def _first(self, kind: Any, value: Any) -> Any:
        for registration, layout in self._built:
            try:
                with contained():
                    if isinstance(layout, kind) and layout.fits(value):
                        return layout
            except (HarnessError, OSError):
                raise
            except Exception as failure:
                self._leave_out(registration, error_text(failure))
        return None

    def identity(self, layout: Layout) -> dict[str, Any] | None:
        """What fixes how a layout reads, for keys: name, distribution, code; None for our own and the built-in ones."""
        others = (registration for registration, built in self._built if built is layout)
        return next((described(other, layout) for other in others if not _is_built_in(other)), None)

    @property
    def has_others(self) -> bool:
        """Whether there are layouts beside our own and the built-in ones."""
        return any(each.kind == "layout" and not _is_built_in(each) for each in self._registry.registrations)


def _is_built_in(registration: Registration) -> bool:
    return registration.origin.dist == BUILT_IN


def shown_keys(line: Line) -> str:
    """A line's keys, quoted, for messages."""
    return f"{', '.join(map(repr, line.value)) or 'none':.300}"
