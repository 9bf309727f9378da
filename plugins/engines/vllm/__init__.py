"""The `vllm` engine: responses from vLLM, with their hidden states, from a child in an environment that has it."""

from __future__ import annotations

from harness import hookimpl
from harness.hookspecs import Register


@hookimpl
def register_engines(register: Register) -> None:
    """Register by name, so that listing engines imports nothing of it."""
    register("vllm", "harness_plugins.engines.vllm.engine:Vllm")
