"""Columns of responses: sampled from a model, or brought by a file."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from harness.contracts import Charges
from harness.errors import HarnessError
from harness.pools.reading import Joined
from harness.records import Problem, Responses, SampleRequest
from harness.system.files import disk_errors, write_atomically
from harness.system.json_text import digest, storable

from .column import Column, Out, Part, Question, Todo, paid
from .store import Rows, Store, about, is_part, read, table

STEERED = 16  # a problem counts as so many rows under a sampler that steers, which reads many tokens a step
MOST = 0.05  # largest missing share of all responses of a run
LOST = 0.5  # largest missing share of one call: above it the server is probably gone
SCORE = "score:"  # before a score's name, in the name of its column


def seed_of(purpose: str, seed: int, problem: Problem) -> int:
    """A 64-bit seed made from a purpose ("sample", "rank", "chance"), the run's seed and the problem's id."""
    return int(digest([purpose, seed, problem.id], 16), 16)


def response_rows(responses: Responses, names: Sequence[str] = ()) -> pa.Table:
    """The rows of one problem's responses; with a column `name` where a pool file names them (`names_of`)."""
    ids = responses.token_ids if responses.token_ids is not None else [None] * len(responses)
    columns = {
        "text": pa.array(map(storable, responses.texts), pa.string()),
        "finish": pa.array(responses.finish, pa.string()).dictionary_encode(),
        "length": np.asarray(responses.lengths, np.int64),
        "logprob": np.asarray(responses.logprobs, np.float64),
        "token_ids": pa.array(ids, pa.list_(pa.int32())),
    }
    columns |= {"name": pa.array(map(storable, names), pa.string())} if any(names) else {}
    columns |= {SCORE + storable(name): np.asarray(each, np.float64) for name, each in responses.scores.items()}
    lacking = {str(row): storable(why) for row, why in responses.missing.items()}
    return table(columns, {"missing": lacking} if lacking else None)


def responses_of(rows: pa.Table) -> Responses:
    """The responses of such rows, without states."""
    ids = rows["token_ids"]
    return Responses(
        texts=rows["text"].to_pylist(),
        finish=rows["finish"].to_pylist(),
        lengths=rows["length"].to_numpy(),
        logprobs=rows["logprob"].to_numpy(),
        token_ids=None if ids.null_count else ids.to_pylist(),
        missing={int(row): why for row, why in about(rows).get("missing", {}).items()},
        scores=scores_of(rows),
    )


def names_of(rows: pa.Table) -> list[str]:
    """What the pool file calls each response; empty if it names none, or was brought in before names were kept."""
    return list(rows["name"].to_pylist()) if "name" in rows.column_names else []


def scores_of(rows: pa.Table) -> dict[str, Any]:
    """The scores among a table's columns: name -> (n,) float64, NaN where unknown."""
    names = [name for name in rows.column_names if name.startswith(SCORE)]
    return {name.removeprefix(SCORE): rows[name].to_numpy() for name in names}


