"""Embedders `morgan` and `rdkit-descriptors`: vectors of molecules, whose texts are SMILES, by RDKit.

A Morgan bit (Rogers & Hahn, "Extended-connectivity fingerprints", 2010) says that a molecule holds one of the
environments that are folded to it: an atom with all that lies within some bonds of it. Tanimoto similarity counts such
bits, so these vectors are never projected.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

from harness import HarnessError, Problem, hookimpl
from harness.hookspecs import Register

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

KEPT = 2**17  # molecules whose features stay in memory: the assays of a screen share theirs
LISTED = 3  # unreadable SMILES that a message shows
HUGE = 1e5  # a descriptor that goes beyond this is replaced by its logarithm: in practice Ipc, which reaches 1e200
MOST = 5.0  # standard deviations from the mean


@hookimpl
def register_embedders(register: Register) -> None:
    """Register both."""
    register("morgan", "harness_plugins.embedders.molecules:Morgan")
    register("rdkit-descriptors", "harness_plugins.embedders.molecules:Descriptors")


@dataclass(frozen=True)
class Morgan:
    """Morgan fingerprints of molecules (SMILES), 0 and 1; never projected, whatever `--dim` is.

    radius  environments reach so many bonds from their atom; 2 is called ECFP4
    bits    the vectors' width
    counts  how often a molecule holds the environments of each bit, in place of 1
    """

    state: ClassVar[None] = None
    libraries: ClassVar[Sequence[str]] = ("rdkit",)

    radius: int = 2
    bits: int = 1024
    counts: bool = False

    def __post_init__(self) -> None:
        for name, value, least in (("radius", self.radius, 0), ("bits", self.bits, 1)):
            if not least <= value <= 2**20:
                raise HarnessError(f"morgan: {name} must be from {least} to {2**20:,}, got {value}")

    @property
    def width(self) -> int:
        return self.bits

    def embed(self, problem: Problem, texts: Sequence[str]) -> Any:
        """Return (n, bits), a scipy-sparse matrix of float32; HarnessError for SMILES that RDKit cannot read."""
        import numpy as np
        from scipy.sparse import csr_matrix

        rows = _each(f"morgan, problem {problem.id!r}", texts, lambda text: _environments(text, self))
        ends = np.cumsum([0, *(row.shape[1] for row in rows)])
        columns, values = np.concatenate([np.zeros((2, 0), np.int32), *rows], axis=1)
        return csr_matrix((values.astype(np.float32), columns, ends), shape=(len(texts), self.bits))


@dataclass(frozen=True)
class Descriptors:
    """RDKit's 2D descriptors of molecules (SMILES), 217 in 2026.9, standardised over a problem's molecules.

    Each has mean 0 and standard deviation 1, and no value is more than 5 from 0, so that no descriptor is all. Those
    beyond 100,000 are taken by their logarithm first; what RDKit cannot compute is the mean; what is the same for all
    molecules is left out. About 10 ms a molecule.
    """

    state: ClassVar[None] = None
    libraries: ClassVar[Sequence[str]] = ("rdkit",)

    def embed(self, problem: Problem, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return (n, d) float32, d at least 1; HarnessError for SMILES that RDKit cannot read."""
        import numpy as np

        values = np.stack(_each(f"rdkit-descriptors, problem {problem.id!r}", texts, _descriptors))
        values[~np.isfinite(values)] = np.nan
        known = ~np.isnan(values)
        huge = (np.abs(values, where=known, out=np.zeros_like(values)) > HUGE).any(axis=0)
        values[:, huge] = np.arcsinh(values[:, huge])
        counts = np.maximum(known.sum(axis=0), 1)
        values = np.where(known, values - np.sum(values, axis=0, where=known) / counts, 0.0)
        deviations = np.sqrt(np.square(values).mean(axis=0))
        varies = deviations > 1e-9
        if not varies.any():
            return np.zeros((len(texts), 1), np.float32)
        return np.clip(values[:, varies] / deviations[varies], -MOST, MOST).astype(np.float32)


def unreadable(where: str, places: Sequence[tuple[str, str]], total: int) -> str:
    """One line that names and counts the SMILES that RDKit cannot read, each with its place; `total`: of how many."""
    shown = ", ".join(f"{place} ({smiles!r:.40})" if smiles else place for place, smiles in places[:LISTED])
    more = ", ..." if len(places) > LISTED else ""
    return f"{where}: RDKit cannot read {len(places):,} of {total:,} molecules: {shown}{more}"


@lru_cache(KEPT)
def is_readable(smiles: str) -> bool:
    """Whether RDKit makes a molecule with at least one atom of a SMILES."""
    return molecule(smiles) is not None


def molecule(smiles: str) -> Any:
    """RDKit's molecule; None if it cannot make one, of which it says nothing here, or if it has no atom."""
    from rdkit import Chem, rdBase

    with rdBase.BlockLogs():
        made = Chem.MolFromSmiles(smiles)
    return made if made is not None and made.GetNumAtoms() else None


def _each(where: str, texts: Sequence[str], features: Callable[[str], Any]) -> list[Any]:
    """The features of each text; HarnessError, one line, if some have none."""
    rows = [features(text) for text in texts]
    lacking = [(f"response {place}", texts[place]) for place, row in enumerate(rows) if row is None]
    if lacking:
        raise HarnessError(unreadable(where, lacking, len(texts)) + ": --skip-unreadable leaves them out of a --pool")
    return rows


@lru_cache(KEPT)
def _environments(smiles: str, morgan: Morgan) -> NDArray[np.int32] | None:
    """The bits that a molecule sets, ascending, and their values: (2, m); None if it cannot be read."""
    import numpy as np

    if (made := molecule(smiles)) is None:
        return None
    counts = sorted(_generator(morgan.radius, morgan.bits).GetCountFingerprint(made).GetNonzeroElements().items())
    pairs = np.array(counts, np.int32).reshape(-1, 2).T
    if not morgan.counts:
        pairs[1] = 1
    return pairs


@lru_cache(KEPT)
def _descriptors(smiles: str) -> NDArray[np.float64] | None:
    """All descriptors of a molecule, (217,), NaN where RDKit fails; None if it cannot be read."""
    import numpy as np
    from rdkit import rdBase
    from rdkit.Chem import Descriptors as rdkit_descriptors

    if (made := molecule(smiles)) is None:
        return None
    with rdBase.BlockLogs():
        calculate: Any = rdkit_descriptors.CalcMolDescriptors
        return np.array(list(calculate(made, missingVal=np.nan).values()), np.float64)


@cache
def _generator(radius: int, bits: int) -> Any:
    from rdkit.Chem import rdFingerprintGenerator

    return rdFingerprintGenerator.GetMorganGenerator(radius=radius, fpSize=bits)
