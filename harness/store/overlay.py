"""A store for as long as a dry run lasts: all that a store has, and what is added is dropped."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def overlay(root: Path) -> Iterator[Path]:
    """A folder with every stage of the store `root` (links), in which new stages may be made; gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="harness-dry-run-") as scratch:
        for kind in root.iterdir() if root.is_dir() else ():
            if not kind.is_dir():
                continue
            (Path(scratch) / kind.name).mkdir()
            for stage in kind.iterdir():
                (Path(scratch) / kind.name / stage.name).symlink_to(stage.absolute())
        yield Path(scratch)
