"""The trainer `trl`: real runs of the embedded model on Game of 24, and what TRL's own arithmetic is replaced by."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file
from support.json_lines import read_json_lines
from support.processes import descendants, harness_command, run_to_end
from support.refusals import refusal_of
from support.training_runs import game24_run

from harness import HarnessError
from harness.system.children import run_child
from harness.training import Rollouts, Settings, TrainingRun
from harness_plugins.engines.transformers.engine import Transformers
from harness_plugins.models.tiny24 import folder as tiny24
from harness_plugins.rl import trl_settings, trl_trainer
from harness_plugins.rl.repexp_bonus import RepExpBonus
from harness_plugins.rl.shaping import Grader
from harness_plugins.rl.trl_rollouts import batch_of
from harness_plugins.rl.trl_trainer import Trl
from harness_plugins.rl.unlikely_bonus import Unlikeliness
from harness_tasks.game24 import Game24

pytest.importorskip("trl")
# TRL 1.16.0 itself still asks transformers by a name that is going.
pytestmark = pytest.mark.filterwarnings("ignore:.*deprecated and will be removed in v6:FutureWarning")

SETTINGS = Settings(
    learning_rate=1e-3,
    batch=6,
    mini_batch=3,
    micro_batch=5,
    rollouts=4,
    max_response=64,
    steps=4,
    save_every=2,
    dev_samples=3,
)


def made(folder: Path, **changes) -> TrainingRun:
    """A small run of Game of 24 in a folder."""
    fields = {"model": "tiny24-medium", "bonus": "repexp", "trainer": "trl:log_groups=true", "settings": SETTINGS}
    return game24_run(folder, 20, 5, **fields | changes)


def trained(run: TrainingRun, options: Trl | None = None, watch=lambda: None) -> list[dict]:
    """The run's metrics, less the seconds, after its child has ended."""
    launch = (options or Trl(log_groups=True)).launch(run)
    status = run_child(launch.command, {**launch.environment, "OMP_NUM_THREADS": "1"}, run.folder / "log.txt", watch)
    assert status == 0, (run.folder / "log.txt").read_text()[-3000:]
    return metrics(run)


def metrics(run: TrainingRun) -> list[dict]:
    lines = read_json_lines(run.metrics)
    return [{name: value for name, value in line.items() if name != "step_s"} for line in lines]


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    """A run that nothing disturbed."""
    run = made(tmp_path_factory.mktemp("unbroken"))
    trained(run)
    return run


