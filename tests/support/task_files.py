"""Invented rows of the text tasks' data sets, and the files and folders that hold them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness import Problem
from harness_tasks import competition_math, dapo, gsm8k
from harness_tasks.aime import Aime24, Aime25
from harness_tasks.competition_math import Math, Math500
from harness_tasks.gsm8k import Gsm8k

from .json_lines import write_json_lines

HUBS = {
    Gsm8k: gsm8k.HUB, Math: competition_math.MATH, Math500: competition_math.MATH_500, Aime24: Aime24.hub,
    Aime25: Aime25.hub, dapo.DapoMath: dapo.HUB,
}  # fmt: skip
SUM = {"question": "What is 2 + 3?", "answer": "2 + 3 = <<2+3=5>>5\n#### 5"}
PRICE = {"question": "A car costs 3 times $5,000. How much is that?", "answer": "It is 3 * 5000 = 15000.\n#### 15,000"}
DEBT = {"question": "Ana has $4 and spends $7. What is her balance?", "answer": "4 - 7 = -3\n#### -3"}
SUMS = [SUM, PRICE, DEBT]  # of GSM8K


def of_math(number: int) -> dict[str, str]:
    """A row of MATH, whose reference is the next number."""
    solution = rf"We have \boxed{{{number}}} and one more: $\boxed{{{number + 1}}}$."
    return {"problem": f"What is ${number} +\n  1$?", "level": "Level 1", "type": "Algebra", "solution": solution}


def of_math500(number: int) -> dict[str, str]:
    """A row of MATH-500 with the same problem."""
    answer = str(number + 1)
    return {"problem": f"What is ${number} + 1$?", "answer": answer, "unique_id": f"test/algebra/{number}.json"}


def of_aime(count: int = 30, **columns: Sequence[Any]) -> list[dict[str, Any]]:
    """The first rows of a year of AIME, with further columns."""
    rows = [{"problem": f"What is ${i} + 1$?", "answer": f"{i + 1:03}"} for i in range(count)]
    return [row | {name: values[i] for name, values in columns.items()} for i, row in enumerate(rows)]


def of_dapo(number: int) -> dict[str, Any]:
    """A row of DAPO-Math-17k, whose reference is the next number."""
    text = f"{dapo.BEFORE}\n\nWhat is ${number} + 1$?\n\n{dapo.AFTER}"
    return {
        "data_source": "math_dapo",
        "prompt": [{"content": text, "role": "user"}],
        "ability": "MATH",
        "reward_model": {"ground_truth": str(number + 1), "style": "rule"},
        "extra_info": {"index": hashlib.md5(str(number).encode()).hexdigest()},
    }


def jsonl(path: Path, rows: Iterable[object]) -> str:
    """Write JSON lines; the path as text, as an option gives it."""
    return str(write_json_lines(path, rows))


def parquet(path: Path, rows: list[dict[str, Any]]) -> str:
    """Write a parquet file in groups of 1,000 rows; the path as text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=1000)
    return str(path)


def write_card(folder: Path, files: dict[str, dict[str, str]]) -> None:
    """Write a dataset card that names each config's files, as the hub's have it."""
    lines = ["---", "configs:"]
    for config, split_files in files.items():
        lines += [f"- config_name: {config}", "  data_files:"]
        lines += [line for split, path in split_files.items() for line in (f"  - split: {split}", f"    path: {path}")]
    (folder / "README.md").write_text("\n".join([*lines, "---", ""]))


def clone_of_gsm8k(folder: Path, rows: list[dict[str, Any]] = SUMS) -> Path:
    """A clone of GSM8K whose training set is its test set backwards."""
    for split, of_split in (("test", rows), ("train", rows[::-1])):
        parquet(folder / f"main/{split}-00000-of-00001.parquet", of_split)
    write_card(folder, {"main": {split: f"main/{split}-*" for split in ("test", "train")}})
    return folder


def clone_of_math(folder: Path) -> Path:
    """Seven configs, config c with c + 1 test problems and one training problem; listed in another order."""
    for c, config in enumerate(competition_math.MATH.configs):
        parquet(folder / f"{config}/test-00000-of-00001.parquet", [of_math(10 * c + i) for i in range(c + 1)])
        parquet(folder / f"{config}/train-00000-of-00001.parquet", [of_math(1000 + c)])
    configs = reversed(competition_math.MATH.configs)
    write_card(folder, {config: {split: f"{config}/{split}-*" for split in ("test", "train")} for config in configs})
    return folder


def ids(problems: Sequence[Problem]) -> list[str]:
    """The id of each problem."""
    return [problem.id for problem in problems]


def references(problems: Sequence[Problem]) -> list[str]:
    """The reference of each problem."""
    return [problem.reference for problem in problems]
