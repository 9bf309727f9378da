"""The grader as a reward, and the bonuses against their formulas, written out rollout by rollout as in the papers."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.refusals import refusal_of

from harness import Problem, Task, correct, error, wrong
from harness_plugins.rl import rewards as rl
from harness_plugins.rl.checkpoints import load_memory, save_memory
from harness_plugins.rl.rewards import Grader, NoBonus, RepExpBonus, Shaping, Unlikeliness
from harness_plugins.rl.training import METRICS, Rollouts, Settings, TrainingRun

PROBLEM = Problem("train-5", "How many is 5?", "5")


def run_of(task: str = "game24", reward: str = "verifier", bonus: str = "none") -> TrainingRun:
    return TrainingRun(Path("run"), task, "model", bonus, "trl", 3, Settings(), {}, reward=reward)


def normal(seed: int, n: int, d: int, scale: float = 1.0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(n, d)) * scale)


def rollouts(seed: int = 0, correct: float = 0.5) -> Rollouts:
    """Eight rollouts of each of four problems, in a random order, states of width 96."""
    rng = np.random.default_rng(seed)
    problems = [f"problem-{row}" for row in rng.permutation(np.repeat(np.arange(4), 8))]
    rewards, logprobs = rng.random(32) < correct, -rng.random(32)
    columns = torch.from_numpy(rewards.astype(float)), normal(seed + 1, 32, 96, 3.0) + 5, torch.from_numpy(logprobs)
    return Rollouts(problems, *columns)


def brute_force(h: np.ndarray, lam: float, memory: np.ndarray | float = 0.0) -> list[float]:
    """Sherman and Morrison's update for each rollout in turn, then the quadratic forms: as the authors' code."""
    cov_inv = np.linalg.inv(np.eye(h.shape[1]) * lam + memory)
    for row in h:
        u = cov_inv @ row
        cov_inv -= np.outer(u, u) / (1 + row @ u)
    return [float(row @ cov_inv @ row) for row in h]


def test_each_reward_has_its_grader():
    responses = ("I think 5", "The answer is 5", r"so \boxed{5}", "#### $5", "#### 5")
    for reward, rewards in (("strict", [0, 0, 0, 0, 1]), ("lenient", [0, 0, 1, 1, 1]), ("verifier", [0, 0, 1, 1, 1])):
        assert Grader(run_of("gsm8k:fallback=no", reward)).rewards(PROBLEM, responses, [""] * 5) == rewards, reward


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


# Leverages and the projection


@given(st.integers(0, 10_000), st.integers(2, 12), st.integers(1, 40), st.floats(1e-12, 1e3), st.floats(1e-3, 1e3))
def test_leverages_are_from_nothing_to_one_and_sum_to_the_trace_however_small_lam_is(seed, n, k, lam, scale):
    h = normal(seed, n, k, scale)
    h = h - h.mean(0)
    figures, eigenvalues = rl.leverage(h, lam), torch.linalg.svdvals(h) ** 2
    assert bool(((figures >= 0) & (figures <= 1)).all())
    assert float(figures.sum()) == pytest.approx(float((eigenvalues / (eigenvalues + lam)).sum()), abs=1e-8)


def test_the_projection_is_the_sparse_one_of_the_authors_drawn_from_seed_and_step_alone():
    first = rl.sparse_projection(3584, 32, 7, 3).clone()
    others = [rl.sparse_projection(3584, 32, *place) for place in ((8, 3), (7, 4))]  # and the cache forgets the first
    torch.manual_seed(2)
    np.random.seed(2)
    assert torch.equal(first, rl.sparse_projection(3584, 32, 7, 3))
    assert not any(torch.equal(first, other) for other in others)
    values = first[first != 0]
    assert values.abs().numpy() == pytest.approx(math.sqrt(math.sqrt(3584) / 32))  # ±1.368
    assert len(values) / first.numel() == pytest.approx(1 / math.sqrt(3584), rel=0.1)
    assert float((values > 0).double().mean()) == pytest.approx(0.5, abs=0.05)
    narrow = normal(0, 40, 32).float()
    assert torch.equal(rl.projected(narrow, 32, 0, 0), narrow.double())
    narrow[3, 4] = math.nan
    assert refusal_of(rl.projected, narrow, 32, 0, 0) == "bonus: the hidden states hold NaN or inf"


# RepExp's bonus


@pytest.mark.parametrize(("dim", "figure"), [(32, "leverage"), (4, "leverage"), (32, "leave-one-out")])
def test_repexp_is_the_formula_written_out_and_remembers_nothing(dim, figure):
    given, memory = rollouts(), {}
    shaped = RepExpBonus(beta=0.05, lam=0.5, dim=dim, figure=figure).shape(given, step=3, seed=7, memory=memory)
    z = (given.hidden @ rl.sparse_projection(96, dim, 7, 3)).numpy()
    for rows in given.groups().values():
        h = z[rows] - z[rows].mean(0)
        figures = brute_force(h, 0.5)
        if figure == "leave-one-out":
            others = [np.delete(h, row, axis=0) for row in range(8)]
            inverses = [np.linalg.inv(other.T @ other + 0.5 * np.eye(dim)) for other in others]
            figures = [float(row @ inverse @ row) for row, inverse in zip(h, inverses, strict=True)]
        expected = given.rewards[rows].numpy() + 0.05 * np.array(figures) * bool(given.rewards[rows].any())
        assert shaped.rewards[rows].numpy() == pytest.approx(expected, abs=1e-9)
    assert not memory


def test_a_persistent_sum_goes_on_over_the_steps_of_a_problem_and_through_a_checkpoint(tmp_path):
    steps, run = (
        [rollouts(seed, correct=1.0) for seed in (0, 10, 20)],
        run_of(bonus="repexp:persist=true,beta=1,lam=0.1"),
    )
    assert (Shaping(run).needs("hidden"), Shaping(run).needs("logprobs")) == (True, False)
    for step, drawn in enumerate(steps):
        shaping = Shaping(run)
        shaping.memory = load_memory(tmp_path)
        assert bool(shaping.memory) == bool(step)
        shaped = shaping.shape(drawn, step)
        save_memory(shaping.memory, tmp_path)
    rows = [drawn.groups()["problem-2"] for drawn in steps]
    z = [
        rl.projected(drawn.hidden, 32, 3, 0)[group] for drawn, group in zip(steps, rows, strict=True)
    ]  # one projection
    h = [(group - group.mean(0)).numpy() for group in z]
    expected = brute_force(h[2], 0.1, h[0].T @ h[0] + h[1].T @ h[1])
    assert (shaped.rewards - steps[2].rewards)[rows[2]].numpy() == pytest.approx(expected, abs=1e-9)


# Four states on a line, centred at 0: with lam = 4 their leverages are 9/16 and three times 1/16, of spread 1/4.
LINE, SAME = [[3.0], [-1.0], [-1.0], [-1.0]], [[5.0], [5.0 + 1e-7], [5.0], [5.0]]
GROUPS = {  # problem -> rewards, states
    "mixed": ([0.0, 1, 0, 0], LINE), "correct": ([1.0] * 4, LINE), "wrong": ([0.0] * 4, LINE),
    "alike": ([0.0, 1, 0, 0], SAME),
}  # fmt: skip
LEVERAGES, NOTHING = [0.09, 0.01, 0.01, 0.01], [0] * 4  # times beta
GATED = {  # options -> what is added to the groups that are mixed, correct, wrong; the share that is skipped
    "gate=no": (LEVERAGES, LEVERAGES, LEVERAGES, 0), "gate=yes": (LEVERAGES, LEVERAGES, NOTHING, 0.25),
    "gate=mixed": (LEVERAGES, NOTHING, NOTHING, 0.5),
    # The rewards 0, 1, 0, 0 have a standard deviation of 1/2, so the bonus has 1/20: a fifth of the leverages'.
    "spread=0.1": ([0.075, -0.025, -0.025, -0.025], LEVERAGES, NOTHING, 0.25),
}  # fmt: skip


@pytest.mark.parametrize("options", GATED)
def test_gates_leave_groups_out_and_a_spread_scales_the_bonus_to_the_rewards_of_mixed_ones(options):
    problems = [name for name in GROUPS for _ in range(4)]
    rewards, hidden = (torch.tensor([row for group in GROUPS.values() for row in group[i]]).double() for i in (0, 1))
    shaped = Shaping(run_of(bonus=f"repexp:beta=0.16,lam=4,{options}")).shape(Rollouts(problems, rewards, hidden), 0)
    *added, alike = (shaped.rewards - rewards).view(-1, 4).tolist()
    for got, expected in zip(added, GATED[options], strict=False):
        assert got == pytest.approx(expected, rel=1e-5)
    assert alike == pytest.approx(NOTHING, abs=1e-6)  # what rounding leaves of equal states is not scaled up
    assert shaped.metrics["gated"] == GATED[options][-1]


def test_the_defaults_are_the_papers_and_parameters_out_of_range_are_refused():
    bonus = RepExpBonus()
    assert (bonus.beta, bonus.lam, bonus.dim, bonus.gate, bonus.figure) == (0.01, 0.01, 32, True, "leverage")
    assert (bonus.persist, bonus.spread, Unlikeliness()) == (False, None, Unlikeliness(0.25, gate=True))
    assert refusal_of(RepExpBonus, spread=0.0) == "repexp: spread must be > 0, got 0.0"
    assert refusal_of(RepExpBonus, dim=0) == "repexp: dim must be at least 1, got 0"
    assert refusal_of(Unlikeliness, 1.1) == "unlikely: beta_rank must be from 0 to 1, got 1.1"


# The other bonuses, and metrics


def test_unlikeliness_is_the_formula_written_out_and_leaves_groups_that_are_all_correct():
    drawn = rollouts()
    wrong = torch.tensor([problem == "problem-0" and row % 2 == 0 for row, problem in enumerate(drawn.problems)])
    given = Rollouts(drawn.problems, 1 - wrong.double(), logprobs=drawn.logprobs)
    assert 0 < wrong.sum() < 8
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


def test_no_bonus_changes_nothing_and_metrics_are_means_over_rollouts_and_shares_of_groups():
    given = rollouts()
    shaped = NoBonus().shape(given, 0, 0, {})
    assert torch.equal(shaped.rewards, given.rewards)
    assert (shaped.metrics["bonus"], shaped.metrics["bonus_spread"], shaped.metrics["gated"]) == (0, 0, 0)
    problems = ["a", "b", "a", "b", "c", "c", "d", "d"]
    rewards = torch.tensor([1, 0, 1, 0, 1, 0, 1, 0]).double()
    added = torch.tensor([0.1, 0, 0.3, 0, 0, 0, 0, 0]).double()
    metrics = rl.group_metrics(Rollouts(problems, rewards), added, 3)
    expected = {"reward": 0.5, "bonus": 0.05, "bonus_spread": 0.2 / 2**0.5 / 4}
    assert metrics == pytest.approx(expected | {"gated": 0.75, "all_correct": 0.25, "all_wrong": 0.25})
    assert set(metrics) <= set(METRICS)
