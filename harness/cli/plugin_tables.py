"""Print the results of `harness list`, `show` and `check`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from harness.system.console import put, text


def listing(rows: Sequence[Mapping[str, str]]) -> None:
    """Print a row for each installed component."""
    table = Table("kind", "name", "from", "what")
    for row in rows:
        table.add_row(*[text(row[key]) for key in ("kind", "name", "from", "what")])
    put(table)


def details(value: Mapping[str, Any]) -> None:
    """Print one component: origin, parameters, docstrings."""
    put(f"{value['kind']} {value['name']}, from {value['from']} ({value['full_name']})")
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


def findings(rows: Sequence[Mapping[str, str]]) -> None:
    """Print a table of checks for each component, and how many checks passed."""
    for name in dict.fromkeys(row["name"] for row in rows):
        table = Table("check", "outcome", "what", title=text(f"{rows[0]['kind']} {name}"), title_justify="left")
        for row in rows:
            if row["name"] == name:
                table.add_row(*[text(row[key]) for key in ("check", "outcome", "what")])
        put(table)
    outcomes = [row["outcome"] for row in rows]
    counts = ", ".join(f"{outcomes.count(outcome)} {outcome}" for outcome in ("passed", "failed", "not applicable"))
    put(counts)
