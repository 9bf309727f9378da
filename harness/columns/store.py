"""The store: one file for each column and problem, under a name that says what it was made from and what it holds.

    STORE/store.json                                         which form this folder has
    STORE/POOL/pool.json                                     what made the responses of this pool
    STORE/POOL/KIND.NAME.KEY/column.json                     what made this column of it
    STORE/POOL/KIND.NAME.KEY/PROBLEM.FROM.SUM.parquet        one problem's rows; vectors .npy, a few numbers .arrow
    STORE/POOL/KIND.NAME.KEY/PROBLEM.FROM.SUM.part.parquet   the same, some rows did not arrive: the next run asks again
    STORE/POOL/problems.jsonl                                the problems: id, prompt, hashes of what counts of them
    STORE/POOL/paid/                                         what a server was paid for the pool, and not stored yet
    STORE/memo/NAME.KEY/PROBLEM.HASH.jsonl                   values that all pools share, by hash (`Memo`)
    STORE/cells/KEY.json                                     one result
    STORE/.lock                                              held by the processes that use the store

FROM  hash of what the file was made from: the part of the problem that counts, and the SUMs of the files that were read
SUM   hash of the file's place and its content

So one listing of a folder tells what is there, what is stale, and what each file must contain: there are no other
checksums. Nothing is deleted when a file is made anew: what was made from the older one has another FROM, and counts as
missing from then on. A file is written under a temporary name and renamed: it is there complete or not at all.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from harness.errors import HarnessError
from harness.system.files import NotRegular, disk_errors, open_regular, write_atomically
from harness.system.json_text import digest, parsed, readable

if TYPE_CHECKING:
    from .column import Column, Question

Rows: TypeAlias = "pa.Table | np.ndarray[Any, Any]"  # a table, or vectors (n, d)
Parts: TypeAlias = "Sequence[bytes | memoryview]"

FORMAT = 2  # of the folder; 1 were the folders of stages
SHOWN = 16  # hex digits of a SUM
ABOUT = b"about"  # the entry of a table's metadata that holds JSON
PART = ".part"
SMALL = ("orders", "choices")  # kinds of columns of a few numbers: Arrow's own format takes a tenth of parquet's time


class Damaged(HarnessError):
    """A file that does not hold what its name says; `path` is the file."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"store: {path} is damaged: delete it, and the same command makes it again")
        self.path = path

    def __reduce__(self) -> tuple[type[Damaged], tuple[Path]]:
        return Damaged, (self.path,)


# Rows: a pyarrow.Table whose metadata holds JSON about all of it (`about`), or an array of vectors.


def table(columns: Mapping[str, Any], about: Any = None) -> pa.Table:
    """A table of these columns; `about` is JSON that belongs to all its rows."""
    made = pa.table(dict(columns))
    return made if about is None else made.replace_schema_metadata({ABOUT: json.dumps(about)})


def about(rows: pa.Table) -> Any:
    """The JSON that `table` was given; {} without."""
    return json.loads((rows.schema.metadata or {}).get(ABOUT, b"{}"))


def _sum(folder: Path, stem: str, parts: Parts) -> str:
    """The hash of a file's place and content. The place is pool, kind and problem: a column whose key changed, but not
    what it makes, leaves what is made from it as it is.
    """
    sha256 = hashlib.sha256(f"{folder.parent.name}/{folder.name.partition('.')[0]}/{stem}\0".encode())
    for part in parts:
        sha256.update(part)
    return sha256.hexdigest()[:SHOWN]


def filed(folder: Path, stem: str, rows: Rows, partly: bool = False) -> tuple[Path, Parts]:
    """The path and the content, in parts, of the file of a problem's rows: parquet, or what is faster for its kind."""
    if isinstance(rows, np.ndarray):
        head = io.BytesIO()
        np.lib.format.write_array_header_1_0(head, np.lib.format.header_data_from_array_1_0(rows))
        suffix, parts = "npy", [head.getvalue(), rows.data.cast("B") if rows.size else b""]
    else:
        sink, is_small = pa.BufferOutputStream(), folder.name.partition(".")[0] in SMALL
        if is_small:
            with pa.ipc.new_file(sink, rows.schema) as writer:
                writer.write_table(rows)
        else:
            pq.write_table(rows, sink, compression="zstd", write_statistics=False)
        suffix, parts = "arrow" if is_small else "parquet", [memoryview(sink.getvalue())]
    return folder / f"{stem}.{_sum(folder, stem, parts)}{PART if partly else ''}.{suffix}", parts


