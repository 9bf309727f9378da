"""Unlikeliness against its formula, no bonus, and the metrics that every bonus gives."""

import pytest
import torch
from support.refusals import refusal_of
from support.rollouts import rollouts, with_rewards

from harness.training import METRICS, Rollouts
from harness_plugins.rl.group_metrics import group_metrics
from harness_plugins.rl.repexp_bonus import RepExpBonus
from harness_plugins.rl.unlikely_bonus import NoBonus, Unlikeliness


def test_unlikeliness_is_the_formula_written_out_and_leaves_groups_that_are_all_correct():
    rewards = {f"problem-{i}": [1.0] * 8 for i in range(4)} | {"problem-0": [1.0, 0.0] * 4}
    given = with_rewards(rollouts(), rewards)
    bonus = Unlikeliness()
    assert (bonus.beta_rank, bonus.gate) == (0.25, True)  # the paper's
    shaped, ungated = bonus.shape(given, 0, 0, {}), Unlikeliness(gate=False).shape(given, 0, 0, {})
    for problem, rows in given.groups().items():
        by_likelihood = sorted(range(8), key=lambda i: float(given.logprobs[rows][i]))
        for place, i in enumerate(by_likelihood):
            scaled = float(given.rewards[rows[i]]) * (1 - 0.25 * place / 8)
            assert float(ungated.rewards[rows[i]]) == pytest.approx(scaled, abs=1e-12)
            assert float(shaped.rewards[rows[i]]) == pytest.approx(scaled if problem == "problem-0" else 1.0, abs=1e-12)
    assert (shaped.metrics["gated"], ungated.metrics["gated"]) == (0.75, 0)


def test_equal_likelihoods_are_ranked_by_row():
    given = Rollouts(["a"] * 3, torch.tensor([1.0, 1, 0]).double(), logprobs=torch.tensor([-1.0, -1, -1]).double())
    assert Unlikeliness(beta_rank=0.75).shape(given, 0, 0, {}).rewards.tolist() == [1, 0.75, 0]


def test_a_share_out_of_range_is_refused():
    for share in (-0.1, 1.1):
        assert refusal_of(Unlikeliness, share) == f"unlikely: beta_rank must be from 0 to 1, got {share}"
    Unlikeliness(0), Unlikeliness(1)


def test_no_bonus_changes_nothing():
    given = rollouts()
    shaped = NoBonus().shape(given, 0, 0, {})
    assert torch.equal(shaped.rewards, given.rewards)
    assert (shaped.metrics["bonus"], shaped.metrics["bonus_spread"], shaped.metrics["gated"]) == (0, 0, 0)


def test_metrics_are_means_over_rollouts_and_shares_of_groups():
    problems = ["a", "b", "a", "b", "c", "c", "d", "d"]
    rewards = torch.tensor([1, 0, 1, 0, 1, 0, 1, 0]).double()
    added = torch.tensor([0.1, 0, 0.3, 0, 0, 0, 0, 0]).double()
    metrics = group_metrics(Rollouts(problems, rewards), added, 3)
    expected = {"reward": 0.5, "bonus": 0.05, "bonus_spread": 0.2 / 2**0.5 / 4}
    assert metrics == pytest.approx(expected | {"gated": 0.75, "all_correct": 0.25, "all_wrong": 0.25})
    assert set(metrics) <= set(METRICS)
    for bonus in (RepExpBonus(), Unlikeliness(), NoBonus()):
        assert bonus.shape(rollouts(), 0, 0, {}).metrics.keys() == metrics.keys()
