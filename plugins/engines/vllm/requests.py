"""The requests of a call: the seeds of their rows, and which prompts are complete as answers arrive."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from .child.harness_vllm.wire import Arrays

SEEDS = 2**62


def seed_base(seed: int) -> int:
    """Return the seed of a problem's first row, computed from the problem's seed.

    torch uses its low 32 bits on a CPU, all 64 bits on a GPU.
    """
    return int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0]) % SEEDS


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
