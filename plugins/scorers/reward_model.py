"""Scorer `reward-model`: a sequence-classification model's one logit for a prompt and a response.

Ouyang et al., "Training language models to follow instructions with human feedback" (2022), arXiv:2203.02155, replace
the last layer of a language model by one number, trained on people's comparisons. Such models are published as
transformers checkpoints with one label (`AutoModelForSequenceClassification`, `num_labels` 1).

The prompt and the response are one chat, rendered by the tokenizer's chat template. Without a template they are the two
texts of a pair, as cross-encoders read them. The score is the logit as it is: it has no scale, and no zero. A response
that with its prompt is longer than the model's context is not cut: its score is unknown (NaN). Equal texts are scored
once. Without a padding token in the model's config the texts are scored one by one, as its logit is then read at the
last token.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from harness import HarnessError, Message, Problem, hookimpl

from ..models.checkpoint import TEMPLATE_DATE, Checkpoint
from ..models.location import locate

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class RewardModel:
    """A reward model's logit for each response, from transformers (one label, chat template if there is one).

    `model`: a folder or a hub id. `batch`: responses at once; it changes scores by rounding only. `device`: "auto" is a
    GPU if there is one. `dtype`: "auto" is float32 on a CPU and the checkpoint's on a GPU. `revision`: of a hub model.
    """

    libraries: ClassVar[Sequence[str]] = ("torch", "transformers")

    model: str = ""
    batch: int = 8
    device: str = "auto"
    dtype: str = "auto"
    revision: str | None = None

    def __post_init__(self) -> None:
        if not self.model:
            raise HarnessError("reward-model: say which model: reward-model:model=FOLDER, or a hub id")
        if self.batch < 1:
            raise HarnessError(f"reward-model: batch must be at least 1, got {self.batch}")

    def identity(self) -> Mapping[str, Any]:
        """Return the revision (a hub commit, or a hash of the folder's content) and dtype; loads no weights."""
        return {"revision": self._checkpoint.revision, "dtype": self._checkpoint.dtype}

    def score(self, problem: Problem, prompt: Sequence[Message], texts: Sequence[str]) -> NDArray[np.float64]:
        """Return the logits (n,) float64, NaN for a response that does not fit into the model's context."""
        import numpy as np

        if not any(message["content"].strip() for message in prompt):
            raise HarnessError(
                f"reward-model: problem {problem.id!r} has no prompt: add `prompt` to the pool's lines, or say --task"
            )
        distinct = list(dict.fromkeys(texts))
        rows = [self._encoded(prompt, text.encode("utf-8", "replace").decode()) for text in distinct]
        lengths = np.array([len(row["input_ids"]) for row in rows])
        fitting = np.flatnonzero(lengths <= self._checkpoint.context)
        by_length = fitting[np.argsort(lengths[fitting], kind="stable")].tolist()
        size = 1 if self._checkpoint.config.pad_token_id is None else self.batch
        scores = np.full(len(rows), math.nan)
        for batch in (by_length[start : start + size] for start in range(0, len(by_length), size)):
            scores[batch] = self._logits([rows[index] for index in batch])
        place = {text: index for index, text in enumerate(distinct)}
        return scores[[place[text] for text in texts]]

    @cached_property
    def _checkpoint(self) -> _RewardCheckpoint:
        return _RewardCheckpoint(locate(self.model), self.device, self.dtype, self.revision)

    def _encoded(self, prompt: Sequence[Message], text: str) -> dict[str, list[int]]:
        """The tokens of the prompt and one response, with the masks that the model takes."""
        from jinja2 import TemplateError

        tokenizer = self._checkpoint.tokenizer
        if not tokenizer.chat_template:
            return dict(tokenizer("\n\n".join(message["content"] for message in prompt), text))
        chat = [*prompt, {"role": "assistant", "content": text}]
        try:
            return dict(tokenizer.apply_chat_template(chat, return_dict=True, date_string=TEMPLATE_DATE))
        except TemplateError as refusal:
            raise HarnessError(f"reward-model: its chat template refuses the chat: {refusal}") from refusal

    def _logits(self, rows: Sequence[Mapping[str, list[int]]]) -> NDArray[np.float64]:
        import torch

        part, tokenizer = self._checkpoint, self._checkpoint.tokenizer
        padding = part.config.pad_token_id
        if padding is not None:  # the config says where a text ends: its token pads, whatever the tokenizer's
            tokenizer.pad_token = tokenizer.convert_ids_to_tokens(padding)
        names = rows[0].keys()
        batch = {name: [row[name] for row in rows] for name in names}
        inputs = tokenizer.pad(batch, padding=len(rows) > 1, padding_side="right", return_tensors="pt")
        with torch.inference_mode():
            logits = part.model(**inputs.to(part.device)).logits
        return logits[:, 0].double().cpu().numpy()


class _RewardCheckpoint(Checkpoint):
    """A checkpoint with one label."""

    def require_kind(self, config: Any) -> None:
        """Raise HarnessError unless the config has one label."""
        if config.num_labels != 1:
            raise HarnessError(
                f"reward-model: model {self.name!r} has {config.num_labels} labels: a reward model has one (num_labels)"
            )

    @cached_property
    def model(self) -> Any:
        """The model, ready to score."""
        return self.whole("AutoModelForSequenceClassification", "reward model").eval()


@hookimpl
def register_scorers(register: Callable[[str, str], None]) -> None:
    """Register `reward-model`."""
    register("reward-model", "harness_plugins.scorers.reward_model:RewardModel")
