"""A mutation campaign: change one place of the code at a time, and see whether a test fails.

    python tests/campaigns/mutation.py list            choose mutants; those of seed 0 are kept in mutants.jsonl
    python tests/campaigns/mutation.py cover           run the suite once, and note which test runs which line
    python tests/campaigns/mutation.py check           whether these tests pass on unchanged code
    python tests/campaigns/mutation.py run             try each mutant of mutants.jsonl on the tests that run its line
    python tests/campaigns/mutation.py run --tests "tests/unit tests/e2e" --survivors
                                                       try those that survived on all of these tests
    python tests/campaigns/mutation.py report          counts by area, and the survivors

A mutant is known by file, function, operator and its number among those of the function, so the list outlives moved
lines. `run` edits the files in place, one at a time, and restores them: start it in a checkout without changes. Two
parts side by side (`--part 1/2`) want a checkout each. Outcomes are kept in .mutation/; a killed campaign goes on.

A line that runs only in other processes has no test that is known to run it: its mutants meet the tests that run any
line of its folder.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_name("mutants.jsonl")
KEPT = ROOT / ".mutation"
AREAS = ("harness/scoring", "harness/columns", "selectors", "tasks/math_answers", "tasks/sandbox")
EACH = 50  # mutants of an area
BUDGET_S, LIMIT_S = 60.0, 300.0  # what the tests of one mutant take in all, and when it counts as hanging

COMPARED = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.In: "not in"}
COMPARED |= {ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is"}
CALCULATED = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "*", ast.Mod: "*", ast.Pow: "*"}
SWAPPED = {"min": "max", "max": "min", "any": "all", "all": "any", "argmax": "argmin", "argmin": "argmax"}


@dataclass(frozen=True)
class Mutant:
    """One change. `nth`: its place among the changes by the same operator in that function; `before`, `after`: text."""

    path: str
    function: str
    operator: str
    nth: int
    before: str
    after: str


@dataclass(frozen=True)
class Place:
    """A change at a place of a source text."""

    mutant: Mutant
    line: int
    start: int
    end: int


def places(path: Path) -> Iterator[Place]:
    """Every change that the operators can make in a file."""
    text = path.read_text(encoding="utf-8")
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    encoded = text.encode()
    counts: Counter[tuple[str, str]] = Counter()
    for node, function in _nodes(ast.parse(text), ""):
        for operator, target, after in _changes(node, encoded, starts):
            begin, end = _span(target, starts)
            before = encoded[begin:end].decode()
            key = (function, operator)
            mutant = Mutant(path.relative_to(ROOT).as_posix(), function, operator, counts[key], before, after)
            counts[key] += 1
            yield Place(mutant, target.lineno, begin, end)


def _nodes(node: ast.AST, function: str) -> Iterator[tuple[ast.AST, str]]:
    """All nodes of code that runs, with their function: no annotations, docstrings, f-strings, messages."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(
                child, (ast.JoinedStr, ast.Raise, ast.Import, ast.ImportFrom)
            ):
                continue
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            inside = function
            if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
                inside = f"{function}.{child.name}".lstrip(".")
            yield child, inside
            yield from _nodes(child, inside)


def _changes(node: ast.AST, text: bytes, starts: list[int]) -> Iterator[tuple[str, ast.expr | ast.stmt, str]]:
    """The changes of one node: the operator's name, what is replaced, by what."""

    def source(part: ast.AST) -> str:
        begin, end = _span(part, starts)
        return text[begin:end].decode()

    if isinstance(node, (ast.Compare, ast.BinOp, ast.AugAssign, ast.BoolOp, ast.UnaryOp)):
        yield from _of_an_operation(node, source)
    elif isinstance(node, (ast.If, ast.While, ast.IfExp)):
        yield "condition", node.test, f"(not ({source(node.test)}))"
    else:
        yield from _of_the_rest(node, source)


def _of_an_operation(node: ast.AST, source: Callable[[ast.AST], str]) -> Iterator[tuple[str, ast.expr | ast.stmt, str]]:
    match node:
        case ast.Compare(ops=[op]) if type(op) in COMPARED:
            yield "compare", node, f"({source(node.left)} {COMPARED[type(op)]} {source(node.comparators[0])})"
        case ast.BinOp() if type(node.op) in CALCULATED:
            yield "calculate", node, f"({source(node.left)} {CALCULATED[type(node.op)]} {source(node.right)})"
        case ast.AugAssign() if type(node.op) in CALCULATED:
            yield "calculate", node, f"{source(node.target)} {CALCULATED[type(node.op)]}= {source(node.value)}"
        case ast.BoolOp():
            joined = " or " if isinstance(node.op, ast.And) else " and "
            yield "and-or", node, "(" + joined.join(f"({source(value)})" for value in node.values) + ")"
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield "unary", node, f"({source(node.operand)})"


