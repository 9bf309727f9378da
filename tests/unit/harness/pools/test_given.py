"""Vectors of your own: arrays by name from .npz, .safetensors, .npy, .csv and .parquet, checked before their use."""

import io
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
from safetensors.numpy import save_file
from support.refusals import refusal_of, wrongly_refused

from harness.pools.given import GivenVectors, is_table

VECTORS = {"a": np.arange(12, dtype=np.float32).reshape(4, 3), "b": np.ones((2, 5), np.float64)}
H = np.arange(12, dtype=np.float64).reshape(6, 2)


def saved(path, **arrays):
    np.savez(path, **arrays)
    return path


def npy(header):
    """A .npy file with this header."""
    return b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header.encode() + b"\0" * 48


def csv_file(path, header="", rows=H, before=lambda row: ""):
    lines = [f"{before(row)}{','.join(map(str, values))}" for row, values in enumerate(rows)]
    path.write_text("\n".join([*filter(None, [header]), *lines]) + "\n")
    return path


def parquet_file(path, **columns):
    pq.write_table(pa.table(columns), path)
    return path


def test_both_kinds_of_archives_give_the_same_float32_arrays(tmp_path):
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
        ({"indptr": parts["indptr"][::-1]}, "cannot be read (index pointer should start with 0"),
        ({"shape": np.array([4, 2**40])}, "would take 4.4e+03 GB of memory"),
        ({"format": np.array(b"dia")}, "a sparse matrix of the format 'dia'; those known are csr, csc, bsr, coo"),
        ({"data": parts["data"] * np.nan}, "must hold finite numbers"),
    ]
    get = lambda change: GivenVectors(saved(path, **parts | change)).get("bits")  # noqa: E731
    assert not wrongly_refused(faults, get)


WRONG_ARRAYS = [
    ({"b": np.zeros((4, 2))}, "'a' is not in the file (1 other ids are: 'b')"),
    ({"a": np.zeros((5, 2))}, "'a' has shape (5, 2), expected (4, d): one row a response"),
    ({"a": np.full((4, 2), np.nan)}, "'a' must hold finite numbers up to 1e+15, got nan in 4 of 4 rows, row 0"),
    ({"a": np.zeros((4, 2), np.complex64)}, "'a' must hold numbers, got complex64; save them as float32"),
    ({"a": np.array([[{}]] * 4)}, "'a' cannot be read"),
    ({"a": np.full((4, 3), 1e300)}, "'a' must hold finite numbers up to 1e+15, got 1e+300 in 4 of 4 rows, row 0"),
]


def test_wrong_arrays_are_refused_with_file_and_name(tmp_path):
    path = tmp_path / "mine.npz"
    faults = [(arrays, f"embeddings {path}: {words}") for arrays, words in WRONG_ARRAYS]
    assert not wrongly_refused(faults, lambda arrays: GivenVectors(saved(path, **arrays)).get("a", 4))
    assert GivenVectors(saved(path, a=np.full((4, 3), 1e15))).get("a", 4)[0, 0] == np.float32(1e15)
    words = "has shape (), expected (n, d): one row a response"
    assert refusal_of(GivenVectors(saved(path, a=np.float64(3))).get, "a").endswith(words)
    save_file({"a": np.zeros((4, 2), np.int32)}, tmp_path / "mine.safetensors")
    line = refusal_of(GivenVectors(tmp_path / "mine.safetensors").get, "a", 4)
    assert line.endswith("mine.safetensors: 'a' must hold numbers, got I32; save them as float32")


