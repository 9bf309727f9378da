"""`guided`: the paper's figure on exploration at the token level, from runs that stopped at the first correct response.

Left: the share of problems solved within k responses, by Kaplan and Meier's estimate, with one standard error
(seeds of one problem are one cluster). Right, with `--reference`: each sampler's gain over
the first sampler in the share solved within the whole budget, by hardness, with a 95 % interval. Gains are paired by
problem and averaged over seeds. Hardness comes from another run: bins made from the same runs would show a gain by
chance alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harness.errors import HarnessError
from harness.records import Floats
from harness.results import stopping_times
from harness.scoring.curves import budgets
from harness.scoring.metrics import random_samples_to_correct
from harness.scoring.stats import difference_interval
from harness.system.json_text import digest

from . import style
from .chosen import reference_of
from .request import Request, Row

BINS, FEWER_BINS = 10, 4  # the paper's, and those of too few questions for ten
QUESTIONS = 10  # in each bin, at the least, if there are to be ten
Runs = dict[str, list[stopping_times.Record]]


def guided_rows(request: Request) -> list[Row]:
    """Return a row per sampler and budget; with a reference cell also a row per sampler and bin of hardness.

    The column `panel` says which: "budget" or "hardness".
    """
    runs = _runs(request)
    rows = [row for name, records in runs.items() for row in _curve(name, records)]
    if not request.reference:
        request.say("no panel by hardness: --reference CELL says which questions are hard")
        return rows
    return rows + _by_hardness(request, runs, request.reference)


def _runs(request: Request) -> Runs:
    """The records by sampler, the one with the smallest beta first; all of one task, model and set of problems."""
    records = [record for folder in request.folders for record in _records(request, folder)]
    for name in ("task", "model", "sampler"):
        wanted = getattr(request, name)
        records = [record for record in records if not wanted or record["labels"][name] == wanted]
    if not records:
        where = ", ".join(map(str, request.folders))
        raise request.refused(
            f"no sequences in {where}: `harness run --until-correct` keeps them in runs/{stopping_times.FOLDER}"
        )
    about = {(record["labels"]["task"], record["labels"]["model"]) for record in records}
    if len(about) > 1:
        available = "; ".join(sorted(" · ".join(pair) for pair in about))
        raise request.refused(f"there are sequences of {available}: name one by --task and --model")
    problems = {tuple(sorted(entry["id"] for entry in record["problems"])) for record in records}
    if len(problems) > 1:
        raise request.refused(
            "these sequences are not of the same problems: give runs with the same --data and --limit"
        )
    runs: Runs = {}
    for record in sorted(records, key=_order):
        runs.setdefault(record["labels"]["sampler"], []).append(record)
    return runs


def _records(request: Request, folder: Path) -> list[stopping_times.Record]:
    records = []
    for path in sorted(folder.rglob("*.json")) if folder.is_dir() else []:
        try:
            records.append(stopping_times.read(path))
        except HarnessError as fault:
            request.say(f"not counted: {fault}")
    return records


def _order(record: Mapping[str, Any]) -> tuple[Any, ...]:
    sampler, labels = record["inputs"]["sampler"], record["labels"]
    return sampler.get("beta", 0.0), labels["sampler"], labels["seed"]


def _common(name: str, records: Sequence[stopping_times.Record]) -> Row:
    labels, seeds = records[0]["labels"], len(records)
    about = {"task": labels["task"], "model": labels["model"], "sampler": labels["sampler"]}
    budget = max(record["budget"] for record in records)
    return {**about, "series": name, "n": budget, "problems": len(records[0]["problems"]), "seeds": seeds}


def _curve(name: str, records: Sequence[stopping_times.Record]) -> list[Row]:
    common = {**_common(name, records), "panel": "budget"}
    estimate = stopping_times.survival_of(records)
    rows = []
    for k in budgets(common["n"]):
        solved = estimate.solved(k)
        if solved:
            share, error = solved
            rows.append({**common, "k": k, "solved": share, "solved_error": error})
    return rows


def _by_hardness(request: Request, runs: Runs, reference: Path) -> list[Row]:
    """A row per sampler and bin; the gain is over the first sampler, whose rows have no gain."""
    shares = {name: _shares(records) for name, records in runs.items()}
    baseline = next(iter(shares))
    ids = np.array(sorted(shares[baseline]))
    hardness, judge = _hardness(request, ids.tolist(), reference)
    binned = np.array_split(np.lexsort((ids, hardness)), _bins(request, len(ids)))  # the hardest last
    rows = []
    for name, records in runs.items():
        for place, members in enumerate(binned):
            solved = np.array([shares[name][problem] for problem in ids[members]])
            gains = solved - np.array([shares[baseline][problem] for problem in ids[members]])
            low, high = hardness[members].min(), hardness[members].max()
            row = {**_common(name, records), "panel": "hardness", "bin": place + 1, "questions": len(members)}
            row |= {"judged_by": judge, "hardness_low": float(low), "hardness_high": float(high)}
            rows.append(row | {"solved": float(solved.mean())} | (_gain(gains, baseline) if name != baseline else {}))
    return rows


def _bins(request: Request, questions: int) -> int:
    if request.bins is None:
        return min(BINS if questions >= BINS * QUESTIONS else FEWER_BINS, questions)
    if request.bins > questions:
        raise request.refused(f"--bins {request.bins}: there are only {questions} questions")
    return request.bins


def _gain(gains: Floats, baseline: str) -> Row:
    seed = int(digest([baseline, gains.tolist()], 8), 16)
    low, high = difference_interval(gains, seed) or (None, None)
    return {"over": baseline, "gain": float(gains.mean()), "gain_low": low, "gain_high": high}


def _shares(records: Sequence[stopping_times.Record]) -> dict[str, float]:
    """For each problem the share of seeds that solved it within the smallest budget of all seeds."""
    budget = min(record["budget"] for record in records)
    outcomes: dict[str, list[bool]] = {}
    for record in records:
        for entry in record["problems"]:
            outcomes.setdefault(entry["id"], []).append(entry["solved"] and entry["time"] <= budget)
    return {problem: float(np.mean(solved)) for problem, solved in outcomes.items()}


def _hardness(request: Request, ids: Sequence[str], reference: Path) -> tuple[Floats, str]:
    """Each problem's expected samples-to-correct of random selection on the reference's pool, and that pool's model."""
    for other in reference_of(request, reference):
        if set(ids) <= set(other.problems):
            expected = random_samples_to_correct(other.outcomes.n, other.outcomes.c)
            hard = dict(zip(other.problems, expected, strict=True))
            return np.array([hard[problem] for problem in ids]), other.about["model"]
    raise request.refused(f"--reference {reference}: no cell there holds all {len(ids)} problems")


