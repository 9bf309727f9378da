"""The checks of what makes responses and vectors: samplers, engines, embedders.

Of an engine few and short responses are sampled: at most eight of eight tokens, to two prompts. An embedder with
`state` uses the engine's vectors: its `embed` is never called. Its vectors may depend on the other texts of a pool:
tfidf is fitted to each.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from harness.errors import HarnessError, error_text
from harness.plugin_system.component import parameters, signature
from harness.records import Responses, Sampler, SampleRequest

from . import examples
from .checking import Inapplicable, Violation, called_elsewhere, check, expect, without_global_rngs

SAME = 1e-4  # relative to the largest entry: a model's batches round differently
MAX_TOKENS = 8
TOO_MANY = 10**7  # tokens


def _require_refused(call: Callable[[], object], what: str) -> None:
    try:
        call()
    except HarnessError:
        return
    except Exception as failure:
        raise Violation(f"{what} {error_text(failure)}, not HarnessError") from failure
    raise Violation(f"it takes {what}")


def _require_same(expected: Any, got: Any, what: str) -> None:
    expect(expected.shape == got.shape, f"{what} have the shape {got.shape}, not {expected.shape}")
    difference, allowed = np.abs(expected - got).max(initial=0), SAME * np.abs(expected).max(initial=0)
    expect(difference <= allowed, f"{what} differ by {difference:.2g}, where rounding may give {allowed:.2g}")


# Samplers.

OUT_OF_RANGE = {
    "temperature": (0.0, -1.0, math.nan, math.inf),
    "top_p": (0.0, 1.5, math.nan),
    "min_p": (-0.1, 1.0, math.nan),
    "top_k": (-1,),
}


@check("sampler", "inherit from harness.Sampler, or have its fields, with values in their ranges", basic=True)
def sampler_contract(sampler: Any) -> None:
    """It has the fields of `harness.Sampler`, in the ranges that engines take, and cannot be changed once built."""
    unrecorded = [name for name in OUT_OF_RANGE if name not in parameters(sampler)]
    expect(not unrecorded, f"{' and '.join(unrecorded)} cannot be recorded: no dataclass field")
    expect(isinstance(getattr(sampler, "steers", None), bool), "steers must be True or False")
    try:
        Sampler(**{name: getattr(sampler, name) for name in OUT_OF_RANGE})
    except Exception as refusal:
        raise Violation(f"no engine can sample with it: {refusal}") from refusal
    try:
        sampler.temperature = sampler.temperature
    except AttributeError:
        return
    raise Violation("its temperature can be changed: make it a frozen dataclass, for its values are in a pool's key")


@check("sampler", "call Sampler.__post_init__, and refuse values that are not finite")
def out_of_range_refused(sampler: Any) -> None:
    """What no engine can sample with is refused with one line, when the sampler is built."""
    factory: Callable[..., Any] = type(sampler)
    own = {name: value for name, value in parameters(sampler).items() if name in signature(factory)}
    for name in own.keys() & OUT_OF_RANGE.keys():
        for value in OUT_OF_RANGE[name]:
            _require_refused(partial(factory, **own | {name: value}), f"{name}={value}")


# Engines.


def _sample(engine: Any, prompts: Sequence[Any] = examples.PROMPTS[:1], n: int = 4, **options: Any) -> list[Responses]:
    defaults = {"sampler": Sampler(temperature=1.5), "max_tokens": MAX_TOKENS, "seeds": tuple(range(len(prompts)))}
    return list(engine.sample(SampleRequest(list(prompts), n, **{**defaults, **options})))


def _require_same_rows(expected: Responses, got: Responses, when: str) -> None:
    for i, (before, after) in enumerate(zip(expected.texts, got.texts, strict=True)):
        expect(before == after, f"row {i} is {before!r:.40}, and {when} {after!r:.40}")
    sums, sums_after = np.asarray(expected.logprobs), np.asarray(got.logprobs)
    close = np.allclose(sums, sums_after, rtol=SAME, atol=SAME, equal_nan=True)
    expect(close, f"log-probabilities are {sums.tolist()}, and {when} {sums_after.tolist()}")


@check("engine", "see harness.contracts.Engine", basic=True)
def engine_contract(engine: Any) -> None:
    """It has a name, says what it can do, and what fixes its responses, as JSON that stays the same."""
    expect(isinstance(engine.name, str) and engine.name, f"its name is {engine.name!r}")
    for name, value in (("steers", engine.steers), ("chats", getattr(engine, "chats", True))):
        expect(isinstance(value, bool), f"{name} must be True or False, got {value!r}")
    expect(not isinstance(engine.states, str), f"states must list names, got {engine.states!r}")
    for n in (1, 64, 6400):
        problems = engine.problems_per_call(n)
        expect(isinstance(problems, int) and problems >= 1, f"problems_per_call({n}) gives {problems!r}")
    identity, again = (json.dumps(engine.identity(), sort_keys=True) for _ in range(2))
    expect(identity == again, f"its identity is {identity}, then {again}")


@check("engine", "see harness.records.Responses", basic=True)
def honest_columns(engine: Any) -> None:
    """n responses a prompt come, with texts, lengths, reasons and log-probabilities that fit one another."""
    sampled = _sample(engine, examples.PROMPTS)
    expect(len(sampled) == 2, f"{len(sampled)} answers to 2 prompts")
    for responses in sampled:
        for name in ("texts", "finish", "lengths", "logprobs"):
            size = len(getattr(responses, name))
            expect(size == 4, f"{name} has {size} entries for n = 4")
        rows = zip(responses.texts, responses.finish, responses.lengths, responses.logprobs, strict=True)
        for i, (text, finish, length, logprob) in enumerate(rows):
            expect(isinstance(text, str), f"a text is {text!r:.40}")
            expect(finish in ("stop", "length"), f"a response has finish {finish!r}, not 'stop' or 'length'")
            fits = 0 <= length <= MAX_TOKENS and (finish == "stop" or length == MAX_TOKENS)
            expect(fits, f"a response of {length} tokens has finish {finish!r}, where max_tokens is {MAX_TOKENS}")
            expect(np.isnan(logprob) or (logprob <= 1e-6 and np.isfinite(logprob)), f"a log-probability is {logprob}")
            ids = length if responses.token_ids is None else len(responses.token_ids[i])
            expect(ids == length, f"a response of length {length} has {ids} token ids")


@check("engine", "sample each row from a random stream made of its problem's seed and its number", basic=True)
def rows_of_their_own(engine: Any) -> None:
    """Equal seeds give equal rows, whatever n, the other prompts and their order; other rows and seeds give others."""
    both, backwards = _sample(engine, examples.PROMPTS), _sample(engine, examples.PROMPTS[::-1], seeds=(1, 0))
    _require_same_rows(both[0], _sample(engine, examples.PROMPTS)[0], "the second time")
    _require_same_rows(both[0].first(2), _sample(engine, n=2)[0], "with n = 2 for 4")
    _require_same_rows(both[1], _sample(engine, examples.PROMPTS[1:], seeds=(1,))[0], "without the other prompt")
    _require_same_rows(both[0], backwards[1], "with the prompts in reverse order")
    texts, other_texts = _sample(engine, n=8)[0].texts, _sample(engine, n=8, seeds=(1,))[0].texts
    expect(len(set(texts)) > 1, f"at temperature 1.5, eight rows are all {texts[0]!r:.40}")
    expect(list(texts) != list(other_texts), "another seed gives the same eight rows")


@check("engine", "pool the last hidden states of the response's tokens, end-of-sequence too, in `encode` as well")
def hidden_states(engine: Any) -> None:
    """Each kind of state is (n, d) float32 and finite, changes no response, and is the same by `encode`, to 1e-4."""
    if not engine.states:
        raise Inapplicable("it gives no hidden states")
    sampled = _sample(engine, states=tuple(engine.states))[0]
    _require_same_rows(_sample(engine)[0], sampled, "with states")
    encoded = engine.encode(examples.PROMPTS[0], sampled, tuple(engine.states))
    for kind in engine.states:
        values: Any = sampled.states.get(kind)
        expect(values is not None, f"it gives no state {kind!r}, which is in its `states`")
        is_valid = values.ndim == 2 and len(values) == 4 and values.shape[1] >= 1 and values.dtype == np.float32
        expect(is_valid, f"the {kind} states are {values.shape} {values.dtype} for n = 4")
        expect(np.isfinite(values).all(), f"the {kind} states are not finite")
        _require_same(values, encoded[kind], f"the {kind} states of encode and sample")


@check("engine", "refuse in `check` what does not fit, and in `sample` a sampler with `steers = True`, with one line")
def refuses_what_it_cannot(engine: Any) -> None:
    """More tokens than the context holds are refused, and a sampler that steers decoding where it cannot follow it."""
    engine.check(examples.PROMPTS, MAX_TOKENS)
    _require_refused(lambda: engine.check(examples.PROMPTS, TOO_MANY), f"max_tokens = {TOO_MANY}")
    if not engine.steers:
        steering = type("Steering", (Sampler,), {"steers": True})()
        _require_refused(lambda: _sample(engine, sampler=steering), "a sampler that steers")


@check("engine", "call report(rows) with the number of rows just finished, and done(j, responses) never or for each j")
def progress_reported(engine: Any) -> None:
    """The rows reported as finished add up; `done`, where it is called, gets each prompt's responses as returned."""
    rows: list[int] = []
    reported: dict[int, Responses] = {}
    sampled = _sample(engine, examples.PROMPTS, report=rows.append, done=reported.__setitem__)
    expect(sum(rows) == 8, f"of 8 rows {sum(rows)} were reported as finished")
    expect(sorted(reported) in ([], [0, 1]), f"of 2 prompts, request.done was called for {sorted(reported)}")
    for j, responses in reported.items():
        expect(len(responses) == 4, f"request.done was called with {len(responses)} of 4 responses")
        _require_same_rows(sampled[j], responses, "in request.done")


