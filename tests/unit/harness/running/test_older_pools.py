"""Pools of older versions: nothing is sampled again unasked, and only the user says that a model is the same."""

import pytest
from support.paths import TOY

IDENTITY = '"model": self.name'


@pytest.fixture
def run(harness, tmp_path):
    """Run the toy task with some of its plugin's text replaced (before, after); further options as arguments."""

    def call(change, *args, selector=("--selector", "spread")):
        before, after = change
        assert before in TOY.read_text()
        plugin = tmp_path / "toy.py"
        plugin.write_text(TOY.read_text().replace(before, after))
        fixed = ("--task", "colours", "--engine", "toy", "--plugin", plugin, "--store", tmp_path / "runs", "--json")
        return harness("run", *fixed, *selector, *args)

    return call


def revision(name):
    """The change that makes the engine say this revision of its model."""
    return IDENTITY, f'{IDENTITY}, "revision": "{name}"'


def test_another_model_of_this_version_is_sampled_without_a_question(run):
    run(revision("a"))
    assert "sample: 96 responses" in run(revision("b")).err


def test_a_problem_whose_reference_changed_keeps_its_responses(run):
    run((IDENTITY, IDENTITY))
    outcome = run(("reference=WORDS[i % 7]", 'reference=WORDS[i % 7] if i % 2 else "red"'))
    assert outcome.code == 0
    assert "2 problems' responses taken over" in outcome.err  # 2 and 4; problem 0 was red before
    assert "sample:" not in outcome.err
