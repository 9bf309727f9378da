"""verl's synchronous GRPO trainer with rewards shaped by the run's bonus, and its workers, which give hidden states.

Every overridden method calls verl's own and adds to it: rows get an order that follows from the seed, rewards are
shaped before advantages are computed, and metrics and checkpoints are written as the harness reads them. No forward
pass is added: verl's engine keeps every output of `prepare_model_outputs` that has one row per row of the batch. It
restores the order of rows (dynamic batches), gathers them from all workers, and writes them to the queue by name.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import ray
import torch
import transfer_queue as tq
from omegaconf import open_dict
from tensordict import TensorDict
from torch.distributed.fsdp import CPUOffloadPolicy
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.utils import Role
from verl.trainer.ppo.v1 import PPOTrainerSync, register_trainer
from verl.utils.distributed import initialize_global_process_group_ray
from verl.workers.engine.fsdp import transformer_impl
from verl.workers.engine_workers import ActorRolloutRefWorker, TrainingWorker

from harness import HarnessError

from .checkpoints import STEP_METRICS, keep_in_latest, load_memory, save_memory
from .rewards import Shaping
from .training import MetricsLog, Rollouts
from .verl_child import ERRORS, current_run
from .verl_trainer import MARK, OPTIMISER, STEP, TRAINER_MODE

POLL_S = 0.1  # on CPUs, where a step takes seconds; verl itself looks for finished rollouts every two seconds
MEAN_REWARD = re.compile(r"val[^/]*/(.*/)?reward/mean@[^/]*")  # what verl calls the dev split's pass@1
HIDDEN = "response_hidden_mean"  # the column's name in the queue

if os.environ.get("VERL_PLATFORM") == "cpu":  # pinned memory needs an accelerator
    transformer_impl.CPUOffloadPolicy = lambda pin_memory: CPUOffloadPolicy(pin_memory=False)


class PlainTraining(TrainingWorker):
    """A model in verl's worker; on CPUs its processes communicate by gloo."""

    def __init__(self, config: Any) -> None:
        if os.environ.get("VERL_PLATFORM") == "cpu":
            initialize_global_process_group_ray(timeout_second=None, backend="gloo")
        super().__init__(config)


class PoolingTraining(PlainTraining):
    """A model whose forward passes without gradient also return the responses' mean hidden states."""

    def reset(self) -> None:
        """Create the engine, and make it return the states."""
        super().reset()
        pool_from(self.engine)


class PlainWorker(ActorRolloutRefWorker):
    """A worker without hidden states: the bonus needs none, or another model gives them."""

    actor_worker_cls = PlainTraining
    ref_worker_cls = PlainTraining


class RefStates(PlainWorker):
    """A worker with hidden states of the reference, the model before training."""

    ref_worker_cls = PoolingTraining


class PolicyStates(PlainWorker):
    """A worker with hidden states of the policy that sampled the responses."""

    actor_worker_cls = PoolingTraining


def pool_from(engine: Any) -> None:
    """Make the engine return `HIDDEN` (rows, d) float32 from every forward pass without gradient."""
    outputs_of_decoder: list[torch.Tensor] = []
    decoder(engine.module).register_forward_hook(lambda module, args, output: outputs_of_decoder.append(output[0]))
    plain = engine.prepare_model_outputs

    def with_means(output: Any, output_args: Any, micro_batch: Any, logits_processor_func: Any) -> dict[str, Any]:
        outputs = plain(output, output_args, micro_batch, logits_processor_func)
        (states,) = outputs_of_decoder  # one forward pass, one output
        outputs_of_decoder.clear()
        if not torch.is_grad_enabled():
            lengths = micro_batch["prompts"].offsets().diff()
            outputs[HIDDEN] = response_means(states, micro_batch["input_ids"].offsets(), lengths)
        return outputs

    engine.prepare_model_outputs = with_means


