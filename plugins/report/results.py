"""The cells that a report shows, with their table, their pass@k curves, and the command that makes them again."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from harness.columns.stored import key_of
from harness.errors import HarnessError
from harness.records import Floats
from harness.results import cells, published
from harness.results.inert_text import without_folders
from harness.results.legends import ordinal
from harness.results.rows import Row, one_answer_of, references, row, with_q
from harness.scoring.curves import band, budgets, oracle_shares, random_shares, selected_shares
from harness.system.json_text import canonical_json, digest
from harness.system.progress import Progress

from .page import visible

BUDGETS = ("1", "4", "16", "64", "256", "1024", "4096")


# Which cells.


@dataclass(frozen=True)
class Cell:
    """One cell of a store.

    name     its selector, with its embedder if the report shows several embedders
    besides  what the store has besides: the cells that cannot be in one table with it, a line for each such table
    controls the cells of the controls in its table, where they were not named
    """

    key: str
    content: dict[str, Any]
    name: str = ""
    besides: tuple[str, ...] = ()
    controls: tuple[Cell, ...] = ()

    @cached_property
    def row(self) -> Row:
        """Its row of the leaderboard."""
        return row(self.content, self.key)

    @cached_property
    def by_id(self) -> dict[str, dict[str, Any]]:
        """The entry of each problem: id, n, c, errors, and ranks or hits."""
        return {entry["id"]: entry for entry in self.content["problems"]}

    @cached_property
    def kind(self) -> str:
        """What the selector returns: "order", or "subset" if it chooses a set for each budget."""
        return "subset" if "hits" in self.content["problems"][0] else "order"

    @cached_property
    def pool(self) -> str:
        """The key of its pool."""
        return str(key_of(self.content, "pool"))

    @cached_property
    def told(self) -> dict[str, str]:
        """How its pool is told from others, by label."""
        labels = self.content["labels"]
        told = {name: str(labels[name]) for name in ("task", "split", "model", "sampler")}
        told |= {
            "n": f"n = {self.row.n}",
            "problems": f"{self.row.problems} problems",
            "seed": f"seed {labels['seed']}",
        }
        to = f"to the {ordinal(self.row.correct)} correct response"
        return told | {"trials": f"{labels['trials']} trials", "correct": to}

    @cached_property
    def compared(self) -> str:
        """A hash of what cells in one table must share: pool, verdicts, n, trials, seed and problems."""
        labels, inputs = self.content["labels"], self.content["inputs"]
        shared = [inputs["pool"]["key"], inputs["verdict"]["key"], inputs["ranking"].get("n"), self.row.correct]
        return digest([*shared, labels["trials"], labels["seed"], list(self.by_id)])


def chosen_cells(root: Path, keys: Sequence[str], progress: Progress, pool: str | None = None) -> list[Cell]:
    """Return the cells with these keys or prefixes of keys; without keys, the newest cell and all comparable ones.

    pool   the beginning of a pool's key: only its cells

    The best is the first; subset methods, which have no improvement, come last. Of cells with the same selector and
    embedder (a selector whose file was edited) only one is returned: the first in the order of `keys`, without keys the
    newest. HarnessError if there is no cell, or cells of the keys differ in what they must share (`Cell.compared`).
    """
    folder, candidates = root / "cells", list[Cell]()
    paths = sorted(folder.glob("*.json"), key=lambda path: (-path.stat().st_mtime_ns, path.name))
    if not paths:
        raise HarnessError(f"report: no cells in {folder}: `harness run` makes some, --store says where")
    measured = set[str]()
    for path in dict.fromkeys(published.named(key, [folder], "report").path for key in keys) or paths:
        try:
            content = cells.read(path)
            ranked = digest([content["labels"], content["inputs"]["pool"].get("key")])
            if "failed" not in content:
                candidates.append(Cell(path.stem, content))
                measured.add(ranked)
            elif keys or ranked not in measured:  # else the selector has a newer result
                raise HarnessError(f"cell {path}: failed ({content['failed']})")
        except HarnessError as failure:
            if keys:
                raise
            progress.say(f"left out: {failure}")
    if not candidates:
        raise HarnessError(f"report: no cell in {folder} has results")
    of_pool = [cell for cell in candidates if cell.pool.startswith(pool or "")]
    if not of_pool:
        known = ", ".join(sorted({cell.pool[:8] for cell in candidates}))
        raise HarnessError(f"report: no cell of pool {pool!r} in {folder}; there are cells of {known}")
    besides = () if keys else _besides(of_pool[0], candidates)
    candidates = of_pool
    alike = [cell for cell in candidates if cell.compared == candidates[0].compared]
    if keys and len(alike) < len(candidates):
        other = next(cell for cell in candidates if cell not in alike)
        raise HarnessError(
            f"report: cells {candidates[0].key} and {other.key} differ in pool, verdicts, problems, trials, seed or "
            "--correct: one report shows one pool"
        )
    first: dict[tuple[str, str], Cell] = {}
    for cell in alike:
        first.setdefault((cell.content["labels"]["selector"], cell.content["labels"]["embedder"]), cell)
    several = len({embedder for _, embedder in first} - {"none"}) > 1
    named = [
        replace(cell, name=f"{selector} · {embedder}" if several and embedder != "none" else selector, besides=besides)
        for (selector, embedder), cell in first.items()
    ]
    controls = [cell for cell in sorted(named, key=lambda each: each.name) if cell.content.get("control") and not keys]
    shown = [replace(cell, controls=tuple(controls)) for cell in named if cell not in controls] or controls
    return sorted(shown, key=lambda cell: (-(cell.row.improvement or -1.0), cell.name))


def _besides(shown: Cell, candidates: Sequence[Cell]) -> tuple[str, ...]:
    """A line for each other table that the cells make: how it differs, and the options that show it."""
    tables: dict[str, list[Cell]] = {}
    for cell in candidates:
        tables.setdefault(cell.compared, []).append(cell)
    lines, pools = [], {shown.pool}
    for compared, members in tables.items():
        if compared != shown.compared:
            differ = [name for name, value in members[0].told.items() if value != shown.told[name]]
            what = ", ".join(str(members[0].told[name]) for name in differ) or "other verdicts or problems"
            options = [f"--cell {cell.key[:8]}" for cell in members]
            if members[0].pool not in pools:  # of a pool's cells the report shows the newest
                options = [f"--pool {members[0].pool[:8]}"]
            pools.add(members[0].pool)
            lines.append(f"{what} (harness report {' '.join(options)})")
    return tuple(lines)


# What the page shows of them.


def table(shown: Sequence[Cell]) -> dict[str, Any]:
    """Return {"budgets", "rows"}: the budgets shown, and the rows of the leaderboard, first references and controls.

    A missing value is None. q controls the false discovery rate over the selectors on the page.
    """
    first = shown[0].row
    ks = [k for k in BUDGETS if k in first.pass_at_k_random]
    rows: list[dict[str, Any]] = [
        {"name": each.label, "reference": True, "k95": each.k95, "passed": [each.pass_at_k.get(k) for k in ks]}
        | {"samples_to_correct": each.samples_to_correct, "improvement": each.improvement}
        for each in references(first)
    ]
    controls = shown[0].controls
    measured = [*(cell.row for cell in controls), *with_q([cell.row for cell in shown])]
    for cell, each in zip([*controls, *shown], measured, strict=True):
        same = ("samples_to_correct", "improvement", "p", "k95", "calls_saved")
        rows.append(
            {"name": cell.name, "reference": cell in controls, "cell": cell.key, "interval": each.improvement_ci}
            | {name: getattr(each, name) for name in same}
            | {"no_interval": each.no_interval.get("improvement_ci"), "q": each.q_random}
            | {"shares": None if each.win is None else [each.win, each.tie, each.loss]}
            | {"passed": [each.pass_at_k.get(k) for k in ks], "trust": each.trust if each.improvement_ci else None}
        )
    return {"budgets": ks, "rows": rows}


def curves(shown: Sequence[Cell]) -> list[dict[str, Any]]:
    """Return a dict for each curve, random and the oracle first: name, kind, budgets `k`, and `mean`, `low` and `high`.

    The last three have a value per budget. `low` and `high`, the band's ends, are None for the oracle and for the kind
    "answer" (avg@k, maj@k, best-of-k), and if there is only one problem.
    """
    first, seed = cells.outcomes(shown[0].content), cells.resampling_seed(shown[0].content)
    ks = budgets(int(first.n.min()))
    rows = [
        _curve("random", "random", ks, random_shares(first, ks), seed),
        _curve("oracle", "oracle", ks, oracle_shares(first, ks)),
    ]
    answer = one_answer_of(cell.content["problems"] for cell in shown)
    rows += [_curve(name, "answer", answer.ks, shares) for name, shares in answer.curves().items()]
    for cell in shown:
        budgeted = selected_shares(cells.outcomes(cell.content), ks)
        rows.append(_curve(cell.name, cell.kind, *budgeted, cells.resampling_seed(cell.content)))
    return rows


def _curve(name: str, kind: str, ks: Sequence[int], shares: Floats, seed: int | None = None) -> dict[str, Any]:
    ends = band(shares, seed) if seed is not None and len(shares) > 1 else (None, None)
    mean, low, high = (
        None if values is None else [round(float(value), 4) for value in values]
        for values in (shares.mean(axis=0), *ends)
    )
    return {"name": name, "kind": kind, "k": list(ks), "mean": mean, "low": low, "high": high}


def commands(shown: Sequence[Cell]) -> list[str]:
    """Return the commands of the shell that make the cells again: one for each set of options that they record."""
    groups: dict[str, dict[str, Any]] = {}
    for cell in shown:
        options = without_folders(cell.content["config"])
        selectors = options.pop("selector", [cell.content["labels"]["selector"]])
        options = groups.setdefault(canonical_json(options), {**options, "selector": []})
        options["selector"] += map(str, selectors)
    lines = []
    for options in groups.values():
        words = ["harness", "run"]
        for name, value in options.items():
            for each in value if isinstance(value, list) else [value]:
                if each is not False and each is not None:
                    words += [f"--{name.replace('_', '-')}"] + ([] if each is True else [str(each)])
        lines.append(" ".join(shlex.quote(visible(word).replace("\n", " ")) for word in words))
    return lines
