"""Fill the documents' blocks that come from `results/`, and draw their figures: `make results`.

    python docs/from_results.py [--check]

A block stands between `<!-- from results: NAME -->` and `<!-- end -->`; NAME is a function of `BLOCKS` here. The same
cells give the same bytes. `--check` writes nothing, and names what would change (exit code 1).
"""

from __future__ import annotations

import argparse
import csv
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from harness.cli import result_tables
from harness.results import leaderboard
from harness.results.across import Across, across, pool_name
from harness.results.leaderboard import Board
from harness.results.rows import Interval, Row
from harness.system.console import captured
from harness_plugins.figures import drawing
from harness_plugins.figures.request import Request

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"
PAGES = ("README.md", "docs/which-selector.md", "docs/paper.md")
BLOCK = re.compile(r"(<!-- from results: ([\w-]+) -->\n).*?(<!-- end -->)", re.S)
BEST = 5
TASKS = {"game24": "Game of 24", "humanevalplus": "HumanEval+", "mbppplus": "MBPP+"}
MODELS = {"gpt4": "GPT-4", "codet_humaneval_codegen16B_n100": "CodeGen-16B", "smollm2-135m": "SmolLM2-135M"}


@cache
def boards(folder: str) -> list[Board]:
    return leaderboard.boards(leaderboard.gather([RESULTS / folder]))


@cache
def lines() -> list[Across]:
    """Each selector's line over all pools, with the vectors that serve it best; those on all pools only."""
    every = across(boards("pools"))
    everywhere = [line for line in every if line.pools == every[0].pools]
    best = {line.selector: line for line in reversed(everywhere)}
    return sorted(best.values(), key=lambda line: -line.improvement)


def number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def interval(ends: Interval) -> str:
    return "[-]" if ends is None else f"[{ends[0]:.2f}, {ends[1]:.2f}]"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], texts: int = 1) -> str:
    """A Markdown table; the first `texts` columns are aligned to the left."""
    marks = ["---" if place < texts else "---:" for place in range(len(heads))]
    return "".join(f"| {' | '.join(row)} |\n" for row in [heads, marks, *rows])


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
    return f"{MODELS.get(board.about['model'], board.about['model'])}, {task}{sampled}, n = {board.about['n']}"


# README.md


def first_run() -> str:
    """The table that the README's first command prints."""
    labelled = rows_with("pools", model="tiny24", selector=("repexp", "uniform", "facility-location"))
    by_name = {row.selector: row for _, row in labelled if row.embedder in ("hidden-mean", "none")}
    os.environ["COLUMNS"] = "80"  # words are wrapped as in a terminal
    with captured(80) as text:
        result_tables.of_one_pool([by_name[name] for name in ("repexp", "uniform", "facility-location")])
    kept = [line.rstrip() for line in text.getvalue().splitlines()]
    first = next(place for place, line in enumerate(kept) if line)
    last = max(place for place, line in enumerate(kept) if line.startswith(" facility-location"))
    return "```\n" + "\n".join(kept[first : last + 1]) + "\n```\n"


def best_selectors() -> str:
    """The three best orders over all pools, and RepExp."""
    orders = [line for line in lines() if "(learns)" not in line.selector]
    shown = [*orders[:3], *(line for line in orders[3:] if line.selector == "repexp")]
    return table(
        ["selector", "vectors", "improvement [95 %]", "worst pool", "won / lost %"], map(_across_row, shown), 2
    )


def _across_row(line: Across) -> list[str]:
    mean = f"{line.improvement:.2f} {interval(line.improvement_ci)}"
    return [line.selector, line.embedder, mean, number(line.worst), f"{100 * line.win:.0f} / {100 * line.loss:.0f}"]


# docs/which-selector.md


