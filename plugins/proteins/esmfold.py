"""The verifier ESMFold v1 (Lin et al., Science 2023): a sequence's pLDDT and pTM, both from 0 to 1.

`EsmForProteinFolding` of transformers returns one pTM for a whole batch, the largest in it: one foldable sequence would
make all others look plausible. This module computes pTM from each row's own logits, which gives the same as folding the
sequence alone. A batch has only sequences of equal length, so nothing is padded. pLDDT is the mean over the atoms that
exist (as `mean_plddt` of the original), or over the Cα atoms; the paper does not say which.

Attention over pairs of residues is computed in chunks, whose size depends on the length and is halved if memory runs
out. On GPUs float32 products are rounded to TF32, and the language model runs in half precision if its config says so.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from harness import HarnessError
from harness.records import Weights

from ..embedders.esmc import whole_model
from ..engines.row_chunks import out_of_memory, release
from .published import ESMFOLD, Copy

VERSION = "1"  # of how the values are computed: part of their key
MEANS = ("atoms", "ca")
CA = 1  # index of the Cα atom among the 37 atom slots
RESIDUES = frozenset("ACDEFGHIKLMNPQRSTVWYXBUZO")  # the last five are folded as unknown residues
LONGEST = 1022  # residues that ESM-2 has positions for
TOGETHER = 1024  # residues in one batch of short sequences
SHORT = 128  # residues of a short sequence, at most; a longer one is folded alone
# (longest sequence, size of a chunk of the attention; None: no chunks)
CHUNKED = ((384, None), (640, 128), (LONGEST, 64))
LEAST_CHUNK = 16
PROBE_S = 60.0  # a length is timed only if it should take less than this
# TFLOP of one sequence of 1,000 l residues: l, l² and l³. Counted on the real trunk's blocks at 64, 256, 512 and 916.
TFLOP = (11.246, 195.888, 297.123)


@dataclass(frozen=True)
class EsmFold:
    """Measures sequences by ESMFold: pLDDT and pTM.

    model, revision   a hub id (None: facebook/esmfold_v1) and its revision, or a folder
    plddt_mean        "atoms" or "ca"
    device            "auto" (a GPU if there is one), "cpu", "cuda", ...
    test_weights      accept a checkpoint of no published size, and mark its results
    """

    model: str | None = None
    revision: str | None = None
    plddt_mean: str = "atoms"
    device: str = "auto"
    test_weights: bool = False

    def __post_init__(self) -> None:
        if self.plddt_mean not in MEANS:
            raise HarnessError(f"proteins: plddt_mean must be atoms or ca, got {self.plddt_mean!r}")

    @cached_property
    def chunk_sizes(self) -> dict[int, int]:
        """Return by length the size of a chunk that fits into memory, where it was found."""
        return {}

    @cached_property
    def together(self) -> dict[int, int]:
        """Return by length the number of sequences that fit into memory, where it was found."""
        return {}

    @cached_property
    def copy(self) -> Copy:
        """The copy of ESMFold that `model` and `revision` name."""
        return Copy("proteins: esmfold", ESMFOLD, self.model, self.revision, self.test_weights)

    def check(self) -> None:
        """Raise HarnessError if the weights are not here, or in a folder whose config has no published size."""
        weights = self.copy.weights()
        if weights.fetch:
            raise HarnessError(f"proteins: the verifier's weights are not on this machine: {weights}: {weights.fetch}")
        self.copy.check_folder(_sizes)

    def weights(self) -> list[Weights]:
        """Return the licence and location of ESMFold's weights."""
        return [self.copy.weights()]

    def identity(self) -> Mapping[str, Any]:
        """Return what determines the values: measurer, version, plddt_mean, and the weights' model and revision."""
        weights = {"model": self.copy.name, "revision": self.copy.commit()}
        return {"measurer": "esmfold", "version": VERSION, "plddt_mean": self.plddt_mean, **weights}

    def measure(self, texts: Sequence[str]) -> list[dict[str, float]]:
        """Return {"plddt": ..., "ptm": ...} for each text; {} if it is not a sequence of residues, or too long."""
        values: dict[str, dict[str, float]] = {}
        by_length: dict[int, list[str]] = {}
        for text in dict.fromkeys(texts):
            if 0 < len(text) <= LONGEST and RESIDUES.issuperset(text):
                by_length.setdefault(len(text), []).append(text)
        for length, same in sorted(by_length.items()):
            size = max(1, TOGETHER // length) if length <= SHORT else 1
            for start in range(0, len(same), size):
                batch = same[start : start + size]
                values.update(zip(batch, self._folded(batch), strict=True))
        return [values.get(text, {}) for text in texts]

    def seconds(self, counts: Mapping[int, int]) -> float:
        """Estimate the seconds to fold sequences; `counts`: length in residues -> number of sequences.

        Random sequences of up to three of these lengths are folded and timed. A length's operations are counted; the
        speed is interpolated between the timed lengths.
        """
        lengths = sorted(counts)
        speeds: dict[int, float] = {}
        for length in dict.fromkeys((lengths[0], lengths[len(lengths) // 2], lengths[-1])):
            if speeds and operations(length) / list(speeds.values())[-1] > PROBE_S:
                break
            rng, size = np.random.default_rng(0), max(1, TOGETHER // length) if length <= SHORT else 1
            batch = ["".join(rng.choice(list("ACDEFGHIKLMNPQRSTVWY"), length)) for _ in range(size)]
            if not speeds:
                self._folded(batch)  # loads and warms up
            began = time.perf_counter()
            self._folded(batch)
            speeds[length] = len(batch) * operations(length) / (time.perf_counter() - began)
        at = np.interp(lengths, list(speeds), list(speeds.values()))
        return float(
            sum(counts[length] * operations(length) / speed for length, speed in zip(lengths, at, strict=True))
        )

    def _folded(self, batch: Sequence[str]) -> list[dict[str, float]]:
        """Return the values of sequences of one length; if memory runs out, with fewer at once, then smaller chunks."""
        length = len(batch[0])
        most = self.together.get(length, len(batch))
        if len(batch) > most:
            return [row for start in range(0, len(batch), most) for row in self._folded(batch[start : start + most])]
        chunk = self.chunk_sizes.get(length, chunk_for(length))
        try:
            return list(self._run(batch, chunk))
        except (MemoryError, RuntimeError) as failure:
            if not out_of_memory(failure):
                raise
            if len(batch) == 1 and chunk is not None and chunk <= LEAST_CHUNK:
                raise HarnessError(
                    f"proteins: esmfold: one sequence of {length} residues does not fit into memory, in chunks of "
                    f"{chunk}: give a larger GPU or shorter lengths; what is folded is kept"
                ) from failure
        release()  # after the `except`, not in it: there the exception's traceback still holds the tensors
        if len(batch) > 1:
            self.together[length] = len(batch) // 2
        else:
            self.chunk_sizes[length] = max(LEAST_CHUNK, (chunk or 2 * CHUNKED[1][1]) // 2)
        return self._folded(batch)

    def _run(self, batch: Sequence[str], chunk: int | None) -> Iterator[dict[str, float]]:
        import torch
        from transformers.models.esm.openfold_utils import compute_tm

        model = self._model
        model.trunk.set_chunk_size(chunk)
        with torch.inference_mode():
            output = model.infer(list(batch))
            for row in range(len(batch)):
                plddt, exists = output["plddt"][row].double(), output["atom37_atom_exists"][row].double()
                if self.plddt_mean == "ca":
                    plddt, exists = plddt[:, CA], exists[:, CA]
                logits = output["ptm_logits"][row : row + 1]  # (1, L, L, bins): not `output.ptm`, the batch's largest
                ptm = compute_tm(logits, max_bin=31, no_bins=model.distogram_bins)
                yield {"plddt": float((plddt * exists).sum() / exists.sum()), "ptm": float(ptm)}

    @cached_property
    def _model(self) -> Any:
        """The model, of the transformers library's class, with every weight from the checkpoint."""
        import torch
        from transformers import EsmForProteinFolding

        model = whole_model(EsmForProteinFolding, self.copy, self.device, _sizes)
        if model.device.type == "cuda":
            torch.set_float32_matmul_precision("high")
            if model.config.esmfold_config.fp16_esm:
                model.esm.half()
        return model

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the model, which each worker loads itself."""
        return {name: value for name, value in self.__dict__.items() if name != "_model"}


def chunk_for(length: int) -> int | None:
    """Return how many rows of the attention over pairs to compute at once for `length` residues; None: all."""
    return next((chunk for longest, chunk in CHUNKED if length <= longest), CHUNKED[-1][1])


def operations(length: int) -> float:
    """Return the TFLOP of folding one sequence of `length` residues."""
    return sum(factor * (length / 1000) ** power for power, factor in enumerate(TFLOP, 1))


def _sizes(config: Mapping[str, Any]) -> dict[str, int]:
    blocks = config["esmfold_config"]["trunk"]["num_blocks"]
    return {name: config[name] for name in ("hidden_size", "num_hidden_layers")} | {"num_blocks": blocks}
