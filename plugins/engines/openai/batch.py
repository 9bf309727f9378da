"""Request rows by a provider's batch endpoint, in OpenAI's form: upload requests, create a batch, poll, fetch results.

A batch is written down in the pool's folder (`account`) before it is created, with a name that the server keeps as its
metadata. So a killed run finds it again, even if it was killed before it knew the batch's id; and nothing is requested
while results are still to be fetched. Every result is written to its problem's journal, whichever run asked for it. The
batch counts as spent, at its worst, until all of its results are kept.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import HarnessError
from harness.system.progress import doing

from .account import Account, Entry
from .batch_results import Results
from .described import PATHS
from .prices import Tokens, worst_case
from .requests import Refused, Session, Unanswered
from .wire import Malformed, reason_in

if TYPE_CHECKING:
    from .engine import OpenAI
    from .rows import RowSampling

MOST_REQUESTS = 50_000  # in a batch; OpenAI's limit
MOST_BYTES = 100 * 2**20  # of a file of requests; half of OpenAI's limit
WINDOW = "24h"  # the only one that OpenAI has
POLL_S, LONGEST_POLL_S, SLOWER = 2.0, 60.0, 1.3
ENDED = ("completed", "failed", "expired", "cancelled")
MARK = "diversity-harness"  # of a batch's metadata: the name of its entry
PAGES = 20  # of the server's list of batches, in which a batch is looked for
ANSWER_BYTES = 2**20
LINE_BYTES = 256 * 2**20
CREATIONS = 3
ID = re.compile(r"[A-Za-z0-9_.-]{1,200}")


async def by_batch(sampling: RowSampling) -> None:
    """Fill the results of all rows: fetch what earlier batches have, then create batches of the rest.

    HarnessError if a batch cannot be created or fetched; what was fetched is in the journals.
    """
    account = sampling.engine._account
    if not sampling.request.journals:
        raise HarnessError("openai: batch=true needs a store that keeps the batches: sample by `harness run`")
    async with Session(sampling.engine._server) as session:
        batches = Batches(sampling.engine, session, sampling.request.journals[0])
        for entry in account.batches:
            await batches.fetch(entry)
        sampling.read_journals()
        while part := _next_batch(sampling):
            entry = account.begin_batch(part.worst)
            await batches.create(entry, part)
            failures = await batches.fetch(entry)
            sampling.read_journals()
            for (name, row), reason in failures.items():
                if name in part.places:
                    sampling.results[part.places[name]].setdefault(row, reason)
            part.close(sampling, "the batch has no result for it")
    for j, rows in enumerate(sampling.rows_of):
        sampling.results[j] = {**dict.fromkeys(rows, account.over), **sampling.results[j]}
        sampling.report_done(j)


def require_none_open(account: Account) -> None:
    """Raise HarnessError if results of a batch are still to be fetched, which would be paid for twice."""
    for entry in account.batches:
        raise HarnessError(
            f"openai: batch {entry.batch or entry.name} of this pool is not fetched yet: give batch=true to fetch it, "
            f"or delete {account.path(entry)} to ask (and pay) for its responses again"
        )


@dataclass
class Part:
    """The requests of one batch: their lines, the places of their prompts by journal, and the most that they use."""

    lines: list[bytes] = field(default_factory=list)
    asked: list[tuple[int, list[int]]] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)
    worst: Tokens = field(default_factory=Tokens)

    def close(self, sampling: RowSampling, reason: str) -> None:
        """Give the rows that have no result the reason, so that they are not requested again in this run."""
        for j, rows in self.asked:
            sampling.results[j] = {**dict.fromkeys(rows, reason), **sampling.results[j]}


def _next_batch(sampling: RowSampling) -> Part | None:
    """Return the next rows that fit a batch and the caps; None if no row is left, or the first one exceeds a cap."""
    engine, request, part, size = sampling.engine, sampling.request, Part(), 0
    form = engine._form or engine._first_form
    for j, rows in sampling.to_do():
        worst = worst_case(request.prompts[j], len(rows), request.max_tokens)
        if not engine._account.fits(part.worst + worst, batch=True):
            if not part.lines:
                engine._account.stopped(worst, batch=True)
            break
        seed = sampling.seed(j, rows)
        body = form.body(engine._model, request.prompts[j], request.sampler, request.max_tokens, seed, len(rows))
        name = request.journals[j].name.partition(".")[0]
        entry = {"custom_id": f"{name}-{rows[0]}-{len(rows)}", "method": "POST", "url": f"/v1{PATHS[engine.api]}"}
        line = json.dumps({**entry, "body": body}).encode()
        if part.lines and (len(part.lines) == MOST_REQUESTS or size + len(line) > MOST_BYTES):
            break
        size, part.worst = size + len(line) + 1, part.worst + worst
        part.lines.append(line)
        part.asked.append((j, rows))
        part.places[name] = j
    return part if part.lines else None


class Batches:
    """The batches of one pool at a server. `journal`: that of any problem; the others' names have the same form."""

    def __init__(self, engine: OpenAI, session: Session, journal: Path) -> None:
        self.engine, self.session, self.account, self.journal = engine, session, engine._account, journal

    # Create.

    async def create(self, entry: Entry, part: Part) -> None:
        """Upload the requests, create the batch, and write down its id."""
        try:
            file = await self._upload(entry, b"\n".join(part.lines) + b"\n")
            created = await self._created(entry, file)
        except Refused as refusal:
            self.account.end_batch(entry, Tokens())
            raise HarnessError(f"openai: the server takes no batch ({refusal}): leave out batch=true") from None
        except Unanswered as failure:
            raise HarnessError(f"openai: the batch cannot be created: {failure}: run the same command again") from None
        self._write_id(entry, created)

    async def _upload(self, entry: Entry, content: bytes) -> str:
        boundary = f"batch-{entry.name}"
        form = {'name="purpose"': b"batch", f'name="file"; filename="{entry.name}.jsonl"': content}
        parts = [
            f"--{boundary}\r\nContent-Disposition: form-data; {name}\r\n\r\n".encode() + value + b"\r\n"
            for name, value in form.items()
        ]
        body, kind = b"".join(parts) + f"--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"
        answer = await self.session.answered(lambda: self.session.once("POST", "/files", body, ANSWER_BYTES, kind))
        return _id(answer, "file")

    async def _created(self, entry: Entry, file: str) -> Any:
        """Return the created batch. After a failure it is looked for before another one is created."""
        request = {"input_file_id": file, "endpoint": f"/v1{PATHS[self.engine.api]}", "completion_window": WINDOW}
        body = json.dumps({**request, "metadata": {MARK: entry.name}}).encode()
        tries = 0
        while True:
            try:
                return await self.session.answered(
                    lambda: self.session.once("POST", "/batches", body, ANSWER_BYTES), waits=False
                )
            except Unanswered:
                tries += 1
                if found := await self._found(entry):
                    return found
                if tries == CREATIONS:
                    raise

    async def _found(self, entry: Entry) -> Any:
        """Return the server's batch with the entry's name; None if there is none."""
        after = ""
        for _ in range(PAGES):
            answer = await self.session.get(f"/batches?limit=100{after}", LINE_BYTES, waits=True)
            batches = [each for each in _list(answer, "data") if isinstance(each, dict)]
            for batch in batches:
                if isinstance(batch.get("metadata"), dict) and batch["metadata"].get(MARK) == entry.name:
                    return batch
            if not batches or not answer.get("has_more"):
                break
            after = f"&after={_id(batches[-1], 'batch')}"
        return None

    def _write_id(self, entry: Entry, batch: Any) -> None:
        entry.batch = _id(batch, "batch")
        self.account.write(entry, durable=True)

    # Fetch.

    async def fetch(self, entry: Entry) -> dict[tuple[str, int], str]:
        """Wait for a batch's end and write its results to the journals; return why rows failed: (name, row) -> reason.

        HarnessError if the batch failed as a whole, or the server does not answer; then the next run goes on with it.
        """
        try:
            if not entry.batch:
                found = await self._found(entry)
                if not found:  # killed before it was created
                    self.account.end_batch(entry, Tokens())
                    return {}
                self._write_id(entry, found)
            batch = await self._ended(entry)
            results = Results(self.engine, self.journal, entry.in_flight.requests)
            for name in ("output_file_id", "error_file_id"):
                if batch.get(name):
                    file = _id({"id": batch[name]}, name)
                    await self.session.lines(f"/files/{file}/content", LINE_BYTES, results.add)
        except (Unanswered, Refused, Malformed) as failure:
            raise HarnessError(
                f"openai: batch {entry.batch or entry.name} cannot be fetched: {failure}; the same command tries it "
                f"again, and who deletes {self.account.path(entry)} gives it up"
            ) from None
        results.sync()
        self.account.end_batch(entry, results.used)
        if batch["status"] == "failed" and not results.tokens:
            raise HarnessError(f"openai: batch {entry.batch} failed: {self._why(batch)}")
        return results.failures

    async def _ended(self, entry: Entry) -> Mapping[str, Any]:
        """Return the batch once it has ended, polled more and more slowly."""
        pause = POLL_S
        while True:
            batch = await self.session.get(f"/batches/{entry.batch}", ANSWER_BYTES, waits=True)
            if not isinstance(batch, dict):
                raise Malformed("an answer that is no batch")
            if batch.get("status") in ENDED:
                return batch
            with doing(f"batch {entry.batch}{_count(batch)}"):
                await asyncio.sleep(pause)
            pause = min(LONGEST_POLL_S, pause * SLOWER)

    def _why(self, batch: Mapping[str, Any]) -> str:
        errors = batch.get("errors")
        reasons = [reason_in({"error": each}) for each in _list(errors, "data")]
        return self.engine._server.key.shown("; ".join(filter(None, reasons[:3])) or "the server does not say why")


def _id(value: Any, what: str) -> str:
    identifier = value.get("id") if isinstance(value, dict) else None
    if not isinstance(identifier, str) or not ID.fullmatch(identifier):
        raise Unanswered(f"an answer without the id of a {what}")
    return identifier


def _list(value: Any, name: str) -> Sequence[Any]:
    values = value.get(name) if isinstance(value, dict) else None
    return values if isinstance(values, list) else []


def _count(batch: Mapping[str, Any]) -> str:
    counts = batch.get("request_counts")
    if not isinstance(counts, dict) or not counts.get("total"):
        return f": {batch.get('status')}"
    return f": {counts.get('completed')} of {counts.get('total')} requests"
