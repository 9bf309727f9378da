"""The rollouts of a policy in training, and their random streams."""

import json
import shutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import Sampler
from harness.records import SampleRequest
from harness_plugins.models.location import embedded as tiny24
from harness_tasks.game24 import Game24

pytest.importorskip("trl")
from harness_plugins.rl.trl_child import PolicyEngine, batch_of, stream

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
