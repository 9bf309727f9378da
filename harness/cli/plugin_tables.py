"""Print the results of `harness list`, `show` and `check`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.system.console import Heading, console, put, put_hanging, word_table

CHECK_WIDTH = 25  # of the longest name of a check


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
    put_hanging(f"{row['outcome']:14}  {row['check']:{CHECK_WIDTH}}  ", row["what"])


def outcomes(rows: Sequence[Mapping[str, str]]) -> None:
    """Print how many checks passed, failed and did not apply."""
    every = [row["outcome"] for row in rows]
    put("\n" + ", ".join(f"{every.count(outcome)} {outcome}" for outcome in ("passed", "failed", "not applicable")))
