"""Sample responses with vLLM in this process; give the states and log-probabilities of given responses."""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .protocol import Arrays, packed, read_name, written_name
from .scheduler import WANTS_LAST

EVERY_S = 1.0  # how often tokens and ended rows are reported
IN_FLIGHT = 3  # rows sent to vLLM, in multiples of the sequences that run at once; the others wait inside vLLM
SELF_TEST_TOKENS = 6
LOGPROB = 6  # the tolerance of a log-probability in nats, in multiples of that of states

Prompt = list[int]
States = dict[str, np.ndarray[Any, Any]]


class Refused(Exception):
    """An error that the user can fix; one line."""


@dataclass(frozen=True)
class Row:
    """A given response to pass through the model: the prompt's tokens and the response's tokens."""

    prompt: Prompt
    tokens: list[int]


class SamplingRunner:
    """A loaded vLLM that samples responses, and passes given ones through the model, with an adapter or without."""

    def __init__(self, engine: Any, sequences: int, adapter: Any = None) -> None:
        self.engine, self.sequences, self.adapter = engine, sequences, adapter
        self.numbers = itertools.count()
        self.by_id: dict[str, int] = {}  # numbers of unfinished requests, by their names
        self.counts = Counts(engine)
        self.runner = ""  # vLLM's model runner, as `worker.Capture.harness_runner` names it; "" if not asked

    # Requests.

    def sample(self, head: Mapping[str, Any], prompts: Sequence[Prompt]) -> Iterator[tuple[dict[str, Any], Arrays]]:
        """Sample the requests of `head`; yield each (a prompt, a seed and a number of rows) once it is finished.

        The arrays are the rows' tokens, log-probabilities and, for the kinds in head["states"], hidden states. The dict
        names the request and says how many rows were passed through the model again for their states.
        """
        kinds = list(head["states"])
        if kinds:
            self._rpc("harness_start", kinds, head["eos"])
        requests = head["requests"]

        def submit(request: Mapping[str, Any]) -> tuple[int, int]:
            prompt = prompts[request["prompt"]]
            params = self._parameters(head, request["n"], request["seed"], bool(kinds))
            return self._add(prompt, params, True, len(prompt)), request["n"]

        for request, number, output in self._run(requests, submit):
            rows, logprobs = self._rows(output, head["max_tokens"], set(head["eos"]))
            arrays = packed("tokens", rows) | {"logprobs": np.array(logprobs)}
            passed_again = 0
            self.counts.tokens -= len(rows) * bool(kinds)  # those past the ends
            if kinds:
                states, passed_again = self._states_of(number, prompts[request["prompt"]], rows, kinds)
                arrays |= states
            yield {"request": request["request"], "passed_again": passed_again}, arrays

    def encode(self, head: Mapping[str, Any], rows: Sequence[Row]) -> Iterator[tuple[dict[str, Any], Arrays]]:
        """Pass given responses through the model; yield their hidden states in order, a group of rows at a time.

        head    "states": the kinds that are wanted (mean, last, penultimate)
        yields  ({"first": place of the group's first row, "n": its size}, {kind: (n, d) float32})
        """
        kinds = list(head["states"])
        self._rpc("harness_start", kinds, [])
        for start in range(0, len(rows), IN_FLIGHT * self.sequences):
            some = rows[start : start + IN_FLIGHT * self.sequences]
            yield {"first": start, "n": len(some)}, dict(self.passed(some, kinds))

    def score(self, rows: Sequence[Row]) -> Iterator[tuple[dict[str, Any], Arrays]]:
        """Yield each response's log-probability, summed over its tokens, as it finishes; none for one without tokens.

        yields  ({"first": index of the response in `rows`, "n": 1}, {"logprobs": (1,)})
        """
        from vllm import SamplingParams

        params = SamplingParams(
            temperature=0.0, max_tokens=1, prompt_logprobs=0, flat_logprobs=True, detokenize=False, ignore_eos=True
        )

        def submit(at: int) -> tuple[int, int]:
            return self._add(rows[at].prompt + rows[at].tokens, params, None, 0), 1

        for at, _, output in self._run([at for at, row in enumerate(rows) if row.tokens], submit):
            listed = output.prompt_logprobs
            positions = range(len(rows[at].prompt), len(listed))
            total = float(np.sum([listed.logprobs[listed.start_indices[i]] for i in positions], dtype=np.float64))
            yield {"first": at, "n": 1}, {"logprobs": np.array([total])}

    def passed(self, rows: Sequence[Row], kinds: Sequence[str]) -> States:
        """Return the states (rows, width) of given responses, by one pass over prompt and response.

        A cached prompt is not computed again. If vLLM has cached the response too, it computes no states for it: the
        response is then passed again without the cache.
        """
        states: States = {}
        remaining = list(range(len(rows)))
        for cached in (True, False):
            remaining = self._passed(rows, remaining, kinds, cached, states)
            if not remaining:
                return states
        raise Refused(f"{len(remaining)} of {len(rows)} responses passed the model without all of their states seen")

    # Runs of vLLM.

    def _passed(
        self, rows: Sequence[Row], which: Sequence[int], kinds: Sequence[str], cached: bool, states: States
    ) -> list[int]:
        from vllm import SamplingParams

        skip = None if cached else True
        params = SamplingParams(
            temperature=0.0, max_tokens=1, detokenize=False, ignore_eos=True, skip_reading_prefix_cache=skip
        )

        def submit(at: int) -> tuple[int, int]:
            return self._add(rows[at].prompt + rows[at].tokens, params, False, len(rows[at].prompt)), 1

        incomplete = []
        for at, number, _ in self._run(which, submit):
            _, counts, vectors = self._take(number)
            if counts != [len(rows[at].tokens)]:
                incomplete.append(at)
                continue
            for kind in kinds:
                vector = np.frombuffer(vectors[kind], np.float32)
                states.setdefault(kind, np.zeros((len(rows), len(vector)), np.float32))[at] = vector
        return incomplete

    def _states_of(self, number: int, prompt: Prompt, rows: list[list[int]], kinds: list[str]) -> tuple[States, int]:
        """Return the states of sampled rows, and how many were incomplete after sampling and needed a second pass."""
        children, counts, vectors = self._take(number)
        complete = {
            child: at
            for at, (child, count) in enumerate(zip(children, counts, strict=True))
            if count == len(rows[child])
        }
        missing = [row for row in range(len(rows)) if row not in complete]
        second_pass = self.passed([Row(prompt, rows[row]) for row in missing], kinds) if missing else {}
        states = {}
        for kind in kinds:
            sampled = np.frombuffer(vectors.get(kind, b""), np.float32).reshape(len(children), -1)
            width = second_pass[kind].shape[1] if missing else sampled.shape[1]
            states[kind] = np.zeros((len(rows), width), np.float32)
            for child, at in complete.items():
                states[kind][child] = sampled[at]
            if missing:
                states[kind][missing] = second_pass[kind]
        return states, len(missing)

    def _rows(self, output: Any, max_tokens: int, eos: set[int]) -> tuple[list[list[int]], list[float]]:
        """Return each row's tokens up to and with its first end, and the sum of their log-probabilities."""
        rows, logprobs = [], []
        for child in sorted(output.outputs, key=lambda child: child.index):
            tokens = list(child.token_ids)[:max_tokens]
            length = next((at + 1 for at, token in enumerate(tokens) if token in eos), len(tokens))
            listed = child.logprobs
            token_logprobs = [listed.logprobs[listed.start_indices[at]] for at in range(length)]
            rows.append(tokens[:length])
            logprobs.append(float(np.sum(token_logprobs, dtype=np.float64)))
        return rows, logprobs

    def _parameters(self, head: Mapping[str, Any], n: int, seed: int, one_more: bool) -> Any:
        from vllm import SamplingParams

        return SamplingParams(
            n=n,
            seed=seed,
            max_tokens=head["max_tokens"] + one_more,
            logprobs=0,
            flat_logprobs=True,
            detokenize=bool(head.get("stop")),
            stop=head.get("stop"),  # its states need a second pass: vLLM ends it before its last token is passed in
            ignore_eos=True,  # `stop_token_ids` has all tokens that end a response
            stop_token_ids=list(head["eos"]),
            extra_args={WANTS_LAST: True} if one_more else None,
            **head["sampler"],
        )

    def _run(self, items: Iterable[Any], submit: Callable[[Any], tuple[int, int]]) -> Iterator[tuple[Any, int, Any]]:
        """Yield each finished item with its number and vLLM's output."""
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
                outputs = self.engine.step()
                self.counts.look()
                for output in outputs:
                    number = self.by_id.pop(output.request_id)
                    item, size = running.pop(number)
                    rows -= size
                    yield item, number, output
        finally:
            self._forget(running)

    def _forget(self, running: Mapping[int, Any]) -> None:
        if running:
            unfinished = [name for name, number in self.by_id.items() if number in running]
            self.engine.abort_request(unfinished)
            for name in unfinished:
                del self.by_id[name]

    def _add(self, tokens: Prompt, params: Any, sampled: bool | None, prompt: int) -> int:
        """Send a request to vLLM; return its number. `sampled` is None if no states are wanted."""
        from vllm import TokensPrompt
        from vllm.sampling_params import RequestOutputKind

        number = next(self.numbers)
        name = f"s{number}" if sampled is None else written_name(sampled, prompt, number)
        params = params.clone()
        params.output_kind = RequestOutputKind.FINAL_ONLY
        (rendered,) = self.engine.renderer.render_cmpl([TokensPrompt(prompt_token_ids=tokens)])
        self.engine.add_request(name, rendered, params, lora_request=self.adapter)
        self.by_id[name] = number
        return number

    def _take(self, number: int) -> tuple[list[int], list[int], dict[str, bytes]]:
        children, counts, vectors = self._rpc("harness_take", number)
        return list(children), list(counts), dict(vectors)

    def _rpc(self, method: str, *arguments: Any) -> Any:
        """Return the first worker's answer; all workers hold the same states."""
        return self.engine.collective_rpc(method, args=arguments)[0]

    # Self-test of the states.

    def fault(self, vocabulary: int, tolerance: float) -> str:
        """Return what is wrong with states taken while sampling; "" if nothing is.

        A few short responses are sampled. Their states must be those of a second pass over the same tokens, their mean
        the mean of the last states of their beginnings, and the state before the last token must give, through the
        model's output layer, the log-probability that vLLM gave this token.
        """
        prompt = [1 + 7 * i % (vocabulary - 1) for i in range(8)]
        kinds = ["mean", "last", "penultimate"]
        head = {"states": kinds, "eos": [], "max_tokens": SELF_TEST_TOKENS, "sampler": {"temperature": 1.0}}
        request = {"request": 0, "prompt": 0, "n": 3, "seed": 1}
        ((_, sampled),) = self.sample({**head, "requests": [request]}, [prompt])
        ends = np.cumsum(sampled["tokens_lengths"])
        rows = [sampled["tokens"][end - SELF_TEST_TOKENS : end].tolist() for end in ends]
        self._rpc("harness_start", kinds, [])
        again = self.passed([Row(prompt, row) for row in rows], kinds)
        for kind in kinds:
            off = _difference(sampled[kind], again[kind])
            if not off <= tolerance:
                return f"{kind} states differ by {off:.1e} from a second pass's"
        beginnings = [Row(prompt, rows[0][:length]) for length in range(1, SELF_TEST_TOKENS + 1)]
        lasts = self.passed(beginnings, kinds)["last"]
        off = _difference(lasts.mean(0), sampled["mean"][0])
        if not off <= tolerance:
            return f"the mean state differs by {off:.1e} from the mean of the states"
        return self._fault_by_output_layer(prompt, rows, sampled, tolerance)

    def _fault_by_output_layer(self, prompt: Prompt, rows: list[list[int]], sampled: Arrays, tolerance: float) -> str:
        """Return how log-probabilities that the output layer computes from the states differ from vLLM's; "" if not."""
        shorter = [Row(prompt, row[:-1]) for row in rows]
        by_pass = {answer["first"]: float(arrays["logprobs"][0]) for answer, arrays in self.score([*shorter])}
        expected = [float(sampled["logprobs"][i]) - by_pass[i] for i in range(len(rows))]
        states = np.ascontiguousarray(sampled["penultimate"])
        logprobs = self._rpc("harness_logprobs", states.tobytes(), [row[-1] for row in rows])
        off = float(np.abs(np.array(logprobs) - expected).max())
        return (
            ""
            if off <= LOGPROB * tolerance
            else f"the output layer makes log-probabilities of them that are {off:.1e} off"
        )


