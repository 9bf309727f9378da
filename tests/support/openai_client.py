"""Engine `openai` as several files call it: two chats, short pauses, rows of the parrot, whole runs of the toy task."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from harness import Responses, Sampler
from harness.records import SampleRequest
from harness_plugins.engines.openai import requests
from harness_plugins.engines.openai.engine import LONG_SEEDS, OpenAI, seed_base

from .paths import TOY

CHAT = [{"role": "user", "content": "Use 4, 5, 6 and 10 to make 24."}]
OTHER = [{"role": "user", "content": "Use 1, 2, 3 and 4 to make 24."}]
SECRET = "sk-very-secret-0123456789"
UNKNOWN = {"owner": "someone", "context": None}  # a server that is not known to seed rows as vLLM does


@pytest.fixture
def short_pauses(monkeypatch):
    """Short pauses; no key and no address of the machine's owner."""
    monkeypatch.setattr(requests, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(requests, "LONGEST_PAUSE_S", 0.05)
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def sample(engine: OpenAI, prompts: Sequence[Any] = (CHAT,), n: int = 4, **options: Any) -> list[Responses]:
    """Sample n short responses to each prompt, with the seeds 7, 8, ..."""
    seeds = range(7, 7 + len(prompts))
    fixed = {"sampler": Sampler(), "max_tokens": 8, "seeds": seeds}
    return engine.sample(SampleRequest(list(prompts), n=n, **fixed | options))


def parrot_texts(rows: Iterable[int], below: int = LONG_SEEDS, seed: int = 7) -> list[str]:
    """What the parrot answers for rows of a problem."""
    return [f"say {seed_base(seed, below) + row}" for row in rows]


def run_colours(harness, folder, url, more="retries=0,concurrency=1", n=20, limit=2):
    """Run the toy task on a server; each row is one request."""
    command = ("run", "--task", "colours", "--plugin", TOY, "--engine", f"openai:url={url},{more}", "--json")
    command += ("--selector", "uniform", "--selector", "repexp", "--embedder", "tfidf", "--n", n, "--limit", limit)
    return harness(*command, "--store", folder)


def colour(body, prompt, seeds):
    """Rows for the toy task, sampled with their seeds."""
    return [(f"say {('red', 'green', 'blue', 'white')[seed * 7 % 11 % 4]}", "stop", [1], -1.0) for seed in seeds]


def of_first_row(fault):
    """The fault, always, of the first row that is sampled (a check has seed 0)."""
    unlucky = []

    def only(handler, body):
        if body["seed"] and not unlucky:
            unlucky.append(body["seed"])
        return fault(handler, body) if body["seed"] in unlucky else handler.answer(body)

    return only
