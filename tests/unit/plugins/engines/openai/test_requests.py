"""Requests to a server on loopback that is overloaded, breaks its answers, or does not answer at all."""

import os
import signal
import threading

import pytest
from support.openai_client import CHAT, UNKNOWN, parrot_texts, sample
from support.openai_server import dribble, endless, half, none, raw, reset, serving, silent, status
from support.refusals import refusal_of

from harness_plugins.engines.openai.engine import SEEDS, OpenAI, seed_base
from harness_plugins.engines.openai.requests import pause_s

TRANSIENT = {
    "429": status(429),
    "408": status(408),
    "503": status(503),
    "error in a 200": raw(b'{"error": {"message": "worker died"}}'),
    "reset": reset,
    "half": half,
    "no json": raw(b"{'choices': ["),
    "null": raw(b"null"),
    "a list": raw(b"[1, 2]"),
    "choices are text": raw(b'{"choices": "yes"}'),
    "a choice is a number": raw(b'{"choices": [3]}'),
    "no message": raw(b'{"choices": [{"index": 0, "finish_reason": "stop"}]}'),
    "unfinished": raw(b'{"choices": [{"index": 0, "message": {"content": "ha"}}]}'),
    "deep": raw(b"[" * 200_000),
    "text is a number": raw(b'{"choices": [{"index": 0, "finish_reason": "stop", "message": {"content": 3}}]}'),
    "aborted": raw(b'{"choices": [{"index": 0, "finish_reason": "abort", "message": {"content": "ha"}}]}'),
    "huge number": raw(b'{"choices": ' + b"9" * 10_000 + b"}"),
    "broken gzip": raw(b"not gzip at all", headers={"Content-Encoding": "gzip"}),
    "endless": endless,
}


def test_a_failure_is_tried_again_with_the_same_seed_and_one_that_stays_is_a_missing_row_with_its_reason():
    base, wrong = seed_base(7, SEEDS), []
    with serving(**UNKNOWN) as (url, behaviour):
        for name, fault in TRANSIENT.items():
            left = [1, 9]  # row 0 fails once, row 1 always

            def some(handler, body, fault=fault, left=left):
                row = body["seed"] - base
                if row > 1 or not left[row]:
                    return handler.answer(body)
                left[row] -= 1
                fault(handler, body)

            behaviour.fault, behaviour.bodies = some, []
            (responses,) = sample(OpenAI(url=url, retries=1), n=3)
            reason = responses.missing.get(1, "")
            tries = 3 if name == "429" else 2  # a 429 counts as half a failure
            columns = [responses.texts, responses.lengths, responses.logprobs, responses.finish]
            if (
                list(responses.texts) != parrot_texts([0, 2], SEEDS)
                or list(responses.missing) != [1]
                or not (reason.endswith(f"({tries} tries)") and reason.isprintable() and len(reason) < 400)
                or {len(column) for column in columns} != {2}
                or sorted(body["seed"] - base for body in behaviour.bodies) != [0, 0, *[1] * tries, 2]
            ):
                wrong.append((name, responses))
    assert wrong == []


def test_a_request_takes_no_longer_than_its_time_and_counts_as_three_tries():
    for fault in (silent, dribble):
        with serving(**UNKNOWN, fault=fault) as (url, behaviour):
            line = refusal_of(sample, OpenAI(url=url, timeout_s=0.6, retries=8), n=1)
        assert line == "openai: none of 1 responses came: no answer within 0.6 s (3 tries)"
        assert len(behaviour.bodies) == 3


# How often, and when.


def test_a_requested_pause_is_kept_by_all_requests():
    with serving(**UNKNOWN, faults=[status(429, "slow down", {"retry-after": "0.4"})]) as (url, behaviour):
        assert len(sample(OpenAI(url=url, concurrency=1), n=3)[0]) == 3
    assert behaviour.times[1] - behaviour.times[0] >= 0.4
    for nonsense in ("-5", "nan", "soon", ""):
        with serving(**UNKNOWN, faults=[status(503, "busy", {"retry-after": nonsense})]) as (url, behaviour):
            assert len(sample(OpenAI(url=url), n=1)[0]) == 1


