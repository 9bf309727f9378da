"""`harness cost` and its kin: what a selector costs in seconds, and what it saves in verdicts."""

from __future__ import annotations

from harness import hookimpl
from harness.hookspecs import Register


@hookimpl
def register_papers(register: Register) -> None:
    """Register RepExp's table."""
    register("repexp-2025", "harness_plugins.cost.repexp_2025:repexp_2025")


@hookimpl
def register_pricers(register: Register) -> None:
    """Register the function that prices this table, or another paper's."""
    register("paper", "harness_plugins.cost.pricing:price")
