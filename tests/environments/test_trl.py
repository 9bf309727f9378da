"""TRL's real trainer on Game of 24 with an embedded model: whole runs, and what TRL's own arithmetic is replaced by.

One run is trained in this process; the same run is also trained by the command, which is killed and goes on.
"""

import os
import subprocess
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from support.json_lines import read_json_lines
from support.processes import descendants, harness_command, run_to_end, wait_for, wait_until_ended
from support.recording_bonus import RECORDING, hold, recorded

from harness_plugins.engines.transformers.engine import Transformers
from harness_plugins.models.location import embedded
from harness_plugins.rl import training_run
from harness_plugins.rl.commands import TrainRequest
from harness_plugins.rl.rewards import Shaping
from harness_plugins.rl.training import TrainingRun, hours_spent, read_metrics
from harness_plugins.rl.trl_child import batch_of
from harness_plugins.rl.trl_trainer import Trl
from harness_tasks.game24 import Game24

pytest.importorskip("trl")
# TRL 1.16.0 itself still asks transformers by a name that is going.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.filterwarnings("ignore:.*deprecated and will be removed in v6:FutureWarning"),
]

MODEL, PROBLEMS, BATCH, ROLLOUTS, STEPS = "tiny24-medium", 9, 4, 4, 4
SETTINGS = {"learning_rate": 1e-3, "batch": BATCH, "mini_batch": 2, "micro_batch": 5, "rollouts": ROLLOUTS}
SETTINGS |= {"max_response": 64, "steps": STEPS, "save_every": 2, "dev_samples": 2}


def prepared(folder: Path, settings: dict | None = None, **fields) -> TrainingRun:
    """A small run of Game of 24 in a folder."""
    options = {"task": "game24", "trainer": "trl", "model": MODEL, "bonus": "recording", "cpu": True}
    texts = {name: str(value) for name, value in (SETTINGS | (settings or {})).items()}
    options |= {"plugin_files": (RECORDING,), "limit": PROBLEMS, "settings": texts, "out": folder}
    return training_run.prepare(TrainRequest(**options | fields), 5).run


def made(run: TrainingRun):
    """TRL's trainer as the child makes it, from the latest checkpoint if there is one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from harness_plugins.rl.trl_child import GroupTrainer

        return GroupTrainer(run, Trl(), (Trl().saved(run) or [None])[-1])


def trained(run: TrainingRun) -> TrainingRun:
    """The run after its last step, trained in this process."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
        patch.setenv("HARNESS_RL_RUN", str(run.folder))
        made(run).train_on()
    return run


def metrics(run: TrainingRun) -> list[dict]:
    """The run's metrics, less the seconds."""
    return [{k: v for k, v in line.items() if k != "step_s"} for line in read_json_lines(run.metrics)]


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    """A run that nothing disturbed."""
    return trained(prepared(tmp_path_factory.mktemp("unbroken")))


@pytest.fixture
def trainer(tmp_path):
    """TRL's trainer before its first step, RepExp's bonus on its rewards; a later one resets accelerate's state."""
    trainer = made(prepared(tmp_path, bonus="repexp"))
    trainer.current_gradient_accumulation_steps = trainer.args.gradient_accumulation_steps
    trainer.model.train()
    return trainer


# Whole runs


def test_a_run_logs_every_step_and_saves_models_that_the_engine_samples_from_where_it_validates(unbroken):
    lines, shaping = metrics(unbroken), Shaping(replace(unbroken, bonus="repexp:persist=true"))
    assert [line["step"] for line in lines] == [0, 1, 2, 3, 4]
    assert ["dev_pass_at_1" in line for line in lines] == [True, False, True, False, True]
    assert any(line["bonus"] > 0 for line in lines[1:])
    for line in lines[1:]:
        assert line["entropy"] > 0
        assert 20 < line["response_tokens"] <= 64
        rollouts, shaped = recorded(unbroken.folder, line["step"])  # the bonus is the pure function of the rollouts
        again = shaping.shape(rollouts, line["step"])
        assert torch.equal(again.rewards, shaped)
        assert line["bonus"] == pytest.approx(again.metrics["bonus"], rel=1e-5)
        assert line["reward"] == pytest.approx(float(rollouts.rewards.mean()), rel=1e-5)
        assert [len(rows) for rows in rollouts.groups().values()] == [ROLLOUTS] * BATCH
    saved = Trl().saved(unbroken)
    assert [checkpoint.step for checkpoint in saved] == [2, 4]
    assert [path.parent.name for path in sorted(unbroken.checkpoints.glob("*/optimizer.pt"))] == ["step-000004"]
    first, policy = Transformers(model=MODEL), Transformers(model=str(Trl().export(unbroken, saved[-1])))
    prompt = Game24().messages(Game24().problems("dev")[0])
    assert policy._checkpoint.prompt_ids(prompt) == first._checkpoint.prompt_ids(prompt)
    before, after = (dict(engine._checkpoint.model.named_parameters()) for engine in (first, policy))
    assert all(not torch.equal(before[name], after[name]) for name in before)


