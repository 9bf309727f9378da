"""Train with RL: bonuses as pure functions of a step's rollouts, and the trainers that add them to GRPO."""

from __future__ import annotations

from harness import hookimpl
from harness.hookspecs import Register


@hookimpl
def register_bonuses(register: Register) -> None:
    """Register RepExp's bonus, Unlikeliness, and no bonus (plain GRPO)."""
    register("repexp", "harness_plugins.rl.rewards:RepExpBonus")
    register("unlikely", "harness_plugins.rl.rewards:Unlikeliness")
    register("none", "harness_plugins.rl.rewards:NoBonus")


@hookimpl
def register_trainers(register: Register) -> None:
    """Register verl and TRL; each runs as a child process in its own environment."""
    register("verl", "harness_plugins.rl.verl_trainer:Verl")
    register("trl", "harness_plugins.rl.trl_trainer:Trl")


@hookimpl
def register_plots(register: Register) -> None:
    """Register the paper's figures on RL."""
    register("rl-passk", "harness_plugins.rl.figures:RlPassK")
    register("rl-passk-linear", "harness_plugins.rl.figures:RlPassKLinear")
    register("rl-likelihoods", "harness_plugins.rl.figures:RlLikelihoods")