@pytest.fixture(scope="module")
def trainer(tmp_path_factory):
    """TRL's trainer as the child makes it, before its first step."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from harness_plugins.rl.trl_grpo import GroupTrainer

        os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
        made_one = GroupTrainer(made(tmp_path_factory.mktemp("trainer")), Trl(), None)
    made_one.current_gradient_accumulation_steps = made_one.args.gradient_accumulation_steps
    made_one.model.train()
    return made_one


# Whole runs


def test_a_run_logs_every_step_and_validates_where_it_saves(unbroken):
    lines = metrics(unbroken)
    assert [line["step"] for line in lines] == [0, 1, 2, 3, 4]
    assert ["dev_pass_at_1" in line for line in lines] == [True, False, True, False, True]
    assert [one.step for one in Trl().saved(unbroken)] == [2, 4]
    assert all(line["entropy"] > 0 and 20 < line["response_tokens"] <= 64 for line in lines[1:])


@pytest.mark.slow
def test_a_run_killed_after_a_checkpoint_goes_on_to_the_same_curve(unbroken, tmp_path):
    run = made(tmp_path)
    launch = Trl(log_groups=True).launch(run)
    with (tmp_path / "log.txt").open("wb") as log:
        child = subprocess.Popen(
            launch.command,
            env={**os.environ, **launch.environment, "OMP_NUM_THREADS": "1"},
            stdout=log,
            stderr=log,
        )
    while not Trl().saved(run):
        assert child.poll() is None, (tmp_path / "log.txt").read_text()[-3000:]
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    child.wait()
    with run.metrics.open("a") as out:  # as if it had died a moment later, in the middle of a line
        out.write('{"step": 3, "reward": 0.99}\n{"step": 4, "rew')
    half = run.checkpoints / ".part"
    half.mkdir(exist_ok=True)
    (half / "config.json").write_text("{")
    (run.checkpoints / "step-000009.copy").mkdir()
    assert trained(run) == metrics(unbroken)
    assert [one.step for one in Trl().saved(run)] == [2, 4]
    ours, theirs = (load_file(one.checkpoints / "step-000004" / "model.safetensors") for one in (run, unbroken))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


@pytest.mark.slow
def test_kill_9_of_the_command_ends_the_trainer_and_the_same_command_goes_on(tmp_path):
    command = harness_command("rl", "train", "--task", "game24", "--trainer", "trl", "--cpu")
    command += ["--model", "tiny24-medium", "--limit", "8", "--out", str(tmp_path / "run")]
    for setting in ("steps=3", "save_every=1", "batch=4", "mini_batch=4", "dev_samples=2", "max_response=64"):
        command += ["--set", setting]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    child = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    while not list((tmp_path / "run").glob("checkpoints/step-*")):
        assert child.poll() is None, child.communicate()[1]
        time.sleep(0.01)
    family = descendants(child.pid)
    child.send_signal(signal.SIGKILL)
    assert len(family) >= 2  # the warden and the trainer
    child.communicate()
    done = run_to_end(command, env=environment)  # at once
    assert done.returncode == 0, done.stderr
    assert "going on after step" in done.stderr
    assert not any(Path(f"/proc/{pid}").exists() for pid in family)
    lines = read_json_lines(tmp_path / "run" / "metrics.jsonl")
    assert [line["step"] for line in lines] == [0, 1, 2, 3]


def test_the_logged_bonus_is_the_pure_function_of_the_logged_groups(unbroken):
    for line in metrics(unbroken)[1:]:
        rollouts, shaped = groups(unbroken, line["step"])
        again = RepExpBonus().shape(rollouts, line["step"], unbroken.seed, {})
        assert torch.equal(again.rewards, shaped)
        assert line["bonus"] == pytest.approx(again.metrics["bonus"], rel=1e-5)
        assert line["reward"] == pytest.approx(float(rollouts.rewards.mean()), rel=1e-5)
        assert len(rollouts.groups()) == SETTINGS.batch
        assert set(map(len, rollouts.groups().values())) == {SETTINGS.rollouts}
    assert any(line["bonus"] > 0 for line in metrics(unbroken)[1:])


def groups(run: TrainingRun, step: int) -> tuple[Rollouts, torch.Tensor]:
    """A step's rollouts as logged, and the rewards that the policy was trained on."""
    with safe_open(run.folder / "groups" / f"step-{step:06d}.safetensors", "pt") as kept:
        problems = json.loads(kept.metadata()["problems"])
        found = {name: kept.get_tensor(name) for name in kept.keys()}  # noqa: SIM118
    shaped = found.pop("shaped")
    return Rollouts(problems, **found), shaped


def test_a_checkpoint_is_a_model_that_the_engine_samples_from(unbroken):
    checkpoint = Trl().saved(unbroken)[-1]
    exported = Trl().export(unbroken, checkpoint)
    first = Transformers(model="tiny24-medium")
    policy = Transformers(model=str(exported))
    prompt = Game24().messages(Game24().problems("dev")[0])
    assert policy._checkpoint.prompt_ids(prompt) == first._checkpoint.prompt_ids(prompt)
    kept, own = (
        json.loads((each / "generation_config.json").read_text()) for each in (exported, tiny24("tiny24-medium"))
    )
    assert {**kept, "transformers_version": None} == {**own, "transformers_version": None}
    before = dict(first._checkpoint.model.named_parameters())
    after = dict(policy._checkpoint.model.named_parameters())
    assert all(not torch.equal(before[name], after[name]) for name in before)


