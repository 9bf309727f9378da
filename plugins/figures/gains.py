"""`gains` and `strength`: the gain over random selection of the best selectors, over many pools.

The gain is the tables' improvement: random's mean samples-to-correct divided by the selector's. `gains` shows it by how
hard a problem is for the model: the share of its responses that are correct, in five classes that are the same for all
pools. `strength` shows it by the model's pass@1, not by ranks as `models` does: so it has room for all tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from harness.results.leaderboard import Across, Board, Gathered, across, boards, pool_name
from harness.results.rows import Row as ResultRow
from harness.scoring import stats

from .chosen import MOST, NO_EMBEDDER, Chosen, at_most, leave_out, measured
from .frame import GREY, LINES, Frame, of_others, of_selectors, short, split, with_ends
from .request import PAPERS_SELECTOR, Request, Row


def _tables(request: Request) -> tuple[dict[str, Chosen], list[Board]]:
    """The cells by their keys, and the tables that they make."""
    cells = {cell.key: cell for cell in measured(request)}
    return cells, boards(Gathered({key: cell.cell for key, cell in cells.items()}))


def _shown(line: Across, table: Board) -> Iterator[ResultRow]:
    """The rows of a table that are of this selector and embedder."""
    return (row for row in table.rows if (row.name, row.embedder) == (line.selector, line.embedder))


def _called(line: Across) -> str:
    return line.selector if line.embedder == NO_EMBEDDER else f"{line.selector} · {line.embedder}"


def _told(request: Request, lines: Sequence[Across], shown: Sequence[Across]) -> None:
    """Say which of the selectors are shown, if not all are."""
    if len(shown) < len(lines):
        names, count = ", ".join(map(_called, shown)), f"{len(shown)} of {len(lines)} selectors and embedders"
        request.say(f"{count} are shown ({names}); --selector names others")


def _improvement_axis(axes: Any, rows: Sequence[Row]) -> None:
    """Make the y axis logarithmic, with a line at 1, where a selector is as good as random."""
    axes.axhline(1, color=GREY, linewidth=0.8, linestyle=LINES[1], zorder=1)
    ends = [row[f"improvement{end}"] for row in rows for end in ("", "_low", "_high") if row[f"improvement{end}"]]
    Frame.log_axis(axes.yaxis, min(ends), max(ends))
    axes.set(ylabel="random's calls / the selector's")


class Gains:
    """Improvement over random by the share of correct responses: the best selectors over several pools, and RepExp."""

    CLASSES = (0.0, 0.02, 0.05, 0.2, 0.5, 1.0)  # shares of correct responses: above one, up to the next
    BEST = 5
    LEAST = 5  # problems of a class for a point

    def rows(self, request: Request) -> list[Row]:
        """Return a row per pool, selector and class: random's mean, the selector's, their ratio, its interval.

        Without a selector given: the five that are best over all pools of the folders, each with the vectors that serve
        it best, and RepExp. HarnessError if no selector has ranked every pool. Problems without a correct response are
        in no class, since no order is better there.
        """
        cells, tables = _tables(request)
        at_most(request, len(tables), "pools")
        lines = across(tables)
        best: dict[str, Across] = {}  # the best selectors first, each with the vectors that serve it best
        for line in lines:
            if line.pools == len(tables):
                best.setdefault(line.selector, line)
        shown = list(best.values())
        if not request.selector:
            shown = [line for place, line in enumerate(shown) if place < self.BEST or line.selector == PAPERS_SELECTOR]
        if not shown:
            raise request.refused(f"no ranker has cells of all {len(tables)} pools: give folders whose cells share one")
        _told(request, lines, shown)
        for table in tables:
            seeds = max(list(row.seeds or ()) for line in shown for row in _shown(line, table))
            if len(seeds) > 1:
                listed = ", ".join(map(str, seeds))
                request.say(f"{pool_name(table)}: of its seeds {listed} the first is drawn; --seed chooses another")
        return [
            {**cells[row.cell].columns, "panel": pool_name(table), "series": _called(line), **values}
            for table in tables
            for line in shown
            for row in _shown(line, table)
            for values in self._classes(cells[row.cell])
        ]

    def _classes(self, cell: Chosen) -> Iterator[Row]:
        """Yield the values of each class of hardness that has problems enough."""
        share = cell.outcomes.c / cell.outcomes.n
        for above, up_to in pairwise(self.CLASSES):
            inside = (share > above) & (share <= up_to)
            if inside.sum() >= self.LEAST:
                random, selected = pair = cell.random_calls[inside], cell.calls[inside]
                row = {"above": above, "up_to": up_to, "questions": int(inside.sum())}
                row |= {"random": float(random.mean()), "selected": float(selected.mean())}
                ratio = row["random"] / row["selected"]
                yield row | with_ends("improvement", ratio, stats.ratio_interval(*pair, cell.seed))

    def draw(self, rows: Sequence[Row]) -> Any:
        named = short([row["panel"] for row in rows])
        looks = of_selectors(list(dict.fromkeys(row["series"] for row in rows)))
        frame = Frame("Gain over random selection, by how often the model is right", rows, "panel")
        for axes, part in frame:
            for place, (series, look) in enumerate(looks.items()):
                of_series = [row for row in part if row["series"] == series]
                aside = 0.09 * (place - (len(looks) - 1) / 2)
                x = [self.CLASSES.index(row["above"]) + aside for row in of_series]
                Frame.line(axes, x, of_series, "improvement", look)
            sizes = {row["above"]: row["questions"] for row in part}
            classes = list(pairwise(self.CLASSES))
            ticks = [f"{100 * low:g}-{100 * high:g} %\n({sizes.get(low, 'few')})" for low, high in classes]
            axes.set_xticks(range(len(ticks)), ticks, fontsize=6)
            axes.set(xlim=(-0.4, len(ticks) - 0.6), xlabel="share of correct responses (problems)")
            _improvement_axis(axes, rows)
            Frame.name(axes, named[part[0]["panel"]])
        return frame.finish(looks)


class Strength:
    """Improvement over random against the model's pass@1: every pool, over tasks and samplers."""

    BEST = 2
    SERIES = 2 * MOST  # models and tasks

    def rows(self, request: Request) -> list[Row]:
        """Return a row per pool of each panel: the pool's pass@1, and the improvement with its 95 % interval.

        A panel is a selector with an embedder. Without a selector given: the paper's, with each embedder that at least
        half of the pools have, and the two that are best of those on the most pools. Where nothing is correct there is
        no point.
        """
        cells, tables = _tables(request)
        wanted = lines = across(tables)
        if not lines:
            raise request.refused("cells of selectors that choose sets, not orders: they have no samples-to-correct")
        if not request.selector:
            papers = [line for line in lines if line.selector.partition(" ")[0] == PAPERS_SELECTOR]
            wanted = [line for line in papers if 2 * line.pools >= len(tables)]
            best = {line.selector: line for line in reversed(lines) if line.pools == lines[0].pools}
            ordered = sorted(best.values(), key=lambda line: -line.improvement)
            wanted += [line for line in ordered[: self.BEST] if line.selector != PAPERS_SELECTOR]
        at_most(request, len(wanted), "selectors and embedders")
        _told(request, lines, wanted)
        rows, every = [], {cell.pool: cell for cell in cells.values()}
        for line in wanted:
            drawn = {cells[key].pool for table in tables for row in _shown(line, table) for key in row.cells or ()}
            lacking = [cell for pool, cell in every.items() if pool not in drawn]
            leave_out(request, lacking, f"has no cell of {_called(line)}")
            for row in (row for table in tables for row in _shown(line, table)):
                if row.improvement and row.pass_at_k_random["1"]:
                    about: Row = {"panel": _called(line), "series": f"{row.model}, {row.task}"}
                    about |= {"pass_at_1": row.pass_at_k_random["1"]}
                    about |= with_ends("improvement", row.improvement, row.improvement_ci)
                    rows.append({**cells[row.cell].columns, **about})
                else:
                    leave_out(request, [cells[row.cell]], f"has no correct response ({_called(line)})")
        if not rows:
            raise request.refused("no pool has a correct response: there is no improvement to draw")
        at_most(request, len(split(rows, "series")), "models and tasks", self.SERIES)
        return rows

    def draw(self, rows: Sequence[Row]) -> Any:
        looks = of_others([row["series"] for row in rows], linestyle="none")
        shares = [100 * row["pass_at_1"] for row in rows]
        frame = Frame("Gain over random selection, by the model's pass@1", rows, "panel")
        for axes, part in frame:
            Frame.log_axis(axes.xaxis, min(shares), max(shares))
            for row in part:
                look, at = looks[row["series"]], 100 * row["pass_at_1"]
                Frame.interval(axes, at, row, "improvement", look)
                axes.plot(at, row["improvement"], **look)
            _improvement_axis(axes, rows)
            axes.set(xlabel="pass@1 (%)")
            Frame.name(axes, part[0]["panel"])
        names = short(list(looks))
        if len({series.partition(", ")[2] for series in looks}) == 1:
            names = {series: series.partition(", ")[0] for series in looks}
        return frame.finish({names[series]: look for series, look in looks.items()})
