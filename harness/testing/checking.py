"""What a check is; how the checks of a kind are run, here or in a process with a limit of time; checks of all kinds."""

from __future__ import annotations

import functools
import importlib
import json
import os
import pickle
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from unittest import SkipTest

import numpy as np

from harness.errors import HarnessError, contained, did_you_mean, error_text
from harness.plugin_system.component import Spec, build, parameters, signature
from harness.plugin_system.registry import Origin, Registration, Registry, load_file, load_registry
from harness.system import console
from harness.system.children import end_limited, limited
from harness.system.progress import doing

KINDS = ("task", "sampler", "engine", "embedder", "selector")
CHECK_S = 120.0  # seconds that a check may take
BUILD_S = 600.0  # seconds to import and build the component; it may load a model
EMBEDDED_MODEL = "tiny24"  # comes with the package; engines are checked with it unless another model is given
FILE_PREFIX = "harness_file_"  # what the registry calls the module of a `--plugin FILE`

Finding = dict[str, str]
Function = Callable[[Any], None]


class ConformanceError(AssertionError):
    """A component does not do what the harness expects: check, component, what, got, what to do, in one line."""


class Inapplicable(SkipTest):
    """Raised where a check does not apply to a component; the text says why."""


class Violation(Exception):
    """A check found a fault; the text is what follows `check: component: ` in the message."""


@dataclass(frozen=True)
class Check:
    """One expectation, called with a built component; see the package's docstring.

    name      in kebab case: `same-rng-same-order`
    summary   what is true of a component that passes
    remedy    what to do about a failure; it ends the message
    presumes  checks that must pass first: if one fails, this one is `Inapplicable` and not a second failure

    A HarnessError that the component itself raises (data not available, an extra not installed) passes through: the
    component was not checked.
    """

    name: str
    summary: str
    remedy: str
    presumes: tuple[Check, ...]
    function: Function

    def __str__(self) -> str:
        return self.name

    def __call__(self, component: Any) -> None:
        """Return, or raise `ConformanceError` or `Inapplicable`."""
        finding = self.finding(component)
        if finding["outcome"] == "failed":
            for other in self.presumes:
                if other.finding(component)["outcome"] == "failed":
                    raise Inapplicable(f"first fix what {other} finds")
            raise ConformanceError(finding["what"])
        if finding["outcome"] == "not applicable":
            raise Inapplicable(finding["what"])

    def finding(self, component: Any) -> Finding:
        """What this check finds, as in `findings`, whether or not those pass that it presumes."""
        try:
            with contained():
                self.function(component)
        except Inapplicable as why:
            return self.found("not applicable", str(why))
        except HarnessError:
            raise
        except Exception as failure:
            who = repr(component)
            who = type(component).__name__ if " at 0x" in who or len(who) > 80 else who
            what = str(failure) if isinstance(failure, Violation) else error_text(failure)
            return self.found("failed", " ".join(f"{self}: {who}: {what}; {self.remedy}".split()))
        return self.found("passed", self.summary)

    def found(self, outcome: str, what: str) -> Finding:
        return {"check": self.name, "outcome": outcome, "what": what}


# The table of checks: kind -> the basic ones, which are presumed by all that come after them; and the others.
_BASIC: dict[str, tuple[Check, ...]] = dict.fromkeys(KINDS, ())
_OTHERS: dict[str, tuple[Check, ...]] = dict.fromkeys(KINDS, ())


def check(kinds: str, remedy: str, basic: bool = False) -> Callable[[Function], Function]:
    """Return a decorator that adds a function of a component to the checks of some kinds, separated by blanks.

    The function raises Violation where it finds a fault; the first line of its docstring is the check's summary.
    """

    def add(function: Function) -> Function:
        summary, table = str(function.__doc__).split("\n")[0], _BASIC if basic else _OTHERS
        for kind in kinds.split():
            name = function.__name__.removeprefix(f"{kind}_").replace("_", "-")
            table[kind] += (Check(name, summary, remedy, _BASIC[kind], function),)
        return function

    return add


