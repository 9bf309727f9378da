"""Files of JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def read_json_lines(path: Path) -> list[Any]:
    """The value of each line."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def write_json_lines(path: Path, values: Iterable[Any]) -> Path:
    """Write a line for each value; the path."""
    path.write_text("".join(json.dumps(value) + "\n" for value in values))
    return path
