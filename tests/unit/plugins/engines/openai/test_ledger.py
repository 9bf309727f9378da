"""What requests use is counted in all runs of a pool, none exceeds a cap, and no row is paid for twice."""

import fcntl
import re

import numpy as np
import pytest
from support.openai_client import CHAT, OTHER, UNKNOWN, parrot_texts, sample, short_pauses  # noqa: F401
from support.openai_server import none, reset, serving, status
from support.refusals import refusal_of

from harness.records import Limits
from harness_plugins.engines.openai.engine import SEEDS, OpenAI
from harness_plugins.engines.openai.ledger import append, lines, shown, worst_case


@pytest.fixture(autouse=True)
def _quick(short_pauses):  # noqa: F811
    """No test waits for a server that is busy."""


WORST = worst_case(CHAT, 8)
PRICES = {"price_in": 1, "price_out": 10}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "pool").mkdir()
    return tmp_path / "pool"


def charged(url, folder, max_cost=None, max_tokens=None, **options):
    engine = OpenAI(url=url, model="tiny24", **options)
    engine.charge(Limits(folder, max_cost, max_tokens))
    return engine


def journals(folder, n=1):
    return [folder / f"{j:012x}.paid.jsonl" for j in range(n)]


def spent(folder):
    """Requests, and tokens of prompts and of responses, by the file."""
    return np.sum(lines(folder / "spent.jsonl"), axis=0).tolist()


def cost(tokens):
    return (tokens[1] * 1 + tokens[2] * 10) / 1e6


def test_tokens_of_all_runs_of_a_pool_are_summed_and_priced(folder):
    with serving(**UNKNOWN) as (url, behaviour):
        for run in (1, 2):
            engine = charged(url, folder, **PRICES)
            engine.check([CHAT], 8)
            assert (folder / "spent.jsonl").exists() == (run > 1)  # a check alone writes nothing
            sample(engine, n=3, journals=journals(folder))
            journals(folder)[0].unlink()
    used = spent(folder)
    assert (used[0], used[2]) == (8, 16) == (len(behaviour.bodies), 16)
    counts = f"openai: 8 requests, {used[1]} prompt tokens, 16 response tokens"
    assert engine.bill() == f"{counts}: {shown(cost(used))}, in all runs of this pool"
    assert engine.spending() == f"{shown(cost(used))} spent"
    assert charged("http://127.0.0.1:1", folder).bill() == f"{counts}, in all runs of this pool"
    capped = charged("http://127.0.0.1:1", folder, 5, **PRICES)
    assert capped.spending() == f"{shown(cost(used))} of 5.00 spent"


