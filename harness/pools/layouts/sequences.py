"""Pools of sequences made elsewhere: FASTA with scores in its headers, and CSV or TSV with a column of sequences.

    >design-17 logprob=-61.2 plddt=91.4 ptm=0.83          name,sequence,logprob,plddt,ptm
    MKTAYIAKQR...                                         design-17,MKTAYIAKQR...,-61.2,91.4,0.83

All sequences of a file are the candidates of one problem, named as the file is; of several where each says which
(`problem_id=...`, or a column of that name). Their order stays: row i of one's own vectors is sequence i.

Of the scores three kinds are taken, where every sequence of a problem has them: a log-probability (`logprob`,
`log_likelihood`), verdicts (`correct`, `plausible`: 1, 0, true, false), and what a folding model said (`plddt`, of 1 or
of 100, and `ptm`), which a task judges by its own thresholds. The others are left out, and that is said.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from harness.errors import HarnessError
from harness.pools.record import PoolRecord, Say
from harness.system.json_lines import opened

SEQUENCE = ("sequence", "seq", "aa_sequence", "protein_sequence")
NAME = ("name", "id", "description", "sequence_id", "design")
PROBLEM = ("problem_id", "problem", "target")
LOGPROB = ("logprob", "log_prob", "log_likelihood", "loglikelihood")
CORRECT = ("correct", "plausible")
FIGURES = {"plddt": "plddt", "mean_plddt": "plddt", "ptm": "ptm"}
ANY = "any"  # a problem of that id takes candidates of any kind
TRUTH = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


@dataclass(frozen=True)
class Candidate:
    """One sequence: its name, what was said of it (by lower-case name, as text), and where it stands."""

    name: str
    sequence: str
    said: Mapping[str, str]
    where: str


def is_sequences(path: Path) -> bool:
    """Whether a text file is FASTA, or a table with a column of sequences."""
    try:
        with opened(path, "pool") as file:
            first = next((line for line in file if line.strip()), "")
    except HarnessError:  # no text
        return False
    return first.startswith(">") or _delimiter(first) is not None


def read_sequences(path: Path, say: Say) -> Iterator[PoolRecord]:
    """A record a problem, in order of appearance; all are in memory."""
    with opened(path, "pool") as file:
        first = next(line for line in file if line.strip())
        file.seek(0)
        delimiter = _delimiter(first)
        kind = "FASTA" if delimiter is None else "a table of sequences"
        found = list(_fasta(path, file) if delimiter is None else _table(path, file, delimiter))
    problems: dict[str, list[Candidate]] = {}
    for one in found:
        problems.setdefault(next((one.said[name] for name in PROBLEM if one.said.get(name)), ""), []).append(one)
    records = [_record(path, name, candidates) for name, candidates in problems.items()]
    say(f"pool: read as {kind}, {len(found):,} sequences{_taken(records, found)}")
    yield from records


def _taken(records: list[PoolRecord], found: list[Candidate]) -> str:
    taken = {"log-probabilities": "logprobs", "verdicts": "correct", "pLDDT and pTM": "figures"}
    there = [name for name, column in taken.items() if any(getattr(record, column) is not None for record in records)]
    known = {*PROBLEM, *LOGPROB, *CORRECT, *FIGURES}
    others = sorted({name for one in found for name in one.said} - known)
    with_them = f" with {', '.join(there)}" if there else ""
    return with_them + (f"; not taken: {', '.join(others[:6])}{', ...' * (len(others) > 6)}" if others else "")


def _fasta(path: Path, file: IO[str]) -> Iterator[Candidate]:
    header, lines, start = "", list[str](), 0
    for number, text in enumerate(file, 1):
        line = text.strip()
        if line.startswith(">"):
            if start:
                yield _candidate(header, "".join(lines), _scores(header), f"pool {path}, line {start}")
            header, lines, start = line[1:].strip(), [], number
        elif line and not line.startswith(";"):
            lines.append(line)
    if start:
        yield _candidate(header, "".join(lines), _scores(header), f"pool {path}, line {start}")


def _scores(header: str) -> dict[str, str]:
    """What a header says as `name=value`, between blanks, commas, semicolons or bars."""
    return {name.lower(): value for name, value in re.findall(r"([A-Za-z_]\w*)\s*=\s*([^\s,;|]+)", header)}


def _table(path: Path, file: IO[str], delimiter: str) -> Iterator[Candidate]:
    reader = csv.DictReader(file, delimiter=delimiter, strict=True)
    try:
        for row in reader:
            said = {str(key).strip().lower(): (value or "").strip() for key, value in row.items() if key}
            sequence = next((said.pop(name) for name in SEQUENCE if name in said), "")
            name = next((said[name] for name in NAME if said.get(name)), "")
            said = {key: value for key, value in said.items() if key not in NAME and value}
            yield _candidate(name, sequence, said, f"pool {path}, line {reader.line_num}")
    except csv.Error as failure:
        raise HarnessError(f"pool {path}, line {reader.line_num}: not CSV ({failure})") from failure


def _delimiter(header: str) -> str | None:
    """What parts the columns of a table, one of which is of sequences; None where the line is no such header."""
    for delimiter in ("\t", ",", ";"):
        names = {name.strip().strip('"').lower() for name in header.split(delimiter)}
        if names & set(SEQUENCE) and not header.lstrip().startswith(("{", "[")):
            return delimiter
    return None


def _candidate(name: str, text: str, said: Mapping[str, str], where: str) -> Candidate:
    sequence = "".join(text.split()).upper().removesuffix("*")
    if not sequence:
        raise HarnessError(f"{where} ({name[:40]}): no sequence")
    wrong = next((letter for letter in sequence if not ("A" <= letter <= "Z" or letter in "-.")), None)
    if wrong:
        raise HarnessError(f"{where} ({name[:40]}): {wrong!r} is no letter of a sequence")
    return Candidate(name, sequence, said, where)


def _record(path: Path, name: str, candidates: list[Candidate]) -> PoolRecord:
    correct = _column(candidates, CORRECT, _truth)
    return PoolRecord(
        problem_id=name or path.name.split(".")[0],
        responses=[one.sequence for one in candidates],
        logprobs=_column(candidates, LOGPROB, _number),
        logprob_kind="as the file gives them",
        correct=correct,
        figures=None if correct else _figures(candidates),
        more_ids=() if name else (ANY,),
        names=[one.name.split()[0] if one.name else "" for one in candidates],
    )


def _column(candidates: list[Candidate], names: tuple[str, ...], value: Any) -> list[Any] | None:
    """The values under the first of these names that all have; None where there is none."""
    for name in names:
        if all(name in one.said for one in candidates):
            return [value(one, name) for one in candidates]
    return None


def _figures(candidates: list[Candidate]) -> list[dict[str, float]] | None:
    """pLDDT, from 0 to 1 whatever it was of, and pTM; None unless all have both."""
    found: dict[str, list[float]] = {}
    for name, figure in FIGURES.items():
        column = _column(candidates, (name,), _number)
        if column is not None:
            found.setdefault(figure, column)
    if set(found) != set(FIGURES.values()):
        return None
    if max(found["plddt"]) > 1:
        found["plddt"] = [value / 100 for value in found["plddt"]]
    for one, *values in zip(candidates, *found.values(), strict=True):
        if not all(0 <= value <= 1 for value in values):
            raise HarnessError(f"{one.where} ({one.name[:40]}): plddt is from 0 to 1 or to 100, ptm from 0 to 1")
    return [dict(zip(found, values, strict=True)) for values in zip(*found.values(), strict=True)]


def _number(one: Candidate, name: str) -> float:
    try:
        value = float(one.said[name])
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise HarnessError(f"{one.where} ({one.name[:40]}): {name} must be a number, got {one.said[name]!r:.40}")
    return value


def _truth(one: Candidate, name: str) -> bool:
    value = TRUTH.get(one.said[name].lower())
    if value is None:
        raise HarnessError(f"{one.where} ({one.name[:40]}): {name} must be true or false, got {one.said[name]!r:.40}")
    return value
