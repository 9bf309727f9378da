"""What is written into a shard of each kind is read from it again, and nothing else is read."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import save
from support.refusals import refusal_of
from support.works import responses_of

from harness import Problem, correct, error, wrong
from harness.store import shards
from harness.store.checksums import BadShard
from harness.store.json_files import read_record
from harness.store.shard_files import as_parquet, is_unsealed, table_in
from harness.store.stage import Store
from harness.system.files import write_parts

PROBLEM = Problem("a \ud83d", "Say red.")
READERS = {
    ".parquet": (shards.read_responses, shards.read_verdicts, shards.count_rows, shards.read_graded),
    ".safetensors": (shards.read_vectors,),
}


@pytest.fixture
def path(tmp_path):
    return Store(tmp_path).stage("pool", {}, ".parquet").path(PROBLEM)


def test_responses_come_back_with_what_they_belong_to(path):
    columns = {
        "texts": ["red \ud83d", ""],
        "finish": ["stop", "length"],
        "lengths": np.array([3, 2**40]),
        "logprobs": np.array([-0.1, np.nan]),
        "token_ids": [[1, 2**31 - 1], []],
        "missing": {7: "busy \ud83d"},
    }
    shards.write_responses(path, PROBLEM, responses_of(**columns))
    read = shards.read_responses(path)
    assert (read.texts, read.finish, read.token_ids) == (["red \ufffd", ""], columns["finish"], columns["token_ids"])
    np.testing.assert_array_equal(read.lengths, columns["lengths"])
    np.testing.assert_array_equal(read.logprobs, columns["logprobs"])
    assert read.missing == shards.read_missing(path) == {7: "busy \ufffd"}
    assert shards.read_about(path) == {"problem_id": "a \ufffd", "prompt": "Say red."}
    assert shards.count_rows(path) == 2
    shards.write_responses(path, PROBLEM, responses_of(["red", "blue"]))
    read = shards.read_responses(path)
    assert (read.token_ids, read.missing, shards.read_missing(path)) == (None, {}, {})


def test_scores_come_back_by_name_and_a_shard_without_them_has_no_such_column(path):
    scores = {"rm": np.array([1.5, np.nan]), "a judge": np.array([0.0, -2.0])}
    shards.write_responses(path, PROBLEM, responses_of(["red", "blue"], scores=scores))
    for read in (shards.read_scores(path), shards.read_responses(path).scores):
        assert list(read) == ["rm", "a judge"]
        np.testing.assert_array_equal(read["rm"], scores["rm"])
        np.testing.assert_array_equal(read["a judge"], scores["a judge"])
    assert [len(column) for column in shards.read_responses(path).first(1).scores.values()] == [1, 1]
    shards.write_responses(path, PROBLEM, responses_of(["red", "blue"]))
    assert shards.read_scores(path) == shards.read_responses(path).scores == {}
    assert table_in(path).column_names == shards.RESPONSES.names


def test_vectors_come_back_as_float32_in_rows(path):
    path = path.with_suffix(".safetensors")
    shards.write_vectors(path, np.arange(6.0).reshape(3, 2).T)
    read = shards.read_vectors(path)
    assert (read.dtype, read.tolist()) == (np.float32, [[0, 2, 4], [1, 3, 5]])


def test_verdicts_come_back_with_reason_route_answer_and_conditions(path):
    verdicts = [correct(), wrong("differs \ud83d", "fallback"), error("lost")]
    shards.write_verdicts(path, verdicts, ["a", None, "\ud83d"], {"sandbox": "bwrap"})
    kept = [correct(), wrong("differs \ufffd", "fallback"), error("lost")]
    assert shards.read_full_verdicts(path) == (kept, ["a", None, "\ufffd"])
    assert shards.read_verdicts(path) == ["correct", "wrong", "error"]
    assert shards.read_routes(path) == (["correct", "wrong", "error"], ["", "fallback", ""])
    assert shards.read_answers(path) == ["a", None, "\ufffd"]
    assert shards.read_conditions(path) == {"sandbox": "bwrap"}
    shards.write_verdicts(path, verdicts, [None] * 3)
    assert shards.read_conditions(path) == {}


def test_verdicts_and_measurements_by_hash_come_back(path):
    known = {"00" * 16: correct("yes", "boxed"), "ff" * 16: wrong("no")}
    measured = {"00" * 16: {"length": 2.5}, "ff" * 16: {"plddt": 0.5, "length": 1.0}, "0f" * 16: {}}
    assert shards.read_graded(path) == shards.read_measurements(path) == {}
    shards.write_graded(path, known)
    assert shards.read_graded(path) == known
    shards.write_measurements(path, measured)
    assert shards.read_measurements(path) == measured


def test_an_audit_holds_status_and_reason_or_null(path):
    path = path.with_suffix(".json")
    shards.write_audit(path, Problem("a", ""), [correct(), None, wrong("\ud83d")])
    assert read_record(path) == {"problem_id": "a", "said": [["correct", ""], None, ["wrong", "\ufffd"]]}


def test_a_shard_of_another_length_than_its_pool_is_named(path):
    shards.require_rows(path, 1000, 1000)
    for rows in (999, 1001):
        line = refusal_of(shards.require_rows, path, rows, 1000)
        assert f"{path} holds {rows:,} rows and not 1,000, as its pool does" in line


def test_what_is_no_shard_is_one_line_from_every_reader(path):
    for suffix, readers in READERS.items():
        file = path.with_suffix(suffix)
        file.parent.mkdir(parents=True, exist_ok=True)
        for content, fault in ((b"PAR1 not really", "has no checksum"), (b"", "has no checksum")):
            file.write_bytes(content)
            assert [fault in refusal_of(read, file) for read in readers] == [True] * len(readers)
    assert "is not there" in refusal_of(shards.read_responses, path.with_name("missing.parquet"))


def test_a_sound_shard_of_another_kind_is_one_line(path):
    shards.write_graded(path, {"00" * 16: correct()})
    assert "cannot be read (KeyError)" in refusal_of(shards.read_responses, path)
    write_parts(path, as_parquet(path, {"text": [1]}, pa.schema([("text", pa.int64())])))
    assert "cannot be read (KeyError)" in refusal_of(shards.read_verdicts, path)
    schema = pa.schema([("text", pa.binary())])
    write_parts(path, as_parquet(path, {"text": [b"\xff"]}, schema))
    assert "cannot be read (ArrowInvalid)" in refusal_of(table_in, path, pa.schema([("text", pa.string())]))


def test_only_a_file_without_a_checksum_is_unsealed(path):
    shards.write_verdicts(path, [correct()], ["a"])
    assert not is_unsealed(path)
    table = pq.read_table(path)
    about = {name: value for name, value in table.schema.metadata.items() if name != b"checksum"}
    pq.write_table(table.replace_schema_metadata(about), path)
    assert is_unsealed(path)
    assert not is_unsealed(path.with_name("missing.parquet"))
    vectors = path.with_suffix(".safetensors")
    vectors.write_bytes(save({"vectors": np.ones((1, 2), np.float32)}))
    assert is_unsealed(vectors)
    shards.write_vectors(vectors, np.ones((1, 2)))
    vectors.write_bytes(vectors.read_bytes()[:-1])
    assert not is_unsealed(vectors)
    with pytest.raises(BadShard):
        shards.read_vectors(vectors)
