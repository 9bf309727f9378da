"""Layouts that plugins register: which is asked when, what a broken one costs, and what stands in a pool's key."""

from textwrap import dedent

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpora.tool_lines import FILES, LINES
from support.pool_files import pool_refusal
from support.refusals import wrongly_refused

from harness.plugin_system.component import build
from harness.plugin_system.registry import Fault, Origin, load_registry
from harness.pools.reading import OWN, Layouts, pool_digest, read_pool
from harness.pools.record import FileLayout, LineLayout

PLUGIN = """
    import pyarrow.parquet as pq
    from harness import hookimpl
    from harness.pools.record import PoolRecord

    class Anything:
        name, keys = "anything", "whatever"
        def fits(self, value):
            {fits}
        def read(self, lines):
            {read}

    class Files:
        "A parquet table, and a folder of texts."
        name, holds = "mine", "parquet with a column `x`"
        {files}
        def fits(self, path):
            return path.is_dir() or (path.suffix == ".parquet" and pq.read_schema(path).names == ["x"])
        def read(self, path, say):
            say("pool: read as mine")
            folder = path.is_dir() and [file.read_text() for file in path.rglob("*.txt")]
            yield PoolRecord("p", folder or pq.read_table(path)["x"].to_pylist(), reference={{"a": 1}})

    @hookimpl
    def register_layouts(register):
        register("anything", {factory})
        register("mine", Files)
"""
EVERY = "yield PoolRecord('p', [str(line.value) for line in lines])"
NOTES = []


@pytest.fixture
def layouts(written):
    """The layouts of a registry with a plugin's; what they say is in `NOTES`."""
    NOTES.clear()

    def call(read=EVERY, fits="return True", factory="Anything", files=""):
        code = dedent(PLUGIN).format(read=read, fits=fits, factory=factory, files=files)
        return Layouts(load_registry([written(code, "anything.py")]), NOTES.append)

    return call


def test_of_the_built_in_layouts_exactly_one_fits_each_line_and_each_file(written):
    registry = load_registry()
    built = {r.name: build(registry, "layout", r.full_name) for r in registry.of_kind("layout")}
    of_lines = {"own": OWN} | {name: layout for name, layout in built.items() if isinstance(layout, LineLayout)}
    of_files = {name: layout for name, layout in built.items() if isinstance(layout, FileLayout)}
    assert set(of_lines) == set(LINES)
    for name, line in LINES.items():
        assert [other for other, layout in of_lines.items() if layout.fits(line)] == [name]
        assert not any(layout.fits(written([line])) for layout in of_files.values())
    paths = [written(content, name) for name, content in FILES.items()]
    paths[-1] = paths[-1].parents[1]
    matches = [[name for name, layout in of_files.items() if layout.fits(path)] for path in paths]
    expected = "lighteval inspect_ai inspect_ai sequences sequences molecules molecules evalplus-folders"
    assert matches == [[name] for name in expected.split()]


def test_another_tools_parquet_is_not_taken_for_lightevals_and_a_layout_of_folders_covers_every_file_below(
    tmp_path, written, layouts
):
    both, notes, table = layouts(fits="return False"), [], tmp_path / "pool.parquet"
    pq.write_table(pa.table({"x": ["a", "b"]}), table)
    (record,) = read_pool(table, notes.append, both)
    assert (record.responses, record.reference, notes) == (["a", "b"], "{'a': 1}", ["pool: read as mine"])
    pq.write_table(pa.table({"y": ["a", "b"]}), table)
    assert "its columns are y; of parquet files those of lighteval" in pool_refusal(table, both)
    assert "; parquet with a column `x`; " in pool_refusal(written([{"q": 1}]), both)
    for name in ("pool/a/1.txt", "pool/2.txt", "pool/b.md"):
        written(b"x", name)
    assert next(read_pool(tmp_path / "pool", layouts=both)).responses == ["x", "x"]
    only_one = layouts(files="files = lambda self, path: [path / 'b.md']")
    before = [pool_digest(tmp_path / "pool", layouts) for layouts in (both, only_one)]
    written(b"y", "pool/a/1.txt")
    now = [pool_digest(tmp_path / "pool", layouts) for layouts in (both, only_one)]
    assert [first == second for first, second in zip(before, now, strict=True)] == [False, True]


