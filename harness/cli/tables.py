"""Print plugins, what `harness select` chose and `harness verify` found, and ask for outcomes on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from harness.system.console import Heading, console, printable, put, short, word_table

if TYPE_CHECKING:
    from harness.jobs.selection import Chosen
    from harness.verifying.loop import Loop

NUMBERS = ("rank", "index", "call", "value")
MOST = 50  # hits that are shown
IDS = 5  # unsolved problems that are named
FAR_APART = 3  # bounds with a larger ratio say nothing
CHECK_WIDTH = 25  # of the longest name of a check


# Plugins.


def listing(rows: Sequence[Mapping[str, str]]) -> None:
    """Print a row for each installed component; one line says a kind or distribution that all of them share."""
    headings = [Heading("kind", kept=2), Heading("name"), Heading("from", kept=1), Heading("what", prose=True)]
    shared = [name for name in ("kind", "from") if len(rows) > 1 and len({row[name] for row in rows}) == 1]
    headings = [heading for heading in headings if heading.head not in shared]
    lines = [[row[heading.head] for heading in headings] for row in rows]
    put(word_table(headings, lines, console().width)[0])
    if "from" in shared:
        put(f"all from {rows[0]['from']}")


def details(value: Mapping[str, Any]) -> None:
    """Print one component: origin, parameters, docstrings."""
    put(f"{value['kind']} {value['name']}, from {value['from']} ({value['full_name']})")
    put(f"  {value['what']}")
    for name, parameter in value["parameters"].items():
        put(f"  {name}: {parameter['type']} = {parameter['default']}")
    put(f"\n{value['doc']}")


def example(value: Mapping[str, Any]) -> None:
    """Print a task's first problem as raw prompt, as chat, and as text for base models if that differs."""
    put(f"id: {value['id']}\nprompt: {value['prompt']}")
    for message in value["messages"]:
        put(f"\n[{message['role']}]\n{message['content']}")
    if value["plain"] != "\n".join(message["content"] for message in value["messages"]):
        put(f"\n[a model without a chat template]\n{value['plain']}")


def finding(row: Mapping[str, str], is_first: bool) -> None:
    """Print the finding of one check; before the first of a component its name."""
    if is_first:
        put(f"\n{row['kind']} {row['name']}")
    put(f"{row['outcome']:14}  {row['check']:{CHECK_WIDTH}}  {row['what']}", hang=CHECK_WIDTH + 18)


def outcomes(rows: Sequence[Mapping[str, str]]) -> None:
    """Print how many checks passed, failed and did not apply."""
    every = [row["outcome"] for row in rows]
    put("\n" + ", ".join(f"{every.count(outcome)} {outcome}" for outcome in ("passed", "failed", "not applicable")))


# Picks.