def test_only_the_latest_checkpoint_keeps_the_optimiser(unbroken):
    assert [path.parent.name for path in sorted(unbroken.checkpoints.glob("*/optimizer.pt"))] == ["step-000004"]


def test_a_finished_run_has_nothing_to_do(unbroken):
    before = unbroken.metrics.read_bytes()
    trained(unbroken)
    assert unbroken.metrics.read_bytes() == before


def test_unlikeliness_ranks_by_what_the_policy_gave_and_another_seed_draws_otherwise(unbroken, tmp_path):
    run = made(tmp_path, bonus="unlikely", seed=6, settings=replace(SETTINGS, steps=1))
    line = trained(run)[1]
    rollouts, shaped = groups(run, 1)
    assert torch.equal(Unlikeliness().shape(rollouts, 1, 6, {}).rewards, shaped)
    assert line["bonus"] < 0
    assert rollouts.problems != groups(unbroken, 1)[0].problems


@pytest.mark.slow
def test_two_processes_shape_the_same_groups_as_one(unbroken, tmp_path):
    run = made(tmp_path, settings=replace(SETTINGS, mini_batch=6, steps=1), trainer="trl:log_groups=true,processes=2")
    line = trained(run, Trl(log_groups=True, processes=2))[1]
    assert groups(run, 1)[0].problems == groups(unbroken, 1)[0].problems
    for name in ("reward", "bonus", "all_wrong"):
        assert line[name] == pytest.approx(metrics(unbroken)[1][name], rel=1e-4)
    assert metrics(run)[0] == metrics(unbroken)[0]


# What TRL does otherwise


def test_advantages_are_verls_and_trls_own_are_still_otherwise(trainer):
    """If the second half fails, TRL has changed: see whether the override is still needed, and still right."""
    inputs = next(iter(trainer.get_train_dataloader()))
    ours = trainer._generate_and_score_completions(inputs)["advantages"].double()
    theirs = super(type(trainer), trainer)._generate_and_score_completions(inputs)["advantages"].double()
    groups = trainer.shaped.rewards.view(-1, SETTINGS.rollouts)
    apart = groups - groups.mean(1, keepdim=True)
    deviation = groups.std(1, keepdim=True)
    assert torch.allclose(ours, (apart / (deviation + 1e-6)).flatten(), rtol=1e-6, atol=1e-6)
    mixed = (deviation > 0.1).expand_as(groups).flatten()
    assert mixed.any()
    assert torch.allclose(theirs, (apart / (deviation + 1e-4)).flatten(), rtol=1e-5, atol=1e-3)
    assert not torch.allclose(theirs[mixed], ours[mixed], rtol=1e-5, atol=1e-6)


def test_the_bonus_of_an_all_correct_group_is_not_lost_to_rounding():
    from harness_plugins.rl.trl_grpo import group_advantages

    spread = 1 + 1e-6 * torch.tensor([0.0, 1.0, 2.0, 3.0], dtype=torch.float64)
    found = group_advantages(torch.cat([spread, torch.ones(4, dtype=torch.float64)]), 4)
    expected = (spread - spread.mean()) / (spread.std() + 1e-6)
    assert torch.allclose(found[:4], expected, rtol=1e-9)
    assert float(found[3]) > 0.6
    assert found[4:].tolist() == [0, 0, 0, 0]


def test_the_strict_grader_decides_the_reward_and_knows_how_responses_ended(trainer, tmp_path, monkeypatch):
    plugin = tmp_path / "ends24.py"
    plugin.write_text(ENDS24)
    run = replace(trainer.run, task="ends24", plugin_files=(plugin,), reward="strict")
    by_verifier = trainer.dev_pass_at_1()
    monkeypatch.setattr(trainer, "grader", Grader(run))
    assert trainer.dev_pass_at_1() > by_verifier + 0.2  # that many more end by themselves than solve the puzzle
    assert trainer.grader.errors == 0


