"""The published cells as the documents show them: rows by their labels, names of pools, figures."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from harness.results import cells, leaderboard
from harness.results.cells import Cell
from harness.results.leaderboard import Across, Board, Gathered, across
from harness.results.published import SEQUENCES, SUFFIX, named, places, read, write
from harness.results.rows import Row
from harness_plugins.figures import frame
from harness_plugins.figures.request import Request

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"
TASKS = {"game24": "Game of 24", "humanevalplus": "HumanEval+", "mbppplus": "MBPP+"}
MODELS = {"gpt4": "GPT-4", "codet_humaneval_codegen16B_n100": "CodeGen-16B", "smollm2-135m": "SmolLM2-135M"}


@cache
def every() -> Gathered:
    """All published cells."""
    return leaderboard.gather([RESULTS])


@cache
def boards(folder: str = "") -> list[Board]:
    """The tables of the cells in a folder of results/, or of all with badges."""
    measured = {place.key: every().measured[place.key] for place in places([RESULTS / folder])}
    return leaderboard.boards(replace(every(), measured=measured, badges={}) if folder else every())


def cell_of(key: str) -> Cell:
    """The published cell with this key."""
    return read(named(key, [RESULTS], "docs"))


@cache
def lines() -> list[Across]:
    """Each selector's line over all pools, with the best of the vectors that all pools have."""
    every = across(boards("pools"))
    everywhere = [line for line in every if line.pools == every[0].pools]
    best = {line.selector: line for line in reversed(everywhere)}
    return sorted(best.values(), key=lambda line: -line.improvement)


def rows_with(folder: str, **labels: Any) -> list[tuple[Board, Row]]:
    """The rows with these labels, each with its board, in the leaderboard's order."""
    return [
        (board, row)
        for board in boards(folder)
        for row in board.rows
        if all(
            getattr(row, name) in (value if isinstance(value, tuple) else (value,)) for name, value in labels.items()
        )
    ]


def called(board: Board) -> str:
    """The pool's name in the documents."""
    task = TASKS.get(board.about["task"].partition(":")[0], board.about["task"])
    if board.about["task"] == "humanevalplus:tests=base,answer_by=behaviour":
        task = "HumanEval"
    sampler = board.about["sampler"]
    sampled = "" if sampler in ("pool", "vanilla") else f", {sampler}"
    return f"{MODELS.get(board.about['model'], board.about['model'])}, {task}{sampled}"


def ladder(selector: str, embedder: str) -> list[tuple[Board, Row]]:
    """A selector's rows on the four checkpoints of tiny24 at two temperatures, the weakest first."""
    of = {"selector": selector, "embedder": embedder, "sampler": ("vanilla", "low-temp"), "n": 64}
    labelled = [*rows_with("factors", **of), *rows_with("pools", model="tiny24", **of)]
    kept = [each for each in labelled if each[1].seeds == [0] and each[1].model.startswith("tiny24")]
    return sorted(kept, key=lambda each: (each[1].sampler, each[1].pass_at_k_random["1"] or 0))


def of_seed_0() -> list[Cell]:
    """The cells on language models' answers of the first seed and of at most a hundred responses a problem."""
    made = map(read, places([RESULTS / "pools", RESULTS / "factors"]))
    return [cell for cell in made if cell["labels"]["seed"] == 0 and cells.outcomes(cell).n.max() <= 100]


def samplers(selector: str, embedder: str = "hidden-mean") -> list[tuple[Board, Row]]:
    """A selector's rows on tiny24's pools of seed 0 with 64 responses, one a sampler."""
    of = {"model": "tiny24", "selector": selector, "embedder": embedder, "n": 64}
    labelled = [each for each in rows_with("factors", **of) + rows_with("pools", **of) if each[1].seeds == [0]]
    return sorted(labelled, key=lambda each: each[1].sampler)


# Figures.

# Each as docs/images/NAME.svg and results/figures/NAME.csv, from a folder, or from these cells.
FIGURES: dict[str, Callable[[], Path | list[Cell]]] = {
    "gains": lambda: RESULTS / "pools",
    "strength": of_seed_0,
    "guided": lambda: RESULTS / SEQUENCES,
    "rl-passk": lambda: RESULTS / "rl" / "groups-of-8",
    "samplers": lambda: [cell_of(row.cell) for _, row in samplers("repexp")],
}


@cache
def figure(name: str) -> tuple[bytes, bytes]:
    """A figure as SVG, and its table as CSV."""
    with tempfile.TemporaryDirectory() as folder:
        shown = FIGURES[name]()
        if not isinstance(shown, Path):
            write(Path(folder) / f"shown{SUFFIX}", {cells.key_of(each): each for each in shown})
        request = Request(name, [shown if isinstance(shown, Path) else Path(folder)])
        frame.write(request, Path(folder), kinds=("svg",))
        svg, data = ((Path(folder) / f"{name}.{kind}").read_bytes() for kind in ("svg", "csv"))
    return svg, data
