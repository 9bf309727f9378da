"""In verl's environment: what a single process of verl's is asked, so that verl is imported once.

    python inside_verl.py FOLDER < QUESTIONS

FOLDER is a run's, launched but not started. QUESTIONS is a JSON object: "environment" (of the launch), "overrides" of
configurations to compose, "layouts" of `verl_hidden_states`, "papers": the folder of a run with the paper's settings.
The last line is a JSON object with the answers.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

FOLDER = Path(sys.argv[1])


def outside() -> dict[str, bool]:
    """Whether verl loads the plugin in a process that is none of a run of ours, and whether that does anything."""
    import verl  # noqa: F401
    from verl.plugin.platform.platform_manager import PlatformRegistry

    package = "harness_plugins.rl"
    active = f"{package}.verl_steps" in sys.modules or "cpu" in PlatformRegistry.registered_names()
    return {"loaded": f"{package}.verl_child" in sys.modules, "active": active}


def line_of(compose: Callable[[], Any]) -> str:
    """What a configuration is refused with, or "taken"."""
    from harness import HarnessError

    try:
        compose()
    except HarnessError as refusal:
        return str(refusal)
    return "taken"


def composed(overrides: list[str], papers: str) -> dict[str, Any]:
    """The line about each override alone, and what the paper's settings become."""
    from harness_plugins.rl.training import read_run
    from harness_plugins.rl.verl_child import compose

    run = read_run(FOLDER)
    lines = {text: line_of(lambda text=text: compose(replace(run, overrides=(text,)))) for text in overrides}
    config = compose(read_run(Path(papers)))
    values = [config.data.train_batch_size, config.trainer.v1.trainer_mode, config.trainer.n_gpus_per_node]
    return {"lines": lines, "papers": values}


def shaped_with_padding(bonus: str) -> dict[str, bool]:
    """A batch with a row of padding, shaped by verl's trainer of ours: without its queue, workers and Ray."""
    import torch
    from omegaconf import OmegaConf
    from transfer_queue import KVBatchMeta

    from harness_plugins.rl.rewards import Shaping
    from harness_plugins.rl.training import Rollouts, read_run
    from harness_plugins.rl.verl_steps import HIDDEN, ShapingTrainer

    trainer = ShapingTrainer.__new__(ShapingTrainer)
    trainer.shaping, trainer.global_steps = Shaping(replace(read_run(FOLDER), bonus=bonus)), 1
    trainer.hidden = "ref" if trainer.shaping.needs("hidden") else None
    trainer.config = OmegaConf.create({"algorithm": {"adv_estimator": "grpo"}})
    real, random = [0, 1, 3, 4], torch.Generator().manual_seed(0)
    mask = torch.tensor([[1.0, 1, 1], [1, 1, 0], [1, 1, 1], [1, 0, 0], [1, 1, 1]])
    hidden, logprobs = torch.randn(5, 6, generator=random), -torch.rand(5, 3, generator=random)
    columns = {"extra_info": [{"problem": "a"}] * 5, "response_mask": mask, "old_log_probs": logprobs, HIDDEN: hidden}
    trainer._columns = lambda batch, *names: {name: columns[name] for name in names}
    tags = [{"is_padding": row == 2} for row in range(5)]
    batch = KVBatchMeta(keys=[f"u_{row}_0" for row in range(5)], tags=tags, partition_id="train")
    scores = [torch.tensor([0.0, 0.0, float(row % 2)]) for row in range(5)]
    shaped = torch.stack(trainer._shaped(batch, scores))
    rewards = torch.tensor([float(row % 2) for row in real]).double()
    means = ((logprobs * mask).sum(1) / mask.sum(1))[real].double()
    expected = trainer.shaping.shape(Rollouts(["a"] * 4, rewards, hidden[real].double(), means), 1).rewards
    per_row, centred = shaped[real].sum(1).double(), expected - expected.mean()
    return {
        "less_the_mean_of_its_group": torch.allclose(per_row, centred, atol=1e-7),
        "on_the_last_token": not bool(shaped[real][:, :2].any()),
        "padding_as_it_was": torch.equal(shaped[2], scores[2]),
        "bonus_does_something": not torch.allclose(expected, rewards),
    }


def main() -> None:
    questions = json.load(sys.stdin)
    answers: dict[str, Any] = {"outside": outside()}
    os.environ |= questions["environment"] | {"HARNESS_RL_RUN": str(FOLDER)}
    from harness_plugins.rl import verl_child

    verl_child.activate()
    answers |= composed(questions["overrides"], questions["papers"])
    answers["padding"] = {bonus: shaped_with_padding(bonus) for bonus in ("repexp:beta=1", "unlikely")}
    import verl_hidden_states

    answers["hidden"] = list(verl_hidden_states.measured(FOLDER, questions["layouts"]))
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
