"""The transformers engine on small random checkpoints that are really saved and loaded."""

import random
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from support.exact_sampling import SAMPLERS, assert_sampled_from, probabilities
from support.processes import run_to_end
from support.tiny_checkpoints import (
    CONFIGS,
    LONG,
    SHORT,
    TEMPLATE,
    assert_same_responses,
    first_rows,
    save_checkpoint,
    small_tokenizer,
)
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    Qwen2ForSequenceClassification,
)

from harness import HarnessError, Responses, Sampler
from harness.records import SampleRequest
from harness_plugins.engines.row_chunks import out_of_memory
from harness_plugins.engines.transformers import engine as transformers_engine
from harness_plugins.engines.transformers import padding
from harness_plugins.engines.transformers.capture import final_decoder
from harness_plugins.engines.transformers.engine import Transformers
from harness_plugins.engines.transformers.row_streams import uniforms

STATES = ("mean", "last", "penultimate")

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """One folder for each kind of model; only the Llama has no chat template."""
    root = tmp_path_factory.mktemp("checkpoints")
    return {kind: save_checkpoint(root / kind, kind, None if kind == "llama" else TEMPLATE) for kind in CONFIGS}


@pytest.fixture(scope="module")
def engines(checkpoints):
    """An engine for each kind of model."""
    return {kind: Transformers(str(folder), device="cpu") for kind, folder in checkpoints.items()}


def sample(engine, prompts=(SHORT,), n=40, max_tokens=24, seeds=(3, 4), states=STATES, sampler=Sampler(), **more):  # noqa: B008
    """Sample with this file's usual settings."""
    seeds = seeds[: len(prompts)]
    return engine.sample(
        SampleRequest(prompts, n=n, sampler=sampler, max_tokens=max_tokens, seeds=seeds, states=states, **more)
    )


def second_pass(model, prompt_ids, rows):
    """States and log-probabilities of responses of equal length: unpadded, without a cache."""
    tokens = torch.tensor(rows)
    prompt = torch.tensor(prompt_ids).expand(len(rows), -1)
    with torch.inference_mode():
        out = model(torch.cat([prompt, tokens], 1), output_hidden_states=True, use_cache=False)
    states = out.hidden_states[-1][:, len(prompt_ids) - 1 :]
    logprobs = out.logits[:, len(prompt_ids) - 1 : -1].double().log_softmax(-1)
    chosen = logprobs.gather(2, tokens[:, :, None]).sum((1, 2)).numpy()
    return {"mean": states[:, 1:].mean(1), "last": states[:, -1], "penultimate": states[:, -2]}, chosen


@pytest.mark.parametrize("kind", CONFIGS)
def test_states_and_logprobs_are_those_of_a_second_unpadded_pass(engines, checkpoints, kind):
    both = sample(engines[kind], [SHORT, LONG], n=200, sampler=Sampler(temperature=1.6, top_p=0.99))
    model = AutoModelForCausalLM.from_pretrained(checkpoints[kind])
    sorts = set()
    for prompt, responses in zip([SHORT, LONG], both, strict=True):
        prompt_ids = engines[kind]._checkpoint.prompt_ids(prompt)
        for length in set(responses.lengths):
            rows = np.flatnonzero(responses.lengths == length)
            states, logprobs = second_pass(model, prompt_ids, [responses.token_ids[i] for i in rows])
            np.testing.assert_allclose(responses.logprobs[rows], logprobs, atol=1e-4)
            for name in STATES:
                np.testing.assert_allclose(responses.states[name][rows], states[name], atol=1e-4)
            sorts |= {(min(length, 2), responses.finish[i]) for i in rows}
    assert sorts == {(1, "stop"), (2, "stop"), (2, "length")}  # one token; more; cut off


@pytest.mark.parametrize("batch", [1, 7, 64])
def test_the_batch_size_changes_nothing(engines, checkpoints, batch):
    [whole] = sample(engines["qwen2"])
    [parts] = sample(Transformers(str(checkpoints["qwen2"]), device="cpu", batch=batch))
    assert_same_responses(parts, whole)


@pytest.mark.parametrize("kind", CONFIGS)
def test_fewer_rows_are_the_first_of_more(engines, kind):
    [few], [many] = sample(engines[kind], n=8), sample(engines[kind], n=32)
    assert_same_responses(few, first_rows(many, 8))


def test_fewer_tokens_are_the_first_of_more(engines):
    [short], [long] = sample(engines["qwen2"], max_tokens=6), sample(engines["qwen2"], max_tokens=24)
    assert short.token_ids == [ids[:6] for ids in long.token_ids]