def picks(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print a row for each response: its problem, what else is known of it, and the beginning of its text."""
    names = [name for name in (*NUMBERS, "name", "response") if any(name in row for row in rows)]
    headings = [Heading("problem"), *(Heading(name, right=name in NUMBERS) for name in names if name != "response")]
    headings += [Heading("response", kept=1, prose=True)] if "response" in names else []

    def cell(row: Mapping[str, Any], name: str) -> str:
        value = row.get(name)
        if name == "response":
            value = short(row[name][:200])
        return f"{value:.4g}" if isinstance(value, float) else printable("" if value is None else str(value), "")

    put(
        word_table(headings, [[cell(row, name) for name in ("problem_id", *names)] for row in rows], console().width)[0]
    )


def selection(chosen: Sequence[Chosen]) -> None:
    """Print a row for each chosen response."""
    has_names = any(any(each.names) for each in chosen)
    rows = []
    for each in chosen:
        for rank, index in enumerate(each.order, 1):
            row = {"problem_id": each.problem_id, "rank": rank if each.ordered else "-", "index": index}
            name = {"name": each.names[index] if each.names else ""} if has_names else {}
            rows.append({**row, **name, "response": each.texts[index]})
    picks(rows)


def ended(loop: Loop, value: Mapping[str, Any]) -> None:
    """Print the successes (or the largest values) with their texts, then what it took."""
    texts = {name: search.candidates.responses.texts for name, search in loop.searches.items()}
    _found([{**hit, "response": texts[hit["problem_id"]][hit["index"]]} for hit in value["found"]])
    put("\n".join(lines(value)))


def asked(value: Mapping[str, Any]) -> None:
    """Print the picks that are out, then what was found so far."""
    if value["ask"]:
        to_verify(value["ask"])
        if value["found"]:
            put("found so far:")
    _found(value["found"])
    put("\n".join(lines(value)))


def to_verify(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the picks that are asked for."""
    put("to verify now:")
    picks(rows)


def _found(rows: Sequence[Mapping[str, Any]]) -> None:
    if rows:
        picks(rows[:MOST])
    if len(rows) > MOST:
        put(f"... and {len(rows) - MOST:,} more: --json lists all")


def lines(value: Mapping[str, Any]) -> Iterator[str]:
    """The sentences below the table."""
    calls = _calls(value["calls"])
    solved = "" if value["solved"] is None else f"{value['solved']:,} of {value['problems']:,} problems solved with "
    reasons = [f"most often: {printable(value['commonest_error'], '')[:100]}"] if value["commonest_error"] else []
    reasons += ["--retry-errors checks them again"] if value["failed"] else []
    why = f" ({'; '.join(reasons)})" if reasons else ""
    faults = [f", {value['errors']:,} ended in errors{why}"] if value["errors"] else []
    faults += [f", {value['timeouts']:,} of them took too long"] if value["timeouts"] else []
    faults += [f", {value['skipped']:,} skipped"] if value["skipped"] else []
    yield solved + calls + "".join(faults)
    if value["budget_used_up"]:
        yield "the budget is used up: a larger --budget goes on from the journal"
    for name, what in (("exhausted", "no response is left"), ("unsolved", "responses are left")):
        ids = value[name]
        if ids and value["problems"] > 1:
            more = f", and {len(ids) - IDS:,} more" if len(ids) > IDS else ""
            yield f"unsolved, {what}: {', '.join(printable(each, '') for each in ids[:IDS])}{more}"
    random = value["random"]
    if not random:
        return
    if "differ" in random:
        yield f"random: not compared, since the file's `correct` differs from {random['differ']:,} verified outcomes"
    elif "solved" in random:
        needs = "not as many at all" if random["calls"] is None else f"as many with {random['calls']:,.1f} calls"
        yield (
            f"random (exact, by the file's `correct`): solves {needs}, and {random['solved']:,.1f} problems with "
            f"{calls}, on average"
        )
    elif random["at_most"] > FAR_APART * random["at_least"]:
        yield "random: not known, since unverified responses have no verdict"
    else:
        took = random["calls_on_solved"]
        yield (
            "random: not known, since unverified responses have no verdict. On the solved problems, which took "
            f"{calls if took == value['calls'] else f'{took:,} of the {calls}'}, it needs at least "
            f"{random['at_least']:,.1f} and at most {random['at_most']:,.1f} on average"
        )


def _calls(count: int) -> str:
    return f"{count:,} call{'' if count == 1 else 's'}"


def answer(row: Mapping[str, Any], takes_values: bool) -> str | None:
    """Show a pick whole and return the user's answer; None for `q`, and at the end of the input."""
    if row["response"].strip():
        print(f"\n{printable(row['response']).strip()}\n", file=sys.stderr)
    name = printable(f"problem {row['problem_id']}, index {row['index']}", "")
    number = "a number, " if takes_values else ""
    print(f"{name}: y, n, {number}skip, error, or q? ", end="", flush=True, file=sys.stderr)
    line = sys.stdin.readline()
    return None if not line or line.strip().lower() in ("q", "quit") else line