def _of_the_rest(node: ast.AST, source: Callable[[ast.AST], str]) -> Iterator[tuple[str, ast.expr | ast.stmt, str]]:
    match node:
        case ast.Constant(value=bool()):
            yield "constant", node, str(not node.value)
        case ast.Constant(value=int() | float()):
            yield "constant", node, str(node.value + 1)
        case ast.Return(value=ast.expr()) if source(node.value) != "None":
            yield "return", node, "return None"
        case ast.Expr(value=ast.Call()):
            yield "drop", node, "pass"
        case ast.Call(func=ast.Name(id=name)) if name in SWAPPED:
            yield "swap", node.func, SWAPPED[name]
        case ast.Call(func=ast.Attribute(attr=name)) if name in SWAPPED:
            yield "swap", node.func, f"{source(node.func.value)}.{SWAPPED[name]}"
        case ast.Continue() | ast.Break():
            yield "loop", node, "break" if isinstance(node, ast.Continue) else "continue"


def _span(node: ast.AST, starts: list[int]) -> tuple[int, int]:
    """The span of a node in the file, in bytes."""
    begin = starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
    return begin, starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]


def chosen_mutants(seed: int) -> list[Mutant]:
    """The mutants: as many of each area, the operators in turn, so that the numerous constants are not most of them."""
    rng = random.Random(f"mutants {seed}")
    chosen: list[Mutant] = []
    for area in AREAS:
        by_operator: dict[str, list[Mutant]] = defaultdict(list)
        for path in sorted((ROOT / area).rglob("*.py")):
            for place in places(path):
                by_operator[place.mutant.operator].append(place.mutant)
        of_area: list[Mutant] = []
        for candidates in by_operator.values():
            rng.shuffle(candidates)
        while len(of_area) < EACH:
            of_area += [candidates.pop() for _, candidates in sorted(by_operator.items()) if candidates]
        chosen += sorted(of_area[:EACH], key=lambda mutant: (mutant.path, mutant.function, mutant.operator, mutant.nth))
    return chosen


def place_of(mutant: Mutant) -> Place:
    """Where the mutant's change is in the file today."""
    for place in places(ROOT / mutant.path):
        if place.mutant == mutant:
            return place
    raise SystemExit(
        f"{mutant.path}: {mutant.function} has no {mutant.operator} number {mutant.nth} of {mutant.before!r}"
    )


# Which test runs which line.


