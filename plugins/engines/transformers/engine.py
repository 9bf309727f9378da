"""The `transformers` engine: sample responses and hidden states from a causal language model, on a CPU or a GPU.

`model.generate` does the work. Each row has its own random stream (`row_streams`). The prompts pass the model once, and
all rows share their key-value cache. States are pooled during generation (`capture`), without a second pass. As soon as
half of the rows have ended, the other half continues as a smaller batch.

On a CPU torch uses its own setting of threads (`torch.set_num_threads`, `OMP_NUM_THREADS`). Another number of threads,
or of rows in a chunk, changes the last bits of the logits, and so, very rarely, a token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from harness import HarnessError, Message, Responses, hookimpl
from harness.hookspecs import Register
from harness.records import Floats, SampleRequest
from harness.system.progress import doing
from harness_plugins.models.adapter import Adapter
from harness_plugins.models.checkpoint import Checkpoint, quiet
from harness_plugins.models.model_files import device_kind, dtype_name
from harness_plugins.models.model_location import locate

from ..counting import ChunkReport
from ..on_checkpoint import OnCheckpoint
from ..row_chunks import Chunks
from ..sampled_rows import SampledRows, Start, joined, require_known
from .padding import fed_rows, left_padded, padded

if TYPE_CHECKING:
    import torch

    from .capture import PooledStates
    from .row_streams import RowSampler

DEFAULT_MODEL = {"cpu": "Qwen/Qwen2.5-0.5B-Instruct", "cuda": "Qwen/Qwen2.5-7B-Instruct"}
ENCODED_TOKENS = 16  # one pass of `encode` takes about 16 * batch tokens
SCORED_TOKENS = 2  # one pass of `score` takes fewer: each token has logits over the whole vocabulary
CPU_ROWS = 64  # rows at once of a large model on a CPU: fewer problems are unfinished when a run is killed
LARGE = 50_000_000  # parameters: below it more rows are faster on a CPU too
STEERED_ROWS = 16  # rows of `batch` that a steered prompt counts for: a step passes many candidate tokens


@hookimpl
def register_engines(register: Register) -> None:
    """Register by name, so that listing engines imports no torch."""
    register("transformers", "harness_plugins.engines.transformers.engine:Transformers")


@dataclass(eq=False)
class Transformers(OnCheckpoint):
    """A causal language model of the transformers library.

    model      a hub id, a folder, a GGUF file, or an embedded model's name; None: Qwen2.5-Instruct, 0.5B on a CPU, 7B
               on a GPU
    device     "auto" (a GPU if there is one), "cpu", "cuda", "cuda:1", ...
    dtype      "auto" (float32 on a CPU, the checkpoint's own on a GPU), "float32" (fp32), "bfloat16" (bf16) or
               "float16" (fp16)
    batch      maximum number of rows generated at once; halved if memory runs out. Changes responses by rounding only
    revision   of a hub model: branch, tag or commit
    adapter    the folder of a PEFT adapter for that model, e.g. a LoRA
    """

    model: str | None = None
    device: str = "auto"
    dtype: str = "auto"
    batch: int = 256
    revision: str | None = None
    adapter: str | None = None

    libraries = ("torch", "transformers")
    steers = True
    states = ("mean", "last", "penultimate")

    def __post_init__(self) -> None:
        self.dtype = dtype_name("transformers", self.dtype)
        if not isinstance(self.batch, int) or self.batch < 1:
            raise HarnessError(f"transformers: batch must be a whole number >= 1, got {self.batch!r}")
        self._chunks = Chunks(self.batch)
        if self.model is not None or self.adapter is not None:
            more = self._checkpoint.libraries  # a wrong path is an error now, not when sampling starts
            self.libraries = (*self.libraries, *more)  # type: ignore[assignment]

    @cached_property
    def _checkpoint(self) -> Checkpoint:  # type: ignore[override]
        model = DEFAULT_MODEL[self._device] if self.model is None else self.model
        location = locate(model, takes_gguf=True)
        if location.folder is not None and self.revision is not None:
            what = "file" if location.gguf else "folder"
            raise HarnessError(f"transformers: {model} is a {what}, which has no revision {self.revision!r}")
        adapter = Adapter("transformers", Path(self.adapter).expanduser()) if self.adapter else None
        return Checkpoint(location, self.device, self.dtype, self.revision, adapter)

    @property
    def _device(self) -> str:  # type: ignore[override]
        return device_kind(self.device)

    def identity(self) -> Mapping[str, Any]:
        """Model, revision (a hub commit, or a hash of a folder's content), dtype and engine; loads no weights."""
        part = self._checkpoint
        return {"engine": "transformers", **part.identity, "dtype": part.dtype}

    def problems_per_call(self, n: int) -> int:
        """Return the number of problems that fill one batch."""
        return max(1, self.batch // n)

    def check(self, prompts: Sequence[Sequence[Message]], max_tokens: int) -> None:
        """Raise HarnessError if the longest prompt and max_tokens exceed the context. Loads no weights."""
        if max_tokens < 1:
            raise HarnessError(f"transformers: --max-tokens must be >= 1, got {max_tokens}")
        _ = self._checkpoint.device  # one that cannot be used is refused before the first token
        longest = max((len(self._checkpoint.prompt_ids(prompt)) for prompt in prompts), default=0)
        room = self._checkpoint.context - longest
        if max_tokens > room:
            most = f"--max-tokens can be {room:.0f} at most" if room > 0 else "no --max-tokens fits"
            raise HarnessError(
                f"{self.name}: the longest prompt has {longest} tokens, and --max-tokens {max_tokens} more do not fit "
                f"a context of {self._checkpoint.context:.0f}: {most}"
            )

    def sample(self, request: SampleRequest) -> list[Responses]:
        """Sample n responses to each prompt, in chunks of at most `batch` rows; see `harness.records.SampleRequest`.

        Under a sampler that steers, a prompt's responses are sampled one after another; only then `until` is called.
        """
        require_known("transformers", request.states, self.states)
        if request.sampler.steers:
            return self._sample_steered(request)
        n = request.n
        rows = [(j, i) for j in range(len(request.prompts)) for i in range(n)]
        parts: list[list[SampledRows]] = [[] for _ in request.prompts]
        finished: list[Responses] = []
        with self._loaded():
            start = left_padded(self._checkpoint, [self._checkpoint.prompt_ids(prompt) for prompt in request.prompts])
            chunks = self._chunks.over(rows, lambda chunk: self._generate(start, chunk, request), self._at_once(n))
            for chunk, columns in chunks:
                for j, places in groupby(range(len(chunk)), key=lambda place: chunk[place][0]):
                    positions = list(places)
                    parts[j].append(columns.rows(slice(positions[0], positions[-1] + 1)))
                    if chunk[positions[-1]][1] == n - 1:
                        finished.append(self._responses(joined(parts[j])))
                        parts[j].clear()
                        request.done(j, finished[j])
        return finished

    def _at_once(self, n: int) -> int:
        """Return the rows generated at once; a large model on a CPU takes about `CPU_ROWS`, in whole problems."""
        part = self._checkpoint
        if part.device.type != "cpu" or part.model.num_parameters() < LARGE:
            return self.batch
        return min(self.batch, n * max(1, CPU_ROWS // n))

    def encode(
        self,
        prompt: Sequence[Message],
        responses: Responses,
        states: Sequence[str],
        report: Callable[[int], None] = lambda rows: None,
    ) -> dict[str, Floats]:
        """Return {kind: (n, d) float32}, the states of given responses, from one pass over prompt and response.

        Equal, up to rounding, to what `sample` returns for the same tokens. A response of no token has its prompt's
        last state.
        """
        require_known("transformers", states, self.states)
        pooled: dict[str, Floats] = {}
        for chunk, columns in self._passes(
            prompt, responses, ENCODED_TOKENS, lambda start, rows: self._encode(start, rows, states)
        ):
            for kind, values in columns.items():
                pooled.setdefault(kind, np.empty((len(responses), values.shape[1]), np.float32))[chunk] = values
            report(len(chunk))
        return pooled

    def score(
        self,
        prompt: Sequence[Message],
        responses: Responses,
        report: Callable[[int], None] = lambda rows: None,
    ) -> Floats:
        """Return (n,) float64: each response's log-probability under this model, summed over its tokens.

        Equal, up to rounding, to what `sample` returns for the same tokens, whichever engine sampled them; 0 for a
        response of no token.
        """
        scores = np.zeros(len(responses))
        for chunk, values in self._passes(prompt, responses, SCORED_TOKENS, self._score):
            scores[chunk] = values
            report(len(chunk))
        return scores

    def _passes(
        self,
        prompt: Sequence[Message],
        responses: Responses,
        tokens: int,
        work: Callable[[Start, Sequence[list[int]]], Any],
    ) -> Iterator[tuple[list[int], Any]]:
        """Yield chunks of about `tokens * batch` tokens: the responses' indices, and the result of `work`."""
        rows = self._checkpoint.rows(responses)
        longest = max((len(row) for row in rows), default=0)
        prompt_ids = self._checkpoint.prompt_ids(prompt)
        if len(prompt_ids) + longest > self._checkpoint.context:
            raise HarnessError(
                f"{self.name}: prompt and longest response have {len(prompt_ids) + longest} tokens, "
                f"more than the context of {self._checkpoint.context:.0f}"
            )
        chunks = Chunks(max(1, min(self.batch, tokens * self.batch // (1 + longest))))
        by_length = sorted(range(len(rows)), key=lambda i: len(rows[i]))  # similar lengths together: little padding
        with self._loaded():
            start = left_padded(self._checkpoint, [prompt_ids])
            for chunk, result in chunks.over(by_length, lambda chunk: work(start, [rows[i] for i in chunk])):
                yield list(chunk), result

    def _generate(self, start: Start, chunk: Sequence[tuple[int, int]], request: SampleRequest) -> SampledRows:
        """Sample the responses of a chunk of (prompt, row) pairs."""
        import torch

        from .capture import PooledStates, hooked
        from .row_streams import RowSampler, uniforms

        part, states = self._checkpoint, request.states
        which = torch.tensor([j for j, _ in chunk], device=part.device)
        streams = np.stack([uniforms(request.seeds[j], i, request.max_tokens) for j, i in chunk])
        report = ChunkReport(request)
        sampling = RowSampler(request.sampler, streams, part.eos, part.filler, part.device, watch=report.look)
        pooled = PooledStates(states, sampling)
        try:
            with hooked(part.decoder, pooled) if states else nullcontext():
                self._run(sampling, start.ids[which], start.mask[which], start.past(which), feed_last=bool(states))
            columns = self._columns(sampling, pooled)
        except (MemoryError, RuntimeError):  # of memory: these rows are sampled again
            report.tell(0, 0)
            raise
        report.tell(len(chunk), sum(map(len, columns.token_ids)))
        return columns

    def _columns(self, sampling: RowSampler, pooled: PooledStates) -> SampledRows:
        """Move the sampled rows and their pooled states to the CPU."""
        if not sampling.logprobs.isfinite().all():
            raise HarnessError(
                f"{self.name}: in {self._checkpoint.dtype} the model's probabilities are not finite; try dtype=float32"
            )
        lengths = sampling.lengths.tolist()
        return SampledRows(
            token_ids=[row[:length] for row, length in zip(sampling.tokens.tolist(), lengths, strict=True)],
            ended=sampling.ended.tolist(),
            logprobs=sampling.logprobs.cpu().numpy(),
            states={kind: values.cpu().numpy() for kind, values in pooled.result().items()},
        )

    def _sample_steered(self, request: SampleRequest) -> list[Responses]:
        """Sample up to n responses to each prompt, one after another, several prompts at a time."""
        from .candidate_tree import require_window

        if not hasattr(request.sampler, "steering"):
            raise HarnessError(
                f"transformers: {type(request.sampler).__name__} has steers = True, but no steering() that says how: "
                "see harness.contracts.Steering"
            )
        ids = [self._checkpoint.prompt_ids(prompt) for prompt in request.prompts]
        require_window(self._checkpoint, max(map(len, ids), default=0) + request.max_tokens)
        sampled: list[Responses] = []
        with self._loaded():
            _ = self._checked_siblings
            chunks = Chunks(max(1, self.batch // STEERED_ROWS))
            for _, responses in chunks.over(range(len(ids)), lambda chunk: self._steered(chunk, ids, request)):
                sampled += responses
        return sampled

    @cached_property
    def _checked_siblings(self) -> bool:
        """Return True if the model can look at several next tokens at once; else raise HarnessError."""
        from .candidate_tree import require_siblings

        require_siblings(self._checkpoint)
        return True

    def _steered(
        self, chunk: Sequence[int], prompt_ids: Sequence[list[int]], request: SampleRequest
    ) -> list[Responses]:
        """Sample the responses to a chunk of prompts; a prompt leaves the batch when `until` returns True."""
        from .row_streams import uniforms
        from .steered import SteeredPrompts

        steered = SteeredPrompts(
            self._checkpoint, request.sampler, *padded(self._checkpoint, [prompt_ids[j] for j in chunk])
        )
        parts: dict[int, list[SampledRows]] = {j: [] for j in chunk}
        complete: dict[int, Responses] = {}
        active = list(chunk)
        for i in range(request.n):
            streams = np.stack([uniforms(request.seeds[j], i, request.max_tokens) for j in active])
            report = ChunkReport(request)
            rows = steered.respond([j - chunk[0] for j in active], streams, request.states, report.look)
            columns = self._columns(*rows)
            report.tell(len(active), sum(map(len, columns.token_ids)))
            for row, j in enumerate(active):
                parts[j].append(columns.rows(slice(row, row + 1)))
            last = i == request.n - 1
            for j in [j for j in active if request.until(j, *self._text(parts[j][-1])) or last]:
                complete[j] = self._responses(joined(parts[j]))
                request.done(j, complete[j])
                active.remove(j)
            if not active:
                break
        return [complete[j] for j in chunk]

    def _text(self, rows: SampledRows) -> tuple[str, str]:
        """Return the text of a single row, and how it ended."""
        return self._checkpoint.text(rows.token_ids[0]), rows.finish[0]

    def _run(
        self, sampling: RowSampler, ids: torch.Tensor, mask: torch.Tensor, past: dict[str, Any], *, feed_last: bool
    ) -> None:
        """Generate until all rows have ended; each time half of them have, continue with the other half."""
        import torch

        from .row_streams import RowsEnded

        stop = RowsEnded(sampling, feed_last, narrowing=bool(past))
        steps = sampling.max_tokens + feed_last  # a row's last token passes the model only for its state
        while len(sampling.running) and sampling.step < steps:
            ids = self._checkpoint.model.generate(
                input_ids=ids,
                attention_mask=mask,
                do_sample=False,
                max_new_tokens=steps - sampling.step,
                logits_processor=[sampling],
                stopping_criteria=[stop],
                **past,
            )
            unfinished = (~stop.finished()).nonzero()[:, 0]
            sampling.narrow(unfinished)
            ids, mask = ids[unfinished], mask[unfinished]
            mask = torch.nn.functional.pad(mask, (0, ids.shape[1] - mask.shape[1]), value=1)
            for cache in past.values():
                cache.batch_select_indices(unfinished)

    def _responses(self, rows: SampledRows) -> Responses:
        return Responses(
            texts=[self._checkpoint.text(ids) for ids in rows.token_ids],
            finish=rows.finish,
            lengths=np.array([len(ids) for ids in rows.token_ids], np.int64),
            logprobs=rows.logprobs,
            token_ids=rows.token_ids,
            states=rows.states,
        )

    def _encode(self, start: Start, rows: Sequence[list[int]], states: Sequence[str]) -> dict[str, Floats]:
        """Return the states of a chunk of responses to the single prompt of `start`."""
        import torch

        from .capture import pool

        fed, width = fed_rows(self._checkpoint, start, rows)
        hidden = self._checkpoint.decoder(**fed)[0]
        lengths = torch.tensor([len(row) for row in rows], device=hidden.device)
        pooled = pool(hidden[:, -1 - width :], lengths, states)
        return {kind: values.cpu().numpy() for kind, values in pooled.items()}

    def _score(self, start: Start, rows: Sequence[list[int]]) -> Floats:
        """Return the summed log-probabilities of a chunk of responses to the single prompt of `start`."""
        import torch

        fed, width = fed_rows(self._checkpoint, start, rows)
        logits = self._checkpoint.model(**fed, logits_to_keep=width + 1).logits
        return np.array(
            [
                float(torch.log_softmax(logits[i, : len(row)].float(), -1).gather(1, target).double().sum())
                for i, row in enumerate(rows)
                for target in [torch.tensor(row, dtype=torch.long, device=logits.device)[:, None]]
            ]
        )

    @contextmanager
    def _loaded(self) -> Iterator[None]:
        """Load the model, if it is not loaded, and run the code inside without gradients and warnings."""
        import torch

        with quiet(), torch.inference_mode():
            with doing(f"loading model {self.name}"):
                _ = self._checkpoint.model
            yield
