"""A real HTTP server on loopback that speaks OpenAI's API; what it knows, refuses and breaks can be set.

It answers with `generate`: a seed in, a row out. The embedded model samples; the parrot says its seed, which is quick.
`faults` are called one a request, in turn, in place of an answer.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from harness import Sampler
from harness.records import SampleRequest
from harness_plugins.engines.transformers.engine import Transformers

MODEL = "tiny24"
LOCK = threading.Lock()


@cache
def embedded() -> Transformers:
    return Transformers(model=MODEL, device="cpu")


def tiny24(body, prompt, seeds):
    """Rows of the embedded model: text, finish, token ids, log-probability of all."""
    names = ("temperature", "top_p", "min_p")
    sampler = Sampler(**{name: body[name] for name in names if name in body}, top_k=max(0, body.get("top_k", 0)))
    limit, stop = body.get("max_tokens", body.get("max_completion_tokens")), body.get("stop", ())
    seeds = [seed % 2**63 for seed in seeds]
    with LOCK:
        responses = embedded().sample(SampleRequest([prompt] * len(seeds), 1, sampler, limit, seeds, stop=stop))
    return [(row.texts[0], row.finish[0], row.token_ids[0], float(row.logprobs[0])) for row in responses]


def parrot(body, prompt, seeds):
    """Rows that say their seed."""
    return [(f"say {seed}", "stop", [seed % 1000, 7], -(seed % 10) / 4) for seed in seeds]


@dataclass
class Behaviour:
    """How the server behaves; `bodies` holds those of the requests for responses, `most_at_once` how many were open."""

    generate: Callable[..., Any] = parrot
    model: str = MODEL
    owner: str = "vllm"
    context: int | None = 128
    key: str | None = None
    refuses: tuple[str, ...] = ()
    ignores: tuple[str, ...] = ()
    omits: tuple[str, ...] = ()  # of "logprobs", "token_ids", "usage": what no answer holds
    lists: bool = True
    faults: list[Callable[..., None]] = field(default_factory=list)
    fault: Callable[..., None] | None = None  # of every request
    bodies: list[dict[str, Any]] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)  # what `usage` holds beside the two counts
    at_once: int = 0
    most_at_once: int = 0


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else every answer, sent in two parts, waits 40 ms for an acknowledgement
    behaviour: Behaviour

    def log_message(self, *args):
        pass

    def send(self, status, value, headers=()):
        content = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        for name, header in {"Content-Type": "application/json", **dict(headers)}.items():
            self.send_header(name, header)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def refuse(self, status, message, **more):
        self.send(status, {"error": {"message": message, "type": "invalid_request_error", **more}})

    def opens(self):
        given = self.headers.get("Authorization", "")
        if self.behaviour.key is None or given == f"Bearer {self.behaviour.key}":
            return True
        self.refuse(401, f"Incorrect API key provided: {given}. \x1b[31mGo away.\n")
        return False

    def do_GET(self):
        if not self.opens():
            return
        if self.path != "/v1/models" or not self.behaviour.lists:
            return self.send(404, {"detail": "Not Found"})
        name, owner = self.behaviour.model, self.behaviour.owner
        entry = {"id": name, "object": "model", "created": int(time.time() * 1000), "owned_by": owner}
        entry["root"] = f"/home/someone/models/{name}"
        if self.behaviour.context:
            entry |= {"max_model_len": self.behaviour.context, "permission": [{"id": str(time.time())}]}
        self.send(200, {"object": "list", "data": [entry]})

    def do_POST(self):
        content = self.rfile.read(int(self.headers["Content-Length"]))
        behaviour = self.behaviour
        if not self.opens():
            return
        body = json.loads(content)
        with LOCK:
            behaviour.bodies.append(body)
            behaviour.times.append(time.monotonic())
            behaviour.at_once += 1
            behaviour.most_at_once = max(behaviour.most_at_once, behaviour.at_once)
            fault = behaviour.faults.pop(0) if behaviour.faults else behaviour.fault
        try:
            fault(self, body) if fault else self.answer(body)
        finally:
            with LOCK:
                behaviour.at_once -= 1

    def answer(self, body):
        behaviour = self.behaviour
        if body["model"] != self.behaviour.model:
            return self.refuse(404, f"The model `{body['model']}` does not exist.", code="model_not_found")
        for name in behaviour.refuses:
            if name in body:
                return self.refuse(400, f"Unrecognized request argument supplied: {name}")
        body = {name: value for name, value in body.items() if name not in behaviour.ignores}
        chat = self.path == "/v1/chat/completions"
        prompt = body["messages"] if chat else [{"role": "user", "content": body["prompt"]}]
        limit = body.get("max_tokens", body.get("max_completion_tokens"))
        length = len(embedded()._checkpoint.prompt_ids(prompt))
        if behaviour.context and length + limit > behaviour.context:
            return self.refuse(400, f"This model's maximum context length is {behaviour.context} tokens.")
        first = body.get("seed", int(time.time_ns() % 2**30))
        rows = behaviour.generate(body, prompt, range(first, first + 1))
        choices = [self.choice(i, row, body, chat) for i, row in enumerate(rows)]
        answer: dict[str, Any] = {"id": "x", "object": "y", "model": MODEL, "choices": choices}
        if "usage" not in behaviour.omits:
            counts = {"prompt_tokens": length, "completion_tokens": sum(len(row[2]) for row in rows)}
            answer["usage"] = counts | behaviour.details
        self.send(200, answer)

    def choice(self, i, row, body, chat):
        text, finish, ids, logprob = row
        choice: dict[str, Any] = {"index": i, "finish_reason": finish}
        choice |= {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
        if body.get("return_token_ids") and "token_ids" not in self.behaviour.omits:
            choice["token_ids"] = ids
        if "logprobs" in body and "logprobs" not in self.behaviour.omits:
            parts = [logprob] + [0.0] * (len(ids) - 1)
            content = [{"token": "t", "logprob": part, "top_logprobs": []} for part in parts]
            choice["logprobs"] = {"content": content} if chat else {"token_logprobs": parts, "tokens": ["t"] * len(ids)}
        return choice


@contextlib.contextmanager
def serving(**behaviour: Any) -> Iterator[tuple[str, Behaviour]]:
    """A running server's url, and its behaviour, which may be changed."""
    handler = type("Own", (Handler,), {"behaviour": Behaviour(**behaviour)})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    server.handle_error = lambda *args: None  # a client may leave in the middle of an answer
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.02), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", handler.behaviour
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


