"""RepExp's bonus against its formula, written out rollout by rollout as the paper and its code have it."""

import numpy as np
import pytest
from support.refusals import refusal_of
from support.rollouts import brute_force_leverage, rollouts, with_rewards

from harness.training import Rollouts
from harness_plugins.rl.leverage import centred, projected, sparse_projection
from harness_plugins.rl.repexp_bonus import RepExpBonus


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


def test_the_defaults_are_the_papers():
    bonus = RepExpBonus()
    assert (bonus.beta, bonus.lam, bonus.dim, bonus.gate, bonus.figure) == (0.01, 0.01, 32, True, "leverage")


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


def test_groups_do_not_see_each_other_and_the_order_of_rows_changes_nothing():
    given = rollouts(groups=3)
    whole = RepExpBonus().shape(given, 0, 0, {}).rewards
    for problem, rows in given.groups().items():
        alone = Rollouts([problem] * len(rows), given.rewards[rows], given.hidden[rows])
        assert RepExpBonus().shape(alone, 0, 0, {}).rewards.numpy() == pytest.approx(whole[rows].numpy(), abs=1e-12)


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


def test_parameters_out_of_range_are_refused():
    assert refusal_of(RepExpBonus, lam=0.0) == "repexp: lam must be > 0, got 0.0"
    assert refusal_of(RepExpBonus, dim=0) == "repexp: dim must be at least 1, got 0"
