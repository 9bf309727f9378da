"""Game of 24: use four numbers, each once, with + - * / and brackets, to make 24.

Example (id `4-5-6-10`): prompt `4 5 6 10`; a correct response ends in `Answer: (10 - 6) * 5 + 4 = 24`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

PROMPT = (
    "Use the numbers {numbers}, each exactly once, with +, -, *, / and brackets to make 24. "
    "Write one step per line, then a last line 'Answer: expression'."
)


def puzzle_id(numbers: Sequence[int]) -> str:
    """`4-5-6-10`: the numbers ascending."""
    return "-".join(str(number) for number in sorted(numbers))


def split_of(puzzle: str) -> str:
    """ "train" (7 in 10), "dev" (1) or "heldout" (2), by the SHA-256 of the puzzle's id: the embedded models' split."""
    bucket = int.from_bytes(hashlib.sha256(puzzle.encode()).digest()[:8], "big") % 10
    return "heldout" if bucket < 2 else "dev" if bucket == 2 else "train"
