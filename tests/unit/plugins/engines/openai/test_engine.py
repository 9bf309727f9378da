"""Engine `openai` against real servers on loopback: what it samples, refuses and says of itself, of broken ones too."""

import asyncio
import math
import threading

import numpy as np
import pytest
from support import openai_server as server
from support.openai_server import CHAT, MODEL, OTHER, UNKNOWN, parrot_texts, sample, serving, short_pauses  # noqa: F401
from support.refusals import refusal_of

from harness import Sampler
from harness.records import SampleRequest
from harness.testing import checks
from harness_plugins.engines.openai import requests
from harness_plugins.engines.openai.engine import LONG_SEEDS, SEEDS, OpenAI, base_url, seed_base
from harness_plugins.samplers.plain import MinP, Nucleus

KEY = "sk-very-secret-0123456789"

pytestmark = pytest.mark.usefixtures("short_pauses")


@pytest.mark.parametrize("check", checks("engine"), ids=str)
def test_it_conforms(check):
    with serving() as (url, _):
        check(OpenAI(url=url))


@pytest.mark.parametrize(("api", "sampler", "stop"), [("chat", MinP(), ()), ("completions", Nucleus(), (")", " *"))])
def test_what_is_served_is_what_the_engine_in_this_process_draws(api, sampler, stop):
    with serving(generate=server.tiny24) as (url, _):
        (served,) = sample(OpenAI(url=url, api=api), sampler=sampler, max_tokens=24, seeds=[3], stop=stop)
    seeds = [seed_base(3, LONG_SEEDS) + row for row in range(4)]
    request = SampleRequest([CHAT] * 4, n=1, sampler=sampler, max_tokens=24, seeds=seeds, stop=stop)
    here = server.embedded().sample(request)
    for column in ("texts", "finish", "token_ids", "lengths"):
        assert list(getattr(served, column)) == [getattr(row, column)[0] for row in here], column
    np.testing.assert_allclose(served.logprobs, [row.logprobs[0] for row in here], atol=1e-4)


def test_a_field_that_the_server_refuses_is_left_out_unless_the_sampler_needs_it():
    for name in ("return_token_ids", "logprobs"):
        with serving(refuses=(name,)) as (url, behaviour):
            engine = OpenAI(url=url)
            lacks = engine.check([CHAT], 8)
            behaviour.bodies.clear()
            (responses,) = sample(engine)
        assert all(name not in body and {"seed", "repetition_penalty", "top_k"} <= {*body} for body in behaviour.bodies)
        assert np.isnan(responses.logprobs).all() == ("no log-probabilities" in lacks) == (name == "logprobs")
        assert (responses.token_ids is None) == (name == "return_token_ids")
    with serving(**UNKNOWN, refuses=("min_p",)) as (url, _):
        assert "refuses min_p, which the sampler needs" in refusal_of(sample, OpenAI(url=url), sampler=MinP(), n=1)


def test_the_identity_is_the_models_and_not_the_places():
    with serving() as (url, behaviour), serving() as (other, _):
        first = OpenAI(url=url).identity()
        assert first == OpenAI(url=other, concurrency=3, model=MODEL).identity()
        assert first["served"] == {"owned_by": "vllm", "root": MODEL}  # not its folder
        behaviour.owner = "someone"
        kinds = first["logprob_kind"], OpenAI(url=url).identity()["logprob_kind"]
    assert kinds == ("sum, temperature 1, unfiltered", "sum, as the server gives them")
    assert (OpenAI(model="/models/qwen/").name, OpenAI(model="org/qwen").name) == ("qwen", "org/qwen")


# What is refused before anything is sampled: one line.


def test_a_wrong_or_missing_key_is_refused_with_its_variable_and_never_shown(monkeypatch):
    with serving(key="another") as (url, _):
        assert "refuses no key in OPENAI_API_KEY" in refusal_of(OpenAI(url=url).identity)
        mine = OpenAI(url=url, key_env="MINE")
        assert "key_env=MINE, but no such" in refusal_of(mine.identity)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        line = refusal_of(OpenAI(url=url).identity)
        assert line.startswith(f"openai: the server at {url} refuses the key in OPENAI_API_KEY (401: Incorrect API key")
        assert ("[key]" in line, KEY in line, line.isprintable()) == (True, False, True)
        monkeypatch.setenv("MINE", "two\nlines")
        assert "key in MINE holds characters that no key" in refusal_of(mine.identity)
        monkeypatch.setenv("MINE", " another\n")
        assert mine.name == MODEL


