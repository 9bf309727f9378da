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
CHECK_WIDTH = 25  # of the longest name of a check


# Plugins.


def listing(rows: Sequence[Mapping[str, str]]) -> None:
    """Print a row for each installed component; one line says a kind or distribution that all of them share."""
    headings = [Heading("kind", kept=2), Heading("name"), Heading("from", kept=1), Heading("what", prose=True)]
    shared = [name for name in ("kind", "from") if len(rows) > 1 and len({row[name] for row in rows}) == 1]
    headings = [heading for heading in headings if heading.head not in shared]
    put(word_table(headings, [[row[each.head] for each in headings] for row in rows], console().width)[0])
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
    every = (Heading("problem_id"), *(Heading(name, right=True) for name in NUMBERS), Heading("name"))
    every += (Heading("response", kept=1, prose=True),)
    shown = [heading for heading in every if any(heading.head in row for row in rows)]

    def cell(row: Mapping[str, Any], name: str) -> str:
        value = short(row[name][:200]) if name == "response" else row.get(name)
        return f"{value:.4g}" if isinstance(value, float) else printable("" if value is None else str(value), "")

    texts = [[cell(row, heading.head) for heading in shown] for row in rows]
    put(word_table([Heading("problem"), *shown[1:]], texts, console().width)[0])


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
    hits = [{**hit, "response": texts[hit["problem_id"]][hit["index"]]} for hit in value["found"]]
    asked({**value, "ask": (), "found": hits})


def asked(value: Mapping[str, Any]) -> None:
    """Print the picks that are out, what was found so far, and what it took."""
    found = value["found"]
    if value["ask"]:
        to_verify(value["ask"])
        if found:
            put("found so far:")
    if found:
        picks(found[:MOST])
    if len(found) > MOST:
        put(f"... and {len(found) - MOST:,} more: --json lists all")
    put("\n".join(lines(value)))


def to_verify(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the picks that are asked for."""
    put("to verify now:")
    picks(rows)


def lines(value: Mapping[str, Any]) -> Iterator[str]:
    """The sentences below the table."""
    calls = f"{value['calls']:,} call{'' if value['calls'] == 1 else 's'}"
    solved = "" if value["solved"] is None else f"{value['solved']:,} of {value['problems']:,} problems solved with "
    reasons = [f"most often: {printable(value['commonest_error'], '')[:100]}"] if value["commonest_error"] else []
    reasons += ["--retry-errors checks them again"] if value["failed"] else []
    why = f" ({'; '.join(reasons)})" if reasons else ""
    faults = {"errors": f"ended in errors{why}", "timeouts": "of them took too long", "skipped": "skipped"}
    yield solved + calls + "".join(f", {value[name]:,} {what}" for name, what in faults.items() if value[name])
    if value["budget_used_up"]:
        yield "the budget is used up: a larger --budget goes on from the journal"
    for name, what in (("exhausted", "no response is left"), ("unsolved", "responses are left")):
        ids = value[name]
        if ids and value["problems"] > 1:
            more = f", and {len(ids) - IDS:,} more" if len(ids) > IDS else ""
            yield f"unsolved, {what}: {', '.join(printable(each, '') for each in ids[:IDS])}{more}"


def answer(row: Mapping[str, Any], takes_values: bool) -> str | None:
    """Show a pick whole and return the user's answer; None for `q`, and at the end of the input."""
    if row["response"].strip():
        print(f"\n{printable(row['response']).strip()}\n", file=sys.stderr)
    name = printable(f"problem {row['problem_id']}, index {row['index']}", "")
    number = "a number, " if takes_values else ""
    print(f"{name}: y, n, {number}skip, error, or q? ", end="", flush=True, file=sys.stderr)
    line = sys.stdin.readline()
    return None if not line or line.strip().lower() in ("q", "quit") else line
