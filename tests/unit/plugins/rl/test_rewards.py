"""The grader as a reward, and the bonuses against their formulas, written out rollout by rollout as in the papers."""

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.refusals import refusal_of
from support.rollouts import brute_force_leverage, random_rows, rollouts, with_rewards

from harness import Problem, Task, correct, error, wrong
from harness_plugins.rl.checkpoints import load_memory, save_memory
from harness_plugins.rl.rewards import (
    Grader,
    NoBonus,
    RepExpBonus,
    Shaping,
    Unlikeliness,
    group_metrics,
    leverage,
    projected,
    sparse_projection,
)
from harness_plugins.rl.training import METRICS, Rollouts, Settings, TrainingRun

PROBLEM = Problem("train-5", "How many is 5?", "5")
UNKNOWN = [""] * 5  # how responses ended


def run_of(task: str = "game24", reward: str = "verifier", bonus: str = "none") -> TrainingRun:
    return TrainingRun(Path("run"), task, "model", bonus, "trl", 3, Settings(), {}, reward=reward)


def test_each_reward_has_its_grader():
    responses = ("I think 5", "The answer is 5", r"so \boxed{5}", "#### $5", "#### 5")
    for reward, rewards in (("strict", [0, 0, 0, 0, 1]), ("lenient", [0, 0, 1, 1, 1]), ("verifier", [0, 0, 1, 1, 1])):
        grader = Grader(run_of("gsm8k:fallback=no", reward))
        assert grader.rewards(PROBLEM, responses, UNKNOWN) == rewards, reward


class Ends(Task):
    """Judges by how a response ended; the second grader by its text, and says nothing of a."""

    def verify_all(self, problem, responses, *, finish):
        return [{"stop": correct(), "length": wrong("cut")}.get(end, error("unknown")) for end in finish]

    def audit(self, problem, response):
        return {"b": correct(), "a": None, "c": wrong("ended")}[response]


def test_the_verifier_knows_how_responses_ended_and_an_error_is_counted_and_gives_nothing():
    for reward, rewards in (("verifier", [1, 0, 0]), ("strict", [0, 1, 0])):
        grader = Grader(run_of(reward=reward))
        grader.task = Ends()
        assert grader.rewards(PROBLEM, ["a", "b", "c"], ["stop", "length", "odd"]) == rewards
        assert grader.errors == 1


def test_a_bonus_memory_is_kept_with_a_checkpoint(tmp_path):
    first, second = (Shaping(run_of(bonus="repexp:persist=true")) for _ in range(2))
    assert (first.needs("hidden"), first.needs("logprobs")) == (True, False)
    steps = [rollouts(seed, correct=1.0) for seed in (0, 10)]
    alone = first.shape(steps[1], 1).rewards
    assert load_memory(tmp_path) == {}
    first.shape(steps[0], 0)
    save_memory(first.memory, tmp_path)
    second.memory = load_memory(tmp_path)
    again = second.shape(steps[1], 1).rewards
    assert torch.equal(first.shape(steps[1], 1).rewards, again)
    assert not torch.equal(again, alone)


# Leverages and the projection

SIZES = ((8, 32), (8, 4), (2, 1), (16, 16), (5, 128))


def centred(h: torch.Tensor) -> torch.Tensor:
    return h - h.mean(0)


def test_leverage_is_that_of_one_update_a_rollout():
    for remembered, (n, k), lam in itertools.product((0, 20), SIZES, (0.01, 1.0, 50.0)):
        h, before = centred(random_rows(n + k, n, k)), random_rows(2, remembered, k)
        memory = before.T @ before if remembered else None
        expected = brute_force_leverage(h.numpy(), lam, before.numpy().T @ before.numpy())
        assert leverage(h, lam, memory).numpy() == pytest.approx(expected, abs=1e-8), (remembered, n, k, lam)


@given(st.integers(0, 10_000), st.integers(2, 12), st.integers(1, 40), st.floats(1e-12, 1e3), st.floats(1e-3, 1e3))
def test_leverages_are_from_nothing_to_one_and_sum_to_the_trace_however_small_lam_is(seed, n, k, lam, scale):
    h = centred(random_rows(seed, n, k, scale))
    figures, eigenvalues = leverage(h, lam), torch.linalg.svdvals(h) ** 2
    assert bool(((figures >= 0) & (figures <= 1)).all())
    assert float(figures.sum()) == pytest.approx(float((eigenvalues / (eigenvalues + lam)).sum()), abs=1e-8)


def test_the_projection_is_the_sparse_one_of_the_authors_drawn_from_seed_and_step_alone():
    first = sparse_projection(3584, 32, 7, 3).clone()
    others = [sparse_projection(3584, 32, *place) for place in ((8, 3), (7, 4))]  # and the cache forgets the first
    torch.manual_seed(2)
    np.random.seed(2)
    assert torch.equal(first, sparse_projection(3584, 32, 7, 3))
    assert not any(torch.equal(first, other) for other in others)
    values = first[first != 0]
    assert values.abs().numpy() == pytest.approx(math.sqrt(math.sqrt(3584) / 32))  # ±1.368
    assert len(values) / first.numel() == pytest.approx(1 / math.sqrt(3584), rel=0.1)
    assert float((values > 0).double().mean()) == pytest.approx(0.5, abs=0.05)


