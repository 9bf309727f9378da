"""Vectors of molecules: Morgan fingerprints as RDKit has them, and its descriptors, standardised."""

from __future__ import annotations

import numpy as np
import pytest
from support.refusals import refusal_of

from harness import Problem
from harness_plugins.embedders.molecules import Descriptors, Morgan

Chem = pytest.importorskip("rdkit.Chem", reason="needs rdkit, the extra chem")

PROBLEM = Problem("assay", "")
SMILES = ["CCO", "c1ccccc1O", "OCC", "CC(=O)Nc1ccc(O)cc1", "[Na+].[Cl-]", "C[C@H](N)C(=O)O"]


def fingerprints(count: bool, **options: int) -> np.ndarray:
    """What RDKit itself gives, (n, bits)."""
    from rdkit.Chem import rdFingerprintGenerator

    makes = rdFingerprintGenerator.GetMorganGenerator(**options)
    molecules = map(Chem.MolFromSmiles, SMILES)
    return np.stack(
        [(makes.GetCountFingerprintAsNumPy if count else makes.GetFingerprintAsNumPy)(m) for m in molecules]
    )


@pytest.mark.parametrize(("radius", "bits"), [(2, 1024), (0, 7), (3, 64)])
@pytest.mark.parametrize("counts", [False, True])
def test_morgan_has_the_bits_and_counts_of_rdkit(radius, bits, counts):
    vectors = Morgan(radius=radius, bits=bits, counts=counts).embed(PROBLEM, SMILES)
    assert (vectors.shape, vectors.dtype) == ((6, bits), np.float32)
    assert np.array_equal(vectors.toarray(), fingerprints(counts, radius=radius, fpSize=bits))
    assert np.array_equal(vectors.toarray()[0], vectors.toarray()[2])  # one molecule, written in two ways


@pytest.mark.parametrize("embedder", [Morgan(), Descriptors()])
def test_smiles_that_rdkit_cannot_read_are_counted_and_the_first_named_in_one_line(embedder, capfd):
    line = refusal_of(embedder.embed, PROBLEM, ["CCO", "C(", "", "CCN", "c1cc", "x"])
    name = "morgan" if isinstance(embedder, Morgan) else "rdkit-descriptors"
    assert line == (
        f"{name}, problem 'assay': RDKit cannot read 4 of 6 molecules: response 1 ('C('), response 2, response 4 "
        "('c1cc'), ...: --skip-unreadable leaves them out of a --pool"
    )
    assert capfd.readouterr() == ("", "")  # RDKit's own lines


def test_options_that_morgan_cannot_have_are_refused():
    assert refusal_of(Morgan, bits=0) == "morgan: bits must be from 1 to 1,048,576, got 0"
    assert refusal_of(Morgan, radius=-1) == "morgan: radius must be from 0 to 1,048,576, got -1"


def test_descriptors_are_standardised_and_none_is_all():
    huge = "C" * 300  # its Ipc is beyond 1e60
    vectors = Descriptors().embed(PROBLEM, [*SMILES, huge] * 5)
    assert vectors.dtype == np.float32
    assert 100 < vectors.shape[1] < 217  # what is the same for all says nothing
    assert np.abs(vectors).max() <= 5
    assert vectors.mean(axis=0) == pytest.approx(0, abs=0.2)
    assert (vectors.std(axis=0) > 0.5).all()
    shares = np.square(vectors).sum(axis=0) / np.square(vectors).sum()
    assert shares.max() < 0.02
    assert Descriptors().embed(PROBLEM, ["CCO", "OCC"]).tolist() == [[0.0], [0.0]]