def response_means(states: torch.Tensor, offsets: torch.Tensor, prompt_lengths: torch.Tensor) -> torch.Tensor:
    """Return the mean over each row's response tokens, end-of-sequence token included, (rows, d) float32.

    states (rows, longest, d) padded on the right, or (1, tokens, d) with the rows packed one after another; positions
    after the last row are ignored. Row i has the tokens from offsets[i] to offsets[i + 1], first those of its prompt. A
    row without a response gets its prompt's last state, as in the harness' own engine.
    """
    lengths = offsets.diff().tolist()
    packed = states.shape[0] == 1 and states.shape[1] >= int(offsets[-1])
    if not packed and (states.shape[0] != len(lengths) or states.shape[1] < max(lengths)):
        raise ValueError(f"states of shape {tuple(states.shape)} do not hold rows of {lengths} tokens")
    means = []
    for row, (length, prompt) in enumerate(zip(lengths, prompt_lengths.tolist(), strict=True)):
        start = int(offsets[row]) if packed else 0
        whole = states[0 if packed else row, start : start + length]
        means.append(whole[min(prompt, length - 1) :].float().mean(0))
    return torch.stack(means)


def decoder(module: Any) -> torch.nn.Module:
    """Return the part of a causal language model whose first output is the last hidden state, after the final norm.

    `module` may be wrapped by FSDP1 or by PEFT, one inside the other.
    """
    inner = getattr(module, "_fsdp_wrapped_module", module)
    inner = inner.get_base_model() if hasattr(inner, "peft_config") else inner
    decoding = inner.get_decoder()
    if decoding is None or decoding is inner:
        raise HarnessError(f"verl: {type(inner).__name__} does not say which part gives its hidden states")
    return decoding


# The trainer.

WORKERS = {"ref": RefStates, "policy": PolicyStates}