def read(path: Path) -> Rows:
    """The rows in a file; Damaged unless each byte is what was written there."""
    content = read_bytes(path)
    if path.suffix == ".arrow":
        return pa.ipc.open_file(pa.BufferReader(content)).read_all()
    if path.suffix != ".npy":
        return pq.ParquetFile(pa.BufferReader(content)).read(use_threads=False)
    with io.BytesIO(content) as file:  # only the head is read from it: numpy makes the array without a copy
        np.lib.format.read_magic(file)
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        return np.frombuffer(content, dtype, offset=file.tell()).reshape(shape)


def read_bytes(path: Path) -> bytes:
    """The content of a file, checked against its name."""
    try:
        with open_regular(path) as file:
            content = file.read()
    except NotRegular:
        raise Damaged(path) from None
    except OSError as failure:
        raise HarnessError(f"store: {path} cannot be read ({failure.strerror}): run the same command again") from None
    if _sum(path.parent, stem_of(path), [content]) != sum_of(path):
        raise Damaged(path)
    return content


def count_rows(path: Path) -> int:
    """The number of rows in a file, from its head alone."""
    if path.suffix == ".npy":
        return len(read(path))
    with suppress(pa.ArrowInvalid, OSError):
        return int(pq.read_metadata(path).num_rows)
    raise Damaged(path)


def stem_of(path: Path) -> str:
    """PROBLEM.FROM of a file's name."""
    return ".".join(path.name.split(".")[:2])


def sum_of(path: Path) -> str:
    """The SUM in a file's name."""
    return path.name.split(".")[2]


def is_part(path: Path) -> bool:
    """Whether rows did not arrive."""
    return path.suffixes[-2:-1] == [PART]


def stem(column: Column, question: Question, sums: Sequence[str]) -> str:
    """PROBLEM.FROM: the problem's name, and the hash of what the file is made from."""
    name = question.problem.id
    return f"{readable(name)}.{digest([name, column.part(question), list(sums)], 12)}"


