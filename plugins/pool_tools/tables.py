"""What `harness pool` prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.system.console import Heading, console, put, short, word_table

EXCERPT = 200  # characters of a line


def audit(value: Mapping[str, Any], listed: int) -> None:
    """Print what `jobs.audit` returned: the counts, and the first `listed` of the responses that need a look."""
    from harness.results.rows import chance_text  # imports scipy.stats

    counts = {name: entry for name, entry in value.items() if name not in ("routes", "reasons", "chance", "listed")}
    summary(counts | ({"chance level": chance_text(value["chance"])} if value["chance"] else {}))
    for name in ("routes", "reasons"):
        if value[name]:
            put(f"{name}: {', '.join(f'{key}: {count}' for key, count in value[name].items())}")
    if not value["listed"]:
        return
    heads = {"problem": 9, "index": 9, "why": 8, "answer": 7, "reference": 7, "verdict": 6, "route": 4, "second": 5}
    names = ("problem_id", "index", "why", "answer", "reference", "verdict", "route", "second")
    rows = []
    for entry in value["listed"][:listed]:
        verdict = f"{entry['verdict']} ({entry['reason']})" if entry["reason"] else entry["verdict"]
        second = f"{entry['second'] or '-'} {entry['second_reason']}"
        rows.append([short((entry | {"verdict": verdict, "second": second})[name]) for name in names])
    put(word_table([Heading(head, kept, prose=kept < 9) for head, kept in heads.items()], rows, console().width)[0])
    if len(value["listed"]) > listed:
        put(f"{len(value['listed']) - listed} more: --listed N, or --json for all")


def inspected(value: Mapping[str, Any], is_file: bool) -> None:
    """Print what `jobs.inspect` returned, with names that say what is a share, and of a file whose verdicts count."""
    names = {"distinct": "distinct (share)", "cut_at_max_tokens": "cut at max tokens (share)"}
    if is_file:
        names["graded"] = "verdicts in the file"
    summary({names.get(key, key): entry for key, entry in value.items()})
    if is_file and not value["graded"]:
        put("verdicts of a run are in its store: `harness pool inspect KEY`, `harness pool show KEY`")


def responses(value: Mapping[str, Any], listed: int, full: bool) -> None:
    """Print the first `listed` responses that `jobs.show` returned, under their problems' prompts."""
    left = listed
    for problem in value["problems"]:
        shown = problem["responses"][:left]
        if shown:
            put(f"{problem['problem_id']}: {short(problem['prompt'].strip().partition(chr(10))[0], 100)}")
        for each in shown:
            put(f"  {each['index']} {_verdict(each)}")
            put(_excerpt(each["text"], full))
        left -= len(shown)
    total = sum(len(problem["responses"]) for problem in value["problems"])
    if total > listed:
        put(f"{total - listed} more: --listed N, or --json for all")
    elif not total:
        put("no such response")


def _verdict(response: Mapping[str, Any]) -> str:
    about = ", ".join(filter(None, (response["route"], response["reason"])))
    answer = "" if response["answer"] is None else f", answer: {short(response['answer'])}"
    return (response["verdict"] or "not graded") + (f" ({about})" if about else "") + answer


def _excerpt(text: str, full: bool) -> str:
    """Return the text, indented: all of it, or its first and its last two lines, which state the answer."""
    lines = text.strip().splitlines() or ["(empty)"]
    if not full:
        lines = [line if len(line) <= EXCERPT else f"{line[:EXCERPT]}..." for line in lines]
        lines = lines if len(lines) <= 4 else [*lines[:2], "...", *lines[-2:]]
    return "\n".join(f"      {line}" for line in lines)


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
