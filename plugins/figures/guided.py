"""`guided`: the paper's figure on exploration at the token level, from runs that stopped at the first correct response.

Left, the share of problems solved within k responses, by Kaplan and Meier's estimate, within one standard error
(`scoring.survival`; several seeds on a problem are one cluster). Right, with `--reference`, the share solved within the
whole budget by hardness, and what a sampler gains over the first one there: paired by problem, seeds averaged inside,
with a 95 % interval. Hardness is another run's, never the runs' own: bins by their own luck would make a gain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harness.errors import HarnessError
from harness.records import Floats
from harness.running import until_correct
from harness.scoring.budget_curves import budgets
from harness.scoring.metrics import random_samples_to_correct
from harness.scoring.stats import difference_interval
from harness.store.keys import digest

from . import style
from .chosen import reference_of
from .request import Request, Row

BINS = 4
Runs = dict[str, list[until_correct.Record]]


def guided_rows(request: Request) -> list[Row]:
    """A row a budget of each sampler (`panel` budget), and with a reference one a bin (`panel` hardness)."""
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
            f"no sequences in {where}: `harness run --until-correct` keeps them in runs/{until_correct.FOLDER}"
        )
    about = {(record["labels"]["task"], record["labels"]["model"]) for record in records}
    if len(about) > 1:
        found = "; ".join(sorted(" · ".join(pair) for pair in about))
        raise request.refused(f"there are sequences of {found}: name one by --task and --model")
    problems = {tuple(sorted(entry["id"] for entry in record["problems"])) for record in records}
    if len(problems) > 1:
        raise request.refused(
            "these sequences are not of the same problems: give runs with the same --data and --limit"
        )
    runs: Runs = {}
    for record in sorted(records, key=_order):
        runs.setdefault(record["labels"]["sampler"], []).append(record)
    return runs


def _records(request: Request, folder: Path) -> list[until_correct.Record]:
    found = []
    for path in sorted(folder.rglob("*.json")) if folder.is_dir() else []:
        try:
            found.append(until_correct.read(path))
        except HarnessError as fault:
            request.say(f"not counted: {fault}")
    return found


def _order(record: Mapping[str, Any]) -> tuple[Any, ...]:
    sampler, labels = record["inputs"]["sampler"], record["labels"]
    return sampler.get("beta", 0.0), labels["sampler"], labels["seed"]


def _common(name: str, records: Sequence[until_correct.Record]) -> Row:
    labels, seeds = records[0]["labels"], len(records)
    about = {"task": labels["task"], "model": labels["model"], "sampler": labels["sampler"]}
    budget = max(record["budget"] for record in records)
    return {**about, "series": name, "n": budget, "problems": len(records[0]["problems"]), "seeds": seeds}


def _curve(name: str, records: Sequence[until_correct.Record]) -> list[Row]:
    common = {**_common(name, records), "panel": "budget"}
    estimate = until_correct.survival_of(records)
    rows = []
    for k in budgets(common["n"]):
        found = estimate.solved(k)
        if found:
            share, error = found
            rows.append({**common, "k": k, "solved": share, "solved_error": error})
    return rows


def _by_hardness(request: Request, runs: Runs, reference: Path) -> list[Row]:
    """A row a sampler and bin; the gain is over the first sampler, and that one's own rows have none."""
    shares = {name: _shares(records) for name, records in runs.items()}
    baseline = next(iter(shares))
    ids = np.array(sorted(shares[baseline]))
    hardness, judge = _hardness(request, ids.tolist(), reference)
    hardest_last = np.lexsort((ids, hardness))
    rows = []
    for name, records in runs.items():
        for place, members in enumerate(np.array_split(hardest_last, min(BINS, len(ids)))):
            own = np.array([shares[name][problem] for problem in ids[members]])
            gains = own - np.array([shares[baseline][problem] for problem in ids[members]])
            low, high = hardness[members].min(), hardness[members].max()
            row = {**_common(name, records), "panel": "hardness", "bin": place + 1, "questions": len(members)}
            row |= {"judged_by": judge, "hardness_low": float(low), "hardness_high": float(high)}
            rows.append(row | {"solved": float(own.mean())} | (_gain(gains, baseline) if name != baseline else {}))
    return rows


def _gain(gains: Floats, baseline: str) -> Row:
    seed = int(digest([baseline, gains.tolist()], 8), 16)
    low, high = difference_interval(gains, seed) or (None, None)
    return {"over": baseline, "gain": float(gains.mean()), "gain_low": low, "gain_high": high}


def _shares(records: Sequence[until_correct.Record]) -> dict[str, float]:
    """Per problem in what share of the seeds it was solved within the budget that all of them had."""
    budget = min(record["budget"] for record in records)
    found: dict[str, list[bool]] = {}
    for record in records:
        for entry in record["problems"]:
            found.setdefault(entry["id"], []).append(entry["solved"] and entry["time"] <= budget)
    return {problem: float(np.mean(solved)) for problem, solved in found.items()}


def _hardness(request: Request, ids: Sequence[str], reference: Path) -> tuple[Floats, str]:
    """Per problem random's expected samples-to-correct in the reference's pool, and whose that is."""
    for other in reference_of(request, reference):
        if set(ids) <= set(other.problems):
            expected = random_samples_to_correct(other.outcomes.n, other.outcomes.c)
            hard = dict(zip(other.problems, expected, strict=True))
            return np.array([hard[problem] for problem in ids]), other.about["model"]
    raise request.refused(f"--reference {reference}: no cell there holds all {len(ids)} problems")


def draw_guided(rows: Sequence[Row]) -> Any:
    """The curves, each within one standard error; beside them, where there is a reference, the gains by hardness."""
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
    """A mark a sampler and bin, with its interval, side by side."""
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
