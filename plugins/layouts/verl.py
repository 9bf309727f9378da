"""Pools from verl: the JSON lines of `trainer.validation_data_dir` and `trainer.rollout_data_dir`, one a sample."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

from harness import HarnessError
from harness.pools.record import PoolRecord, grouped, is_number, text_in
from harness.system.json_text import Line

# An input is a chat, decoded without its special tokens: what the user said stands alone where it joins to a problem.
_USER_SAID = re.compile(r"(?:^|\n)user\s*\n(.*?)\s*assistant\s*$", re.DOTALL)


class Verl:
    """Samples that verl dumps, `{"input": ..., "output": ..., "gts": ..., "score": ..., "step": ...}`, one a line.

    A dump of another step is another model's: two steps in one pool are refused.
    """

    name, keys = "verl", "input, output, score"
    remark = "; its scores are rewards: taken as scores, not as verdicts"
    verdicts = ("acc",)  # which verl's reward functions for mathematics give
    scores = True

    def fits(self, value: Mapping[str, Any]) -> bool:
        """Return whether a line has the keys `input`, `output` and `score`."""
        return {"input", "output", "score"} <= value.keys()

    def read(self, lines: Iterator[Line]) -> Iterator[PoolRecord]:
        """Yield a record per distinct input; its problem's id is the number of its first line, `line-1`.

        HarnessError if the lines are of different steps.
        """
        return grouped(_generations(lines))


def _generations(lines: Iterator[Line]) -> Iterator[tuple[Hashable, PoolRecord]]:
    step = None
    for line in lines:
        if step is None:
            step = line.value.get("step")
        if line.value.get("step") != step:
            raise HarnessError(
                f"{line.where}: step {line.value.get('step')} after step {step}: other weights, another pool; "
                "give the file of one step"
            )
        prompt, output = text_in(line.value, "input", line.where), text_in(line.value, "output", line.where)
        score = line.value["score"] if is_number(line.value["score"]) else None
        said = _USER_SAID.search(prompt)
        record = PoolRecord(
            f"line-{line.number}", [output], prompt, reference=line.value.get("gts"), scores={"score": [score]},
            more_prompts=[said[1]] if said else [],
        )  # fmt: skip
        yield prompt, record
