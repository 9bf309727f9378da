"""What requests use is counted in all runs of a pool, and none is sent that could exceed a cap."""

import fcntl
import json
import os
import re

import pytest
from support.openai_client import CHAT, OTHER, UNKNOWN, parrot_texts, sample
from support.openai_server import none, reset, serving, status
from support.refusals import refusal_of

from harness.records import Limits
from harness_plugins.engines.openai.account import Account, entries
from harness_plugins.engines.openai.engine import SEEDS, OpenAI
from harness_plugins.engines.openai.prices import TEMPLATE_TOKENS, Price, Tokens, worst_case

PRICES = 'currency = "USD"\n[models.tiny24]\ninput = 1\ncached = 0.5\noutput = 10\nbatch = 0.5\n'
WORST = worst_case(CHAT, 1, 8)


@pytest.fixture
def prices(tmp_path):
    (tmp_path / "prices.toml").write_text(PRICES)
    return tmp_path / "prices.toml"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "pool").mkdir()
    return tmp_path / "pool"


def charged(url, folder, prices=None, max_cost=None, max_tokens=None, **options):
    engine = OpenAI(url=url, **options)
    engine.charge(Limits(folder, prices, max_cost, max_tokens))
    return engine


def journals(folder, n=1):
    return [folder / f"{j:012x}.paid.jsonl" for j in range(n)]


def kept(folder):
    return sum((entry.tokens for entry in entries(folder)), Tokens())


def test_tokens_of_all_runs_of_a_pool_are_summed_and_priced(folder, prices):
    details = {"prompt_tokens_details": {"cached_tokens": 5}, "completion_tokens_details": {"reasoning_tokens": 1}}
    with serving(**UNKNOWN, details=details) as (url, _):
        for _ in range(2):
            engine = charged(url, folder, prices)
            engine.check([CHAT], 8)
            assert not list(folder.glob("spent.*")) or engine.spending()
            sample(engine, n=3, journals=journals(folder))
            journals(folder)[0].unlink()
    used = kept(folder)
    assert (used.requests, used.cached, used.completion, used.reasoning) == (8, 40, 16, 8)
    cost = Price(1, 0.5, 10, 0.5, "USD").shown((used.prompt - 40) * 1e-6 + 40 * 0.5e-6 + 16 * 10e-6)
    assert engine.bill() == (
        f"openai: 8 requests, {used.prompt} prompt tokens (40 of them cached), 16 response tokens (8 of them "
        f"reasoning): {cost}, in all runs of this pool"
    )
    assert engine.spending() == cost
    assert charged("http://127.0.0.1:1", folder).bill().endswith(" reasoning), in all runs of this pool")