@pytest.mark.parametrize("kind", CONFIGS)
def test_prompts_of_unequal_length_change_nothing_in_each_other(engines, kind):
    together = sample(engines[kind], [SHORT, LONG])
    assert_same_responses(together[0], sample(engines[kind], [SHORT], seeds=(3,))[0])
    assert_same_responses(together[1], sample(engines[kind], [LONG], seeds=(4,))[0])


def test_a_shared_prompt_cache_changes_nothing(engines, monkeypatch):
    shared = sample(engines["qwen2"], [SHORT, LONG])
    monkeypatch.setattr(padding, "_shared_cache", lambda *_: None)
    for with_cache, without in zip(shared, sample(engines["qwen2"], [SHORT, LONG]), strict=True):
        assert_same_responses(with_cache, without)


def test_only_plain_caches_are_shared(engines):
    def cache(kind):
        with torch.inference_mode():
            return padding.left_padded(engines[kind]._checkpoint, [[5, 6, 7]]).cache

    assert {kind for kind in CONFIGS if cache(kind) is not None} == {"qwen2", "llama", "gpt2"}


def test_states_do_not_change_what_is_drawn(engines):
    [with_states], [without] = sample(engines["qwen2"]), sample(engines["qwen2"], states=())
    assert_same_responses(without, replace(with_states, states={}))


def test_only_the_states_asked_for_are_kept(engines):
    assert set(sample(engines["qwen2"], n=2, states=("last",))[0].states) == {"last"}


def test_out_of_memory_halves_the_batch_and_changes_nothing(checkpoints, monkeypatch):
    engine = Transformers(str(checkpoints["qwen2"]), device="cpu")
    model = engine._checkpoint.model
    generate, refused, reported = model.generate, [], []

    def cramped(**inputs):
        if len(inputs["input_ids"]) > 12:
            refused.append(len(inputs["input_ids"]))
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")
        return generate(**inputs)

    [whole] = sample(engine)
    monkeypatch.setattr(model, "generate", cramped)
    [halved] = sample(engine, report=reported.append)
    assert refused == [40, 20]
    assert reported == [10, 10, 10, 10]
    assert_same_responses(halved, whole)
    sample(engine)
    assert refused == [40, 20]  # what did not fit is not tried again


@pytest.mark.parametrize("states", [(), STATES])
def test_rows_that_have_ended_are_left_behind(checkpoints, monkeypatch, states):
    engine = Transformers(str(checkpoints["qwen2"]), device="cpu")
    model, _ = engine._checkpoint.model, engine._checkpoint.decoder
    forward, rows = model.forward, []

    def counted(*args, **inputs):
        rows.append(len(inputs["input_ids"]))
        return forward(*args, **inputs)

    monkeypatch.setattr(model, "forward", counted)
    [responses] = sample(engine, n=200, states=states)
    assert sum(rows) <= 2 * (responses.lengths + 1).sum()  # at least half of the rows in each step were needed
    assert len(rows) == 24 + bool(states)


def test_a_single_row_that_does_not_fit_is_an_error_of_one_line(checkpoints, monkeypatch):
    engine = Transformers(str(checkpoints["qwen2"]), device="cpu")

    def full(**inputs):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(engine._checkpoint.model, "generate", full)
    with pytest.raises(HarnessError, match="not even one response at a time"):
        sample(engine)


def test_a_real_failed_allocation_is_known_as_out_of_memory():
    with pytest.raises(RuntimeError) as failure:
        torch.empty(2**50)
    assert out_of_memory(failure.value)
    assert not out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))


@pytest.mark.parametrize("kind", CONFIGS)
def test_encode_gives_the_states_of_the_sampling_pass(engines, kind):
    [responses] = sample(engines[kind], [LONG])
    for name, values in engines[kind].encode(LONG, responses, STATES).items():
        assert values.dtype == np.float32
        np.testing.assert_allclose(values, responses.states[name], atol=1e-4)


def test_encode_tokenizes_texts_and_ends_those_that_had_stopped(engines, checkpoints):
    texts, finish = ["1 + 2 = 3", "puzzle", "puzzle"], ["stop", "stop", "length"]
    given = Responses(texts, finish, np.zeros(3), np.zeros(3))
    states = engines["qwen2"].encode(SHORT, given, STATES)
    model, tokenizer = (auto.from_pretrained(checkpoints["qwen2"]) for auto in (AutoModelForCausalLM, AutoTokenizer))
    for i, (text, end) in enumerate(zip(texts, finish, strict=True)):
        ids = tokenizer(text, add_special_tokens=False)["input_ids"] + ([1] if end == "stop" else [])
        expected, _ = second_pass(model, engines["qwen2"]._checkpoint.prompt_ids(SHORT), [ids])
        for name in STATES:
            np.testing.assert_allclose(states[name][i], expected[name][0], atol=1e-4)