def cover() -> None:
    """Run the suite once under coverage, and keep for each line the tests that ran it, with their durations."""
    KEPT.mkdir(exist_ok=True)
    environment = {**os.environ, "COVERAGE_FILE": str(KEPT / "coverage"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", "--cov-context=test"]
    command += [f"--cov={folder}" for folder in ("harness", "plugins", "selectors", "tasks")]
    command += ["--cov-report=", f"--junit-xml={KEPT / 'durations.xml'}"]
    subprocess.run(command, cwd=ROOT, env=environment, check=False)


def seconds_by_test() -> dict[str, float]:
    """Seconds by test function, all its parameters together; only those that passed."""
    seconds: Counter[str] = Counter()
    failed = set()
    for case in ElementTree.parse(KEPT / "durations.xml").iter("testcase"):
        path = case.get("classname", "").replace(".", "/") + ".py"
        name = f"{path}::{case.get('name', '').partition('[')[0]}"
        seconds[name] += float(case.get("time", 0))
        if any(child.tag in ("failure", "error") for child in case):
            failed.add(name)
    return {name: value for name, value in seconds.items() if name not in failed}


class Covered:
    """Which tests ran a line, or any line of a folder, the quickest first."""

    def __init__(self) -> None:
        self.seconds = seconds_by_test()
        self._by_line: dict[tuple[str, int], set[str]] = defaultdict(set)
        self._by_folder: dict[str, set[str]] = defaultdict(set)
        query = "select distinct path, context, tono from arc join file on file.id = file_id "
        query += "join context on context.id = context_id where tono > 0"
        with sqlite3.connect(KEPT / "coverage") as database:
            for path, context, line in database.execute(query):
                test = context.partition("|")[0].partition("[")[0]
                if test in self.seconds:
                    relative = os.path.relpath(path, ROOT)
                    self._by_folder[os.path.dirname(relative)].add(test)
                    self._by_line[relative, line].add(test)
        if not self._by_line:
            raise SystemExit(f"{KEPT / 'coverage'} names no test that ran a line: run `mutation.py cover` again")

    def tests(self, path: str, lines: range) -> list[str]:
        """Tests for a change of these lines: at most BUDGET_S of them."""
        running = {test for line in lines for test in self._by_line[path, line]} or self._by_folder[
            os.path.dirname(path)
        ]
        chosen, spent = [], 0.0
        for test in sorted(running, key=lambda test: (self.seconds[test], test)):
            spent += self.seconds[test]
            if chosen and spent > BUDGET_S:
                break
            chosen.append(test)
        return chosen


# Trying mutants.


def outcomes_kept() -> dict[str, dict[str, Any]]:
    """The outcomes so far by the mutant's text; a later line replaces an earlier one."""
    path = KEPT / "outcomes.jsonl"
    rows = map(json.loads, path.read_text().splitlines() if path.exists() else [])
    return {json.dumps(row["mutant"], sort_keys=True): row for row in rows}


def run(part: tuple[int, int], tests: list[str], survivors: bool) -> None:
    """Try the mutants of a part that have no outcome yet, or those that survived, and keep what becomes of them."""
    if not (KEPT / "durations.xml").exists():
        raise SystemExit(f"no coverage in {KEPT}: run `mutation.py cover` first")
    number, of = part
    kept, covered = outcomes_kept(), Covered()
    started = time.monotonic()
    for place, line in enumerate(LIST.read_text().splitlines()):
        mutant = Mutant(**json.loads(line))
        known = kept.get(json.dumps(asdict(mutant), sort_keys=True), {}).get("outcome")
        if place % of != number - 1 or (known != "survived" if survivors else known):
            continue
        outcome = _tried(mutant, covered, tests)
        with (KEPT / "outcomes.jsonl").open("a") as file:
            print(json.dumps({"mutant": asdict(mutant), "outcome": outcome, "on": tests or "its line"}), file=file)
        print(f"{place} {time.monotonic() - started:,.0f} s {outcome}: {mutant.path} {mutant.function}", flush=True)


def _lines(mutant: Mutant) -> tuple[str, range]:
    """A mutant's file and the lines that it changes."""
    place = place_of(mutant)
    content = (ROOT / mutant.path).read_bytes()[place.start : place.end]
    return mutant.path, range(place.line, place.line + content.count(b"\n") + 1)


def _tried(mutant: Mutant, covered: Covered, tests: list[str]) -> str:
    place = place_of(mutant)
    path = ROOT / mutant.path
    content = path.read_bytes()
    chosen = tests or covered.tests(*_lines(mutant))
    if not chosen:
        return "survived"
    try:
        path.write_bytes(content[: place.start] + mutant.after.encode() + content[place.end :])
        return _outcome(chosen)
    finally:
        path.write_bytes(content)


def _outcome(tests: list[str], limit_s: float = LIMIT_S) -> str:
    """Whether one of the tests fails; whatever the process leaves behind is ended with it."""
    folder = tempfile.mkdtemp(prefix="mutant-")  # of its own: what a killed run leaves there harms no other
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:randomly"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CI": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(
        [*command, f"--basetemp={folder}", *tests],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        code = process.wait(limit_s)
    except subprocess.TimeoutExpired:
        return "timeout"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)
    return "survived" if code == 0 else "killed"


def check() -> None:
    """Exit with 1 unless the tests of all mutants pass on unchanged code, as `run` starts them."""
    covered, tests = Covered(), set()
    for line in LIST.read_text().splitlines():
        tests |= set(covered.tests(*_lines(Mutant(**json.loads(line)))))
    outcome = _outcome(sorted(tests), limit_s=10 * LIMIT_S)
    raise SystemExit(f"{len(tests)} tests fail on unchanged code: {outcome}" if outcome != "survived" else 0)


def report() -> None:
    """Print counts by area, and every survivor."""
    rows = list(outcomes_kept().values())
    if not rows:
        raise SystemExit(f"no outcomes in {KEPT}: run `mutation.py run` first")
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        area = next(area for area in AREAS if row["mutant"]["path"].startswith(area))
        counts[area][row["outcome"]] += 1
    counts["all"] = sum(counts.values(), Counter())
    for area, count in counts.items():
        killed = count["killed"] + count["timeout"]
        print(f"{area:22} {killed} of {count.total()} ({100 * killed / count.total():.0f} %)  {dict(count)}")
    for row in rows:
        if row["outcome"] == "survived":
            mutant = Mutant(**row["mutant"])
            line = place_of(mutant).line
            print(f"{mutant.path}:{line} {mutant.function}: {mutant.before!r} -> {mutant.after!r}")


def _part(text: str) -> tuple[int, int]:
    """The number of a part and how many there are, for argparse."""
    if not (match := re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", text)) or int(match[1]) > int(match[2]):
        raise argparse.ArgumentTypeError(f"{text!r} is no part: write 1/2 for the first of two")
    return int(match[1]), int(match[2])


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["list", "cover", "check", "run", "report"])
    parser.add_argument("--seed", type=int, default=0, help="of the list")
    parser.add_argument("--part", type=_part, default="1/1", help="e.g. 1/2: every second mutant, from the first")
    parser.add_argument("--tests", default="", help="instead of those that run the mutant's line")
    parser.add_argument("--survivors", action="store_true", help="try again what survived")
    arguments = parser.parse_args()
    if arguments.action == "list":
        for mutant in chosen_mutants(arguments.seed):
            print(json.dumps(asdict(mutant), ensure_ascii=False))
    elif arguments.action == "cover":
        cover()
    elif arguments.action == "check":
        check()
    elif arguments.action == "run":
        run(arguments.part, arguments.tests.split(), arguments.survivors)
    else:
        report()


if __name__ == "__main__":
    main()