def all_selectors() -> str:
    """Every ranker over all pools, with the vectors that serve it best, and the CPU time of a ranking."""
    with (RESULTS / "cost.csv").open() as file:
        cost = {line["selector"]: line["cpu_ms"] for line in csv.DictReader(file)}
    heads = ["selector", "vectors", "improvement [problems]", "[pools]", "worst pool", "won / lost %", "ms a pool"]
    rows = []
    for line in lines():
        cells = _across_row(line)
        rows.append([*cells[:3], interval(line.pools_ci), *cells[3:], cost[line.selector.split(" ")[0]]])
    return table(heads, rows, 2)


def pools() -> str:
    """The pools, and what a perfect order could gain on each."""
    heads = ["pool", "problems", "solved by some response", "pass@1 %", "random's calls", "oracle's calls", "the most"]
    rows = []
    for board in boards("pools"):
        row = board.rows[0]
        random, oracle = row.samples_to_correct_random, row.samples_to_correct_oracle
        assert random
        assert oracle
        first = f"{100 * (row.pass_at_k_random['1'] or 0):.1f}"
        sizes = [str(row.problems), str(row.solvable), first, number(random), number(oracle), number(random / oracle)]
        rows.append([called(board), *sizes])
    return table(heads, rows)


def by_budget() -> str:
    """pass@k of the best selectors and RepExp on each pool, for a few calls and many."""
    shown = [(line.selector, line.embedder) for place, line in enumerate(lines()) if place < BEST]
    shown += [(line.selector, line.embedder) for line in lines()[BEST:] if line.selector == "repexp"]
    heads = ["pool", "k", "random", *(name for name, _ in shown)]
    rows = []
    for board in boards("pools"):
        for k in ("1", "8", "64"):
            by_name = {(row.name, row.embedder): row for row in board.rows}
            values = [board.rows[0].pass_at_k_random.get(k), *(by_name[name].pass_at_k.get(k) for name in shown)]
            rows.append([called(board), k, *(f"{100 * (value or 0):.1f}" for value in values)])
    return table(heads, rows)


# docs/paper.md


def by_pool() -> str:
    """RepExp on each pool, with each kind of vectors (RF1)."""
    return _improvements(rows_with("pools", selector="repexp"), ["vectors"], lambda row: [row.embedder])


def by_strength() -> str:
    """RepExp on the ladder of tiny24, at two temperatures (RF2)."""
    labelled = [*rows_with("factors", selector="repexp", embedder="hidden-mean", sampler=("vanilla", "low-temp"))]
    labelled += [*rows_with("pools", selector="repexp", embedder="hidden-mean", model="tiny24")]
    ladder = [each for each in labelled if each[1].n == 64 and each[1].seeds == [0]]
    ladder.sort(key=lambda each: (each[1].sampler, each[1].pass_at_k_random["1"] or 0))
    return _improvements(ladder, ["pass@1 %"], lambda row: [f"{100 * (row.pass_at_k_random['1'] or 0):.1f}"])


def by_hardness() -> str:
    """RepExp and facility-location by the share of correct responses (RF3)."""
    names = {pool_name(board): called(board) for board in boards("pools")}
    gains = csv.DictReader(figure("gains")[1].decode().splitlines())
    heads = ["pool", "selector", "correct responses", "problems", "random's calls", "its calls", "improvement [95 %]"]
    rows = []
    for row in gains:
        if row["selector"] not in ("repexp", "facility-location"):
            continue
        ends = [float(row[name]) for name in ("improvement_low", "improvement_high") if row[name]]
        value = f"{number(float(row['improvement']))} {interval(ends or None)}"
        share = f"{100 * float(row['above']):g} to {100 * float(row['up_to']):g} %"
        calls = [number(float(row["random"])), number(float(row["selected"]))]
        rows.append([names[row["panel"]], row["series"], share, row["questions"], *calls, value])
    return table(heads, rows, 3)


def by_sampler() -> str:
    """RepExp and facility-location on five samplers (RF4)."""
    labelled = [*samplers("facility-location", "tfidf"), *samplers("repexp")]
    return _improvements(labelled, ["selector"], lambda row: [row.selector])


