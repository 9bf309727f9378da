"""A verifier of Game of 24 as a user would write it, and GPT-4's pool with its verdicts."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

# `python check.py RESPONSE_FILE PROBLEM_ID LOG`: it writes each start into LOG.
CHECK = '''
import re, sys
from fractions import Fraction


def is_right(text, problem_id):
    """Whether the last line is an expression of the four numbers that equals 24."""
    expression = text.strip().splitlines()[-1].split(":")[-1].split("=")[0].strip()
    numbers = sorted(re.findall(r"\\d+", expression), key=int)
    if not re.fullmatch(r"[\\d+\\-*/() ]+", expression) or numbers != sorted(problem_id.split("-"), key=int):
        return False
    try:
        return eval(re.sub(r"(\\d+)", r"Fraction(\\1)", expression)) == 24
    except (SyntaxError, ZeroDivisionError, TypeError):
        return False


if __name__ == "__main__":
    response_file, problem_id, index, log = sys.argv[1:]
    with open(log, "a") as file:
        file.write(f"{problem_id} {index}\\n")
    with open(response_file) as file:
        sys.exit(0 if is_right(file.read(), problem_id) else 1)
'''


def write_checker(folder: Path) -> Any:
    """Write check.py into the folder; the module."""
    path = folder / "check.py"
    path.write_text(CHECK)
    spec = importlib.util.spec_from_file_location("check_of_24", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def gpt4_pool(shared: Path, checker: Any, problems: int) -> list[dict[str, Any]]:
    """The first problems of GPT-4's pool as lines of our layout, with the checker's verdicts."""
    puzzles = (shared / "tasks" / "game24.csv").read_text().splitlines()[1:]
    lines = []
    for log in json.loads((shared / "pools" / "tot_game24_gpt4_standard_n100.json").read_text())[:problems]:
        name = "-".join(sorted(puzzles[log["idx"]].split(",")[1].split(), key=int))
        correct = [checker.is_right(text, name) for text in log["ys"]]
        lines.append({"problem_id": name, "responses": log["ys"], "correct": correct})
    return lines


def outcomes_in(journal: Path) -> list[tuple[str, int, str]]:
    """The whole lines of a journal with an outcome: problem, index, outcome."""
    whole = journal.read_bytes().rpartition(b"\n")[0].split(b"\n")[1:] if journal.exists() else []
    lines = map(json.loads, whole)
    return [(line["problem_id"], line["index"], line["outcome"]) for line in lines if "outcome" in line]
