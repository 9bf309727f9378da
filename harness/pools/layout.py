"""What a layout of pool files offers: plugins of kind "layout" (`register_layouts`), built without parameters.

A layout turns a file that another tool wrote into `PoolRecord`s (`harness.pools.record`), one a problem. It reads
either JSON lines or whole files. What it refuses, it refuses with a HarnessError that names file and place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from harness.system.json_text import Line

from .record import PoolRecord, Say


@runtime_checkable
class LineLayout(Protocol):
    """A layout of JSON lines: files and folders are opened, unpacked and parsed by the harness.

    name    as messages show it
    keys    what each line holds, for messages
    Three attributes are optional: `one_line_a_problem = True` where lines are problems, which lets progress be shown;
    `remark`, what is said of values that are not taken, e.g. "; its metrics are not taken as verdicts"; and `verdicts`,
    keys of another grader's verdicts, which are named too where the first line has them.
    """

    name: str
    keys: str

    def fits(self, value: Mapping[str, Any]) -> bool:
        """Whether an object is a line of this layout; the first line of a file decides, all others must fit too."""

    def read(self, lines: Iterator[Line]) -> Iterator[PoolRecord]:
        """The records of a file's lines, each problem once (`record.grouped` joins those of several lines)."""


@runtime_checkable
class FileLayout(Protocol):
    """A layout of whole files, or of folders.

    name    as messages show it
    holds   what it reads, for messages, e.g. "lighteval parquet"
    """

    name: str
    holds: str

    def fits(self, path: Path) -> bool:
        """Whether an existing file or folder is of this layout, judged by its content."""

    def read(self, path: Path, say: Say) -> Iterator[PoolRecord]:
        """The records of a file or folder; `say` gets a line on how it is read and what of it is not taken."""


@runtime_checkable
class NamesFiles(Protocol):
    """A layout of folders that reads only some of their files; a change in any other file changes no key."""

    def files(self, path: Path) -> Iterable[Path]:
        """The files of the folder that are read."""
