"""What repositories of pools hold, how they are changed by hand, and how commands refuse them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness.columns.store import filed
from support.hub_server import Repository
from support.stores import contents

KINDS = ("responses.", "vectors.", "verdicts.")


def of_kind(root: Path, *kinds: str) -> dict[str, bytes]:
    """The files of a store's columns of these kinds, but for what is fetched; of no store none."""
    return {
        name: content
        for name, content in contents(root).items()
        if name.count("/") == 2 and name.split("/")[1].startswith(kinds)
    }


def refused(outcome: Any, *words: str) -> None:
    """AssertionError unless the command ended with one line that holds these words."""
    assert (outcome.code, outcome.out) == (2, ""), outcome
    [line] = [line for line in outcome.err.splitlines() if line.startswith("error: ")]
    for word in words:
        assert word in line, line
    assert "Traceback" not in outcome.err


def refused_and_nothing_written(outcome: Any, root: Path, *words: str) -> None:
    """... and that nothing came into the store at `root`."""
    refused(outcome, *words)
    assert not of_kind(root, *KINDS)


def first(repository: Repository, kind: str) -> str:
    """The path of the first problem's rows of a kind."""
    names = [path for path in sorted(repository.files) if f"/{kind}." in path and "column.json" not in path]
    return next(path for path in names if path.rpartition("/")[2].startswith("test_0."))


def put_rows(repository: Repository, kind: str, change: Callable[[Any], Any]) -> None:
    """Put other rows in the place of the first problem's, under the name that their hash gives them."""
    path = first(repository, kind)
    table = pq.read_table(pa.BufferReader(repository.files[path]))
    folder, name = Path(path).parent, Path(path).name
    changed, parts = filed(folder, ".".join(name.split(".")[:2]), change(table))
    files = {other: content for other, content in repository.files.items() if other != path}
    repository.commit(files | {changed.as_posix(): b"".join(map(bytes, parts))})


def parquet_text(files: dict[str, bytes]) -> str:
    """All that the parquet files of a repository hold, as text, with their footers."""
    tables = [pq.read_table(pa.BufferReader(content)) for path, content in files.items() if path.endswith(".parquet")]
    return "".join(f"{table.to_pydict()} {table.schema.metadata}" for table in tables)
