"""A repository made to harm: nothing of it leaves its folder, fills memory or disk; no token is written anywhere."""

import numpy as np
import pyarrow as pa
import pytest
from support.hub_fixtures import first, put_rows, refused_and_nothing_written
from support.hub_server import TOKEN
from support.stores import contents

# huggingface_hub 2.4.0 hands a large file to its HTTP client in a way that the client calls old.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")


@pytest.fixture
def refused(pull, tmp_path):
    """Pull a repository, which must be refused with these words, and write nothing."""
    return lambda *words: refused_and_nothing_written(pull(), tmp_path / "other", *words)


def test_no_name_in_a_repository_becomes_a_path(repository, refused, hub, tmp_path):
    honest = repository.files
    pool = first(repository, "responses").partition("/")[0]
    for name in ("../evil", "responses.x/../../../evil", "cells/evil.json", "responses.a.0123456789ab/.evil"):
        repository.commit(honest | {f"{pool}/{name}": b"x"})
        refused("is no file of a pool")
    assert not [request for request in hub.requests if "resolve" in request]
    assert not [*tmp_path.rglob("*evil*"), *tmp_path.parent.glob("*evil*"), *tmp_path.parents[1].glob("*evil*")]
    other = {path.replace(pool, "x.0123456789ab"): content for path, content in honest.items()}
    repository.commit(honest | other)
    refused("holds 2 pools")
    repository.commit(other)
    refused("the settings of x.0123456789ab are not those of its key")


def column(table, name, values):
    at = table.column_names.index(name)
    return table.set_column(at, name, pa.array(values, table.schema.field(name).type))


def test_rows_vectors_and_lists_that_no_run_makes_are_refused(repository, refused):
    honest, pool = repository.files, first(repository, "responses").partition("/")[0]

    def changed(name, value):
        return lambda table: column(table, name, [value, *table[name].to_pylist()[1:]])

    for kind, change, words in (
        ("responses", changed("text", None), "a row is without text"),
        ("responses", changed("finish", "\x1b[2J"), "a finish that is none of length, stop"),
        ("responses", changed("logprob", float("inf")), "an infinite number"),
        ("responses", changed("token_ids", None), "without token ids beside others"),
        ("responses", lambda table: table.slice(1), "15 rows, and the pool has 16 responses"),
        ("responses", lambda table: table.drop_columns("length"), "other columns than"),
        ("verdicts", changed("status", "correct!"), "a status that is none of"),
        ("verdicts", lambda table: table.replace_schema_metadata({"about": "[" * 9_999}), "not JSON"),
        ("verdicts", lambda table: table.replace_schema_metadata({"about": '{"conditions": {"a": 1}}'}), "conditions"),
        ("vectors", lambda _: np.full((16, 8), np.nan, np.float32), "no finite vectors in float32"),
    ):
        repository.commit(honest)
        put_rows(repository, kind, change)
        refused("problem 'test/0'", words)
    for content, words in (
        (b"0123456789abcdef [1, 2]", "problems.jsonl is damaged: 1 of its lines"),
        (b"", "half of a pool: of 6 files of responses nothing says to which problem"),
    ):
        repository.commit(honest | {f"{pool}/problems.jsonl": content})
        refused(words)


def test_what_would_unpack_to_much_or_fill_the_disk_is_refused_before(hub, repository, refused, monkeypatch):
    honest = repository.files
    put_rows(repository, "responses", lambda table: column(table, "text", ["x" * (1 << 17)] * 16))
    assert len(repository.files[first(repository, "responses")]) < 1 << 13
    with monkeypatch.context() as patch:
        patch.setattr("harness_plugins.hub.checks.LIMIT", 1 << 20)
        refused("its rows unpack to more than")
    repository.commit(honest)
    hub.requests.clear()
    hub.claimed_sizes[first(repository, "responses")] = 1 << 60
    refused("GB free", "another --store")
    hub.claimed_sizes[first(repository, "responses").partition("/")[0] + "/problems.jsonl"] = 1 << 40
    refused("too many to be one")
    assert not [request for request in hub.requests if "resolve" in request and "parquet" in request]


def test_the_token_is_written_nowhere(push, pull, hub, tmp_path):
    outcomes = [push("--vectors", "--verdicts", "--prompts", "mit"), pull()]
    assert [outcome.code for outcome in outcomes] == [0, 0], outcomes
    assert all(TOKEN not in outcome.out + outcome.err for outcome in outcomes)
    everything = [*contents(tmp_path).values(), *hub.repositories["lab/colours-pool"].files.values(), *hub.bodies]
    assert len(everything) > 20
    assert not [content for content in everything if TOKEN.encode() in content]