ENDS24 = """
from harness import correct, error, hookimpl, wrong
from harness_tasks.game24 import Game24


class Ends24(Game24):
    reads_finish = True

    def verify(self, problem, response, *, finish):
        return error("the verifier is not asked")

    def audit(self, problem, response, *, finish):
        return correct() if finish == "stop" else wrong(finish)


@hookimpl
def register_tasks(register):
    register("ends24", Ends24)
"""


def test_an_update_follows_the_mean_over_its_mini_batchs_tokens(trainer):
    """By hand: log-probabilities of a plain forward pass, advantage times ratio, over the tokens of three problems."""
    trainer._step, trainer._buffered_inputs = 0, None
    raw = next(iter(trainer.get_train_dataloader()))
    many = trainer.args.gradient_accumulation_steps
    assert trainer.args.steps_per_generation == 2 * many
    for first in (0, many):  # both mini-batches, whose numbers of tokens differ
        trainer.model.zero_grad()
        parts = []
        for trainer._step in range(first, first + many):
            parts.append(trainer._prepare_inputs(raw))
            trainer.compute_loss(trainer.model, parts[-1]).backward()
        found = {name: weight.grad.clone() for name, weight in trainer.model.named_parameters()}
        trainer.model.zero_grad()
        _by_hand(trainer.model, parts).backward()
        for name, weight in trainer.model.named_parameters():
            assert torch.allclose(found[name], weight.grad, rtol=1e-3, atol=1e-6), name
    trainer._step = 0


def _by_hand(model, parts):
    total, tokens = 0.0, 0
    for part in parts:
        ids = torch.cat([part["prompt_ids"], part["completion_ids"]], 1)
        mask = torch.cat([part["prompt_mask"], part["completion_mask"]], 1)
        width = part["completion_ids"].shape[1]
        logits = model(input_ids=ids, attention_mask=mask).logits[:, -width - 1 : -1]
        logprobs = logits.log_softmax(-1).gather(2, part["completion_ids"][..., None])[..., 0]
        ratio = (logprobs - logprobs.detach()).exp()
        total = total - (ratio * part["advantages"][:, None] * part["completion_mask"]).sum()
        tokens += int(part["completion_mask"].sum())
    return total / tokens


def test_every_weight_decays_and_the_rate_is_constant(trainer):
    trainer.create_optimizer_and_scheduler(10)
    groups = trainer.optimizer.param_groups
    assert sum(len(group["params"]) for group in groups) == len(list(trainer.model.parameters()))
    assert {(group["lr"], group["weight_decay"], group["betas"]) for group in groups} == {(1e-3, 0.01, (0.9, 0.999))}
    assert {trainer.lr_scheduler.lr_lambdas[0](step) for step in (0, 1, 9)} == {1}


@pytest.mark.parametrize("whose", ["ref", "policy"])
def test_hidden_states_are_those_of_a_plain_forward_pass(trainer, tmp_path, whose, monkeypatch):
    from transformers import AutoModelForCausalLM

    monkeypatch.setattr(trainer, "options", Trl(hidden=whose))
    monkeypatch.setattr(trainer, "reference", trainer.reference if whose == "ref" else None)
    prompts = [str(place) for place in (7, 2) for _ in range(SETTINGS.rollouts)]
    rollouts = trainer._roll_out(prompts, trainer)
    found = trainer._hidden()
    logprobs = trainer.step_responses.logprobs()
    plain = AutoModelForCausalLM.from_pretrained(tiny24("tiny24-medium"), dtype=torch.float32).eval()
    for row, (prompt, response) in enumerate(zip(rollouts["prompt_ids"], rollouts["completion_ids"], strict=True)):
        with torch.no_grad():
            output = plain(torch.tensor([[*prompt, *response]]), output_hidden_states=True)
        expected = output.hidden_states[-1][0, len(prompt) :].double().mean(0)
        assert float(torch.cosine_similarity(found[row], expected, dim=0)) >= 0.9999
        assert torch.allclose(found[row], expected, rtol=1e-3, atol=1e-4)
        each = output.logits[0, len(prompt) - 1 : -1].log_softmax(-1).gather(1, torch.tensor(response)[:, None])
        assert float(logprobs[row]) == pytest.approx(float(each.mean()), abs=1e-4)


