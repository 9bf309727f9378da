"""The `openai` engine: sample from any server with OpenAI's HTTP API (vllm serve, llama.cpp, SGLang, a provider).

Each response is a request of its own: row i of a problem has the seed base + i, the base computed from the problem's
seed. A pool cannot be sampled again from a provider that ignores seeds, or takes them as a hint.

A failed request is not a response: its row is listed in `Responses.missing`, and the next run requests it again. What
requests use is counted, and rows are kept as they arrive (`ledger`). This API gives no hidden states: use
`--embedder sentence` or `tfidf` for vectors.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar
from urllib.parse import urlsplit

import numpy as np

from harness import HarnessError, Message, Responses, Sampler, hookimpl
from harness.errors import Lacking, did_you_mean
from harness.hookspecs import Register
from harness.records import Floats, Limits, SampleRequest

from .ledger import Ledger, append, lines, shown, worst_case
from .requests import BYTES_A_TOKEN, PATHS, Choice, Failed, Form, Server, finished, first_form, read_choice, usage

PROVIDER = "https://api.openai.com/v1"
SEEDS = 2**30  # bases of seeds lie below it; base + row then fits any server's integers
LONG_SEEDS = 2**62  # the same for vLLM: two problems of a large pool hardly ever share a stream
IN_FLIGHT, IN_FLIGHT_VLLM = 16, 256
REQUESTS_IN_A_CALL = 8  # in multiples of `concurrency`
FILTERING = ("vllm", "llamacpp", "sglang")  # servers that may filter by default, and take all fields of a sampler
UNFILTERED = "sum, temperature 1, unfiltered"  # vLLM's raw_logprobs, its default; llama.cpp's
OF_MODEL = {"owned_by": str, "root": str, "parent": str, "n_params": int, "n_embd": int, "n_vocab": int, "size": int}


@hookimpl
def register_engines(register: Register) -> None:
    """Register by name, so that listing engines imports no client."""
    register("openai", "harness_plugins.engines.openai.engine:OpenAI")


@dataclass(eq=False)
class OpenAI:
    """A model on a server.

    model        as the server calls it; None: the only one it serves
    url          of the API, `/v1` included; None: OPENAI_BASE_URL, else OpenAI's own
    api          "chat", or "completions" for base models
    key_env      the name of the environment variable that holds the key; None: OPENAI_API_KEY, which may be unset
    concurrency  requests in flight at once; None: 256 of vLLM, which computes them together, else 16
    timeout_s    seconds of one try of a request
    retries      of one request: a timeout counts as 3, a 429 as a half; pauses grow to a minute
    price_in     money per million tokens of prompts; with `price_out` what is spent is shown, and --max-cost caps it
    price_out    the same of responses
    """

    model: str | None = None
    url: str | None = None
    api: str = "chat"
    key_env: str | None = None
    concurrency: int | None = None
    timeout_s: float = 600.0
    retries: int = 8
    price_in: float = 0.0
    price_out: float = 0.0

    libraries: ClassVar[Sequence[str]] = ("httpx",)
    served = True
    steers = False
    stops = True
    states = ()

    def __post_init__(self) -> None:
        if self.api not in PATHS:
            raise HarnessError(f"openai: api must be chat or completions, got {self.api!r}")
        least = {"concurrency": 1, "timeout_s": 0.001, "retries": 0, "price_in": 0, "price_out": 0}
        for name, value in ((name, getattr(self, name)) for name in least):
            if value is not None and not least[name] <= value < math.inf:
                raise HarnessError(f"openai: {name} must be finite and at least {least[name]}, got {value}")
        url = base_url(self.url or os.environ.get("OPENAI_BASE_URL") or PROVIDER)
        self._server = Server(url, self.key_env or "OPENAI_API_KEY", self.key_env is not None, self.timeout_s)
        self._ledger = Ledger(Limits(), (self.price_in, self.price_out))
        self._form_works = False  # a request in the form `_form` has succeeded

    @property
    def name(self) -> str:
        """The model's name as tables show it: as the server calls it; of a path, its end."""
        return without_folder(self._model)

    @property
    def chats(self) -> bool:
        """Whether prompts are sent as chats."""
        return self.api == "chat"

    def identity(self) -> Mapping[str, Any]:
        """Return the model, the API, and what lasts of the server's description of it; neither the url nor the key."""
        described = {name: each for name, each in self._served.items() if isinstance(each, OF_MODEL.get(name, ()))}
        served = {name: without_folder(each) if isinstance(each, str) else each for name, each in described.items()}
        logprobs = UNFILTERED if self._owner in ("vllm", "llamacpp") else "sum, as the server gives them"
        return {"engine": "openai", "model": self.name, "api": self.api, "served": served, "logprob_kind": logprobs}

    def problems_per_call(self, n: int) -> int:
        """Return the number of problems that keep all connections busy for some rounds."""
        return max(1, REQUESTS_IN_A_CALL * self._in_flight // n)

    # Money.

    @property
    def is_charged(self) -> bool:
        """Whether money or a cap is at stake."""
        return self._ledger.is_charged

    def charge(self, limits: Limits) -> None:
        """Take the limits; HarnessError if one is of money and the model's price is not given."""
        if limits.max_cost and not self.price_in + self.price_out:
            raise HarnessError(
                "openai: --max-cost needs the model's prices, per million tokens: add them, e.g. --engine "
                "openai:price_in=0.15,price_out=0.6"
            )
        self._ledger = Ledger(limits, (self.price_in, self.price_out), self._ledger.unwritten)

    def quote(self, prompts: Sequence[Sequence[Message]], rows: Sequence[int], max_tokens: int) -> str:
        """Return what rows[j] responses to each prompt j cost at most, as a clause; "" without prices."""
        sent = sum(n * math.ceil(characters(prompt) / BYTES_A_TOKEN) for prompt, n in zip(prompts, rows, strict=True))
        cost = (sent * self.price_in + sum(rows) * max_tokens * self.price_out) / 1e6
        estimate = f"{shown(cost)} (prompts estimated: {BYTES_A_TOKEN} characters a token)"
        return f"which cost up to about {estimate}" if cost else ""

    def spending(self) -> str:
        """Return what the pool has cost so far, in few words; "" without prices or cap."""
        return self._ledger.spending()

    def bill(self) -> str:
        """Return one line about all that was used for the pool; "" if nothing was."""
        return self._ledger.bill()

    # Sampling.

    def check(self, prompts: Sequence[Sequence[Message]], max_tokens: int) -> str:
        """Request a response to the longest prompt, to check key, model, API and context; HarnessError if one is wrong.

        Return one line that says what the server lacks (seeds, log-probabilities); "" if it lacks nothing.
        If the server does not tell its context, the response may be max_tokens long.
        """
        if not prompts:
            return ""
        sizes = [self._served.get(name) for name in ("max_model_len", "n_ctx")]
        context = next((each for each in sizes if type(each) is int), 0)
        probe = SampleRequest([max(prompts, key=characters)], 1, Sampler(), 1 if context else max_tokens, [0])

        async def probed() -> int | None:
            async with self._server.connected(1):
                return (await self.ask(probe, 0, 0))[1]

        try:
            length = finished(probed()) or 0
        except Failed as failure:
            raise (HarnessError(self._ledger.over) if self._ledger.over else self._explained(failure)) from None
        if context and length + max_tokens > context:
            raise HarnessError(
                f"{self.name}: the longest prompt has {length} tokens, and --max-tokens {max_tokens} more do not fit "
                f"a context of {context}: --max-tokens can be {max(0, context - length)} at most"
            )
        fields = self._form.fields
        lacks = [] if "seed" in fields else ["takes no seeds (this pool cannot be sampled again)"]
        lacks += [] if "logprobs" in fields else ["gives no log-probabilities"]
        return f"openai: the server {' and '.join(lacks)}" if lacks else ""

    def sample(self, request: SampleRequest) -> list[Responses]:
        """Sample n responses to each prompt, or only the given rows; failed ones are listed in `missing`.

        Raise HarnessError if all fail and no rows were given, or if the server refuses what the sampler needs.
        """
        if request.sampler.steers:
            kind = type(request.sampler).__name__
            raise HarnessError(f"openai: {kind} steers decoding itself, which no server follows")
        if request.journals and self._ledger.limits.folder != (folder := request.journals[0].parent):
            self.charge(replace(self._ledger.limits, folder=folder))
        with self._ledger.opened() if request.journals else nullcontext():
            sampled = finished(self._sampled(request))
        if self._ledger.over:
            raise HarnessError(self._ledger.over)
        reasons = [reason for responses in sampled for reason in responses.missing.values()]
        if reasons and request.rows is None and not any(map(len, sampled)):
            raise HarnessError(f"openai: none of {len(reasons)} responses came: {reasons[0]}")
        return sampled

    async def _sampled(self, request: SampleRequest) -> list[Responses]:
        """Request all rows that no journal has, as many at once as the server takes; return the responses to prompts.

        A row is written to its prompt's journal, if there is any, before anything else is done with it.
        """
        bases = [seed_base(seed, LONG_SEEDS if self._owner == "vllm" else SEEDS) for seed in request.seeds]
        rows = request.rows or [range(request.n)] * len(request.prompts)
        # Row -> its Choice, or the reason why it is missing.
        results: list[dict[int, Choice | str]] = [{} for _ in request.prompts]

        def responses(j: int) -> Responses:
            choices = [each for row in rows[j] if isinstance(each := results[j][row], Choice)]
            token_ids = [choice.token_ids for choice in choices if choice.token_ids is not None]
            return Responses(
                texts=[choice.text for choice in choices],
                finish=[choice.finish for choice in choices],
                lengths=np.array([min(request.max_tokens, choice.length) for choice in choices], np.int64),
                logprobs=np.array([choice.logprob for choice in choices], np.float64),  # NaN for None
                token_ids=token_ids if len(token_ids) == len(choices) else None,
                missing={row: reason for row in rows[j] if isinstance(reason := results[j][row], str)},
            )

        def hand_over(j: int, new: int) -> None:
            request.report(new)
            if len(results[j]) == len(rows[j]):
                request.done(j, responses(j))

        async def one(j: int, row: int) -> None:
            def keep(choice: Choice) -> None:
                if request.journals:
                    append(request.journals[j], [{"row": row, **vars(choice)}], durable=self.is_charged)

            try:
                choice, _ = await self.ask(request, j, bases[j] + row, keep)
                results[j][row] = choice
                request.tokens(min(request.max_tokens, choice.length))
            except Failed as failure:
                results[j][row] = str(failure)
            hand_over(j, 1)

        for j, path in enumerate(request.journals):
            kept = {line.pop("row"): Choice(**line) for line in lines(path)}
            results[j].update((row, kept[row]) for row in rows[j] if row in kept)
        try:
            async with self._server.connected(self._in_flight), asyncio.TaskGroup() as group:
                for j in range(len(rows)):
                    hand_over(j, len(results[j]))
                    for row in [row for row in rows[j] if row not in results[j]]:
                        group.create_task(one(j, row))
        except ExceptionGroup as failures:  # several requests may have been refused for the same reason
            raise failures.exceptions[0] from None
        return [responses(j) for j in range(len(rows))]

    def encode(
        self,
        prompt: Sequence[Message],
        responses: Responses,
        states: Sequence[str],
        report: Callable[[int], None] = lambda rows: None,
    ) -> dict[str, Floats]:
        if states:
            raise HarnessError("openai: a server gives no hidden states: choose --embedder sentence or tfidf")
        return {}

    # The server's description of itself.

    @cached_property
    def _listed(self) -> list[dict[str, Any]]:
        """Return the entries of /v1/models; empty if the server has no such list, or does not show it."""

        async def models() -> Any:
            async with self._server.connected(1):
                return await self._server.tried(partial(self._server.send, "GET", "/models"))

        try:
            answer = finished(models())
        except Failed as failure:
            if failure.status not in (0, 401):
                return []
            raise self._explained(failure) from None
        entries = answer.get("data") if isinstance(answer, dict) else answer
        listed = entries if isinstance(entries, list) else []
        return [entry for entry in listed if isinstance(entry, dict) and isinstance(entry.get("id"), str)]

    @cached_property
    def _model(self) -> str:
        if self.model is not None:
            return self.model
        names = [str(entry["id"]) for entry in self._listed]
        if len(names) != 1:
            serves = f"it lists {', '.join(names[:5] + ['...'] * (len(names) > 5)) or 'none'}"
            raise HarnessError(f"openai: say which --model the server at {self._server.url} is to run ({serves})")
        return names[0]

    @property
    def _served(self) -> Mapping[str, Any]:
        """What the server says of the model; llama.cpp's numbers stand in `meta`."""
        entry = next((entry for entry in self._listed if entry["id"] == self._model), {})
        return {**entry, **(entry["meta"] if isinstance(entry.get("meta"), dict) else {})}

    @property
    def _owner(self) -> str:
        return str(self._served.get("owned_by", "")).lower()

    @property
    def _in_flight(self) -> int:
        return self.concurrency or (IN_FLIGHT_VLLM if self._owner == "vllm" else IN_FLIGHT)

    @cached_property
    def _form(self) -> Form:
        return first_form(self.api, knows_extras=self._owner in FILTERING)

    # Requests.

    async def ask(
        self, request: SampleRequest, j: int, seed: int, keep: Callable[[Choice], None] = lambda choice: None
    ) -> tuple[Choice, int | None]:
        """Return a response to prompt j, and the prompt's length in tokens, if the server tells it.

        The first refusals show which fields the server accepts. `keep` is called first of all with what arrived.
        """
        form, worst = self._form, worst_case(request.prompts[j], request.max_tokens)

        async def once() -> tuple[Choice, int | None]:
            async with self._ledger.request(worst):
                body = form.body(self._model, request.prompts[j], request, seed)
                answer = await self._server.send("POST", PATHS[self.api], body)
                counts = usage(answer)
                if None not in counts:  # they are paid for even if the answer makes no sense
                    self._ledger.add(np.array([1, *counts]) - worst)
                choice = read_choice(answer, request.stop)
                keep(choice)
                return choice, counts[0]

        while True:
            try:
                answered = await self._server.tried(once, self.retries)
            except Failed as failure:
                refusal = str(failure) if failure.status in (400, 422) else ""
                narrower = refusal and form.after_refusal(refusal, request.sampler, self._form_works)
                if not narrower:
                    raise
                form = narrower
            else:
                self._form, self._form_works = self._form if self._form_works else form, True
                return answered

    def _explained(self, failure: Failed) -> HarnessError:
        """Return a failure before sampling as an error of one line that says what to do."""
        server, status = self._server, failure.status
        if not status:
            return Lacking(f"openai: the server at {server.url} does not answer: {failure}")
        if status in (401, 403):
            what = f"{'the' if os.environ.get(server.variable) else 'no'} key in {server.variable} ({failure})"
            return Lacking(f"openai: the server at {server.url} refuses {what}: set it, or say key_env=NAME")
        if status not in (404, 405):
            return HarnessError(f"{self.name}: the server refuses the longest prompt or --max-tokens ({failure})")
        names = [entry["id"] for entry in self._listed]
        if names and self._model not in names:
            guess = did_you_mean(self._model, names, "it serves")
            return HarnessError(f"openai: no model {self._model!r} at {server.url} {guess}")
        where = f"{server.url}{PATHS[self.api]} for model {self._model!r} ({failure})"
        return HarnessError(f"openai: nothing at {where}: check url, --model and api=chat|completions")


def base_url(text: str) -> str:
    """Return the API's root, checked: adds `/v1` to a bare host, and removes an endpoint's path."""
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError as failure:
        raise HarnessError(f"openai: url is no address ({failure}); write http://host:port/v1") from None
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise HarnessError("openai: url must hold no user, password or query: the key comes from the environment")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise HarnessError(f"openai: url must be http://host:port/v1 or https://..., got {text!r:.200}")
    path = parts.path.rstrip("/")
    for ending in PATHS.values():
        path = path.removesuffix(ending)
    return f"{parts.scheme}://{parts.netloc}{path or '/v1'}"


def without_folder(name: str) -> str:
    """Return a model's name; of a path on the server only the last part, since records are published."""
    return name.rstrip("/").rsplit("/", 1)[-1] if name.startswith("/") else name


def characters(prompt: Sequence[Message]) -> int:
    """Return the length of a prompt's texts."""
    return sum(len(message["content"]) for message in prompt)


def seed_base(seed: int, below: int) -> int:
    """Return the seed of a problem's first row, in [0, below), computed from the problem's seed."""
    return int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0]) % below
