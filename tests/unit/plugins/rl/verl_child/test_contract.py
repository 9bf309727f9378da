"""The private parts of verl that the plugin leans on, checked on a stand-in for verl.

Also its whole checkpoints (resuming.py), its reward function (reward.py), and the mean states (pooling.py).
"""

import sys
from importlib.metadata import PackageNotFoundError
from types import ModuleType

import pytest
import torch
from support.json_lines import read_json_lines
from support.refusals import refusal_of
from support.training_runs import game24_run

from harness import Problem, error
from harness_plugins.rl.run_files import write_problems
from harness_plugins.rl.training import Settings
from harness_plugins.rl.verl_child import RUN, contract, resuming, reward, run_options
from harness_plugins.rl.verl_child.pooling import response_means


class Stable:
    """A stand-in for a class of verl."""

    def kept(self, batch, metrics):
        """As it was read."""


def test_all_that_differs_from_what_was_read_is_named_in_one_line(monkeypatch):
    module = ModuleType("stand_in")
    module.Stable = Stable
    monkeypatch.setitem(sys.modules, "stand_in", module)
    contract.require({"stand_in:Stable.kept": ("self", "batch", "metrics"), "stand_in:Stable": None})
    changed = {"stand_in:Stable.gone": None, "stand_in:Stable.kept": ("self", "batch"), "no_such_module:x": None}
    line = refusal_of(contract.require, changed | {"stand_in:Stable": None})
    reasons = line.removeprefix("verl: this installation is not the 0.9.1 that the plugin leans on: ").split("; ")
    assert reasons[:2] == [
        "stand_in has no Stable.gone",
        "stand_in:Stable.kept takes (self, batch, metrics), not (self, batch)",
    ]
    assert reasons[2].startswith("no_such_module cannot be imported (No module named 'no_such_module')")
    assert len(reasons) == 3


def test_another_version_and_no_verl_at_all_are_one_line_each():
    contract.require_version(lambda name: contract.VERSION)
    assert "0.9.2 is installed" in refusal_of(contract.require_version, lambda name: "0.9.2")

    def absent(name: str) -> str:
        raise PackageNotFoundError(name)

    assert "not installed" in refusal_of(contract.require_version, absent)


def test_only_marked_checkpoints_count_and_verl_is_pointed_at_the_last_or_begins_anew(tmp_path):
    tracker, folders = tmp_path / resuming.TRACKER, {n: tmp_path / f"global_step_{n}" for n in (2, 4, 10, 12)}
    folders[2].mkdir()
    tracker.write_text("2")
    assert resuming.tidy(tmp_path) == 0
    assert list(tmp_path.iterdir()) == []
    for step, folder in folders.items():
        folder.mkdir()
        if step < 12:
            resuming.mark_complete(folder)
    tracker.write_text("")  # as a kill between opening and writing leaves it
    assert list(resuming.complete(tmp_path)) == [2, 4, 10]
    assert resuming.tidy(tmp_path) == 10
    assert tracker.read_text() == "10"
    assert not folders[12].exists()


def test_a_step_is_logged_when_its_whole_line_is_there(tmp_path):
    metrics = tmp_path / "metrics.jsonl"
    assert not resuming.logged(metrics, 2)
    metrics.write_text('{"step": 20, "reward": 1.0}\n{"step": 2, "rew')
    assert not resuming.logged(metrics, 2)
    assert resuming.logged(metrics, 20)


# Rewards

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


def test_verls_reward_function_is_the_runs_grader_and_an_error_of_it_is_written_down(run, monkeypatch):
    responses = ["I think 5", r"\boxed{5}", "#### 5"]
    assert [reward.compute_score("gsm8k", text, "5", INFO) for text in responses] == [0, 0, 1]
    assert not (run.folder / reward.ERRORS).exists()
    assert run_options.options(run_options.current_run()).hidden == "policy"
    monkeypatch.setattr(type(reward._grader().task), "audit", lambda *arguments, **finish: error("out of order"))
    assert [reward.compute_score("gsm8k", "#### 5", "5", INFO) for _ in range(2)] == [0, 0]
    assert read_json_lines(run.folder / reward.ERRORS) == [{"problem": "train-0", "reason": "out of order"}] * 2


# Pooling


def test_means_over_responses_are_the_same_in_packed_and_padded_rows():
    lengths, prompts = [6, 3, 4], [2, 2, 4]
    generator = torch.Generator().manual_seed(0)
    rows = [torch.randn(length, 5, generator=generator, dtype=torch.float64) for length in lengths]
    expected = torch.stack(
        [rows[0][2:].float().mean(0), rows[1][2].float(), rows[2][3].float()]
    )  # of none: the prompt's
    offsets = torch.tensor([0, *lengths]).cumsum(0)
    padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=float("nan"))
    behind = torch.full((7, 5), float("nan"), dtype=torch.float64)
    for states in (padded, torch.cat(rows)[None], torch.cat([*rows, behind])[None]):
        assert torch.equal(response_means(states, offsets, torch.tensor(prompts)), expected)
    alone = response_means(rows[0][None], offsets[:2], torch.tensor([2]))  # padded and packed at once
    assert torch.equal(alone, expected[:1])
    for shape in ((1, 5, 2), (2, 3, 2)):
        with pytest.raises(ValueError, match="do not hold rows"):
            response_means(torch.zeros(shape), torch.tensor([0, 4, 8]), torch.tensor([1, 1]))
