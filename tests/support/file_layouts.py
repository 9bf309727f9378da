"""A plugin with two layouts of files: a parquet table, and folders of texts."""

import pyarrow.parquet as pq

from harness import hookimpl
from harness.pools.record import PoolRecord


class Table:
    """Parquet with one response a row."""

    name, holds = "table", "parquet with a column `x`"

    def fits(self, path):
        return path.suffix == ".parquet" and pq.read_schema(path).names == ["x"]

    def read(self, path, say):
        say("pool: read as a table")
        yield PoolRecord("p", pq.read_table(path)["x"].to_pylist(), reference={"a": 1})


class Folder:
    """Folders of texts, one a response."""

    name, holds = "texts", "folders of texts"

    def fits(self, path):
        return path.is_dir()

    def read(self, path, say):
        yield PoolRecord("p", [file.read_text() for file in path.rglob("*.txt")])


@hookimpl
def register_layouts(register):
    register("table", Table)
    register("texts", Folder)