def test_a_file_of_another_kind_or_a_broken_one_is_refused(tmp_path):
    whole = saved(tmp_path / "v.npz", a=np.ones((4, 3))).read_bytes()
    flags, sink = whole.index(b"PK\x01\x02"), io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        for name, shape in (("a", (3, 3)), ("b", (-4, 3)), ("c", (4, 6000000000000))):
            archive.writestr(f"{name}.npy", npy(f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n"))
    faults = [
        (("v.npz", npy("")), "cannot be read (File is not a zip file)"),
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


def test_vectors_take_no_more_memory_than_is_allowed(tmp_path):
    vectors = {"v": np.ones((100, 20), np.float32)}
    save_file(vectors, tmp_path / "v.safetensors")
    csv_file(tmp_path / "v.csv", rows=vectors["v"])
    parquet_file(tmp_path / "v.parquet", a=[[0.0] * 20] * 100)  # a few bytes, 16 kB in memory
    saved(tmp_path / "v.npz", **vectors)
    for kind in ("safetensors", "csv", "parquet", "npz"):
        path = tmp_path / f"v.{kind}"
        assert GivenVectors(path, max_gb=2e-5).get("v", 100).shape == (100, 20)
        line = refusal_of(lambda path=path: GivenVectors(path, max_gb=2e-6).get("v", 100))
        assert "GB of memory, more than --max-vectors-gb 2e-06 allows" in line


def test_an_npz_may_name_its_rows_and_names_that_name_nothing_are_refused(tmp_path):
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
    faults = [
        ({**VECTORS, "names": np.array(["x"])}, "'names' holds names, and the file has 2 arrays: write names for that"),
        ({**VECTORS, "c.names": np.array(["x"])}, "'c.names' holds names, and the file has 2 arrays"),
        ({"a": VECTORS["a"], "names": np.array(["x", None])}, "'names' must hold texts: save np.array(names, str)"),
        ({"a": np.arange(3), "b": np.arange(4)}, "cannot be read (all input arrays must have the same shape)"),
    ]
    assert not wrongly_refused(faults, lambda arrays: GivenVectors(saved(path, **arrays)).get("plate"))


# Tables.


def test_each_form_of_table_gives_the_same_array_under_the_files_name(tmp_path):
    names = [f"mol{row}" for row in range(6)]
    np.save(tmp_path / "h.npy", H)
    files = [
        tmp_path / "h.npy",
        csv_file(tmp_path / "plain.csv"),
        csv_file(tmp_path / "header.csv", "id,a,b", before=lambda row: f"mol{row},"),
        parquet_file(tmp_path / "columns.parquet", a=H[:, 0], b=pa.array(H[:, 1].astype(int))),
        parquet_file(tmp_path / "lists.parquet", id=names, v=[list(row) for row in H]),
    ]
    for path in files:
        given = GivenVectors(path)
        assert list(given.names) == [path.stem]
        assert (given.get(path.stem, 6) == H).all()
        assert given.get(path.stem).dtype == np.float32
        has_names = path.name in ("header.csv", "lists.parquet")
        assert [name for name in given.row_names(path.stem) if name] == (names if has_names else [])
        assert (GivenVectors(path, {"lead-0": "line-1"}).get("lead-0", 6) == H).all()  # of a pool's only problem
        assert "is not in the file" in refusal_of(GivenVectors(path, {"lead-0": "a", "lead-1": "b"}).get, "lead-0", 6)
    texts = csv_file(tmp_path / "designs.csv", "name,sequence,ptm", [["a", "MKT", 0.5]])
    pool = parquet_file(tmp_path / "pool.parquet", doc=["x"], a=[1.0])
    assert [path for path in [*files, texts, pool, tmp_path / "absent.csv"] if is_table(path)] == files[1:]


def test_problem_id_parts_the_rows_in_their_order(tmp_path):
    table = csv_file(tmp_path / "v.csv", "problem_id,a,b", before=lambda row: f"p{row % 2},")
    parquet = parquet_file(tmp_path / "v.parquet", problem_id=[0, 1] * 3, a=H[:, 0], b=H[:, 1])
    for path, ids in ((table, ["p0", "p1"]), (parquet, ["0", "1"])):
        given = GivenVectors(path)
        assert list(given.names) == ids
        assert [given.get(name, 3).tolist() for name in ids] == [H[::2].tolist(), H[1::2].tolist()]
        assert "is not in the file" in refusal_of(GivenVectors(path, {"x": "x"}).get, "x", 3)


BROKEN_TABLES = [
    ("m1,1,2\nm2,3,4\n", "Row #2: CSV conversion error to double: invalid value 'm2'; only problem_id, name and id ma"),
    ("a,b\n1,2\n3\n", "cannot be read (CSV parse error: Row #3: Expected 2 columns, got 1: 3"),
    ("a,b\n1,2\n1,\n", "got nan in 1 of 2 rows, row 1 the first"),
    ("problem_id;a;b\nx;1;2\n", "error to double: invalid value 'x;1;2'; only problem_id, name and id may be text"),
    (",a,b\n0,1,2\n", "a column has no name, as the index has that pandas writes: save it with index=False"),
    ("id,problem_id\nx,y\n", "it needs numbers in columns, or all in one column of lists, got id, problem_id"),
    ("problem_id,a\n,2\n", "row 0: its problem_id is blank"),
    ('1,2\n"' + "9" * 200_000, "cannot be read (CSV parse error: Row #2: Expected 2 columns, got 1"),
    (b"\xff", "not UTF-8 text"),
    ({"a": ["x", "y"]}, "could not convert string to float: 'x'"),
    ({"a": [[1.0], [2.0]], "b": [1.0, 2.0]}, "cannot be read (setting an array element with a sequence"),
    ({"a": [[1.0], [2.0, 3.0]]}, "cannot be read (all input arrays must have the same shape)"),
    ({"a": [1.0, None]}, "got nan in 1 of 2 rows, row 1 the first"),
    (np.array([[{}], [{}]]), "cannot be read (Object arrays cannot be loaded"),
    (np.zeros((2, 3, 4)), "has shape (2, 3, 4), expected (2, d): one row a response"),
]


def test_a_broken_or_wrong_table_is_refused_in_one_line(tmp_path):
    def read(content):
        if isinstance(content, dict):
            path = parquet_file(tmp_path / "v.parquet", **content)
        elif isinstance(content, np.ndarray):
            np.save(path := tmp_path / "v.npy", content)
        else:
            path = tmp_path / "v.csv"
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return GivenVectors(path).get("v", 2)

    assert not wrongly_refused(BROKEN_TABLES, read)
    (tmp_path / "w.parquet").write_bytes(b"PAR1 and no more PAR1")
    assert "w.parquet cannot be read" in refusal_of(GivenVectors, tmp_path / "w.parquet")
    np.save(path := tmp_path / "h.npy", np.zeros((2, 3)))
    whole = path.read_bytes()
    for content in (whole[:-1], whole.replace(b"(2, 3)", b"(2, 9)"), b"no array"):
        path.write_bytes(content)
        assert "cannot be read" in refusal_of(lambda: GivenVectors(path, max_gb=1e-6).get("h", 2))
