"""A pool's tables: shards become few parquet files and come back; no table that says something else is read."""

import math

import pyarrow as pa
import pytest
from corpora.hub_faults import TABLE_VALUES
from support.hub_repositories import changed_table
from support.refusals import refusal_of, wrongly_refused

from harness_plugins.hub import tables
from harness_plugins.hub.manifest import parse


@pytest.fixture
def manifest(pushed):
    return parse(pushed["manifest.json"])


@pytest.fixture
def stage(manifest):
    """A stage of the manifest, by how its folder begins."""
    return lambda folder: next(stage for stage in manifest.stages if stage.folder.startswith(folder))


@pytest.fixture
def read(tmp_path, stage):
    """Read a file as that of a stage: all its problems, each as the value of a shard."""

    def call(folder, content, shards=None):
        path = tmp_path / "responses" / "00000.parquet"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        kind = stage(folder).kind
        return [kind.value(rows) for _, rows in tables.read_parts([path], kind, shards or stage(folder).shards)]

    return call


def test_many_files_and_groups_hold_the_same_rows(sampled, stage, tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "PART_BYTES", 1)
    for folder in ("responses", "vectors", "verdicts"):
        entry = stage(folder)
        whole = [tables.table_of(entry.kind, shard, entry.path(sampled, shard)) for shard in entry.shards]
        for rows, files in ((1, 6), (17, 3), (1000, 1)):
            monkeypatch.setattr(tables, "GROUP_ROWS", rows)
            paths = tables.write_parts(tmp_path / f"{folder}-{rows}", entry.kind, whole)
            assert [path.name for path in paths] == [f"{number:05d}.parquet" for number in range(files)]
            again = list(tables.read_parts(paths, entry.kind, entry.shards))
            assert [shard for shard, _ in again] == list(entry.shards)
            assert all(table.equals(rows) for table, (_, rows) in zip(whole, again, strict=True))


def test_a_shard_that_is_not_as_long_as_the_pool_says_is_not_pushed(sampled, stage):
    entry = stage("responses")
    longer = tables.Shard(entry.shards[0].problem_id, entry.shards[0].hashed, 17)
    line = refusal_of(tables.table_of, entry.kind, longer, entry.path(sampled, longer))
    assert line.endswith("is not as long as the pool's 17 responses: delete it")


def test_rows_are_those_of_the_manifests_problems_in_their_order(read, stage, pushed):
    content, shards = pushed["responses/00000.parquet"], list(stage("responses").shards)
    shorter = [tables.Shard(shard.problem_id, shard.hashed, 15) for shard in shards]
    cases = [
        (shorter, "rows of problem 'test/1' are not the 15"),
        (shards[1:], "rows of problem 'test/1' are not the 16"),
        (shards[:-1], "responses/00000.parquet: holds more problems than the manifest says"),
        ([*shards, tables.Shard("test/9", "0" * 12, 16)], "responses: the files end before problem 'test/9'"),
    ]
    assert len(read("responses", content)) == 6
    assert not wrongly_refused(cases, lambda expected: read("responses", content, expected))


def with_value(table, name, row, value):
    """The table with another value in a row of a column."""
    field = table.schema.field(name)
    values = [*table[name].to_pylist()[:row], value, *table[name].to_pylist()[row + 1 :]]
    return table.set_column(table.schema.get_field_index(name), name, pa.array(values, field.type))


def test_a_table_that_no_pool_gives_is_refused(read, stage, pushed):
    others = [
        ("responses", lambda table: table.slice(0, 90), "rows of problem 'test/5'"),
        ("responses", lambda table: table.drop_columns(["logprob"]), "has other columns"),
        ("responses", lambda table: table.append_column("__class__", [["x"] * len(table)]), "has other columns"),
    ]

    def changed(folder, change):
        return folder, changed_table(pushed[stage(folder).files[0].path], change)

    cases = [(changed(folder, change), words) for folder, change, words in others]
    for folder, *place, words in TABLE_VALUES:
        cases.append((changed(folder, lambda table, place=place: with_value(table, *place)), words))
    assert not wrongly_refused(cases, lambda case: read(*case))
    unknown = changed("responses", lambda table: with_value(table, "logprob", 0, math.nan))
    assert len(read(*unknown)) == 6  # NaN: not known
    assert "no table of a pool" in refusal_of(read, "responses", b"PAR1" + bytes(500) + b"PAR1")


def test_a_score_is_a_number_or_unknown():
    columns = {"text": ["x", "y"], "finish": ["stop"] * 2, "length": [1, 1], "logprob": [0.0, 0.0]}
    columns |= {"token_ids": pa.nulls(2, pa.list_(pa.int32())), "score:rm": [None, 2.0], "score:b": [None, None]}
    read = tables.responses_of(pa.table(columns)).scores
    assert {name: values.tolist()[1:] for name, values in read.items()} == {"rm": [2.0]}
    assert math.isnan(read["rm"][0])
    faulty = pa.table(columns | {"score:rm": [1.0, float("inf")]})
    assert refusal_of(tables.responses_of, faulty) == "a score 'rm' is inf"
