"""Run checks in a child process, each with a limit of time, and repeat a call in a process with nothing in common.

A check that does not end is a failure that says so, and the others go on in a new process.
"""

from __future__ import annotations

import functools
import json
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.plugin_system.component import build
from harness.plugin_system.registry import load_file, load_registry
from harness.system import console
from harness.system.children import end_limited, limited
from harness.system.progress import doing

from .checking import Check, Finding, Inapplicable, Violation, checks, expect, finding_of, findings_by, found

CHECK_S = 120.0  # seconds that a check may take
BUILD_S = 600.0  # seconds to start Python, import and build the component; it may load a model
ELSEWHERE_S = 300  # seconds that a call in another process may take
EMBEDDED_MODEL = "tiny24"  # comes with the package; engines are checked with it unless another model is given
FILE_PREFIX = "harness_file_"  # what the registry calls the module of a `--plugin FILE`


def check_registered(
    kind: str,
    name: str,
    *,
    data: Path | None = None,
    model: str | None = None,
    plugin_files: Sequence[Path] = (),
    limit_s: float = CHECK_S,
) -> Iterator[Finding]:
    """Run the checks on a registered component (`name` or `name:param=value`), or with `*` on all of the kind.

    data     a task's local file with problems; None is the task's own source
    model    the model of an engine; None is the small one that comes with the package
    limit_s  a check that takes longer has failed, as has one that ends its process

    Each finding comes as soon as its check ends. It is as in `findings`, with the kind and the component's name added.
    A component that cannot be built or checked raises HarnessError; with `*` it is a last finding, "not applicable",
    and the others are still checked.
    """
    kind = kind.removesuffix("s")
    checks(kind)
    names = [name] if name != "*" else [each.full_name for each in load_registry(plugin_files).of_kind(kind)]
    contexts: dict[str, dict[str, Any]] = {
        "task": {"data": data and str(data)},
        "engine": {"model": model or EMBEDDED_MODEL},
    }
    for each in names:
        labels = {"kind": kind, "name": each}
        child = _Child(kind, each, tuple(plugin_files), contexts.get(kind, {}))
        try:
            for finding in findings_by(partial(child.finding_of, limit_s), kind):
                yield labels | finding
        except HarnessError as refusal:
            if name != "*":
                raise
            yield labels | {"check": "-", "outcome": "not applicable", "what": str(refusal)}
        finally:
            child.end()


class _Child:
    """A process that has built a component and runs checks on it; a new one after it was ended."""

    def __init__(self, kind: str, name: str, plugin_files: tuple[Path, ...], context: dict[str, Any]) -> None:
        self.arguments = (kind, name, plugin_files, tuple(context.items()))

    def finding_of(self, limit_s: float, check: Check) -> Finding:
        """What a check finds; HarnessError if the component cannot be built or checked."""
        kind, name, *_ = self.arguments
        with doing(f"{kind} {name}, check {check.name}"):
            try:
                limited(_finding, (self.arguments, ""), BUILD_S)
            except TimeoutError:
                raise HarnessError(f"{kind} {name!r} was not built within {BUILD_S:g} s") from None
            except EOFError:
                raise HarnessError(f"{kind} {name!r} ended the process that built it") from None
            try:
                return limited(_finding, (self.arguments, check.name), limit_s)
            except TimeoutError:
                what = (
                    f"it took longer than {limit_s:g} s and was ended; make it faster, or allow more (--check-timeout)"
                )
            except EOFError:
                what = "it ended the process that ran it (out of memory?)"
            return found(check, "failed", f"{check.name}: {what}")

    def end(self) -> None:
        """End the process, if there is one."""
        end_limited()


def _finding(call: tuple[Any, str]) -> Finding:
    """In the child: build the component, which is kept, and run the check of that name, if there is one."""
    (kind, name, plugin_files, context), wanted = call
    component = _built(kind, name, plugin_files, context)
    return next((finding_of(check, component) for check in checks(kind) if check.name == wanted), {})


@functools.cache
def _built(kind: str, name: str, plugin_files: tuple[Path, ...], context: tuple[tuple[str, Any], ...]) -> Any:
    return build(load_registry(plugin_files), kind, name, **dict(context))


def called_elsewhere(function: Callable[[Any], Any], component: Any) -> Any:
    """Return the result of `function(component)` in a new process, sent as JSON: tuples become lists.

    That process has another hash seed, an empty working directory and nothing loaded yet. If the result differs, it
    depends on `hash` of a string, on the order of a set, on a file in the working directory, or on state that this
    process had set up. The function must be importable. Violation if the call fails there; Inapplicable if the
    component's class is defined in `__main__`.
    """
    module = type(component).__module__
    if module == "__main__":
        raise Inapplicable("its class is defined in __main__, which another process cannot import")
    file = sys.modules[module].__file__ if module.startswith(FILE_PREFIX) else None
    paths = [str(Path(path).resolve()) if Path(path).exists() else path for path in sys.path]
    with tempfile.TemporaryDirectory() as empty:
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                f"import sys; sys.path[:] = {paths}; from {__name__} import _answer; _answer({file!r})",
            ],
            input=pickle.dumps((function, component)),
            cwd=empty,
            env=os.environ | {"PYTHONHASHSEED": "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"},
            capture_output=True,
            timeout=ELSEWHERE_S,
        )
    if done.returncode:
        last_line = done.stderr.decode(errors="replace").strip().split("\n")[-1]
        raise Violation(f"another process cannot run it: {last_line:.200}")
    last_line = done.stdout.decode().strip().split("\n")[-1]
    expect(last_line, "another process gave no answer")
    return json.loads(last_line)


def _answer(file: str | None) -> None:
    """Read a call from stdin and print its result; runs in the new process, whose other output goes to stderr.

    file   the plugin file that defines the component, loaded first; None if its module can be imported
    """
    with console.reserved():
        if file is not None:
            load_file(Path(file))
        function, component = pickle.load(sys.stdin.buffer)
        console.write(f"{json.dumps(function(component))}\n")
    console.end()
