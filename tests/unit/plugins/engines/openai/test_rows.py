"""The rows of a call: which requests they make, with which seeds, and what is known of each response."""

import asyncio

import pytest
from support.openai_client import CHAT, OTHER, parrot_texts, sample
from support.openai_server import serving

from harness_plugins.engines.openai.engine import OpenAI
from harness_plugins.engines.openai.rows import runs


def test_consecutive_rows_are_one_request_and_the_same_rows_whichever_are_missing():
    assert list(runs(range(20), 8)) == [list(range(8)), list(range(8, 16)), list(range(16, 20))]
    assert list(runs([3, 4, 5, 6, 7, 8, 9, 12], 8)) == [[3, 4, 5, 6, 7], [8, 9], [12]]
    assert list(runs([], 8)) == []


def test_on_a_server_that_seeds_as_vllm_does_the_rows_do_not_depend_on_n_per_request():
    with serving() as (url, behaviour):
        for per_request in (None, 1, 3, 16):
            assert list(sample(OpenAI(url=url, per_request=per_request), n=8)[0].texts) == parrot_texts(range(8))
    assert sorted(body.get("n", 1) for body in behaviour.bodies) == [1] * 8 + [2, 3, 3, 8, 8]


def test_some_rows_are_those_of_the_whole_and_each_prompt_is_done_with_its_last_request():
    finished, reported, tokens = {}, [], []
    with serving() as (url, _):
        engine = OpenAI(url=url, per_request=3)
        whole = sample(
            engine, [CHAT, OTHER], n=20, done=finished.__setitem__, report=reported.append, tokens=tokens.append
        )
        assert [finished[j].texts for j in (0, 1)] == [responses.texts for responses in whole]
        assert sum(reported) == 40
        assert sum(tokens) == sum(sum(responses.lengths) for responses in whole) > 0
        rows = [[2, 17, 18], [0]]
        some = sample(engine, [CHAT, OTHER], n=20, rows=rows, done=finished.__setitem__)
    for j in (0, 1):
        assert list(some[j].texts) == list(finished[j].texts) == [whole[j].texts[row] for row in rows[j]]


def only_one(handler, body):
    handler.refuse(400, "Only one completion choice is allowed") if body.get("n", 1) > 1 else handler.answer(body)


@pytest.mark.slow
def test_where_several_rows_are_refused_or_ignored_they_are_requested_singly():
    for how in ({"refuses": ("n",)}, {"ignores": ("n",)}, {"fault": only_one}):
        with serving(**how) as (url, behaviour):
            engine = OpenAI(url=url, per_request=4)
            engine.check([CHAT], 8)
            behaviour.bodies.clear()
            assert list(sample(engine, n=8)[0].texts) == parrot_texts(range(8)), how
            assert not any("n" in body for body in behaviour.bodies)
            assert list(sample(OpenAI(url=url, per_request=4), n=8)[0].texts) == parrot_texts(range(8)), how


def policy(handler, body):
    """Refuse one prompt: always, or only where several rows are requested."""
    disliked = "1, 2, 3" in body["messages"][0]["content"]
    if disliked and (handler.behaviour.strict or body.get("n", 1) > 1):
        return handler.refuse(400, "The response was filtered: policy.")
    handler.answer(body)


def test_a_prompt_that_the_server_refuses_changes_nothing_for_the_others():
    with serving(fault=policy) as (url, behaviour):
        behaviour.strict = True
        engine = OpenAI(url=url)
        engine.check([CHAT], 8)
        responses = sample(engine, [CHAT, OTHER, CHAT])
        assert [len(answered) for answered in responses] == [4, 0, 4]
        assert responses[1].missing == dict.fromkeys(range(4), "400: The response was filtered: policy.")
        assert responses[2].token_ids is not None
        assert all("logprobs" in body for body in behaviour.bodies)
        behaviour.strict = False
        assert list(sample(engine, [OTHER], n=3)[0].texts) == parrot_texts(range(3))
        behaviour.bodies.clear()
        sample(engine, n=32)
    assert [body["n"] for body in behaviour.bodies] == [16, 16]


def test_lengths_come_from_ids_or_from_log_probabilities_or_from_usage_or_from_the_text():
    lengths = []
    with serving() as (url, behaviour):
        for omits in ((), ("token_ids",), ("token_ids", "logprobs"), ("token_ids", "logprobs", "usage")):
            behaviour.omits = omits
            (responses,) = sample(OpenAI(url=url), n=2, max_tokens=30)
            lengths.append(list(responses.lengths))
            assert (responses.token_ids is None) == ("token_ids" in omits)
        lengths.append(list(sample(OpenAI(url=url), n=2, max_tokens=5)[0].lengths))
    assert lengths == [[2, 2], [2, 2], [2, 2], [6, 6], [5, 5]]  # 23 bytes of text, 4 a token


def test_it_also_runs_where_an_event_loop_runs_already():
    async def notebook():
        return sample(OpenAI(url=url))[0]

    with serving() as (url, _):
        assert list(asyncio.run(notebook()).texts) == parrot_texts(range(4))
