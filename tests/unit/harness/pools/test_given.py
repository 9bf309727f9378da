"""Vectors of your own: arrays by name from .npz, .safetensors, .npy, .csv and .parquet, checked before their use."""

import io
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
from safetensors.numpy import save_file
from support.refusals import refusal_of, wrongly_refused

from harness.pools.given import GivenVectors, is_table

VECTORS = {"a": np.arange(12, dtype=np.float32).reshape(4, 3), "b": np.ones((2, 5), np.float64)}
LISTS = {name: array.tolist() for name, array in VECTORS.items()}
H = np.arange(12, dtype=np.float64).reshape(6, 2)


WRITERS = {
    ".npz": lambda path, content: np.savez(path, **content),
    ".safetensors": lambda path, content: save_file(content, path),
    ".parquet": lambda path, content: pq.write_table(pa.table(content), path),
    ".npy": np.save,
    ".csv": lambda path, rows: path.write_text("".join(",".join(map(str, row)) + "\n" for row in rows)),
}


@pytest.fixture
def saved(tmp_path, written):
    """Write a file of vectors: by its suffix arrays by name, one array, rows of numbers, text or bytes; its path."""

    def call(name, content):
        if isinstance(content, str | bytes):
            return written(content, name)
        WRITERS[f".{name.partition('.')[2]}"](tmp_path / name, content)
        return tmp_path / name

    return call


def test_both_kinds_of_archives_give_the_same_float32_arrays(saved):
    for name in ("v.npz", "v.safetensors"):
        given = GivenVectors(saved(name, VECTORS), {"problem": "a"})
        assert [*given.names] == ["a", "b"]
        assert {key: given.get(key, len(array)).tolist() for key, array in VECTORS.items()} == LISTS
        assert given.get("problem", 4).dtype == np.float32  # by the name of the problem's line


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr"])
def test_a_sparse_matrix_of_scipy_is_that_of_the_only_problem(tmp_path, kind):
    matrix = scipy.sparse.random(6, 9, 0.3, rng=1, dtype=np.float64)
    scipy.sparse.save_npz(tmp_path / "bits.npz", matrix.asformat(kind))
    given = GivenVectors(tmp_path / "bits.npz", {"assay": "assay"})
    vectors = given.get("assay", 6)
    assert (list(given.names), scipy.sparse.issparse(vectors), vectors.dtype) == (["bits"], True, np.float32)
    assert np.array_equal(vectors.toarray(), matrix.toarray().astype(np.float32))


def sparse(**changes):
    """The parts of a sparse matrix, some of which do not fit to the others."""
    scipy.sparse.save_npz(file := io.BytesIO(), scipy.sparse.csr_matrix(np.eye(4)))
    file.seek(0)
    return dict(np.load(file)) | changes


