"""`guided`: the paper's figure on exploration at the token level, from runs that stopped at the first correct response.

Left: the share of problems solved within k responses, by Kaplan and Meier's estimate, with one standard error
(seeds of one problem are one cluster). Right, with `--reference`: each sampler's gain over the first sampler in the
share solved within a budget, by hardness, with a 95 % interval; a panel for each of the budgets 1, 4, 16, ... and the
whole one within which the samplers differ. Gains are paired by problem and averaged over seeds. Hardness comes from
another run: bins made from the same runs would show a gain by chance alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count, takewhile
from typing import Any

import numpy as np

from harness.errors import HarnessError
from harness.results import stopping_times
from harness.scoring.curves import budgets
from harness.scoring.stats import difference_interval
from harness.system.json_text import digest

from .chosen import judge, matching, references
from .frame import GREY, Frame, of_others, split, with_ends
from .request import Request, Row

BINS, FEWER_BINS = 10, 4  # the paper's, and those of too few questions for ten
QUESTIONS = 10  # in each bin, at the least, if there are to be ten
Runs = dict[str, list[stopping_times.Record]]


class Guided:
    """Token-level exploration: share solved by budget, and by hardness."""

    def rows(self, request: Request) -> list[Row]:
        """Return a row per sampler and budget; with a reference cell also one per sampler, budget and bin of hardness.

        The column `panel` says which: "budget" or "hardness".
        """
        runs, rows = _runs(request), []
        for series, records in runs.items():
            common, estimate = _common(series, records) | {"panel": "budget"}, stopping_times.survival_of(records)
            for k in budgets(common["n"]):
                if solved := estimate.solved(k):
                    rows.append({**common, "k": k, "solved": solved[0], "solved_error": solved[1]})
        if request.reference:
            return rows + _by_hardness(request, runs)
        request.say("no panel by hardness: --reference CELL says which questions are hard")
        return rows

    def draw(self, rows: Sequence[Row]) -> Any:
        looks = of_others([row["series"] for row in rows])
        gains = split([row for row in rows if row.get("over")], "k")
        differ = {k: part for k, part in gains.items() if any(row["gain"] for row in part)}
        alike = [f"{k:,}" for k in gains if k not in differ]
        if gains and not differ:
            differ = dict([gains.popitem()])
        # Of the rows by budget `k` is the x axis, of the others the panel.
        shown = [{**row, "at": 0} for row in rows if row["panel"] == "budget"]
        shown += [{**row, "at": k} for k, part in differ.items() for row in part]
        frame = Frame("Exploration at the token level, verified until correct", shown, "at")
        axes, curves = next(iter(frame))
        for series, part in split(curves, "series").items():
            k, look = [row["k"] for row in part], looks[series]
            solved, error = (np.array([100 * row[each] for row in part]) for each in ("solved", "solved_error"))
            axes.plot(k, solved, **look, markevery=max(1, len(k) // 8))
            Frame.band(axes, k, solved - error, solved + error, look, 0.15)
        counts = f"{rows[0]['problems']} problems, {max(row['seeds'] for row in rows)} seeds"
        Frame.name(axes, f"{rows[0]['task']}, {rows[0]['model']}", counts)
        Frame.log_axis(axes.xaxis, 1, max(row["k"] for row in curves), base=2)
        axes.set(xlabel="k, verifier calls a problem", ylabel="problems solved (Kaplan-Meier, %)")
        columns = ("gain", "gain_low", "gain_high")
        heights = [100 * (row[each] or 0) for part in differ.values() for row in part for each in columns]
        for axes, part in list(frame)[1:]:  # a mark with its interval per sampler and bin, side by side
            of_series = split(part, "series")
            for place, (series, points) in enumerate(of_series.items()):
                for row in points:
                    at = row["bin"] + (place - (len(of_series) - 1) / 2) * 0.15
                    Frame.interval(axes, at, row, "gain", looks[series], scale=100, width=1.3)
                    axes.plot(at, 100 * row["gain"], **looks[series] | {"linestyle": "none"})
            axes.axhline(0, color=GREY, linewidth=0.8)
            bins = sorted({row["bin"] for row in part})
            axes.set_xticks(bins)
            axes.set(xlabel=f"part of the questions\n{bins[-1]} = hardest ({part[0]['judged_by']})")
            low, high = max(min(heights) - 5, -105), min(max(heights) + 5, 105)  # intervals of few may be wider
            axes.set(ylabel="more solved than by the first (points)", ylim=(low, high))
            Frame.name(axes, f"within {part[0]['k']:,} calls, by hardness", f"against {part[0]['over']}")
        notes = ["band: one standard error"]
        notes += ["bars: 95 % intervals, paired by problem"] if gains else []
        return frame.finish(looks, *notes, *([f"no difference within {', '.join(alike)} calls"] if alike else []))


def _runs(request: Request) -> Runs:
    """The records by sampler, the one with the smallest beta first; all of one task, model and set of problems."""
    records = []
    for record in stopping_times.records(request.folders):
        if isinstance(record, HarnessError):
            request.say(f"not counted: {record}")
        else:
            records.append(record)
    if not records:
        where, kept = ", ".join(map(str, request.folders)), f"runs/{stopping_times.FOLDER}"
        raise request.refused(f"no sequences in {where}: `harness run --until-correct` keeps them in {kept}")
    records = matching(
        request, records, request.labels, lambda record: {**record["labels"], "n": record["budget"]}, "sequence"
    )
    about = {" · ".join(record["labels"][label] for label in ("task", "model")) for record in records}
    if len(about) > 1:
        raise request.refused(f"there are sequences of {'; '.join(sorted(about))}: name one by --task and --model")
    if len({tuple(sorted(entry["id"] for entry in record["problems"])) for record in records}) > 1:
        raise request.refused(
            "these sequences are not of the same problems: give runs with the same --data and --limit"
        )

    def order(record: stopping_times.Record) -> tuple[Any, ...]:
        labels = record["labels"]
        return record["inputs"]["sampler"].get("beta", 0.0), labels["sampler"], labels["seed"]

    runs: Runs = {}
    for record in sorted(records, key=order):
        runs.setdefault(record["labels"]["sampler"], []).append(record)
    return runs


def _common(series: str, records: Sequence[stopping_times.Record]) -> Row:
    about = {label: records[0]["labels"][label] for label in ("task", "model", "sampler")} | {"series": series}
    sizes = {"n": max(record["budget"] for record in records), "problems": len(records[0]["problems"])}
    return about | sizes | {"seeds": len(records)}


def _by_hardness(request: Request, runs: Runs) -> list[Row]:
    """A row per budget, sampler and bin, the hardest last; the gain is over the first sampler, whose rows have none."""
    baseline, labels = next(iter(runs)), next(iter(runs.values()))[0]["labels"]
    ids, most = sorted(_shares(runs[baseline], 1)), min(record["budget"] for each in runs.values() for record in each)
    judging = judge(request, references(request), labels["task"], ids, f"{labels['task']} · {labels['model']}")
    hardness, binned = judging.hardest_last(ids, bin_count(request, len(ids)))
    rows = []
    for k in [*takewhile(lambda k: k < most, (4**power for power in count())), most]:
        shares = {series: _shares(records, k) for series, records in runs.items()}
        for series, records in runs.items():
            for place, members in enumerate(binned, 1):
                solved, first = (np.array([shares[each][ids[at]] for at in members]) for each in (series, baseline))
                low, high = float(hardness[members].min()), float(hardness[members].max())
                row = {**_common(series, records), "panel": "hardness", "k": k, "bin": place, "questions": len(members)}
                row |= {"judged_by": judging.about["model"], "hardness_low": low, "hardness_high": high}
                row |= {"solved": float(solved.mean())}
                if series != baseline:
                    gains = solved - first
                    seed = int(digest([baseline, gains.tolist()], 8), 16)
                    ends = difference_interval(gains, seed)
                    row |= {"over": baseline} | with_ends("gain", float(gains.mean()), ends)
                rows.append(row)
    return rows


def bin_count(request: Request, questions: int) -> int:
    """How many bins of hardness: those asked for; else ten from a hundred questions on, four below."""
    if request.bins is None:
        return min(BINS if questions >= BINS * QUESTIONS else FEWER_BINS, questions)
    if request.bins > questions:
        raise request.refused(f"--bins {request.bins}: there are only {questions} questions")
    return request.bins


def _shares(records: Sequence[stopping_times.Record], k: int) -> dict[str, float]:
    """For each problem the share of seeds that solved it within k calls."""
    outcomes: dict[str, list[bool]] = {}
    for record in records:
        for entry in record["problems"]:
            outcomes.setdefault(entry["id"], []).append(entry["solved"] and entry["time"] <= k)
    return {problem: float(np.mean(solved)) for problem, solved in outcomes.items()}
