"""RepExp's bonus and Unlikeliness against their formulas, written out rollout by rollout as the papers have them.

Also no bonus (unlikely_bonus.py), and the metrics that every bonus gives (group_metrics.py).
"""

import numpy as np
import pytest
import torch
from support.refusals import refusal_of
from support.rollouts import brute_force_leverage, rollouts, with_rewards

from harness_plugins.rl.group_metrics import group_metrics
from harness_plugins.rl.leverage import centred, projected, sparse_projection
from harness_plugins.rl.repexp_bonus import RepExpBonus
from harness_plugins.rl.training import METRICS, Rollouts
from harness_plugins.rl.unlikely_bonus import NoBonus, Unlikeliness


@pytest.mark.parametrize("figure", ["leverage", "leave-one-out"])
def test_repexp_is_the_formula_written_out_and_remembers_nothing(figure):
    given, memory = rollouts(), {}
    bonus = RepExpBonus(beta=0.05, lam=0.5, dim=32, figure=figure)
    shaped = bonus.shape(given, step=3, seed=7, memory=memory)
    z = (given.hidden @ sparse_projection(96, 32, 7, 3)).numpy()
    for rows in given.groups().values():
        figures = np.array(brute_force_leverage(z[rows] - z[rows].mean(0), 0.5))
        if figure == "leave-one-out":
            figures = figures / (1 - figures)
        expected = given.rewards[rows].numpy() + 0.05 * figures * bool(given.rewards[rows].any())
        assert shaped.rewards[rows].numpy() == pytest.approx(expected, abs=1e-9)
    assert not memory


def test_a_group_without_a_correct_rollout_gets_nothing_unless_the_gate_is_off():
    mixed = [1.0, 0, 0, 0, 0, 0, 0, 0]
    rewards = {"problem-0": [0.0] * 8, "problem-1": [1.0] * 8, "problem-2": mixed, "problem-3": mixed[::-1]}
    given = with_rewards(rollouts(), rewards)
    shaped = RepExpBonus().shape(given, 0, 0, {})
    added = {problem: (shaped.rewards - given.rewards)[rows] for problem, rows in given.groups().items()}
    assert not added.pop("problem-0").any()
    assert all(bool((each > 0).all()) for each in added.values())
    assert shaped.metrics["gated"] == 0.25
    ungated = RepExpBonus(gate=False).shape(given, 0, 0, {})
    assert bool((ungated.rewards > given.rewards).all())
    assert ungated.metrics["gated"] == 0


def test_a_persistent_sum_goes_on_over_the_steps_of_a_problem():
    bonus, memory = RepExpBonus(persist=True, beta=1.0, lam=0.1), {}
    steps = [rollouts(seed, correct=1.0) for seed in (0, 10, 20)]
    shaped = [bonus.shape(given, step, 5, memory) for step, given in enumerate(steps)]
    rows = [given.groups()["problem-2"] for given in steps]
    h = [centred(projected(steps[i].hidden, 32, 5, 0)[rows[i]]).numpy() for i in range(3)]  # one projection for all
    expected = brute_force_leverage(h[2], 0.1, h[0].T @ h[0] + h[1].T @ h[1])
    assert (shaped[2].rewards - steps[2].rewards)[rows[2]].numpy() == pytest.approx(expected, abs=1e-9)
    assert float(shaped[1].metrics["bonus"]) < float(shaped[0].metrics["bonus"])  # what was seen is less novel
    assert set(memory) == set(steps[0].problems)


# Four states on a line, centred at 0: with lam = 4 their leverages are 9/16 and three times 1/16, of spread 1/4.
LINE, SAME = [[3.0], [-1.0], [-1.0], [-1.0]], [[5.0], [5.0 + 1e-7], [5.0], [5.0]]
GROUPS = {  # problem -> rewards, states
    "mixed": ([0.0, 1, 0, 0], LINE),
    "correct": ([1.0] * 4, LINE),
    "wrong": ([0.0] * 4, LINE),
    "alike": ([0.0, 1, 0, 0], SAME),
}


def added_by(bonus: RepExpBonus) -> tuple[dict[str, list[float]], float]:
    """What the bonus adds to each of `GROUPS`, and the share of them that it skips."""
    problems = [name for name in GROUPS for _ in range(4)]
    rewards, hidden = (torch.tensor([row for group in GROUPS.values() for row in group[i]]).double() for i in (0, 1))
    shaped = bonus.shape(Rollouts(problems, rewards, hidden), 0, 0, {})
    each = (shaped.rewards - rewards).view(-1, 4).tolist()
    return dict(zip(GROUPS, each, strict=True)), shaped.metrics["gated"]


