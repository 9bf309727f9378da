"""Layouts that plugins register: which is asked when, what a broken one costs, and what stands in a pool's key."""

from textwrap import dedent

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpora.layout_faults import BROKEN_LAYOUTS, WRONG_READERS
from corpora.tool_lines import FILES, LINES
from support.paths import SUPPORT
from support.pool_files import pool_refusal
from support.refusals import wrongly_refused

from harness.plugin_system.component import build
from harness.plugin_system.registry import Fault, Origin, load_registry
from harness.pools.reading import OWN, Layouts, pool_digest, read_pool
from harness.pools.record import FileLayout, LineLayout

FILE_LAYOUTS = SUPPORT / "file_layouts.py"
ANY = """
    from harness import hookimpl
    from harness.pools.record import PoolRecord

    class Anything:
        "Takes every line."
        name, keys = "anything", "whatever"
        def fits(self, value):
            {fits}
        def read(self, lines):
            {read}

    @hookimpl
    def register_layouts(register):
        register("anything", {factory})
"""
NOTES = []


@pytest.fixture
def plugin(tmp_path):
    """Write a plugin with a layout that fits every line; its path."""

    def call(read="yield PoolRecord('p', [str(line.value) for line in lines])", fits="return True", factory="Anything"):
        path = tmp_path / "anything.py"
        path.write_text(dedent(ANY).format(read=read, fits=fits, factory=factory))
        return path

    return call


@pytest.fixture
def layouts(plugin):
    """The layouts of a registry with a plugin's; what they say is in `NOTES`."""
    NOTES.clear()
    return lambda *args, **how: Layouts(load_registry([plugin(*args, **how)]), NOTES.append)


def built_in(kind):
    registry = load_registry()
    built = {r.name: build(registry, "layout", r.full_name) for r in registry.of_kind("layout")}
    return {name: layout for name, layout in built.items() if isinstance(layout, kind)}


def test_of_the_built_in_layouts_exactly_one_fits_each_line_and_each_file(written):
    of_lines, of_files = {"own": OWN, **built_in(LineLayout)}, built_in(FileLayout)
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
    tmp_path, written
):
    both, notes = Layouts(load_registry([FILE_LAYOUTS])), []
    pq.write_table(pa.table({"x": ["a", "b"]}), tmp_path / "pool.parquet")
    (record,) = read_pool(tmp_path / "pool.parquet", notes.append, both)
    assert (record.responses, record.reference, notes) == (["a", "b"], "{'a': 1}", ["pool: read as a table"])
    pq.write_table(pa.table({"y": ["a", "b"]}), tmp_path / "pool.parquet")
    assert "its columns are y; of parquet files those of lighteval" in pool_refusal(tmp_path / "pool.parquet", both)
    assert "; parquet with a column `x`; " in pool_refusal(written([{"q": 1}]), both)
    for name in ("pool/a/1.txt", "pool/2.txt", "pool/b.md"):
        written(b"x", name)
    assert next(read_pool(tmp_path / "pool", layouts=both)).responses == ["x", "x"]
    named = FILE_LAYOUTS.read_text() + "\nFolder.files = lambda self, path: [path / 'b.md']\n"
    only_one = Layouts(load_registry([written(named, "named.py")]))
    before = [pool_digest(tmp_path / "pool", layouts) for layouts in (both, only_one)]
    written(b"y", "pool/a/1.txt")
    now = [pool_digest(tmp_path / "pool", layouts) for layouts in (both, only_one)]
    assert [first == second for first, second in zip(before, now, strict=True)] == [False, True]


@pytest.mark.parametrize(("how", "reason"), BROKEN_LAYOUTS)
def test_a_broken_layout_is_left_out_with_a_line(written, layouts, how, reason):
    both = layouts(**how)
    assert next(read_pool(written([LINES["own"]]), layouts=both)).problem_id == "a"
    assert not NOTES  # no other layout was asked
    assert next(read_pool(written([LINES["verl"]]), layouts=both)).responses == ["o"]
    (note,) = NOTES
    assert note.startswith("pool: layout 'anything' of anything is left out: ")
    assert reason in note


@pytest.mark.slow
def test_whatever_a_reader_does_wrong_is_one_line_with_layout_and_file(written, layouts):
    path = written([{"x": 1}])
    prefix = f"pool {path}: layout 'anything' "
    expected = [(read, prefix + words) for read, words in WRONG_READERS]
    assert not wrongly_refused(expected, lambda read: list(read_pool(path, layouts=layouts(read))))
    place = pool_refusal(written(b"{}\n3\n"), layouts())  # a refusal of the reader of lines stays as it is
    assert place == f"pool {path}, line 2: expected JSON objects, one a line or all in one array, got '3'"
    registry = load_registry()
    registry.faults.append(Fault(Origin("acme-pools", "1.0", "acme"), "failed to import"))
    message = pool_refusal(written([{"q": 1}]), Layouts(registry))
    assert message.endswith("; broken plugins, see `harness doctor`: 'acme' of acme-pools 1.0")


def test_the_reference_of_a_record_is_kept_as_the_store_can_hold_it(written, layouts):
    pairs = ((7, 7), (["a", None, True], ["a", None, True]), (0.5, "0.5"), ([[1]], "[[1]]"), ("10**9999", None))
    for reference, kept in pairs:
        (record,) = read_pool(
            written([{"x": 1}]), layouts=layouts(f"yield PoolRecord('p', ['x'], reference={reference})")
        )
        assert (record.reference, type(record.reference)) == (kept, type(kept))


def test_only_the_code_of_a_layout_that_is_not_built_in_stands_in_a_key(written, layouts):
    others = layouts(fits="return 'q' in value")
    for line in LINES.values():
        assert others.in_key(written([line])) is Layouts().in_key(written([line])) is None
    path = written([{"q": "1 + 1?"}])
    identity = layouts().in_key(path)
    assert (identity["name"], layouts().in_key(path)) == ("anything", identity)
    assert layouts("yield PoolRecord('other', ['x'])").in_key(path) != identity