@pytest.mark.parametrize(
    ("factory", "reason"),
    [
        ('"no_such_package:Layout"', "failed to import: No module named 'no_such_package'"),
        ("lambda: 1 / 0", "cannot be built: raised ZeroDivisionError"),
        ("object", "it lacks name, fits, read, keys (of lines) or holds (of files)"),
    ],
)
def test_a_broken_layout_is_left_out_with_a_line(written, layouts, factory, reason):
    both = layouts(factory=factory)
    assert next(read_pool(written([LINES["own"]]), layouts=both)).problem_id == "a"
    assert not NOTES  # no other layout was asked
    assert next(read_pool(written([LINES["verl"]]), layouts=both)).responses == ["o"]
    (note,) = NOTES
    assert note.startswith("pool: layout 'anything' of anything is left out: ")
    assert reason in note


# The body of `read`
WRONG_READERS = [
    ("yield 1 / 0", "raised ZeroDivisionError: division by zero (anything.py:"),
    ("yield PoolRecord('p', ['x']); raise SystemExit(3)", "raised SystemExit: 3 (anything.py:"),
    ("return 3", "raised TypeError: 'int' object is not iterable"),
    ("yield 3", "must give PoolRecords, got 3"),
    ("yield PoolRecord('p', [])", "must give texts, and at least one response, got PoolRecord(problem_id='p'"),
    ("yield PoolRecord('p', ['x'], prompt=3)", "must give texts, and at least one response, got PoolRecord("),
    ("yield PoolRecord('p', ['x'], correct=[])", "must give columns as long as the responses (1)"),
]


def test_whatever_a_reader_does_wrong_is_one_line_with_layout_and_file(written, layouts):
    path = written([{"x": 1}])
    expected = [(read, f"pool {path}: layout 'anything' {words}") for read, words in WRONG_READERS]
    assert not wrongly_refused(expected, lambda read: list(read_pool(path, layouts=layouts(read))))
    place = pool_refusal(written(b"{}\n3\n"), layouts())  # a refusal of the reader of lines stays as it is
    assert place == f"pool {path}, line 2: expected JSON objects, one a line or all in one array, got '3'"
    registry = load_registry()
    registry.faults.append(Fault(Origin("acme-pools", "1.0", "acme"), "failed to import"))
    message = pool_refusal(written([{"q": 1}]), Layouts(registry))
    assert message.endswith("; broken plugins, see `harness doctor`: 'acme' of acme-pools 1.0")


def test_the_reference_of_a_record_is_kept_as_the_store_can_hold_it(written, layouts):
    pairs = ((7, 7), (["a", None, True], ["a", None, True]), (0.5, "0.5"), ([[1]], "[[1]]"), ("10**9999", None))
    path = written([{"x": 1}])
    several = "; ".join(f"yield PoolRecord('p', ['x'], reference={reference})" for reference, _ in pairs)
    records = read_pool(path, layouts=layouts(several))
    assert [(record.reference, type(record.reference)) for record in records] == [
        (kept, type(kept)) for _, kept in pairs
    ]


def test_only_the_code_of_a_layout_that_is_not_built_in_stands_in_a_key(written, layouts):
    others = layouts(fits="return 'q' in value")
    for line in LINES.values():
        assert others.in_key(written([line])) is None
    path = written([{"q": "1 + 1?"}])
    identity = layouts().in_key(path)
    assert (identity["name"], layouts().in_key(path)) == ("anything", identity)
    assert layouts("yield PoolRecord('other', ['x'])").in_key(path) != identity