def test_the_embedder_hidden_mean_gives_the_same_states(trainer):
    engine = Transformers(model="tiny24-medium")
    trainer._roll_out(["3"] * SETTINGS.rollouts, trainer)
    theirs = engine.encode(trainer.train_chats[3][1], trainer.step_responses.responses[0], ("mean",))["mean"]
    assert np.allclose(trainer._hidden().numpy(), theirs, rtol=1e-4, atol=1e-5)


def test_trl_reads_a_steps_problems_as_often_as_it_has_passes_over_them(trainer):
    rows = list(trainer._get_train_sampler())
    size = SETTINGS.batch * SETTINGS.rollouts
    reads = trainer.args.steps_per_generation
    for step in range(1, 5):
        expected = [place for place in batch_of(20, 6, 5, step) for _ in range(4)]
        start = (step - 1) * reads * size
        assert all(rows[start + i * size : start + (i + 1) * size] == expected for i in range(reads))
    assert len(rows) == len(trainer._get_train_sampler()) == 4 * reads * size


# Settings


@given(problems=st.integers(1, 60), batch=st.integers(1, 60), seed=st.integers(0, 9), epoch=st.integers(0, 5))
def test_an_epoch_has_each_problem_at_most_once_and_leaves_out_less_than_a_batch(problems, batch, seed, epoch):
    batch = min(batch, problems)
    steps = problems // batch
    seen = [place for step in range(steps) for place in batch_of(problems, batch, seed, 1 + epoch * steps + step)]
    assert len(seen) == len(set(seen)) > problems - batch
    assert set(seen) <= set(range(problems))


def test_epochs_and_seeds_have_orders_of_their_own():
    orders = {tuple(batch_of(30, 30, seed, step)) for seed in (1, 2) for step in (1, 2)}
    assert len(orders) == 4


def test_settings_become_trls(tmp_path):
    paper = replace(made(tmp_path), settings=Settings(steps=3), cpu=False)
    found = trl_settings.grpo_arguments(paper, 1, 3)
    assert found["per_device_train_batch_size"] * found["gradient_accumulation_steps"] == 256 * 8
    assert found["per_device_train_batch_size"] * found["steps_per_generation"] == 1024 * 8
    assert (found["max_steps"], found["logging_steps"]) == (12, 4)
    assert (found["epsilon"], found["delta"], found["max_grad_norm"], found["beta"]) == (0.2, 3.0, 1.0, 0.0)
    assert (found["loss_type"], found["scale_rewards"], found["learning_rate"]) == ("dapo", "group", 1e-6)
    two = trl_settings.grpo_arguments(paper, 2, 3)
    assert two["per_device_train_batch_size"] * two["gradient_accumulation_steps"] == 128 * 8


@given(mini=st.integers(1, 40), rollouts=st.integers(2, 9), micro=st.integers(1, 70))
def test_a_forward_pass_has_no_more_rows_than_asked_for_and_divides_the_mini_batch(mini, rollouts, micro):
    settings = Settings(batch=mini, mini_batch=mini, rollouts=rollouts, micro_batch=micro)
    rows = trl_settings.micro_batch(settings, 1)
    assert rows <= micro
    assert (mini * rollouts) % rows == 0