# Embedders.


def _vectors(embedder: Any, texts: list[str], what: str = "the texts") -> Any:
    """Its vectors of some texts, float64; Violation unless there is one row of finite numbers for each."""
    if embedder.state is not None:
        raise Inapplicable(f"its vectors are the engine's ({embedder.state} hidden states)")
    try:
        h = embedder.embed(examples.PROBLEM, texts)
    except HarnessError:
        raise
    except Exception as failure:
        raise Violation(f"{what}: {error_text(failure)}") from failure
    h = np.asarray(h.toarray() if hasattr(h, "toarray") else h, np.float64)
    is_valid = h.ndim == 2 and len(h) == len(texts) and h.shape[1] >= 1 and np.isfinite(h).all()
    fault = f"vectors of shape {h.shape} for {len(texts)} texts, {(~np.isfinite(h)).sum()} entries not finite"
    expect(is_valid, f"{what}: {fault}")
    return h


@check("embedder", "set `state` to None and write embed(problem, texts), or to a kind that engines have", basic=True)
def embedder_contract(embedder: Any) -> None:
    """It says whose vectors it takes; if they are its own, n texts give (n, d) finite numbers, the same each time."""
    state = getattr(embedder, "state", "missing")
    expect(state in (None, "mean", "last", "penultimate"), f"state is {state!r}, not None, mean, last or penultimate")
    if state is None:
        first, second = (_vectors(embedder, examples.texts()) for _ in range(2))
        _require_same(first, second, "the same texts a second time")


