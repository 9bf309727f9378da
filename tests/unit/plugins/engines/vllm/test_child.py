"""What runs inside vLLM: hidden states are pooled from its steps whatever their order; tokens are counted."""

from types import SimpleNamespace

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from harness_plugins.engines.transformers.sampling import pool
from harness_plugins.engines.vllm.child.harness_vllm import protocol, worker
from harness_plugins.engines.vllm.child.harness_vllm.loading import pooled
from harness_plugins.engines.vllm.child.harness_vllm.sampling import Counts

WIDTH, END = 3, 9
KINDS = ("mean", "last", "penultimate")


class Model:
    """What vLLM's scheduler does to one request, and which states its steps then have."""

    def __init__(self, name, prompt, tokens, rng, computed=0):
        self.name, self.prompt, self.computed, self.again = name, prompt, computed, 0
        self.states = torch.from_numpy(rng.normal(size=(prompt + len(tokens), WIDTH)).astype(np.float32))
        self.ids = torch.tensor([1] * prompt + tokens, dtype=torch.int32)


def stepped(sums, batch):
    """One step: each request's next tokens, one behind the other, and padding."""
    parts = [(model.states[model.computed :][:count], model.ids[model.computed :][:count]) for model, count in batch]
    padding = (torch.full((2, WIDTH), torch.nan), torch.tensor([END, END], dtype=torch.int32))
    hidden, ids = (torch.cat(columns) for columns in zip(*parts, padding, strict=True))
    computed, counts = np.array([model.computed for model, _ in batch]), np.array([count for _, count in batch])
    sums.take_in(worker.Step([model.name for model, _ in batch], counts, computed, hidden, ids))
    for model, count in batch:
        model.computed += count


def started(kinds=KINDS):
    sums = worker.Sums(WIDTH, torch.device("cpu"))
    sums.start(kinds, [END])
    return sums


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1))
def test_states_are_pooled_right_whatever_order_the_tokens_pass_in(seed):
    """Chunked prompts, preemption (all passed again), steps past the end: as vLLM's scheduler may do them."""
    rng, sums, requests, lengths = np.random.default_rng(seed), started(), [], []
    for child in range(int(rng.integers(1, 6))):
        prompt, length = int(rng.integers(1, 6)), int(rng.integers(1, 8))
        tokens = [*rng.integers(0, END, length - 1).tolist(), END, *rng.integers(0, 12, 2).tolist()]  # 2 past the end
        requests.append(Model(f"{child}_d{prompt}x5-0a0a0a0a", prompt, tokens, rng))
        lengths.append(length)
    while left := [model for model in requests if model.computed < len(model.ids) - int(rng.integers(0, 2))]:
        some, batch = [model for model in left if rng.random() < 0.8] or left[:1], []
        rng.shuffle(some)
        for model in some:
            passed = model.computed
            if passed > model.prompt and rng.random() < 0.1:
                model.again, model.computed = passed, 0  # preempted: its first tokens pass again, up to where it was
            many = model.computed < max(model.prompt, model.again)
            room = max(model.prompt, model.again + 1) - model.computed if many else 1
            batch.append((model, int(rng.integers(1, room + 1))))
        stepped(sums, batch)
    children, counts, vectors = sums.take_out(5)
    assert (children, counts) == (sorted(children), lengths)
    for row, (model, length) in enumerate(zip(requests, lengths, strict=True)):
        own = model.states[model.prompt - 1 : model.prompt + length]
        expected, by_runner = pool(own[None], [length], KINDS), pooled(own.numpy(), KINDS)
        for kind, data in vectors.items():
            values = np.frombuffer(data, np.float32).reshape(-1, WIDTH)
            np.testing.assert_allclose(values[row], expected[kind][0], atol=1e-6)
            np.testing.assert_allclose(by_runner[kind], expected[kind][0], atol=1e-6)


def test_states_that_were_skipped_are_never_pooled():
    sums, rng = started(("mean",)), np.random.default_rng(0)
    cached, leapt, never = (Model(f"{i}_d4x1-0a", 4, [1, 2, 3, 4, 5], rng, 4 * (i == 0)) for i in range(3))
    stepped(sums, [(cached, 1), (leapt, 5), (never, 2)])  # leapt: an end may hide among several tokens
    stepped(sums, [(Model("g4x2-0a", 4, [1, 2, 3, 4, 5], rng, 4), 3)])  # a given one, its prompt's end cached
    assert (sums.take_out(1)[1], sums.take_out(2)[1]) == ([worker.BROKEN] * 3, [worker.BROKEN])


@given(st.integers(0, 20_000), st.booleans(), st.integers(1, 10**6), st.integers(0, 10**9))
def test_names_are_read_as_they_were_written_whatever_vllm_puts_around_them(child, sampled, prompt, number):
    name = protocol.written_name(sampled, prompt, number)
    assert protocol.read_name(f"{child}_{name}-0a1b2c3d") == (child, sampled, prompt, number)
    assert protocol.read_name(f"{name}-0a1b2c3d") == protocol.read_name(name) == (0, sampled, prompt, number)
    assert protocol.read_name(f"s{number}-0a1b2c3d") is None


def test_a_model_runner_is_named_by_the_known_class_that_it_extends():
    for base, name in (("gpu.model_runner", "V2"), ("next", "vllm.v1.worker.of_a_platform")):
        known = type("GPUModelRunner", (), {"__module__": f"vllm.v1.worker.{base}"})
        capture = worker.Capture()
        capture.model_runner = type("Runner", (known,), {"__module__": "vllm.v1.worker.of_a_platform"})()
        assert capture.harness_runner() == name


def test_sampled_tokens_and_ended_rows_are_counted_and_the_outputs_stay_as_they_are():
    def output(name, tokens, finish=None):
        return SimpleNamespace(request_id=name, new_token_ids=tokens, finish_reason=finish)

    steps = [
        [output("0_d31x7-a", [5]), output("1_d31x7-a", [6], "stop"), output("g31x8-b", [1], "length")],
        [output("0_d31x7-a", [5, 9], "length"), output("s9", [4])],
    ]
    returned = [SimpleNamespace(outputs=each) for each in steps]
    engine, told = SimpleNamespace(engine_core=SimpleNamespace(get_output=iter(returned).__next__)), []
    counts = Counts(engine)
    counts.report = lambda *new: told.append(new)
    for expected, due in zip(returned, (0, float("inf")), strict=True):
        assert engine.engine_core.get_output() is expected
        counts.due = due
        counts.look()
    assert (told, counts.tokens, counts.rows) == ([(2, 1)], 2, 1)