def test_overrides_win_and_are_converted(tmp_path):
    run = made(tmp_path, overrides=("weight_decay=0", "activation_checkpointing=true", "loss_type=grpo"))
    found = trl_settings.grpo_arguments(run, 1, 3)
    assert (found["weight_decay"], found["activation_checkpointing"], found["loss_type"]) == (0.0, True, "grpo")


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("wieght_decay=0", "trl: unknown option 'wieght_decay' (did you mean 'weight_decay'?"),
        ("max_steps=3", "trl: unknown option 'max_steps'"),
        ("weight_decay=much", "trl: weight_decay must be a number, got 'much'"),
        ("activation_checkpointing=1", "trl: activation_checkpointing must be one of true, false, got '1'"),
        ("loss_type=dapoo", "trl: loss_type must be one of dapo, grpo, bnpo, dr_grpo, got 'dapoo'"),
        ("weight_decay", "trl: options are written key=value, got 'weight_decay'"),
    ],
)
def test_a_wrong_override_is_one_line(tmp_path, override, said):
    assert refusal_of(Trl().check, made(tmp_path, overrides=(override,))).startswith(said)


# What is checked before the child is started


def test_a_run_in_order_has_no_remarks(tmp_path):
    assert Trl().check(made(tmp_path)) == []


def test_a_missing_extra_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "trl", None)
    assert refusal_of(Trl().check, made(tmp_path)) == "trl: trl is not installed: pip install 'diversity-harness[trl]'"


def test_another_version_of_trl_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(trl_trainer, "VERSION", "1.15.9")
    with pytest.raises(HarnessError, match=r"trl 1\.15\.9 is needed .*, found 1\.16\.0: pip install 'trl==1\.15\.9'$"):
        Trl().check(made(tmp_path))


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_no_gpu_is_one_line(tmp_path):
    with pytest.raises(HarnessError, match=r"^trl: no GPU found; train on the CPU with --cpu$"):
        Trl().check(made(tmp_path, cpu=False))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"settings": replace(SETTINGS, batch=21)}, "trl: a batch of 21 prompts, but only 20 problems to train on"),
        ({"settings": replace(SETTINGS, max_response=1000)}, "tiny24-medium: the longest prompt has 47 tokens"),
        ({"model": "tiny24-larch"}, "unknown model 'tiny24-larch'"),
    ],
)
def test_what_would_fail_in_the_child_is_one_line_before_it(tmp_path, changes, said):
    assert refusal_of(Trl().check, made(tmp_path, **changes)).startswith(said)


def test_a_model_that_does_not_fit_is_one_line_and_one_that_hardly_does_a_remark(tmp_path, monkeypatch):
    run = made(tmp_path)
    monkeypatch.setattr(trl_trainer, "_main_memory", lambda: (1, 942_976 * 21))
    said = "the weights, their gradients, the optimiser and the reference need 0.0 GiB, activations aside"
    assert Trl().check(run) == [f"trl: {said}; 0.0 GiB of this machine are free"]
    monkeypatch.setattr(trl_trainer, "_main_memory", lambda: (1, 942_976 * 19))
    with pytest.raises(
        HarnessError, match=r"^trl: the model does not fit: the weights, .*; this machine has 0\.0 GiB$"
    ):
        Trl().check(run)


def test_prompts_that_are_too_long_are_left_out_and_too_few_are_left_is_one_line_in_the_log(tmp_path):
    run = made(tmp_path, settings=replace(SETTINGS, max_prompt=46))
    launch = Trl().launch(run)
    status = run_child(launch.command, launch.environment, run.folder / "log.txt")
    assert status == 1
    said = (run.folder / "log.txt").read_text().splitlines()[-1]
    assert said == "error: trl: a batch of 6 prompts, but only 0 problems with prompts of at most 46 tokens"


def test_the_trainers_own_side_imports_neither_torch_nor_trl():
    code = "import sys; import harness_plugins.rl.trl_trainer; sys.exit(bool({'torch', 'trl'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
