"""Embedders `hidden-*`, whose vectors the engine gives."""

from __future__ import annotations

from support.refusals import refusal_of

from harness import Problem
from harness.plugin_system.component import build
from harness.plugin_system.registry import load_registry


def test_an_embedder_of_hidden_states_names_its_state_and_embeds_no_text():
    for state in ("mean", "last", "penultimate"):
        embedder = build(load_registry(), "embedder", f"hidden-{state}")
        assert embedder.state == state
        line = f"hidden-{state} takes the engine's hidden states and cannot embed texts by itself"
        assert refusal_of(embedder.embed, Problem("1", "Say a colour."), ["red"]) == line
