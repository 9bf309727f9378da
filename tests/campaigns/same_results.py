"""Do two stores hold the same results? `python tests/campaigns/same_results.py STORE OTHER` pairs cells by labels.

Compared are, for each problem, N, c, errors, routes, the chance level's counts, ranks, orders or subsets' hits, and the
metrics of the row; never a key, nor what is drawn from one (the resamples of intervals). It is run over every change of
the code that moves files or keys and must not move a number. Exit code 1 where something differs.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

RESAMPLED = ("_ci", "no_interval", "cell", "chance")


def labelled(store: Path) -> dict[str, dict[str, Any]]:
    """The cells of a store (or of a folder of cells) by their labels, problems and sizes."""
    folder = store / "cells" if (store / "cells").is_dir() else store
    cells: dict[str, dict[str, Any]] = {}
    for path in sorted(folder.rglob("*.json")):
        cell = json.loads(path.read_text())
        if isinstance(cell, dict) and cell.get("kind") == "diversity-harness cell":
            ids = [entry["id"] for entry in cell["problems"]]
            cells[json.dumps([cell["labels"], ids, [entry.get("n") for entry in cell["problems"]]])] = cell
    return cells


def metrics(cell: dict[str, Any]) -> dict[str, Any]:
    """The row's values that no resampling enters."""
    from harness.results import rows

    row: Any = rows.row(cell)
    values = row if isinstance(row, dict) else row.to_json()
    return {name: value for name, value in values.items() if not name.endswith(RESAMPLED)}


def differences(ours: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
    """What differs between two cells of equal labels, a line each."""
    if "failed" in ours or "failed" in theirs:
        return [] if "failed" in ours and "failed" in theirs else ["only one failed"]
    lines = []
    for our_problem, their_problem in zip(ours["problems"], theirs["problems"], strict=True):
        names = [name for name in {**our_problem, **their_problem} if our_problem.get(name) != their_problem.get(name)]
        if names:
            lines.append(f"problem {our_problem['id']!r}: {', '.join(names)}")
    mine, others = metrics(ours), metrics(theirs)
    return lines + [f"metric {name}" for name in mine if mine[name] != others.get(name)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stores", type=Path, nargs=2)
    first, second = (labelled(store) for store in parser.parse_args().stores)
    alone = sorted(set(first) ^ set(second))
    differing = {key: lines for key in first if key in second and (lines := differences(first[key], second[key]))}
    for key in alone:
        print(f"only in {'the first' if key in first else 'the second'}: {key[:200]}")
    for key, lines in differing.items():
        print(f"{key[:200]}\n  " + "\n  ".join(lines[:10]))
    print(f"{len(set(first) & set(second))} cells compared, {len(differing)} differ, {len(alone)} without a partner")
    raise SystemExit(bool(alone or differing or not first))


if __name__ == "__main__":
    main()
