"""Problems chosen by hardness: `harness pool hardest` writes a list of them, `harness run --only FILE` reads it.

Hardness is a reference model's: the share of its responses that are correct, pass@1 = c / n. Problems with c = 0 are
left out, since nothing shows that they can be solved (Tuyls et al. 2025, arXiv:2510.11686, appendix on token-level
exploration: 1,024 responses of GPT-4o mini to each question of MATH's test split, the 200 with the lowest pass@1 above
0).

    {"problem_id": "algebra/test-17", "n": 1024, "correct": 3}      one line a problem, the hardest first
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from harness.errors import HarnessError
from harness.store.keys import canonical_json
from harness.system.files import write_atomically
from harness.system.json_lines import read_lines

Item = TypeVar("Item")
NAMED = 3  # unknown ids that a message lists


@dataclass(frozen=True)
class Solved:
    """How many of a problem's n responses are correct."""

    problem_id: str
    n: int
    correct: int


def hardest(counts: Iterable[Solved], count: int) -> list[Solved]:
    """The `count` problems with the lowest share of correct responses above 0, hardest first; ties in the order given.

    Raises HarnessError where fewer than `count` were solved at all.
    """
    counts = list(counts)
    solvable = [solved for solved in counts if solved.correct]
    if count < 1:
        raise HarnessError(f"pool hardest: --count must be at least 1, got {count}")
    if len(solvable) < count:
        raise HarnessError(
            f"pool hardest: {len(solvable)} of {len(counts)} problems have a correct response, --count asks for "
            f"{count}: ask for fewer, or give a pool with more responses a problem"
        )
    return sorted(solvable, key=lambda solved: solved.correct / solved.n)[:count]


def write(path: Path, chosen: Iterable[Solved]) -> None:
    """Write the problems, one JSON line each."""
    lines = (canonical_json(asdict(solved)) + "\n" for solved in chosen)
    write_atomically(path, "".join(lines).encode("utf-8", "surrogatepass"))


def read_ids(path: Path) -> set[str]:
    """The problem ids of a JSON-lines file; HarnessError where a line has none, or there is no line."""
    ids = set()
    for line in read_lines(path, "--only"):
        problem_id = line.value.get("problem_id")
        if not isinstance(problem_id, str):
            raise HarnessError(f"{line.where}: problem_id must be a string, got {problem_id!r:.60}")
        ids.add(problem_id)
    if not ids:
        raise HarnessError(f"--only {path}: names no problem")
    return ids


def only(path: Path | None, items: Sequence[Item], id_of: Callable[[Item], str], where: str) -> list[Item]:
    """The items that the file names, in their own order; all of them without a file.

    Raises HarnessError where the file names one that is not there; `where` says of what.
    """
    if path is None:
        return list(items)
    ids = read_ids(path)
    unknown = sorted(ids - {id_of(item) for item in items})
    if unknown:
        named = ", ".join(map(repr, unknown[:NAMED])) + (", ..." if len(unknown) > NAMED else "")
        raise HarnessError(
            f"--only {path}: {len(unknown)} of {len(ids)} ids are not in {where} ({named}): "
            "give the --task, --data and --split that they are from"
        )
    return [item for item in items if id_of(item) in ids]
