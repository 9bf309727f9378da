"""Embedder `esmc`: the mean over a protein's residues of ESM C's last hidden states (Candido et al. 2026).

The paper averages the states of the 600M model. The mean leaves out padding and the tokens that begin and end a
sequence. The states are those after the final norm (`embeddings` of EvolutionaryScale's `esm`), or before it with
`layer_norm=pre`.

If a checkpoint's names do not match, transformers fills in random weights and only warns, as for biohub/ESMC-6B in
2026-09. This embedder raises an error if a single weight does not come from the checkpoint.

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
from ..models.location import one_line_errors
from ..proteins.published import ESMC, Copy

if TYPE_CHECKING:
    from numpy.typing import NDArray

LETTERS = frozenset("ACDEFGHIKLMNPQRSTVWYXBUZO.-")
NORMS = ("post", "pre")


@hookimpl
def register_embedders(register: Register) -> None:
    """Register `esmc` by the name of its module, so that listing embedders imports no torch."""
    register("esmc", "harness_plugins.embedders.esmc:EsmC")


@dataclass(frozen=True)
class EsmC:
    """Vectors of proteins: ESM C's mean state of each sequence.

    model         a hub id in transformers' layout, or a folder
    revision      of a hub model: branch, tag or commit; the key holds the commit in any case
    layer_norm    "post" (after the final norm) or "pre"
    tokens        maximum of one batch, padding included (a longer sequence is a batch alone); halved if memory runs
                  out. Changes vectors by rounding only
    device        "auto" (a GPU if there is one), "cpu", "cuda", ...
    test_weights  accept a checkpoint of no published size, and mark its results
    """

    state: ClassVar[None] = None
    libraries: ClassVar[Sequence[str]] = ("torch", "transformers")

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
        """Return the licence and location of ESM C's weights."""
        return [self._copy.weights()]

    def identity(self) -> dict[str, str]:
        """Return what fixes the vectors besides options: the repository's commit, or the hash of a folder's files."""
        return {"weights": self._copy.commit()}

    def embed(self, problem: Problem, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the sequences' vectors, (n, d) float32; equal sequences get equal vectors. The problem is not used.

        HarnessError if a text is empty or holds a character that is no residue's letter.
        """
        distinct = sorted(dict.fromkeys(texts), key=len)  # similar lengths together: little padding
        for text in distinct:
            at = next((place for place, letter in enumerate(text) if letter not in LETTERS), None)
            if at is not None or not text:
                fault = f"{text[at]!r} at {at + 1}" if at is not None else "an empty text"
                raise HarnessError(f"esmc: embeds proteins, one letter a residue, not {fault} (in {text[:40]!r})")
        rows: dict[str, Any] = {}
        while len(rows) < len(distinct):
            remaining, size = distinct[len(rows) :], 1
            while size < len(remaining) and (size + 1) * (len(remaining[size]) + 2) <= self.tokens:
                size += 1  # as many as fit when they are padded to the longest
            for chunk, vectors in Chunks(size, "esmc").over(remaining[:size], self._means):
                rows.update(zip(chunk, vectors, strict=True))
        return np.stack([rows[text] for text in texts])

    @cached_property
    def _copy(self) -> Copy:
        return Copy("esmc", ESMC, self.model, self.revision, self.test_weights)

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        """The tokenizer, and the model with every weight from the checkpoint."""
        try:
            from transformers import EsmcModel, EsmcTokenizer
        except ImportError as failure:
            raise HarnessError(
                f"esmc: needs transformers 5.16 or newer ({failure}): pip install 'diversity-harness[protein]'"
            ) from failure
        tokenizer = EsmcTokenizer()  # its vocabulary is fixed, and needs no file
        return tokenizer, whole_model(EsmcModel, self._copy, self.device, _sizes)

    def _means(self, texts: Sequence[str]) -> Any:
        """Return the mean states of a batch of sequences, (n, d) float32."""
        import torch

        tokenizer, model = self._loaded
        encoded = tokenizer(list(texts), return_tensors="pt", padding=True).to(model.device)
        before: list[Any] = []
        hook = model.norm.register_forward_pre_hook(lambda norm, inputs: before.append(inputs[0]))
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
    """Return a checkpoint's model on the device, float32, in eval mode; HarnessError unless all weights come from it.

    HarnessError also if a weight is not finite, or the size is none of the published ones (test weights may have any).

    factory   the model's class in transformers
    sizes     `sizes(config)` returns the sizes in the config (parsed JSON) that are compared with the published ones
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
            f"{copy.component}: {copy.source} does not hold {len(lacking)} of the model's weights "
            f"({lacking[0]:.60}, ...): they would be random; the checkpoint is of another layout, or damaged"
        )
    not_finite = next((name for name, part in model.named_parameters() if not part.isfinite().all()), None)
    if not_finite:
        raise HarnessError(f"{copy.component}: {copy.source}: {not_finite} is not finite: the checkpoint is damaged")
    return model.to(find_device(device)).eval()


def _sizes(config: Mapping[str, Any]) -> dict[str, int]:
    return {name: config[name] for name in ("hidden_size", "num_hidden_layers")}