def test_a_model_that_is_not_served_is_refused_with_the_nearest_name():
    with serving() as (url, behaviour):
        line = refusal_of(OpenAI(url=url, model="tiny42").check, [CHAT], 8)
        assert line.startswith(f"openai: no model 'tiny42' at {url} (did you mean 'tiny24'? it serves")
        behaviour.lists = False
        assert "say which --model" in refusal_of(lambda: OpenAI(url=url).name)
        OpenAI(url=url, model=MODEL).check([CHAT], 8)
        line = refusal_of(OpenAI(url=url, model="tiny42").check, [CHAT], 8)
        assert f"nothing at {url}/chat/completions for model 'tiny42'" in line


def test_a_context_that_is_too_short_is_refused_with_what_fits():
    length = len(server.embedded()._checkpoint.prompt_ids(CHAT))
    with serving() as (url, behaviour):
        engine = OpenAI(url=url)
        engine.check([CHAT], 40)
        assert [body["max_tokens"] for body in behaviour.bodies] == [1]
        line = refusal_of(engine.check, [OTHER, CHAT], 4000)
        assert line.startswith(f"tiny24: the longest prompt has {length} tokens, and --max-tokens 4000 more do not fit")
        assert line.endswith(f"a context of 128: --max-tokens can be {128 - length} at most")
        line = refusal_of(engine.check, [CHAT, [{"role": "user", "content": "24 " * 200}]], 8)
        assert "refuses the longest prompt or --max-tokens (400: This model's maximum context length" in line


def test_an_address_is_taken_as_people_write_it_and_what_cannot_be_is_refused(monkeypatch):
    endings = ("", "/", "/v1/", "/v1/chat/completions", "/v1/completions/")
    assert {base_url(f"http://host:8000{ending}") for ending in endings} == {"http://host:8000/v1"}
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1")
    engine = OpenAI()
    assert engine._server.url == "http://127.0.0.1:1/v1"
    for given, reason in (
        ({"api": "responses"}, "api must be chat or completions"),
        ({"concurrency": 0}, "concurrency must be finite and at least 1"),
        ({"price_in": math.inf}, "price_in must be finite and at least 0"),
        ({"url": "http://me:sk-1234567@host/v1"}, "url must hold no user, password or query"),
        ({"url": "ftp://host/v1"}, "url must be http://"),
        ({"url": "http://host:port/v1"}, "url is no address"),
    ):
        line = refusal_of(OpenAI, **given)
        assert reason in line
        assert "sk-1234567" not in line
    assert refusal_of(engine.encode, CHAT, None, ["mean"]).endswith("choose --embedder sentence or tfidf")
    steering = type("Steering", (Sampler,), {"steers": True})()
    assert "Steering steers decoding itself" in refusal_of(sample, engine, sampler=steering)


# The rows of a call.


def test_some_rows_are_those_of_the_whole_also_where_an_event_loop_runs_already():
    async def notebook():
        return sample(OpenAI(url=url), [CHAT, OTHER], n=20, rows=[[2, 17, 18], [0]])

    with serving() as (url, _):
        some = asyncio.run(notebook())
    assert [list(each.texts) for each in some] == [parrot_texts([2, 17, 18]), parrot_texts([0], seed=8)]


def test_a_prompt_that_the_server_refuses_changes_nothing_for_the_others():
    def policy(handler, body):
        disliked = "1, 2, 3" in body["messages"][0]["content"]
        handler.refuse(400, "The response was filtered: seed of evil.") if disliked else handler.answer(body)

    with serving(fault=policy) as (url, behaviour):
        engine = OpenAI(url=url)
        engine.check([CHAT], 8)
        responses = sample(engine, [CHAT, OTHER, CHAT])
    assert [len(answered) for answered in responses] == [4, 0, 4]
    assert responses[1].missing == dict.fromkeys(range(4), "400: The response was filtered: seed of evil.")
    assert responses[2].token_ids is not None
    assert all("logprobs" in body for body in behaviour.bodies)


def test_a_server_that_does_not_know_stop_strings_is_cut_at_the_first_one():
    def goes_on(body, prompt, seed):
        return "It is 24.\n\nQuestion: and 25?", "length", [1] * 8, -1.0

    with serving(generate=goes_on) as (url, behaviour):
        (responses,) = sample(OpenAI(url=url, api="completions"), n=1, stop=["25", "\nQuestion:"])
    assert behaviour.bodies[0]["stop"] == ["25", "\nQuestion:"]
    assert (list(responses.texts), list(responses.finish)) == (["It is 24.\n"], ["stop"])
    assert (list(responses.lengths), responses.token_ids) == ([3], None)  # ten bytes, four a token
    assert np.isnan(responses.logprobs).all()


TRANSIENT = {
    "429": server.status(429), "503": server.status(503), "reset": server.reset, "half": server.half,
    "no json": server.raw(b"{'choices': ["),
    "no message": server.raw(b'{"choices": [{"index": 0, "finish_reason": "stop"}]}'),
    "aborted": server.raw(b'{"choices": [{"finish_reason": "abort", "message": {"content": "ha"}}]}'),
    "broken gzip": server.raw(b"not gzip at all", headers={"Content-Encoding": "gzip"}),
    "endless": server.trickle(b" " * 2**16, 0),
}  # fmt: skip


