"""Pool the last hidden states while vLLM samples: an extension of its workers, called before each sampling step.

The states are those after the final norm, which the model's output layer takes. For each response a sum, the last
state and the one before it are stored, in float32; the harness' `capture` defines the kinds. A state counts for the
token that was passed in, so that steps past a response's end (vLLM schedules ahead on a GPU) count nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch

from .protocol import Name, read_name

FIRST_SLOTS = 256
BROKEN = -1  # instead of a count: positions were skipped, and the states must be computed again


class Step(NamedTuple):
    """The batch of a step: requests in the order of their tokens, and the tokens' hidden states."""

    ids: list[str]
    counts: np.ndarray[Any, Any]  # tokens of each
    computed: np.ndarray[Any, Any]  # tokens of each before this step
    hidden: torch.Tensor  # (tokens, width), possibly with padding at the end
    tokens: torch.Tensor  # (tokens,)


def step_of_v1(runner: Any, state: Any) -> Step:
    """Read the step of `vllm.v1.worker.gpu_model_runner`, which is used on CPUs too."""
    batch, scheduled = runner.input_batch, state.scheduler_output
    ids = list(batch.req_ids)
    each = scheduled.num_scheduled_tokens
    if scheduled.total_num_scheduled_tokens == len(ids):
        counts = np.ones(len(ids), np.int64)
    else:
        counts = np.array([each[name] for name in ids], np.int64)
    return Step(ids, counts, batch.num_computed_tokens_cpu[: len(ids)], state.hidden_states, runner.input_ids.gpu)


def step_of_v2(runner: Any, state: Any) -> Step:
    """Read the step of `vllm.v1.worker.gpu.model_runner`. Written from its source, and never run: it needs a GPU."""
    batch = state.input_batch
    counts = np.asarray(batch.num_scheduled_tokens[: len(batch.req_ids)], np.int64)
    return Step(list(batch.req_ids), counts, batch.num_computed_tokens_np, state.hidden_states, batch.input_ids)


STEPS = {"vllm.v1.worker.gpu_model_runner": step_of_v1, "vllm.v1.worker.gpu.model_runner": step_of_v2}


def step_reader(runner: Any) -> Any:
    """Return the function that reads this runner's steps; None if the runner is unknown."""
    for kind in type(runner).__mro__:
        if kind.__module__ in STEPS:
            return STEPS[kind.__module__]
    return None


