"""Run verl on CPUs: a platform and the sampler `transformers`; verl itself supports accelerators only.

Ray is told of GPUs that do not exist (`num_gpus`), since verl places its workers by GPU. Engines are looked up under
the name of CUDA (`VERL_ENGINE_DEVICE=cuda`): they are plain FSDP2, which also runs on gloo.

The sampler is the harness' own sampling behind verl's interface of a sampling server. The requests of a step arrive one
by one. They are collected until none has arrived for `QUIET_S`, sorted by prompt, and generated together. Each request
has a random stream made from (seed, step, prompt, number of earlier requests with this prompt), so the order of arrival
makes no difference. A lock prevents a change of weights during generation.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import ray
import torch
from verl.plugin.platform.platform_base import PlatformBase
from verl.plugin.platform.platform_manager import PlatformRegistry
from verl.workers.rollout import base
from verl.workers.rollout.replica import RolloutReplica, RolloutReplicaRegistry, TokenOutput

from harness import HarnessError, Sampler
from harness_plugins.engines.transformers.sampling import RowSampler, uniforms
from harness_plugins.models.checkpoint import Checkpoint, quiet
from harness_plugins.models.location import locate

NAME = "transformers"  # the sampler's name in verl
QUIET_S = 0.25
ROWS = 256  # at most so many are generated at once
SERVER = "transformers_server_{}"  # an actor's name, with its rank


def register() -> None:
    """Register the platform and the sampler in verl."""
    PlatformRegistry.register(platform="cpu")(Cpu)
    RolloutReplicaRegistry.register(NAME, lambda: Replica)
    base._ROLLOUT_REGISTRY[NAME, "async"] = f"{__name__}.Weights"


def _answer(value: Any) -> Any:
    return staticmethod(lambda *_, **__: value)


class _Device(ModuleType):
    """The functions of `torch.cuda` that verl calls, for a CPU: no device memory, nothing to synchronize."""

    is_available = _answer(False)
    device_count = _answer(1)
    current_device = get_device_name = _answer("cpu")
    set_device = synchronize = empty_cache = ipc_collect = _answer(None)
    memory_allocated = max_memory_allocated = memory_reserved = max_memory_reserved = _answer(0)
    mem_get_info = _answer((2**33, 2**34))
    get_rng_state = staticmethod(torch.get_rng_state)
    set_rng_state = staticmethod(torch.set_rng_state)
    manual_seed = manual_seed_all = staticmethod(torch.manual_seed)


class Cpu(PlatformBase):
    """verl's platform for a machine without accelerator: each process has one device, on which nothing must wait."""

    device_name = "cpu"
    vendor_name = "generic"
    device_module = _Device("cpu")

    is_available = _answer(True)
    is_platform_available = _answer(False)  # so that verl uses it only if it is requested by name
    current_device = _answer("cpu")
    device_count = _answer(1)
    manual_seed = manual_seed_all = staticmethod(torch.manual_seed)
    set_device = synchronize = set_allocator_settings = empty_cache = _answer(None)
    profiler_start = profiler_stop = cudart = _answer(None)
    get_device_capability = _answer((None, None))
    communication_backend_name = _answer("gloo")
    visible_devices_envvar = _answer("CUDA_VISIBLE_DEVICES")
    nvtx_range = _answer(nullcontext())
    ray_resource_name = _answer("GPU")  # by which verl places its workers
    ray_noset_envvars = _answer(["RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"])
    is_ipc_supported = _answer(False)  # weights are sent through Ray


@dataclass(eq=False)
class Request:
    """A request for one response."""

    prompt: tuple[int, ...]
    place: int  # index among the requests for this prompt in this step
    sampler: Sampler
    answer: asyncio.Future[TokenOutput]


