"""Read which responses were verified before (`harness select --verified`): `{"problem_id": ..., "indices": [...]}`.

What `harness select --jsonl` prints will do too: its picks stand under "order".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.system.json_text import read_lines

from .record import text_in


def read_verified(path: Path, sizes: Mapping[str, int]) -> dict[str, list[int]]:
    """Return problem id -> the indices that the file gives, in the file's order.

    sizes  problem id -> its number of responses; HarnessError for another id, or an index that is too large

    Lines of the same problem, such as those of several `harness select --jsonl`, count together. Problems that the file
    does not name are left out.
    """
    verified: dict[str, list[int]] = {}
    for line in read_lines(path, "verified"):
        if "problem_id" not in line.value or not {"indices", "order"} & set(line.value):
            keys = ", ".join(map(repr, line.value)) or "none"
            raise HarnessError(
                f'{line.where}: expected {{"problem_id": ..., "indices": [...]}}, got the keys {keys:.200}'
            )
        name = text_in(line.value, "problem_id", line.where)
        more = _indices(name, line.value.get("indices", line.value.get("order")), sizes, line.where)
        verified[name] = list(dict.fromkeys([*verified.get(name, ()), *more]))
    return verified


def check_verified(given: Mapping[str, Sequence[int]], sizes: Mapping[str, int]) -> dict[str, list[int]]:
    """Return what `read_verified` does of indices in memory; HarnessError for the same faults."""
    return {name: _indices(name, list(indices), sizes, "verified") for name, indices in given.items()}


def _indices(name: str, indices: Any, sizes: Mapping[str, int], where: str) -> list[int]:
    if name not in sizes:
        close = get_close_matches(str(name), sizes, n=1, cutoff=0.5)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise HarnessError(f"{where}: problem {name!r:.80} is none of the {len(sizes)} of the pool{hint}")
    where, n = f"{where} ({name})", sizes[name]
    if not isinstance(indices, list):
        raise HarnessError(f"{where}: indices must be a list of whole numbers, got {indices!r:.60}")
    seen = set[int]()
    for index in indices:
        if type(index) is not int:
            raise HarnessError(f"{where}: indices must be whole numbers, got {index!r:.60}")
        if not 0 <= index < n:
            raise HarnessError(f"{where}: index {index} is outside 0..{n - 1}, the problem's {n} responses")
        if index in seen:
            raise HarnessError(f"{where}: index {index} stands there twice")
        seen.add(index)
    return indices
