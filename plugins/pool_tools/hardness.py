"""Problems by hardness, for `harness pool hardest`.

Hardness is a reference model's: the share of its responses that are correct, pass@1 = c / n. Problems with c = 0 are
left out, since nothing shows that they can be solved (Tuyls et al. 2025, arXiv:2510.11686, appendix on token-level
exploration: 1,024 responses of GPT-4o mini to each question of MATH's test split, the 200 with the lowest pass@1 above
0).

    {"problem_id": "algebra/test-17", "n": 1024, "correct": 3}      one line a problem, the hardest first
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from harness.errors import HarnessError
from harness.system.files import write_atomically
from harness.system.hashing import canonical_json


@dataclass(frozen=True)
class Solved:
    """How many of a problem's n responses are correct."""

    problem_id: str
    n: int
    correct: int


def hardest(counts: Iterable[Solved], count: int) -> list[Solved]:
    """Return the `count` problems with the lowest share of correct responses above 0, hardest first.

    Ties are in the order given. HarnessError if `count` is below 1, or fewer than `count` have a correct response.
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
    """Write the problems to a JSONL file, one line each, in the order given."""
    lines = (canonical_json(asdict(solved)) + "\n" for solved in chosen)
    write_atomically(path, "".join(lines).encode("utf-8", "surrogatepass"))
