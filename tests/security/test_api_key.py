"""The key of engine `openai` is in no file, no line and no field, however a server echoes it."""

from __future__ import annotations

import pickle
from base64 import b64encode, encodebytes, urlsafe_b64encode

import pytest
from support.openai_client import SECRET, UNKNOWN, of_first_row, run_colours, sample, short_pauses  # noqa: F401
from support.openai_server import serving
from support.refusals import error_line, refusal_of
from support.stores import contents

from harness.plugin_system.component import parameters
from harness_plugins.engines.openai.engine import OpenAI
from harness_plugins.engines.openai.requests import Server

pytestmark = pytest.mark.usefixtures("short_pauses")

KEY = "sk-Very-secret_0123456789abcdefXYZ"
ECHOES = {
    "as it is": lambda key: key, "in capitals": lambda key: key.upper(),
    "percent-encoded": lambda key: "".join(f"%{ord(letter):02X}" for letter in key),
    "percent-encoded in part": lambda key: key.replace("-", "%2D"), "in hex": lambda key: key.encode().hex(),
    **{f"in base64 after {n}": lambda key, n=n: b64encode(b"Bearer "[:n] + key.encode()).decode() for n in range(8)},
    "in base64 amid others": lambda key: b64encode(f"user:{key}:host\n".encode()).decode(),
    "in base64 of urls": lambda key: urlsafe_b64encode(f"??>{key}~~".encode()).decode(),
    "in wrapped base64": lambda key: encodebytes(f"{'x' * 40}{key}{'x' * 40}".encode()).decode(),
}  # fmt: skip


def server(variable="OPENAI_API_KEY"):
    return Server("http://host/v1", variable, required=False, timeout_s=1)


@pytest.fixture
def key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    return server()


def spells(text: str) -> bool:
    """Whether a text holds the key, or eight characters of its base64, wherever that begins in a group of four."""
    plain = "".join(text.split())
    parts = [b64encode(b"?" * n + KEY.encode()).decode()[4:-4] for n in range(3)]
    return KEY in text or any(part[at : at + 8] in plain for part in parts for at in range(len(part) - 7))


def test_the_key_is_redacted_in_every_spelling_and_the_text_around_it_is_kept(key):
    wrong = []
    for how, spelled in ECHOES.items():
        text = f"your key is {spelled(KEY)} and that is that"
        clear = key.redacted(text)
        kept = clear.startswith("your key is ") and clear.endswith(" and that is that")
        if not kept or "[key]" not in clear or spells(clear) or spelled(KEY) in clear:
            wrong.append((how, clear))
    assert wrong == []
    assert key.redacted({KEY: [KEY, {"n": 3, "key": KEY}]}) == {"[key]": ["[key]", {"n": 3, "key": "[key]"}]}
    for before in range(260, 310):
        assert KEY[:4] not in key.shown("x" * before + KEY), before


def test_a_placeholder_or_a_word_that_is_no_key_is_left_in_texts(monkeypatch):
    for word in ("EMPTY", "ollama", "x", "", "LM-Studio"):
        monkeypatch.setenv("OPENAI_API_KEY", word)
        assert server().shown(f"ask {word} pool") == " ".join(f"ask {word} pool".split())
    monkeypatch.setenv("OPENAI_API_KEY", "sixsix")
    assert server().shown("a sixsix pool") == "a [key] pool"


def test_the_key_is_in_no_file_no_line_and_no_field(harness, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)

    def echo(handler, body):
        handler.refuse(500, f"cannot use {handler.headers['Authorization']} today " + "x" * 280 + SECRET)

    with serving(key=SECRET, context=None, faults=[echo] * 3) as (url, behaviour):
        engine = OpenAI(url=url, retries=2)
        assert SECRET not in repr((engine, engine.identity(), vars(engine), parameters(engine)))
        assert SECRET.encode() not in pickle.dumps(parameters(engine))
        assert SECRET not in repr(vars(engine._server))
        line = refusal_of(sample, engine, n=1)
        assert "cannot use Bearer [key] today" in line
        assert SECRET[:8] not in line
        behaviour.fault = of_first_row(echo)
        outcome = run_colours(harness, tmp_path, url, more="retries=2,concurrency=1", n=60)
    assert outcome.code == 0, outcome.err
    assert "[key]" in outcome.err
    kept = contents(tmp_path)
    assert not any(SECRET[:10].encode() in content for content in kept.values())
    assert SECRET[:10] not in outcome.out + outcome.err
    assert any(b"[key]" in content for content in kept.values())  # in the mark of what is missing


def test_a_key_that_a_response_echoes_is_stored_nowhere(harness, tmp_path, key):
    text = f"your key is {ECHOES['in base64 after 5'](KEY)}"

    def echoing(body, prompt, seeds):
        return [(text, "stop", list(text.encode()), -1.0) for _ in seeds]

    with serving(key=KEY, generate=echoing) as (url, _):
        (responses,) = sample(OpenAI(url=url), n=2)
        outcome = run_colours(harness, tmp_path, url, n=2)
    assert not any(map(spells, responses.texts))
    assert responses.token_ids is None  # they spell it
    assert outcome.code == 0, outcome.err
    assert contents(tmp_path)
    assert not any(spells(content.decode("latin1")) for content in contents(tmp_path).values())


def test_a_key_in_the_place_of_its_variables_name_is_never_shown(harness, tmp_path, monkeypatch):
    monkeypatch.setenv("sk_lower_0123456789", "a key")
    for given in ("sk_lower_0123456789", SECRET, "gsk_0123456789abcdef", "hf_AbCdEfGh", "AKIAIOSFODNN7EXAMPLE"):
        assert given not in refusal_of(server, given)
    outcome = run_colours(harness, tmp_path, "http://127.0.0.1:1", more=f"key_env={SECRET}", n=2)
    assert "key_env must be the name of the environment variable" in error_line(outcome)
    assert SECRET not in outcome.err
    assert not any(SECRET.encode() in content for content in contents(tmp_path).values())