def test_a_command_killed_by_signal_9_goes_on_to_the_same_curve_and_the_same_weights(unbroken, tmp_path):
    run = replace(unbroken, folder=tmp_path / "run")
    words = ["--task", "game24", "--trainer", "trl", "--model", MODEL, "--bonus", "recording", "--cpu"]
    words += ["--plugin", RECORDING, "--limit", PROBLEMS, "--seed", 5, "--out", run.folder]
    words += [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
    command = harness_command("rl", "train", *words)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HARNESS_RL_RUN": str(run.folder)}
    held = hold(run.folder, 4)
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        wait_for(lambda: process.poll() is not None or len(read_metrics(run.metrics)) == 4)
        family = descendants(process.pid)
        process.kill()
        assert len(family) >= 2, process.communicate()[1]  # the warden and the trainer
    wait_until_ended(family, 240)
    assert metrics(run) == metrics(unbroken)[:4]
    with run.metrics.open("a") as out:  # as if it had died a moment later, in the middle of a line
        out.write('{"step": 4, "rew')
    for folder in (".part", "step-000009.copy"):
        (run.checkpoints / folder).mkdir()
    (run.checkpoints / ".part" / "config.json").write_text("{")
    held.unlink()
    done = run_to_end(command, env=environment)
    assert done.returncode == 0, done.stderr
    assert "going on after step 3" in done.stderr
    assert metrics(run) == metrics(unbroken)
    assert [checkpoint.step for checkpoint in Trl().saved(run)] == [2, 4]
    ours, theirs = (load_file(each.checkpoints / "step-000004" / "model.safetensors") for each in (run, unbroken))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_a_run_ends_with_a_checkpoint_after_the_step_in_which_its_hours_are_over_and_goes_on_with_more(tmp_path):
    run = trained(prepared(tmp_path, bonus="none", settings={"hours": 1e-6, "save_every": 9}))
    assert [line["step"] for line in metrics(run) if "dev_pass_at_1" in line] == [0, 1]
    assert [checkpoint.step for checkpoint in Trl().saved(run)] == [1]
    assert 1e-6 < hours_spent(run.folder) < 1
    more = prepared(tmp_path, bonus="none", settings={"hours": 1, "steps": 2, "save_every": 9, "keep": 2})
    assert [line["step"] for line in metrics(trained(more))] == [0, 1, 2]
    assert len(list(more.checkpoints.glob("*/optimizer.pt"))) == 2


# What TRL does otherwise


def test_advantages_are_verls_and_trls_own_are_still_otherwise(trainer):
    """If the second half fails, TRL has changed: see whether the override is still needed, and still right."""
    from harness_plugins.rl.trl_child import group_advantages

    spread = 1 + 1e-6 * torch.arange(4, dtype=torch.float64)  # a bonus on correct responses, not lost to rounding
    expected = (spread - spread.mean()) / (spread.std() + 1e-6)
    assert torch.allclose(group_advantages(spread, 4), expected, rtol=1e-9)
    assert group_advantages(torch.ones(4, dtype=torch.float64), 4).tolist() == [0, 0, 0, 0]
    inputs = next(iter(trainer.get_train_dataloader()))
    ours = trainer._generate_and_score_completions(inputs)["advantages"].double()
    theirs = super(type(trainer), trainer)._generate_and_score_completions(inputs)["advantages"].double()
    groups = trainer.shaped.rewards.view(-1, ROLLOUTS)
    apart, deviation = groups - groups.mean(1, keepdim=True), groups.std(1, keepdim=True)
    assert torch.allclose(ours, (apart / (deviation + 1e-6)).flatten(), rtol=1e-6, atol=1e-6)
    mixed = (deviation > 0.1).expand_as(groups).flatten()
    assert mixed.any()
    assert torch.allclose(theirs, (apart / (deviation + 1e-4)).flatten(), rtol=1e-5, atol=1e-3)
    assert not torch.allclose(theirs[mixed], ours[mixed], rtol=1e-5, atol=1e-6)


def test_an_update_follows_the_mean_over_its_mini_batchs_tokens(trainer, monkeypatch):
    """By hand: log-probabilities of a plain forward pass, advantage times ratio, over the tokens of two problems."""

    def by_hand(parts):
        total, tokens = 0.0, 0
        for part in parts:
            ids = torch.cat([part["prompt_ids"], part["completion_ids"]], 1)
            mask = torch.cat([part["prompt_mask"], part["completion_mask"]], 1)
            width = part["completion_ids"].shape[1]
            logits = trainer.model(input_ids=ids, attention_mask=mask).logits[:, -width - 1 : -1]
            logprobs = logits.log_softmax(-1).gather(2, part["completion_ids"][..., None])[..., 0]
            ratio = (logprobs - logprobs.detach()).exp()
            total = total - (ratio * part["advantages"][:, None] * part["completion_mask"]).sum()
            tokens += int(part["completion_mask"].sum())
        return total / tokens

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
        gradients = {name: weight.grad.clone() for name, weight in trainer.model.named_parameters()}
        trainer.model.zero_grad()
        by_hand(parts).backward()
        for name, weight in trainer.model.named_parameters():
            assert torch.allclose(gradients[name], weight.grad, rtol=1e-3, atol=1e-6), name
    ended = []  # validation grades as the reward does, and knows how responses ended
    monkeypatch.setattr(trainer.grader, "rewards", lambda problem, texts, finish: ended.extend(finish) or [1, 0])
    assert trainer.dev_pass_at_1() == 0.5
    assert set(ended) <= {"stop", "length"}
    assert len(ended) == 2 * len(trainer.dev)


@pytest.mark.parametrize("whose", ["ref", "policy"])
def test_hidden_states_are_those_of_a_plain_forward_pass_and_of_the_engine(trainer, whose, monkeypatch):
    from transformers import AutoModelForCausalLM

    monkeypatch.setattr(trainer, "options", Trl(hidden=whose))
    monkeypatch.setattr(trainer, "reference", trainer.reference if whose == "ref" else None)
    rollouts = trainer._roll_out([str(place) for place in (7, 2) for _ in range(ROLLOUTS)], trainer)
    hidden, logprobs = trainer._hidden(), trainer._logprobs()
    plain = AutoModelForCausalLM.from_pretrained(embedded(MODEL), dtype=torch.float32).eval()
    for row, (prompt, response) in enumerate(zip(rollouts["prompt_ids"], rollouts["completion_ids"], strict=True)):
        with torch.no_grad():
            output = plain(torch.tensor([[*prompt, *response]]), output_hidden_states=True)
        expected = output.hidden_states[-1][0, len(prompt) :].double().mean(0)
        assert torch.allclose(hidden[row], expected, rtol=1e-3, atol=1e-4)
        each = output.logits[0, len(prompt) - 1 : -1].log_softmax(-1).gather(1, torch.tensor(response)[:, None])
        assert float(logprobs[row]) == pytest.approx(float(each.mean()), abs=1e-4)
    encoded = Transformers(model=MODEL).encode(trainer.train_chats[7][1], trainer.pools[0], ("mean",))["mean"]
    assert np.allclose(hidden[:ROLLOUTS].numpy(), encoded, rtol=1e-4, atol=1e-5)


def test_every_weight_decays_the_rate_is_constant_and_a_step_is_read_once_a_pass(trainer):
    trainer.create_optimizer_and_scheduler(10)
    groups = trainer.optimizer.param_groups
    assert sum(len(group["params"]) for group in groups) == len(list(trainer.model.parameters()))
    assert {(group["lr"], group["weight_decay"], group["betas"]) for group in groups} == {(1e-3, 0.01, (0.9, 0.999))}
    assert {trainer.lr_scheduler.lr_lambdas[0](step) for step in (0, 1, 9)} == {1}
    size, reads = BATCH * ROLLOUTS, trainer.args.steps_per_generation
    rows = np.array(list(trainer._get_train_sampler())).reshape(STEPS, reads, size)
    for step, read in enumerate(rows, 1):
        assert (read == np.repeat(batch_of(PROBLEMS, BATCH, 5, step), ROLLOUTS)).all()
    assert len(trainer._get_train_sampler()) == rows.size
