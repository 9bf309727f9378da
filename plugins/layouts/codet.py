"""Pools from CodeT (microsoft/CodeT, 2022): one line a problem, without an id."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from harness.pools.record import PoolRecord, text_in, texts_in
from harness.system.json_text import Line


class CodeT:
    """Samples of CodeT, `{"prompt": ..., "samples": [...]}`, one line a problem."""

    name, keys = "CodeT", "prompt, samples"

    def fits(self, value: Mapping[str, Any]) -> bool:
        """Return whether a line has the keys `prompt` and `samples`."""
        return "prompt" in value and "samples" in value

    def read(self, lines: Iterator[Line]) -> Iterator[PoolRecord]:
        """Yield a record per line; the problem's id is the line's number, `line-1`."""
        for line in lines:
            prompt, samples = text_in(line.value, "prompt", line.where), texts_in(line.value, "samples", line.where)
            yield PoolRecord(f"line-{line.number}", samples, prompt=prompt)
