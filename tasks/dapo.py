r"""DAPO-Math-17k: 17,917 competition problems with whole numbers as answers (Yu et al. 2025, arXiv:2503.14476).

It is for RL: RepExp (arXiv:2510.11686) trains on it and chooses the checkpoint by AIME 2024.

How a response is graded: the content of its last `\boxed{}` must be the reference's number; the rules are those of
`math_answers`. Without a box, the last "answer is x" or else the last number counts, if fallbacks are allowed
(`fallback`; in RL they are not).

A problem of this shape, invented, since the data's texts are not ours to publish (the id is the data's own,
`3f0c2b9e-...`): prompt `Find the sum of the prime factors of $2024$, each counted once.`, reference `36`.

Data: BytedTsinghua-SIA/DAPO-Math-17k at the commit pinned below, which at least ten public files name (the hub could
not be reached when this was written). Its 300 MB hold each problem a hundred times; copies (equal `extra_info.index`)
are left out. Of the 17,917 problems 17,255 have different texts. The instruction that the data wrap around each problem
is removed. `data` reads that parquet file instead, with or without copies, or JSONL, with prompt (text, or a chat with
one user message) and `reward_model.ground_truth` or answer; a row without `extra_info.index` or id gets the id
`train-17`.

Splits: `all`, and `train`, 4,096 problems that `seed` chooses. The authors choose theirs without a seed, from
ftajwar/deduplicated_dapo_dataset, of which no commit could be found to pin.

`dapo-aime` combines the splits for RL: `train` as above, `dev` is AIME 2024, `test` is AIME 2025. The paper chooses the
checkpoint by AIME 2024 and reports on the same thirty problems: `rl eval --split dev` gives its value, and `test` one
on problems that were not used to choose anything. Its `data` is a file of the split that is requested.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from harness import HarnessError, Problem

from .aime import Aime24, Aime25
from .competition_math import FromHub
from .data import sources
from .data.sources import Hub, Row

HUB = Hub(
    task="dapo-math",
    repo="BytedTsinghua-SIA/DAPO-Math-17k",
    revision="65877096c24ffa7abc4e4fa5edb95cf3413a5674",
    instead="--data FILE, the dataset's data/dapo-math-17k.parquet",
    named={"all": "train"},
)
TRAIN_SIZE = 4_096
# What the data wrap around each problem.
BEFORE = (
    "Solve the following math problem step by step. The last line of your response should be of the form "
    "Answer: $Answer (without quotes) where $Answer is the answer to the problem."
)
AFTER = 'Remember to put your answer on its own line after "Answer:".'


@dataclass(frozen=True)
class DapoMath(FromHub):
    """Problems for RL: 4,096 of them (split `train`), or all (`all`).

    seed       chooses the 4,096
    fallback   no: a response without a box has no answer. In RL it is no.
    """

    n = 16
    max_tokens = 2048
    owner = "AoPS and others"
    splits: ClassVar[Sequence[str]] = ("train", "all")
    paper: ClassVar[Mapping[str, Any]] = {"task": {"fallback": "no"}}
    pools_as = "dapo-math"
    hub = HUB

    seed: int = 0

    def problems(self, split: str) -> list[Problem]:
        """Return the problems of a split, ordered by their ids."""
        problems = sources.problems(sources.rows(HUB, split, self.data, distinct="extra_info.index"), _problem)
        problems.sort(key=lambda problem: problem.id)
        if split == "all":
            return problems
        if len(problems) < TRAIN_SIZE:
            raise HarnessError(
                f"dapo-math: {len(problems):,} problems, too few to choose {TRAIN_SIZE:,}: use --split all"
            )
        chosen = np.random.default_rng(self.seed).choice(len(problems), TRAIN_SIZE, replace=False)
        return [problems[i] for i in np.sort(chosen)]


class DapoAime(DapoMath):
    """DAPO-Math-17k to train on, AIME 2024 to choose the checkpoint by, AIME 2025 to report on.

    seed       chooses the 4,096 problems to train on
    fallback   no: a response without a box has no answer. In RL it is no.
    """

    max_tokens = 8192
    pools_as = "dapo-aime"
    splits = ("train", "dev", "test")
    rl: ClassVar[Mapping[str, Any]] = {
        "train": "train",
        "dev": "dev",
        "test": "test",
        "reward": "strict",
        "settings": {
            "batch": 512,
            "mini_batch": 128,
            "micro_batch": 8,
            "max_prompt": 2048,
            "max_response": 8192,
            "save_every": 10,
        },
        "bonus": {"repexp": {"dim": 128}},
    }

    @property
    def revision(self) -> str:
        """Return the first 12 digits of the three datasets' commits, joined by `+`, or the hash of the local file."""
        pinned = "+".join(hub.revision[:12] for hub in (HUB, Aime24.hub, Aime25.hub))
        return sources.revision("dapo-math", self.data, pinned)

    def problems(self, split: str) -> list[Problem]:
        """Return the problems of a split: `train` from DAPO-Math-17k, `dev` is AIME 2024, `test` is AIME 2025."""
        if split == "train":
            return super().problems(split)
        return (Aime24 if split == "dev" else Aime25)(data=self.data).problems("test")


def _problem(row: Row) -> Problem:
    """Return the problem of a row; of a chat the user's message, without the instructions around it."""
    id_columns = ("extra_info.index", "id")
    name = f"train-{row.number}" if row.find(*id_columns) is None else row.text(*id_columns)
    chat = row.find("prompt", "problem", "question")
    if isinstance(chat, list):
        texts = [turn.get("content") for turn in chat if isinstance(turn, Mapping) and turn.get("role") == "user"]
        if len(texts) != 1 or not isinstance(texts[0], str):
            raise row.fault("column 'prompt' must be text, or a chat with one message of the user")
        text = texts[0]
    else:
        text = row.text("prompt", "problem", "question")
    text = text.strip().removeprefix(BEFORE).removesuffix(AFTER).strip()
    return Problem(name, text, row.text("reward_model.ground_truth", "answer").strip())