def test_a_spread_scales_the_bonus_to_the_rewards_of_a_mixed_group_and_leaves_equal_rewards_to_beta():
    added, gated = added_by(RepExpBonus(spread=0.1, beta=0.16, lam=4))
    # The rewards 0, 1, 0, 0 have a standard deviation of 1/2, so the bonus has 1/20: a fifth of the leverages'.
    assert added["mixed"] == pytest.approx([0.075, -0.025, -0.025, -0.025], rel=1e-5)
    assert added["correct"] == pytest.approx([0.09, 0.01, 0.01, 0.01])
    assert added["wrong"] == [0] * 4
    assert added["alike"] == pytest.approx([0] * 4, abs=1e-6)  # what rounding leaves of equal states is not scaled up
    assert gated == 0.25
    ungated, _ = added_by(RepExpBonus(spread=0.1, beta=0.16, lam=4, gate=False))
    assert ungated.pop("wrong") == pytest.approx(added.pop("correct"))


def test_a_gate_on_mixed_groups_leaves_the_bonus_where_rewards_differ():
    always, _ = added_by(RepExpBonus(beta=0.16, lam=4, gate=False))
    mixed, gated = added_by(RepExpBonus(beta=0.16, lam=4, gate="mixed"))
    assert mixed == always | {"correct": [0] * 4, "wrong": [0] * 4}
    assert always["mixed"] == pytest.approx([0.09, 0.01, 0.01, 0.01])
    assert gated == 0.5


def test_the_defaults_are_the_papers_and_parameters_out_of_range_are_refused():
    bonus = RepExpBonus()
    assert (bonus.beta, bonus.lam, bonus.dim, bonus.gate, bonus.figure) == (0.01, 0.01, 32, True, "leverage")
    assert (bonus.persist, bonus.spread) == (False, None)
    assert refusal_of(RepExpBonus, spread=0.0) == "repexp: spread must be > 0, got 0.0"
    assert refusal_of(RepExpBonus, lam=0.0) == "repexp: lam must be > 0, got 0.0"
    assert refusal_of(RepExpBonus, dim=0) == "repexp: dim must be at least 1, got 0"
    assert (Unlikeliness().beta_rank, Unlikeliness().gate) == (0.25, True)
    for share in (-0.1, 1.1):
        assert refusal_of(Unlikeliness, share) == f"unlikely: beta_rank must be from 0 to 1, got {share}"
    Unlikeliness(0), Unlikeliness(1)


# The other bonuses


def test_unlikeliness_is_the_formula_written_out_and_leaves_groups_that_are_all_correct():
    rewards = {f"problem-{i}": [1.0] * 8 for i in range(4)} | {"problem-0": [1.0, 0.0] * 4}
    given = with_rewards(rollouts(), rewards)
    shaped, ungated = (Unlikeliness(gate=gate).shape(given, 0, 0, {}) for gate in (True, False))
    for problem, rows in given.groups().items():
        by_likelihood = sorted(range(8), key=lambda i: float(given.logprobs[rows][i]))
        for place, i in enumerate(by_likelihood):
            scaled = float(given.rewards[rows[i]]) * (1 - 0.25 * place / 8)
            assert float(ungated.rewards[rows[i]]) == pytest.approx(scaled, abs=1e-12)
            assert float(shaped.rewards[rows[i]]) == pytest.approx(scaled if problem == "problem-0" else 1.0, abs=1e-12)
    assert (shaped.metrics["gated"], ungated.metrics["gated"]) == (0.75, 0)
    equal = Rollouts(["a"] * 3, torch.tensor([1.0, 1, 0]).double(), logprobs=torch.tensor([-1.0, -1, -1]).double())
    assert Unlikeliness(beta_rank=0.75).shape(equal, 0, 0, {}).rewards.tolist() == [1, 0.75, 0]  # ranked by row


def test_no_bonus_changes_nothing_and_every_bonus_gives_the_same_metrics():
    given = rollouts()
    shaped = NoBonus().shape(given, 0, 0, {})
    assert torch.equal(shaped.rewards, given.rewards)
    assert (shaped.metrics["bonus"], shaped.metrics["bonus_spread"], shaped.metrics["gated"]) == (0, 0, 0)
    assert set(shaped.metrics) <= set(METRICS)
    for bonus in (RepExpBonus(), Unlikeliness()):
        assert bonus.shape(given, 0, 0, {}).metrics.keys() == shaped.metrics.keys()


def test_metrics_are_means_over_rollouts_and_shares_of_groups():
    problems = ["a", "b", "a", "b", "c", "c", "d", "d"]
    rewards = torch.tensor([1, 0, 1, 0, 1, 0, 1, 0]).double()
    added = torch.tensor([0.1, 0, 0.3, 0, 0, 0, 0, 0]).double()
    metrics = group_metrics(Rollouts(problems, rewards), added, 3)
    expected = {"reward": 0.5, "bonus": 0.05, "bonus_spread": 0.2 / 2**0.5 / 4}
    assert metrics == pytest.approx(expected | {"gated": 0.75, "all_correct": 0.25, "all_wrong": 0.25})
