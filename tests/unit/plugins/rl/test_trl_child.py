"""The rollouts of a policy in training, and their random streams."""

import json
import shutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.json_lines import write_json_lines
from support.training_runs import game24_run

from harness import Sampler
from harness.records import SampleRequest
from harness_plugins.models.location import embedded as tiny24
from harness_plugins.rl.checkpoints import STEP_METRICS, best_step
from harness_plugins.rl.training import Settings, read_metrics
from harness_tasks.game24 import Game24

pytest.importorskip("trl")
from harness_plugins.rl.trl_child import PolicyEngine, batch_of, main, stream

pytestmark = pytest.mark.usefixtures("one_thread")


@given(problems=st.integers(1, 60), batch=st.integers(1, 60), seed=st.integers(0, 9), epoch=st.integers(0, 5))
def test_an_epoch_has_each_problem_at_most_once_and_leaves_out_less_than_a_batch(problems, batch, seed, epoch):
    batch = min(batch, problems)
    steps = problems // batch
    seen = [place for step in range(steps) for place in batch_of(problems, batch, seed, 1 + epoch * steps + step)]
    assert len(seen) == len(set(seen)) > problems - batch
    assert set(seen) <= set(range(problems))
    assert len({tuple(batch_of(30, 30, seed, step)) for seed in (1, 2) for step in (1, 2)}) == 4
    assert len({stream(seed, *place) for seed in (1, 2) for place in ((0, 1), (1, 0), (0, 2), (0,))}) == 8


def test_rollouts_are_the_engines_whatever_fits_into_a_batch_and_leave_the_policy_training():
    task = Game24()
    prompts = [task.messages(problem) for problem in task.problems("dev")[:3]]
    small, large = (PolicyEngine(model="tiny24-weak", device="cpu", batch=rows) for rows in (4, 64))
    small._checkpoint.model.train()
    request = SampleRequest(prompts, 2, Sampler(temperature=0.7), 24, [1, 2, 3], ("mean",))
    sampled = small.sample(request)
    assert small._checkpoint.model.training
    assert not large._checkpoint.model.training
    plain = large.sample(request)
    assert [pool.token_ids for pool in sampled] == [pool.token_ids for pool in plain]
    np.testing.assert_allclose(sampled[2].states["mean"], plain[2].states["mean"], atol=1e-4)


def test_a_saved_policy_has_the_decoding_defaults_of_the_initial_model_if_any(tmp_path):
    own = json.loads((tiny24("tiny24-weak") / "generation_config.json").read_text())
    PolicyEngine(model="tiny24-weak", device="cpu").save(tmp_path / "policy")
    kept = json.loads((tmp_path / "policy" / "generation_config.json").read_text())
    assert {**kept, "transformers_version": None} == {**own, "transformers_version": None}
    bare = shutil.copytree(tiny24("tiny24-weak"), tmp_path / "bare")
    (bare / "generation_config.json").unlink()
    PolicyEngine(model=str(bare), device="cpu").save(tmp_path / "without")
    assert not (tmp_path / "without" / "generation_config.json").exists()
    assert (tmp_path / "without" / "tokenizer.json").exists()


def test_a_step_that_was_saved_and_not_logged_is_logged_once_when_the_run_goes_on(tmp_path):
    run = game24_run(tmp_path, 2, 2, model="tiny24-weak", bonus="none", trainer="trl", settings=Settings(steps=4))
    saved = run.checkpoints / "step-000004"
    saved.mkdir(parents=True)
    (saved / STEP_METRICS).write_text('{"dev_pass_at_1": 0.5, "reward": 0.25}')
    write_json_lines(run.metrics, [{"step": step, "reward": 0.125} for step in (1, 2, 3)])
    for _ in range(2):
        main(tmp_path)  # no step is left to train
        assert [line["step"] for line in read_metrics(run.metrics)] == [1, 2, 3, 4]
    assert best_step(run, [4]) == (4, 0.5)
