"""Run checks in a child process, each with a limit of time: a check that does not end is a failure that says so."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.plugin_system.component import build
from harness.plugin_system.registry import load_registry
from harness.system.children import BoundedChild, end_with_owner
from harness.system.progress import doing

from .checking import FIRST_FIX, Check, remember
from .run_checks import Finding, checks, finding_of

CHECK_S = 120.0  # seconds that a check may take
BUILD_S = 600.0  # seconds to start Python, import and build the component; it may load a model
EMBEDDED_MODEL = "tiny24"  # comes with the package; engines are checked with it unless another model is given


@dataclass(frozen=True)
class Subject:
    """A registered component to check: its kind, its spec, and what the harness passes to it.

    data   a task's local file with problems; None is the task's own source
    model  the model of an engine; None is the small one that comes with the package
    """

    kind: str
    name: str
    data: Path | None = None
    model: str | None = None
    plugin_files: tuple[Path, ...] = ()

    def built(self) -> Any:
        """The component, built anew."""
        contexts: dict[str, dict[str, Any]] = {
            "task": {"data": self.data and str(self.data)},
            "engine": {"model": self.model or EMBEDDED_MODEL},
        }
        return build(load_registry(self.plugin_files), self.kind, self.name, **contexts.get(self.kind, {}))


def check_registered(
    kind: str,
    name: str,
    *,
    data: Path | None = None,
    model: str | None = None,
    plugin_files: Sequence[Path] = (),
    report: Callable[[str], None] = lambda text: None,
) -> list[Finding]:
    """Run the checks on a registered component (`name` or `name:param=value`), or with `*` on all of the kind.

    data    a task's local file with problems; None is the task's own source
    model   the model of an engine; None is the small one that comes with the package
    report  called with a line of text before the checks of each component

    Each finding is as in `findings`, with the kind and the component's name added. A component that cannot be built
    or checked raises HarnessError; with `*` it is reported as not applicable, and the others are still checked.
    """
    rows: list[Finding] = []
    for each in names(kind, name, plugin_files):
        subject = Subject(kind.removesuffix("s"), each, data, model, tuple(plugin_files))
        report(f"{subject.kind} {each}: {len(checks(kind))} checks")
        rows += checked(subject, refusable=name == "*")
    return rows


def names(kind: str, name: str, plugin_files: Sequence[Path]) -> list[str]:
    """The name itself, or with `*` the full names of all components of the kind; HarnessError for an unknown kind."""
    checks(kind)
    if name != "*":
        return [name]
    registry = load_registry(plugin_files)
    return [registration.full_name for registration in registry.of_kind(kind.removesuffix("s"))]


def checked(subject: Subject, limit_s: float = CHECK_S, refusable: bool = False) -> Iterator[Finding]:
    """Run each check of the subject's kind on it, and yield its finding as soon as it ends, with kind and name.

    A check that takes longer than `limit_s` seconds has failed; so has one that ends its process. The checks that
    presume it do not apply. HarnessError if the component cannot be built or checked; if `refusable`, that is a last
    finding, "not applicable".
    """
    labels = {"kind": subject.kind, "name": subject.name}
    try:
        for finding in _findings(subject, limit_s):
            yield labels | finding
    except HarnessError as refusal:
        if not refusable:
            raise
        yield labels | {"check": "-", "outcome": "not applicable", "what": str(refusal)}


def _findings(subject: Subject, limit_s: float) -> Iterator[Finding]:
    held: dict[str, bool] = {}
    child: BoundedChild | None = None
    try:
        for place, check in enumerate(checks(subject.kind)):
            broken = [other.name for other in check.presumes if not held.get(other.name, True)]
            with doing(f"{subject.kind} {subject.name}, check {check.name}"):
                if broken:
                    finding = _finding(check, "not applicable", f"{FIRST_FIX} {broken[0]} finds")
                else:
                    child = child if child and child.alive else _started(subject)
                    finding = _asked(child, check, (place, held), limit_s)
            held[check.name] = finding["outcome"] != "failed" and not finding["what"].startswith(FIRST_FIX)
            yield finding
    finally:
        if child:
            child.end()


def _finding(check: Check, outcome: str, what: str) -> Finding:
    return {"check": check.name, "outcome": outcome, "what": what}


def _started(subject: Subject) -> BoundedChild:
    """A process that has built the subject; HarnessError if it cannot be built."""
    multiprocessing.set_forkserver_preload([f"{__package__}.{subject.kind}_checks", __name__])  # imported once for all
    child = BoundedChild(_serve, subject)
    try:
        refusal = child.answer(BUILD_S)
    except TimeoutError:
        refusal = f"{subject.kind} {subject.name!r} was not built within {BUILD_S:g} s"
    except EOFError:
        refusal = f"{subject.kind} {subject.name!r} ended the process that built it"
    if refusal is not None:
        child.end()
        raise HarnessError(refusal)
    return child


def _asked(child: BoundedChild, check: Check, request: tuple[int, dict[str, bool]], limit_s: float) -> Finding:
    try:
        answer = child.ask(request, limit_s)
    except TimeoutError:
        what = f"it took longer than {limit_s:g} s and was ended; make it faster, or allow more (--check-timeout)"
        return _finding(check, "failed", f"{check.name}: {what}")
    except EOFError:
        return _finding(check, "failed", f"{check.name}: it ended the process that ran it (out of memory?)")
    if isinstance(answer, str):
        raise HarnessError(answer)
    finding: Finding = answer
    return finding


def _serve(link: Connection, subject: Subject) -> None:
    """In the child: build the component, then run the checks asked for; a refusal is sent as its text."""
    end_with_owner()
    with suppress(EOFError, KeyboardInterrupt):
        try:
            component = subject.built()
        except HarnessError as refusal:
            return link.send(str(refusal))
        link.send(None)
        while True:
            place, held = link.recv()
            for name, outcome in held.items():
                remember(name, component, outcome)
            try:
                link.send(finding_of(checks(subject.kind)[place], component))
            except HarnessError as refusal:
                link.send(str(refusal))
