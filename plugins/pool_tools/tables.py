"""What `harness pool` prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.results.verdict_quality import level_text
from harness.system.console import Heading, console, put, short, word_table


def audit(value: Mapping[str, Any], listed: int) -> None:
    """Print what `jobs.audit` returned: the counts, and the first `listed` of the responses that need a look."""
    counts = {name: entry for name, entry in value.items() if name not in ("routes", "reasons", "chance", "listed")}
    summary(counts | ({"chance level": level_text(value["chance"])} if value["chance"] else {}))
    for name in ("routes", "reasons"):
        if value[name]:
            shares = ", ".join(f"{key}: {count}" for key, count in value[name].items())
            put(f"{name}: {shares}")
    if not value["listed"]:
        return
    heads = {"problem": 9, "index": 9, "why": 8, "answer": 7, "reference": 7, "verdict": 6, "route": 4, "second": 5}
    rows = []
    for entry in value["listed"][:listed]:
        verdict = f"{entry['verdict']} ({entry['reason']})" if entry["reason"] else entry["verdict"]
        shown = [entry["problem_id"], entry["index"], entry["why"], entry["answer"], entry["reference"], verdict]
        second = f"{entry['second'] or '-'} {entry['second_reason']}"
        rows.append([short(part) for part in (*shown, entry["route"], second)])
    put(word_table([Heading(head, kept, prose=kept < 9) for head, kept in heads.items()], rows, console().width)[0])
    if len(value["listed"]) > listed:
        put(f"{len(value['listed']) - listed} more: --listed N, or --json for all")


def summary(value: Mapping[str, Any]) -> None:
    """Print the entries of a summary, one line each."""
    rows = []
    for key, entry in value.items():
        listed = ", ".join(map(str, entry)) if isinstance(entry, list) else str(entry)
        shown = f"{entry:.4g}" if isinstance(entry, float) else "-" if entry is None else listed
        rows.append([key.replace("_", " "), shown])
    table, _ = word_table([Heading(""), Heading("", prose=True)], rows, console().width)
    table.show_header = False
    put(table)