def checks(kind: str) -> tuple[Check, ...]:
    """The checks of a kind ("selector", "task", "sampler", "embedder", "engine"), the basic ones first."""
    kind = kind.removesuffix("s")
    if kind not in KINDS:
        raise HarnessError(f"no checks for kind {kind!r} {did_you_mean(kind, KINDS, 'kinds')}")
    for name in ("selector_checks", "task_checks", "engine_checks"):  # they fill the table
        importlib.import_module(f".{name}", __package__)
    return _BASIC[kind] + _OTHERS[kind]


def findings(kind: str, component: Any, run: Callable[[Check], Finding] | None = None) -> Iterator[Finding]:
    """Run each check of the kind on the component and yield a dict for each: check, outcome and what.

    check    the check's name
    outcome  "passed", "failed" or "not applicable", as is one that presumes a check which failed: it is not run
    what     what holds, what is wrong, or why the check does not apply, in one line

    run      how a check is run, if not here
    """
    failed: list[Check] = []
    for each in checks(kind):
        first = next((other for other in failed if other in each.presumes), None)
        if first:
            finding = each.found("not applicable", f"first fix what {first} finds")
        else:
            finding = run(each) if run else each.finding(component)
        if finding["outcome"] == "failed":
            failed.append(each)
        yield finding


# Run checks in a child process, each with a limit of time.


class _Registered(NamedTuple):
    """A registered component, as another process can be sent it."""

    kind: str
    name: str
    plugin_files: tuple[Path, ...]
    given: tuple[tuple[str, Any], ...]


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
    kind, files = kind.removesuffix("s"), tuple(plugin_files)
    checks(kind)
    given: tuple[tuple[str, Any], ...] = (("data", data and str(data)),) if kind == "task" else ()
    given += (("model", model or EMBEDDED_MODEL),) if kind == "engine" else ()
    for each in [name] if name != "*" else [each.full_name for each in load_registry(files).of_kind(kind)]:
        component, labels = _Registered(kind, each, files, given), {"kind": kind, "name": each}
        try:
            for finding in findings(kind, component, functools.partial(_bounded, component, limit_s)):
                yield labels | finding
        except HarnessError as refusal:
            if name != "*":
                raise
            yield labels | {"check": "-", "outcome": "not applicable", "what": str(refusal)}
        finally:
            end_limited()


def _bounded(component: _Registered, limit_s: float, check: Check) -> Finding:
    """What a check finds in a child process; HarnessError if the component cannot be built or checked."""
    who = f"{component.kind} {component.name}"
    with doing(f"{who}, check {check}"):
        try:
            limited(_finding, (component, ""), BUILD_S)
        except (TimeoutError, EOFError):
            fault = f"was not built within {BUILD_S:g} s, or ended the process that built it"
            raise HarnessError(f"{who}: {fault}") from None
        try:
            return limited(_finding, (component, check.name), limit_s)
        except TimeoutError:
            what = f"it took longer than {limit_s:g} s and was ended; make it faster, or allow more (--check-timeout)"
        except EOFError:
            what = "it ended the process that ran it (out of memory?)"
    return check.found("failed", f"{check}: {what}")


def _finding(argument: tuple[_Registered, str]) -> Finding:
    """In the child: build the component, which is kept, and run the check of that name, if there is one."""
    component, name = argument
    built = _built(component)
    return next((each.finding(built) for each in checks(component.kind) if each.name == name), {})


@functools.cache
def _built(component: _Registered) -> Any:
    return build(load_registry(component.plugin_files), component.kind, component.name, **dict(component.given))


# What checks are written with.


def expect(holds: object, what: str) -> None:
    """Raise Violation(what) unless `holds` is true."""
    if not holds:
        raise Violation(what)


