"""Vectors of one's own: arrays by name from a file, each checked before it is used."""

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from safetensors.numpy import save_file
from support.refusals import refusal_of, wrongly_refused

from harness import HarnessError
from harness.pools.given import GivenVectors

VECTORS = {"a": np.arange(12, dtype=np.float32).reshape(4, 3), "b": np.ones((2, 5), np.float64)}


def saved(path, **arrays):
    np.savez(path, **arrays)
    return path


def npy(header, version=(1, 0)):
    """A .npy file with this header."""
    length = len(header).to_bytes(2 if version == (1, 0) else 4, "little")
    return b"\x93NUMPY" + bytes(version) + length + header.encode() + b"\0" * 48


def test_both_kinds_of_files_give_the_same_float32_arrays(tmp_path):
    save_file(VECTORS, tmp_path / "v.safetensors")
    saved(tmp_path / "v.npz", **VECTORS | {"b": np.asfortranarray(VECTORS["b"])})
    for kind in ("npz", "safetensors"):
        given = GivenVectors(tmp_path / f"v.{kind}", {"problem": "a"})
        assert list(given.names) == ["a", "b"]
        for name, array in VECTORS.items():
            assert given.get(name, len(array)).dtype == np.float32
            assert (given.get(name) == array).all()
        assert (given.get("problem", 4) == VECTORS["a"]).all()  # by the name of the problem's line


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr"])
def test_a_sparse_matrix_of_scipy_is_that_of_the_only_problem(tmp_path, kind):
    matrix = scipy.sparse.random(6, 9, 0.3, rng=1, dtype=np.float64)
    scipy.sparse.save_npz(tmp_path / "bits.npz", matrix.asformat(kind))
    given = GivenVectors(tmp_path / "bits.npz", {"assay": "assay"})
    assert list(given.names) == ["bits"]
    vectors = given.get("assay", 6)
    assert (scipy.sparse.issparse(vectors), vectors.dtype) == (True, np.float32)
    assert np.array_equal(vectors.toarray(), matrix.toarray().astype(np.float32))


def test_a_sparse_matrix_whose_parts_do_not_fit_together_is_refused(tmp_path):
    path = tmp_path / "bits.npz"
    scipy.sparse.save_npz(path, scipy.sparse.csr_matrix(np.eye(4)))
    with np.load(path) as file:
        parts = dict(file)
    faults = [
        ({"indices": parts["indices"] + 1}, "cannot be read (indices must be < 4"),
        ({"indices": parts["indices"] - 1}, "cannot be read (indices must be >= 0"),
        ({"indptr": parts["indptr"][::-1]}, "cannot be read (index pointer should start with 0"),
        ({"shape": np.array([4, 2**40])}, "would take 4.4e+03 GB of memory"),
        ({"shape": np.array([4])}, "cannot be read (not enough values"),
        ({"format": np.array(b"dia")}, "a sparse matrix of the format 'dia'; those known are csr, csc, bsr, coo"),
        ({"data": parts["data"] * np.nan}, "must hold finite numbers"),
        ({"data": parts["data"].astype(str)}, "must hold numbers"),
    ]
    get = lambda change: GivenVectors(saved(path, **parts | change)).get("bits")  # noqa: E731
    assert not wrongly_refused([(change, words) for change, words in faults], get)


def test_wrong_arrays_are_refused_with_file_and_name(tmp_path):
    faults = [
        ({"b": np.zeros((4, 2))}, "'a' is not in the file (1 other ids are: 'b')"),
        ({"a": np.zeros((5, 2))}, "'a' has shape (5, 2), expected (4, d): one row a response"),
        ({"a": np.zeros(4)}, "'a' has shape (4,), expected (4, d)"),
        (
            {"a": np.full((4, 2), np.nan)},
            "'a' must hold finite numbers up to 1e+15, got nan in 4 of 4 rows, row 0",
        ),
        ({"a": np.zeros((4, 2), np.complex64)}, "'a' must hold numbers, got complex64; save them as float32"),
        ({"a": np.full((4, 2), -(2**63))}, "'a' must hold finite numbers up to 1e+15, got 9.22e+18"),
        ({"a": np.array([[{}]] * 4)}, "'a' cannot be read"),
        ({"a": np.full((4, 3), 1e300)}, "'a' must hold finite numbers up to 1e+15, got 1e+300 in 4 of 4 rows, row 0"),
        ({"a": np.full((4, 3), -1.1e15)}, "'a' must hold finite numbers up to 1e+15, got 1.1e+15 in"),
    ]
    path = tmp_path / "mine.npz"
    assert not wrongly_refused(
        [(arrays, f"embeddings {path}: {words}") for arrays, words in faults],
        lambda arrays: GivenVectors(saved(path, **arrays)).get("a", 4),
    )
    assert GivenVectors(saved(path, a=np.full((4, 3), 1e15))).get("a", 4)[0, 0] == np.float32(1e15)
    assert refusal_of(GivenVectors(saved(path, a=np.float64(3))).get, "a").endswith(
        "has shape (), expected (n, d): one row a response"
    )
    assert GivenVectors(saved(path, a=np.full((4, 3), 2**24))).get("a", 4)[0, 0] == np.float32(2**24)
    save_file({"a": np.zeros((4, 2), np.int32)}, tmp_path / "mine.safetensors")
    with pytest.raises(HarnessError, match=r"mine\.safetensors: 'a' must hold numbers, got I32; save them as float32"):
        GivenVectors(tmp_path / "mine.safetensors").get("a", 4)