@pytest.mark.parametrize("cap", ["money", "tokens"])
def test_no_request_is_sent_that_could_exceed_a_cap_and_a_higher_cap_goes_on(folder, cap):
    sent = []

    def amount(tokens):
        return cost(tokens) if cap == "money" else int(sum(tokens[1:]))

    def answer(handler, body):
        sent.append(amount(spent(folder)))
        handler.answer(body)

    low, high = ({f"max_{'cost' if cap == 'money' else cap}": most * amount(WORST) // 2 or 1} for most in (5, 200))
    if cap == "money":
        low, high = ({"max_cost": most * amount(WORST) / 2, **PRICES} for most in (5, 200))
    with serving(**UNKNOWN, fault=answer) as (url, behaviour):
        files, done = journals(folder, 2), {}
        options = {"n": 8, "journals": files}
        engine = charged(url, folder, **low, concurrency=4)
        line = refusal_of(sample, engine, [CHAT, OTHER], done=done.__setitem__, **options)
        assert re.match(r"openai: stopped before --max-(cost, 0.\d+|tokens-total, \d+ tokens): .* higher --max-", line)
        assert max(sent) <= next(iter(low.values()))
        assert len(sent) == spent(folder)[0] > 3  # what is not used of the worst case is used by others
        first = sum(map(len, done.values()))
        assert first == len(sent)
        reasons = [reason for responses in done.values() for reason in responses.missing.values()]
        assert len(reasons) == 16 - first
        assert all(reason.startswith("openai: stopped before") for reason in reasons)
        again = refusal_of(sample, charged(url, folder, **low), [CHAT, OTHER], **options)
        assert again.partition(" and what comes")[0] == line.partition(" and what comes")[0]
        assert refusal_of(charged(url, folder, **low).check, [CHAT], 8).startswith("openai: stopped before")
        assert len(behaviour.bodies) == first
        behaviour.fault = None
        whole = sample(charged(url, folder, **high), [CHAT, OTHER], **options)
        assert len(behaviour.bodies) == 16
    assert list(whole[0].texts) == parrot_texts(range(8), SEEDS)


def test_a_request_that_got_no_answer_counts_at_its_worst_and_a_refused_one_not_at_all(folder):
    with serving(**UNKNOWN, faults=[reset, status(500), status(429), none]) as (url, _):
        sample(charged(url, folder, concurrency=1), n=1, journals=journals(folder))
    assert (spent(folder)[0], spent(folder)[2]) == (2, 8 + 2)
    total = sum(spent(folder)[1:])
    more = charged("http://127.0.0.1:1", folder, max_tokens=int(total + sum(WORST[1:])))._ledger
    assert not more.exceeded(WORST)
    assert more.exceeded(WORST + np.array([0, 1, 0]))


def test_two_runs_do_not_pay_for_one_pool_at_once_and_an_unlimited_one_may(folder):
    with serving(**UNKNOWN) as (url, behaviour), (folder / "spent.jsonl").open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        line = refusal_of(sample, charged(url, folder, **PRICES), n=1, journals=journals(folder))
        assert line == f"openai: another run is paying for this pool ({folder}): wait for its end"
        assert behaviour.bodies == []
        assert len(sample(charged(url, folder), n=1, journals=journals(folder))[0]) == 1


def test_what_is_to_be_sampled_is_priced_at_its_worst(folder):
    engine = charged("http://127.0.0.1:1", folder, **PRICES)
    most = shown(9 * -(-len(CHAT[0]["content"]) // 4) * 1e-6 + 9 * 100 * 10e-6)
    assert engine.quote([CHAT], [9], 100) == f"which cost up to about {most} (prompts estimated: 4 characters a token)"
    assert charged("http://127.0.0.1:1", folder).quote([CHAT], [9], 100) == ""
    assert "--max-cost needs the model's prices" in refusal_of(charged, "http://127.0.0.1:1", None, max_cost=1)
    assert WORST.tolist() == [1, len(CHAT[0]["content"]) + 100, 8]
    assert [shown(money) for money in (0, 12.3, 0.00123456, 1234.5)] == ["0.00", "12.30", "0.00123", "1,234.50"]


# Lines that are only added.


def test_rows_that_a_killed_run_has_kept_are_not_asked_for_again(folder):
    with serving(**UNKNOWN) as (url, behaviour):
        whole = sample(OpenAI(url=url), n=4, journals=journals(folder))[0]
        content = journals(folder)[0].read_bytes()
        journals(folder)[0].write_bytes(content[:-20])  # killed in the middle of a line
        behaviour.bodies.clear()
        again = sample(OpenAI(url=url), n=4, journals=journals(folder))[0]
    assert len(behaviour.bodies) == 1
    assert (list(again.texts), list(again.logprobs)) == (list(whole.texts), list(whole.logprobs))


def test_a_damaged_line_is_one_line_that_says_what_to_do(folder):
    for path in (journals(folder)[0], folder / "spent.jsonl"):
        append(path, [{"row": 0}], durable=False)
        path.write_bytes(path.read_bytes().replace(b"row", b"wor"))
        with serving() as (url, _):
            line = refusal_of(lambda: sample(charged(url, folder), n=1, journals=journals(folder)))
        assert line.startswith(
            f"openai: {path}, line 1, is damaged: delete the file; what it holds is then not counted"
        )
        path.unlink()