class Store:
    """Which files there are. Folders are listed once; `forget` lists them again after others have written."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._listed: dict[Path, dict[str, Path]] = {}
        self._paths: dict[tuple[Path, str, Question], Path | None] = {}

    def folder(self, column: Column) -> Path:
        """The folder of a column: STORE/POOL/KIND.NAME.KEY."""
        return self.root / column.pool.pool_name / column.folder

    def begin(self, column: Column) -> None:
        """Create a column's folder, and say in it, and in the pool's, what made them."""
        folder = self.folder(column)
        for path, made in ((folder.parent / "pool.json", column.pool), (folder / "column.json", column)):
            with disk_errors(path):
                if not path.exists():
                    write_atomically(path, (json.dumps(made.described, indent=1, sort_keys=True) + "\n").encode())

    def files(self, folder: Path) -> dict[str, Path]:
        """PROBLEM.FROM -> path, of all files in a folder.

        Of two with one name the last counts, and a complete one before one with rows that did not arrive.
        """
        if folder not in self._listed:
            with disk_errors(folder):
                names = sorted(os.listdir(folder)) if folder.is_dir() else []
            paths = [folder / name for name in names if name.count(".") in (3, 4) and name[0] != "."]
            paths.sort(key=lambda path: not is_part(path))
            self._listed[folder] = {stem_of(path): path for path in paths}
        return self._listed[folder]

    def forget(self) -> None:
        """List folders anew when they are asked for next."""
        self._listed.clear()
        self._paths.clear()

    def path(self, column: Column, question: Question) -> Path | None:
        """The path of a column's file for a problem; None if it is missing, or a file that it is made from is."""
        folder = self.folder(column)
        place = folder, column.variant, question
        if place not in self._paths:
            read_from = [self.path(each, question) for each in column.reads]
            sums = [sum_of(path) for path in read_from if path]
            complete = len(sums) == len(read_from)
            self._paths[place] = self.files(folder).get(stem(column, question, sums)) if complete else None
        return self._paths[place]

    def required(self, column: Column, question: Question) -> Path:
        """The path of a column's file for a problem; HarnessError if it is missing."""
        path = self.path(column, question)
        if path is None:
            raise HarnessError(
                f"store: {column.folder} has no rows of problem {question.problem.id!r}: run the same command again"
            )
        return path

    def rows(self, column: Column, question: Question) -> Any:
        """The rows of a column for a problem, checked; HarnessError if they are missing."""
        return read(self.required(column, question))

    def missing(self, column: Column, questions: Sequence[Question]) -> list[Question]:
        """The problems for which a column has no file, or one that lacks rows."""
        paths = [(question, self.path(column, question)) for question in questions]
        return [question for question, path in paths if path is None or is_part(path)]

    @contextmanager
    def used(self, alone: bool = False, who: str = "store") -> Iterator[None]:
        """Keep apart who writes (shared) and who deletes (alone), by a lock that the kernel keeps.

        A folder whose disk knows no locks is used without one, and nothing is deleted from it.
        """
        descriptor, path = None, self.root / ".lock"
        try:
            try:
                self.root.mkdir(parents=True, exist_ok=True)
                writes = os.O_RDWR | os.O_CREAT if os.access(self.root, os.W_OK) else os.O_RDONLY
                descriptor = os.open(path, writes | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o666)
                fcntl.flock(descriptor, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
            except BlockingIOError:
                does = "uses" if alone else "deletes from"
                raise HarnessError(
                    f"{who}: another process {does} {self.root}: run the same command again when that has ended"
                ) from None
            except OSError as failure:
                if alone:
                    raise HarnessError(
                        f"{who}: {path} cannot be locked ({failure.strerror}), so nobody can tell whether a run uses "
                        "the store: nothing is deleted"
                    ) from None
            self._check_format()
            yield
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def _check_format(self) -> None:
        """HarnessError for a folder of another form; a new one is marked as of this form."""
        mark = self.root / "store.json"
        with suppress(OSError):
            if mark.exists():
                found = parsed(mark.read_bytes(), f"store {mark}")
                if found != {"format": FORMAT}:
                    raise HarnessError(f"store {self.root}: has another format ({found!r:.60}): choose another --store")
            else:
                with suppress(HarnessError):
                    write_atomically(mark, json.dumps({"format": FORMAT}).encode())


class Memo:
    """A dictionary on disk, from the hash of what a value depends on to the value (JSON): lines that are only added.

    A line that a killed process wrote in part, a damaged one, or one of another file counts as missing; `damaged` says
    how many there are.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: dict[str, Any] = {}
        self.damaged = 0
        with disk_errors(path):
            lines = path.read_bytes().split(b"\n") if path.exists() else []
        for line in lines:
            check, _, rest = line.partition(b" ")
            if check == self._check(rest):
                self._known.update([json.loads(rest)])
            elif line:
                self.damaged += 1

    @property
    def values(self) -> list[Any]:
        """All values, in the order in which they were added."""
        return list(self._known.values())

    def lacking(self, names: Sequence[str]) -> list[str]:
        """The names whose values are not known, each once."""
        return [name for name in dict.fromkeys(names) if digest(name, 32) not in self._known]

    def filled(
        self, names: Sequence[str], make: Callable[[list[str]], Sequence[Any]], together: int | None = None
    ) -> dict[str, Any]:
        """The value of each name: those that are lacking are made, so many together (None: all), and kept at once.

        make   names -> values in their order; None is a fault of ours, which is not kept
        """
        lacking = self.lacking(names)
        size = together or max(1, len(lacking))
        for start in range(0, len(lacking), size):
            some = lacking[start : start + size]
            pairs = [(digest(name, 32), value) for name, value in zip(some, make(some), strict=True)]
            made = [pair for pair in pairs if pair[1] is not None]
            self._known.update(made)
            lines = [json.dumps(pair).encode() for pair in made]
            content = b"".join(b"\n%s %s" % (self._check(line), line) for line in lines)
            with disk_errors(self.path):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                with self.path.open("ab") as file:  # a newline comes first: the last line may be half of one
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
        return {name: self._known.get(digest(name, 32)) for name in dict.fromkeys(names)}

    def _check(self, line: bytes) -> bytes:
        """The hash of a line and of the file's place."""
        place = f"{self.path.parent.name}/{self.path.name}\0".encode()
        return hashlib.sha256(place + line).hexdigest()[:SHOWN].encode()
