"""Pools of molecules: SMILES files, CSV and TSV with a column of SMILES, and SDF, with what assays said of them.

    smiles,mol_id,NR-AR,SR-p53,logP
    CCO,TOX1,0,,-0.3                        tested in NR-AR alone
    c1ccccc1O,TOX2,1,0,1.5

A column whose values are 1 and 0, true and false, or active and inactive, empty where a molecule was not tested, is an
assay. Each assay is a problem, named as its column is, whose candidates are the molecules tested in it. A column
`problem_id` (or `target`) divides the molecules further: `EGFR/active`. Without an assay all molecules are candidates
of one problem, named as the file is. A response's text is a SMILES: the file's, of an SDF the one that RDKit writes.

Options of `--pool` that are read here:

    outcome          the columns that are assays, and no others; "" for none (`harness select`, `harness verify`)
    threshold        their values are numbers, and correct from here on
    skip_unreadable  leave out the molecules that RDKit cannot read, which otherwise an embedder refuses
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import IO, TypeAlias

import numpy as np

from harness.errors import HarnessError
from harness.pools.record import PoolRecord, Say
from harness.system import extras
from harness.system.files import opened

from ..embedders.molecules import is_readable, unreadable
from .sequences import ANY, SEQUENCE

# Names of columns, the best first, in small letters with "_" for all other signs.
SMILES = ("smiles", "canonical_smiles", "isomeric_smiles", "structure", "smi")  # else one with the word "smiles"
NAME = ("name", "id", "mol_id", "molecule_id", "compound_id", "compound", "chembl_id", "molecule_chembl_id", "cid")
PROBLEM = ("problem_id", "problem", "target")
ENDINGS = {".smi": "SMILES", ".smiles": "SMILES", ".sdf": "SDF", ".sd": "SDF", ".csv": "a table", ".tsv": "a table"}
WRONG, CORRECT, UNTESTED = range(3)
OUTCOMES = dict.fromkeys(("0", "false", "inactive", "0.0", "no"), WRONG)
OUTCOMES |= dict.fromkeys(("1", "true", "active", "1.0", "yes"), CORRECT)
OUTCOMES |= dict.fromkeys(("", "nan", "na", "n/a", "none", "null"), UNTESTED)
LISTED = 20  # columns that a line names

Row: TypeAlias = tuple[str, str, str, Mapping[str, str]]  # where it stands, SMILES, name, its other columns


class Molecules:
    """SMILES (`.smi`), CSV and TSV with a column of SMILES, SDF; the molecules tested in each assay are a problem."""

    name, holds = "molecules", "molecules (.smi; CSV with a column `smiles`; SDF)"
    takes = ("outcome", "threshold", "skip_unreadable")

    def fits(self, path: Path) -> bool:
        """Return whether a text file has a header with SMILES, begins as SDF does, or has the name of such a file.

        A `.csv` or `.tsv` that is none of sequences fits without a column of SMILES too: `read` names what it has.
        """
        if not path.is_file():
            return False
        try:
            with opened(path, "pool") as file:
                return bool(_kind(path, file))
        except HarnessError:  # no text
            return False

    def read(
        self,
        path: Path,
        say: Say,
        outcome: Sequence[str] = (),
        threshold: float | None = None,
        skip_unreadable: bool = False,
    ) -> Iterator[PoolRecord]:
        """Yield a record for each assay of each problem; all molecules are in memory.

        `say` gets a line on the molecules that are left out, and one on the columns that are assays and that are not.
        """
        screen, left_out = _Screen(path, outcome, threshold), list[tuple[str, str]]()
        with opened(path, "pool") as file:
            kind = _kind(path, file)
            if kind == "SDF" or skip_unreadable:
                extras.require(f"pool {path}: {'SDF' if kind == 'SDF' else '--skip-unreadable'}", "rdkit")
            for row in {"SMILES": _smi, "SDF": _sdf, "a table": _table}[kind](path, file):
                where, smiles = row[:2]
                if smiles and not (skip_unreadable and not is_readable(smiles)):
                    screen.add(*row)
                elif skip_unreadable:
                    left_out.append((where, smiles))
                else:
                    fault = "RDKit cannot read it" if kind == "SDF" else "no SMILES"
                    raise HarnessError(f"pool {path}, {where}: {fault}: --skip-unreadable leaves such molecules out")
        n = len(screen.smiles)
        if not n:
            raise HarnessError(f"pool {path}: {kind} without {'readable ' if left_out else ''}molecules")
        say(f"pool: read as {kind} of molecules, {n:,} molecules")
        if left_out:
            say(f"{unreadable('pool', left_out, n + len(left_out))}: left out")
        yield from screen.records(say)


class _Screen:
    """Molecules as they are read, with what each column that may be an assay says of them.

    wanted  the columns that are assays; None: all that look like one
    codes   column -> a byte for each molecule so far: WRONG, CORRECT or UNTESTED
    others  the columns that are no assays -> the value by which one that looked like an assay is none, with its place
    groups  what the column of problems holds -> its number
    """

    def __init__(self, path: Path, outcome: Sequence[str], threshold: float | None) -> None:
        self.path, self.threshold, self.problem_column = path, threshold, ""
        self.wanted = [name for name in outcome if name] if outcome else None
        self.smiles, self.names, self.problems = list[str](), list[str](), list[int]()
        self.codes, self.others, self.groups = dict[str, bytearray](), dict[str, str](), dict[str, int]()
        self._known = {text: code for text, code in OUTCOMES.items() if threshold is None or code == UNTESTED}

    def add(self, where: str, smiles: str, name: str, cells: Mapping[str, str]) -> None:
        """Take a molecule; HarnessError for a value that is no outcome, in a column that `--outcome` names."""
        row = len(self.smiles)
        if not row:
            self.problem_column = _first(cells, PROBLEM)
        self.smiles.append(smiles)
        self.names.append(name)
        self.problems.append(self.groups.setdefault(cells.get(self.problem_column, ""), len(self.groups)))
        for column, cell in cells.items():
            if column in self.others:
                continue
            is_wanted = _plain(column) != PROBLEM[0] if self.wanted is None else column in self.wanted
            code = self._code(column, cell, where) if is_wanted else None
            if code is None:
                codes = self.codes.pop(column, bytearray())
                self.others[column] = f" ({where}: {cell!r:.40})" if codes.strip(bytes([UNTESTED])) else ""
                continue
            codes = self.codes.setdefault(column, bytearray())
            codes.extend([UNTESTED] * (row - len(codes)))  # an SDF may not give each molecule each property
            codes.append(code)

    def _code(self, column: str, cell: str, where: str) -> int | None:
        """What a cell says of its molecule; None if its column is no assay."""
        code = self._known.get(cell)
        if code is not None or (code := self._known.get(cell.lower())) is not None or self.wanted is None:
            return code
        value = _number(cell)
        if self.threshold is not None and value is not None:
            return CORRECT if value >= self.threshold else WRONG
        if self.threshold is None:
            fault = f"must be 0 or 1, true or false, active or inactive, or empty, got {cell!r:.40}"
            fault += "" if value is None else ": numbers need a --threshold"
        else:
            fault = f"must be a number, which --threshold judges, or empty, got {cell!r:.40}"
        raise HarnessError(f"pool {self.path}, {where}: {column} {fault}")

    def records(self, say: Say) -> Iterator[PoolRecord]:
        """Yield a record for each assay of each problem; `say` gets a line on the columns."""
        n, columns = len(self.smiles), [*self.codes, *self.others]
        if unknown := next((name for name in self.wanted or () if name not in columns), None):
            raise HarnessError(
                f"pool {self.path}: no column {unknown!r}: it has {_listed(map(repr, columns)) or 'none'}"
            )
        named = list(self.groups)
        if _plain(self.problem_column) != PROBLEM[0] and all(name.lower() in OUTCOMES for name in named):
            self.problem_column, named = "", [""]  # a `target` of 0 and 1 is an assay
        problems = np.array(self.problems) if self.problem_column else np.zeros(n, np.intp)
        assays = {
            name: np.frombuffer(codes.ljust(n, bytes([UNTESTED])), np.uint8) for name, codes in self.codes.items()
        }
        tested = {name: int((codes != UNTESTED).sum()) for name, codes in assays.items()}
        if empty := next((name for name in self.wanted or () if not tested[name]), None):
            raise HarnessError(f"pool {self.path}: column {empty!r} says of no molecule whether it is active")
        assays = {name: codes for name, codes in assays.items() if tested[name]}
        others = [name for name in columns if name not in assays and name != self.problem_column]
        counts = [f"{name} {(codes == CORRECT).sum():,} of {tested[name]:,}" for name, codes in assays.items()]
        lines = [f"active of tested: {_listed(counts)}"] if counts else []
        lines += (
            [f"not taken: {_listed(name + self.others.get(name, '') for name in others)}"]
            if others and self.wanted != []
            else []
        )
        hint = "" if counts else "; --outcome NAME takes one, of numbers with --threshold X"
        if lines:
            say(f"pool: {'; '.join(lines)}{hint}")
        for number, problem in enumerate(named):
            for assay, codes in assays.items() or [("", None)]:
                here = problems == number if codes is None else (problems == number) & (codes != UNTESTED)
                rows = np.flatnonzero(here).tolist()
                names = [self.names[row] for row in rows]
                if rows:
                    yield PoolRecord(
                        problem_id="/".join(filter(None, (problem, assay))) or self.path.name.split(".")[0],
                        responses=[self.smiles[row] for row in rows],
                        correct=None if codes is None else (codes[rows] == CORRECT).tolist(),
                        names=names if any(names) else (),
                        more_ids=() if problem or assay else (ANY,),
                    )


def _kind(path: Path, file: IO[str]) -> str:
    """What the file is, by its name or its first lines: "SMILES", "SDF", "a table"; "" for none of these."""
    lines = [line.rstrip() for _, line in zip(range(4), file, strict=False)]
    file.seek(0)
    ending = ENDINGS.get(Path(path.name.lower().removesuffix(".gz")).suffix, "")
    if ending in ("SMILES", "SDF") or not lines or lines[0].startswith(("{", "[")):
        return ending
    columns = _header(lines[0])[1]
    if lines[-1].endswith(("V2000", "V3000")):
        return "SDF"
    return ("a table" if _smiles_column(columns) else ending) if not _first(columns, SEQUENCE) else ""


def _header(line: str) -> tuple[str, list[str]]:
    """The sign between the columns of a table, and the columns."""
    try:
        every = [(sign, [cell.strip() for cell in next(csv.reader([line], delimiter=sign), [])]) for sign in "\t,;"]
    except csv.Error:
        return ",", []
    return max(every, key=lambda each: (bool(_smiles_column(each[1])), len(each[1])))


def _smiles_column(columns: Sequence[str]) -> str:
    return _first(columns, SMILES) or next((name for name in columns if "smiles" in _plain(name).split("_")), "")


def _first(columns: Iterable[str], names: Sequence[str]) -> str:
    """The column with the first of these names that one has; "" if none has."""
    plain = {_plain(column): column for column in columns}
    return next((plain[name] for name in names if name in plain), "")


@cache
def _plain(column: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", column.lower()).strip("_")


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    return ", ".join(names[:LISTED]) + (f" and {len(names) - LISTED:,} more" if names[LISTED:] else "")


def _smi(path: Path, file: IO[str]) -> Iterator[Row]:
    """The lines of a file of SMILES: a SMILES, a blank or tab, a name. A first line of column names is none."""
    for number, line in enumerate(file, 1):
        smiles, _, name = line.strip().replace("\t", " ").partition(" ")
        if smiles and not (number == 1 and smiles.lower() in SMILES):
            yield f"line {number}", smiles, name.strip(), {}


def _table(path: Path, file: IO[str]) -> Iterator[Row]:
    sign, columns = _header(file.readline())
    smiles, name = _smiles_column(columns), _first(columns, NAME)
    if not smiles:
        raise HarnessError(
            f"pool {path}: a table without a column `smiles`: it has {_listed(map(repr, columns)) or 'none'}"
        )
    if twice := next((column for column in columns if column and columns.count(column) > 1), ""):
        raise HarnessError(f"pool {path}: two of its columns are called {twice!r}")
    reader = csv.DictReader(file, columns, delimiter=sign, strict=True)
    try:
        for row in reader:
            cells = {column: (cell or "").strip() for column, cell in row.items() if column}
            yield f"line {reader.line_num + 1}", cells.pop(smiles), cells.pop(name, ""), cells
    except csv.Error as failure:
        raise HarnessError(f"pool {path}, line {reader.line_num + 1}: not CSV ({failure})") from failure


def _sdf(path: Path, file: IO[str]) -> Iterator[Row]:
    """The molecules of an SDF: a molfile, whose first line is the name, and properties, `>  <name>` and lines."""
    from rdkit import Chem, rdBase

    lines, number = list[str](), 0
    for line in chain(file, ["$$$$"]):
        if line.rstrip() != "$$$$":
            lines.append(line.rstrip("\r\n"))
            continue
        if any(map(str.strip, lines)):
            number += 1
            end = next((place for place, text in enumerate(lines) if text.startswith("M  END")), len(lines))
            with rdBase.BlockLogs():
                molecule = Chem.MolFromMolBlock("\n".join(lines[: end + 1]))
            cells, column = dict[str, str](), ""
            for text in lines[end + 1 :]:
                if heading := re.match(r">.*<(.+)>", text):
                    column = heading[1].strip()
                    cells[column] = ""
                elif column:
                    cells[column] = f"{cells[column]} {text}".strip()
            name = lines[0].strip() or cells.get(_first(cells, NAME), "")
            where = f"molecule {number}" + (f" {name!r:.40}" if name else "")
            yield where, Chem.MolToSmiles(molecule) if molecule else "", name, cells
        lines = []
