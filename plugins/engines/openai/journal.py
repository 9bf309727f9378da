"""Responses that a server has answered, kept in a file until the harness has stored them: a killed run buys none twice.

A line holds a row of one problem: 16 hex digits of the SHA-256 of what follows, a space, and the row as JSON.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from harness import HarnessError
from harness.system.files import disk_errors
from harness.system.json_text import parsed

from .wire import Choice


def append(path: Path, choices: Mapping[int, Choice], durable: bool) -> None:
    """Add rows to a problem's file; `durable` waits for the disk."""
    lines = b"".join(_line(row, choice) for row, choice in choices.items())
    with disk_errors(path), path.open("ab") as file:
        file.write(lines)
        file.flush()
        if durable:
            os.fsync(file.fileno())


def read(path: Path) -> dict[int, Choice]:
    """Return the rows in a problem's file, {} if there is none; a line that a killed run left unfinished is cut off.

    HarnessError if a line is damaged.
    """
    if not path.exists():
        return {}
    with disk_errors(path):
        content = path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):
            os.truncate(path, len(whole))
    return dict(_row(path, number, line) for number, line in enumerate(whole.splitlines(), 1))


def _line(row: int, choice: Choice) -> bytes:
    fields = asdict(choice) | {"logprob": None if math.isnan(choice.logprob) else choice.logprob}
    content = json.dumps({"row": row, **fields}).encode()
    return _digest(content) + b" " + content + b"\n"


def _row(path: Path, number: int, line: bytes) -> tuple[int, Choice]:
    digest, _, content = line.partition(b" ")
    if digest != _digest(content):
        raise HarnessError(
            f"openai: {path}, line {number}, is damaged: delete the file; its responses are then asked for (and paid "
            "for) again"
        )
    fields = parsed(content, f"openai: {path}, line {number}", lenient=True)
    row = int(fields.pop("row"))
    return row, Choice(**fields | {"logprob": math.nan if fields["logprob"] is None else fields["logprob"]})


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest()[:16].encode()
