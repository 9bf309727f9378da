"""Print what `harness verify` found, and ask for outcomes on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.system.console import Heading, console, printable, put, short, word_table
from harness.verifying.loop import Loop

MOST = 50  # hits that are shown


def ended(loop: Loop, value: Mapping[str, Any]) -> None:
    """Print the successes (or the largest values), then what it took."""
    found = value["found"]
    rows = []
    for hit in found[:MOST]:
        text = loop.searches[hit["problem_id"]].candidates.responses.texts[hit["index"]]
        rows.append({**hit, "response": text})
    if rows:
        _table(rows)
    if len(found) > MOST:
        put(f"... and {len(found) - MOST:,} more: --json lists all")
    for line in lines(value):
        put(line)


def asked(value: Mapping[str, Any]) -> None:
    """Print the picks that are out, then what was found so far."""
    if value["ask"]:
        picks(value["ask"])
    for line in lines(value):
        put(line)


def lines(value: Mapping[str, Any]) -> Iterator[str]:
    """The sentences below the table."""
    solved = "" if value["solved"] is None else f"{value['solved']:,} of {value['problems']:,} problems solved with "
    faults = [f"{value['errors']:,} ended in errors" if value["errors"] else ""]
    faults += [f"{value['timeouts']:,} of them took too long" if value["timeouts"] else ""]
    faults += [f"{value['skipped']:,} skipped" if value["skipped"] else ""]
    yield f"{solved}{_calls(value['calls'])}" + "".join(f", {fault}" for fault in faults if fault)
    if value["budget_used_up"]:
        yield "the budget is used up: a larger --budget goes on from the journal"
    yield from _random(value)


def _random(value: Mapping[str, Any]) -> Iterator[str]:
    random = value["random"]
    if not random:
        return
    if "differ" in random:
        yield f"random: not compared, since the file's `correct` differs from {random['differ']:,} verified outcomes"
    elif "solved" in random:
        needs = "not as many at all" if random["calls"] is None else f"as many with {random['calls']:,.1f} calls"
        yield (
            f"random (exact, by the file's `correct`): solves {needs}, and {random['solved']:,.1f} problems with "
            f"{_calls(value['calls'])}, on average"
        )
    else:
        yield (
            f"random: not known, since unverified responses have no verdict. On the solved problems, which took "
            f"{_calls(random['calls_on_solved'])}, it needs at least {random['at_least']:,.1f} and at most "
            f"{random['at_most']:,.1f} on average"
        )


def _calls(count: int) -> str:
    return f"{count:,} call{'' if count == 1 else 's'}"


def _table(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print rows of problem, index and the beginning of a response; call, value and name where they have them."""
    numbers = [name for name in ("index", "call", "value") if any(name in row for row in rows)]
    names = [name for name in ("name",) if any(name in row for row in rows)]
    headings = [Heading("problem"), *(Heading(name, right=True) for name in numbers), *map(Heading, names)]
    shown = []
    for row in rows:
        cells = [_number(row.get(name)) for name in numbers]
        texts = [printable(str(row.get(name, "")), "") for name in names]
        shown.append([printable(row["problem_id"], ""), *cells, *texts, printable(short(row["response"][:200]), "")])
    put(word_table([*headings, Heading("response", kept=1, prose=True)], shown, console().width)[0])


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str("" if value is None else value)


def picks(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the picks that are asked for."""
    put("to verify now:")
    _table(rows)


def answer(row: Mapping[str, Any]) -> str | None:
    """The user's answer to one pick; None for `q`, and at the end of the input."""
    question = f"problem {printable(row['problem_id'], '')}, index {row['index']}: y, n, number, skip, or q? "
    print(question, end="", flush=True, file=sys.stderr)
    line = sys.stdin.readline()
    return None if not line or line.strip().lower() in ("q", "quit") else line
