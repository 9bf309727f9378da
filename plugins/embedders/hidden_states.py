"""Embedders whose vectors are the engine's hidden states, which the engine pools while it samples.

hidden-mean          the mean over all T response tokens (the end-of-sequence token included) of the last hidden
                     state after the final norm (Tuyls et al. 2025, arXiv:2510.11686)
hidden-last          that state at the last token
hidden-penultimate   that state at the last token but one; for T = 1 at the prompt's last position
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NoReturn

from harness import HarnessError, Problem, hookimpl
from harness.hookspecs import Register


@dataclass(frozen=True)
class HiddenMean:
    """The mean state over the response's tokens."""

    state: ClassVar[str] = "mean"

    def embed(self, problem: Problem, texts: Sequence[str]) -> NoReturn:
        """Raise HarnessError: these vectors come from `Engine.sample` (from `Engine.encode` for given responses)."""
        raise HarnessError(f"hidden-{self.state} takes the engine's hidden states and cannot embed texts by itself")


@dataclass(frozen=True)
class HiddenLast(HiddenMean):
    """The state at the last token."""

    state: ClassVar[str] = "last"


@dataclass(frozen=True)
class HiddenPenultimate(HiddenMean):
    """The state at the last token but one."""

    state: ClassVar[str] = "penultimate"


@hookimpl
def register_embedders(register: Register) -> None:
    """Register the three embedders."""
    for embedder in (HiddenMean, HiddenLast, HiddenPenultimate):
        register(f"hidden-{embedder.state}", embedder)