def samplers(selector: str, embedder: str = "hidden-mean") -> list[tuple[Board, Row]]:
    """A selector's rows on tiny24's pools of seed 0 with 64 responses, one a sampler."""
    of = {"model": "tiny24", "selector": selector, "embedder": embedder, "n": 64}
    labelled = [each for each in rows_with("factors", **of) + rows_with("pools", **of) if each[1].seeds == [0]]
    return sorted(labelled, key=lambda each: each[1].sampler)


def by_representation() -> str:
    """RepExp on the model's states and on texts' vectors (tiny24)."""
    labelled = rows_with("pools", model="tiny24", selector="repexp") + rows_with(
        "factors", model="tiny24", selector="repexp"
    )
    kept = [each for each in labelled if each[1].n == 64 and each[1].sampler == "vanilla" and each[1].seeds == [0]]
    return _improvements(kept, ["vectors"], lambda row: [row.embedder])


def _improvements(
    labelled: Sequence[tuple[Board, Row]], heads: Sequence[str], values: Callable[[Row], list[str]]
) -> str:
    rows = [
        [
            called(board),
            *values(row),
            number(row.samples_to_correct_random),
            number(row.samples_to_correct),
            f"{number(row.improvement)} {interval(row.improvement_ci)}",
        ]
        for board, row in labelled
    ]
    return table(["pool", *heads, "random's calls", "its calls", "improvement [95 %]"], rows, 1 + len(heads))


# Writing.

# Each as docs/images/NAME.svg and results/figures/NAME.csv, from the cells of some folders, or from these cells.
FIGURES: dict[str, Callable[[], list[Path]]] = {
    "gains": lambda: [RESULTS / "pools"],
    "strength": lambda: [RESULTS / "pools", RESULTS / "factors"],
    "samplers": lambda: [found for _, row in samplers("repexp") for found in RESULTS.rglob(f"{row.cell}.json")],
}
BLOCKS: dict[str, Callable[[], str]] = {
    "first-run": first_run,
    "best-selectors": best_selectors,
    "all-selectors": all_selectors,
    "pools": pools,
    "by-budget": by_budget,
    "by-pool": by_pool,
    "by-strength": by_strength,
    "by-hardness": by_hardness,
    "by-sampler": by_sampler,
    "by-representation": by_representation,
}


@cache
def figure(name: str) -> tuple[bytes, bytes]:
    """A figure as SVG, and its table as CSV."""
    with tempfile.TemporaryDirectory() as folder:
        cells = FIGURES[name]()
        for path in cells:
            if path.is_file():
                shutil.copy(path, folder)
        request = Request(name, cells if cells[0].is_dir() else [Path(folder)])
        drawing.write(request, Path(folder), kinds=("svg",))
        svg, data = ((Path(folder) / f"{name}.{kind}").read_bytes() for kind in ("svg", "csv"))
    return svg, data


def files() -> dict[Path, bytes]:
    """What `make results` writes: path -> content."""
    content = {}
    for page in PAGES:
        text = (ROOT / page).read_text()
        content[ROOT / page] = BLOCK.sub(lambda block: block[1] + BLOCKS[block[2]]() + block[3], text).encode()
    gathered = leaderboard.gather([RESULTS])
    tables = leaderboard.boards(gathered)
    texts = (leaderboard.markdown(tables, gathered.faults), leaderboard.as_csv(tables), leaderboard.as_json(tables))
    content |= {RESULTS / name: text.encode() for name, text in zip(leaderboard.NAMES, texts, strict=True)}
    for name in FIGURES:
        svg, data = figure(name)
        content |= {ROOT / "docs" / "images" / f"{name}.svg": svg, RESULTS / "figures" / f"{name}.csv": data}
    return content


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a file would change")
    check = parser.parse_args().check
    changed = {path: text for path, text in files().items() if not path.exists() or path.read_bytes() != text}
    for path, text in changed.items():
        print(f"{'differs' if check else 'written'}: {path.relative_to(ROOT)}")
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text)
    return 1 if check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
