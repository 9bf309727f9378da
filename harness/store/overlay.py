"""A temporary store for a dry run: it shows all of a store, and what is added to it is dropped afterwards."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def overlay(root: Path) -> Iterator[Path]:
    """A temporary folder with links to every stage of the store `root`; new stages in it are deleted at the end."""
    with tempfile.TemporaryDirectory(prefix="harness-dry-run-") as scratch:
        for kind in root.iterdir() if root.is_dir() else ():
            if not kind.is_dir():
                continue
            (Path(scratch) / kind.name).mkdir()
            for stage in kind.iterdir():
                (Path(scratch) / kind.name / stage.name).symlink_to(stage.absolute())
        yield Path(scratch)
