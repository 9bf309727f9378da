"""The key of engine `openai` is in no file, no line and no field, however a server echoes it."""

import pickle
from base64 import b64encode, encodebytes, urlsafe_b64encode

import pytest
from support.openai_server import UNKNOWN, of_first_row, run_colours, sample, serving, short_pauses  # noqa: F401
from support.refusals import error_line, refusal_of
from support.stores import contents

from harness.plugin_system.component import parameters
from harness_plugins.engines.openai.engine import OpenAI
from harness_plugins.engines.openai.requests import Server

pytestmark = pytest.mark.usefixtures("short_pauses")

SELECTOR = ("--selector", "repexp", "--embedder", "tfidf")
KEY = "sk-Very-secret_0123456789abcdefXYZ"
ECHOES = [KEY, KEY.upper(), KEY.replace("-", "%2D"), KEY.encode().hex()]
ECHOES += [b64encode(b"Bearer "[:n] + KEY.encode()).decode() for n in range(3)]
ECHOES += [urlsafe_b64encode(f"??>{KEY}~~".encode()).decode(), encodebytes(f"{'x' * 40}{KEY}".encode() * 2).decode()]


def server(variable="OPENAI_API_KEY"):
    return Server("http://host/v1", variable, required=False, timeout_s=1)


@pytest.fixture(autouse=True)
def key(monkeypatch, short_pauses):  # noqa: F811
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def spells(text: str) -> bool:
    """Whether a text holds the key, or eight characters of its base64, wherever that begins in a group of four."""
    plain = "".join(text.split())
    parts = [b64encode(b"?" * n + KEY.encode()).decode()[4:-4] for n in range(3)]
    return KEY[:10] in text or any(part[at : at + 8] in plain for part in parts for at in range(len(part) - 7))


def assert_stored_nowhere(folder):
    kept = [content.decode("latin1") for content in contents(folder).values()]
    assert kept
    assert not any(map(spells, kept))
    return kept


def test_the_key_is_redacted_in_every_spelling_and_the_text_around_it_is_kept(monkeypatch):
    for spelled in ECHOES:
        clear = server().redacted(f"your key is {spelled} and that is that")
        assert clear.startswith("your key is "), clear
        assert clear.endswith(" and that is that"), clear
        assert ("[key]" in clear, spells(clear), spelled in clear) == (True, False, False), clear
    assert server().redacted({KEY: [KEY, {"n": 3, "key": KEY}]}) == {"[key]": ["[key]", {"n": 3, "key": "[key]"}]}
    for before in range(260, 310):  # a line is cut after 300
        assert KEY[:4] not in server().shown("x" * before + KEY), before
    for word in ("EMPTY", "ollama", ""):  # no key
        monkeypatch.setenv("OPENAI_API_KEY", word)
        assert server().shown(f"ask {word} pool") == " ".join(f"ask {word} pool".split())


def test_the_key_is_in_no_file_no_line_and_no_field(harness, tmp_path):
    def echo(handler, body):
        handler.refuse(500, f"cannot use {handler.headers['Authorization']} today " + "x" * 280 + KEY)

    with serving(key=KEY, context=None, faults=[echo] * 3) as (url, behaviour):
        engine = OpenAI(url=url, retries=2)
        assert not spells(repr((engine, engine.identity(), vars(engine), parameters(engine), vars(engine._server))))
        assert KEY.encode() not in pickle.dumps(parameters(engine))
        line = refusal_of(sample, engine, n=1)
        assert "cannot use Bearer [key] today" in line
        assert not spells(line)
        behaviour.fault = of_first_row(echo)
        outcome = run_colours(harness, tmp_path, url, "retries=2,concurrency=1", *SELECTOR, n=60)
    assert outcome.code == 0, outcome.err
    assert "[key]" in outcome.err
    assert not spells(outcome.out + outcome.err)
    assert any("[key]" in content for content in assert_stored_nowhere(tmp_path))  # in the mark of what is missing


def test_a_key_that_a_response_echoes_is_stored_nowhere(harness, tmp_path):
    text = f"your key is {b64encode(b'Beare' + KEY.encode()).decode()}"
    with serving(**UNKNOWN, key=KEY, generate=lambda *_: (text, "stop", list(text.encode()), -1.0)) as (url, _):
        (responses,) = sample(OpenAI(url=url), n=2)
        outcome = run_colours(harness, tmp_path, url, "retries=0", *SELECTOR, n=2)
    assert not any(map(spells, responses.texts))
    assert responses.token_ids is None  # they spell it
    assert outcome.code == 0, outcome.err
    assert_stored_nowhere(tmp_path)


def test_a_key_in_the_place_of_its_variables_name_is_never_shown(harness, tmp_path, monkeypatch):
    monkeypatch.setenv("sk_lower_0123456789", "a key")
    for given in ("sk_lower_0123456789", "AKIAIOSFODNN7EXAMPLE"):
        assert given not in refusal_of(server, given)
    outcome = run_colours(harness, tmp_path, "http://127.0.0.1:1", f"key_env={KEY}", *SELECTOR)
    assert "key_env must be the name of the environment variable" in error_line(outcome)
    assert not spells(outcome.err)
    assert not contents(tmp_path)
