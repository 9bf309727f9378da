"""The transformers engine on small random checkpoints that are really saved and loaded; steering; memory."""

import numpy as np
import pytest
import torch
from support import paper_scheme
from support.refusals import refusal_of
from support.tiny_checkpoints import LONG, SHORT, assert_same_responses, first_rows, save_checkpoint
from transformers import AutoModelForCausalLM

from harness import Responses, Sampler
from harness.records import SampleRequest
from harness_plugins.engines import row_chunks
from harness_plugins.engines.transformers import sampling
from harness_plugins.engines.transformers.engine import Transformers
from harness_plugins.engines.transformers.sampling import CACHE, padded
from harness_plugins.engines.transformers.steered import CandidateTree, Prompts, require_siblings
from harness_plugins.samplers.guided import RepExpGuided

KINDS = ("qwen2", "gpt2", "sliding")
STATES = ("mean", "last", "penultimate")
HOT = Sampler(temperature=1.6, top_p=0.99)

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(autouse=True)
def _quiet(monkeypatch):
    monkeypatch.setattr(sampling, "EVERY_S", 1e9)  # rows are reported with their chunk, however slow the machine
    monkeypatch.setattr(row_chunks, "release", lambda: None)  # a full collection takes a second


@pytest.fixture(scope="module")
def engines(tmp_path_factory):
    """An engine for each kind of model; whoever changes one puts it back."""
    root = tmp_path_factory.mktemp("checkpoints")
    return {
        kind: Transformers(str(save_checkpoint(root / kind, kind)), device="cpu") for kind in (*KINDS, "phi", "wide")
    }


@pytest.fixture(scope="module")
def folder(engines):
    """The folder of the Qwen2."""
    return engines["qwen2"].model


def sample(engine, prompts=(SHORT,), n=20, max_tokens=24, seeds=(3, 4), states=STATES, sampler=HOT, **more):
    seeds = seeds[: len(prompts)]
    return engine.sample(
        SampleRequest(prompts, n=n, sampler=sampler, max_tokens=max_tokens, seeds=seeds, states=states, **more)
    )


@pytest.fixture(scope="module")
def sampled(engines):
    """60 responses to a short and to a long prompt, of each kind of model; nobody changes them."""
    return {kind: sample(engines[kind], [SHORT, LONG], n=60) for kind in KINDS}


def second_pass(model, prompt_ids, rows):
    """Of responses of equal length: unpadded, without a cache."""
    tokens, start = torch.tensor(rows), len(prompt_ids) - 1
    with torch.inference_mode():
        prompts = torch.tensor(prompt_ids).expand(len(rows), -1)
        out = model(torch.cat([prompts, tokens], 1), output_hidden_states=True, use_cache=False)
    states, logprobs = out.hidden_states[-1][:, start:], out.logits[:, start:-1].double().log_softmax(-1)
    chosen = logprobs.gather(2, tokens[:, :, None]).sum((1, 2)).numpy()
    return {"mean": states[:, 1:].mean(1), "last": states[:, -1], "penultimate": states[:, -2]}, chosen


def assert_same_states(states, expected):
    for kind in STATES:
        assert states[kind].dtype == np.float32
        np.testing.assert_allclose(states[kind], expected[kind], atol=1e-4)


# What is sampled, and its states.


@pytest.mark.parametrize("kind", KINDS)
def test_states_and_logprobs_are_those_of_a_second_unpadded_pass_and_of_encode_and_score(sampled, engines, kind):
    engine, sorts, reported = engines[kind], set(), []
    model = AutoModelForCausalLM.from_pretrained(engine.model)
    for prompt, responses in zip([SHORT, LONG], sampled[kind], strict=True):
        for length in set(responses.lengths):
            rows = np.flatnonzero(responses.lengths == length)
            ids = [responses.token_ids[i] for i in rows]
            states, logprobs = second_pass(model, engine._checkpoint.prompt_ids(prompt), ids)
            np.testing.assert_allclose(responses.logprobs[rows], logprobs, atol=1e-4)
            assert_same_states({name: responses.states[name][rows] for name in STATES}, states)
            sorts |= {(min(length, 2), responses.finish[i]) for i in rows}
    assert sorts == {(1, "stop"), (2, "stop"), (2, "length")}  # one token; more; cut off
    assert_same_states(engine.encode(LONG, responses, STATES, report=reported.append), responses.states)
    np.testing.assert_allclose(engine.score(LONG, responses, report=reported.append), responses.logprobs, atol=1e-3)
    assert sum(reported) == 2 * 60
    empty = Responses(["", "puzzle"], ["length"] * 2, np.zeros(2), np.zeros(2))  # has the state of its prompt
    one = next(i for i, length in enumerate(responses.lengths) if length == 1)
    for values in engine.encode(LONG, empty, STATES).values():
        np.testing.assert_allclose(values[0], responses.states["penultimate"][one], atol=1e-4)
    assert engine.score(LONG, empty)[0] == 0


