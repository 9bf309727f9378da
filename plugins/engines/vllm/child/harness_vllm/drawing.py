"""Responses, and states and log-probabilities of given ones, from vLLM in this process."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import names
from .scheduler import WANTS_LAST
from .wire import Arrays, packed

IN_FLIGHT = 3  # times the sequences that run at once: the next ones wait inside vLLM
SELF_TEST_TOKENS = 6
LOGPROB = 6  # times the tolerance of states: that of a log-probability, in nats

Prompt = list[int]
States = dict[str, np.ndarray[Any, Any]]


class Refused(Exception):
    """What the user can mend, in one line."""


@dataclass(frozen=True)
class Row:
    """A response to be passed through the model: its prompt's tokens and its own."""

    prompt: Prompt
    tokens: list[int]


class Drawing:
    """vLLM, loaded."""

    def __init__(self, engine: Any, sequences: int) -> None:
        self.engine, self.sequences = engine, sequences
        self.numbers = itertools.count()
        self.by_id: dict[str, int] = {}  # the numbers of requests under way

    # What vLLM is asked.

    def sample(self, asked: Mapping[str, Any], prompts: Sequence[Prompt]) -> Iterator[tuple[dict[str, Any], Arrays]]:
        """Each request as it is finished: which, and its rows' columns."""
        kinds = list(asked["states"])
        if kinds:
            self._rpc("harness_start", kinds, asked["eos"])
        requests = asked["requests"]

        def submit(one: Mapping[str, Any]) -> tuple[int, int]:
            params = self._drawn(asked, one["n"], one["seed"], bool(kinds))
            return self._add(prompts[one["prompt"]], params, True, len(prompts[one["prompt"]])), one["n"]

        for one, number, output in self._run(requests, submit):
            rows, logprobs = self._rows(output, asked["max_tokens"], set(asked["eos"]))
            arrays = packed("tokens", rows) | {"logprobs": np.array(logprobs)}
            passed_again = 0
            if kinds:
                states, passed_again = self._states_of(number, prompts[one["prompt"]], rows, kinds)
                arrays |= states
            yield {"request": one["request"], "passed_again": passed_again}, arrays

    def encode(self, asked: Mapping[str, Any], rows: Sequence[Row]) -> Iterator[tuple[dict[str, Any], Arrays]]:
        """The states of given responses, some rows at a time."""
        kinds = list(asked["states"])
        self._rpc("harness_start", kinds, [])
        for first in range(0, len(rows), IN_FLIGHT * self.sequences):
            some = rows[first : first + IN_FLIGHT * self.sequences]
            yield {"first": first, "n": len(some)}, dict(self.passed(some, kinds))

    def score(self, rows: Sequence[Row]) -> Iterator[tuple[dict[str, Any], Arrays]]:
        """The log-probabilities of given responses, each the sum over its tokens."""
        from vllm import SamplingParams

        params = SamplingParams(
            temperature=0.0, max_tokens=1, prompt_logprobs=0, flat_logprobs=True, detokenize=False, ignore_eos=True
        )

        def submit(at: int) -> tuple[int, int]:
            return self._add(rows[at].prompt + rows[at].tokens, params, None, 0), 1

        for at, _, output in self._run([at for at, row in enumerate(rows) if row.tokens], submit):
            listed = output.prompt_logprobs
            behind = range(len(rows[at].prompt), len(listed))
            total = float(np.sum([listed.logprobs[listed.start_indices[i]] for i in behind], dtype=np.float64))
            yield {"first": at, "n": 1}, {"logprobs": np.array([total])}

    def passed(self, rows: Sequence[Row], kinds: Sequence[str]) -> States:
        """The states (rows, width) of given responses, by one pass over prompt and response.

        A prompt that is cached is not passed again. Where a response is cached too, its states are not made: it is
        passed again without the cache.
        """
        found: States = {}
        left = list(range(len(rows)))
        for cached in (True, False):
            left = self._passed(rows, left, kinds, cached, found)
            if not left:
                return found
        raise Refused(f"{len(left)} of {len(rows)} responses passed the model without all of their states seen")

    # How.

    def _passed(
        self, rows: Sequence[Row], which: Sequence[int], kinds: Sequence[str], cached: bool, found: States
    ) -> list[int]:
        from vllm import SamplingParams

        skip = None if cached else True
        params = SamplingParams(
            temperature=0.0, max_tokens=1, detokenize=False, ignore_eos=True, skip_reading_prefix_cache=skip
        )

        def submit(at: int) -> tuple[int, int]:
            return self._add(rows[at].prompt + rows[at].tokens, params, False, len(rows[at].prompt)), 1

        left = []
        for at, number, _ in self._run(which, submit):
            _, counts, vectors = self._taken(number)
            if counts != [len(rows[at].tokens)]:
                left.append(at)
                continue
            for kind in kinds:
                vector = np.frombuffer(vectors[kind], np.float32)
                found.setdefault(kind, np.zeros((len(rows), len(vector)), np.float32))[at] = vector
        return left

    def _states_of(self, number: int, prompt: Prompt, rows: list[list[int]], kinds: list[str]) -> tuple[States, int]:
        """The states of drawn rows; those not seen whole while drawing are made by another pass, and counted."""
        children, counts, vectors = self._taken(number)
        complete = {
            child: at
            for at, (child, count) in enumerate(zip(children, counts, strict=True))
            if count == len(rows[child])
        }
        missing = [row for row in range(len(rows)) if row not in complete]
        made = self.passed([Row(prompt, rows[row]) for row in missing], kinds) if missing else {}
        states = {}
        for kind in kinds:
            seen = np.frombuffer(vectors.get(kind, b""), np.float32).reshape(len(children), -1)
            width = made[kind].shape[1] if missing else seen.shape[1]
            states[kind] = np.zeros((len(rows), width), np.float32)
            for child, at in complete.items():
                states[kind][child] = seen[at]
            if missing:
                states[kind][missing] = made[kind]
        return states, len(missing)

    def _rows(self, output: Any, max_tokens: int, eos: set[int]) -> tuple[list[list[int]], list[float]]:
        """Tokens up to the first end, that included, and the sum of their log-probabilities."""
        rows, logprobs = [], []
        for child in sorted(output.outputs, key=lambda child: child.index):
            tokens = list(child.token_ids)[:max_tokens]
            length = next((at + 1 for at, token in enumerate(tokens) if token in eos), len(tokens))
            listed = child.logprobs
            own = [listed.logprobs[listed.start_indices[at]] for at in range(length)]
            rows.append(tokens[:length])
            logprobs.append(float(np.sum(own, dtype=np.float64)))
        return rows, logprobs

    def _drawn(self, asked: Mapping[str, Any], n: int, seed: int, one_more: bool) -> Any:
        from vllm import SamplingParams

        return SamplingParams(
            n=n,
            seed=seed,
            max_tokens=asked["max_tokens"] + one_more,
            logprobs=0,
            flat_logprobs=True,
            detokenize=False,
            ignore_eos=True,  # all ends are ours
            stop_token_ids=list(asked["eos"]),
            extra_args={WANTS_LAST: True} if one_more else None,
            **asked["sampler"],
        )

    def _run(self, items: Iterable[Any], submit: Callable[[Any], tuple[int, int]]) -> Iterator[tuple[Any, int, Any]]:
        """Each item with its number and vLLM's output, as they are finished."""
        todo = deque(items)
        running: dict[int, tuple[Any, int]] = {}
        rows = 0
        try:
            while todo or running:
                while todo and rows < IN_FLIGHT * self.sequences:
                    item = todo.popleft()
                    number, size = submit(item)
                    running[number] = item, size
                    rows += size
                for output in self.engine.step():
                    number = self.by_id.pop(output.request_id)
                    item, size = running.pop(number)
                    rows -= size
                    yield item, number, output
        finally:
            self._forget(running)

    def _forget(self, running: Mapping[int, Any]) -> None:
        if running:
            left = [name for name, number in self.by_id.items() if number in running]
            self.engine.abort_request(left)
            for name in left:
                del self.by_id[name]

    def _add(self, tokens: Prompt, params: Any, drawn: bool | None, prompt: int) -> int:
        """Give vLLM a request; its number. `drawn` is None where no states are wanted."""
        from vllm import TokensPrompt
        from vllm.sampling_params import RequestOutputKind

        number = next(self.numbers)
        name = f"s{number}" if drawn is None else names.written(drawn, prompt, number)
        params = params.clone()
        params.output_kind = RequestOutputKind.FINAL_ONLY
        (rendered,) = self.engine.renderer.render_cmpl([TokensPrompt(prompt_token_ids=tokens)])
        self.engine.add_request(name, rendered, params)
        self.by_id[name] = number
        return number

    def _taken(self, number: int) -> tuple[list[int], list[int], dict[str, bytes]]:
        children, counts, vectors = self._rpc("harness_take", number)
        return list(children), list(counts), dict(vectors)

    def _rpc(self, method: str, *given: Any) -> Any:
        """What the first worker says; all hold the same states."""
        return self.engine.collective_rpc(method, args=given)[0]

    # Whether the states are what they should be.

    def fault(self, vocabulary: int, tolerance: float) -> str:
        """What is wrong with states taken while drawing; "" where nothing is.

        A few short responses are drawn. Their states must be those of a second pass over the same tokens, their mean
        the mean of the last states of their beginnings, and the state before the last token must give, through the
        model's output layer, the log-probability that vLLM drew this token with.
        """
        prompt = [1 + 7 * i % (vocabulary - 1) for i in range(8)]
        kinds = ["mean", "last", "penultimate"]
        asked = {"states": kinds, "eos": [], "max_tokens": SELF_TEST_TOKENS, "sampler": {"temperature": 1.0}}
        request = {"request": 0, "prompt": 0, "n": 3, "seed": 1}
        ((_, drawn),) = self.sample({**asked, "requests": [request]}, [prompt])
        ends = np.cumsum(drawn["tokens_lengths"])
        rows = [drawn["tokens"][end - SELF_TEST_TOKENS : end].tolist() for end in ends]
        self._rpc("harness_start", kinds, [])
        again = self.passed([Row(prompt, row) for row in rows], kinds)
        for kind in kinds:
            off = _difference(drawn[kind], again[kind])
            if not off <= tolerance:
                return f"{kind} states differ by {off:.1e} from a second pass's"
        beginnings = [Row(prompt, rows[0][:length]) for length in range(1, SELF_TEST_TOKENS + 1)]
        lasts = self.passed(beginnings, kinds)["last"]
        off = _difference(lasts.mean(0), drawn["mean"][0])
        if not off <= tolerance:
            return f"the mean state differs by {off:.1e} from the mean of the states"
        return self._unlike_the_output_layer(prompt, rows, drawn, tolerance)

    def _unlike_the_output_layer(self, prompt: Prompt, rows: list[list[int]], drawn: Arrays, tolerance: float) -> str:
        shorter = [Row(prompt, row[:-1]) for row in rows]
        by_pass = {head["first"]: float(arrays["logprobs"][0]) for head, arrays in self.score([*shorter])}
        expected = [float(drawn["logprobs"][i]) - by_pass[i] for i in range(len(rows))]
        states = np.ascontiguousarray(drawn["penultimate"])
        got = self._rpc("harness_logprobs", states.tobytes(), [row[-1] for row in rows])
        off = float(np.abs(np.array(got) - expected).max())
        return (
            ""
            if off <= LOGPROB * tolerance
            else f"the output layer makes log-probabilities of them that are {off:.1e} off"
        )


def _difference(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> float:
    """The largest difference, in units of the largest entry; NaN where any is."""
    return float(np.abs(one - other).max() / max(float(np.abs(other).max()), 1e-30))