@check("embedder", "return the rows in the order of the texts, and compute a vector from its text, not from its place")
def same_text_same_vector(embedder: Any) -> None:
    """Equal texts of a pool have equal vectors, wherever they stand."""
    texts, moved = examples.texts(6), np.random.default_rng(3).permutation(12)
    h = _vectors(embedder, [*texts, *texts])
    _require_same(h[:6], h[6:], "equal texts")
    _require_same(h[moved], _vectors(embedder, [texts[i % 6] for i in moved]), "permuted texts")


@check("embedder", "give empty texts the zero vector, take n = 1, and encode with errors='replace'")
def unusual_texts(embedder: Any) -> None:
    """Empty texts, a single one, Unicode, control characters, lone surrogates and long texts have finite vectors."""
    _vectors(embedder, ["", *examples.texts(4), ""], "empty texts among others")
    _vectors(embedder, ["", ""], "empty texts alone")
    _vectors(embedder, ["4 * 5 = 20"], "one text")
    _vectors(embedder, list(examples.UNICODE), "Unicode")
    _vectors(embedder, ["x" * 20_000, "4 * 5 = 20 " * 2_000], "long texts")


@check("embedder", "use hashlib, not hash(), and no order of a set")
def same_in_another_process(embedder: Any) -> None:
    """Another process, with another hash seed and in an empty folder, gives the same vectors."""
    local, remote = np.array(vectors(embedder)), np.array(called_elsewhere(vectors, embedder))
    _require_same(local, remote, "vectors of another process")


def vectors(embedder: Any) -> list[list[float]]:
    """Return the embedder's vectors of a few example texts, one list of numbers for each text."""
    rows: list[list[float]] = _vectors(embedder, examples.texts()).tolist()
    return rows


@check("engine embedder", "take random numbers from your own generators")
def global_rngs_untouched(component: Any) -> None:
    """It leaves the global generators of random, numpy and torch as they were."""
    without_global_rngs(lambda: _sample(component) if hasattr(component, "sample") else vectors(component))
