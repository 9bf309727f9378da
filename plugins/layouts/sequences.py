"""Pools of sequences made elsewhere: FASTA with scores in its headers, and CSV or TSV with a column of sequences.

    >design-17 logprob=-61.2 plddt=91.4 ptm=0.83          name,sequence,logprob,plddt,ptm
    MKTAYIAKQR...                                         design-17,MKTAYIAKQR...,-61.2,91.4,0.83

All sequences of a file are the candidates of one problem, named as the file is; of several where each says which
(`problem_id=...`, or a column of that name). Their order stays: row i of your own vectors is sequence i.

Of the scores three kinds are taken, where every sequence of a problem has them: a log-probability (`logprob`,
`log_likelihood`), verdicts (`correct`, `plausible`: 1, 0, true, false), and a folding model's confidence (`plddt`, of 1
or of 100, and `ptm`), which a task judges by its own thresholds. The others are left out, and a line names them.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, Any

from harness.errors import HarnessError
from harness.pools.record import PoolRecord, Say
from harness.system.files import opened

SEQUENCE = ("sequence", "seq", "aa_sequence", "protein_sequence")
NAME = ("name", "id", "description", "sequence_id", "design")
PROBLEM = ("problem_id", "problem", "target")
LOGPROB = ("logprob", "log_prob", "log_likelihood", "loglikelihood")
CORRECT = ("correct", "plausible")
PLDDT, PTM = ("plddt", "mean_plddt"), ("ptm",)
ANY = "any"  # a problem of that id takes candidates of any kind
TRUTH = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


@dataclass(frozen=True)
class Candidate:
    """One sequence: its name, its scores (by lower-case name, as text), and where it stands."""

    name: str
    sequence: str
    scores: Mapping[str, str]
    where: str


class Sequences:
    """FASTA with scores in its headers; CSV and TSV with a column `sequence`.

    All sequences of a file answer one problem, except those that name theirs (`problem_id`).
    """

    name, holds = "sequences", "FASTA; CSV with a column `sequence`"

    def fits(self, path: Path) -> bool:
        """Return whether a text file is FASTA, or a table with a column of sequences; the first line decides."""
        if not path.is_file():
            return False
        try:
            with opened(path, "pool") as file:
                first = next((line for line in file if line.strip()), "")
        except HarnessError:  # no text
            return False
        return first.startswith(">") or _delimiter(first) is not None

    def read(self, path: Path, say: Say) -> Iterator[PoolRecord]:
        """Yield a record per problem, in order of first appearance; all sequences are in memory.

        `say` gets a line on the file's format and on the scores that are taken and not taken.
        """
        problems: dict[str, list[Candidate]] = {}
        named = set[str]()
        with opened(path, "pool") as file:
            delimiter = _delimiter(next(line for line in file if line.strip()))
            file.seek(0)
            for number, name, text, scores in _fasta(file) if delimiter is None else _table(path, file, delimiter):
                where = f"pool {path}, line {number} ({name[:40]})"
                sequence = "".join(text.split()).upper().removesuffix("*")
                if not sequence:
                    raise HarnessError(f"{where}: no sequence")
                if odd := re.search(r"[^A-Z.-]", sequence):
                    raise HarnessError(f"{where}: {odd[0]!r} is no letter of a sequence")
                problem = next((scores[name] for name in PROBLEM if scores.get(name)), "")
                problems.setdefault(problem, []).append(Candidate(name, sequence, scores, where))
                named.update(scores)
        records = [_record(path, problem, candidates) for problem, candidates in problems.items()]
        columns = {"log-probabilities": "logprobs", "verdicts": "correct", "pLDDT and pTM": "measurements"}
        taken = [kind for kind, column in columns.items() if any(getattr(record, column) for record in records)]
        others = sorted(named - {*PROBLEM, *LOGPROB, *CORRECT, *PLDDT, *PTM})
        shown = f" with {', '.join(taken)}" if taken else ""
        shown += f"; not taken: {', '.join(others[:6])}{', ...' if others[6:] else ''}" if others else ""
        kind = "FASTA" if delimiter is None else "a table of sequences"
        say(f"pool: read as {kind}, {sum(map(len, problems.values())):,} sequences{shown}")
        yield from records


def _fasta(file: IO[str]) -> Iterator[tuple[int, str, str, dict[str, str]]]:
    """The line, name, sequence and scores of each entry: `name=value` between blanks, commas, semicolons or bars."""
    header, lines, start = "", list[str](), 0
    for number, text in enumerate(chain(file, [">"]), 1):
        line = text.strip()
        if line.startswith(">"):
            if start:
                pairs = re.findall(r"([A-Za-z_]\w*)\s*=\s*([^\s,;|]+)", header)
                yield start, header, "".join(lines), {name.lower(): value for name, value in pairs}
            header, lines, start = line[1:].strip(), [], number
        elif line and not line.startswith(";"):
            lines.append(line)


def _table(path: Path, file: IO[str], delimiter: str) -> Iterator[tuple[int, str, str, dict[str, str]]]:
    reader = csv.DictReader(file, delimiter=delimiter, strict=True)
    try:
        for row in reader:
            cells = {str(key).strip().lower(): (value or "").strip() for key, value in row.items() if key}
            sequence = next((cells.pop(name) for name in SEQUENCE if name in cells), "")
            name = next((cells[name] for name in NAME if cells.get(name)), "")
            yield (
                reader.line_num,
                name,
                sequence,
                {key: cell for key, cell in cells.items() if key not in NAME and cell},
            )
    except csv.Error as failure:
        raise HarnessError(f"pool {path}, line {reader.line_num}: not CSV ({failure})") from failure


def _delimiter(header: str) -> str | None:
    """The sign between the columns of a table, one of which is of sequences; None where the line is no such header."""
    for delimiter in ("\t", ",", ";"):
        names = {name.strip().strip('"').lower() for name in header.split(delimiter)}
        if names & set(SEQUENCE) and not header.lstrip().startswith(("{", "[")):
            return delimiter
    return None


def _record(path: Path, problem: str, candidates: list[Candidate]) -> PoolRecord:
    correct = _column(candidates, CORRECT, "true or false", lambda text: TRUTH[text.lower()])
    plddt, ptm = (None if correct else _column(candidates, names, "a number", _finite) for names in (PLDDT, PTM))
    measurements = None
    if plddt and ptm:
        scale = 100 if max(plddt) > 1 else 1
        measurements = [{"plddt": each / scale, "ptm": other} for each, other in zip(plddt, ptm, strict=True)]
        for candidate, row in zip(candidates, measurements, strict=True):
            if not all(0 <= value <= 1 for value in row.values()):
                raise HarnessError(f"{candidate.where}: plddt is from 0 to 1 or to 100, ptm from 0 to 1")
    return PoolRecord(
        problem_id=problem or path.name.split(".")[0],
        responses=[candidate.sequence for candidate in candidates],
        logprobs=_column(candidates, LOGPROB, "a number", _finite),
        logprob_kind="as the file gives them",
        correct=correct,
        measurements=measurements,
        more_ids=() if problem else (ANY,),
        names=[candidate.name.split()[0] if candidate.name else "" for candidate in candidates],
    )


def _column(
    candidates: list[Candidate], names: Iterable[str], kind: str, value: Callable[[str], Any]
) -> list[Any] | None:
    """The values under the first of these names that all candidates have; None where no name is."""
    name = next((name for name in names if all(name in candidate.scores for candidate in candidates)), "")
    values = []
    for candidate in candidates if name else ():
        text = candidate.scores[name]
        try:
            values.append(value(text))
        except (ValueError, KeyError):
            raise HarnessError(f"{candidate.where}: {name} must be {kind}, got {text!r:.40}") from None
    return values if name else None


def _finite(text: str) -> float:
    """The number that a text spells; ValueError if it is none, or not finite."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError
    return value