@register_trainer(TRAINER_MODE)
class ShapingTrainer(PPOTrainerSync):
    """verl's GRPO trainer on shaped rewards."""

    def __init__(self, config: Any) -> None:
        with open_dict(config):
            config.trainer.v1.trainer_mode = "sync"  # verl compares with this word
        super().__init__(config)
        if config.trainer.device == "cpu":
            self.replay_buffer.poll_interval = POLL_S
        self.run = current_run()
        self.shaping = Shaping(self.run)
        self.hidden = self.run.part("trainer").hidden if self.shaping.needs("hidden") else None
        self.step_metrics: dict[str, float] = {}  # of the current step, by the names of `training.METRICS`
        self.training = False

    def _init_resource_pool_mgr(self) -> None:
        super()._init_resource_pool_mgr()
        worker = WORKERS.get(self.hidden or "", PlainWorker)
        for role in self.role_worker_mapping:
            if role != Role.Critic:
                self.role_worker_mapping[role] = ray.remote(worker)

    def on_init_end(self) -> None:
        """After the weights are loaded, load what else a checkpoint holds, and start the log."""
        if self.global_steps:
            self.shaping.memory = load_memory(self._step_folder())
            self.step_metrics = json.loads((self._step_folder() / STEP_METRICS).read_text(encoding="utf-8"))
        self.log = MetricsLog(self.run.metrics, self.global_steps)
        super().on_init_end()

    def on_train_begin(self) -> None:
        """Mark the start of training: every later validation belongs to a step."""
        super().on_train_begin()
        self.training, self.step_metrics = True, {}

    def step(self, metrics: dict[str, Any], timing_raw: dict[str, float]) -> KVBatchMeta:
        """Take verl's step; if the run's hours are over after it, make it the last: saved and validated."""
        batch = super().step(metrics, timing_raw)
        if self.log.is_over(self.run.settings):
            self.total_training_steps = self.global_steps
            with open_dict(self.config):
                for name in ("save_freq", "test_freq"):
                    self.config.trainer[name] = min(1, self.config.trainer[name])
        return batch

    def _balance_batch(self, batch: KVBatchMeta, *args: Any, **kwargs: Any) -> KVBatchMeta:
        """Put the rows in an order that follows from the seed; they arrive in the order in which they are finished."""
        rows = self._columns(batch, "extra_info", "responses")
        places = [(self.run.seed, self.global_steps, info["problem"]) for info in rows["extra_info"]]
        problem_keys = [hashlib.sha256(repr(place).encode()).digest() for place in places]
        texts = [ids.numpy().tobytes() for ids in rows["responses"].unbind()]
        batch.reorder(sorted(range(len(batch)), key=lambda row: (problem_keys[row], texts[row])))
        return super()._balance_batch(batch, *args, **kwargs)

    def _compute_advantage(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        """Compute advantages of the shaped rewards; then restore the verifier's rewards for verl's own metrics."""
        plain = list(self._columns(batch, "rm_scores")["rm_scores"].unbind())
        self._put_scores(batch, self._shaped(batch, plain))
        batch = super()._compute_advantage(batch, metrics)
        self._put_scores(batch, plain)
        return batch

    def _shaped(self, batch: KVBatchMeta, scores: list[torch.Tensor]) -> list[torch.Tensor]:
        """Return the scores with the shaped reward on each row's last token; a tensor per row, a number per token."""
        rows = [row for row, tag in enumerate(batch.tags) if not tag.get("is_padding", False)]
        names = ("extra_info", "old_log_probs", "response_mask", *([HIDDEN] if self.hidden else []))
        read = self._columns(batch, *names)
        columns = {name: list(read[name] if name == "extra_info" else read[name].unbind()) for name in names}
        masks = [mask.double() for mask in columns["response_mask"]]
        sums = [(each.double() * mask).sum() for each, mask in zip(columns["old_log_probs"], masks, strict=True)]
        rollouts = Rollouts(
            problems=[columns["extra_info"][row]["problem"] for row in rows],
            rewards=torch.tensor([float(scores[row].sum()) for row in rows], dtype=torch.float64),
            hidden=torch.stack([columns[HIDDEN][row] for row in rows]).double() if self.hidden else None,
            logprobs=torch.stack([sums[row] / masks[row].sum().clamp(min=1) for row in rows]),
        )
        shaped = self.shaping.shape(rollouts, self.global_steps)
        self.step_metrics = dict(shaped.metrics)
        target = shaped.rewards.clone()
        if self.config.algorithm.adv_estimator == "grpo":
            # GRPO's advantages stay the same, and verl's float32 keeps differences of 1e-8.
            for group in rollouts.groups().values():
                target[group] -= shaped.rewards[group].mean()
        changed = [score.clone() for score in scores]
        for row, reward in zip(rows, target.tolist(), strict=True):
            changed[row].zero_()
            changed[row][-1] = reward
        return changed

    def _columns(self, batch: KVBatchMeta, *names: str) -> TensorDict:
        return tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=list(names))

    def _put_scores(self, batch: KVBatchMeta, scores: list[torch.Tensor]) -> None:
        column = torch.nested.as_nested_tensor(scores, layout=torch.jagged)
        fields = TensorDict({"rm_scores": column}, batch_size=len(scores))
        tq.kv_batch_put(keys=batch.keys, partition_id=batch.partition_id, fields=fields)

    def _validate(self) -> dict[str, float]:
        metrics = super()._validate()
        means = [value for name, value in metrics.items() if MEAN_REWARD.fullmatch(name)]
        self.step_metrics["dev_pass_at_1"] = float(np.mean(means))
        if not self.training:  # before the first step, or if the run was killed before its checkpoint was validated
            self.log.append(self.global_steps, self.step_metrics | _numbers(metrics))
        return metrics

    def _compute_metrics(
        self, batch: KVBatchMeta, metrics: dict[str, Any], timing_raw: dict[str, float], global_steps: int, epoch: int
    ) -> None:
        super()._compute_metrics(batch, metrics, timing_raw, global_steps, epoch)
        errors = self.run.folder / ERRORS
        self.step_metrics |= {
            "entropy": float(metrics["actor/entropy"]),
            "response_tokens": float(metrics["response_length/mean"]),
            "step_s": timing_raw["step"],
            "grading_errors": errors.read_bytes().count(b"\n") if errors.exists() else 0,
        }
        self.log.append(global_steps, self.step_metrics | _numbers(metrics))
        self.step_metrics = {}

    def _save_checkpoint(self) -> None:
        """Write a checkpoint and mark it complete; then the optimiser's state is deleted from earlier ones.

        A checkpoint without the mark, left by a killed run, is deleted when the run goes on.
        """
        folder = self._step_folder()
        folder.mkdir(parents=True, exist_ok=True)
        save_memory(self.shaping.memory, folder)
        (folder / STEP_METRICS).write_text(json.dumps(self.step_metrics), encoding="utf-8")
        super()._save_checkpoint()
        (folder / MARK).touch()
        keep_in_latest(self.run.settings.keep, self.run.part("trainer").saved(self.run), OPTIMISER)

    def _step_folder(self) -> Path:
        return Path(self.config.trainer.default_local_dir) / f"{STEP}{self.global_steps}"


def _numbers(metrics: dict[str, Any]) -> dict[str, float]:
    kinds = (int, float, np.number, torch.Tensor)
    numbers = {name: value for name, value in metrics.items() if isinstance(value, kinds) and np.ndim(value) == 0}
    return {name: float(value) for name, value in numbers.items() if not isinstance(value, bool)}
