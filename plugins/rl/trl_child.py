"""The child process of the trainer `trl`: `python -m harness_plugins.rl.trl_child FOLDER` trains the folder's run.

From its last complete checkpoint. It is TRL's GRPO trainer with the harness' rollouts, rewards and bonus, and with
verl's arithmetic where TRL's differs. Overridden private methods of TRL 1.16.0 (tests/environments/test_trl.py
checks each):

_calculate_rewards               the task's verifier and the bonus
_generate_and_score_completions  advantages in float64 with verl's epsilon of 1e-6; TRL divides by the deviation plus
                                 1e-4, in float32, which almost removes a bonus in a group that is all correct
_compute_loss                    token mean over the mini-batch, as verl's; TRL's "dapo" divides by the mean number of
                                 tokens of the step's mini-batches. And no column of padding only
_get_train_sampler               the order of problems, which depends on (seed, step) alone

Rollouts are sampled with the harness' engine, each from its own random stream: TRL's `generate` call would use the
global random state, and a resumed run, or one with another batch size, would then sample other responses. The engine
also drops rows that have ended, which is faster on a CPU. No random state is kept between steps, so a checkpoint holds
none.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from torch.utils.data import Sampler as DataSampler
from transformers import GenerationConfig
from trl import GRPOConfig, GRPOTrainer

from harness import HarnessError, Responses, Sampler
from harness.records import SampleRequest
from harness.system import json_text

from ..engines.transformers.engine import Transformers
from .checkpoints import STEP_METRICS, keep_in_latest, load_memory, save_memory
from .rewards import Grader, Shaping
from .training import Checkpoint, MetricsLog, Rollouts, Shaped, TrainingRun, read_metrics, read_problems, read_run
from .trl_trainer import STEP, Trl, grpo_arguments, updates

EPSILON = 1e-6  # verl's
OPTIMISER = "optimizer.pt"
TRAIN, DEV, ORDER, SHUFFLE = range(4)  # what a random stream is used for
LOGGED = {  # the harness' name of a metric -> TRL's
    "entropy": "entropy",
    "response_tokens": "completions/mean_length",
    "clipped": "clip_ratio/region_mean",
    "grad_norm": "grad_norm",
}


# Random streams and the policy's engine.


def stream(seed: int, *place: int) -> int:
    """Return a 64-bit seed that depends only on the run's seed and a place in the run, e.g. (TRAIN, step, group)."""
    return int(np.random.SeedSequence([seed, *place]).generate_state(1, np.uint64)[0])