def test_pauses_grow_to_a_limit_and_a_requested_one_is_followed_up_to_ten_minutes():
    pauses = [pause_s(tries, wait_s) for tries, wait_s in ((1, 0), (2, 0), (5000, 0), (1, 2.0), (1, 600.0))]
    limits = [(0.005, 0.01), (0.01, 0.02), (0.025, 0.05), (2, 2.2), (600, 660)]
    assert [low <= seconds <= high for seconds, (low, high) in zip(pauses, limits, strict=True)] == [True] * 5


def test_as_many_requests_are_in_flight_as_allowed_and_no_more():
    five = threading.Barrier(5, timeout=60)

    def together(handler, body):
        five.wait()  # a sixth would wait for ten
        handler.answer(body)

    with serving(**UNKNOWN, fault=together) as (url, behaviour):
        assert len(sample(OpenAI(url=url, concurrency=5), n=10)[0]) == 10
    assert behaviour.most_at_once == 5


def test_a_server_that_wants_a_pause_of_hours_or_whose_quota_is_spent_gets_no_more_requests():
    for code, wanted in ((429, "1e9"), (503, "601"), (429, "inf")):
        with serving(**UNKNOWN, fault=status(code, "slow down", {"Retry-After": wanted})) as (url, behaviour):
            line = refusal_of(sample, OpenAI(url=url, concurrency=2), n=20)
        assert f"{code}: slow down; it asks to wait " in line
        assert line.endswith(" s: run the same command later")
        assert len(behaviour.bodies) <= 4
    with serving(**UNKNOWN, fault=status(429, "You exceeded your current quota")) as (url, behaviour):
        assert "exceeded your current quota" in refusal_of(sample, OpenAI(url=url, concurrency=1), n=4)
    assert len(behaviour.bodies) == 1


def test_after_ten_unanswered_requests_in_a_row_the_server_is_given_up():
    with serving(**UNKNOWN, fault=status(500)) as (url, behaviour):
        line = refusal_of(sample, OpenAI(url=url, concurrency=2, retries=0), n=100)
    assert line == "openai: none of 100 responses came: 500: overloaded (1 try)"
    assert 10 <= len(behaviour.bodies) <= 11
    nine_of_ten = ([status(500)] * 9 + [none]) * 4
    with serving(**UNKNOWN, faults=nine_of_ten) as (url, _):
        assert len(sample(OpenAI(url=url, concurrency=1, retries=0), n=40)[0]) == 4


def test_a_key_that_is_withdrawn_ends_it_and_what_came_is_kept():
    with serving(**UNKNOWN, faults=[none] * 3, fault=status(401, "gone")) as (url, behaviour):
        (responses,) = sample(OpenAI(url=url, concurrency=1), n=50)
    assert (len(responses), len(responses.missing), len(behaviour.bodies)) == (3, 47, 4)
    assert set(responses.missing.values()) == {"401: gone"}


def test_ctrl_c_ends_a_request_under_way():
    def interrupt(handler, body):
        os.kill(os.getpid(), signal.SIGINT)
        silent(handler, body)

    with serving(**UNKNOWN, fault=interrupt) as (url, _), pytest.raises(KeyboardInterrupt):
        sample(OpenAI(url=url, concurrency=1), n=40)


def test_a_proxy_is_not_used_for_this_machine(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with serving() as (url, _):
        for host in ("127.0.0.1", "localhost"):
            assert len(sample(OpenAI(url=url.replace("127.0.0.1", host), retries=0))[0]) == 4
    assert "ConnectError" in refusal_of(OpenAI(url="http://example.invalid/v1").identity)


# Something that is no such server.


def test_a_page_a_redirect_and_no_server_are_named_as_what_they_are():
    page = raw(b"<!DOCTYPE html><html>\n<b>Sign in</b></html>", headers={"Content-Type": "text/html; charset=x"})
    with serving(**UNKNOWN, fault=page) as (url, behaviour):
        line = refusal_of(OpenAI(url=url, retries=2).check, [CHAT], 8)
        assert "no answer of an OpenAI-compatible API (text/html): <!DOCTYPE html>" in line
        assert len(behaviour.bodies) == 3
        behaviour.fault, behaviour.bodies = raw(b"", 302, {"Location": "http://127.0.0.1:9/"}), []
        assert "redirects (302): give the url that it leads to" in refusal_of(OpenAI(url=url).check, [CHAT], 8)
        assert len(behaviour.bodies) == 1
    with serving() as (url, _):
        pass
    line = refusal_of(OpenAI(url=url).identity)
    assert line.startswith(f"openai: the server at {url} does not answer: ConnectError")
    assert line.endswith("(2 tries)")
