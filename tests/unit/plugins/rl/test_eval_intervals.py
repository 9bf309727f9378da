"""95 % intervals over problems and seeds: by hand, by simulation, and as they stand in an evaluation's rows."""

import numpy as np
import pytest
from scipy import stats

from harness_plugins.rl import evaluation as rl_eval
from harness_plugins.rl import tables
from harness_plugins.rl.eval_intervals import intervals

TWO_SEEDS = np.array([[0.2, 0.6], [0.4, 0.8]])[:, :, None]  # (seeds, problems, columns)


def test_an_interval_adds_the_variances_over_problems_and_over_seeds():
    # Means of problems 0.3 and 0.7, variance 0.08; of seeds 0.4 and 0.6, variance 0.02.
    half = stats.t.ppf(0.975, 1 / (0.8**2 + 0.2**2)) * (0.08 / 2 + 0.02 / 2) ** 0.5
    assert intervals(TWO_SEEDS) == [pytest.approx([0.5 - half, 0.5 + half], rel=1e-5)]


def test_one_policy_has_students_interval_over_problems_and_two_are_paired_by_problem():
    own, other = np.array([0.9, 0.5, 0.1]), np.array([0.8, 0.2, 0.0])
    for values, given in ((own, (own[None, :, None],)), (own - other, (own[None, :, None], other[None, :, None]))):
        expected = stats.ttest_1samp(values, 0).confidence_interval()
        assert intervals(*given) == [pytest.approx(list(expected), rel=1e-5)]
    # The difference from one policy keeps the variance over the other's seeds.
    half = stats.t.ppf(0.975, 1 / (0.8**2 + 0.2**2)) * (0.08 / 2 + 0.02 / 2) ** 0.5
    assert intervals(TWO_SEEDS, np.full((1, 2, 1), 0.5)) == [pytest.approx([-half, half], rel=1e-5)]


def test_what_does_not_vary_or_is_one_problem_has_no_interval():
    assert intervals(np.ones((3, 4, 2))) == [None, None]
    assert intervals(np.array([[[0.5]], [[0.7]]])) == [None]


@pytest.mark.parametrize("seeds_matter", [0.0, 0.02, 0.1])
def test_intervals_of_differences_cover_as_often_as_they_say_or_more(seeds_matter):
    rng, repeats, problems = np.random.default_rng(5), 2000, 90

    def method(seeds: int) -> np.ndarray:
        trainings = rng.normal(0, seeds_matter, (seeds, 1, repeats))
        return easiness + trainings + rng.normal(0, 0.1, (seeds, problems, repeats))

    easiness = rng.normal(0.5, 0.3, (1, problems, repeats))
    covered = np.mean([low <= 0 <= high for low, high in intervals(method(3), method(3))])
    assert 0.94 < covered < 0.995


def test_rows_hold_levels_and_gains_with_their_intervals_and_tables_half_of_them(capsys):
    counts = {"base": [[2, 1, 0]], "none": [[4, 0, 2], [4, 4, 1]]}
    policies = [{"bonus": bonus, "c": c} for bonus, each in counts.items() for c in each]
    about = {"task": "t", "split": "test", "reward": "verifier", "n": 4, "problems": ["a", "b", "c"]}
    base, none = rows = rl_eval.rows(about | {"policies": policies})
    at_1 = {bonus: np.array(each)[:, :, None] / 4 for bonus, each in counts.items()}
    assert none["pass_at_k_ci"]["1"] == intervals(at_1["none"])[0]
    assert base["gain_over"]["none"]["1"] == pytest.approx(0.25 - 0.625)
    assert base["gain_over_ci"]["none"]["1"] == intervals(at_1["base"], at_1["none"])[0]
    assert none["gain_over_ci"]["base"]["4"] == pytest.approx([-end for end in base["gain_over_ci"]["none"]["4"]][::-1])
    tables.evaluated(rows, as_json=False)
    out = capsys.readouterr().out
    half = {row["bonus"]: 50 * np.ptp(row["pass_at_k_ci"]["1"]) for row in rows}
    assert f"25.0±{half['base']:.1f}" in out
    levels, gains = out.split("minus GRPO")
    assert f"62.5±{half['none']:.1f}" in levels
    assert f"-37.5±{50 * np.ptp(base['gain_over_ci']['none']['1']):.1f}" in gains
    assert "62.5" not in gains
