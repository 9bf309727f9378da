"""A repository made to harm: nothing of it leaves its folder, fills memory or disk; no token is written anywhere."""

import pyarrow as pa
import pytest
from support.hub_repositories import changed_manifest, changed_table, put, refused_and_nothing_written
from support.hub_server import TOKEN
from support.stores import contents

# huggingface_hub 2.4.0 hands a large file to its HTTP client in a way that the client calls old.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")

RESPONSES = "responses/00000.parquet"


@pytest.fixture
def refused(pull, tmp_path):
    """Pull a repository, which must be refused with these words, and write nothing."""
    return lambda *words: refused_and_nothing_written(pull(), tmp_path / "other", *words)


def with_manifest(repository, change):
    repository.commit(repository.files | {"manifest.json": changed_manifest(repository.files["manifest.json"], change)})


def test_no_name_in_a_manifest_becomes_a_path(repository, refused, tmp_path):
    honest = repository.files
    for change, words in (
        (lambda stage: stage["files"][0].update(path="../../../../evil"), "must be responses/00000.parquet"),
        (lambda stage: stage.update(key="../../../evil"), "not their key's"),
        (lambda stage: stage["shards"][0].__setitem__(1, "/../../evil"), "12 hex digits"),
    ):
        repository.commit(honest)
        with_manifest(repository, lambda value, change=change: change(value["stages"][0]))
        refused(words)
    assert not [*tmp_path.rglob("*evil*"), *tmp_path.parent.glob("*evil*"), *tmp_path.parents[1].glob("*evil*")]


@pytest.mark.slow
def test_a_small_file_that_would_unpack_to_gigabytes_is_not_unpacked(repository, refused):
    def bomb(table):
        column = pa.DictionaryArray.from_arrays(pa.array([0] * len(table), pa.int32()), pa.array(["x" * (64 << 20)]))
        return table.set_column(2, "text", column)

    put(repository, RESPONSES, changed_table(repository.files[RESPONSES], bomb))
    assert len(repository.files[RESPONSES]) < 1 << 16
    refused(RESPONSES, "unpacks to more than 4 GiB")


def test_a_pool_larger_than_the_disk_is_refused_before_it_is_fetched(hub, repository, refused):
    hub.says_hashes = False
    hub.claimed_sizes[RESPONSES] = 1 << 60
    with_manifest(repository, lambda value: value["stages"][0]["files"][0].update(size=1 << 60))
    refused("GB free", "another --store")
    hub.claimed_sizes["manifest.json"] = 1 << 40
    refused("too many to be one")
    assert not [request for request in hub.requests if "resolve" in request and "parquet" in request]


def test_the_token_is_written_nowhere(push, pull, hub, tmp_path):
    outcomes = [push("--vectors", "--verdicts", "--prompts", "mit"), pull()]
    assert [outcome.code for outcome in outcomes] == [0, 0]
    assert all(TOKEN not in outcome.out + outcome.err for outcome in outcomes)
    everything = [*contents(tmp_path).values(), *hub.repositories["lab/colours-pool"].files.values(), *hub.bodies]
    assert len(everything) > 20
    assert not [content for content in everything if TOKEN.encode() in content]
