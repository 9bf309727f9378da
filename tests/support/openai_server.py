"""A real HTTP server on loopback that speaks OpenAI's API, what breaks it, and how tests sample from it.

It answers with `generate`: a seed in, a row out. The embedded model samples; the parrot says its seed, which is quick.
`faults` are called one a request, in turn, in place of an answer; `fault` in place of every other one.
"""

import contextlib
import json
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from harness import Responses, Sampler
from harness.records import SampleRequest
from harness_plugins.engines.openai import requests
from harness_plugins.engines.openai.engine import LONG_SEEDS, OpenAI, seed_base
from harness_plugins.engines.transformers.engine import Transformers

from .paths import TOY

MODEL = "tiny24"
LOCK = threading.Lock()
CHAT = [{"role": "user", "content": "Use 4, 5, 6 and 10 to make 24."}]
OTHER = [{"role": "user", "content": "Use 1, 2, 3 and 4 to make 24."}]
UNKNOWN = {"owner": "someone", "context": None}  # a server that is not known to seed rows as vLLM does


@cache
def embedded() -> Transformers:
    return Transformers(model=MODEL, device="cpu")


def tiny24(body, prompt, seed):
    """A row of the embedded model: text, finish, token ids, log-probability of all."""
    given = {name: body[name] for name in ("temperature", "top_p", "min_p") if name in body}
    sampler = Sampler(**given, top_k=max(0, body.get("top_k", 0)))
    request = SampleRequest([prompt], 1, sampler, body["max_tokens"], [seed], stop=body.get("stop", ()))
    with LOCK:
        (row,) = embedded().sample(request)
    return row.texts[0], row.finish[0], row.token_ids[0], float(row.logprobs[0])


def parrot(body, prompt, seed):
    return f"say {seed}", "stop", [seed % 1000, 7], -(seed % 10) / 4


def colour(body, prompt, seed):
    """A row for the toy task."""
    return f"say {('red', 'green', 'blue', 'white')[seed * 7 % 11 % 4]}", "stop", [1], -1.0


@dataclass
class Behaviour:
    """How the server behaves; `bodies` holds those of the requests for responses."""

    generate: Callable[..., Any] = parrot
    model: str = MODEL
    owner: str = "vllm"
    context: int | None = 128
    key: str | None = None
    refuses: tuple[str, ...] = ()
    lists: bool = True
    faults: list[Callable[..., None] | None] = field(default_factory=list)
    fault: Callable[..., None] | None = None
    bodies: list[dict[str, Any]] = field(default_factory=list)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else every answer, sent in two parts, waits 40 ms for an acknowledgement
    behaviour: Behaviour

    def log_message(self, *args):
        pass

    def send(self, status, value, headers=()):
        content = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        more = {"Content-Type": "application/json", "Content-Length": str(len(content)), **dict(headers)}
        for header in more.items():
            self.send_header(*header)
        self.end_headers()
        self.wfile.write(content)

    def refuse(self, status, message):
        self.send(status, {"error": {"message": message}})

    def opens(self):
        given, key = self.headers.get("Authorization", ""), self.behaviour.key
        if key and given != f"Bearer {key}":
            self.refuse(401, f"Incorrect API key provided: {given}. \x1b[31mGo away.\n")
        return not key or given == f"Bearer {key}"

    def do_GET(self):
        behaviour = self.behaviour
        if self.opens():
            entry = {"id": behaviour.model, "created": time.time_ns(), "owned_by": behaviour.owner}
            entry |= {"root": f"/home/someone/models/{behaviour.model}", "max_model_len": behaviour.context}
            self.send(200 if behaviour.lists else 404, {"data": [entry]})

    def do_POST(self):
        content, behaviour = self.rfile.read(int(self.headers["Content-Length"])), self.behaviour
        if not self.opens():
            return
        body = json.loads(content)
        with LOCK:
            behaviour.bodies.append(body)
            fault = behaviour.faults.pop(0) if behaviour.faults else behaviour.fault
        fault(self, body) if fault else self.answer(body)

    def answer(self, body):
        behaviour, chat = self.behaviour, self.path == "/v1/chat/completions"
        if body["model"] != behaviour.model:
            return self.refuse(404, f"The model `{body['model']}` does not exist.")
        for name in set(behaviour.refuses) & set(body):
            return self.refuse(400, f"Unrecognized request argument supplied: {name}")
        prompt = body["messages"] if chat else [{"role": "user", "content": body["prompt"]}]
        length = len(embedded()._checkpoint.prompt_ids(prompt)) if behaviour.context else len(str(prompt).split())
        if behaviour.context and length + body["max_tokens"] > behaviour.context:
            return self.refuse(400, f"This model's maximum context length is {behaviour.context} tokens.")
        seed = body.get("seed", time.time_ns() % 2**30)
        text, finish, ids, logprob = behaviour.generate(body, prompt, seed)
        choice: dict[str, Any] = {"index": 0, "finish_reason": finish}
        choice |= {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
        choice |= {"token_ids": ids} if body.get("return_token_ids") else {}
        if "logprobs" in body:
            parts = [logprob] + [0.0] * (len(ids) - 1)
            content = [{"token": "t", "logprob": part} for part in parts]
            choice["logprobs"] = {"content": content} if chat else {"token_logprobs": parts}
        counts = {"prompt_tokens": length, "completion_tokens": len(ids)}
        self.send(200, {"choices": [choice], "usage": counts})


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
    handler.send(200, b'{"choices": [{"index": 0, "mess', {"Content-Length": "5000"})
    handler.connection.shutdown(socket.SHUT_RDWR)
    handler.close_connection = True


def trickle(part: bytes, pause_s: float) -> Callable[..., None]:
    """An answer that never ends, part by part."""

    def fault(handler: Handler, body: Any) -> None:
        with contextlib.suppress(OSError):
            handler.send(200, part, {"Content-Length": str(2**40)})
            while True:
                time.sleep(pause_s)
                handler.wfile.write(part)

    return fault


def of_first_row(fault):
    """The fault, always, of the first row that is sampled (a check has seed 0)."""
    unlucky = []

    def only(handler, body):
        if body["seed"] and not unlucky:
            unlucky.append(body["seed"])
        return fault(handler, body) if body["seed"] in unlucky else handler.answer(body)

    return only


# Clients.


@pytest.fixture
def short_pauses(monkeypatch):
    """Short pauses; no key and no address of the machine's owner."""
    monkeypatch.setattr(requests, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(requests, "LONGEST_PAUSE_S", 0.05)
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def sample(engine: OpenAI, prompts: Sequence[Any] = (CHAT,), n: int = 4, **options: Any) -> list[Responses]:
    """Sample n short responses to each prompt, with the seeds 7, 8, ..."""
    fixed = {"sampler": Sampler(), "max_tokens": 8, "seeds": range(7, 7 + len(prompts))}
    return engine.sample(SampleRequest(list(prompts), n=n, **fixed | options))


def parrot_texts(rows: Iterable[int], below: int = LONG_SEEDS, seed: int = 7) -> list[str]:
    """What the parrot answers for rows of a problem."""
    return [f"say {seed_base(seed, below) + row}" for row in rows]


def run_colours(harness, folder, url, options="retries=0,concurrency=1", *more, n=20):
    """Run the toy task on a server; each row is one request."""
    command = ("run", "--task", "colours", "--plugin", TOY, "--engine", f"openai:url={url},{options}", "--json")
    return harness(*command, "--n", n, "--limit", 2, "--store", folder, *more)
