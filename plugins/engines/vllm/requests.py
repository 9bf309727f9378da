"""The requests of a call: the seeds of their rows, and which prompts are complete as answers arrive."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from harness.records import SampleRequest

from .child.harness_vllm.wire import Arrays

SEEDS = 2**62


def seed_base(seed: int) -> int:
    """Return the seed of a problem's first row, computed from the problem's seed.

    torch uses its low 32 bits on a CPU, all 64 bits on a GPU.
    """
    return int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0]) % SEEDS


class EarlyReport:
    """Reports what the child counts while requests run, and rows that it counted early not again with their request."""

    def __init__(self, request: SampleRequest) -> None:
        self.request, self.early = request, 0
        request.tokens(0)

    def is_count(self, head: Mapping[str, Any]) -> bool:
        """Report a message of the child with counts; False for any other message."""
        if "tokens" in head:
            self.request.tokens(head["tokens"])
            self.request.report(head["rows"])
            self.early += head["rows"]
        return "tokens" in head

    def finished(self, rows: int) -> None:
        """Report the rows of a finished request, less those that were counted early; 0 rows take these back."""
        self.request.report(rows - self.early)
        self.early = 0


def finished_prompts(
    answers: Iterable[tuple[int, Arrays]], requests: Sequence[Mapping[str, int]]
) -> Iterator[tuple[int, list[Arrays]]]:
    """Yield (a prompt's index, its requests' columns in the order of rows) as soon as all its requests are answered.

    answers    indices in `requests` with their columns, in any order
    requests   "prompt" is the index of the prompt
    """
    places: dict[int, list[int]] = {}
    for at, request in enumerate(requests):
        places.setdefault(request["prompt"], []).append(at)
    columns: dict[int, Arrays] = {}
    for at, answer in answers:
        columns[at] = answer
        prompt = requests[at]["prompt"]
        if all(place in columns for place in places[prompt]):
            yield prompt, [columns.pop(place) for place in places[prompt]]
