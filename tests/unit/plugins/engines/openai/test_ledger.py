"""What requests use is counted in all runs of a pool, none exceeds a cap, and no row is paid for twice."""

import fcntl
import re

import numpy as np
import pytest
from support.openai_server import CHAT, OTHER, UNKNOWN, parrot_texts, reset, sample, serving, status
from support.openai_server import short_pauses as short_pauses
from support.refusals import refusal_of

from harness.records import Limits
from harness_plugins.engines.openai.engine import SEEDS, OpenAI
from harness_plugins.engines.openai.ledger import append, lines, shown, worst_case

pytestmark = pytest.mark.usefixtures("short_pauses")
WORST = worst_case(CHAT, 8)
PRICES = {"price_in": 1, "price_out": 10}
NOWHERE = "http://127.0.0.1:1"


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


def test_tokens_of_all_runs_of_a_pool_are_summed_and_priced(tmp_path):
    with serving(**UNKNOWN) as (url, behaviour):
        for run in (1, 2):
            engine = charged(url, tmp_path, **PRICES)
            engine.check([CHAT], 8)
            assert (tmp_path / "spent.jsonl").exists() == (run > 1)  # a check alone writes nothing
            sample(engine, n=3, journals=journals(tmp_path))
            journals(tmp_path)[0].unlink()
    used = spent(tmp_path)
    assert (used[0], used[2]) == (8, 16) == (len(behaviour.bodies), 16)
    counts = f"openai: 8 requests, {used[1]} prompt tokens, 16 response tokens"
    assert engine.bill() == f"{counts}: {shown(cost(used))}, in all runs of this pool"
    assert engine.spending() == f"{shown(cost(used))} spent"
    assert charged(NOWHERE, tmp_path).bill() == f"{counts}, in all runs of this pool"
    assert charged(NOWHERE, tmp_path, 5, **PRICES).spending() == f"{shown(cost(used))} of 5.00 spent"


@pytest.mark.parametrize("cap", ["max_cost", "max_tokens"])
def test_no_request_is_sent_that_could_exceed_a_cap_and_a_higher_cap_goes_on(tmp_path, cap):
    sent, done = [], {}
    amount, prices = (cost, PRICES) if cap == "max_cost" else (lambda tokens: int(sum(tokens[1:])), {})
    low, high = ({cap: most * amount(WORST) / 2, **prices} for most in (5, 200))

    def answer(handler, body):
        sent.append(amount(spent(tmp_path)))
        handler.answer(body)

    with serving(**UNKNOWN, fault=answer) as (url, behaviour):
        options = {"n": 8, "journals": journals(tmp_path, 2)}
        engine = charged(url, tmp_path, **low, concurrency=4)
        line = refusal_of(sample, engine, [CHAT, OTHER], done=done.__setitem__, **options)
        assert re.match(r"openai: stopped before --max-(cost, 0.\d+|tokens-total, \d+ tokens): .* higher --max-", line)
        assert max(sent) <= low[cap]
        first = sum(map(len, done.values()))
        assert first == len(sent) == spent(tmp_path)[0] > 3  # what is not used of the worst case is used by others
        again = charged(url, tmp_path, **low)
        assert refusal_of(again.check, [CHAT], 8).startswith("openai: stopped before")
        assert refusal_of(sample, again, [CHAT, OTHER], **options).startswith("openai: stopped before")
        assert len(behaviour.bodies) == first
        behaviour.fault = None
        whole = sample(charged(url, tmp_path, **high), [CHAT, OTHER], **options)
        assert len(behaviour.bodies) == 16
    assert list(whole[0].texts) == parrot_texts(range(8), SEEDS)


def test_a_request_that_got_no_answer_counts_at_its_worst_and_a_refused_one_not_at_all(tmp_path):
    with serving(**UNKNOWN, faults=[reset, status(500), status(429), None]) as (url, _):
        sample(charged(url, tmp_path, concurrency=1), n=1, journals=journals(tmp_path))
    assert (spent(tmp_path)[0], spent(tmp_path)[2]) == (2, 8 + 2)


def test_two_runs_do_not_pay_for_one_pool_at_once_and_an_unlimited_one_may(tmp_path):
    with serving(**UNKNOWN) as (url, behaviour), (tmp_path / "spent.jsonl").open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        line = refusal_of(sample, charged(url, tmp_path, **PRICES), n=1, journals=journals(tmp_path))
        assert line == f"openai: another run is paying for this pool ({tmp_path}): wait for its end"
        assert behaviour.bodies == []
        assert len(sample(charged(url, tmp_path), n=1, journals=journals(tmp_path))[0]) == 1


def test_what_is_to_be_sampled_is_priced_at_its_worst(tmp_path):
    most = shown(9 * -(-len(CHAT[0]["content"]) // 4) * 1e-6 + 9 * 100 * 10e-6)
    line = f"which cost up to about {most} (prompts estimated: 4 characters a token)"
    assert charged(NOWHERE, tmp_path, **PRICES).quote([CHAT], [9], 100) == line
    assert charged(NOWHERE, tmp_path).quote([CHAT], [9], 100) == ""
    assert "--max-cost needs the model's prices" in refusal_of(charged, NOWHERE, None, max_cost=1)
    assert WORST.tolist() == [1, len(CHAT[0]["content"]) + 100, 8]
    assert [shown(money) for money in (0, 12.3, 0.00123456, 1234.5)] == ["0.00", "12.30", "0.00123", "1,234.50"]


def test_rows_that_a_killed_run_has_kept_are_not_asked_for_again_and_a_damaged_line_is_refused(tmp_path):
    (kept,) = journals(tmp_path)
    with serving(**UNKNOWN) as (url, behaviour):
        whole = sample(OpenAI(url=url), n=4, journals=[kept])[0]
        kept.write_bytes(kept.read_bytes()[:-20])  # killed in the middle of a line
        behaviour.bodies.clear()
        again = sample(OpenAI(url=url), n=4, journals=[kept])[0]
        assert len(behaviour.bodies) == 1
        assert (list(again.texts), list(again.logprobs)) == (list(whole.texts), list(whole.logprobs))
        for path in (kept, tmp_path / "spent.jsonl"):
            path.unlink(missing_ok=True)
            append(path, [{"row": 0}], durable=False)
            path.write_bytes(path.read_bytes().replace(b"row", b"wor"))
            line = refusal_of(lambda: sample(charged(url, tmp_path), n=1, journals=[kept]))
            assert line.startswith(f"openai: {path}, line 1, is damaged: delete the file; what it holds is then not")
            path.unlink()
