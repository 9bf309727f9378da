"""What the tests of figures read: a figure's table, the cells' files, and what their outcomes come to by definition."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from harness_plugins.figures import frame
from harness_plugins.figures.request import Request
from support.paths import TOY
from support.refusals import refusal_of

NAMES = (
    *("scatter", "questions", "models", "strength", "hardness", "gains"),
    *("samplers", "representations", "passk", "likelihoods"),
)
# What narrows the cells of `figure_store` down to those that a figure can show.
NARROW = {name: {"sampler": "vanilla"} for name in ("models", "passk", "likelihoods")}
NARROW["passk"]["model"] = "parrot"


def rows_of(name: str, *folders: Path, **options: Any) -> list[dict[str, Any]]:
    """The figure's table: of the toy's selector `spread`, unless the options name another."""
    options = {"selector": None if name == "passk" else "spread", "plugin_files": (TOY,), **options}
    return frame.table(Request(name, folders, **options))


def refused(name: str, *folders: Path, **options: Any) -> str:
    """The line with which a figure's table is refused, without the figure's name."""
    return refusal_of(rows_of, name, *folders, **options).removeprefix(f"plot {name}: ")


def cell_of(folder: Path, **labels: str) -> dict[str, Any]:
    """The only cell in a folder with these labels, as it stands in its file."""
    contents = [json.loads(path.read_text()) for path in sorted(folder.rglob("*.json"))]
    contents = [cell for cell in contents if not cell.get("control")]
    (cell,) = [cell for cell in contents if labels.items() <= cell["labels"].items()]
    return cell


def close(value: float) -> Any:
    """Equal but for the rounding of a table."""
    return pytest.approx(value, rel=1e-5)


def expected_calls(entry: dict[str, Any]) -> float:
    """Random selection's samples-to-correct on a problem."""
    return (entry["n"] + 1) / (entry["c"] + 1)


def mean_calls(entry: dict[str, Any]) -> float:
    """The selector's samples-to-correct on a problem."""
    return statistics.fmean(entry["ranks"])


def exact_pass(entry: dict[str, Any], k: int) -> float:
    """Random selection's pass@k on a problem."""
    n, c = entry["n"], entry["c"]
    return float(1 - Fraction(math.comb(n - c, k), math.comb(n, k)))


def share_solved(entries: Sequence[dict[str, Any]], k: int) -> float:
    """The selector's pass@k: the share of (problem, trial) whose first correct response is among the first k."""
    hits = [bool(entry["c"]) and rank <= k for entry in entries for rank in entry["ranks"]]
    return sum(hits) / len(hits)
