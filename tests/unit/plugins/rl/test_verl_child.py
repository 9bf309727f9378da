"""What runs in verl's processes and needs no verl: complete checkpoints, and the reward function."""

import pytest
from support.json_lines import read_json_lines
from support.training_runs import game24_run

from harness import Problem, error
from harness_plugins.rl import verl_child
from harness_plugins.rl.training import Settings, write_problems
from harness_plugins.rl.verl_child import TRACKER, tidy
from harness_plugins.rl.verl_trainer import MARK, RUN, Verl

INFO = {"split": "train", "problem": "train-0"}


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A strictly rewarded run with a problem of GSM8K's, which this process belongs to."""
    fields = {"task": "gsm8k:fallback=no", "reward": "strict", "settings": Settings(), "bonus": "none"}
    run = game24_run(tmp_path, 1, 1, **fields, model="m", trainer="verl:hidden=policy")
    chat = [{"role": "user", "content": "?"}]
    write_problems(run.problems["train"], [(Problem("train-0", "?", reference="5"), chat)])
    monkeypatch.setenv(RUN, str(tmp_path))
    for cached in (verl_child.current_run, verl_child._graded):
        cached.cache_clear()
    return run


def test_only_marked_checkpoints_count_and_verl_is_pointed_at_the_last_or_begins_anew(run):
    tracker, folders = run.checkpoints / TRACKER, {n: run.checkpoints / f"global_step_{n}" for n in (2, 4, 10, 12)}
    folders[2].mkdir(parents=True)
    tracker.write_text("2")
    assert tidy(run) == 0
    assert list(run.checkpoints.iterdir()) == []
    for step, folder in folders.items():
        folder.mkdir()
        if step < 12:
            (folder / MARK).touch()
    tracker.write_text("")  # as a kill between opening and writing leaves it
    assert [checkpoint.step for checkpoint in Verl().saved(run)] == [2, 4, 10]
    assert tidy(run) == 10
    assert tracker.read_text() == "10"
    assert not folders[12].exists()


# Rewards


def test_verls_reward_function_is_the_runs_grader_and_an_error_of_it_is_written_down(run, monkeypatch):
    responses = ["I think 5", r"\boxed{5}", "#### 5"]
    assert [verl_child.compute_score("gsm8k", text, "5", INFO) for text in responses] == [0, 0, 1]
    assert not (run.folder / verl_child.ERRORS).exists()
    assert verl_child.current_run().part("trainer").hidden == "policy"
    monkeypatch.setattr(type(verl_child._graded()[0].task), "audit", lambda *arguments, **finish: error("out of order"))
    assert [verl_child.compute_score("gsm8k", "#### 5", "5", INFO) for _ in range(2)] == [0, 0]
    assert read_json_lines(run.folder / verl_child.ERRORS) == [{"problem": "train-0", "reason": "out of order"}] * 2