def draw_guided(rows: Sequence[Row]) -> Any:
    """Return the figure of `guided_rows`: per sampler the share of problems solved within k calls ± its error.

    If rows hold gains over the first sampler (`--reference` and two samplers), a second panel shows them by hardness.
    """
    curves = [row for row in rows if row["panel"] == "budget"]
    gains = [row for row in rows if row["panel"] == "hardness" and row.get("over")]
    names = list(dict.fromkeys(row["series"] for row in rows))
    looks = {name: style.look(place) for place, name in enumerate(names)}
    figure, grid = style.panels("Exploration at the token level, verified until correct", 2 if gains else 1)
    for name in names:
        _draw_curve(grid[0], [row for row in curves if row["series"] == name], looks[name])
    first = rows[0]
    counts = f"{first['problems']} problems, {max(row['seeds'] for row in rows)} seeds"
    style.name_panel(grid[0], f"{first['task']}, {first['model']}", counts)
    style.log_axis(grid[0].xaxis, 1, max(row["k"] for row in curves), base=2)
    grid[0].set(xlabel="k, verifier calls a problem", ylabel="problems solved (Kaplan-Meier, %)")
    if gains:
        _draw_gains(grid[1], gains, looks)
    band = style.mark("band: one standard error", linestyle="none")
    style.legend(figure, [*(style.mark(name, **looks[name]) for name in names), band])
    return figure


def _draw_curve(axes: Any, rows: Sequence[Row], look: Mapping[str, Any]) -> None:
    k, solved = [row["k"] for row in rows], np.array([100 * row["solved"] for row in rows])
    error = np.array([100 * row["solved_error"] for row in rows])
    axes.plot(k, solved, **look, markevery=max(1, len(k) // 8))
    axes.fill_between(k, solved - error, solved + error, color=look["color"], alpha=0.15, linewidth=0)


def _draw_gains(axes: Any, rows: Sequence[Row], looks: Mapping[str, Mapping[str, Any]]) -> None:
    """Plot a mark with its interval per sampler and bin, side by side."""
    names = list(dict.fromkeys(row["series"] for row in rows))
    for place, name in enumerate(names):
        aside = (place - (len(names) - 1) / 2) * 0.15
        for row in (row for row in rows if row["series"] == name):
            look = {**looks[name], "linestyle": "none"}
            if row["gain_low"] is not None:
                ends = [100 * row["gain_low"], 100 * row["gain_high"]]
                axes.plot([row["bin"] + aside] * 2, ends, color=look["color"], marker="")
            axes.plot(row["bin"] + aside, 100 * row["gain"], **look)
    axes.axhline(0, color=style.GREY, linewidth=0.8)
    bins = sorted({row["bin"] for row in rows})
    axes.set_xticks(bins)
    axes.set(xlabel=f"part of the questions, {bins[-1]} = hardest ({rows[0]['judged_by']})")
    axes.set(ylabel="more solved than by the first (points)")
    style.name_panel(axes, f"by hardness, against {rows[0]['over']}", "95 % intervals, paired by problem")


class Guided:
    """Token-level exploration: share solved by budget, and by hardness."""

    rows, draw = staticmethod(guided_rows), staticmethod(draw_guided)
