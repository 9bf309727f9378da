"""The verifier ESMFold v1 (Lin et al., Science 2023): a sequence's pLDDT and pTM, both from 0 to 1.

`EsmForProteinFolding` of transformers gives one pTM for a whole batch, the largest in it: one foldable sequence would
make all plausible. Here pTM is computed from each row's own logits, which gives what the sequence alone gives. Only
sequences of equal length go together, so nothing is padded. pLDDT is the mean over the atoms that there are (as
`mean_plddt` of the original), or over the Cα atoms; the paper does not say which.

Attention over pairs of residues is computed in chunks by length, halved where memory runs out. On GPUs float32
products are rounded to TF32, and the language model below runs in half precision where its config says so.
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

VERSION = "1"  # of how the figures come about: part of their key
MEANS = ("atoms", "ca")
CA = 1  # the Cα atom's slot of 37
TAKEN = frozenset("ACDEFGHIKLMNPQRSTVWYXBUZO")  # the last five are folded as unknown residues
LONGEST = 1022  # residues that ESM-2 has positions for
TOGETHER = 1024  # residues in one batch, where sequences are no longer than
SHORT = 128
CHUNKED = ((384, None), (640, 128), (LONGEST, 64))  # up to so many residues: how large a chunk of the attention
LEAST_CHUNK = 16
PROBE_S = 60.0  # a longer sequence is timed only where it should take less than this
# TFLOP of one sequence of 1,000 l residues: l, l² and l³. Counted on the real trunk's blocks at 64, 256, 512 and 916.
TFLOP = (11.246, 195.888, 297.123)


@dataclass(frozen=True)
class EsmFold:
    """ESMFold's figures for sequences.

    model, revision   a hub id (None: facebook/esmfold_v1) and its revision, or a folder
    plddt_mean        "atoms" or "ca"
    device            "auto" (a GPU if there is one), "cpu", "cuda", ...
    test_weights      take a checkpoint of no published size, and mark all that it makes
    """

    model: str | None = None
    revision: str | None = None
    plddt_mean: str = "atoms"
    device: str = "auto"
    test_weights: bool = False

    def __post_init__(self) -> None:
        if self.plddt_mean not in MEANS:
            raise HarnessError(f"proteins: plddt_mean must be atoms or ca, got {self.plddt_mean!r}")
        object.__setattr__(self, "chunk_sizes", {})  # length -> what it was halved to
        object.__setattr__(self, "together", {})  # length -> how many sequences of it fit

    @cached_property
    def copy(self) -> Copy:
        """Where its weights are."""
        return Copy("proteins: esmfold", ESMFOLD, self.model, self.revision, self.test_weights)

    def check(self) -> None:
        """Refuse weights that are not here, or are of no published size as far as a folder's config says."""
        if self.copy.weights().fetch:
            raise HarnessError(
                f"proteins: the verifier's weights are not on this machine: {self.copy.weights()}: "
                f"{self.copy.weights().fetch}"
            )
        self.copy.check_folder(_sizes)

    def weights(self) -> list[Weights]:
        """ESMFold's."""
        return [self.copy.weights()]

    def identity(self) -> Mapping[str, Any]:
        """What fixes the figures."""
        weights = {"model": self.copy.name, "revision": self.copy.commit()}
        return {"measurer": "esmfold", "version": VERSION, "plddt_mean": self.plddt_mean, **weights}

    def measure(self, texts: Sequence[str]) -> list[dict[str, float]]:
        """{"plddt": ..., "ptm": ...} of each; {} for what is no sequence of residues, or too long a one."""
        found: dict[str, dict[str, float]] = {}
        by_length: dict[int, list[str]] = {}
        for text in dict.fromkeys(texts):
            if is_sequence(text):
                by_length.setdefault(len(text), []).append(text)
        for length, same in sorted(by_length.items()):
            size = max(1, TOGETHER // length) if length <= SHORT else 1
            for start in range(0, len(same), size):
                batch = same[start : start + size]
                found.update(zip(batch, self._folded(batch), strict=True))
        return [found.get(text, {}) for text in texts]

    def seconds(self, counts: Mapping[int, int]) -> float:
        """About how long so many sequences of those lengths take: one to three lengths timed, the rest by arithmetic.

        The arithmetic is the count of operations; the speed is interpolated between the lengths that were timed.
        """
        lengths = sorted(counts)
        speeds: dict[int, float] = {}
        for length in dict.fromkeys((lengths[0], lengths[len(lengths) // 2], lengths[-1])):
            if speeds and operations(length) / list(speeds.values())[-1] > PROBE_S:
                break
            batch = _random_sequences(length, max(1, TOGETHER // length) if length <= SHORT else 1)
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
        """The figures of sequences of one length; fewer at once, then smaller chunks, where memory runs out."""
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
        release()  # here, not in the `except`: the failure's traceback holds the tensors until it ends
        if len(batch) > 1:
            self.together[length] = len(batch) // 2
        else:
            self.chunk_sizes[length] = max(LEAST_CHUNK, (chunk or 2 * CHUNKED[1][1]) // 2)
        return self._folded(batch)

    def _run(self, batch: Sequence[str], chunk: int | None) -> Iterator[dict[str, float]]:
        import torch

        model = self._model
        model.trunk.set_chunk_size(chunk)
        with torch.inference_mode():
            output = model.infer(list(batch))
            for row in range(len(batch)):
                yield {
                    "plddt": self._plddt(output, row),
                    "ptm": row_ptm(output["ptm_logits"], row, len(batch[row]), model.distogram_bins),
                }

    def _plddt(self, output: Any, row: int) -> float:
        """The mean confidence of a row, over the atoms that are there or their Cα alone."""
        plddt, there = output["plddt"][row].double(), output["atom37_atom_exists"][row].double()
        if self.plddt_mean == "ca":
            plddt, there = plddt[:, CA], there[:, CA]
        return float((plddt * there).sum() / there.sum())

    @cached_property
    def _model(self) -> Any:
        """The real class with every weight from the checkpoint."""
        import torch
        from transformers import EsmForProteinFolding

        model = whole_model(EsmForProteinFolding, self.copy, self.device, _sizes)
        if model.device.type == "cuda":
            torch.set_float32_matmul_precision("high")
            if model.config.esmfold_config.fp16_esm:
                model.esm.half()
        return model

    def __getstate__(self) -> dict[str, Any]:
        """Without the model: a worker loads its own."""
        return {name: value for name, value in self.__dict__.items() if name != "_model"}


def row_ptm(logits: Any, row: int, length: int, bins: int) -> float:
    """One sequence's pTM from a batch's logits (rows, L, L, bins); `output.ptm` is the largest of the batch."""
    from transformers.models.esm.openfold_utils import compute_tm

    return float(compute_tm(logits[row : row + 1, :length, :length], max_bin=31, no_bins=bins))


def is_sequence(text: str) -> bool:
    """Whether it is a sequence of residues that ESMFold takes."""
    return 0 < len(text) <= LONGEST and TAKEN.issuperset(text)


def chunk_for(length: int) -> int | None:
    """How many rows of the attention over pairs are computed at once; None: all."""
    return next((chunk for longest, chunk in CHUNKED if length <= longest), CHUNKED[-1][1])


def operations(length: int) -> float:
    """TFLOP of folding one sequence."""
    return sum(factor * (length / 1000) ** power for power, factor in enumerate(TFLOP, 1))


def _random_sequences(length: int, count: int) -> list[str]:
    rng = np.random.default_rng(0)
    return ["".join(rng.choice(list("ACDEFGHIKLMNPQRSTVWY"), length)) for _ in range(count)]


def _sizes(config: Mapping[str, Any]) -> dict[str, int]:
    blocks = config["esmfold_config"]["trunk"]["num_blocks"]
    return {name: config[name] for name in ("hidden_size", "num_hidden_layers")} | {"num_blocks": blocks}