@pytest.mark.parametrize("kind", CONFIGS)
def test_score_gives_the_log_probabilities_of_the_sampling_pass(engines, kind):
    [responses] = sample(engines[kind], [LONG])
    np.testing.assert_allclose(engines[kind].score(LONG, responses), responses.logprobs, atol=1e-3)


def test_score_is_the_sum_over_the_responses_tokens_for_any_text(engines, checkpoints):
    texts, finish = ["1 + 2 = 3", "puzzle", "puzzle"], ["stop", "stop", "length"]
    given = Responses(texts, finish, np.zeros(3), np.zeros(3))
    scores = engines["qwen2"].score(SHORT, given)
    model, tokenizer = (auto.from_pretrained(checkpoints["qwen2"]) for auto in (AutoModelForCausalLM, AutoTokenizer))
    prompt = engines["qwen2"]._checkpoint.prompt_ids(SHORT)
    for score, text, end in zip(scores, texts, finish, strict=True):
        ids = tokenizer(text, add_special_tokens=False)["input_ids"] + ([1] if end == "stop" else [])
        with torch.inference_mode():
            logprobs = model(torch.tensor([prompt + ids])).logits[0].double().log_softmax(-1)
        expected = sum(float(logprobs[len(prompt) - 1 + place, token]) for place, token in enumerate(ids))
        assert score == pytest.approx(expected, abs=1e-3)


def test_a_response_of_no_token_has_the_state_of_its_prompt(engines):
    [one] = sample(engines["qwen2"], max_tokens=1, n=1)
    for texts in (["", "puzzle"], [""]):
        empty = Responses(texts, ["length"] * len(texts), np.zeros(len(texts)), np.zeros(len(texts)))
        for values in engines["qwen2"].encode(SHORT, empty, STATES).values():
            np.testing.assert_allclose(values[0], one.states["penultimate"][0], atol=1e-4)


def test_rows_are_reported_as_they_are_finished(checkpoints):
    engine, rows = Transformers(str(checkpoints["qwen2"]), device="cpu", batch=16), []
    [responses] = sample(engine, report=rows.append)
    assert rows == [16, 16, 8]
    rows.clear()
    engine.encode(SHORT, responses, STATES, report=rows.append)
    assert sum(rows) == 40


def events(engine, prompts, **options):
    """What a call told, in order: rows finished, and prompts; and what it returned."""
    told, prompts_done = [], {}

    def done(j, responses):
        told.append(f"prompt {j}")
        prompts_done[j] = responses

    responses = sample(engine, prompts, report=lambda rows: told.append(rows), done=done, **options)
    for j, one in enumerate(responses):
        assert_same_responses(prompts_done[j], one)
    return told, responses


def test_a_prompt_is_done_as_soon_as_its_last_row_is(checkpoints):
    engine = Transformers(str(checkpoints["qwen2"]), device="cpu", batch=16)
    told, responses = events(engine, [SHORT, LONG], n=20)
    assert told == [16, 16, "prompt 0", 8, "prompt 1"]
    for one, whole in zip(responses, sample(engine, [SHORT, LONG], n=20), strict=True):
        assert_same_responses(one, whole)


def test_a_large_model_on_a_cpu_finishes_its_problems_some_at_a_time(checkpoints, monkeypatch):
    engine = Transformers(str(checkpoints["qwen2"]), device="cpu")
    whole = sample(engine, [SHORT, LONG], n=20)
    monkeypatch.setattr(transformers_engine, "LARGE", 0)
    monkeypatch.setattr(transformers_engine, "CPU_ROWS", 30)
    told, responses = events(engine, [SHORT, LONG], n=20)
    assert told == [20, "prompt 0", 20, "prompt 1"]
    for one, other in zip(responses, whole, strict=True):
        assert_same_responses(one, other)
    assert [engine._at_once(n) for n in (1, 10, 16, 40, 300)] == [30, 30, 16, 40, 256]


def test_streams_come_from_seed_and_row_alone():
    assert uniforms(5, 3, 4).tolist() == uniforms(5, 3, 9)[:4].tolist()
    assert len({uniforms(seed, row, 1)[0] for seed in range(20) for row in range(20)}) == 400