class Sums:
    """Running sums of the responses that pass the model, one slot for each response."""

    def __init__(self, width: int, device: torch.device) -> None:
        self.width, self.device = width, device
        self.slots: dict[str, int] = {}
        self.names: dict[str, Name] = {}
        self.free: list[int] = []
        self.seen = np.zeros(0, np.int64)  # positions counted in each slot, the prompt's last one included
        self.begin = np.zeros(0, np.int64)  # the prompt's last position
        self.sampled = np.zeros(0, bool)
        self.broken = np.zeros(0, bool)
        self.sum = self.last = self.before = torch.zeros(0, width, device=device)
        self.live = torch.zeros(0, dtype=torch.bool, device=device)
        self.masked = torch.zeros(0, dtype=torch.bool, device=device)  # ends with the first token of `ends`
        self.count = torch.zeros(0, dtype=torch.long, device=device)
        self.ends = torch.zeros(0, dtype=torch.int32, device=device)
        self.kinds: tuple[str, ...] = ()
        self._decoding: tuple[list[str], np.ndarray[Any, Any], torch.Tensor] | None = None

    def start(self, kinds: tuple[str, ...], ends: list[int]) -> None:
        """Clear all slots, then collect what these kinds need; `ends`: the tokens that end a response."""
        self.kinds, self._decoding = kinds, None
        self.slots.clear()
        self.names.clear()
        self.free = list(range(len(self.seen)))[::-1]
        self.ends = torch.tensor(ends, dtype=torch.int32, device=self.device)

    def take_in(self, step: Step) -> None:
        """Add a step's states."""
        if not self.kinds:
            return
        if self._decoding is not None and self._decoding[0] == step.ids and len(step.counts) == step.counts.sum():
            _, slots, on_device = self._decoding
            following = step.computed == self.begin[slots] + self.seen[slots]
            if following.all():
                self._decode(slots, on_device, step.hidden[: len(slots)], step.tokens[: len(slots)])
                return
        self._mixed(step)

    def _mixed(self, step: Step) -> None:
        starts = np.cumsum(step.counts) - step.counts
        following: list[tuple[int, int]] = []
        starting: list[tuple[int, int]] = []
        for at, name in enumerate(step.ids):
            slot = self._slot(name)
            if slot is None:
                continue
            computed, count = int(step.computed[at]), int(step.counts[at])
            low = int(self.begin[slot] + self.seen[slot])
            self.broken[slot] |= computed > low
            if computed + count <= low or self.broken[slot]:
                continue
            row = int(starts[at]) + low - computed
            if computed + count - low == 1:
                (following if self.seen[slot] else starting).append((slot, row))
            else:
                self._add_several(slot, step, row, computed + count - low)
        if starting:
            slots, on_device, rows = self._placed(starting)
            self._start(slots, on_device, step.hidden[rows])
        if following:
            slots, on_device, rows = self._placed(following)
            self._decode(slots, on_device, step.hidden[rows], step.tokens[rows])
        only_decoding = len(following) == len(step.ids) and bool((step.counts == 1).all())
        self._decoding = (step.ids, slots, on_device) if only_decoding else None

    def _placed(self, pairs: list[tuple[int, int]]) -> tuple[np.ndarray[Any, Any], torch.Tensor, torch.Tensor]:
        slots = np.array([slot for slot, _ in pairs])
        rows = torch.tensor([row for _, row in pairs], device=self.device)
        return slots, torch.from_numpy(slots).to(self.device), rows

    def _start(self, slots: np.ndarray[Any, Any], on_device: torch.Tensor, hidden: torch.Tensor) -> None:
        """Store the state at the prompt's end in each of these slots."""
        state = hidden.float()
        self.sum[on_device] = 0.0
        self.last[on_device] = state
        self.before[on_device] = state
        self.live[on_device] = True
        self.masked[on_device] = torch.from_numpy(self.sampled[slots]).to(self.device)
        self.count[on_device] = 0
        self.seen[slots] = 1

    def _decode(
        self, slots: np.ndarray[Any, Any], on_device: torch.Tensor, hidden: torch.Tensor, tokens: torch.Tensor
    ) -> None:
        """Add one state to each of these slots, which already have some."""
        state = hidden.float()
        live = self.live[on_device]
        column = live[:, None]
        if "mean" in self.kinds:
            self.sum.index_add_(0, on_device, torch.where(column, state, 0.0))
        if "last" in self.kinds or "penultimate" in self.kinds:
            previous = self.last[on_device]
            if "penultimate" in self.kinds:
                self.before[on_device] = torch.where(column, previous, self.before[on_device])
            self.last[on_device] = torch.where(column, state, previous)
        self.count.index_add_(0, on_device, live.long())
        ended = torch.isin(tokens, self.ends) & self.masked[on_device]
        self.live[on_device] = live & ~ended
        self.seen[slots] += 1

    def _add_several(self, slot: int, step: Step, row: int, count: int) -> None:
        """Add several positions of a given response, possibly with its prompt's end before them."""
        if self.sampled[slot]:  # it may have ended at any of these positions
            self.broken[slot] = True
            return
        states = step.hidden[row : row + count].float()
        if not self.seen[slot]:
            only = np.array([slot])
            self._start(only, torch.from_numpy(only).to(self.device), states[:1])
            states = states[1:]
            self.seen[slot] = count
        else:
            self.seen[slot] += count
        self.sum[slot] += states.sum(0)
        self.before[slot] = states[-2] if len(states) > 1 else self.last[slot]
        self.last[slot] = states[-1]
        self.count[slot] += len(states)

    def _slot(self, name: str) -> int | None:
        slot = self.slots.get(name)
        if slot is not None:
            return slot
        parts = read_name(name)
        if parts is None:
            return None
        if not self.free:
            self._grow()
        slot = self.free.pop()
        self.slots[name], self.names[name] = slot, parts
        self.seen[slot], self.begin[slot] = 0, parts.prompt - 1
        self.sampled[slot], self.broken[slot] = parts.sampled, False
        return slot

    def _grow(self) -> None:
        size = len(self.seen)
        more = max(FIRST_SLOTS, size)
        self.free = list(range(size, size + more))[::-1]
        for name in ("seen", "begin", "sampled", "broken"):
            values = getattr(self, name)
            setattr(self, name, np.concatenate([values, np.zeros(more, values.dtype)]))
        for name in ("sum", "last", "before", "live", "masked", "count"):
            values = getattr(self, name)
            zeros = torch.zeros(more, *values.shape[1:], dtype=values.dtype, device=self.device)
            setattr(self, name, torch.cat([values, zeros]))

    def take_out(self, number: int) -> tuple[list[int], list[int], dict[str, bytes]]:
        """Remove a request; return its children (one per sampled row), the number of states of each, and their vectors.

        The number is -1 if the states must be computed again. The dict maps each kind (mean, last, penultimate) to the
        children's vectors in order, as float32 bytes. The mean is over a child's states; a child without any has the
        state at the end of the prompt.
        """
        children = sorted((parts.child, name) for name, parts in self.names.items() if parts.number == number)
        slots = [self.slots.pop(name) for _, name in children]
        for _, name in children:
            del self.names[name]
        self._decoding = None
        at = torch.tensor(slots, dtype=torch.long, device=self.device)
        count = self.count[at]
        total = torch.where(count[:, None] > 0, self.sum[at] / count.clamp(min=1)[:, None], self.last[at])
        kinds = {"mean": total, "last": self.last[at], "penultimate": self.before[at]}
        counts = np.where(self.broken[slots] | (self.seen[slots] == 0), BROKEN, count.cpu().numpy())
        self.free += slots
        vectors = {kind: kinds[kind].cpu().numpy().astype(np.float32).tobytes() for kind in self.kinds}
        return [child for child, _ in children], counts.tolist(), vectors


