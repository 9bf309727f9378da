"""Find the puzzles of the Game of 24: every hand of four numbers that makes 24, or the hands of a local file.

A hand is a tuple of four whole numbers, ascending.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import combinations, combinations_with_replacement
from pathlib import Path

from harness import HarnessError
from harness.system.files import beginning, opened
from harness.system.json_text import read_lines

TARGET = 24
HAND = 4  # numbers
DATA = "game24: data"


def puzzle_id(numbers: Sequence[int]) -> str:
    """Return the id of a puzzle, `4-5-6-10`: its numbers, ascending."""
    return "-".join(str(number) for number in sorted(numbers))


@cache
def solvable_hands() -> tuple[tuple[int, ...], ...]:
    """Return the 1,362 hands of numbers from 1 to 13 that make 24, in lexicographic order; the search takes 0.2 s."""
    return tuple(hand for hand in combinations_with_replacement(range(1, 14), HAND) if _makes_target(hand))


def _makes_target(hand: tuple[int, ...]) -> bool:
    """Whether the hand can be split in two so that some value of each part, combined by one operation, makes 24."""
    return any(
        not _completing_values(value).isdisjoint(_values(rest))
        for part, rest in _partitions(hand)
        for value in _values(part)
    )


def _partitions(hand: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Yield every way to split a hand in two, each once: the first number is always in the left part; both ascend."""
    others = range(1, len(hand))
    for size in range(len(hand) - 1):
        for chosen in combinations(others, size):
            rest = tuple(hand[i] for i in others if i not in chosen)
            yield (hand[0], *(hand[i] for i in chosen)), rest


@cache
def _values(numbers: tuple[int, ...]) -> frozenset[Fraction]:
    """Return every value that one, two or three numbers can make."""
    values = {Fraction(numbers[0])} if len(numbers) == 1 else set[Fraction]()
    for part, rest in _partitions(numbers):
        for a in _values(part):
            for b in _values(rest):
                values |= {a + b, a - b, b - a, a * b}
                values |= ({a / b} if b else set()) | ({b / a} if a else set())
    return frozenset(values)


@cache
def _completing_values(value: Fraction) -> frozenset[Fraction]:
    """Return the values that make 24 together with this one, by one operation in either order."""
    sums = {TARGET - value, TARGET + value, value - TARGET}
    return frozenset(sums | {TARGET / value, TARGET * value, value / TARGET} if value else sums)


def hands_in(path: Path) -> list[tuple[int, ...]]:
    """Return the hands of a CSV or JSONL file in the file's order, solvable or not. Raises HarnessError.

    CSV has a column `Puzzles` (`4 5 6 10`), JSONL a field `numbers`, `puzzle` or `prompt`. No hand may occur twice.
    """
    try:  # a compressed file is always read as JSON
        is_json = beginning(path).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[", b"\x1f")
    except OSError as failure:
        raise HarnessError(f"game24: cannot read {str(path)!r}: {failure.strerror}") from failure
    first_place: dict[tuple[int, ...], str] = {}
    for place, value in _json_rows(path) if is_json else _csv_rows(path):
        parts = value.replace(",", " ").split() if isinstance(value, str) else value if isinstance(value, list) else []
        texts = [str(part) for part in parts]
        if len(texts) != HAND or not all(re.fullmatch("[1-9][0-9]{0,3}", text) for text in texts):
            raise HarnessError(f"{place}: expected four integers from 1 to 9999, got {value!r:.80}")
        hand = tuple(sorted(map(int, texts)))
        if hand in first_place:
            line = first_place[hand].rpartition(", ")[2]
            raise HarnessError(f"{place}: puzzle {puzzle_id(hand)} is on {line} already")
        first_place[hand] = place
    if not first_place:
        raise HarnessError(f"game24: data {path} has no puzzles")
    return list(first_place)


def _csv_rows(path: Path) -> Iterator[tuple[str, object]]:
    """Yield each row's place, for messages, and its puzzle."""
    with opened(path, DATA) as text:
        reader = csv.DictReader(text)
        try:
            if "Puzzles" not in (reader.fieldnames or ()):
                columns = ", ".join(reader.fieldnames or ()) or "none"
                raise HarnessError(f"{DATA} {path}: no column 'Puzzles' (found: {columns})")
            for row in reader:
                yield f"{DATA} {path}, line {reader.line_num}", row["Puzzles"]
        except csv.Error as failure:
            raise HarnessError(f"{DATA} {path}, line {reader.line_num}: {failure}") from failure


def _json_rows(path: Path) -> Iterator[tuple[str, object]]:
    for line in read_lines(path, DATA):
        fields = [name for name in ("numbers", "puzzle", "prompt") if name in line.value]
        if not fields:
            raise HarnessError(f"{line.where}: no field 'numbers', 'puzzle' or 'prompt'")
        yield line.where, line.value[fields[0]]
