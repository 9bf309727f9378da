"""Embedder `esmc`: the mean over a protein's residues of ESM C's last hidden states (Candido et al. 2026).

The paper's vectors are those of the 600M model, averaged. The tokens that begin and end a sequence are left out of the
mean, and so is padding. The states are those after the final norm (`embeddings` of EvolutionaryScale's `esm`); before
it with `layer_norm=pre`.

transformers loads a checkpoint whose names do not fit with random weights, and only warns: it happened to
biohub/ESMC-6B in 2026-09. Here one weight that did not come from the checkpoint is an error.

Candido et al., "ESM C" (2026); Hayes et al., "Simulating 500 million years of evolution with a language model" (2025).
Needs transformers 5.16 or newer (`pip install 'diversity-harness[protein]'`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from harness import HarnessError, Problem, hookimpl
from harness.hookspecs import Register
from harness.records import Weights

from ..engines.row_chunks import Chunks
from ..models.checkpoint import find_device, quiet
from ..models.model_location import one_line_errors
from ..proteins.published import ESMC, Copy

if TYPE_CHECKING:
    from numpy.typing import NDArray

LETTERS = frozenset("ACDEFGHIKLMNPQRSTVWYXBUZO.-")
NORMS = ("post", "pre")


@hookimpl
def register_embedders(register: Register) -> None:
    """Register by name, so that listing embedders imports no torch."""
    register("esmc", "harness_plugins.embedders.esmc:EsmC")


@dataclass(frozen=True)
class EsmC:
    """ESM C's mean state of each sequence.

    model         a hub id in transformers' layout, or a folder
    revision      of the hub's: branch, tag or commit; the commit is part of the key in any case
    layer_norm    "post" (after the final norm) or "pre"
    tokens        at once, padding counted; fewer where memory runs out. Changes vectors by rounding only
    device        "auto" (a GPU if there is one), "cpu", "cuda", ...
    test_weights  take a checkpoint of no published size, and mark all that it makes
    """

    state: ClassVar[None] = None

    model: str = ESMC.repo
    revision: str | None = None
    layer_norm: str = "post"
    tokens: int = 32_768
    device: str = "auto"
    test_weights: bool = False

    def __post_init__(self) -> None:
        if self.layer_norm not in NORMS:
            raise HarnessError(f"esmc: layer_norm must be post or pre, got {self.layer_norm!r}")
        if self.tokens < 1:
            raise HarnessError(f"esmc: tokens must be at least 1, got {self.tokens}")
        self._copy.check_folder(_sizes)

    def weights(self) -> list[Weights]:
        """ESM C's."""
        return [self._copy.weights()]

    def identity(self) -> dict[str, str]:
        """What fixes the vectors beside the parameters: the hub's commit, or a hash of the folder."""
        return {"weights": self._copy.commit()}

    def embed(self, problem: Problem, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, d) float32; equal sequences get equal vectors. The problem makes no difference."""
        distinct = sorted(dict.fromkeys(texts), key=len)  # of like length together: little padding
        for text in distinct:
            _check_letters(text)
        rows: dict[str, Any] = {}
        while len(rows) < len(distinct):
            rest = distinct[len(rows) :]
            fitting = Chunks(_fitting(rest, self.tokens), "esmc")
            for chunk, vectors in fitting.over(rest[: fitting.size], self._means):
                rows.update(zip(chunk, vectors, strict=True))
        return np.stack([rows[text] for text in texts])

    @cached_property
    def _copy(self) -> Copy:
        return Copy("esmc", ESMC, self.model, self.revision, self.test_weights)

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        """Tokenizer and model, every weight of it from the checkpoint."""
        try:
            from transformers import EsmcModel, EsmcTokenizer
        except ImportError as failure:
            raise HarnessError(
                f"esmc: needs transformers 5.16 or newer ({failure}): pip install 'diversity-harness[protein]'"
            ) from failure
        tokenizer = EsmcTokenizer()  # its vocabulary is fixed, and needs no file
        return tokenizer, whole_model(EsmcModel, self._copy, self.device, _sizes)

    def _means(self, texts: Sequence[str]) -> Any:
        """(n, d) float32."""
        import torch

        tokenizer, model = self._loaded
        encoded = tokenizer(list(texts), return_tensors="pt", padding=True).to(model.device)
        before: list[Any] = []
        hook = model.norm.register_forward_pre_hook(lambda norm, given: before.append(given[0]))
        try:
            with torch.inference_mode():
                after = model(**encoded).last_hidden_state
        finally:
            hook.remove()
        hidden = after if self.layer_norm == "post" else before[0]
        ids = encoded["input_ids"]
        ends = (ids == tokenizer.cls_token_id) | (ids == tokenizer.eos_token_id)
        keep = (encoded["attention_mask"].bool() & ~ends)[..., None]
        means = (hidden.float() * keep).sum(1) / keep.sum(1)
        if not means.isfinite().all():
            raise HarnessError(f"esmc: {self._copy.source} gives states that are not finite")
        return means.cpu().numpy()


def whole_model(factory: Any, copy: Copy, device: str, sizes: Callable[[Mapping[str, Any]], Mapping[str, int]]) -> Any:
    """The model of a checkpoint in float32, if all its weights are there and finite, and its size is a published one.

    `sizes(config)`: what of the config, as JSON, says which of the published ones it is.
    """
    import torch

    with quiet(), one_line_errors(copy.location):
        config = factory.config_class.from_pretrained(copy.source, **copy.pinned)
        copy.check_size(sizes(config.to_dict()))
        model, loading = factory.from_pretrained(
            copy.source, config=config, dtype=torch.float32, output_loading_info=True, **copy.pinned
        )
    lacking = sorted([*loading["missing_keys"], *(str(key) for key in loading["mismatched_keys"])])
    if lacking:
        raise HarnessError(
            f"{copy.who}: {copy.source} does not hold {len(lacking)} of the model's weights ({lacking[0]:.60}, ...): "
            "they would be random; the checkpoint is of another layout, or damaged"
        )
    bad = next((name for name, part in model.named_parameters() if not part.isfinite().all()), None)
    if bad:
        raise HarnessError(f"{copy.who}: {copy.source}: {bad} is not finite: the checkpoint is damaged")
    return model.to(find_device(device)).eval()


def _sizes(config: Mapping[str, Any]) -> dict[str, int]:
    return {name: config[name] for name in ("hidden_size", "num_hidden_layers")}


def _fitting(texts: Sequence[str], tokens: int) -> int:
    """How many of these, which ascend in length, are at most so many tokens when padded; at least one."""
    count = 1
    while count < len(texts) and (count + 1) * (len(texts[count]) + 2) <= tokens:
        count += 1
    return count


def _check_letters(text: str) -> None:
    wrong = next((place for place, letter in enumerate(text) if letter not in LETTERS), None)
    if wrong is not None or not text:
        what = f"{text[wrong]!r} at {wrong + 1}" if wrong is not None else "an empty text"
        raise HarnessError(f"esmc: embeds proteins, one letter a residue, not {what} (in {text[:40]!r})")