def test_narrow_states_are_not_projected_and_what_is_no_number_is_refused():
    h = random_rows(0, 40, 32).float()
    assert torch.equal(projected(h, 32, 0, 0), h.double())
    for value in (math.nan, math.inf):
        h[3, 4] = value
        assert refusal_of(projected, h, 32, 0, 0) == "bonus: the hidden states hold NaN or inf"


# RepExp's bonus


@pytest.mark.parametrize("figure", ["leverage", "leave-one-out"])
def test_repexp_is_the_formula_written_out_and_remembers_nothing(figure):
    given, memory = rollouts(), {}
    bonus = RepExpBonus(beta=0.05, lam=0.5, dim=32, figure=figure)
    shaped = bonus.shape(given, step=3, seed=7, memory=memory)
    z = (given.hidden @ sparse_projection(96, 32, 7, 3)).numpy()
    for rows in given.groups().values():
        h = z[rows] - z[rows].mean(0)
        figures = brute_force_leverage(h, 0.5)
        if figure == "leave-one-out":
            others = [np.delete(h, row, axis=0) for row in range(8)]
            inverses = [np.linalg.inv(other.T @ other + 0.5 * np.eye(32)) for other in others]
            figures = [float(row @ inverse @ row) for row, inverse in zip(h, inverses, strict=True)]
        expected = given.rewards[rows].numpy() + 0.05 * np.array(figures) * bool(given.rewards[rows].any())
        assert shaped.rewards[rows].numpy() == pytest.approx(expected, abs=1e-9)
    assert not memory


def test_a_persistent_sum_goes_on_over_the_steps_of_a_problem():
    bonus, memory = RepExpBonus(persist=True, beta=1.0, lam=0.1), {}
    steps = [rollouts(seed, correct=1.0) for seed in (0, 10, 20)]
    shaped = [bonus.shape(given, step, 5, memory) for step, given in enumerate(steps)]
    rows = [given.groups()["problem-2"] for given in steps]
    h = [centred(projected(steps[i].hidden, 32, 5, 0)[rows[i]]).numpy() for i in range(3)]  # one projection for all
    expected = brute_force_leverage(h[2], 0.1, h[0].T @ h[0] + h[1].T @ h[1])
    assert (shaped[2].rewards - steps[2].rewards)[rows[2]].numpy() == pytest.approx(expected, abs=1e-9)
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


def test_gates_leave_out_groups_that_are_all_wrong_or_all_alike_in_their_rewards():
    always, never_gated = added_by(RepExpBonus(beta=0.16, lam=4, gate=False))
    wrong_gated, gated = added_by(RepExpBonus(beta=0.16, lam=4))
    mixed, both_gated = added_by(RepExpBonus(beta=0.16, lam=4, gate="mixed"))
    assert (never_gated, gated, both_gated) == (0, 0.25, 0.5)
    assert always["mixed"] == pytest.approx([0.09, 0.01, 0.01, 0.01])
    assert always["wrong"] == pytest.approx(always["mixed"])
    assert wrong_gated == always | {"wrong": [0] * 4}
    assert mixed == always | {"correct": [0] * 4, "wrong": [0] * 4}


def test_a_spread_scales_the_bonus_to_the_rewards_of_a_mixed_group_and_leaves_equal_rewards_to_beta():
    added, gated = added_by(RepExpBonus(spread=0.1, beta=0.16, lam=4))
    # The rewards 0, 1, 0, 0 have a standard deviation of 1/2, so the bonus has 1/20: a fifth of the leverages'.
    assert added["mixed"] == pytest.approx([0.075, -0.025, -0.025, -0.025], rel=1e-5)
    assert added["correct"] == pytest.approx([0.09, 0.01, 0.01, 0.01])
    assert added["wrong"] == [0] * 4
    assert added["alike"] == pytest.approx([0] * 4, abs=1e-6)  # what rounding leaves of equal states is not scaled up
    assert gated == 0.25


def test_the_defaults_are_the_papers_and_parameters_out_of_range_are_refused():
    bonus = RepExpBonus()
    assert (bonus.beta, bonus.lam, bonus.dim, bonus.gate, bonus.figure) == (0.01, 0.01, 32, True, "leverage")
    assert (bonus.persist, bonus.spread, Unlikeliness()) == (False, None, Unlikeliness(0.25, gate=True))
    assert refusal_of(RepExpBonus, spread=0.0) == "repexp: spread must be > 0, got 0.0"
    assert refusal_of(RepExpBonus, dim=0) == "repexp: dim must be at least 1, got 0"
    assert refusal_of(Unlikeliness, 1.1) == "unlikely: beta_rank must be from 0 to 1, got 1.1"


# The other bonuses, and metrics


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
