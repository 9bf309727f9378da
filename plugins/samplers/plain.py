"""The built-in samplers: decoding parameters as data. Each parameter can be overridden (`min-p:p=0.1`).

vanilla     temperature 1, no filter: the model's own distribution
low-temp    temperature 0.6
high-temp   temperature 1.5
min-p       temperature 1.5, tokens below 0.05 times the largest probability dropped (Nguyen et al. 2024,
            arXiv:2407.01082); `p` is short for `min_p`
nucleus     top_p 0.9 (Holtzman et al. 2020, arXiv:1904.09751); `p` is short for `top_p`
"""

from __future__ import annotations

import math
from dataclasses import InitVar, dataclass, fields
from typing import ClassVar

from harness import HarnessError, Sampler, hookimpl
from harness.hookspecs import Register


@dataclass(frozen=True)
class Vanilla(Sampler):
    """The model's own distribution: temperature 1, nothing filtered.

    The other samplers inherit its checks; an error message begins with the sampler's name.
    """

    name: ClassVar[str] = "vanilla"

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            kind, number = ("a whole number", int) if field.name == "top_k" else ("a finite number", (int, float))
            if not isinstance(value, number) or isinstance(value, bool) or not math.isfinite(value):
                raise HarnessError(f"{self.name}: {field.name} must be {kind}, got {value!r}")
        try:
            super().__post_init__()
        except HarnessError as refusal:
            raise HarnessError(f"{self.name}: {str(refusal).removeprefix('sampler: ')}") from None

    def _take(self, p: float | None, field: str) -> None:
        """Set `field` to p, its short name on the command line; if both are given, they must be equal."""
        given = getattr(self, field)
        if p is not None and given not in (p, getattr(type(self), field)):
            raise HarnessError(f"{self.name}: p is short for {field}: give one of them, got {p} and {given}")
        object.__setattr__(self, field, given if p is None else p)


@dataclass(frozen=True)
class LowTemp(Vanilla):
    """The model's distribution made sharper: temperature 0.6."""

    name: ClassVar[str] = "low-temp"
    temperature: float = 0.6


@dataclass(frozen=True)
class HighTemp(Vanilla):
    """The model's distribution made flatter: temperature 1.5."""

    name: ClassVar[str] = "high-temp"
    temperature: float = 1.5


@dataclass(frozen=True)
class MinP(Vanilla):
    """Temperature 1.5, then only tokens with at least `min_p` times the largest probability.

    `p` is short for `min_p`.
    """

    name: ClassVar[str] = "min-p"
    temperature: float = 1.5
    min_p: float = 0.05
    p: InitVar[float | None] = None

    def __post_init__(self, p: float | None) -> None:
        self._take(p, "min_p")
        super().__post_init__()


@dataclass(frozen=True)
class Nucleus(Vanilla):
    """Temperature 1, then only the most probable tokens that together have at least `top_p` of the probability.

    `p` is short for `top_p`.
    """

    name: ClassVar[str] = "nucleus"
    top_p: float = 0.9
    p: InitVar[float | None] = None

    def __post_init__(self, p: float | None) -> None:
        self._take(p, "top_p")
        super().__post_init__()


@hookimpl
def register_samplers(register: Register) -> None:
    """Register the five samplers."""
    for sampler in (Vanilla, LowTemp, HighTemp, MinP, Nucleus):
        register(sampler.name, sampler)