@dataclass(frozen=True)
class Sampled(Column):
    """Responses of a model: text, finish, length in tokens, logprob, token_ids. Row i has its own random stream."""

    kind: ClassVar[str] = "responses"
    verb: ClassVar[str] = "sample"
    noun: ClassVar[str] = "pool"
    is_costly: ClassVar[bool] = True
    by_rows: ClassVar[bool] = True
    reports: ClassVar[bool] = True
    uses_model: ClassVar[bool] = True

    task: str  # the name that its problems go by
    engine: Part
    sampler: Part
    n: int
    max_tokens: int
    seed: int
    stop: tuple[str, ...] | None = field(default=None, kw_only=True)  # strings that end a response

    @property
    def name(self) -> str:
        return f"{self.task}-{self.engine.built.name}"

    @property
    def steers(self) -> bool:
        return bool(getattr(self.sampler.built, "steers", False))

    @property
    def together(self) -> int:  # type: ignore[override]
        """As many problems as suit the engine in one call.

        A sampler that steers takes a problem's rows one after another, so only many problems make a batch.
        """
        return int(self.engine.built.problems_per_call(min(self.n, STEERED) if self.steers else self.n))

    @property
    def most_tokens(self) -> int:  # type: ignore[override]
        return self.max_tokens

    def brings(self, other: Column) -> bool:
        return other.kind == "vectors" and other.pool == self and bool(getattr(other, "state", ""))

    def rows(self, question: Question, read_from: Sequence[Path]) -> int:
        return self.n

    def request(self, todo: Sequence[Question], **more: Any) -> SampleRequest:
        """A request for responses to these problems, from their own random streams. `more`: other fields of it."""
        options: dict[str, Any] = {
            "prompts": [question.chat for question in todo],
            "n": self.n,
            "sampler": self.sampler.built,
            "max_tokens": self.max_tokens,
            "stop": self.stop or (),
            "seeds": [seed_of("sample", self.seed, question.problem) for question in todo],
        }
        return SampleRequest(**options | more)

    def journals(self, questions: Sequence[Question], out: Out) -> list[Path]:
        """The files in which the engine may keep what was paid for; their folder is there, if it is paid."""
        if self.payer:
            with disk_errors(out.root):
                paid(out.root, self).mkdir(parents=True, exist_ok=True)
        return [out.paid(question) for question in questions]

    def make(self, todo: Sequence[Todo], out: Out) -> None:
        """Sample, and keep each problem's responses when the engine has finished them, after their vectors.

        Where only some rows are missing, these are asked for, and put between the others.
        """
        out.require_same()
        if filling := [each for each in todo if each.partly]:
            kept = [responses_of(read(each.partly)) for each in filling if each.partly]
            out.report(sum(map(len, kept)))
            self._sampled(filling, out, kept)
        if whole := [each for each in todo if not each.partly]:
            sampled = self._sampled(whole, out)
            lost = [why for responses in sampled for why in responses.missing.values()]
            total = len(lost) + sum(map(len, sampled))
            if len(lost) > LOST * total:
                raise HarnessError(
                    f"sample: {len(lost)} of {total} responses asked for did not come ({lost[-1]}); what came is kept: "
                    "run the same command again for the rest"
                )

    def _sampled(self, todo: Sequence[Todo], out: Out, kept: Sequence[Responses] = ()) -> list[Responses]:
        vectors: Sequence[Any] = out.wanted  # of hidden states: the columns that this one brings
        journals = self.journals([each.question for each in todo], out)
        done: dict[int, tuple[int, int]] = {}

        def keep(j: int, sampled: Responses) -> None:
            whole = filled(kept[j], sampled) if kept else sampled
            if done.get(j) == (len(whole), len(whole.states)):  # an engine may report a problem twice,
                return
            done[j] = len(whole), len(whole.states)  # and its states only in the end
            states: dict[Column, Callable[[], Rows]] = {
                column: functools.partial(column.of_states, whole.states[column.state], todo[j].problem)
                for column in vectors
                if column.state in whole.states
            }
            out.keep(todo[j], response_rows(whole), states, partly=bool(whole.missing))
            journals[j].unlink(missing_ok=True)

        request = self.request(
            [each.question for each in todo],
            states=list(dict.fromkeys(column.state for column in vectors)),
            rows=[sorted(responses.missing) for responses in kept] if kept else None,
            report=out.report,
            tokens=out.tokens,
            journals=journals,
            done=keep,
        )
        finished: list[Responses] = self.engine.built.sample(request)
        for j, sampled in enumerate(finished):
            keep(j, sampled)
        return finished

    @property
    def payer(self) -> Charges | None:  # type: ignore[override]
        return self.engine.built if isinstance(self.engine.built, Charges) else None

    def require_most(self, store: Store, questions: Sequence[Question]) -> str:
        """A line about rows that did not arrive; HarnessError if more than 5 % did not, or all of one problem."""
        paths = [(question, store.path(self, question)) for question in questions]
        partly = {question.problem.id: responses_of(read(path)) for question, path in paths if path and is_part(path)}
        if not partly:
            return ""
        missing, total = sum(len(each.missing) for each in partly.values()), self.n * len(questions)
        why = next(why for each in partly.values() for why in each.missing.values())
        count = f"{missing:,} of {total:,} responses did not come ({why})"
        if empty := next((name for name, each in partly.items() if not len(each)), None):
            raise HarnessError(f"sample: {count}, among them all of problem {empty!r}; what came is kept: run it again")
        if missing > MOST * total:
            raise HarnessError(f"sample: {count}, more than {MOST:.0%}; what came is kept: run it again")
        smaller = f"{len(partly)} problem{'s have' if len(partly) > 1 else ' has'} a smaller N"
        return f"sample: {count}: {smaller}; the next run asks for them again"