def test_a_server_that_counts_nothing_is_estimated_and_an_answer_that_makes_no_sense_is_paid_too(folder):
    def senseless(handler, body):
        usage = {"prompt_tokens": 30, "completion_tokens": 4}
        handler.send(200, {"choices": [{"index": 0, "finish_reason": "abort", "text": ""}], "usage": usage})

    with serving(**UNKNOWN, omits=("usage",), faults=[senseless]) as (url, _):
        engine = charged(url, folder)
        sample(engine, n=1, journals=journals(folder))
    assert kept(folder) == Tokens(2, 30 + -(-len(CHAT[0]["content"]) // 4), 0, 4 + 2, 0, guessed=1)
    assert engine.bill().endswith("; estimated, since the server did not count: 1 of them")


@pytest.mark.parametrize("cap", ["money", "tokens"])
def test_no_request_is_sent_that_could_exceed_a_cap_and_a_higher_cap_goes_on(folder, prices, cap):
    sent = []

    def answer(handler, body):
        (entry,) = entries(folder)
        sent.append(price.cost(entry.worst) if cap == "money" else entry.worst.total)
        handler.answer(body)

    price = Price(1, 0.5, 10, 0.5)
    one = price.cost(WORST) if cap == "money" else WORST.total
    low, high = (
        {"max_cost": most * one / 2} if cap == "money" else {"max_tokens": most * one // 2} for most in (5, 200)
    )
    with serving(**UNKNOWN, fault=answer) as (url, behaviour):
        files, done = journals(folder, 2), {}
        line = refusal_of(
            sample,
            charged(url, folder, prices, **low, concurrency=4),
            [CHAT, OTHER],
            n=8,
            journals=files,
            done=done.__setitem__,
        )
        assert re.match(
            r"openai: stopped before --max-(cost, 0.\d+ USD|tokens-total, \d+ tokens): .* higher --max-", line
        )
        assert max(sent) <= next(iter(low.values()))
        assert len(sent) == kept(folder).requests > 3  # what is not used of the worst case is used by others
        first = sum(map(len, done.values()))
        assert first == len(sent)
        reasons = [reason for responses in done.values() for reason in responses.missing.values()]
        assert len(reasons) == 16 - first
        assert all(reason.startswith("openai: stopped before") for reason in reasons)
        again = refusal_of(sample, charged(url, folder, prices, **low), [CHAT, OTHER], n=8, journals=files)
        assert again.partition(" and what comes")[0] == line.partition(" and what comes")[0]
        assert refusal_of(charged(url, folder, prices, **low).check, [CHAT], 8).startswith("openai: stopped before")
        assert len(behaviour.bodies) == first
        behaviour.fault = None
        whole = sample(charged(url, folder, prices, **high), [CHAT, OTHER], n=8, journals=files)
        assert len(behaviour.bodies) == 16
    assert list(whole[0].texts) == parrot_texts(range(8), SEEDS)


def test_a_request_that_got_no_answer_counts_at_its_worst_and_a_refused_one_not_at_all(folder, prices):
    with serving(**UNKNOWN, faults=[reset, status(500), status(429), none]) as (url, _):
        engine = charged(url, folder, prices, concurrency=1)
        sample(engine, n=1, journals=journals(folder))
    (entry,) = entries(folder)
    assert (entry.in_flight, entry.tokens.requests) == (WORST, 1)
    price = engine._account.price
    assert engine.bill().endswith(
        f"; requests without an answer: 1, which may cost up to {price.shown(price.cost(WORST))}"
    )
    more = charged("http://127.0.0.1:1", folder, prices, price.cost(entry.worst + WORST), model="tiny24")._account
    assert more.fits(WORST)
    assert not more.fits(WORST + Tokens(prompt=1))


def test_what_a_killed_run_had_in_flight_is_spent(folder, prices):
    account = Account()
    account.charge(Limits(folder), None)
    with account.opened(folder):
        account.own.in_flight = Tokens(2, 1000, completion=500)
        account.write(account.own)
    left = charged("http://127.0.0.1:1", folder, max_tokens=1600)._account
    assert left.fits(Tokens(1, 50, completion=50))
    assert not left.fits(Tokens(1, 50, completion=51))


def test_two_runs_do_not_pay_for_one_pool_at_once_and_an_unlimited_one_may(folder, prices):
    handle = os.open(folder, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    with serving(**UNKNOWN) as (url, behaviour):
        line = refusal_of(sample, charged(url, folder, prices), n=1, journals=journals(folder))
        assert line == f"openai: another run is paying for this pool ({folder}): wait for its end"
        assert behaviour.bodies == []
        assert len(sample(charged(url, folder), n=1, journals=journals(folder))[0]) == 1
    os.close(handle)


def test_a_damaged_file_of_what_was_spent_is_one_line(folder):
    for content in ("{", "[]", '{"tokens": {}}', json.dumps({"tokens": {"x": 1}, "in_flight": {}})):
        (folder / "spent.0123456789ab.json").write_text(content)
        assert "is damaged" in refusal_of(entries, folder)


def test_what_is_to_be_sampled_is_priced_at_its_worst(folder, prices):
    with serving() as (url, _):
        engine = charged(url, folder, prices, per_request=4)
        batch = charged(url, folder, prices, per_request=4, batch=True)
        prompt = 3 * -(-len(CHAT[0]["content"]) // 4)
        cost = Price(1, 1, 10, 1, "USD").shown(prompt * 1e-6 + 9 * 100 * 10e-6)
        assert (
            engine.quote([CHAT], [9], 100) == f"which cost up to about {cost} (prompts estimated: 4 characters a token)"
        )
        half = Price(1, 1, 10, 1, "USD").shown((prompt * 1e-6 + 9 * 100 * 10e-6) / 2)
        assert f"about {half} " in batch.quote([CHAT], [9], 100)
        assert charged(url, folder).quote([CHAT], [9], 100) == ""
    assert worst_case(CHAT, 4, 100) == Tokens(1, len(CHAT[0]["content"]) + TEMPLATE_TOKENS, completion=400)