def test_the_global_generators_are_neither_read_nor_moved(engines):
    torch.manual_seed(1)
    [first] = sample(engines["qwen2"])
    torch.manual_seed(2)
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    [second] = sample(engines["qwen2"])
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1:] == (random.getstate(), np.random.get_state()[1].tolist())
    assert first.token_ids == second.token_ids


@pytest.mark.parametrize("name", SAMPLERS)
def test_first_tokens_follow_the_exact_distribution(engines, name):
    model, sampler = engines["qwen2"]._checkpoint.model, SAMPLERS[name]()
    with torch.inference_mode():
        logits = model(torch.tensor([engines["qwen2"]._checkpoint.prompt_ids(LONG)])).logits[0, -1].double().numpy()
    [responses] = sample(engines["qwen2"], [LONG], n=5000, max_tokens=1, states=(), sampler=sampler)
    assert_sampled_from(np.concatenate(responses.token_ids), probabilities(sampler, logits))


def test_decoding_defaults_of_the_checkpoint_do_not_leak(engines):
    [responses] = sample(engines["qwen2"], n=1000, max_tokens=1, states=())
    assert len({ids[0] for ids in responses.token_ids}) > 50


def test_every_end_token_of_the_checkpoint_ends_a_response(engines):
    [responses] = sample(engines["qwen2"], n=200, states=())
    ends = {ids[-1] for ids, finish in zip(responses.token_ids, responses.finish, strict=True) if finish == "stop"}
    assert ends == {1, 2}
    assert not any(token in (1, 2) for ids in responses.token_ids for token in ids[:-1])
    cut = [ids for ids, finish in zip(responses.token_ids, responses.finish, strict=True) if finish == "length"]
    assert cut
    assert not any(ids[-1] in (1, 2) for ids in cut)


def test_texts_hold_no_special_tokens(engines):
    [responses] = sample(engines["qwen2"])
    assert not any("<end>" in text or "<s>" in text for text in responses.texts)


def test_a_chat_follows_the_template_with_a_single_first_token(engines, checkpoints):
    ids = engines["qwen2"]._checkpoint.prompt_ids(SHORT)
    assert AutoTokenizer.from_pretrained(checkpoints["qwen2"]).decode(ids) == "<s>user: 1 2 3 4\nassistant:"


def test_without_a_template_the_messages_are_joined_by_blank_lines(engines, checkpoints):
    chat = [{"role": "system", "content": "solve"}, *SHORT]
    ids = engines["llama"]._checkpoint.prompt_ids(chat)
    assert ids == AutoTokenizer.from_pretrained(checkpoints["llama"])("solve\n\n1 2 3 4")["input_ids"]
    assert ids.count(0) == 1


def test_a_prompt_of_one_token_needs_no_cache(engines):
    [responses] = sample(engines["llama"], [[{"role": "user", "content": ""}]], n=8)
    assert len(responses) == 8


def test_max_tokens_beyond_the_context_name_what_would_fit(engines):
    engine = engines["qwen2"]
    longest = len(engine._checkpoint.prompt_ids(LONG))
    engine.check([SHORT, LONG], 128 - longest)
    with pytest.raises(
        HarnessError, match=f"{longest} tokens.* 200 more .*context of 128: .*can be {128 - longest} at most"
    ):
        engine.check([SHORT, LONG], 200)
    with pytest.raises(HarnessError, match="no --max-tokens fits"):
        engine.check([[{"role": "user", "content": "puzzle " * 200}]], 1)


def test_checking_and_identity_load_no_weights(checkpoints):
    engine = Transformers(str(checkpoints["qwen2"]))
    engine.check([SHORT], 8)
    engine.identity()
    assert "model" not in vars(engine._checkpoint)


def test_a_response_beyond_the_context_is_refused(engines):
    with pytest.raises(HarnessError, match="more than the context of 128"):
        engines["qwen2"].encode(SHORT, Responses(["puzzle " * 300], ["stop"], np.zeros(1), np.zeros(1)), STATES)


def test_the_identity_follows_the_content_of_a_folder(checkpoints, tmp_path):
    engine = Transformers(str(checkpoints["gpt2"]), device="cpu")
    copied = save_checkpoint(tmp_path / "gpt2", "gpt2")
    assert Transformers(str(copied), device="cpu", batch=3).identity() == engine.identity()
    assert engine.identity().keys() == {"engine", "model", "revision", "dtype"}
    (copied / "notes.md").write_text("no part of the model")
    assert Transformers(str(copied), device="cpu").identity() == engine.identity()
    changed = save_checkpoint(copied, "gpt2", end_scale=2.0)
    assert Transformers(str(changed), device="cpu").identity()["revision"] != engine.identity()["revision"]


