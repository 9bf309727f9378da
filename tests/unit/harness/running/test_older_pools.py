"""Pools of older versions: nothing is sampled again unasked, and only the user says that a model is the same."""

import pytest
from support.paths import TOY
from support.refusals import error_line
from support.stores import unseal

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


@pytest.fixture
def older(run, harness, tmp_path):
    """The key of a pool of six problems that an older version made and this one has adopted, and its rows."""
    rows = run(revision("a")).rows
    [key] = [folder.name for folder in (tmp_path / "runs" / "pool").iterdir()]
    unseal(tmp_path / "runs")
    line = error_line(run(revision("b")))
    assert f"pool {key} of an older version holds responses to 6 of 6 problems" in line
    assert f"doctor --store {tmp_path / 'runs'} --rekey" in line
    assert harness("doctor", "--store", tmp_path / "runs", "--rekey").code == 0
    return key, rows


@pytest.mark.slow
def test_a_pool_under_an_older_key_is_taken_over_only_by_its_key(run, older, tmp_path):
    key, rows = older
    assert "--adopt zz: no such pool" in error_line(run(revision("b"), "--adopt", "zz"))
    line = error_line(run(revision("b")))
    for words in (f"pool {key}", "differs in engine.revision alone", f"--adopt {key}", "--adopt none"):
        assert words in line
    assert len(list((tmp_path / "runs" / "pool").iterdir())) == 1
    adopted = run(revision("b"), "--adopt", key[:8])
    for words in ("6 problems' responses taken over", "pool: reused for 6 of 6", "embeddings: reused for 6 of 6"):
        assert words in adopted.err
    assert [row["samples_to_correct"] for row in adopted.rows] == [row["samples_to_correct"] for row in rows]
    assert run(revision("b")).rows == adopted.rows


def test_a_run_that_is_told_so_or_has_other_settings_samples_anew(run, older):
    assert "sample: 96 responses" in run(revision("b"), "--adopt", "none").err
    assert "sample: 54 responses" in run(revision("b"), "--n", "9").err


def test_another_model_of_this_version_is_sampled_without_a_question(run):
    run(revision("a"))
    assert "sample: 96 responses" in run(revision("b")).err


def test_responses_to_another_prompt_are_not_taken_for_those_to_this_one(run, older):
    for more in ((), ("--adopt", older[0])):
        line = error_line(run(("Say colour", "Tell me colour"), *more))
        assert "to other prompts" in line
        assert "pool export" in line
        assert "--adopt none" in line


def test_an_older_run_until_correct_is_not_sampled_again_unasked(run, harness, tmp_path):
    until = {"selector": ("--until-correct",)}
    run(revision("a"), **until)
    [key] = [folder.name for folder in (tmp_path / "runs" / "sequence").iterdir()]
    unseal(tmp_path / "runs")
    assert harness("doctor", "--store", tmp_path / "runs", "--rekey").code == 0
    line = error_line(run(revision("b"), **until))
    assert f"sequences {key} of an older version hold responses to 6 of 6 problems" in line
    assert "--adopt none" in line
    assert run(revision("b"), "--adopt", "none", **until).code == 0


def test_a_problem_whose_reference_changed_keeps_its_responses(run):
    run((IDENTITY, IDENTITY))
    outcome = run(("reference=WORDS[i % 7]", 'reference=WORDS[i % 7] if i % 2 else "red"'))
    assert outcome.code == 0
    assert "2 problems' responses taken over" in outcome.err  # 2 and 4; problem 0 was red before
    assert "sample:" not in outcome.err