def batch_of(problems: int, batch: int, seed: int, step: int) -> list[int]:
    """Return the indices of the `batch` problems of a step (steps count from 1), of `problems` problems in all.

    Every epoch has its own order; problems left over after the last whole batch are skipped.
    """
    epoch, place = divmod(step - 1, problems // batch)
    order = np.random.default_rng(stream(seed, ORDER, epoch)).permutation(problems)
    return [int(i) for i in order[place * batch : (place + 1) * batch]]


class PolicyEngine(Transformers):
    """An engine that samples with the same module whose weights the trainer updates."""

    def sample(self, request: SampleRequest) -> list[Responses]:
        """Sample as every engine does, without dropout, and as many prompts at once as fill a batch."""
        responses: list[Responses] = []
        policy, per_call = self._checkpoint.model, self.problems_per_call(request.n)
        training = policy.training
        policy.eval()
        for start in range(0, len(request.prompts), per_call):
            part = slice(start, start + per_call)
            responses += super().sample(replace(request, prompts=request.prompts[part], seeds=request.seeds[part]))
        policy.train(training)
        return responses

    def save(self, folder: Path) -> None:
        """Write policy and tokenizer as a Hugging Face folder, with the initial model's decoding defaults if any."""
        self._checkpoint.model.save_pretrained(folder)
        self._checkpoint.tokenizer.save_pretrained(folder)
        defaults = folder / "generation_config.json"
        defaults.unlink(missing_ok=True)  # the engine's, which has no end-of-sequence tokens
        try:
            GenerationConfig.from_pretrained(self._checkpoint.location.source).to_json_file(defaults)
        except OSError:  # the initial model has none
            return


# The trainer.


def group_advantages(rewards: torch.Tensor, rollouts: int) -> torch.Tensor:
    """Return (r - mean) / (std + 1e-6) of rewards (m,), in groups of `rollouts` consecutive ones, as (m,) float64.

    The std is the unbiased one, as in verl.
    """
    groups = rewards.double().view(-1, rollouts)
    return ((groups - groups.mean(1, keepdim=True)) / (groups.std(1, keepdim=True) + EPSILON)).flatten()


class StepOrder(DataSampler[int]):
    """The dataset's row indices in the order in which TRL reads them: all of one step's, then of the next.

    A step's batch has each problem `rollouts` times, one after another, and TRL reads it `reads` times.
    """

    def __init__(self, problems: int, run: TrainingRun, steps: range, reads: int) -> None:
        self.problems, self.run, self.steps, self.reads = problems, run, steps, reads

    def __len__(self) -> int:
        return len(self.steps) * self.reads * self.run.settings.batch * self.run.settings.rollouts

    def __iter__(self) -> Iterator[int]:
        settings = self.run.settings
        for step in self.steps:
            places = batch_of(self.problems, settings.batch, self.run.seed, step)
            for _ in range(self.reads):
                yield from (place for place in places for _ in range(settings.rollouts))


class GroupTrainer(GRPOTrainer):
    """Goes on from a checkpoint, or from the run's initial model, to the run's last step or the end of its hours."""

    def __init__(self, run: TrainingRun, options: Trl, resumed: Checkpoint | None) -> None:
        self.run, self.options, self.done = run, options, resumed.step if resumed else 0
        args, settings = GRPOConfig(**grpo_arguments(run, self.done)), run.settings
        rows: dict[str, Any] = {"device": str(args.device), "dtype": "float32", "batch": options.rows}
        self.engine = PolicyEngine(model=str(resumed.path) if resumed else run.model, **rows)
        self.grader, self.shaping = Grader(run), Shaping(run)
        self.reference = Transformers(model=run.model, **rows) if self._takes_states_of("ref") else None
        checkpoint = self.engine._checkpoint
        self.train_chats = [
            (problem, messages)
            for problem, messages in read_problems(run.problems["train"])
            if len(checkpoint.prompt_ids(messages)) <= settings.max_prompt
        ]
        if len(self.train_chats) < settings.batch:
            raise HarnessError(
                f"trl: a batch of {settings.batch} prompts, but only {len(self.train_chats)} problems with prompts of "
                f"at most {settings.max_prompt} tokens"
            )
        self.dev = read_problems(run.problems["dev"]) if "dev" in run.problems else []
        self.engine.check([messages for _, messages in self.train_chats], settings.max_response)
        optimiser = torch.optim.AdamW(  # weight decay on every weight, as in verl; TRL would leave out norms and biases
            checkpoint.model.parameters(),
            lr=args.learning_rate,
            betas=(args.adam_beta1, args.adam_beta2),
            eps=args.adam_epsilon,
            weight_decay=args.weight_decay,
        )
        if resumed:
            optimiser.load_state_dict(torch.load(resumed.path / OPTIMISER, weights_only=True))
            self.shaping.memory = load_memory(resumed.path)
        super().__init__(
            model=checkpoint.model,
            args=args,
            reward_funcs=[lambda **_: []],  # required, and never called: see `_calculate_rewards`
            train_dataset=Dataset.from_dict({"prompt": [str(place) for place in range(len(self.train_chats))]}),
            processing_class=checkpoint.tokenizer,
            optimizers=(optimiser, None),
            rollout_func=self._roll_out,
        )
        self.metrics_log = MetricsLog(run.metrics, self.done)
        self.places: list[int]  # of the step's problems
        self.pools: list[Responses]  # the responses to each
        self.shaped: Shaped
        self.step_began_s = 0.0

    @property
    def step(self) -> int:
        return self.done + self.state.global_step // updates(self.run.settings)

    def train_on(self) -> None:
        """Train to the last step; before step 1 of a run that is not resumed, measure dev pass@1."""
        if self.done == 0 and self.dev:
            self.metrics_log.append(0, {"dev_pass_at_1": self.dev_pass_at_1()})
        self.step_began_s = time.perf_counter()
        self.train()

    # Methods that TRL calls

    def _get_train_sampler(self, dataset: Any = None) -> StepOrder:
        steps = range(self.done + 1, (self.run.settings.steps or 0) + 1)
        return StepOrder(len(self.train_chats), self.run, steps, self.num_iterations * self.args.steps_per_generation)

    def _roll_out(self, prompts: Sequence[str], trainer: GRPOTrainer) -> dict[str, Any]:
        """TRL's rollout function; `prompts` are the step's prompts, each repeated once per response of its group."""
        settings, states = self.run.settings, ("mean",) if self._takes_states_of("policy") else ()
        self.places = [int(prompt) for prompt in prompts[:: settings.rollouts]]
        chats = [self.train_chats[place][1] for place in self.places]
        seeds = [stream(self.run.seed, TRAIN, self.step + 1, group) for group in range(len(chats))]
        sampler = Sampler(temperature=settings.temperature)
        with self.accelerator.autocast():
            self.pools = self.engine.sample(
                SampleRequest(chats, settings.rollouts, sampler, settings.max_response, seeds, states)
            )
        ids = [self.engine._checkpoint.prompt_ids(messages) for messages in chats for _ in range(settings.rollouts)]
        return {
            "prompt_ids": ids,
            "completion_ids": [row for pool in self.pools for row in pool.token_ids or ()],
            "logprobs": None,
        }

    def _calculate_rewards(self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any) -> torch.Tensor:
        problems = [self.train_chats[place][0] for place in self.places]
        graded = [
            self.grader.rewards(problem, pool.texts, pool.finish)
            for problem, pool in zip(problems, self.pools, strict=True)
        ]
        rollouts = Rollouts(
            problems=[problem.id for problem in problems for _ in range(self.run.settings.rollouts)],
            rewards=torch.tensor(graded, dtype=torch.float64).flatten(),
            hidden=self._hidden() if self.shaping.needs("hidden") else None,
            logprobs=self._logprobs() if self.shaping.needs("logprobs") else None,
        )
        self.shaped = self.shaping.shape(rollouts, self.step + 1)
        return self.shaped.rewards[:, None].float().to(self.accelerator.device)

    def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
        torch.manual_seed(stream(self.run.seed, SHUFFLE, self.step + 1))  # TRL shuffles the rows over the mini-batches
        batch: dict[str, Any] = super()._generate_and_score_completions(inputs)
        advantages = group_advantages(self.shaped.rewards, self.run.settings.rollouts)
        return batch | {"advantages": advantages.float().to(self.accelerator.device)}

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        passes, per_step = self.args.gradient_accumulation_steps, self.args.steps_per_generation
        start = self._step % per_step // passes * passes
        tokens = sum(part["completion_mask"].sum() for part in self._buffered_inputs[start : start + passes])
        # TRL's "dapo" divides by this: with it, by the tokens of this mini-batch.
        divisor = {"num_items_in_batch": tokens * per_step / passes}
        width = int(inputs["completion_mask"].sum(1).max())  # TRL pads to the longest response of the whole step
        by_token = [name for name in inputs if name.startswith("completion_") or name.endswith("per_token_logps")]
        return super()._compute_loss(model, inputs | {name: inputs[name][:, :width] for name in by_token} | divisor)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """End a step: TRL calls this after the step's last update, and once at the end of training."""
        super().log(logs, start_time)
        if "train_runtime" in logs:
            return
        step, settings = self.step, self.run.settings
        metrics = dict(self.shaped.metrics) | {name: logs[trl_name] for name, trl_name in LOGGED.items()}
        metrics |= {"step_s": time.perf_counter() - self.step_began_s, "verifier_errors": self.grader.errors}
        is_over = self.metrics_log.is_over(settings)
        due = step % settings.save_every == 0 or step == settings.steps or is_over
        if due and self.dev:
            metrics["dev_pass_at_1"] = self.dev_pass_at_1()
        if due:
            self._write_checkpoint(step, metrics)
        self.metrics_log.append(step, metrics)
        if is_over:
            self.control.should_training_stop = True
        self.step_began_s = time.perf_counter()

    # What the harness does in a step

    def _takes_states_of(self, model: str) -> bool:
        return self.shaping.needs("hidden") and self.options.hidden == model

    def _hidden(self) -> torch.Tensor:
        """Return each response's mean over its tokens of the last hidden state, (m, d) float64."""
        if self.reference is None:
            means = [pool.states["mean"] for pool in self.pools]
        else:
            prompts = [self.train_chats[place][1] for place in self.places]
            each = zip(prompts, self.pools, strict=True)
            means = [self.reference.encode(prompt, pool, ("mean",))["mean"] for prompt, pool in each]
        return torch.from_numpy(np.concatenate(means)).double()

    def _logprobs(self) -> torch.Tensor:
        """Return each response's mean log-probability per token under the policy that sampled it, (m,) float64."""
        return torch.cat([torch.from_numpy(pool.logprobs / pool.lengths) for pool in self.pools]).double()

    def dev_pass_at_1(self) -> float:
        """Return the share of correct responses on the dev split, `dev_samples` per problem.

        The random streams are the same at every call, so that values differ by the policy only.
        """
        settings, chats = self.run.settings, [messages for _, messages in self.dev]
        seeds = [stream(self.run.seed, DEV, place) for place in range(len(self.dev))]
        with self.accelerator.autocast():
            pools = self.engine.sample(
                SampleRequest(chats, settings.dev_samples, Sampler(), settings.max_response, seeds)
            )
        correct = sum(
            sum(self.grader.rewards(problem, pool.texts, pool.finish))
            for (problem, _), pool in zip(self.dev, pools, strict=True)
        )
        return correct / (len(self.dev) * settings.dev_samples)

    def _write_checkpoint(self, step: int, metrics: Mapping[str, float]) -> None:
        """Write a checkpoint, and rename it when it is complete; only the latest one keeps the optimiser."""
        part, whole = self.run.checkpoints / ".part", self.run.checkpoints / f"{STEP}{step:06d}"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        self.engine.save(part)
        torch.save(self.optimizer.state_dict(), part / OPTIMISER)
        save_memory(self.shaping.memory, part)
        (part / STEP_METRICS).write_text(json.dumps({name: float(value) for name, value in metrics.items()}))
        os.replace(part, whole)
        keep_in_latest(self.run.settings.keep, self.options.saved(self.run), OPTIMISER)


def main(folder: Path) -> None:
    """Train the run of a folder to its last step, from its last complete checkpoint."""
    run = read_run(folder)
    options = run.part("trainer")
    resumed = (options.saved(run) or [None])[-1]
    # A run may be killed after its checkpoint and before that step's line in the log, which is then appended.
    if resumed and not any(line["step"] == resumed.step for line in read_metrics(run.metrics)):
        MetricsLog(run.metrics, resumed.step).append(
            resumed.step, json_text.read(resumed.path / STEP_METRICS, "trl:", lenient=True)
        )
    if resumed is None or resumed.step < run.settings.steps:
        GroupTrainer(run, options, resumed).train_on()


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except HarnessError as failure:
        sys.exit(f"error: {failure}")
