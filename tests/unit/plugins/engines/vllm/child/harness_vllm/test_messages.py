"""What the harness and its child tell each other: messages, names of requests, and how a vLLM differs."""

from __future__ import annotations

import socket

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_plugins.engines.vllm.child.harness_vllm import contract, names, wire


@given(st.integers(0, 20_000), st.booleans(), st.integers(1, 10**6), st.integers(0, 10**9))
def test_names_are_read_as_they_were_written_whatever_vllm_puts_around_them(child, drawn, prompt, number):
    name = names.written(drawn, prompt, number)
    assert names.read(f"{child}_{name}-0a1b2c3d") == (child, drawn, prompt, number)
    assert names.read(f"{name}-0a1b2c3d") == names.read(name) == (0, drawn, prompt, number)
    assert names.read(f"s{number}-0a1b2c3d") is None


@pytest.fixture
def sockets():
    near, far = socket.socketpair()
    with near, far:
        yield near, far


def test_messages_arrive_whole_and_the_end_of_the_other_side_is_noticed(sockets):
    near, far = sockets
    rows = [[1, 2, 3], [], [4] * 5000]
    arrays = {**wire.packed("rows", rows), "mean": np.arange(6, dtype=np.float32).reshape(2, 3)}
    wire.send(near, {"do": "encode", "text": "ü"}, arrays)
    wire.send(near, {"end": True})
    head, received = wire.receive(far)
    assert head == {"do": "encode", "text": "ü"}
    assert wire.unpacked("rows", received) == rows
    assert np.array_equal(received["mean"], arrays["mean"])
    assert wire.receive(far) == ({"end": True}, {})
    near.sendall(wire.SIZES.pack(20, 0) + b"{")  # half a message
    near.close()
    assert wire.receive(far) is None


def test_a_contract_names_all_that_differs():
    assert (
        contract.differs({"json:JSONDecoder.decode": ("s",), "json.decoder:JSONDecoder.raw_decode": ("s", "idx")}) == ""
    )
    line = contract.differs({"json:loads": ("text",), "json:Nothing": (), "no_such_module:x": ()})
    assert "json:loads takes no text; json has no Nothing; no_such_module cannot be imported" in line
    assert "has no logprobs" in contract.differs({"harness.records:Sampler@logprobs": ()})
    assert contract.differs({"harness.records:Sampler@top_p": ()}) == ""