class Capture:
    """Methods that vLLM's option `worker_extension_cls` adds to its workers."""

    model_runner: Any

    def harness_runner(self) -> str:
        """Return the worker's model runner: "V1", "V2", or the module of one that is not known."""
        known = {step_of_v1: "V1", step_of_v2: "V2"}
        return known.get(step_reader(self.model_runner), type(self.model_runner).__module__)

    def harness_install(self) -> str:
        """Make the worker collect states from now on; return "", or why this is impossible."""
        runner = self.model_runner
        reader = step_reader(runner)
        if reader is None:
            return f"its model runner {type(runner).__module__} is not known"
        sample = runner.sample_tokens
        runner.harness_sums = None

        def sample_tokens(*arguments: Any, **options: Any) -> Any:
            state = runner.execute_model_state
            if state is not None and state.hidden_states is not None:
                with torch.inference_mode():
                    step = reader(runner, state)
                    if runner.harness_sums is None:
                        runner.harness_sums = Sums(step.hidden.shape[-1], step.hidden.device)
                        runner.harness_sums.start(*runner.harness_start_arguments)
                    runner.harness_sums.take_in(step)
            return sample(*arguments, **options)

        runner.harness_start_arguments = ((), [])
        runner.sample_tokens = sample_tokens
        return ""

    def harness_start(self, kinds: list[str], ends: list[int]) -> None:
        """Forget all states, and collect these kinds from now on; `ends`: the tokens that end a response."""
        runner = self.model_runner
        runner.harness_start_arguments = (tuple(kinds), list(ends))
        if runner.harness_sums is not None:
            with torch.inference_mode():
                runner.harness_sums.start(*runner.harness_start_arguments)

    def harness_take(self, number: int) -> Any:
        """Remove a request and return its states, as `Sums.take_out` does; empty if no step has run yet."""
        sums = self.model_runner.harness_sums
        if sums is None:
            return [], [], {}
        with torch.inference_mode():
            return sums.take_out(number)

    def harness_logprobs(self, vectors: bytes, tokens: list[int]) -> list[float]:
        """Return each token's log-probability from the model's output layer; [] if another process has the logits.

        vectors   for each token the state before it: the bytes of a float32 array (tokens, width)
        """
        model = self.model_runner.model
        states = torch.from_numpy(np.frombuffer(vectors, np.float32).reshape(len(tokens), -1).copy())
        sums = self.model_runner.harness_sums
        with torch.inference_mode():
            logits = model.compute_logits(states.to(sums.device, self.model_runner.dtype))
            if logits is None:  # another rank has them
                return []
            return [float(torch.log_softmax(row.float(), -1)[token]) for row, token in zip(logits, tokens, strict=True)]