# Faults.


def status(code: int, message: str = "overloaded", headers=()) -> Callable[..., None]:
    return lambda handler, body: handler.send(code, {"error": {"message": message}}, headers)


def raw(content: bytes, code: int = 200, headers=()) -> Callable[..., None]:
    return lambda handler, body: handler.send(code, content, headers)


def reset(handler: Handler, body: Any) -> None:
    """Close with RST, before any byte of an answer."""
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    os.close(handler.connection.detach())  # the handler's files would keep an ordinary close from being one


def half(handler: Handler, body: Any) -> None:
    """Promise more than comes."""
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", "5000")
    handler.end_headers()
    handler.wfile.write(b'{"choices": [{"index": 0, "mess')
    handler.wfile.flush()
    handler.connection.shutdown(socket.SHUT_RDWR)
    handler.close_connection = True


def none(handler: Handler, body: Any) -> None:
    """No fault: answer."""
    handler.answer(body)


def silent(handler: Handler, body: Any) -> None:
    """Answer after ten minutes."""
    time.sleep(600)


def dribble(handler: Handler, body: Any) -> None:
    """A byte now and then, for a minute at least."""
    handler.send_response(200)
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    with contextlib.suppress(OSError):
        for _ in range(1200):
            handler.wfile.write(b" ")
            handler.wfile.flush()
            time.sleep(0.05)


def endless(handler: Handler, body: Any) -> None:
    """More bytes than anyone has asked for."""
    handler.send_response(200)
    handler.send_header("Content-Length", str(2**34))
    handler.end_headers()
    with contextlib.suppress(OSError):
        for _ in range(2**10):
            handler.wfile.write(b" " * 2**20)
