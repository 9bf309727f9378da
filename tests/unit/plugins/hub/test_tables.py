"""A pool's tables: shards become few parquet files and come back; no table that says something else is read."""

from __future__ import annotations

import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
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
        for rows, files in ((1, 6), (17, 3), (40, 2), (1000, 1)):
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


def test_a_group_of_rows_is_read_only_where_it_keeps_the_limit(read, pushed, tmp_path, monkeypatch):
    content = pushed["responses/00000.parquet"]
    (tmp_path / "whole.parquet").write_bytes(content)
    group = pq.read_metadata(tmp_path / "whole.parquet").row_group(0)
    values = 8 * max(group.column(number).num_values for number in range(group.num_columns))
    texts = sum(len(text) for name in ("problem_id", "text", "finish") for text in column_of(content, name))
    most = max(group.total_byte_size, values, texts)
    monkeypatch.setattr(tables, "GROUP_LIMIT", most)
    assert len(read("responses", content)) == 6
    monkeypatch.setattr(tables, "GROUP_LIMIT", most - 1)
    assert "a group of its rows unpacks to more than" in refusal_of(read, "responses", content)


def column_of(content, name):
    return pq.read_table(pa.BufferReader(content))[name].to_pylist()


def with_column(name, values):
    """What replaces a table's column."""

    def change(table):
        field = table.schema.field(name)
        place = table.schema.get_field_index(name)
        return table.set_column(place, name, pa.array(values(table[name].to_pylist()), field.type))

    return change


NO_TABLES = [
    ("responses", with_column("problem_id", lambda v: ["test/0"] * len(v)), "rows of problem 'test/1'"),
    ("responses", with_column("index", lambda v: v[::-1]), "rows of problem 'test/0'"),
    ("responses", with_column("text", lambda v: [None, *v[1:]]), "a row without text"),
    ("responses", with_column("finish", lambda v: ["\u001b[2J", *v[1:]]), "finish must be one of"),
    ("responses", with_column("token_ids", lambda v: [[None], *v[1:]]), "a token id is missing"),
    ("responses", with_column("token_ids", lambda v: [[-1, 0, 0], *v[1:]]), "a token id is -1"),
    ("responses", with_column("token_ids", lambda v: [None, *v[1:]]), "1 of its 16 responses have no token ids"),
    ("responses", with_column("token_ids", lambda v: [*v[:2], [1, 2], *v[3:]]), "response 2 is 3 tokens long and has"),
    ("responses", with_column("length", lambda v: [-3, *v[1:]]), "a response is -3 tokens long"),
    ("responses", with_column("length", lambda v: [*v[:1], 4, *v[2:]]), "response 1 is 4 tokens long and has 3"),
    ("responses", with_column("logprob", lambda v: [-math.inf, *v[1:]]), "a log-probability is -inf"),
    ("responses", with_column("logprob", lambda v: [math.inf, *v[1:]]), "a log-probability is inf"),
    ("responses", lambda table: table.slice(0, 90), "rows of problem 'test/5'"),
    ("responses", lambda table: table.drop_columns(["logprob"]), "has other columns"),
    ("responses", lambda table: table.append_column("__class__", [["x"] * len(table)]), "has other columns"),
    ("vectors", with_column("vector", lambda v: [[math.nan] * len(v[0]), *v[1:]]), "hold NaN or infinity"),
    ("vectors", with_column("vector", lambda v: [[math.inf] * len(v[0]), *v[1:]]), "hold NaN or infinity"),
    ("vectors", with_column("vector", lambda v: [[1.0], *v[1:]]), "not equally wide"),
    ("vectors", with_column("vector", lambda v: [None, *v[1:]]), "a row without vector"),
    ("verdicts", with_column("verdict", lambda v: ["correct!", *v[1:]]), "verdict must be one of"),
    ("verdicts", with_column("conditions", lambda v: ["[" * 99_999, *v[1:]]), "under what conditions"),
    ("verdicts", with_column("conditions", lambda v: ['{"room": 1}', *v[1:]]), "under what conditions"),
]


def test_a_table_that_no_pool_gives_is_refused(read, stage, pushed):
    cases = [((folder, change), words) for folder, change, words in NO_TABLES]

    def read_changed(case):
        folder, change = case
        return read(folder, changed_table(pushed[stage(folder).files[0].path], change))

    assert not wrongly_refused(cases, read_changed)
    unknown = with_column("logprob", lambda v: [math.nan, *v[1:]])
    assert len(read_changed(("responses", unknown))) == 6  # NaN: not known
    assert "no table of a pool" in refusal_of(read, "responses", b"PAR1" + bytes(500) + b"PAR1")