@pytest.mark.parametrize("kind", ["qwen2", "sliding"])
def test_neither_the_other_prompt_nor_the_number_of_rows_nor_the_batch_changes_a_row(sampled, engines, kind):
    for place, prompt in enumerate([SHORT, LONG]):
        [alone] = sample(engines[kind], [prompt], n=10, seeds=(3 + place,))
        assert_same_responses(alone, first_rows(sampled[kind][place], 10))
    small = Transformers(engines[kind].model, device="cpu", batch=7)
    assert_same_responses(sample(small)[0], first_rows(sampled[kind][0], 20))
    [short] = sample(small, max_tokens=6)
    assert short.token_ids == [ids[:6] for ids in sampled[kind][0].token_ids[:20]]


def test_every_end_token_of_the_checkpoint_ends_a_response_and_no_text_shows_one(sampled):
    responses = sampled["qwen2"][0]
    rows = list(zip(responses.token_ids, responses.finish, strict=True))
    assert {ids[-1] for ids, finish in rows if finish == "stop"} == {1, 2}
    assert not any(token in (1, 2) for ids, _ in rows for token in ids[:-1])
    assert not any(ids[-1] in (1, 2) for ids, finish in rows if finish == "length")
    assert not any("<end>" in text or "<s>" in text for text in responses.texts)


@pytest.mark.parametrize(("sampler", "stop"), [(HOT, ["o", "th"]), (RepExpGuided(), ["e"])])
def test_a_text_ends_before_a_stop_string_and_its_tokens_with_the_one_that_completes_it(engines, sampler, stop):
    engine = engines["qwen2"]
    text, [cut] = engine._checkpoint.text, sample(engine, n=8, sampler=sampler, stop=stop)
    stopped = [row for row, ids in enumerate(cut.token_ids) if any(string in text(ids) for string in stop)]
    assert {cut.finish[row] for row in stopped} == {"stop"}
    for row in stopped:
        assert text(cut.token_ids[row]).startswith(cut.texts[row])
        assert not any(string in each for string in stop for each in (cut.texts[row], text(cut.token_ids[row][:-1])))
    if not sampler.steers:  # a row without the string, and the beginning of one with it, are what they were
        for row, (ids, longer) in enumerate(zip(cut.token_ids, sample(engine, n=8)[0].token_ids, strict=True)):
            assert ids == (longer[: len(ids)] if row in stopped else longer)


# Memory, and when a row is reported.


def test_out_of_memory_halves_the_batch_and_changes_nothing(sampled, folder, monkeypatch):
    engine = Transformers(folder, device="cpu")
    generate, refused, reported = engine._checkpoint.model.generate, [], []

    def cramped(**inputs):
        if len(inputs["input_ids"]) > 5:
            refused.append(len(inputs["input_ids"]))
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")
        return generate(**inputs)

    monkeypatch.setattr(engine._checkpoint.model, "generate", cramped)
    [halved] = sample(engine, n=12, report=reported.append)
    assert (refused, reported) == ([12, 6], [3, 3, 3, 3])
    assert_same_responses(halved, first_rows(sampled["qwen2"][0], 12))


# What it is, and what it refuses.


