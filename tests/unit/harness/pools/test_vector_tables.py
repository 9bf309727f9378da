"""Vectors from .npy, .csv and .parquet: the arrays, their problems and names, and what is refused."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.refusals import refusal_of, wrongly_refused

from harness.pools.given import GivenVectors, is_table

H = np.arange(12, dtype=np.float64).reshape(6, 2)


def csv_file(path, header="", rows=H, before=lambda row: ""):
    lines = [f"{before(row)}{','.join(map(str, values))}" for row, values in enumerate(rows)]
    path.write_text("\n".join([*filter(None, [header]), *lines]) + "\n")
    return path


def parquet_file(path, **columns):
    pq.write_table(pa.table(columns), path)
    return path


@pytest.fixture
def files(tmp_path):
    """The same array in each form of file."""
    np.save(tmp_path / "h.npy", H)
    plain = csv_file(tmp_path / "plain.csv")
    header = csv_file(tmp_path / "header.csv", "id,a,b", before=lambda row: f"mol{row},")
    columns = parquet_file(tmp_path / "columns.parquet", a=H[:, 0], b=pa.array(H[:, 1].astype(int)))
    lists = parquet_file(tmp_path / "lists.parquet", id=[f"mol{row}" for row in range(6)], v=[list(row) for row in H])
    return [tmp_path / "h.npy", plain, header, columns, lists]


def test_each_form_of_file_gives_the_same_array_under_the_files_name(files):
    for path in files:
        given = GivenVectors(path)
        assert list(given.names) == [path.stem]
        assert (given.get(path.stem, 6) == H).all()
        assert given.get(path.stem).dtype == np.float32
    named = {path.name: [*filter(None, GivenVectors(path).row_names(path.stem))] for path in files}
    names = [f"mol{row}" for row in range(6)]
    assert {name: rows for name, rows in named.items() if rows} == {"header.csv": names, "lists.parquet": names}


def test_an_array_without_an_id_is_that_of_a_pools_only_problem(files):
    for path in files:
        assert (GivenVectors(path, {"lead-0": "line-1"}).get("lead-0", 6) == H).all()
        assert "is not in the file" in refusal_of(GivenVectors(path, {"lead-0": "a", "lead-1": "b"}).get, "lead-0", 6)


def test_problem_id_parts_the_rows_in_their_order(tmp_path):
    table = csv_file(tmp_path / "v.csv", "problem_id,a,b", before=lambda row: f"p{row % 2},")
    parquet = parquet_file(tmp_path / "v.parquet", problem_id=[0, 1] * 3, a=H[:, 0], b=H[:, 1])
    for path, ids in ((table, ["p0", "p1"]), (parquet, ["0", "1"])):
        given = GivenVectors(path)
        assert list(given.names) == ids
        assert [given.get(name, 3).tolist() for name in ids] == [H[::2].tolist(), H[1::2].tolist()]
        assert "is not in the file" in refusal_of(GivenVectors(path, {"x": "x"}).get, "x", 3)


def test_a_broken_or_wrong_table_is_refused_in_one_line(tmp_path):
    faults = [
        (
            "m1,1,2\nm2,3,4\n",
            "Row #2: CSV conversion error to double: invalid value 'm2'; only problem_id, name and id may be",
        ),
        ("a,b\n1,2\n3\n", "cannot be read (CSV parse error: Row #3: Expected 2 columns, got 1: 3"),
        ("a,b\n1,2\n1,\n", "got nan in 1 of 2 rows, row 1 the first"),
        ("problem_id;a;b\nx;1;2\n", "error to double: invalid value 'x;1;2'; only problem_id, name and id may be text"),
        (",a,b\n0,1,2\n", "a column has no name, as the index has that pandas writes: save it with index=False"),
        ("a,a\n1,2\n", "cannot be read ('Field \"a\" exists 2 times in schema')"),
        ("id,problem_id\nx,y\n", "it needs numbers in columns, or all in one column of lists, got id, problem_id"),
        ("problem_id,a\n,2\n", "row 0: its problem_id is blank"),
        ("1,2\nnan,3\n", "'v' must hold finite numbers"),
        ("1,2\n1e300,3\n", "'v' must hold finite numbers up to 1e+15, got 1e+300"),
        ('1,2\n"' + "9" * 200_000, "cannot be read (CSV parse error: Row #2: Expected 2 columns, got 1"),
        ("\udcff".encode("utf-8", "surrogateescape"), "not UTF-8 text"),
        ({"a": ["x", "y"]}, "could not convert string to float: 'x'"),
        (
            {"a": [[1.0], [2.0]], "b": [1.0, 2.0]},
            "cannot be read (setting an array element with a sequence",
        ),
        ({"a": [[1.0], [2.0, 3.0]]}, "cannot be read (all input arrays must have the same shape)"),
        ({"a": [1.0, None]}, "got nan in 1 of 2 rows, row 1 the first"),
        ({"a": [[1.0], [None]]}, "got nan in 1 of 2 rows, row 1 the first"),
        ({"a": [[1.0], None]}, "cannot be read (all input arrays must have the same shape)"),
        ({"id": ["x"]}, "it needs numbers in columns"),
    ]

    def read(content):
        path = tmp_path / ("v.parquet" if isinstance(content, dict) else "v.csv")
        if isinstance(content, dict):
            parquet_file(path, **content)
        else:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return GivenVectors(path).get("v", 2)

    assert not wrongly_refused(faults, read)
    (tmp_path / "w.parquet").write_bytes(b"PAR1 and no more PAR1")
    assert "w.parquet cannot be read" in refusal_of(GivenVectors, tmp_path / "w.parquet")


def test_a_broken_npy_file_is_refused_before_memory_is_taken(tmp_path):
    path = tmp_path / "v.npy"

    def read(array):
        if isinstance(array, bytes):
            path.write_bytes(array)
        else:
            np.save(path, array)
        return GivenVectors(path, max_gb=1e-6).get("v", 2)

    np.save(path, np.zeros((2, 3)))
    whole = path.read_bytes()
    faults = [
        (whole[:-1], "v.npy: 'v' cannot be read ("),
        (whole.replace(b"(2, 3)", b"(2, 9)"), "v.npy: 'v' cannot be read ("),
        (np.array([[{}], [{}]]), "cannot be read (Object arrays cannot be loaded"),
        (np.zeros((2, 3, 4)), "has shape (2, 3, 4), expected (2, d): one row a response"),
        (np.zeros((2, 300)), "would take 4.93e-06 GB of memory, more than --max-vectors-gb 1e-06 allows"),
        (b"no array", "cannot be read"),
    ]
    assert not wrongly_refused(faults, read)


def test_a_table_takes_no_more_memory_than_is_allowed(tmp_path):
    csv_file(tmp_path / "v.csv", rows=np.zeros((100, 20)))
    parquet_file(tmp_path / "v.parquet", a=[[0.0] * 20] * 100)  # a few bytes, 16 kB in memory
    for path in (tmp_path / "v.csv", tmp_path / "v.parquet"):
        assert GivenVectors(path, max_gb=2e-5).get("v", 100).shape == (100, 20)
        assert "more than --max-vectors-gb 1e-05 allows" in refusal_of(GivenVectors, path, max_gb=1e-5)


def test_a_table_of_texts_is_no_table_of_vectors(files, tmp_path):
    texts = csv_file(tmp_path / "designs.csv", "name,sequence,ptm", [["a", "MKT", 0.5]])
    pool = parquet_file(tmp_path / "pool.parquet", doc=["x"], a=[1.0])
    assert [path.name for path in [*files, texts, pool, tmp_path / "absent.csv"] if is_table(path)] == [
        path.name for path in files[1:]
    ]
