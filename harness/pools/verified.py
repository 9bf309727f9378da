"""Read which responses were verified before (`harness select --verified`): `{"problem_id": ..., "indices": [...]}`.

What `harness select --jsonl` prints will do too: its picks stand under "order".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.errors import HarnessError, did_you_mean
from harness.system.json_text import Line, read_lines


def read_verified(path: Path, sizes: Mapping[str, int]) -> dict[str, list[int]]:
    """Return problem id -> the indices that the file gives, in the file's order.

    sizes  problem id -> its number of responses; HarnessError for another id, or an index that is too large

    Lines of the same problem, such as those of several `harness select --jsonl`, count together. Problems that the file
    does not name are left out.
    """
    verified: dict[str, list[int]] = {}
    for line in read_lines(path, "verified"):
        name = _problem_id(line, sizes)
        indices = line.value.get("indices", line.value.get("order"))
        more = _indices(indices, f"{line.where} ({name})", sizes[name])
        verified[name] = list(dict.fromkeys([*verified.get(name, ()), *more]))
    return verified


def check_verified(given: Mapping[str, Sequence[int]], sizes: Mapping[str, int]) -> dict[str, list[int]]:
    """Return what `read_verified` does of indices in memory; HarnessError for the same faults."""
    unknown = next((name for name in given if name not in sizes), None)
    if unknown is not None:
        raise HarnessError(f"verified: problem {unknown!r:.80} is none of the {len(sizes)} of the pool")
    return {name: _indices(list(indices), f"verified ({name})", sizes[name]) for name, indices in given.items()}


def _problem_id(line: Line, sizes: Mapping[str, int]) -> str:
    if "problem_id" not in line.value or not {"indices", "order"} & set(line.value):
        keys = ", ".join(map(repr, line.value)) or "none"
        raise HarnessError(f'{line.where}: expected {{"problem_id": ..., "indices": [...]}}, got the keys {keys:.200}')
    name = line.value["problem_id"]
    if not isinstance(name, str):
        raise HarnessError(f"{line.where}: problem_id must be a text, got {name!r:.60}")
    if name not in sizes:
        guess = did_you_mean(name, sizes).partition("? ")
        hint = f" {guess[0]}?)" if guess[1] else ""
        raise HarnessError(f"{line.where}: problem {name!r:.80} is none of the {len(sizes)} of the pool{hint}")
    return name


def _indices(indices: Any, where: str, n: int) -> list[int]:
    seen = set[int]()
    if not isinstance(indices, list):
        raise HarnessError(f"{where}: indices must be a list of whole numbers, got {indices!r:.60}")
    for index in indices:
        if type(index) is not int:
            raise HarnessError(f"{where}: indices must be whole numbers, got {index!r:.60}")
        if not 0 <= index < n:
            raise HarnessError(f"{where}: index {index} is outside 0..{n - 1}, the problem's {n} responses")
        if index in seen:
            raise HarnessError(f"{where}: index {index} stands there twice")
        seen.add(index)
    return indices
