r"""DAPO-Math-17k: 17,917 competition problems with whole numbers as answers (Yu et al. 2025, arXiv:2503.14476).

For RL: the set that RepExp (arXiv:2510.11686) trains on, with AIME 2024 to choose the checkpoint by.

Example, invented (id `3f0c2b9e-...`, the data's own): prompt `Find the sum of the prime factors of $2024$, each counted
once.`, reference `36`; a correct response ends in `\boxed{36}`.

Data: BytedTsinghua-SIA/DAPO-Math-17k at the commit below, which at least ten public files name (it could not be fetched
where this was written): 300 MB, since each problem is there a hundred times; the copies (equal `extra_info.index`) are
left out. Of the 17,917 that stay 17,255 texts differ. `data`: that parquet, whole or without copies, or JSONL, with
prompt (text, or a chat of which the user's message counts) and `reward_model.ground_truth` or answer; a row without
`extra_info.index` or id is `train-17`. The instruction that the set wraps around each problem is taken off.

Splits: train, 4,096 of the problems, drawn with `seed`; all. The authors draw their 4,096 without a seed, from
ftajwar/deduplicated_dapo_dataset, of which no commit could be found to pin.

`dapo-aime` puts the RL splits together: `train` as above, `dev` AIME 2024, `test` AIME 2025. The paper chooses the
checkpoint by AIME 2024 and reports the same thirty problems; here `rl eval --split dev` gives its figure, and `test`
one that nothing was chosen by. `data`: a file of the split that is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from harness import HarnessError, Message, Problem, hookimpl
from harness.hookspecs import Register

from . import aime
from .aime import Aime24, Aime25, zero_shot
from .competition_math import boxed_chat
from .data import sources
from .data.sources import Hub, Row
from .math_answers import MathTask

HUB = Hub(
    task="dapo-math",
    repo="BytedTsinghua-SIA/DAPO-Math-17k",
    revision="65877096c24ffa7abc4e4fa5edb95cf3413a5674",
    instead="--data FILE, the dataset's data/dapo-math-17k.parquet",
    named={"all": "train"},
)
DRAWN = 4_096
BEFORE = (
    "Solve the following math problem step by step. The last line of your response should be of the form "
    "Answer: $Answer (without quotes) where $Answer is the answer to the problem."
)
AFTER = 'Remember to put your answer on its own line after "Answer:".'


@dataclass(frozen=True)
class DapoMath(MathTask):
    """4,096 problems to train on, or all.

    seed       draws the 4,096
    fallback   no: a response without a box has no answer; so in RL
    """

    n = 16
    max_tokens = 2048
    owner = "AoPS and others"
    splits = ("train", "all")
    paper: ClassVar[Mapping[str, Any]] = {"task": {"fallback": "no"}}
    pools_as = "dapo-math"

    data: str | None = None
    seed: int = 0
    fallback: bool = True

    @property
    def revision(self) -> str:
        """The dataset's commit, or the file's hash."""
        return sources.revision(HUB, self.data)

    def problems(self, split: str) -> list[Problem]:
        """The problems of a split, by their ids ascending."""
        sources.refuse_unknown("dapo-math", split, self.splits)
        found = sources.problems(sources.rows(HUB, split, self.data, distinct="extra_info.index"), _problem)
        found.sort(key=lambda problem: problem.id)
        if split == "all":
            return found
        if len(found) < DRAWN:
            raise HarnessError(f"dapo-math: {len(found):,} problems, too few to draw {DRAWN:,}: use --split all")
        drawn = np.random.default_rng(self.seed).choice(len(found), DRAWN, replace=False)
        return [found[i] for i in np.sort(drawn)]

    def messages(self, problem: Problem) -> list[Message]:
        """One user message: the problem and the instruction of `competition_math`."""
        return boxed_chat(problem)

    def plain(self, problem: Problem) -> str:
        """The problem, the instruction, and the beginning of a solution; no examples."""
        return zero_shot(problem)

    def default_split(self, model: str) -> tuple[str, str]:
        """`train`: the set has no test split."""
        return "train", ""


class DapoAime(DapoMath):
    """DAPO-Math-17k to train on, AIME 2024 to choose the checkpoint by, AIME 2025 to report.

    seed       draws the 4,096
    fallback   no: a response without a box has no answer; so in RL
    """

    max_tokens = 8192
    pools_as = "dapo-aime"
    splits = ("train", "dev", "test")

    @property
    def rl(self) -> Mapping[str, Any]:
        """How it is trained on."""
        from .data.rl_settings import DAPO_AIME

        return DAPO_AIME

    @property
    def revision(self) -> str:
        """The three datasets' commits, or the file's hash."""
        commits = [HUB.revision, *(hub.revision for hub in aime.HUBS.values())]
        return "+".join(commit[:12] for commit in commits) if self.data is None else super().revision

    def problems(self, split: str) -> list[Problem]:
        """The problems of a split."""
        sources.refuse_unknown("dapo-aime", split, self.splits)
        if split == "train":
            return super().problems(split)
        return (Aime24 if split == "dev" else Aime25)(data=self.data).problems("test")

    def default_split(self, model: str) -> tuple[str, str]:
        """`test`: AIME 2025."""
        return "test", ""


def _problem(row: Row) -> Problem:
    id_columns = ("extra_info.index", "id")
    name = f"train-{row.number}" if row.find(*id_columns) is None else row.text(*id_columns)
    return Problem(name, _unwrapped(row), row.text("reward_model.ground_truth", "answer").strip())


def _unwrapped(row: Row) -> str:
    """The problem itself, without the role and the instructions around it."""
    chat = row.find("prompt", "problem", "question")
    if not isinstance(chat, list):
        text = row.text("prompt", "problem", "question")
    else:
        said = [turn.get("content") for turn in chat if isinstance(turn, Mapping) and turn.get("role") == "user"]
        if len(said) != 1 or not isinstance(said[0], str):
            raise row.fault("column 'prompt' must be text, or a chat with one message of the user")
        text = said[0]
    return text.strip().removeprefix(BEFORE).removesuffix(AFTER).strip()


@hookimpl
def register_tasks(register: Register) -> None:
    """The tasks `dapo-math` and `dapo-aime`."""
    register("dapo-math", "harness_tasks.dapo:DapoMath")
    register("dapo-aime", "harness_tasks.dapo:DapoAime")