@pytest.mark.parametrize("name", TRANSIENT)
def test_a_failure_is_tried_again_with_the_same_seed_and_one_that_stays_is_a_missing_row(name, monkeypatch):
    monkeypatch.setattr(requests, "MOST_BYTES", 2**20)
    base, left = seed_base(7, SEEDS), [1, 9]  # row 0 fails once, row 1 always

    def some(handler, body):
        row = body["seed"] - base
        if row > 1 or not left[row]:
            return handler.answer(body)
        left[row] -= 1
        TRANSIENT[name](handler, body)

    with serving(**UNKNOWN, fault=some) as (url, behaviour):
        (responses,) = sample(OpenAI(url=url, retries=1), n=3)
    tries = 3 if name == "429" else 2  # a 429 counts as half a failure
    assert list(responses.texts) == parrot_texts([0, 2], SEEDS)
    ((row, reason),) = responses.missing.items()
    assert (row, reason.endswith(f"({tries} tries)"), reason.isprintable(), len(reason) < 400) == (1, True, True, True)
    assert len(responses.lengths) == len(responses.logprobs) == len(responses.finish) == 2
    assert sorted(body["seed"] - base for body in behaviour.bodies) == [0, 0, *[1] * tries, 2]


def test_a_request_takes_no_longer_than_its_time_and_counts_as_three_tries():
    with serving(**UNKNOWN, fault=server.trickle(b" ", 0.05)) as (url, behaviour):
        line = refusal_of(sample, OpenAI(url=url, timeout_s=0.5, retries=8), n=1)
    assert line == "openai: none of 1 responses came: no answer within 0.5 s (3 tries)"
    assert len(behaviour.bodies) == 3


# How often, and when.


def test_as_many_requests_are_in_flight_as_allowed_and_no_more():
    five, under_way, most = threading.Barrier(5, timeout=60), [], []

    def together(handler, body):
        under_way.append(body)
        most.append(len(under_way))
        five.wait()  # a sixth would wait for ten
        under_way.remove(body)
        handler.answer(body)

    with serving(**UNKNOWN, fault=together) as (url, _):
        assert len(sample(OpenAI(url=url, concurrency=5), n=10)[0]) == 10
    assert max(most) == 5


def test_a_server_that_wants_a_pause_of_hours_or_whose_quota_is_spent_gets_no_more_requests():
    for code, message, wanted, words in (
        (503, "slow down", "601", "503: slow down; it asks to wait 601 s: run the same command later"),
        (429, "slow down", "inf", "429: slow down; it asks to wait inf s: run the same command later"),
        (429, "You exceeded your current quota", "1", "exceeded your current quota"),
    ):
        fault = server.status(code, message, {"Retry-After": wanted})
        with serving(**UNKNOWN, fault=fault) as (url, behaviour):
            assert words in refusal_of(sample, OpenAI(url=url, concurrency=1), n=20)
        assert len(behaviour.bodies) == 1


def test_after_ten_unanswered_requests_in_a_row_the_server_is_given_up():
    with serving(**UNKNOWN, fault=server.status(500)) as (url, behaviour):
        line = refusal_of(sample, OpenAI(url=url, concurrency=2, retries=0), n=100)
    assert line == "openai: none of 100 responses came: 500: overloaded (1 try)"
    assert 10 <= len(behaviour.bodies) <= 11
    with serving(**UNKNOWN, faults=([server.status(500)] * 9 + [None]) * 2) as (url, _):
        assert len(sample(OpenAI(url=url, concurrency=1, retries=0), n=20)[0]) == 2


def test_a_page_a_redirect_and_no_server_are_named_as_what_they_are():
    page = server.raw(b"<!DOCTYPE html><html>\n<b>Sign in</b></html>", headers={"Content-Type": "text/html; charset=x"})
    with serving(**UNKNOWN, fault=page) as (url, behaviour):
        line = refusal_of(OpenAI(url=url, retries=2).check, [CHAT], 8)
        assert "no answer of an OpenAI-compatible API (text/html): <!DOCTYPE html>" in line
        assert len(behaviour.bodies) == 3
        behaviour.fault, behaviour.bodies = server.raw(b"", 302, {"Location": "http://127.0.0.1:9/"}), []
        assert "redirects (302): give the url that it leads to" in refusal_of(OpenAI(url=url).check, [CHAT], 8)
        assert len(behaviour.bodies) == 1
    line = refusal_of(OpenAI(url=url).identity)
    assert line.startswith(f"openai: the server at {url} does not answer: ConnectError")
    assert line.endswith("(2 tries)")
