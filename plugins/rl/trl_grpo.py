"""TRL's GRPO trainer with the harness' rollouts, rewards and bonus, and with verl's arithmetic where TRL's differs.

Overridden private methods of TRL 1.16.0 (tests/environments/test_trl.py checks each):
_calculate_rewards               the task's verifier and the bonus, on the rollouts of all processes
_generate_and_score_completions  advantages in float64 with verl's epsilon of 1e-6; TRL divides by the deviation plus
                                 1e-4, in float32, which almost removes a bonus in a group that is all correct
_compute_loss                    token mean over the mini-batch, as verl's; TRL's "dapo" divides by the mean number of
                                 tokens of the step's mini-batches. And no column of padding only
_get_train_sampler               the order of problems, which depends on (seed, step) alone

No random state is kept between steps, so a checkpoint holds none.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from datasets import Dataset
from safetensors.torch import save_file
from torch.utils.data import Sampler
from trl import GRPOConfig, GRPOTrainer

from harness import HarnessError
from harness_plugins.rl.run_files import read_problems

from ..engines.transformers.engine import Transformers
from .shaping import Grader, MetricsLog, Shaping
from .training import Checkpoint, Rollouts, Shaped, TrainingRun
from .trl_rollouts import DEV, SHUFFLE, TRAIN, Chats, PolicyEngine, batch_of, hidden_means, stream
from .trl_settings import FOREVER, grpo_arguments, updates
from .trl_trainer import STEP, Trl

EPSILON = 1e-6  # verl's
OPTIMISER = "optimizer.pt"
LOGGED = {  # the harness' name of a metric -> TRL's
    "entropy": "entropy",
    "response_tokens": "completions/mean_length",
    "clipped": "clip_ratio/region_mean",
    "grad_norm": "grad_norm",
}


def group_advantages(rewards: torch.Tensor, rollouts: int) -> torch.Tensor:
    """Return (r - mean) / (std + 1e-6) of rewards (m,), in groups of `rollouts` consecutive ones, as (m,) float64.

    The std is the unbiased one, as in verl.
    """
    groups = rewards.double().view(-1, rollouts)
    return ((groups - groups.mean(1, keepdim=True)) / (groups.std(1, keepdim=True) + EPSILON)).flatten()


class StepOrder(Sampler[int]):
    """The dataset's row indices in the order in which TRL reads them: all of one step's, then of the next.

    problems   the number of training problems, one per row of the dataset
    reads      how often TRL reads a step's batch, which has each problem `rollouts` times, one after another
    """

    def __init__(self, problems: int, run: TrainingRun, steps: range, reads: int) -> None:
        self.problems, self.run, self.steps, self.reads = problems, run, steps, reads

    def __len__(self) -> int:
        return len(self.steps) * self.reads * self.run.settings.batch * self.run.settings.rollouts

    def __iter__(self) -> Iterator[int]:
        settings = self.run.settings
        for step in self.steps:
            places = batch_of(self.problems, settings.batch, self.run.seed, step)
            rows = [place for place in places for _ in range(settings.rollouts)]
            for _ in range(self.reads):
                yield from rows


class GroupTrainer(GRPOTrainer):
    """TRL's GRPO trainer with the harness's rollouts and rewards: verified, and shaped by the bonus of the run.

    It goes on from a checkpoint, or starts from the run's initial model, and ends with the run's last step.
    """

    def __init__(self, run: TrainingRun, options: Trl, resumed: Checkpoint | None) -> None:
        self.run, self.options, self.done = run, options, resumed.step if resumed else 0
        steps = (run.settings.steps or FOREVER) - self.done
        args = GRPOConfig(**grpo_arguments(run, options.processes, steps))
        rows: dict[str, Any] = {"device": str(args.device), "dtype": "float32", "batch": options.rows}
        self.engine = PolicyEngine(model=str(resumed.path) if resumed else run.model, **rows)
        self.grader, self.shaping = Grader(run), Shaping(run)
        self.reference = Transformers(model=run.model, **rows) if self._takes_states_of("ref") else None
        self.train_chats = self._at_least_a_batch(
            self.engine.within(read_problems(run.problems["train"]), run.settings.max_prompt)
        )
        self.dev = read_problems(run.problems["dev"]) if "dev" in run.problems else []
        self.engine.check([messages for _, messages in self.train_chats], run.settings.max_response)
        super().__init__(
            model=self.engine.policy,
            args=args,
            reward_funcs=[_verified],
            train_dataset=Dataset.from_dict({"prompt": [str(place) for place in range(len(self.train_chats))]}),
            processing_class=self.engine.tokenizer,
            optimizers=(_optimiser(self.engine.policy, args, resumed), None),
            rollout_func=self._roll_out,
        )
        if resumed:
            self.shaping.load(resumed.path)
        self.metrics_log = MetricsLog(run.metrics, self.done) if self.accelerator.is_main_process else None
        self.step_responses: _StepResponses
        self.shaped: Shaped
        self.step_began_s = 0.0

    def _at_least_a_batch(self, chats: Chats) -> Chats:
        """Return the problems; raise HarnessError if they are fewer than a batch."""
        settings = self.run.settings
        if len(chats) < settings.batch:
            raise HarnessError(
                f"trl: a batch of {settings.batch} prompts, but only {len(chats)} problems with prompts of at most "
                f"{settings.max_prompt} tokens"
            )
        return chats

    @property
    def step(self) -> int:
        """The number of steps that the policy has been trained for, those before resuming included."""
        return self.done + self.state.global_step // updates(self.run.settings)

    def train_on(self) -> None:
        """Train to the last step; before step 1 of a run that is not resumed, measure dev pass@1."""
        if self.done == 0:
            dev_pass_at_1 = self.dev_pass_at_1()
            if self.metrics_log and self.dev:
                self.metrics_log.append(0, {"dev_pass_at_1": dev_pass_at_1})
        self.step_began_s = time.perf_counter()
        self.train()

    # Methods that TRL calls

    def _get_train_sampler(self, dataset: Any = None) -> StepOrder:
        steps = range(self.done + 1, (self.run.settings.steps or FOREVER) + 1)
        return StepOrder(len(self.train_chats), self.run, steps, self.num_iterations * self.args.steps_per_generation)

    def _roll_out(self, prompts: Sequence[str], trainer: GRPOTrainer) -> dict[str, Any]:
        """TRL's rollout function; `prompts` are this process' prompts, each repeated once per response of its group."""
        settings, states = self.run.settings, ("mean",) if self._takes_states_of("policy") else ()
        places = [int(prompt) for prompt in prompts[:: settings.rollouts]]
        chats = [self.train_chats[place][1] for place in places]
        first_group = self.accelerator.process_index * len(places)
        seeds = [stream(self.run.seed, TRAIN, self.step + 1, first_group + group) for group in range(len(places))]
        with self.accelerator.autocast():
            pools = self.engine.sample_prompts(
                chats, settings.rollouts, settings.temperature, settings.max_response, seeds, states
            )
        self.step_responses = _StepResponses(places, pools)
        ids = [self.engine.prompt_ids(messages) for messages in chats for _ in range(settings.rollouts)]
        return {
            "prompt_ids": ids,
            "completion_ids": [row for pool in pools for row in pool.token_ids or ()],
            "logprobs": None,
        }

    def _calculate_rewards(self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any) -> torch.Tensor:
        rollouts = self._gathered()
        self.shaped = self.shaping.shape(rollouts, self.step + 1)
        if self.options.log_groups and self.accelerator.is_main_process:
            self._write_groups(rollouts)
        return self.shaped.rewards[:, None].float().to(self.accelerator.device)

    def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
        torch.manual_seed(stream(self.run.seed, SHUFFLE, self.step + 1))  # TRL shuffles the rows over the mini-batches
        batch: dict[str, Any] = super()._generate_and_score_completions(inputs)
        local = slice(self.accelerator.process_index * len(inputs), (self.accelerator.process_index + 1) * len(inputs))
        advantages = group_advantages(self.shaped.rewards, self.run.settings.rollouts)[local]
        return batch | {"advantages": advantages.float().to(self.accelerator.device)}

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        return super()._compute_loss(model, _trimmed(inputs) | {"num_items_in_batch": self._tokens()})

    def _tokens(self) -> torch.Tensor:
        """The divisor that makes TRL's "dapo" divide by the tokens of this mini-batch, over all processes."""
        passes = self.args.gradient_accumulation_steps
        start = self._step % self.args.steps_per_generation // passes * passes
        local = sum(part["completion_mask"].sum() for part in self._buffered_inputs[start : start + passes])
        return self.accelerator.reduce(local, "sum") * self.args.steps_per_generation / passes

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log as TRL does; after each step, also log its metrics, and if they are due validate and save a checkpoint.

        TRL calls this once per step, after the step's last update, and once at the end of training.
        """
        super().log(logs, start_time)
        if "train_runtime" not in logs:
            self._end_step(logs)

    # The end of a step: metrics, validation, checkpoints

    def _end_step(self, logs: dict[str, float]) -> None:
        step, settings = self.step, self.run.settings
        metrics = dict(self.shaped.metrics) | {name: logs[trl_name] for name, trl_name in LOGGED.items()}
        metrics |= {"step_s": time.perf_counter() - self.step_began_s, "verifier_errors": self.grader.errors}
        due = step % settings.save_every == 0 or step == settings.steps
        if due and self.dev:
            metrics["dev_pass_at_1"] = self.dev_pass_at_1()
        if self.metrics_log:
            self.metrics_log.append(step, metrics)
            if due:
                self._write_checkpoint(step)
        self.step_began_s = time.perf_counter()

    def dev_pass_at_1(self) -> float:
        """Return the share of correct responses on the dev split, `dev_samples` per problem, over all processes.

        The random streams are the same at every call, so that values differ by the policy only.
        """
        settings = self.run.settings
        share = range(self.accelerator.process_index, len(self.dev), self.options.processes)
        seeds = [stream(self.run.seed, DEV, place) for place in share]
        chats = [self.dev[place] for place in share]
        with self.accelerator.autocast():
            pools = self.engine.sample_prompts(
                [messages for _, messages in chats], settings.dev_samples, 1.0, settings.max_response, seeds
            )
        correct = sum(
            sum(self.grader.rewards(problem, pool.texts, pool.finish))
            for (problem, _), pool in zip(chats, pools, strict=True)
        )
        total = self.accelerator.reduce(torch.tensor(correct, device=self.accelerator.device), "sum")
        return float(total) / max(1, len(self.dev) * settings.dev_samples)

    def _write_checkpoint(self, step: int) -> None:
        """Write a checkpoint, and rename it when it is complete; only the latest one keeps the optimiser."""
        part, whole = self.run.checkpoints / ".part", self.run.checkpoints / f"{STEP}{step:06d}"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        self.engine.save(part)
        torch.save(self.optimizer.state_dict(), part / OPTIMISER)
        self.shaping.save(part)
        os.replace(part, whole)
        for earlier in self.run.checkpoints.glob(f"{STEP}*/{OPTIMISER}"):
            if earlier.parent != whole:
                earlier.unlink()

    def _write_groups(self, rollouts: Rollouts) -> None:
        folder = self.run.folder / "groups"
        folder.mkdir(exist_ok=True)
        tensors = {"rewards": rollouts.rewards, "shaped": self.shaped.rewards} | {
            name: values for name in ("hidden", "logprobs") if (values := getattr(rollouts, name)) is not None
        }
        problems = json.dumps(list(rollouts.problems))
        save_file(tensors, folder / f"{STEP}{self.step + 1:06d}.safetensors", metadata={"problems": problems})

    # The step's rollouts

    def _takes_states_of(self, model: str) -> bool:
        return self.shaping.needs("hidden") and self.options.hidden == model

    def _gathered(self) -> Rollouts:
        """Grade this process' responses; return the rollouts of all processes, in the order of TRL's rows."""
        local, rollouts = self.step_responses, self.run.settings.rollouts
        graded = [
            self.grader.rewards(self.train_chats[place][0], pool.texts, pool.finish)
            for place, pool in zip(local.places, local.responses, strict=True)
        ]
        places = self._gather(torch.tensor(local.places)).tolist()
        return Rollouts(
            problems=[self.train_chats[place][0].id for place in places for _ in range(rollouts)],
            rewards=self._gather(torch.tensor(graded, dtype=torch.float64).flatten()),
            hidden=self._gather(self._hidden()) if self.shaping.needs("hidden") else None,
            logprobs=self._gather(local.logprobs()) if self.shaping.needs("logprobs") else None,
        )

    def _hidden(self) -> torch.Tensor:
        if self.reference is None:
            return torch.cat([torch.from_numpy(pool.states["mean"]) for pool in self.step_responses.responses]).double()
        prompts = [self.train_chats[place][1] for place in self.step_responses.places]
        return torch.from_numpy(hidden_means(self.reference, prompts, self.step_responses.responses)).double()

    def _gather(self, local: torch.Tensor) -> torch.Tensor:
        return self.accelerator.gather(local.to(self.accelerator.device)).cpu()


class _StepResponses:
    """The responses that this process sampled in a step: the problems' indices, and the responses to each problem."""

    def __init__(self, places: Sequence[int], responses: Sequence[Any]) -> None:
        self.places, self.responses = places, responses

    def logprobs(self) -> torch.Tensor:
        """Return each response's mean log-probability per token under the policy that sampled it, (m,) float64."""
        return torch.cat([torch.from_numpy(pool.logprobs / pool.lengths) for pool in self.responses]).double()


def _trimmed(inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the rows without columns that only hold padding: TRL pads to the longest response of the whole step."""
    width = int(inputs["completion_mask"].sum(1).max())
    by_token = [name for name in inputs if name.startswith("completion_") or name.endswith("per_token_logps")]
    return inputs | {name: inputs[name][:, :width] for name in by_token}


def _verified(**kwargs: Any) -> list[float]:
    """Fill the place of TRL's required reward function; `_calculate_rewards` never calls it."""
    raise NotImplementedError


def _optimiser(policy: Any, args: GRPOConfig, resumed: Checkpoint | None) -> torch.optim.Optimizer:
    """Return AdamW with weight decay on every weight, as in verl; TRL would leave out norms and biases."""
    optimiser = torch.optim.AdamW(
        policy.parameters(),
        lr=args.learning_rate,
        betas=(args.adam_beta1, args.adam_beta2),
        eps=args.adam_epsilon,
        weight_decay=args.weight_decay,
    )
    if resumed:
        optimiser.load_state_dict(torch.load(resumed.path / OPTIMISER, weights_only=True))
    return optimiser