def test_the_decoder_is_tried_before_it_is_trusted(checkpoints):
    model = AutoModelForCausalLM.from_pretrained(checkpoints["qwen2"])
    assert final_decoder(model, "small") is model.model
    model.model.register_forward_hook(lambda module, args, out: out.__setitem__("last_hidden_state", out[0] + 1))
    with pytest.raises(HarnessError, match="small: cannot find where Qwen2ForCausalLM gives"):
        final_decoder(model, "small")


def test_a_steering_sampler_that_does_not_say_how_is_refused(engines):
    class Silent(Sampler):
        steers = True

    with pytest.raises(HarnessError, match="Silent has steers = True, but no steering"):
        sample(engines["qwen2"], sampler=Silent())


def test_an_unknown_state_is_refused(engines):
    with pytest.raises(HarnessError, match="no state 'first', only mean, last, penultimate"):
        sample(engines["qwen2"], states=("first",))


def test_paths_that_lead_nowhere_are_errors_of_one_line(checkpoints, tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "config.json").write_text((checkpoints["qwen2"] / "config.json").read_text())
    for path, message in {
        str(tmp_path / "nowhere"): "does not exist",
        "./nowhere/at/all": "does not exist",
        str(tmp_path / "file"): "is a file",
        str(tmp_path / "empty"): "has no config.json",
        str(bare): "has no weights",
    }.items():
        with pytest.raises(HarnessError, match=message) as error:
            Transformers(path)
        assert "\n" not in str(error.value)
    (bare / "model.safetensors").touch()
    with pytest.raises(HarnessError, match="has no tokenizer"):
        Transformers(str(bare))


def test_a_broken_folder_is_an_error_of_one_line(checkpoints, tmp_path):
    folder = save_checkpoint(tmp_path / "broken", "gpt2")
    (folder / "model.safetensors").write_bytes(b"not weights")
    with pytest.raises(HarnessError, match="broken cannot be loaded"):
        sample(Transformers(str(folder), device="cpu"))
    (folder / "config.json").write_text("{")
    with pytest.raises(HarnessError, match="broken cannot be loaded"):
        Transformers(str(folder), device="cpu").identity()


def test_what_is_no_causal_language_model_is_refused(checkpoints, tmp_path):
    Qwen2ForSequenceClassification(CONFIGS["qwen2"]).save_pretrained(tmp_path / "classifier")
    small_tokenizer(TEMPLATE).save_pretrained(tmp_path / "classifier")
    with pytest.raises(HarnessError, match=r"Qwen2ForSequenceClassification.* is not a causal language model"):
        Transformers(str(tmp_path / "classifier"), device="cpu").identity()


def test_weights_without_a_head_are_refused_rather_than_invented(checkpoints, tmp_path):
    folder = save_checkpoint(tmp_path / "headless", "qwen2")
    weights = load_file(folder / "model.safetensors")
    del weights["lm_head.weight"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(HarnessError, match=r"weights lack lm_head\.weight"):
        sample(Transformers(str(folder), device="cpu"))


def test_a_hub_model_out_of_reach_is_an_error_of_one_line(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(HarnessError, match=r"cannot be fetched \(offline\?\): give a local folder"):
        Transformers("no-such-owner/no-such-model", device="cpu").identity()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"dtype": "int8"}, "dtype must be one of"),
        ({"batch": 0}, "batch must be"),
        ({"revision": "main"}, "is a folder, which has no revision"),
        ({"device": "abacus"}, "device 'abacus' cannot be used"),
    ],
)
def test_wrong_parameters_are_refused(checkpoints, parameters, message):
    with pytest.raises(HarnessError, match=message):
        Transformers(str(checkpoints["qwen2"]), **parameters).identity()


def test_nothing_is_printed(checkpoints, capfd):
    sample(Transformers(str(checkpoints["gpt2"]), device="cpu"))
    assert capfd.readouterr() == ("", "")


def test_building_the_engine_imports_no_torch(checkpoints):
    code = (
        "import sys; from harness_plugins.engines.transformers.engine import Transformers; "
        f"print(Transformers({str(checkpoints['qwen2'])!r}).name); "
        "assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    done = run_to_end([sys.executable, "-c", code])
    assert (done.stdout, done.stderr) == ("qwen2\n", "")
