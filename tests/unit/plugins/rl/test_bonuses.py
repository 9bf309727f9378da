"""The bonuses against brute force: each formula written out rollout by rollout, as its paper and its code have it."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harness import HarnessError
from harness.training import METRICS, Rollouts, Settings, TrainingRun
from harness_plugins.rl.leverage import centred, leave_one_out, leverage, projected, sparse_projection
from harness_plugins.rl.repexp_bonus import RepExpBonus
from harness_plugins.rl.run_files import read_problems, read_run, write_run
from harness_plugins.rl.shaping import MetricsLog, Shaping
from harness_plugins.rl.unlikely_bonus import NoBonus, Unlikeliness


def random_rows(seed: int, n: int, d: int, scale: float = 1.0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(n, d)) * scale)


def rollouts(seed: int = 0, groups: int = 4, n: int = 8, d: int = 96, correct: float = 0.5, scale: float = 3.0):
    rng = np.random.default_rng(seed)
    rows = rng.permutation(np.repeat(np.arange(groups), n))
    return Rollouts(
        problems=[f"problem-{row}" for row in rows],
        rewards=torch.from_numpy((rng.random(groups * n) < correct).astype(float)),
        hidden=random_rows(seed + 1, groups * n, d, scale) + 5,
        logprobs=torch.from_numpy(-rng.random(groups * n)),
    )


def with_rewards(given: Rollouts, rewards: dict[str, list[float]]) -> Rollouts:
    values = given.rewards.clone()
    for problem, rows in given.groups().items():
        values[rows] = torch.tensor(rewards[problem], dtype=torch.float64)
    return Rollouts(given.problems, values, given.hidden, given.logprobs)


def brute_force_leverage(h: np.ndarray, lam: float, memory: np.ndarray | float = 0.0) -> list[float]:
    """Sherman and Morrison's update for each rollout in turn, then the quadratic forms: as the authors' code."""
    cov_inv = np.linalg.inv(np.eye(h.shape[1]) * lam + memory)
    for row in h:
        u = cov_inv @ row
        cov_inv -= np.outer(u, u) / (1 + row @ u)
    return [float(row @ cov_inv @ row) for row in h]


@pytest.mark.parametrize(("n", "k"), [(8, 32), (8, 4), (2, 1), (16, 16), (5, 128)])
@pytest.mark.parametrize("lam", [0.01, 1.0, 50.0])
def test_leverage_is_that_of_one_update_a_rollout(n, k, lam):
    h = centred(random_rows(n + k, n, k))
    assert leverage(h, lam).numpy() == pytest.approx(brute_force_leverage(h.numpy(), lam), abs=1e-10)


def test_leverage_with_memory_is_that_of_one_update_a_rollout():
    h, before = centred(random_rows(1, 8, 32)), random_rows(2, 20, 32)
    memory = before.T @ before
    expected = brute_force_leverage(h.numpy(), 0.1, memory.numpy())
    assert leverage(h, 0.1, memory).numpy() == pytest.approx(expected, abs=1e-10)


@given(st.integers(0, 10_000), st.integers(2, 12), st.integers(1, 40), st.floats(1e-6, 1e3), st.floats(1e-3, 1e3))
def test_leverages_sum_to_the_trace(seed, n, k, lam, scale):
    h = centred(random_rows(seed, n, k, scale))
    s = h.T @ h
    trace = torch.trace(torch.linalg.solve(s + lam * torch.eye(k, dtype=torch.float64), s))
    eigenvalues = torch.linalg.svdvals(h) ** 2  # the same trace; a solve at a condition of 1e15 has no 10 digits
    assert float(leverage(h, lam).sum()) == pytest.approx(float((eigenvalues / (eigenvalues + lam)).sum()), abs=1e-10)
    if float(eigenvalues.max()) < 1e6 * lam:
        assert float(leverage(h, lam).sum()) == pytest.approx(float(trace), abs=1e-8)


@pytest.mark.parametrize(("n", "k"), [(8, 32), (8, 4)])
def test_leverages_sum_to_the_trace_to_ten_digits(n, k):
    for lam in (0.01, 1.0, 100.0):
        h = centred(random_rows(7, n, k))
        s = h.T @ h
        trace = torch.trace(s @ torch.linalg.inv(s + lam * torch.eye(k, dtype=torch.float64)))
        assert float(leverage(h, lam).sum()) == pytest.approx(float(trace), abs=1e-10)


@pytest.mark.parametrize(("n", "k", "rank"), [(8, 32, 7), (8, 4, 4), (3, 3, 2)])
def test_leverages_tend_to_the_rank(n, k, rank):
    sums = [float(leverage(centred(random_rows(3, n, k)), lam).sum()) for lam in (1e-2, 1e-6, 1e-12)]
    assert sums == sorted(sums)
    assert sums[-1] == pytest.approx(rank, abs=1e-8)


@given(st.integers(0, 10_000), st.integers(2, 12), st.integers(1, 40))
def test_a_leverage_is_between_nothing_and_one(seed, n, k):
    figures = leverage(centred(random_rows(seed, n, k)), 0.01)
    assert bool((figures >= 0).all())
    assert bool((figures < 1).all())


@pytest.mark.parametrize("lam", [0.01, 1.0])
def test_leave_one_out_leaves_the_rollout_out(lam):
    h = centred(random_rows(5, 8, 32))
    expected = []
    for left_out in range(8):
        others = np.delete(h.numpy(), left_out, axis=0)
        inverse = np.linalg.inv(others.T @ others + lam * np.eye(32))
        expected.append(float(h[left_out].numpy() @ inverse @ h[left_out].numpy()))
    assert leave_one_out(leverage(h, lam)).numpy() == pytest.approx(expected, rel=1e-8)


def test_equal_rollouts_have_equal_bonuses_and_all_equal_ones_none():
    h = random_rows(6, 8, 32)
    h[3] = h[5]
    figures = leverage(centred(h), 0.01)
    assert float(figures[3]) == pytest.approx(float(figures[5]), abs=1e-12)
    assert leverage(centred(h[:1].repeat(8, 1)), 0.01).numpy() == pytest.approx(0, abs=1e-12)


# The projection


def test_the_projection_is_drawn_from_seed_and_step_alone():
    torch.manual_seed(1)
    np.random.seed(1)
    first = sparse_projection(3584, 32, 7, 3).clone()
    torch.manual_seed(2)
    np.random.seed(2)
    sparse_projection(3584, 32, 8, 3), sparse_projection(3584, 32, 7, 4), sparse_projection(3584, 64, 7, 3)
    assert torch.equal(first, sparse_projection(3584, 32, 7, 3))
    for other in ((8, 3), (7, 4)):
        assert not torch.equal(first, sparse_projection(3584, 32, *other))


def test_the_projection_is_the_sparse_one_of_the_authors():
    matrix = sparse_projection(3584, 32, 0, 0)
    assert matrix.shape == (3584, 32)
    values = matrix[matrix != 0]
    assert values.abs().numpy() == pytest.approx(math.sqrt(math.sqrt(3584) / 32))  # ±1.368
    share = len(values) / matrix.numel()
    assert share == pytest.approx(1 / math.sqrt(3584), rel=0.1)
    assert float((values > 0).double().mean()) == pytest.approx(0.5, abs=0.05)


def test_narrow_states_are_not_projected_and_wide_ones_keep_their_lengths_on_average():
    h = random_rows(0, 40, 32)
    assert torch.equal(projected(h, 32, 0, 0), h)
    wide = random_rows(1, 400, 3584)
    ratio = projected(wide, 128, 0, 0).pow(2).sum(1) / wide.pow(2).sum(1)
    assert float(ratio.mean()) == pytest.approx(1, abs=0.1)


def test_states_that_are_no_numbers_are_refused():
    broken = rollouts()
    broken.hidden[3, 2] = math.nan
    with pytest.raises(HarnessError, match="NaN"):
        RepExpBonus().shape(broken, 0, 0, {})


# RepExp


@pytest.mark.parametrize("figure", ["leverage", "leave-one-out"])
def test_repexp_is_the_formula_written_out(figure):
    given, bonus = rollouts(), RepExpBonus(beta=0.05, lam=0.5, dim=32, figure=figure)
    shaped = bonus.shape(given, step=3, seed=7, memory={})
    z = (given.hidden @ sparse_projection(96, 32, 7, 3)).numpy()
    for rows in given.groups().values():
        h = z[rows] - z[rows].mean(0)
        figures = np.array(brute_force_leverage(h, 0.5))
        if figure == "leave-one-out":
            figures = figures / (1 - figures)
        expected = given.rewards[rows].numpy() + 0.05 * figures * bool(given.rewards[rows].any())
        assert shaped.rewards[rows].numpy() == pytest.approx(expected, abs=1e-9)


def test_the_defaults_are_the_papers():
    bonus = RepExpBonus()
    assert (bonus.beta, bonus.lam, bonus.dim, bonus.gate, bonus.figure) == (0.01, 0.01, 32, True, "leverage")
    assert (Unlikeliness().beta_rank, Unlikeliness().gate) == (0.25, True)
    settings = Settings()
    assert (settings.learning_rate, settings.batch, settings.mini_batch, settings.rollouts) == (1e-6, 1024, 256, 8)


def test_a_group_without_a_correct_rollout_gets_nothing():
    mixed = [1.0, 0, 0, 0, 0, 0, 0, 0]
    rewards = {"problem-0": [0.0] * 8, "problem-1": [1.0] * 8, "problem-2": mixed, "problem-3": mixed[::-1]}
    given = with_rewards(rollouts(), rewards)
    shaped = RepExpBonus().shape(given, 0, 0, {})
    added = {problem: (shaped.rewards - given.rewards)[rows] for problem, rows in given.groups().items()}
    assert not added["problem-0"].any()
    assert all(bool((added[problem] > 0).all()) for problem in ("problem-1", "problem-2", "problem-3"))
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
    steps = [rollouts(seed, correct=1.0) for seed in (0, 10)]
    shaped = [bonus.shape(given, step, 5, memory) for step, given in enumerate(steps)]
    rows = [given.groups()["problem-2"] for given in steps]
    z = [projected(given.hidden, 32, 5, 0) for given in steps]  # one projection for all steps
    before = centred(z[0][rows[0]])
    expected = brute_force_leverage(centred(z[1][rows[1]]).numpy(), 0.1, (before.T @ before).numpy())
    added = (shaped[1].rewards - steps[1].rewards)[rows[1]]
    assert added.numpy() == pytest.approx(expected, abs=1e-9)
    assert float(shaped[1].metrics["bonus"]) < float(shaped[0].metrics["bonus"])  # what was seen is less novel
    assert set(memory) == set(steps[0].problems)


def test_without_persistence_nothing_is_remembered():
    memory = {}
    RepExpBonus().shape(rollouts(), 0, 0, memory)
    assert not memory


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"lam": 0.0}, "lam must be > 0, got 0.0"), ({"dim": 0}, "dim must be at least 1, got 0")],
)
def test_what_repexp_cannot_do_is_refused(wrong, message):
    with pytest.raises(HarnessError, match=message):
        RepExpBonus(**wrong)


# Unlikeliness


def test_unlikeliness_is_the_formula_written_out():
    given = rollouts(correct=0.6)
    shaped = Unlikeliness().shape(given, 0, 0, {})
    for rows in given.groups().values():
        by_likelihood = sorted(range(8), key=lambda i: float(given.logprobs[rows][i]))
        for place, i in enumerate(by_likelihood):
            scale = 1 if given.rewards[rows].all() else 1 - 0.25 * place / 8
            assert float(shaped.rewards[rows[i]]) == pytest.approx(float(given.rewards[rows[i]]) * scale, abs=1e-12)


def test_a_group_that_is_all_correct_is_left_as_it_is():
    rewards = {f"problem-{i}": [1.0] * 8 for i in range(4)} | {"problem-0": [1.0] * 7 + [0.0]}
    given = with_rewards(rollouts(), rewards)
    shaped = Unlikeliness().shape(given, 0, 0, {})
    assert {p: bool((shaped.rewards[r] == given.rewards[r]).all()) for p, r in given.groups().items()} == {
        "problem-0": False,
        "problem-1": True,
        "problem-2": True,
        "problem-3": True,
    }
    assert shaped.metrics["gated"] == 0.75
    ungated = Unlikeliness(gate=False).shape(given, 0, 0, {})
    assert float(ungated.rewards.sum()) == pytest.approx(
        float(
            sum(sum(1 - 0.25 * i / 8 for i in range(8)) for _ in range(3))
            + shaped.rewards[given.groups()["problem-0"]].sum()
        )
    )


def test_no_bonus_changes_nothing():
    given = rollouts()
    shaped = NoBonus().shape(given, 0, 0, {})
    assert torch.equal(shaped.rewards, given.rewards)
    assert shaped.metrics["bonus_spread"] == 0


def test_metrics_have_the_names_that_every_trainer_logs():
    for bonus in (RepExpBonus(), Unlikeliness(), NoBonus()):
        metrics = bonus.shape(rollouts(), 0, 0, {}).metrics
        assert set(metrics) <= set(METRICS)
        assert {"reward", "bonus", "bonus_spread", "gated", "all_correct", "all_wrong"} <= set(metrics)


# What a trainer's child is given


@pytest.fixture
def training(tmp_path) -> TrainingRun:
    paths = {split: tmp_path / f"{split}.jsonl" for split in ("train", "dev")}
    return TrainingRun(
        tmp_path, "game24", "tiny24", "repexp:persist=true", "trl", 3, Settings(steps=2), paths, overrides=["a=1"]
    )


def test_a_run_is_read_back_as_it_was_written(training):
    write_run(training)
    again = read_run(training.folder)
    assert again.settings == training.settings
    assert (again.task, again.seed, list(again.overrides)) == ("game24", 3, ["a=1"])
    assert again.problems == training.problems


def test_a_folder_without_a_run_is_one_clear_line(tmp_path):
    with pytest.raises(HarnessError, match=r"holds no run\.json"):
        read_run(tmp_path)
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(HarnessError, match="cannot be read"):
        read_run(tmp_path)


def test_what_a_bonus_remembers_is_kept_with_a_checkpoint(training, tmp_path):
    first, second = Shaping(training), Shaping(training)
    steps = [rollouts(seed, correct=1.0) for seed in (0, 10)]
    first.shape(steps[0], 0)
    first.save(tmp_path)
    second.load(tmp_path)
    assert torch.equal(first.shape(steps[1], 1).rewards, second.shape(steps[1], 1).rewards)
    assert not torch.equal(Shaping(training).shape(steps[1], 1).rewards, second.shape(steps[0], 2).rewards)


def test_a_resumed_log_drops_the_steps_that_are_made_again(tmp_path):
    log = MetricsLog(tmp_path / "metrics.jsonl")
    for step in range(1, 5):
        log.append(step, {"reward": step / 3, "custom": 1.0})
    with (tmp_path / "metrics.jsonl").open("a") as out:
        out.write('{"step": 5, "rew')
    MetricsLog(tmp_path / "metrics.jsonl", resumed_after=2).append(3, {"reward": 0.5})
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert lines == [
        '{"step": 1, "reward": 0.333333, "custom": 1.0}',
        '{"step": 2, "reward": 0.666667, "custom": 1.0}',
        '{"step": 3, "reward": 0.5}',
    ]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"rollouts": 1}, "rollouts must be at least 2"),
        ({"batch": 10, "mini_batch": 4}, "multiple of mini_batch"),
        ({"learning_rate": 0.0}, "learning_rate must be > 0"),
        ({"save_every": 0}, "save_every must be at least 1"),
        ({"steps": 0}, "steps must be at least 1"),
    ],
)
def test_settings_that_cannot_be_are_refused(wrong, message):
    with pytest.raises(HarnessError, match=message):
        Settings(**wrong)


def test_problems_are_read_back_as_they_were_written(tmp_path):
    from harness_plugins.rl.run_files import write_problems
    from harness_tasks.game24 import Game24

    task = Game24()
    asked = [(problem, task.messages(problem)) for problem in task.problems("dev")[:5]]
    write_problems(tmp_path / "dev.jsonl", asked)
    assert read_problems(tmp_path / "dev.jsonl") == asked