def called_elsewhere(function: Callable[[Any], Any], component: Any) -> Any:
    """Return the result of `function(component)` in a new process, sent as JSON: tuples become lists.

    That process has another hash seed, an empty working directory and nothing loaded yet. If the result differs, it
    depends on `hash` of a string, on the order of a set, on a file in the working directory, or on state that this
    process had set up. The function must be importable. Violation if the call fails there; Inapplicable if the
    component cannot be sent.
    """
    module = type(component).__module__
    try:
        call = pickle.dumps((function, component))
    except Exception as failure:
        raise Inapplicable(f"it cannot be pickled, and so not sent to another process: {error_text(failure)}") from None
    if module == "__main__":
        raise Inapplicable("its class is defined in __main__, which another process cannot import")
    file = sys.modules[module].__file__ if module.startswith(FILE_PREFIX) else None
    paths = [str(Path(path).resolve()) if Path(path).exists() else path for path in sys.path]
    code = f"import sys; sys.path[:] = {paths}; from {__name__} import _answer; _answer({file!r})"
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    with tempfile.TemporaryDirectory() as empty:
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", code], input=call, cwd=empty, env=environment, capture_output=True, check=False
        )
    last_line = (done.stderr if done.returncode else done.stdout).decode(errors="replace").strip().split("\n")[-1]
    expect(done.returncode == 0 and last_line, f"another process cannot run it: {last_line:.200}")
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


def without_global_rngs(action: Callable[[], Any], seed: int = 728_364_501) -> Any:
    """The result of an action; Violation if it uses or seeds a random number generator that the whole process shares.

    These are Python's, numpy's legacy one and, where loaded, torch's (only the CPU's). They start from an unlikely
    seed: code that sets a usual seed such as 0 then changes the state. They are left as they were.
    """
    torch = sys.modules.get("torch")
    states = random.getstate(), np.random.get_state(), torch and torch.get_rng_state()

    def seeded() -> None:
        random.seed(seed)
        np.random.seed(seed)
        if torch:
            torch.manual_seed(seed)

    def drawn() -> dict[str, float]:
        numbers = {"random": random.random(), "numpy.random": np.random.random()}
        return numbers | ({"torch": torch.rand(1).item()} if torch else {})

    try:
        seeded()
        expected = drawn()
        seeded()
        result, got = action(), drawn()
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        if torch:
            torch.set_rng_state(states[2])
    touched = [library for library in expected if got[library] != expected[library]]
    expect(not touched, f"it draws from or seeds the global generator of {' and '.join(touched)}")
    return result


@check(" ".join(KINDS), "keep what it is built with as fields of a dataclass, each with its type")
def parameters_round_trip(component: Any) -> None:
    """Its parameters can be read back, written on a command line and built from again; unknown ones are refused."""
    recorded, accepted = parameters(component), signature(type(component))
    given = {name: recorded.get(name) for name in ("data", "model") if name in accepted}  # they need stand in no spec
    kept = {*recorded, *getattr(component, "__dataclass_fields__", ()), *given}  # an InitVar stands for a field
    lost = [name for name in accepted if name not in kept]
    expect(not lost, f"it is built with {', '.join(lost)}, which no dataclass field keeps")
    json.dumps(recorded)  # as with every result
    plain = {name: value for name, value in recorded.items() if name not in given and np.ndim(value) == 0}
    spec = str(Spec("component", {name: "none" if value is None else str(value) for name, value in plain.items()}))
    registry = Registry([Registration("component", "component", type(component), Origin("conformance", "", ""))])
    try:
        got = parameters(build(registry, "component", spec, **given))
    except HarnessError as refusal:
        raise Violation(f"{spec!r} cannot be built again: {refusal}") from refusal
    expect(got == recorded, f"{spec!r} gives the parameters {got}, not {recorded}")
    try:
        type(component)(no_such_parameter=1)
    except (TypeError, HarnessError):
        return
    raise Violation("it silently takes a parameter that it does not have (no_such_parameter=1)")
