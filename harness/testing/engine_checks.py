"""The checks of an engine: rows that depend on their own seed alone, correct columns, the same hidden states.

Few and short responses are sampled: at most eight of eight tokens, to two prompts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from harness.records import Responses, Sampler, SampleRequest

from .checking import (
    Inapplicable,
    Violation,
    check,
    expect,
    parameter_check,
    require_global_rngs_untouched,
    require_refused,
)
from .examples import PROMPTS

MAX_TOKENS = 8
TOO_MANY = 10**7  # tokens
SAME = 1e-4  # relative to the largest entry
LIVELY = Sampler(temperature=1.5)


@dataclass(frozen=True)
class Steering(Sampler):
    """A sampler that steers decoding itself, and that an engine may refuse."""

    steers: ClassVar[bool] = True


def _sample(engine: Any, prompts: Sequence[Any] = PROMPTS[:1], n: int = 4, **options: Any) -> list[Responses]:
    defaults = {"sampler": LIVELY, "max_tokens": MAX_TOKENS, "seeds": tuple(range(len(prompts)))}
    return list(engine.sample(SampleRequest(list(prompts), n, **{**defaults, **options})))


def _require_same(expected: Responses, got: Responses, when: str) -> None:
    for i, (before, after) in enumerate(zip(expected.texts, got.texts, strict=True)):
        expect(before == after, f"row {i} is {before!r:.40}, and {when} {after!r:.40}")
    close = np.allclose(expected.logprobs, got.logprobs, rtol=SAME, atol=SAME, equal_nan=True)
    sums, sums_after = np.asarray(expected.logprobs).tolist(), np.asarray(got.logprobs).tolist()
    expect(close, f"log-probabilities are {sums}, and {when} {sums_after}")


@check("see harness.contracts.Engine")
def contract(engine: Any) -> None:
    """It has a name, says what it can do, and what fixes its responses, as JSON that stays the same."""
    expect(isinstance(engine.name, str) and engine.name, f"its name is {engine.name!r}")
    for name, value in (("steers", engine.steers), ("chats", getattr(engine, "chats", True))):
        expect(isinstance(value, bool), f"{name} must be True or False, got {value!r}")
    expect(not isinstance(engine.states, str), f"states must list names, got {engine.states!r}")
    for n in (1, 64, 6400):
        problems = engine.problems_per_call(n)
        expect(isinstance(problems, int) and problems >= 1, f"problems_per_call({n}) gives {problems!r}")
    try:
        identity = json.dumps(engine.identity(), sort_keys=True)
    except TypeError as failure:
        raise Violation(f"its identity is not JSON: {failure}") from failure
    again = json.dumps(engine.identity(), sort_keys=True)
    expect(identity == again, f"its identity is {identity}, then {again}")


@check("see harness.records.Responses", presumes=(contract,))
def honest_columns(engine: Any) -> None:
    """n responses a prompt come, with texts, lengths, reasons and log-probabilities that fit one another."""
    sampled = _sample(engine, PROMPTS, n=4)
    expect(len(sampled) == len(PROMPTS), f"{len(sampled)} answers to {len(PROMPTS)} prompts")
    for responses in sampled:
        for name in ("texts", "finish", "lengths", "logprobs"):
            size = len(getattr(responses, name))
            expect(size == 4, f"{name} has {size} entries for n = 4")
        for i in range(4):
            text, finish = responses.texts[i], responses.finish[i]
            length, logprob = responses.lengths[i], responses.logprobs[i]
            expect(isinstance(text, str), f"a text is {text!r:.40}")
            expect(finish in ("stop", "length"), f"a response has finish {finish!r}, not 'stop' or 'length'")
            expect(0 <= length <= MAX_TOKENS, f"a response has {length} tokens, where max_tokens is {MAX_TOKENS}")
            fits = finish == "stop" or length == MAX_TOKENS
            expect(fits, f"a response of {length} tokens has finish 'length', where max_tokens is {MAX_TOKENS}")
            expect(np.isnan(logprob) or (logprob <= 1e-6 and np.isfinite(logprob)), f"a log-probability is {logprob}")
            ids = length if responses.token_ids is None else len(responses.token_ids[i])
            expect(ids == length, f"a response of length {length} has {ids} token ids")


@check(
    "sample each row from a random stream made of its problem's seed and its number",
    presumes=(contract, honest_columns),
)
def same_seeds_same_responses(engine: Any) -> None:
    """Equal seeds give equal responses, time after time."""
    _require_same(_sample(engine)[0], _sample(engine)[0], "the second time")


BASIC = (contract, honest_columns, same_seeds_same_responses)


@check("sample each row from a random stream made of its problem's seed and its number", BASIC)
def rows_of_their_own(engine: Any) -> None:
    """n, the other prompts and their order change no row."""
    both = _sample(engine, PROMPTS, n=4)
    _require_same(both[0].first(2), _sample(engine, PROMPTS[:1], n=2)[0], "with n = 2 for 4")
    _require_same(both[1], _sample(engine, PROMPTS[1:], n=4, seeds=(1,))[0], "without the other prompt")
    reversed_ = _sample(engine, PROMPTS[::-1], n=4, seeds=(1, 0))
    _require_same(both[0], reversed_[1], "with the prompts in reverse order")


@check("sample each row from a random stream made of its problem's seed and its number", BASIC)
def rows_differ(engine: Any) -> None:
    """At temperature 1.5 the rows of a problem are not all equal, nor those of two seeds."""
    texts, other_texts = _sample(engine, n=8)[0].texts, _sample(engine, n=8, seeds=(1,))[0].texts
    expect(len(set(texts)) > 1, f"eight rows are all {texts[0]!r:.40}")
    expect(list(texts) != list(other_texts), "another seed gives the same eight rows")


def _with_states(engine: Any) -> Responses:
    """Responses sampled with every kind of state; Inapplicable if the engine has none."""
    if not engine.states:
        raise Inapplicable("it gives no hidden states")
    return _sample(engine, states=tuple(engine.states))[0]


@check("pool the last hidden state of the response's tokens", BASIC)
def state_shapes(engine: Any) -> None:
    """Every kind of state is (n, d) float32 and finite, and asking for it changes no response."""
    plain, sampled = _sample(engine)[0], _with_states(engine)
    _require_same(plain, sampled, "with states")
    for kind in engine.states:
        values: Any = sampled.states.get(kind)
        expect(values is not None, f"it gives no state {kind!r}, which is in its `states`")
        is_valid = values.ndim == 2 and len(values) == 4 and values.shape[1] >= 1 and values.dtype == np.float32
        expect(is_valid, f"the {kind} states are {values.shape} {values.dtype} for n = 4")
        expect(np.isfinite(values).all(), f"the {kind} states are not finite")


@check("pool in `encode` as in `sample`: the end-of-sequence token is part of the response", BASIC)
def encode_equals_sample(engine: Any) -> None:
    """`encode` gives the states that `sample` gave for the same responses, to 1e-4."""
    sampled = _with_states(engine)
    encoded = engine.encode(PROMPTS[0], sampled, tuple(engine.states))
    for kind in engine.states:
        expected, got = sampled.states[kind], encoded[kind]
        expect(expected.shape == got.shape, f"{kind}: encode gives {got.shape}, sample {expected.shape}")
        difference = np.abs(expected - got).max() / max(np.abs(expected).max(), 1e-30)
        expect(difference <= SAME, f"{kind}: encode and sample differ by {difference:.1e} of the largest entry")


@check("refuse it in `check`, with one line that says how many tokens fit", presumes=(contract,))
def too_long_refused(engine: Any) -> None:
    """`check` lets a short response pass, and refuses more tokens than the context holds."""
    engine.check(PROMPTS, MAX_TOKENS)
    require_refused(lambda: engine.check(PROMPTS, TOO_MANY), f"max_tokens = {TOO_MANY}")


@check("refuse a sampler with `steers = True`, with one line", BASIC)
def steering_refused(engine: Any) -> None:
    """A sampler that steers decoding itself is refused by an engine that cannot follow it."""
    if engine.steers:
        raise Inapplicable("it follows samplers that steer")
    require_refused(lambda: _sample(engine, sampler=Steering()), "a sampler that steers")


@check("call report(rows) with the number of rows just finished", BASIC)
def progress_reported(engine: Any) -> None:
    """The rows it reports as finished add up to all rows."""
    rows: list[int] = []
    _sample(engine, PROMPTS, n=4, report=rows.append)
    expect(sum(rows) == 8, f"of 8 rows {sum(rows)} were reported as finished")


@check("call request.done(j, responses) once all rows of prompt j are finished, or never call it", BASIC)
def finished_prompts_told(engine: Any) -> None:
    """Where `request.done` is called, it is told of each prompt's responses, equal to those that are returned."""
    reported: dict[int, Responses] = {}
    sampled = _sample(engine, PROMPTS, n=4, done=reported.__setitem__)
    if not reported:
        raise Inapplicable("it never calls request.done")
    complete = sorted(reported) == list(range(len(PROMPTS)))
    expect(complete, f"of {len(PROMPTS)} prompts, request.done was called for {sorted(reported)}")
    for j, responses in enumerate(sampled):
        got, wanted = len(reported[j]), len(responses)
        expect(got == wanted, f"request.done was called with {got} of {wanted} responses")
        _require_same(responses, reported[j], "in request.done")


@check("take random numbers from your own generators", BASIC)
def global_rngs_untouched(engine: Any) -> None:
    """It leaves the global generators of random, numpy and torch as they were."""
    require_global_rngs_untouched(lambda: _sample(engine))


CHECKS = (
    *BASIC,
    rows_of_their_own,
    rows_differ,
    state_shapes,
    encode_equals_sample,
    too_long_refused,
    steering_refused,
    progress_reported,
    finished_prompts_told,
    global_rngs_untouched,
    parameter_check("engine"),
)
