"""verl's reward function."""

import pytest
from support.json_lines import read_json_lines
from support.training_runs import game24_run

from harness import Problem, error
from harness.training import Settings
from harness_plugins.rl.run_files import write_problems
from harness_plugins.rl.verl_child import RUN, reward, run_options

INFO = {"split": "train", "problem": "train-0"}


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A strictly rewarded run with a problem of GSM8K's, which this process belongs to."""
    fields = {"task": "gsm8k:fallback=no", "reward": "strict", "settings": Settings(), "bonus": "none"}
    run = game24_run(tmp_path, 1, 1, **fields, model="m", trainer="verl:hidden=policy")
    chat = [{"role": "user", "content": "?"}]
    write_problems(run.problems["train"], [(Problem("train-0", "?", reference="5"), chat)])
    monkeypatch.setenv(RUN, str(tmp_path))
    for cached in (run_options.current_run, reward._grader, reward._problems):
        cached.cache_clear()
    return run


def test_verls_reward_function_is_the_runs_grader(run):
    responses = ["I think 5", r"\boxed{5}", "#### 5"]
    assert [reward.compute_score("gsm8k", text, "5", INFO) for text in responses] == [0, 0, 1]
    assert not (run.folder / reward.ERRORS).exists()
    assert run_options.options(run_options.current_run()).hidden == "policy"


def test_a_grading_error_counts_as_wrong_and_is_written_down(run, monkeypatch):
    monkeypatch.setattr(type(reward._grader().task), "audit", lambda *arguments, **finish: error("out of order"))
    assert [reward.compute_score("gsm8k", "#### 5", "5", INFO) for _ in range(2)] == [0, 0]
    assert read_json_lines(run.folder / reward.ERRORS) == [{"problem": "train-0", "reason": "out of order"}] * 2
