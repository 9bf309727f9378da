"""The paper's numbers beside ours: each function yields (what it is about, value, low, high) from the results.

low, high   the ends of our 95 % interval; None if there is none
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

from harness.results.comparison import compare
from harness.system.files import write_atomically
from harness.system.json_text import read_lines

from .parts import Reproduction

Labels: TypeAlias = dict[str, Any]
Value: TypeAlias = tuple[Labels, float | None, float | None, float | None]
NONE = "the paper states no number for this figure in its text, captions or tables"


def table(work: Reproduction) -> str:
    """Markdown: what, the paper's number and its place, ours with its interval; written to OUT/numbers.md too."""
    lines = [f"{work.entry['what']} ({work.entry['paper']}), scale {work.scale}", ""]
    if "note" in work.entry:
        lines += [f"{work.entry['note']}", ""]
    if work.scale != "paper":
        lines += ["Scale tiny shows that each part runs: models, tasks and sizes are not the paper's.", ""]
    if not (numbers := work.entry.get("numbers", [])):
        lines.append(NONE)
    else:
        lines += ["| what | of | paper | ours [95 %] | where in the paper |", "| --- | --- | ---: | ---: | --- |"]
    for number in numbers:
        values = list(globals()[number["ours"]](work)) or [({}, None, None, None)]
        for labels, *value in values:
            at = number.get("at", {}) if work.scale == "paper" else {}
            is_papers = all(labels.get(name, texts[0]) in texts for name, texts in at.items())
            about = ", ".join(map(str, labels.values())) or "-"
            paper = number["paper"] if is_papers else "-"
            lines.append(f"| {number['what']} | {about} | {paper} | {_text(*value)} | {number['place']} |")
    text = "\n".join(lines)
    write_atomically(work.out / "numbers.md", (text + "\n").encode())
    return text


def saved(work: Reproduction) -> Iterator[Value]:
    """Calls saved, 100 (1 - RepExp / random), for each pool."""
    for labels, *ratios in improvement(work):
        yield labels, *(ratio and 100 * (1 - 1 / ratio) for ratio in ratios)  # type: ignore[misc]


def improvement(work: Reproduction) -> Iterator[Value]:
    """Random's calls / RepExp's, for each pool."""
    for row in _repexp(work):
        yield _labels(row), row["improvement"], *(row["improvement_ci"] or (None, None))


def random_calls(work: Reproduction) -> Iterator[Value]:
    """Random's mean calls, exact on these pools."""
    for row in _repexp(work):
        yield _labels(row), row["samples_to_correct_random"], None, None


def calls(work: Reproduction) -> Iterator[Value]:
    """RepExp's mean calls; the interval is that of the ratio to random's, which is exact."""
    for row in _repexp(work):
        ends = (row["improvement_ci"] or ())[::-1]
        low, high = [row["samples_to_correct_random"] / end for end in ends] or (None, None)
        yield _labels(row), row["samples_to_correct"], low, high


def over_the_mean(work: Reproduction) -> Iterator[Value]:
    """Calls on another representation / calls on the mean over tokens, paired by problem."""
    cells = {row["embedder"]: row["cell"] for row in _repexp(work)}
    for embedder, cell in cells.items():
        if embedder != "hidden-mean" and "hidden-mean" in cells:
            result = compare([cells["hidden-mean"], cell], [work.out / "cells"])
            yield {"embedder": embedder}, result["ratio"], *(result["ratio_ci"] or (None, None))


def hardest_bin(work: Reproduction) -> Iterator[Value]:
    """Random's calls / RepExp's in the hardest bin, for each task."""
    for path in sorted((work.out / "plots").rglob("hardness.csv")):
        row = max(_csv(path), key=lambda row: int(row["bin"]))
        yield {"task": row["task"], "model": row["model"]}, float(row["random"]) / float(row["selected"]), None, None


def most_times_fewer(work: Reproduction) -> Iterator[Value]:
    """The largest `times_fewer` of the figure's table, for each sampler or pool."""
    for path in sorted((work.out / "plots").glob("*.csv")):
        groups: dict[str, list[dict[str, str]]] = {}
        for row in _csv(path):
            if row["times_fewer"] and (row["selector"] or row["series"]).startswith("repexp"):
                groups.setdefault(
                    row["sampler"] if path.stem == "samplers" else row["task"].partition(":")[0], []
                ).append(row)
        for label, rows in groups.items():
            row = max(rows, key=lambda row: float(row["times_fewer"]))
            ends = (float(text) if (text := row[f"times_fewer_{end}"]) else None for end in ("low", "high"))
            yield {"label": label, "k": f"at k = {row['k']}"}, float(row["times_fewer"]), *ends  # type: ignore[misc]


def overtakes(work: Reproduction) -> Iterator[Value]:
    """The smallest budget of the figure's table from which on a sampler solves more than the first, beta = 0."""
    for path in sorted((work.out / "plots").glob("guided.csv")):
        curves: dict[str, dict[int, float]] = {}
        for row in _csv(path):
            if row["panel"] == "budget":
                curves.setdefault(row["series"], {})[int(row["k"])] = float(row["solved"])
        (_, plain), *others = curves.items()
        for series, curve in others:
            ahead: list[int] = []
            for k in curve:
                ahead = [*ahead, k] if curve[k] > plain.get(k, 1.0) else []
            yield {"sampler": series}, ahead[0] if ahead else None, None, None


def fewer_than_grpo(work: Reproduction) -> Iterator[Value]:
    """How many times fewer samples RepExp needs for GRPO's pass@n."""
    return _fewer(work, "none")


def fewer_than_unlikeliness(work: Reproduction) -> Iterator[Value]:
    """How many times fewer samples RepExp needs for Unlikeliness's pass@n."""
    return _fewer(work, "unlikely")


def overhead(work: Reproduction) -> Iterator[Value]:
    """Median wall clock of a step, RepExp's / GRPO's, from the runs' metrics, for each task."""
    steps: dict[str, dict[str, list[float]]] = {}
    for row in (row for part in work.parts for row in part.rows if "folder" in row):
        steps.setdefault(row["task"], {}).setdefault(row["bonus"].partition(":")[0], []).extend(_step_times(row))
    for task, of in steps.items():
        if of.get("repexp") and of.get("none"):
            middle = {bonus: sorted(times)[len(times) // 2] for bonus, times in of.items() if times}
            yield {"task": task}, middle["repexp"] / middle["none"], None, None


def _step_times(row: Labels) -> list[float]:
    metrics = Path(row["folder"]) / "metrics.jsonl"
    return [line.value["step_s"] for line in read_lines(metrics, "metrics") if "step_s" in line.value]


def _fewer(work: Reproduction, other: str) -> Iterator[Value]:
    rows = [row for part in work.parts for row in part.rows if "fewer_samples" in row]
    for row in (
        row for row in rows if row["bonus"].partition(":")[0] == "repexp" and row["grader"] == rows[0]["grader"]
    ):
        if factor := row["fewer_samples"].get(other):
            yield {"task": row["task"]}, factor["times"], *(factor["times_ci"] or (None, None))


def _repexp(work: Reproduction) -> list[Labels]:
    return [row for part in work.parts if part.id is None for row in part.rows if row.get("selector") == "repexp"]


def _labels(row: Labels) -> Labels:
    return {"model": row["model"], "task": row["task"].partition(":")[0]}


def _csv(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _text(value: float | None, low: float | None, high: float | None) -> str:
    if value is None:
        return "none"
    ends = "" if low is None and high is None else f" [{'open' if low is None else f'{low:.2f}'}, {high:.2f}]"
    return f"{value:.2f}".removesuffix(".00") + ends