def _difference(actual: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> float:
    """Return the largest difference, relative to the largest expected entry; NaN if any entry is."""
    return float(np.abs(actual - expected).max() / max(float(np.abs(expected).max()), 1e-30))


class Counts:
    """Counts what a vLLM engine's core puts out of sampled responses; nothing where this vLLM has another form.

    report   called with the tokens and the ended rows since the last time
    """

    def __init__(self, engine: Any) -> None:
        self.tokens = self.rows = 0
        self.due = 0.0
        self.report: Callable[[int, int], None] = lambda tokens, rows: None
        core: Any = getattr(engine, "engine_core", None)
        get_output: Any = getattr(core, "get_output", None)
        if get_output is None:
            return

        def counted() -> Any:
            outputs = get_output()
            for each in getattr(outputs, "outputs", ()):
                self._count(each)
            return outputs

        core.get_output = counted

    def _count(self, output: Any) -> None:
        name = read_name(str(getattr(output, "request_id", "")))
        if name is not None and name.sampled:
            self.tokens += len(getattr(output, "new_token_ids", ()))
            self.rows += getattr(output, "finish_reason", None) is not None

    def look(self) -> None:
        """Report what is new if a second has passed since the last time."""
        if (self.tokens or self.rows) and time.monotonic() >= self.due:
            self.report(self.tokens, self.rows)
            self.tokens = self.rows = 0
            self.due = time.monotonic() + EVERY_S