class LogprobRowSampler(RowSampler):
    """A `RowSampler` that also records each token's log-probability: token_logprobs (rows, max_tokens) float64."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.token_logprobs = torch.zeros(self.tokens.shape, dtype=torch.float64)

    def _sample(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        before = self.logprobs[self.running]
        token = super()._sample(input_ids, scores)
        self.token_logprobs[self.running, self.step] = self.logprobs[self.running] - before
        return token


class Server:
    """A Ray actor that samples from its copy of the policy.

    seed, rank   the run's seed and this server's number, from which the random streams are made
    max_tokens   the longest response
    """

    def __init__(self, model: str, seed: int, rank: int, max_tokens: int) -> None:
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
        self.part = Checkpoint(locate(model), "cpu", "float32", None)
        self.seed, self.rank, self.max_tokens = seed, rank, max_tokens
        self.step = 0
        self.arrived: Counter[tuple[int, ...]] = Counter()
        self.waiting: list[Request] = []
        self.last_arrival_s = 0.0
        self.lock = asyncio.Lock()

    async def load(self, weights: dict[str, torch.Tensor], step: int) -> None:
        """Load the policy's weights of a step, once no generation is going on; HarnessError if they do not match."""
        async with self.lock:
            missing, unknown = self.part.model.load_state_dict(weights, strict=False)
            self.part.model.tie_weights()
            tied = set(getattr(self.part.model, "all_tied_weights_keys", ()))
            if unknown or set(missing) - tied:
                raise HarnessError(f"verl: weights do not match the model: without {missing[:3]}, with {unknown[:3]}")
            self.step = step
            self.arrived.clear()

    async def generate(self, prompt_ids: Sequence[int], sampling_params: dict[str, Any], **_: Any) -> TokenOutput:
        """Return one response of at most `max_tokens` tokens, its end-of-sequence token included."""
        prompt = tuple(prompt_ids)
        answer: asyncio.Future[TokenOutput] = asyncio.get_running_loop().create_future()
        sampler = Sampler(
            temperature=float(sampling_params.get("temperature", 1.0)),
            top_p=float(sampling_params.get("top_p", 1.0)),
            top_k=max(0, int(sampling_params.get("top_k", -1))),
        )
        self.waiting.append(Request(prompt, self.arrived[prompt], sampler, answer))
        self.arrived[prompt] += 1
        self.last_arrival_s = time.monotonic()
        while not answer.done():
            async with self.lock:
                if not answer.done() and time.monotonic() - self.last_arrival_s >= QUIET_S:
                    await self._generate_waiting()
            await asyncio.wait([answer], timeout=QUIET_S / 4)
        return answer.result()

    async def _generate_waiting(self) -> None:
        """Answer all waiting requests; an exception is given to each of a batch, since verl counts failures."""
        batch = sorted(self.waiting, key=lambda request: (request.prompt, request.place))
        self.waiting = []
        for sampler in dict.fromkeys(request.sampler for request in batch):
            same = [request for request in batch if request.sampler == sampler]
            for requests in (same[start : start + ROWS] for start in range(0, len(same), ROWS)):
                try:
                    outputs = await asyncio.to_thread(self._generated, requests, sampler)
                except Exception as failure:
                    for request in requests:
                        request.answer.set_exception(failure)
                else:
                    for request, output in zip(requests, outputs, strict=True):
                        request.answer.set_result(output)

    def _generated(self, requests: Sequence[Request], sampler: Sampler) -> list[TokenOutput]:
        width, filler = max(len(request.prompt) for request in requests), self.part.filler
        pads = [width - len(request.prompt) for request in requests]
        ids = torch.tensor([[filler] * pad + [*r.prompt] for pad, r in zip(pads, requests, strict=True)])
        mask = torch.tensor([[0] * pad + [1] * (width - pad) for pad in pads])
        streams = np.stack([uniforms(self._stream(r.prompt), r.place, self.max_tokens) for r in requests])
        sampling = LogprobRowSampler(sampler, streams, self.part.eos, filler, torch.device("cpu"))
        with quiet(), torch.inference_mode():
            self.part.model.generate(
                input_ids=ids,
                attention_mask=mask,
                do_sample=False,
                max_new_tokens=self.max_tokens,
                logits_processor=[sampling],
                stopping_criteria=[lambda *_, **__: sampling.finished(feed_last=False)],
            )
        plain = sampler == Sampler()  # otherwise the tokens were not sampled with the model's own probabilities
        return [
            TokenOutput(
                token_ids=sampling.tokens[row, :length].tolist(),
                log_probs=sampling.token_logprobs[row, :length].tolist() if plain else None,
                stop_reason="completed",
                num_preempted=0,
                extra_fields={"global_steps": self.step},
            )
            for row, length in enumerate(map(int, sampling.lengths))
        ]

    def _stream(self, prompt: tuple[int, ...]) -> int:
        """Return the seed of the random streams of this prompt's rows in this step."""
        text = repr((self.seed, self.rank, self.step, prompt))
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")

    async def nothing(self, **_: Any) -> None:
        """Do nothing: this server's memory is needed nowhere else, and verl's synchronous trainer aborts no request."""

    wake_up = sleep = abort_all_requests = resume_generation = nothing
    clear_kv_cache = release_kv_cache = resume_kv_cache = start_profile = stop_profile = nothing


class Replica(RolloutReplica):
    """Starts the sampling server of one worker."""

    async def launch_servers(self) -> None:
        """Start this replica's `Server` as a Ray actor; `Weights`, on the worker's side, finds it by its name."""
        name, config = SERVER.format(self.replica_rank), self.config
        server = ray.remote(Server).options(name=name, num_cpus=1, max_concurrency=100_000)
        handle = server.remote(str(self.model_config.path), config.seed, self.replica_rank, config.response_length)
        self.servers, self._server_handle, self._server_address = [handle], handle, name


class Weights(base.BaseRollout):
    """The worker's side of the sampler: sends the policy's weights to the server."""

    def __init__(self, config: Any, model_config: Any, device_mesh: Any, replica_rank: int = -1) -> None:
        super().__init__(config, model_config, device_mesh)
        self.rank = int(os.environ["RANK"]) if replica_rank < 0 else replica_rank

    async def resume(self, tags: list[str]) -> None:
        """Do nothing: nothing was released."""

    async def release(self) -> None:
        """Do nothing: there is nothing to release."""

    async def update_weights(
        self, weights: Iterable[tuple[str, torch.Tensor]], wire_format: str = "named_tensors", **kwargs: Any
    ) -> None:
        """Send all weights to the server, in float32."""
        copied = {name: weight.detach().to("cpu", torch.float32, copy=True) for name, weight in weights}
        await ray.get_actor(SERVER.format(self.rank)).load.remote(copied, kwargs.get("global_steps") or 0)
