"""The `transformers` engine: sample responses and hidden states from a causal language model, on a CPU or a GPU.

On a CPU torch uses its own setting of threads (`torch.set_num_threads`, `OMP_NUM_THREADS`). Another number of threads,
or of rows in a chunk, changes the last bits of the logits, and so, very rarely, a token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from harness import HarnessError, Message, Responses, hookimpl
from harness.contracts import Report
from harness.hookspecs import Register
from harness.records import Floats, SampleRequest
from harness.system.progress import doing
from harness_plugins.models.adapter import Adapter
from harness_plugins.models.checkpoint import Checkpoint, OnCheckpoint, quiet
from harness_plugins.models.location import device_kind, dtype_name, locate

from ..row_chunks import Chunks

if TYPE_CHECKING:
    from .sampling import Row

Chat = Sequence[Message]

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
    stops = True

    def __post_init__(self) -> None:
        self.dtype = dtype_name("transformers", self.dtype)
        if not isinstance(self.batch, int) or self.batch < 1:
            raise HarnessError(f"transformers: batch must be a whole number >= 1, got {self.batch!r}")
        self._chunks = Chunks(self.batch)
        self._tried_siblings = False
        if self.model is not None or self.adapter is not None:
            more = self._checkpoint.libraries  # a wrong path is an error now, not when sampling starts
            self.libraries = (*self.libraries, *more)  # type: ignore[assignment]

    @cached_property
    def _checkpoint(self) -> Checkpoint:  # type: ignore[override]
        model = DEFAULT_MODEL[device_kind(self.device)] if self.model is None else self.model
        location = locate(model, takes_gguf=True)
        if location.folder is not None and self.revision is not None:
            what = "file" if location.gguf else "folder"
            raise HarnessError(f"transformers: {model} is a {what}, which has no revision {self.revision!r}")
        adapter = Adapter("transformers", Path(self.adapter).expanduser()) if self.adapter else None
        return Checkpoint(location, self.device, self.dtype, self.revision, adapter)

    def identity(self) -> Mapping[str, Any]:
        """Model, revision (a hub commit, or a hash of a folder's content), dtype and engine; loads no weights."""
        part = self._checkpoint
        return {"engine": "transformers", **part.identity, "dtype": part.dtype}

    def problems_per_call(self, n: int) -> int:
        """Return the number of problems that fill one batch."""
        return max(1, self.batch // n)

    def check(self, prompts: Sequence[Chat], max_tokens: int) -> None:
        """Raise HarnessError if the longest prompt and max_tokens exceed the context. Loads no weights."""
        part = self._checkpoint
        _ = part.device  # one that cannot be used is refused before the first token
        longest = max((len(part.prompt_ids(prompt)) for prompt in prompts), default=0)
        room = part.context - longest
        if max_tokens > room:
            most = f"--max-tokens can be {room:.0f} at most" if room > 0 else "no --max-tokens fits"
            raise HarnessError(
                f"{self.name}: the longest prompt has {longest} tokens, and --max-tokens {max_tokens} more do not fit "
                f"a context of {part.context:.0f}: {most}"
            )

    def sample(self, request: SampleRequest) -> list[Responses]:
        """Sample n responses to each prompt, in chunks of at most `batch` rows; see `harness.records.SampleRequest`.

        Under a sampler that steers, a prompt's responses are sampled one after another; only then `until` is called.
        """
        self._require_states(request.states)
        part = self._checkpoint
        ids = [part.prompt_ids(prompt) for prompt in request.prompts]
        if request.sampler.steers:
            return self._sample_steered(ids, request)
        rows = [(j, i) for j in range(len(ids)) for i in range(request.n)]
        parts: list[list[Row]] = [[] for _ in ids]
        finished: list[Responses] = []
        with self._loaded() as sampling:
            start = sampling.left_padded(part, ids)
            work = partial(sampling.sample_rows, part, start, request)
            for chunk, arrived in self._chunks.over(rows, work, self._at_once(request.n)):
                for (j, i), row in zip(chunk, arrived, strict=True):
                    parts[j].append(row)
                    if i == request.n - 1:
                        finished.append(sampling.as_responses(part, parts[j], request))
                        parts[j].clear()
                        request.done(j, finished[j])
        return finished

    def _at_once(self, n: int) -> int:
        """Return the rows generated at once; a large model on a CPU takes about `CPU_ROWS`, in whole problems."""
        part = self._checkpoint
        if part.device.type != "cpu" or part.model.num_parameters() < LARGE:
            return self.batch
        return min(self.batch, n * max(1, CPU_ROWS // n))

    def _sample_steered(self, ids: list[list[int]], request: SampleRequest) -> list[Responses]:
        """Sample up to n responses to each prompt, one after another, several prompts at a time."""
        part = self._checkpoint
        tokens = max(map(len, ids), default=0) + request.max_tokens
        window = getattr(part.config.get_text_config(), "sliding_window", None)
        if window is not None and tokens > window:  # siblings would lose their past
            raise HarnessError(
                f"{self.name}: prompt and --max-tokens make {tokens} tokens, more than the model's sliding window of "
                f"{window}, over which no sampler can steer: shorten --max-tokens"
            )
        sampled: list[Responses] = []
        with self._loaded():
            from .steered import require_siblings, sample_steered

            if not self._tried_siblings:
                require_siblings(part)
                self._tried_siblings = True
            chunks = Chunks(max(1, self.batch // STEERED_ROWS))
            for _, responses in chunks.over(range(len(ids)), partial(sample_steered, part, ids, request)):
                sampled += responses
        return sampled

    def encode(
        self, prompt: Chat, responses: Responses, states: Sequence[str], report: Report = lambda rows: None
    ) -> dict[str, Floats]:
        """Return {kind: (n, d) float32}, the states of given responses, from one pass over prompt and response.

        Equal, up to rounding, to what `sample` returns for the same tokens. A response of no token has its prompt's
        last state.
        """
        self._require_states(states)

        def work(fed: dict[str, Any], rows: list[list[int]]) -> dict[str, Floats]:
            from .sampling import pool

            hidden = self._checkpoint.decoder(**fed)[0]
            return pool(hidden[:, -1 - max(map(len, rows)) :], [len(row) for row in rows], states)

        return self._passed(prompt, responses, ENCODED_TOKENS, work, report)

    def score(self, prompt: Chat, responses: Responses, report: Report = lambda rows: None) -> Floats:
        """Return (n,) float64: each response's log-probability under this model, summed over its tokens.

        Equal, up to rounding, to what `sample` returns for the same tokens, whichever engine sampled them; 0 for a
        response of no token.
        """

        def work(fed: dict[str, Any], rows: list[list[int]]) -> dict[str, Floats]:
            import torch

            logits = self._checkpoint.model(**fed, logits_to_keep=max(map(len, rows)) + 1).logits
            sums = []
            for ids, of_row in zip(rows, logits, strict=True):
                target = torch.tensor(ids, dtype=torch.long, device=of_row.device)[:, None]
                logprobs = torch.log_softmax(of_row[: len(ids)].float(), -1).gather(1, target)
                sums.append(float(logprobs.double().sum()))
            return {"": np.array(sums)}

        return self._passed(prompt, responses, SCORED_TOKENS, work, report).get("", np.zeros(0))

    def _passed(
        self, prompt: Chat, responses: Responses, tokens: int, work: Callable[..., dict[str, Floats]], report: Report
    ) -> dict[str, Floats]:
        """Return what `work` returns for all responses, in passes of about `tokens * batch` tokens."""
        part = self._checkpoint
        rows, prompt_ids = part.rows(responses), part.prompt_ids(prompt)
        longest = max(map(len, rows), default=0)
        if len(prompt_ids) + longest > part.context:
            raise HarnessError(
                f"{self.name}: prompt and longest response have {len(prompt_ids) + longest} tokens, "
                f"more than the context of {part.context:.0f}"
            )
        chunks = Chunks(max(1, min(self.batch, tokens * self.batch // (1 + longest))))
        by_length = sorted(range(len(rows)), key=lambda i: len(rows[i]))  # similar lengths together: little padding
        whole: dict[str, Floats] = {}
        with self._loaded() as sampling:
            start = sampling.left_padded(part, [prompt_ids])

            def passed(chunk: Sequence[int]) -> dict[str, Floats]:
                some = [rows[i] for i in chunk]
                return work(sampling.fed_rows(part, start, some), some)

            for chunk, columns in chunks.over(by_length, passed):
                for name, values in columns.items():
                    whole.setdefault(name, np.empty((len(rows), *values.shape[1:]), values.dtype))[list(chunk)] = values
                report(len(chunk))
        return whole

    @contextmanager
    def _loaded(self) -> Iterator[Any]:
        """Load the model, if it is not loaded; yield the module `sampling`, without gradients and warnings."""
        import torch

        from . import sampling

        with quiet(), torch.inference_mode():
            with doing(f"loading model {self.name}"):
                _ = self._checkpoint.model
            yield sampling
