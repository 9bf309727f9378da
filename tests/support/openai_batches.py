"""The batch endpoint of `openai_server`: files, batches that end when a test says, results to download."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Batches:
    """What the endpoint holds, and how it behaves.

    polls     how often a batch is asked for before it has ended
    ends      the status that it ends with
    answers   of an expired or cancelled batch: how many requests were answered
    created   called after a batch was created, before its answer is sent, with the handler
    download  called in place of the answer to a download, with the handler and the content
    """

    polls: int = 1
    ends: str = "completed"
    answers: int = 0
    files: dict[str, bytes] = field(default_factory=dict)
    made: dict[str, dict[str, Any]] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)
    created: Callable[..., Any] | None = None
    polled: Callable[..., Any] | None = None
    download: Callable[..., Any] | None = None
    numbers: Any = field(default_factory=itertools.count)

    def get(self, handler: Any) -> None:
        self.seen.append(f"GET {handler.path}")
        if handler.path.startswith("/v1/batches?"):
            return handler.send(200, {"data": list(self.made.values())[::-1], "has_more": False})
        if content := re.fullmatch(r"/v1/files/([\w-]+)/content", handler.path):
            send = self.download or (lambda handler, content: handler.send(200, content))
            return send(handler, self.files[content[1]])
        batch = self.made.get(handler.path.removeprefix("/v1/batches/"))
        if batch is None:
            return handler.refuse(404, "No such batch")
        if self.polled:
            self.polled(handler)
        if batch["left"] > 0:
            batch["left"] -= 1
        elif batch["status"] == "in_progress":
            self._end(batch, handler)
        handler.send(200, batch)

    def post(self, handler: Any, content: bytes) -> None:
        self.seen.append(f"POST {handler.path}")
        if handler.path == "/v1/files":
            return handler.send(200, {"id": self._file(_uploaded(handler, content))})
        wanted = json.loads(content)
        identifier = f"batch_{next(self.numbers)}"
        assert wanted["completion_window"] == "24h"
        self.made[identifier] = {"id": identifier, "status": "in_progress", "left": self.polls, **wanted}
        if self.created and self.created(handler):
            return
        handler.send(200, self.made[identifier])

    def _file(self, content: bytes) -> str:
        name = f"file-{next(self.numbers)}"
        self.files[name] = content
        return name

    def _end(self, batch: dict[str, Any], handler: Any) -> None:
        batch["status"] = self.ends
        if self.ends == "failed":
            batch["errors"] = {"data": [{"code": "invalid_json_line", "message": "Line 1 is no JSON.", "line": 1}]}
            return
        lines = self.files[batch["input_file_id"]].decode().splitlines()
        done, errors = [], []
        for number, line in enumerate(lines):
            request = json.loads(line)
            result: dict[str, Any] = {"id": f"r{number}", "custom_id": request["custom_id"]}
            if self.ends != "completed" and number >= self.answers:
                errors.append({**result, "response": None, "error": {"code": "batch_expired", "message": "Too late."}})
                continue
            status, body = handler.outcome(request["body"], request["url"])
            (done if status == 200 else errors).append({**result, "response": {"status_code": status, "body": body}})
        batch["request_counts"] = {"total": len(lines), "completed": len(done), "failed": len(errors)}
        for name, results in (("output_file_id", done), ("error_file_id", errors)):
            if results:
                batch[name] = self._file("".join(f"{json.dumps(each)}\n" for each in reversed(results)).encode())


def _uploaded(handler: Any, content: bytes) -> bytes:
    """The file of a form, whose purpose must be a batch."""
    kind, _, boundary = handler.headers["Content-Type"].partition("; boundary=")
    assert kind == "multipart/form-data", kind
    fields = {}
    for part in content.split(f"--{boundary}".encode())[1:-1]:
        head, _, value = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        fields[re.search(rb'name="(\w+)"', head)[1].decode()] = value.removesuffix(b"\r\n")
    assert fields["purpose"] == b"batch"
    return fields["file"]
