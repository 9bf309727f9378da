"""`likelihoods`: the model's likelihood of all responses, of a selector's first k picks, and of correct responses.

A response's value is its log-probability (temperature 1, nothing filtered) divided by its number of tokens, in nats.
Each response counts once in "all" and in "correct", each pick of each trial once in "first k".

Rankings in cells and in the store end at the first correct response. So the same selector ranks again, with the same
random stream, for k picks of every problem.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from harness.columns.stored import picks, rebuilt, stored_problems
from harness.errors import HarnessError, error_text
from harness.plugin_system.registry import load_registry
from harness.records import Floats

from .chosen import Chosen, named, of_one_selector
from .frame import GREY, INK, LINES, Frame, bins, of_selectors, split
from .request import Request, Row

PART = 8  # without -k a selector picks an eighth of the pool


class Likelihoods:
    """Log-likelihood per token: all responses, a selector's first picks, correct ones (reads --store)."""

    def rows(self, request: Request) -> list[Row]:
        """Return a row per bin of each group of each cell: its edges (`from`, `to`), `count` and `share` of the group.

        Groups are all responses, the first k picks and correct responses; `mean` and `responses` are of the whole
        group.
        """
        cells, rows = of_one_selector(request, "first picks"), []
        k = request.k or -(-min(int(cell.outcomes.n.min()) for cell in cells) // PART)
        for cell, panel in zip(cells, named(request, cells, ("task", "model", "sampler")), strict=True):
            groups = _values(request, cell, k)
            common = {**cell.columns, "panel": panel, "k": k}
            for group, binned in bins(groups["all responses"], groups).items():
                rows += [{**common, "group": group, **row} for row in binned]
        return rows

    def draw(self, rows: Sequence[Row]) -> Any:
        selector, groups = rows[0]["selector"], split(rows, "group")
        colour = of_selectors([selector])[selector]["color"]  # correct responses have a colour that no selector has
        appearances = zip((INK, colour, GREY), (LINES[1], "-", LINES[2]), strict=True)
        looks = dict(zip(groups, ({"color": hue, "linestyle": line} for hue, line in appearances), strict=False))
        frame = Frame(f"Likelihood of what {selector} picks", rows, "panel")
        for axes, part in frame:
            Frame.histograms(axes, part, "group", looks, filled=True)
            Frame.name(axes, part[0]["panel"], f"n = {part[0]['n']}, {part[0]['problems']} problems")
            axes.locator_params(axis="x", nbins=6)
        names = {group: f"{selector}: {group}" if "picks" in group else group for group in groups}
        below = "first bin: all below it too; stroke: mean"
        return frame.finish({names[group]: {"linewidth": 1.6, **look} for group, look in looks.items()}, below)


def _values(request: Request, chosen: Chosen, k: int) -> dict[str, Floats]:
    """Mean log-probability per token of the responses of each group.

    HarnessError if the store does not hold the cell's pool, another version of the selector is installed, or a pool has
    fewer than k responses or no log-probabilities.
    """
    cell, spec, smallest = chosen.cell, chosen.about["selector"], int(chosen.outcomes.n.min())
    if k > smallest:
        raise request.refused(f"-k {k}: the smallest pool of cell {chosen.key} has {smallest} responses")
    selector = rebuilt(load_registry(request.plugin_files), cell)
    if selector is None:
        raise request.refused(f"selector {spec!r} is not the version that made cell {chosen.key}: run it again")
    problems = stored_problems(request.store, cell)
    if len(problems) < len(chosen.problems):
        raise request.refused(
            f"store {request.store} holds {len(problems)} of the {len(chosen.problems)} problems of cell {chosen.key}: "
            "name the store in which it was run (--store)"
        )
    groups: dict[str, list[Floats]] = {"all responses": [], f"first {k} picks": [], "correct responses": []}
    changed = 0
    for entry in cell["problems"]:
        stored = problems[entry["id"]]
        responses = stored.responses(cell)
        if np.isnan(responses.logprobs).any() or responses.token_ids is None:
            lacks = "token counts" if responses.token_ids is None else "log-probabilities"
            raise request.refused(f"the pool of cell {chosen.key} carries no {lacks}: sample one with `harness run`")
        pool, firsts = stored.pool(cell, entry["n"]), []
        try:
            for trial in range(chosen.about["trials"]):
                firsts.append(picks(selector, cell, pool, stored.problem, trial, most=k))
                if len(firsts[-1]) < k:
                    raise HarnessError(f"the ranking ended after {len(firsts[-1])} of {len(pool)} responses")
        except Exception as failure:  # a selector is foreign code
            what = f"selector {spec!r}, problem {stored.problem.id!r}"
            raise request.refused(f"{what}: {error_text(failure)}") from failure
        olds = entry.get("orders") or []
        changed += any(new[: len(old)] != list(old[:k]) for new, old in zip(firsts, olds, strict=False))
        per_token = pool.logprobs / np.maximum(pool.lengths, 1)
        is_correct = np.array([verdict == "correct" for verdict in stored.verdicts(cell, entry["n"])])
        for group, values in zip(
            groups.values(), (per_token, per_token[np.array(firsts)].ravel(), per_token[is_correct]), strict=True
        ):
            group.append(values)
    if changed:
        differ = f"on {changed} problems this machine's picks differ from the cell's; its own are drawn"
        request.say(f"cell {chosen.key}: {differ}")
    return {group: np.concatenate(values) for group, values in groups.items()}