def npy(shape):
    """A .npy file with this shape in its header, and data for (3, 4) at most."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n"
    return b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header.encode() + b"\0" * 48


def zipped(content):
    with zipfile.ZipFile(file := io.BytesIO(), "w") as archive:
        archive.writestr("v.npy", content)
    return file.getvalue()


np.savez(_file := io.BytesIO(), v=np.ones((4, 3)))
WHOLE = _file.getvalue()
WRONG = [
    ("v.npz", {"b": np.zeros((4, 2))}, "'v' is not in the file (1 other ids are: 'b')"),
    ("v.npz", {"v": np.zeros((5, 2))}, "'v' has shape (5, 2), expected (4, d): one row a response"),
    ("v.npz", {"v": np.full((4, 2), np.nan)}, "finite numbers up to 1e+15, got nan in 4 of 4 rows, row 0 the first"),
    ("v.npz", {"v": np.zeros((4, 2), np.complex64)}, "'v' must hold numbers, got complex64; save them as float32"),
    ("v.npz", {"v": np.array([[{}]] * 4)}, "'v' cannot be read"),
    ("v.safetensors", {"v": np.zeros((4, 2), np.int32)}, "'v' must hold numbers, got I32; save them as float32"),
    ("v.npz", WHOLE[:140] + b"\xff" + WHOLE[141:], "'v' cannot be read"),
    ("v.npz", zipped(npy("(3, 3)")), "it goes on after the array of shape (3, 3) that its header declares"),
    ("v.npz", zipped(npy("(4, 6000000000000)")), "'v' cannot be read (Unable to allocate"),
    ("v.safetensors", b"\xff" * 40, "v.safetensors cannot be read"),
    ("v.txt", b"1,2", "must be .npz or .safetensors"),
    ("v.npz", sparse(indices=np.arange(4) + 1), "cannot be read (indices must be < 4"),
    ("v.npz", sparse(shape=np.array([4, 2**40])), "would take 4.4e+03 GB of memory"),
    ("v.npz", sparse(format=np.array(b"dia")), "a sparse matrix of the format 'dia'; those known are csr, csc, bsr"),
    ("v.npz", VECTORS | {"names": np.array(["x"])}, "'names' holds names, and the file has 2 arrays: write names for"),
    ("v.npz", {"a": np.arange(3), "b": np.arange(4)}, "cannot be read (all input arrays must have the same shape)"),
    ("v.csv", "m1,1,2\nm2,3,4\n", "error to double: invalid value 'm2'; only problem_id, name and id may be text"),
    ("v.csv", "a,b\n1,2\n1,\n1,2\n1,2\n", "got nan in 1 of 4 rows, row 1 the first"),
    ("v.csv", ",a,b\n0,1,2\n", "a column has no name, as the index has that pandas writes: save it with index=False"),
    ("v.csv", "id,problem_id\nx,y\n", "it needs numbers in columns, or all in one column of lists, got id, problem_id"),
    ("v.csv", "problem_id,a\n,2\n", "row 0: its problem_id is blank"),
    ("v.parquet", {"a": [[1.0], [2.0, 3.0]]}, "cannot be read (all input arrays must have the same shape)"),
    ("v.npy", np.array([[{}], [{}]]), "cannot be read (Object arrays cannot be loaded"),
    ("v.npy", npy("(3, 4)")[:-1], "cannot be read"),
]


def test_a_wrong_or_broken_file_is_refused_in_one_line_that_names_it(saved, tmp_path):
    def read(case):
        return GivenVectors(saved(*case)).get("v", 4)

    assert not wrongly_refused([((name, content), words) for name, content, words in WRONG], read)
    assert not wrongly_refused([((name, content), str(tmp_path / name)) for name, content, _ in WRONG], read)
    assert refusal_of(GivenVectors, tmp_path / "absent.npz").endswith("absent.npz: no such file")
    assert GivenVectors(saved("v.npz", {"v": np.full((4, 3), 1e15)})).get("v", 4)[0, 0] == np.float32(1e15)


def test_vectors_take_no_more_memory_than_is_allowed(saved):
    v = np.ones((100, 20), np.float32)
    files = [saved("v.npz", {"v": v}), saved("v.safetensors", {"v": v}), saved("v.csv", v.tolist())]
    for path in [*files, saved("v.parquet", {"a": v.tolist()})]:  # a few bytes, 16 kB in memory
        assert GivenVectors(path, max_gb=2e-5).get("v", 100).shape == (100, 20)
        line = refusal_of(lambda path=path: GivenVectors(path, max_gb=2e-6).get("v", 100))
        assert "GB of memory, more than --max-vectors-gb 2e-06 allows" in line


def test_an_npz_may_name_its_rows(saved):
    names = ["CHEMBL25", "CHEMBL3", "", "=x"]
    given = GivenVectors(saved("plate.npz", {"plate": VECTORS["a"], "names": np.array(names)}))
    assert ([*given.names], given.row_names("plate")) == (["plate"], names)
    both = VECTORS | {"a.names": np.array(names), "b.names": np.array(["x", "y"])}
    given = GivenVectors(saved("plate.npz", both))
    assert ([*given.names], given.row_names("a"), given.row_names("b")) == (["a", "b"], names, ["x", "y"])
    given = GivenVectors(saved("plate.npz", {"names": VECTORS["a"]}))  # of numbers: an array like any other
    assert given.get("names").tolist() == LISTS["a"]
    given = GivenVectors(saved("plate.npz", {"CHEMBL25": np.arange(2), "CHEMBL3": np.ones(2)}))  # a row each
    assert (given.row_names("plate"), given.get("plate", 2).tolist()) == (["CHEMBL25", "CHEMBL3"], [[0, 1], [1, 1]])


def test_each_form_of_table_gives_the_same_array_under_the_files_name(saved, tmp_path):
    names = [f"mol{row}" for row in range(6)]
    files = [
        saved("h.npy", H),
        saved("plain.csv", H),
        saved("columns.parquet", {"a": H[:, 0], "b": pa.array(H[:, 1].astype(int))}),
        saved("header.csv", [["id", "a", "b"], *([name, *row] for name, row in zip(names, H, strict=True))]),
        saved("lists.parquet", {"id": names, "v": H.tolist()}),
    ]
    for path in files:
        given = GivenVectors(path)
        assert list(given.names) == [path.stem]
        assert (given.get(path.stem, 6).dtype, given.get(path.stem).tolist()) == (np.float32, H.tolist())
        assert list(filter(None, given.row_names(path.stem))) == (names if path in files[3:] else [])
        assert (GivenVectors(path, {"lead-0": "line-1"}).get("lead-0", 6) == H).all()  # of a pool's only problem
        assert "is not in the file" in refusal_of(GivenVectors(path, {"lead-0": "a", "lead-1": "b"}).get, "lead-0", 6)
    texts = saved("designs.csv", [["name", "sequence", "ptm"], ["a", "MKT", 0.5]])
    pool = saved("pool.parquet", {"doc": ["x"], "a": [1.0]})
    assert [path for path in [*files, texts, pool, tmp_path / "absent.csv"] if is_table(path)] == files[1:]


def test_problem_id_parts_the_rows_in_their_order(saved):
    rows = [["problem_id", "a", "b"], *([f"p{place % 2}", *row] for place, row in enumerate(H))]
    parquet = saved("v.parquet", {"problem_id": [0, 1] * 3, "a": H[:, 0], "b": H[:, 1]})
    for path, ids in ((saved("v.csv", rows), ["p0", "p1"]), (parquet, ["0", "1"])):
        given = GivenVectors(path)
        assert list(given.names) == ids
        assert [given.get(name, 3).tolist() for name in ids] == [H[::2].tolist(), H[1::2].tolist()]
        assert "is not in the file" in refusal_of(GivenVectors(path, {"x": "x"}).get, "x", 3)
