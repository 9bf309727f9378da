"""In verl's environment: hidden means out of verl's own engine against a direct float32 forward pass.

    python verl_hidden_states.py FOLDER < LAYOUTS

FOLDER is a run's, launched but not started. LAYOUTS is JSON: lists of a role ("ref" or "actor") and overrides. The
workers are verl's with our hook, without Ray. Prints a JSON object a layout: the smallest cosine, the largest
difference, and the number of rows. With WORLD_SIZE of 2 in the environment two of these make one worker group, and each
checks its own rows. `inside_verl` imports it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("WORLD_SIZE", "1")
os.environ.setdefault("RANK", "0")
os.environ.setdefault("LOCAL_RANK", "0")
os.environ.setdefault("LOCAL_WORLD_SIZE", os.environ["WORLD_SIZE"])
os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
os.environ["HARNESS_RL_RUN"] = sys.argv[1]

import torch
import verl  # noqa: F401
from tensordict import TensorDict
from transformers import AutoModelForCausalLM
from verl.utils import tensordict_utils as tu

from harness_plugins.models.location import locate
from harness_plugins.rl.training import read_run
from harness_plugins.rl.verl_child import compose
from harness_plugins.rl.verl_steps import HIDDEN, PolicyStates, RefStates

LENGTHS = [(5, 7), (9, 1), (3, 20), (12, 4), (2, 2), (8, 11), (4, 3), (6, 16)]  # prompt, response


def rows() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(3 + int(os.environ["RANK"]))
    return [torch.randint(5, 1000, (p + r,), generator=generator) for p, r in LENGTHS]


def nested(each: list[torch.Tensor]) -> torch.Tensor:
    return torch.nested.as_nested_tensor(each, layout=torch.jagged)


def as_batch(ids: list[torch.Tensor]) -> TensorDict:
    """As the workers get it from the queue."""
    parts = list(zip(ids, LENGTHS, strict=True))
    columns = {
        "input_ids": nested(ids),
        "position_ids": nested([torch.arange(len(row)) for row in ids]),
        "prompts": nested([row[:p] for row, (p, _) in parts]),
        "responses": nested([row[p:] for row, (p, _) in parts]),
        "loss_mask": nested([torch.ones(r, dtype=torch.int64) for _, (_, r) in parts]),
    }
    batch = TensorDict(columns, batch_size=len(ids))
    tu.assign_non_tensor(batch, temperature=1.0, calculate_entropy=True, compute_loss=False)
    return batch


def by_worker(folder: Path, role: str, overrides: list[str], ids: list[torch.Tensor]) -> torch.Tensor:
    run = read_run(folder)
    trainer = "verl:hidden=ref" if role == "ref" else "verl:hidden=policy"
    config = compose(replace(run, trainer=trainer, overrides=tuple(overrides)))
    worker = (RefStates if role == "ref" else PolicyStates)(config=config.actor_rollout_ref, role=role)
    worker.init_model()
    inner = worker.ref if role == "ref" else worker.actor
    return torch.stack(list(inner.infer_batch(as_batch(ids))[HIDDEN].unbind()))


def expected(model: str, ids: list[torch.Tensor]) -> torch.Tensor:
    plain = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()
    with torch.no_grad():
        states = [plain.get_decoder()(row[None])[0][0] for row in ids]
    return torch.stack([each[p:].mean(0) for each, (p, _) in zip(states, LENGTHS, strict=True)])


def measured(folder: Path, layouts: list[list[str]]) -> Iterator[dict[str, float]]:
    """The figures of each layout."""
    ids, model = rows(), str(locate(read_run(folder).model).folder)
    wanted = expected(model, ids)
    for role, *overrides in layouts:
        means = by_worker(folder, role, overrides, ids)
        cosine = torch.cosine_similarity(means, wanted).min()
        yield {"cosine": float(cosine), "apart": float((means - wanted).abs().max()), "rows": len(means)}


if __name__ == "__main__":
    for figures in measured(Path(sys.argv[1]), json.load(sys.stdin)):
        print(json.dumps(figures))