def filled(kept: Responses, arrived: Responses) -> Responses:
    """Responses of which some rows were missing, with those that arrived now, in the order of their rows."""
    new = sorted(set(kept.missing) - set(arrived.missing))
    present = [row for row in range(len(kept) + len(kept.missing)) if row not in kept.missing]
    order = np.argsort([*present, *new], kind="stable")
    texts, finish = [*kept.texts, *arrived.texts], [*kept.finish, *arrived.finish]
    known = kept.token_ids is not None and arrived.token_ids is not None
    ids = [*(kept.token_ids or ()), *(arrived.token_ids or ())] if known else None
    return replace(
        arrived,
        texts=[texts[at] for at in order],
        finish=[finish[at] for at in order],
        lengths=np.concatenate([kept.lengths, arrived.lengths])[order],
        logprobs=np.concatenate([kept.logprobs, arrived.logprobs])[order],
        token_ids=ids and [ids[at] for at in order],
        states={},
        scores={
            name: np.concatenate([values, arrived.scores[name]])[order]
            for name, values in kept.scores.items()
            if name in arrived.scores
        },
    )


@dataclass(frozen=True)
class Imported(Column):
    """Responses of a pool made elsewhere, which may bring verdicts.

    file    its hash
    task    the name that its problems go by; "" for a pool without a task
    how     what else fixes which line belongs to which problem: split, layout, table of ids
    joined  the file's lines, each with its problem
    """

    kind: ClassVar[str] = "responses"
    verb: ClassVar[str] = "import"
    is_costly: ClassVar[bool] = True
    reports: ClassVar[bool] = True
    here: ClassVar[bool] = True  # the file need not be on other machines,
    together: ClassVar[int] = 1 << 62  # and is read once

    file: str
    task: str
    how: str
    joined: Joined = field(compare=False, repr=False)

    @functools.cached_property
    def name(self) -> str:
        return self.joined.path.name.partition(".")[0] or "pool"

    def brings(self, other: Column) -> bool:
        return other.kind == "verdicts" and getattr(other, "given", False)

    def make(self, todo: Sequence[Todo], out: Out) -> None:
        wanted = {each.problem.id: each for each in todo}
        for record, problem in self.joined:
            if each := wanted.get(problem.id):
                responses = record.as_responses()
                brought: Mapping[Column, Callable[[], Rows]] = {
                    column: functools.partial(column.of_record, each.problem, record, out)  # type: ignore[attr-defined]
                    for column in out.wanted
                }
                out.keep(each, response_rows(responses, record.names), brought)
                out.report(1)
        content = json.dumps(self.joined.index(), ensure_ascii=True)
        write_atomically(self._index_file(out.root, digest(content, 16)), content.encode())

    def kept_index(self, root: Path) -> dict[str, Any] | None:
        """What the file says of each problem, kept when it was brought in; None if it was not."""
        pattern = self._index_file(root, "*")
        with suppress(OSError, ValueError):
            for path in pattern.parent.glob(pattern.name):
                content = path.read_bytes().decode()
                if digest(content, 16) == path.name.split(".")[2]:
                    index: dict[str, Any] = json.loads(content)
                    return index
        return None

    def _index_file(self, root: Path, hashed: str) -> Path:
        """Its name holds the hash of the problems that lines were joined to, and that of its content."""
        join = self.joined.join
        problems = [[each.id, each.prompt, repr(each.reference)] for each in join.by_id.values()] if join else []
        return root / self.pool_name / f"index.{digest(problems, 12)}.{hashed}.json"
