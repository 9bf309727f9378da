"""`make coverage`: the lines and branches that the suite ran, by folder; exit code 1 where they are too few.

A share counts lines and branches alike. `harness/` and `selectors/` must reach 90 % together, all the rest 80 %: some
engines and trainers need machines that not everybody has.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path

import coverage

ROOT = Path(__file__).parents[2]
CORE = ("harness", "selectors")
LEAST = {"harness/ and selectors/": 90.0, "the rest": 80.0}  # per cent


def counts_by_file() -> dict[str, Counter[str]]:
    """The lines, branches and how many of each ran, by the file's path in the project."""
    measured = coverage.Coverage(data_file=str(ROOT / ".coverage"), config_file=str(ROOT / "pyproject.toml"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "coverage.json"
        try:
            measured.load()
            measured.json_report(outfile=str(path))
        except coverage.CoverageException as error:
            raise SystemExit(f".coverage is not of a run here ({error}): run `make coverage`") from None
        files = json.loads(path.read_text())["files"]
    names = {"lines": "num_statements", "lines run": "covered_lines"}
    names |= {"branches": "num_branches", "branches run": "covered_branches"}
    return {
        str((ROOT / name).resolve().relative_to(ROOT)): Counter(
            {ours: file["summary"][key] for ours, key in names.items()}
        )
        for name, file in files.items()
    }


def share(counts: Counter[str]) -> float:
    """Per cent of lines and branches that ran; 100 where there are none."""
    total = counts["lines"] + counts["branches"]
    return 100.0 * (counts["lines run"] + counts["branches run"]) / total if total else 100.0


def main() -> int:
    """Print a line for each folder and for both parts; return the exit code."""
    folders: dict[str, Counter[str]] = {}
    parts = {part: Counter[str]() for part in LEAST}
    for name, counts in sorted(counts_by_file().items()):
        folders.setdefault(str(Path(name).parent), Counter()).update(counts)
        core, rest = parts
        parts[core if name.split("/")[0] in CORE else rest].update(counts)
    for folder, counts in {**folders, **parts}.items():
        lines, branches = (f"{counts[f'{what} run']:,} of {counts[what]:,} {what}" for what in ("lines", "branches"))
        print(f"{share(counts):6.1f} %  {folder:<40} {lines}, {branches}")
    low = [part for part, least in LEAST.items() if share(parts[part]) < least]
    for part in low:
        print(f"too little: {part}: {share(parts[part]):.1f} %, at least {LEAST[part]:g} % is asked")
    return 1 if low else 0


if __name__ == "__main__":
    raise SystemExit(main())
