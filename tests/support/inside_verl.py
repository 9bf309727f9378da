"""In verl's environment: what a single process of verl's is asked, so that verl is imported once.

    python inside_verl.py FOLDER < QUESTIONS

FOLDER is a run's, launched but not started. QUESTIONS is a JSON object: "layouts", lists of a role ("ref" or "actor")
and overrides, for the smallest cosine of hidden means out of verl's own engine (its workers with our hook, without Ray)
and those of a direct float32 forward pass. With WORLD_SIZE of 2 in the environment two such processes make one worker
group, and each checks its own rows. Further questions: "environment" (of the launch), "overrides" of configurations to
compose, "papers": the folder of a run with the paper's settings. The last line is a JSON object with the answers.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import redirect_stderr
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

FOLDER = Path(sys.argv[1])
LENGTHS = [(5, 7), (9, 1), (3, 20), (12, 4), (2, 2), (8, 11), (4, 3), (6, 16)]  # prompt, response


def outside() -> dict[str, bool]:
    """Whether verl loads the plugin in a process that is none of a run of ours, and whether that does anything."""
    import verl  # noqa: F401
    from verl.plugin.platform.platform_manager import PlatformRegistry

    package = "harness_plugins.rl"
    active = f"{package}.verl_steps" in sys.modules or "cpu" in PlatformRegistry.registered_names()
    return {"loaded": f"{package}.verl_child" in sys.modules, "active": active}


def composed(overrides: list[str], papers: str) -> dict[str, Any]:
    """What each override alone is refused with, or "taken", and what the paper's settings become."""
    from harness import HarnessError
    from harness_plugins.rl.training import read_run
    from harness_plugins.rl.verl_child import compose

    lines = dict.fromkeys(overrides, "taken")
    for text in overrides:
        try:
            compose(replace(read_run(FOLDER), overrides=(text,)))
        except HarnessError as refusal:
            lines[text] = str(refusal)
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
    return {
        "less_the_mean_of_its_group": torch.allclose(
            shaped[real].sum(1).double(), expected - expected.mean(), atol=1e-7
        ),
        "on_the_last_token": not bool(shaped[real][:, :2].any()),
        "padding_as_it_was": torch.equal(shaped[2], scores[2]),
        "bonus_does_something": not torch.allclose(expected, rewards),
    }


def smallest_cosine(role: str, *overrides: str) -> float:
    """Of the hidden means of a worker, for rows as workers get them from the queue, and of a direct forward pass."""
    import torch
    from tensordict import TensorDict
    from transformers import AutoModelForCausalLM
    from verl.utils import tensordict_utils as tu

    from harness_plugins.models.location import locate
    from harness_plugins.rl.training import read_run
    from harness_plugins.rl.verl_child import compose
    from harness_plugins.rl.verl_steps import HIDDEN, PolicyStates, RefStates

    def nested(each: list[torch.Tensor]) -> torch.Tensor:
        return torch.nested.as_nested_tensor(each, layout=torch.jagged)

    generator = torch.Generator().manual_seed(3 + int(os.environ["RANK"]))
    ids = [torch.randint(5, 1000, (p + r,), generator=generator) for p, r in LENGTHS]
    columns = {
        "input_ids": nested(ids),
        "position_ids": nested([torch.arange(len(row)) for row in ids]),
        "prompts": nested([row[:p] for row, (p, _) in zip(ids, LENGTHS, strict=True)]),
        "responses": nested([row[p:] for row, (p, _) in zip(ids, LENGTHS, strict=True)]),
        "loss_mask": nested([torch.ones(r, dtype=torch.int64) for _, r in LENGTHS]),
    }
    batch = TensorDict(columns, batch_size=len(ids))
    tu.assign_non_tensor(batch, temperature=1.0, calculate_entropy=True, compute_loss=False)
    run = read_run(FOLDER)
    trainer = "verl:hidden=ref" if role == "ref" else "verl:hidden=policy"
    config = compose(replace(run, trainer=trainer, overrides=overrides))
    worker = (RefStates if role == "ref" else PolicyStates)(config=config.actor_rollout_ref, role=role)
    worker.init_model()
    inner = worker.ref if role == "ref" else worker.actor
    means = torch.stack(list(inner.infer_batch(batch)[HIDDEN].unbind()))
    plain = AutoModelForCausalLM.from_pretrained(str(locate(run.model).folder), dtype=torch.float32).eval()
    with torch.no_grad():
        states = [plain.get_decoder()(row[None])[0][0] for row in ids]
    expected = torch.stack([each[p:].mean(0) for each, (p, _) in zip(states, LENGTHS, strict=True)])
    assert means.shape == expected.shape
    return float(torch.cosine_similarity(means, expected).min())


def refused_by_the_child() -> tuple[int, str]:
    """The exit status and the error stream of the child whose run has a wrong override."""
    from harness_plugins.rl import verl_child
    from harness_plugins.rl.training import read_run, write_run

    write_run(replace(read_run(FOLDER), overrides=("trainer.no_such_key=1",)))
    with redirect_stderr(StringIO()) as err:
        return verl_child.main(), err.getvalue()


def main() -> None:
    questions = json.load(sys.stdin)
    answers: dict[str, Any] = {}
    alone = {"WORLD_SIZE": "1", "RANK": "0", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1"}
    alone["LOCAL_WORLD_SIZE"] = os.environ.get("WORLD_SIZE", "1")
    if "environment" in questions:
        answers["outside"] = outside()
        os.environ |= questions["environment"]
    os.environ |= {name: os.environ.get(name, value) for name, value in alone.items()}
    import verl  # noqa: F401  # which loads the plugin

    from harness_plugins.rl import verl_child

    if "environment" in questions:
        verl_child.activate()
        answers |= composed(questions["overrides"], questions["papers"])
        answers["padding"] = {bonus: shaped_with_padding(bonus) for bonus in ("repexp:beta=1", "unlikely")}
    answers["cosines"] = [smallest_cosine(*layout) for layout in questions["layouts"]]
    answers["child"] = refused_by_the_child() if "environment" in questions else ()
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
