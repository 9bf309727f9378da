"""verl's synchronous GRPO trainer, with rewards shaped by the run's bonus before advantages are computed.

Every overridden method calls verl's own and adds to it: rows get an order that follows from the seed, rewards are
shaped, and metrics and checkpoints are written as the harness reads them.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import ray
import torch
import transfer_queue as tq
from omegaconf import open_dict
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.utils import Role
from verl.trainer.ppo.v1 import PPOTrainerSync, register_trainer

from ..rewards import Shaping
from ..training import MetricsLog, Rollouts
from ..verl_config import TRAINER_MODE
from ..verl_trainer import MARK, STEP
from .plugin import ERRORS, current_run
from .states import HIDDEN, PlainWorker, PolicyStates, RefStates

POLL_S = 0.1  # on CPUs, where a step takes seconds; verl itself looks for finished rollouts every two seconds
STEP_METRICS = "figures.json"  # in a checkpoint's folder: metrics of its step, which are logged after validation
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
            self.shaping.load(self._step_folder())
            self.step_metrics = json.loads((self._step_folder() / STEP_METRICS).read_text(encoding="utf-8"))
        self.log = MetricsLog(self.run.metrics, self.global_steps)
        super().on_init_end()

    def on_train_begin(self) -> None:
        """Mark the start of training: every later validation belongs to a step."""
        super().on_train_begin()
        self.training, self.step_metrics = True, {}

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
        rollouts = self._rollouts(batch, rows, scores)
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

    def _rollouts(self, batch: KVBatchMeta, rows: list[int], scores: list[torch.Tensor]) -> Rollouts:
        names = ("extra_info", "old_log_probs", "response_mask", *([HIDDEN] if self.hidden else []))
        columns = self._columns(batch, *names)
        infos = list(columns["extra_info"])
        masks, logprobs = list(columns["response_mask"].unbind()), list(columns["old_log_probs"].unbind())
        states = list(columns[HIDDEN].unbind()) if self.hidden else []
        return Rollouts(
            problems=[infos[row]["problem"] for row in rows],
            rewards=torch.tensor([float(scores[row].sum()) for row in rows], dtype=torch.float64),
            hidden=torch.stack([states[row] for row in rows]).double() if self.hidden else None,
            logprobs=torch.stack([_masked_mean(logprobs[row], masks[row]) for row in rows]),
        )

    def _columns(self, batch: KVBatchMeta, *names: str) -> TensorDict:
        return tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=list(names))

    def _put_scores(self, batch: KVBatchMeta, scores: list[torch.Tensor]) -> None:
        column = torch.nested.as_nested_tensor(scores, layout=torch.jagged)
        fields = TensorDict({"rm_scores": column}, batch_size=len(scores))
        tq.kv_batch_put(keys=batch.keys, partition_id=batch.partition_id, fields=fields)

    def _validate(self) -> dict[str, float]:
        metrics = super()._validate()
        means = [value for name, value in metrics.items() if _is_mean_reward(name)]
        self.step_metrics["dev_pass_at_1"] = float(np.mean(means))
        if not self.training:  # before the first step, or if the run was killed before its checkpoint was validated
            self.log.append(self.global_steps, self.step_metrics | _numbers(metrics))
        return metrics

    def _compute_metrics(
        self, batch: KVBatchMeta, metrics: dict[str, Any], timing_raw: dict[str, float], global_steps: int, epoch: int
    ) -> None:
        super()._compute_metrics(batch, metrics, timing_raw, global_steps, epoch)
        self.step_metrics["entropy"] = float(metrics["actor/entropy"])
        self.step_metrics["response_tokens"] = float(metrics["response_length/mean"])
        self.step_metrics["step_s"] = timing_raw["step"]
        errors = self.run.folder / ERRORS
        self.step_metrics["grading_errors"] = errors.read_bytes().count(b"\n") if errors.exists() else 0
        self.log.append(global_steps, self.step_metrics | _numbers(metrics))
        self.step_metrics = {}

    def _save_checkpoint(self) -> None:
        """Write a checkpoint and mark it complete; a checkpoint without the mark, left by a killed run, is deleted."""
        folder = self._step_folder()
        folder.mkdir(parents=True, exist_ok=True)
        self.shaping.save(folder)
        (folder / STEP_METRICS).write_text(json.dumps(self.step_metrics), encoding="utf-8")
        super()._save_checkpoint()
        (folder / MARK).touch()

    def _step_folder(self) -> Path:
        return Path(self.config.trainer.default_local_dir) / f"{STEP}{self.global_steps}"


def _masked_mean(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    weights = mask.double()
    return (values.double() * weights).sum() / weights.sum().clamp(min=1)


def _is_mean_reward(name: str) -> bool:
    section, *_, variable, statistic = name.split("/")
    return section.startswith("val") and variable == "reward" and statistic.startswith("mean@")


def _numbers(metrics: dict[str, Any]) -> dict[str, float]:
    kinds = (int, float, np.number, torch.Tensor)
    numbers = {name: value for name, value in metrics.items() if isinstance(value, kinds) and np.ndim(value) == 0}
    return {name: float(value) for name, value in numbers.items() if not isinstance(value, bool)}
