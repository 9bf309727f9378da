"""Print what `harness verify` found, and ask for outcomes on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from harness.system.console import Heading, console, printable, put, short, word_table
from harness.verifying.config import VerifyConfig
from harness.verifying.loop import Loop

MOST = 50  # hits that are shown
IDS = 5  # unsolved problems that are named
FAR_APART = 3  # bounds with a larger ratio say nothing


def ended(loop: Loop, value: Mapping[str, Any]) -> None:
    """Print the successes (or the largest values), then what it took."""
    rows = []
    for hit in value["found"][:MOST]:
        text = loop.searches[hit["problem_id"]].candidates.responses.texts[hit["index"]]
        rows.append({**hit, "response": text})
    _found(rows, len(value["found"]))
    for line in lines(value):
        put(line)


def asked(value: Mapping[str, Any]) -> None:
    """Print the picks that are out, then what was found so far."""
    if value["ask"]:
        picks(value["ask"])
    if value["ask"] and value["found"]:
        put("found so far:")
    _found(value["found"][:MOST], len(value["found"]))
    for line in lines(value):
        put(line)


def _found(rows: Sequence[Mapping[str, Any]], count: int) -> None:
    if rows:
        _table(rows)
    if count > len(rows):
        put(f"... and {count - len(rows):,} more: --json lists all")


def lines(value: Mapping[str, Any]) -> Iterator[str]:
    """The sentences below the table."""
    solved = "" if value["solved"] is None else f"{value['solved']:,} of {value['problems']:,} problems solved with "
    faults = [f"{value['errors']:,} ended in errors{_why(value)}" if value["errors"] else ""]
    faults += [f"{value['timeouts']:,} of them took too long" if value["timeouts"] else ""]
    faults += [f"{value['skipped']:,} skipped" if value["skipped"] else ""]
    yield f"{solved}{_calls(value['calls'])}" + "".join(f", {fault}" for fault in faults if fault)
    if value["budget_used_up"]:
        yield "the budget is used up: a larger --budget goes on from the journal"
    for name, what in (("exhausted", "no response is left"), ("unsolved", "responses are left")):
        ids = value[name]
        if ids and value["problems"] > 1:
            more = f", and {len(ids) - IDS:,} more" if len(ids) > IDS else ""
            yield f"unsolved, {what}: {', '.join(printable(each, '') for each in ids[:IDS])}{more}"
    yield from _random(value)


def _why(value: Mapping[str, Any]) -> str:
    """The commonest reason of errors, and what can be done, in brackets."""
    reason, again = value["commonest_error"], "--retry-errors checks them again" if value["failed"] else ""
    parts = [f"most often: {printable(reason, '')[:100]}" if reason else "", again]
    return f" ({'; '.join(filter(None, parts))})" if any(parts) else ""


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
    elif random["at_most"] > FAR_APART * random["at_least"]:
        yield "random: not known, since unverified responses have no verdict"
    else:
        took, calls = random["calls_on_solved"], _calls(value["calls"])
        yield (
            f"random: not known, since unverified responses have no verdict. On the solved problems, which took "
            f"{calls if took == value['calls'] else f'{took:,} of the {calls}'}, it needs at least "
            f"{random['at_least']:,.1f} and at most {random['at_most']:,.1f} on average"
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
        texts += [printable(short(row["response"][:200]), "")] if "response" in row else []
        shown.append([printable(row["problem_id"], ""), *cells, *texts])
    last = [Heading("response", kept=1, prose=True)] if "response" in rows[0] else []
    put(word_table([*headings, *last], shown, console().width)[0])


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str("" if value is None else value)


def picks(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the picks that are asked for."""
    put("to verify now:")
    _table(rows)


def answering(config: VerifyConfig) -> Callable[[Mapping[str, Any]], str | None]:
    """A function that shows a pick whole and returns the user's answer; None for `q`, and at the end of the input."""
    allowed = "y, n, a number, skip, error, or q" if config.takes_values else "y, n, skip, error, or q"

    def answer(row: Mapping[str, Any]) -> str | None:
        if row["response"].strip():
            print(f"\n{printable(row['response']).strip()}\n", file=sys.stderr)
        name = printable(f"problem {row['problem_id']}, index {row['index']}", "")
        print(f"{name}: {allowed}? ", end="", flush=True, file=sys.stderr)
        line = sys.stdin.readline()
        return None if not line or line.strip().lower() in ("q", "quit") else line

    return answer