def test_max_tokens_beyond_the_context_name_what_would_fit(engines):
    engine = engines["qwen2"]
    longest = len(engine._checkpoint.prompt_ids(LONG))
    engine.check([SHORT, LONG], 128 - longest)
    line = refusal_of(engine.check, [SHORT, LONG], 200)
    assert f"{longest} tokens, and --max-tokens 200 more do not fit a context of 128" in line
    assert line.endswith(f"can be {128 - longest} at most")
    assert "no --max-tokens fits" in refusal_of(engine.check, [[{"role": "user", "content": "puzzle " * 200}]], 1)
    long = Responses(["puzzle " * 300], ["stop"], np.zeros(1), np.zeros(1))
    assert "more than the context of 128" in refusal_of(engine.encode, SHORT, long, STATES)


def test_checking_and_identity_load_no_weights(folder):
    engine = Transformers(folder)
    engine.check([SHORT], 8)
    engine.identity()
    assert engine.chats
    assert "model" not in vars(engine._checkpoint)


def test_what_it_cannot_do_is_refused_in_one_line(engines, folder, monkeypatch):
    assert "no state 'first', only mean, last, penultimate" in refusal_of(sample, engines["qwen2"], states=("first",))
    for parameters, reason in (
        ({"dtype": "int8"}, "dtype must be one of"),
        ({"batch": 0}, "batch must be"),
        ({"revision": "main"}, "is a folder, which has no revision"),
        ({"device": "abacus"}, "device 'abacus' cannot be used"),
    ):
        assert reason in refusal_of(lambda given=parameters: Transformers(folder, **given).check([], 1))
    engine = Transformers(folder, device="cpu")
    with torch.no_grad():
        engine._checkpoint.model.lm_head.weight[5] = torch.inf
    line = refusal_of(sample, engine, n=1, states=())
    assert line == "qwen2: in float32 the model's probabilities are not finite; try dtype=float32"


# Which caches the rows of a prompt share, and siblings.


def test_without_a_shared_cache_the_same_rows_are_drawn(sampled, engines, monkeypatch):
    def full(**_):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    model = engines["qwen2"]._checkpoint.model
    for place, name, value in ((sampling, "DynamicLayer", int), (model, "get_decoder", lambda: full)):
        with monkeypatch.context() as patch:
            patch.setattr(place, name, value)
            for with_cache, without in zip(
                sampled["qwen2"], sample(engines["qwen2"], [SHORT, LONG], n=10), strict=True
            ):
                assert_same_responses(first_rows(with_cache, 10), without)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("kind", ["qwen2", "gpt2", "phi", "wide"])
@torch.inference_mode()
def test_siblings_have_the_states_of_expanded_caches(engines, kind, attention):
    part = engines[kind]._checkpoint
    before = part.model.config._attn_implementation
    part.model.set_attn_implementation(attention)
    try:
        prompts = [[5, 9, 7, 30, 31, 40], [8, 9, 10]]
        tree = CandidateTree(part, Prompts(part, *padded(part, prompts)), torch.arange(2))
        for step in range(2):
            candidates = torch.randint(300, (2, 20), generator=torch.Generator().manual_seed(step))
            states, chosen = tree.look(candidates), torch.tensor([19 - step, step])
            for row, prompt in enumerate(prompts):
                cache = part.model(torch.tensor([prompt]), use_cache=True)[CACHE]
                expected = paper_scheme.states_by_expanded_caches(part.model, cache, candidates[row], len(prompt))
                torch.testing.assert_close(states[row], expected, atol=1e-4, rtol=0)
                prompt.append(int(candidates[row, chosen[row]]))
            tree.keep(chosen, 20)
    finally:
        part.model.set_attn_implementation(before)


def test_a_model_that_siblings_would_misread_or_that_changes_its_logits_after_the_head_is_refused(engines, monkeypatch):
    part = engines["qwen2"]._checkpoint
    require_siblings(part)
    own_head = part.model.get_output_embeddings()
    for place, name, value, words in (
        (CandidateTree, "_mask", lambda self, rows, siblings: None, "cannot look at several next tokens at once"),
        (part.model, "get_output_embeddings", lambda: lambda h: 1.05 * own_head(h), "differ from a plain pass's by"),
        (part.config, "final_logit_softcapping", 30.0, "Qwen2ForCausalLM cannot look at several next tokens"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(place, name, value, raising=False)
            assert words in refusal_of(require_siblings, part)
