"""The `openai` engine: sample from any server with OpenAI's HTTP API (vllm serve, llama.cpp, SGLang, a provider).

Row i of a problem is requested with the seed base + i, the base computed from the problem's seed. vLLM, and llama.cpp
since 2026 (pull request 18700), seed child i of a request for n responses with its seed + i: there a row is the same
for any n of a request. For other servers a request asks for one row, unless `per_request` is given. A pool cannot be
sampled again from a provider that ignores seeds, or takes them as a hint.

A failed request is not a response: its rows are listed in `Responses.missing`, and the next run requests them again.
What requests use is counted (`account`); rows are kept as they arrive (`journal`); `batch` asks for them in batches.
This API gives no hidden states: use `--embedder sentence` or `tfidf` for vectors.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar, NoReturn

from harness import HarnessError, Message, Responses, Sampler, hookimpl
from harness.errors import did_you_mean
from harness.hookspecs import Register
from harness.records import Floats, Limits, SampleRequest

from .account import Account, OverCap
from .batch import MOST_REQUESTS, by_batch, require_none_open
from .described import PATHS, base_url, lasting, some, without_folder
from .key import Key
from .prices import Tokens, characters, guessed, quoted, read_price, tokens_in, worst_case
from .requests import Refused, Server, Session, Unanswered, finished
from .rows import RowSampling
from .wire import Answered, Choice, Form, Malformed, first_form, prompt_tokens, read_choices

PROVIDER = "https://api.openai.com/v1"
SEEDS = 2**30  # bases of seeds lie below it; base + row then fits any server's integers
LONG_SEEDS = 2**62  # the same for vLLM: two problems of a large pool hardly ever share a stream
ROWS_A_REQUEST = 16  # for servers whose rows do not depend on it
REQUESTS_IN_A_CALL = 8  # in multiples of `concurrency`
LIST_BYTES = 8 * 2**20
ANSWER_BYTES = 2**20
TOKEN_BYTES = 2048  # of an answer, a token: its text, bytes, log-probability and alternatives
OWNED = {"vllm": "vllm", "llamacpp": "llamacpp", "sglang": "sglang"}
UNFILTERED = "sum, temperature 1, unfiltered"  # vLLM's raw_logprobs, its default; llama.cpp's


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
    concurrency  requests in flight at once
    per_request  responses that one request asks for; None: 16 of vLLM, where it changes no response, else 1
    timeout_s    seconds of one try of a request
    retries      of one request: a timeout counts as 3, a 429 as a half; pauses grow to a minute
    batch        whether rows are requested by the provider's batch endpoint: cheaper, and within a day
    """

    model: str | None = None
    url: str | None = None
    api: str = "chat"
    key_env: str | None = None
    concurrency: int = 16
    per_request: int | None = None
    timeout_s: float = 600.0
    retries: int = 8
    batch: bool = False

    libraries: ClassVar[Sequence[str]] = ("httpx",)
    served = True
    steers = False
    states = ()

    def __post_init__(self) -> None:
        if self.api not in PATHS:
            raise HarnessError(f"openai: api must be chat or completions, got {self.api!r}")
        for name, least in (("concurrency", 1), ("per_request", 1), ("retries", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise HarnessError(f"openai: {name} must be at least {least}, got {value}")
        if not 0 < self.timeout_s < math.inf:
            raise HarnessError(f"openai: timeout_s must be > 0 and finite, got {self.timeout_s}")
        key = Key(self.key_env or "OPENAI_API_KEY", required=self.key_env is not None)
        url = base_url(self.url or os.environ.get("OPENAI_BASE_URL") or PROVIDER)
        self._server = Server(url, key, self.timeout_s, self.retries, self.concurrency)
        self._account = Account(self.batch)
        self._form: Form | None = None
        self._proven = False

    @property
    def name(self) -> str:
        """The model's name as tables show it: as the server calls it; of a path, its end."""
        return without_folder(self._model)

    @property
    def chats(self) -> bool:
        """Whether prompts are sent as chats."""
        return self.api == "chat"

    def identity(self) -> Mapping[str, Any]:
        """Return the model, the API, and the server's description of the model; neither the url nor the key."""
        return {
            "engine": "openai",
            "model": self.name,
            "api": self.api,
            "served": lasting(self._served),
            "logprob_kind": self.logprob_kind,
        }

    @property
    def logprob_kind(self) -> str:
        """Return what the log-probabilities mean; not every server's are unfiltered and at temperature 1."""
        return UNFILTERED if self._owner in ("vllm", "llamacpp") else "sum, as the server gives them"

    def problems_per_call(self, n: int) -> int:
        """Return the number of problems that keep all connections busy for some rounds, or that fill a batch."""
        requests = MOST_REQUESTS if self.batch else REQUESTS_IN_A_CALL * self.concurrency
        return max(1, requests // math.ceil(n / self._first_form.rows))

    # Money.

    @property
    def is_charged(self) -> bool:
        """Whether money or a cap is at stake."""
        return self._account.is_charged

    def charge(self, limits: Limits) -> None:
        """Take the limits; HarnessError if the price file has no price of the model."""
        price = read_price(limits.prices, self._model) if limits.prices else None
        self._account.charge(limits, price)

    def quote(self, prompts: Sequence[Sequence[Message]], rows: Sequence[int], max_tokens: int) -> str:
        """Return what rows[j] responses to each prompt j cost at most, as a clause; "" without prices."""
        price, size = self._account.price, self._first_form.rows
        pairs = [(prompt, math.ceil(count / size)) for prompt, count in zip(prompts, rows, strict=True)]
        return quoted(price, pairs, sum(rows) * max_tokens, self.batch) if price else ""

    def spending(self) -> str:
        """Return what the pool has cost so far, in few words; "" without prices or cap."""
        return self._account.spending()

    def bill(self) -> str:
        """Return one line about all that was used for the pool; "" if nothing was."""
        return self._account.bill()

    def check(self, prompts: Sequence[Sequence[Message]], max_tokens: int) -> str:
        """Request a response to the longest prompt, to check key, model, API and context; HarnessError if one is wrong.

        Return one line that says what the server lacks (seeds, log-probabilities); "" if it lacks nothing.
        If the server does not tell its context, the response may be max_tokens long.
        """
        if max_tokens < 1:
            raise HarnessError(f"openai: --max-tokens must be >= 1, got {max_tokens}")
        if not prompts:
            return ""
        self._require_no_batch()
        context = self._context
        longest = max(prompts, key=characters)
        rows = min(2, self._first_form.rows)
        tokens = max_tokens if context is None else 1
        length = finished(self._probe(longest, tokens, rows)) or 0
        if context is not None and length + max_tokens > context:
            room = context - length
            most = f"--max-tokens can be {room} at most" if room > 0 else "no --max-tokens fits"
            raise HarnessError(
                f"{self.name}: the longest prompt has {length} tokens, and --max-tokens {max_tokens} more do not fit "
                f"a context of {context}: {most}"
            )
        return self._lacks()

    def sample(self, request: SampleRequest) -> list[Responses]:
        """Sample n responses to each prompt, or only the given rows; failed ones are listed in `missing`.

        Raise HarnessError if all fail and no rows were given, or if the server refuses what the sampler needs.
        """
        if request.sampler.steers:
            kind = type(request.sampler).__name__
            raise HarnessError(f"openai: {kind} steers decoding itself, which no server follows")
        if request.states:
            _no_states()
        with self._account.opened(request.journals[0].parent if request.journals else None):
            self._require_no_batch()
            sampling = RowSampling(self, request)
            finished(by_batch(sampling) if self.batch else sampling.all())
        if self._account.over:
            raise HarnessError(self._account.over)
        sampled = sampling.all_responses()
        reasons = [reason for responses in sampled for reason in responses.missing.values()]
        if reasons and request.rows is None and not any(map(len, sampled)):
            raise HarnessError(f"openai: none of {len(reasons)} responses came: {reasons[0]}")
        return sampled

    def encode(
        self,
        prompt: Sequence[Message],
        responses: Responses,
        states: Sequence[str],
        report: Callable[[int], None] = lambda rows: None,
    ) -> dict[str, Floats]:
        """Raise HarnessError if states are requested: this API gives none."""
        if states:
            _no_states()
        return {}

    def _require_no_batch(self) -> None:
        if not self.batch:
            require_none_open(self._account)

    # The server's description of itself.

    @cached_property
    def _listed(self) -> list[Mapping[str, Any]]:
        """Return the entries of /v1/models; empty if the server has no such list, or does not show it."""
        try:
            answer = self._server.key.redacted_in(finished(self._get("/models")))
        except Unanswered as failure:
            raise HarnessError(f"openai: the server at {self._server.url} does not answer: {failure}") from None
        except Refused as refusal:
            if refusal.status == 401:
                raise self._wrong_key(refusal) from None
            return []
        entries = answer.get("data") if isinstance(answer, dict) else answer
        listed = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
        return [entry for entry in listed if isinstance(entry.get("id"), str) and entry["id"]]

    @cached_property
    def _model(self) -> str:
        if self.model is not None:
            return self.model
        names = [entry["id"] for entry in self._listed]
        if len(names) != 1:
            serves = f"it serves {some(names)}" if names else "it lists none"
            raise HarnessError(f"openai: say which --model the server at {self._server.url} is to run ({serves})")
        return str(names[0])

    @property
    def _served(self) -> Mapping[str, Any]:
        return next((entry for entry in self._listed if entry["id"] == self._model), {})

    @property
    def _owner(self) -> str:
        return str(self._served.get("owned_by", "")).lower()

    @property
    def _context(self) -> int | None:
        meta = self._served.get("meta")
        context = self._served.get("max_model_len") or (meta.get("n_ctx") if isinstance(meta, dict) else None)
        return context if isinstance(context, int) and not isinstance(context, bool) and context > 0 else None

    @cached_property
    def _first_form(self) -> Form:
        rows = self.per_request or (ROWS_A_REQUEST if self._owner == "vllm" else 1)
        return first_form(self.api, rows, knows_extras=self._owner in OWNED)

    @property
    def _seeds(self) -> int:
        return LONG_SEEDS if self._owner == "vllm" else SEEDS

    def _lacks(self) -> str:
        """Return one line for the user if rows cannot be sampled again or have no log-probabilities; else ""."""
        form = self._form or self._first_form
        without = {
            "seed": "takes no seeds (this pool cannot be sampled again)",
            "logprobs": "gives no log-probabilities",
        }
        lacks = [lack for name, lack in without.items() if name not in form.fields]
        return f"openai: the server {' and '.join(lacks)}" if lacks else ""

    # Requests.

    async def _get(self, path: str) -> Any:
        async with Session(self._server) as session:
            return await session.get(path, LIST_BYTES)

    async def _probe(self, prompt: Sequence[Message], max_tokens: int, rows: int) -> int | None:
        """Return the prompt's length in tokens; None if the server does not tell it."""
        async with Session(self._server) as session:
            try:
                answered = await self._request_rows(session, prompt, Sampler(), max_tokens, 0, rows)
            except OverCap as cap:
                raise HarnessError(str(cap)) from None
            except Unanswered as failure:
                raise HarnessError(f"openai: the server at {self._server.url} does not answer: {failure}") from None
            except Refused as refusal:
                raise self._explained(refusal) from None
        return answered.prompt_tokens

    async def _request_rows(
        self,
        session: Session,
        prompt: Sequence[Message],
        sampler: Sampler,
        max_tokens: int,
        seed: int,
        rows: int,
        keep: Callable[[Mapping[int, Choice]], None] = lambda choices: None,
    ) -> Answered:
        """Return up to `rows` responses to one request; the first refusals show which fields the server accepts.

        `keep(choices)` is called first of all with what arrived.
        """
        form = self._form or self._first_form
        while True:
            count = min(rows, form.rows)
            body = form.body(self._model, prompt, sampler, max_tokens, seed, count)
            most = ANSWER_BYTES + count * max_tokens * TOKEN_BYTES
            gate = partial(self._account.request, worst_case(prompt, count, max_tokens))
            read = partial(self._counted, rows=count, prompt=prompt, keep=keep)
            try:
                answered = await session.post(PATHS[self.api], body, most, read, gate)
            except Refused as refusal:
                next_form = form.after_refusal(refusal.reason, sampler, count, self._proven)
                if refusal.status not in (400, 422) or next_form is None:
                    self._require_followed(form, refusal, sampler)
                    raise
                form = next_form
                continue
            if not self._proven:
                fewer = count > 1 and len(answered.choices) < count
                self._form, self._proven = form.one_row() if fewer else form, True
            return answered

    def _counted(
        self, answer: Any, rows: int, prompt: Sequence[Message], keep: Callable[[Mapping[int, Choice]], None]
    ) -> Answered:
        choices, used = self._read(answer, rows, prompt)
        self._account.count(used)
        if isinstance(choices, Malformed):
            raise choices
        keep(choices)
        return Answered(choices, prompt_tokens(answer))

    def _read(self, answer: Any, rows: int, prompt: Sequence[Message]) -> tuple[dict[int, Choice] | Malformed, Tokens]:
        """Return an answer's choices, and the tokens that it used, which are paid for even if it makes no sense."""
        try:
            choices: dict[int, Choice] | Malformed = self._without_key(read_choices(answer, rows))
        except Malformed as failure:
            choices = failure
        return choices, tokens_in(answer) or guessed(prompt, choices.values() if isinstance(choices, dict) else ())

    def _without_key(self, choices: dict[int, Choice]) -> dict[int, Choice]:
        """Replace the key by `[key]` in choices that echo it, and drop their token ids, which spell the key."""
        clear = {at: self._server.key.redacted(choice.text) for at, choice in choices.items()}
        return {
            at: choice if clear[at] == choice.text else replace(choice, text=clear[at], token_ids=None)
            for at, choice in choices.items()
        }

    def _require_followed(self, form: Form, refusal: Refused, sampler: Sampler) -> None:
        name = form.needed(refusal.reason, sampler)
        if name and refusal.status in (400, 422):
            raise HarnessError(
                f"openai: the server refuses {name}, which the sampler needs ({refusal.reason}): choose another "
                "--sampler, or a server that takes it"
            )

    def _explained(self, refusal: Refused) -> HarnessError:
        """Return a refusal before sampling as an error of one line that says what to do."""
        if refusal.status in (401, 403):
            return self._wrong_key(refusal)
        if refusal.status in (404, 405):
            return self._unknown_model(refusal)
        return HarnessError(f"{self.name}: the server refuses the longest prompt or --max-tokens ({refusal.reason})")

    def _wrong_key(self, refusal: Refused) -> HarnessError:
        variable = self._server.key.name
        key = "the key in" if os.environ.get(self._server.key.variable) else "no key in"
        return HarnessError(
            f"openai: the server at {self._server.url} refuses {key} {variable} ({refusal.reason}): set it, or say "
            "key_env=NAME"
        )

    def _unknown_model(self, refusal: Refused) -> HarnessError:
        names = [entry["id"] for entry in self._listed]
        if names and self._model not in names:
            guess = did_you_mean(self._model, names).replace("installed", "it serves")
            return HarnessError(f"openai: no model {self._model!r} at {self._server.url} {guess}")
        return HarnessError(
            f"openai: nothing at {self._server.url}{PATHS[self.api]} for model {self._model!r} ({refusal.reason}): "
            "check url, --model and api=chat|completions"
        )


def _no_states() -> NoReturn:
    raise HarnessError("openai: a server gives no hidden states: choose --embedder sentence or tfidf")