def test_a_file_of_another_kind_or_a_broken_one_is_refused(tmp_path):
    whole = saved(tmp_path / "v.npz", a=np.ones((4, 3))).read_bytes()
    flags, sink = whole.index(b"PK\x01\x02"), io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        archive.writestr("a.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 3), }\n"))
        archive.writestr("b.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-4, 3), }\n"))
        archive.writestr("c.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4, 6000000000000), }\n"))
    faults = [
        (("v.npz", npy("")), "cannot be read (File is not a zip file)"),
        (("v.npz", b""), "cannot be read (File is not a zip file)"),
        (("v.npz", b"PK\x03\x04 and no more"), "cannot be read (File is not a zip file)"),
        (("v.npz", whole[:-30]), "v.npz cannot be read"),
        (("v.npz", whole[:140] + b"\xff" + whole[141:]), "'a' cannot be read"),
        (("v.npz", whole[: flags + 8] + b"\1" + whole[flags + 9 :]), "is encrypted, password required"),
        (("v.npz", sink.getvalue()), "it goes on after the array of shape (3, 3) that its header declares"),
        (("b.npz", sink.getvalue()), "'b' cannot be read (negative dimensions are not allowed)"),
        (("c.npz", sink.getvalue()), "'c' cannot be read (Unable to allocate"),
        (("v.safetensors", b"\xff" * 40), "v.safetensors cannot be read"),
        (("v.txt", b"1,2"), "must be .npz or .safetensors"),
    ]

    def read(file):
        path = Path(tmp_path / file[0])
        path.write_bytes(file[1])
        return GivenVectors(path).get(path.stem.replace("v", "a"), 4)

    assert not wrongly_refused(faults, read)
    assert refusal_of(GivenVectors, tmp_path / "absent.npz").endswith("absent.npz: no such file")


def test_an_array_takes_no_more_memory_than_is_allowed(tmp_path):
    vectors = {"a": np.ones((1000, 300), np.float32)}
    save_file(vectors, tmp_path / "v.safetensors")
    for path in (saved(tmp_path / "v.npz", **vectors), tmp_path / "v.safetensors"):
        assert GivenVectors(path, max_gb=0.002).get("a", 1000).shape == (1000, 300)
        line = refusal_of(GivenVectors(path, max_gb=0.001).get, "a", 1000)
        assert "'a' would take 0.0012 GB of memory, more than --max-vectors-gb 0.001 allows" in line


def test_an_npz_may_name_its_rows(tmp_path):
    path, names = tmp_path / "plate.npz", ["CHEMBL25", "CHEMBL3", "", "=x"]
    given = GivenVectors(saved(path, plate=VECTORS["a"], names=np.array(names)))
    assert (list(given.names), given.row_names("plate")) == (["plate"], names)
    given = GivenVectors(saved(path, **VECTORS, **{"a.names": np.array(names), "b.names": np.array(["x", "y"])}))
    assert (list(given.names), given.row_names("a"), given.row_names("b")) == (["a", "b"], names, ["x", "y"])
    given = GivenVectors(saved(path, names=VECTORS["a"]))  # of numbers: an array like any other
    assert (given.get("names") == VECTORS["a"]).all()
    given = GivenVectors(saved(path, CHEMBL25=np.arange(3), CHEMBL3=np.arange(3.0) * 2))  # a row each
    assert given.row_names("plate") == ["CHEMBL25", "CHEMBL3"]
    assert given.get("plate", 2).tolist() == [[0, 1, 2], [0, 2, 4]]


def test_names_of_an_npz_that_name_nothing_are_refused(tmp_path):
    faults = [
        ({**VECTORS, "names": np.array(["x"])}, "'names' holds names, and the file has 2 arrays: write names for that"),
        ({**VECTORS, "c.names": np.array(["x"])}, "'c.names' holds names, and the file has 2 arrays"),
        ({"a": VECTORS["a"], "names": np.array(["x", None])}, "'names' must hold texts: save np.array(names, str)"),
        ({"a": np.arange(3), "b": np.arange(4)}, "cannot be read (all input arrays must have the same shape)"),
    ]
    path = tmp_path / "plate.npz"
    assert not wrongly_refused(faults, lambda arrays: GivenVectors(saved(path, **arrays)).get("plate"))
