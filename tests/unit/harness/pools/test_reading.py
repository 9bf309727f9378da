"""Reading pool files: how they are packed and divided, which layout they have, why one is refused; our own layout."""

import gzip
import json
import re
from itertools import pairwise

import numpy as np
import pytest
from corpora.pool_faults import CODET, NO_POOLS, OWN, OWN_LINES
from support.paths import ROOT
from support.pool_files import LAYOUTS, notes_on, pool_refusal, responses_in
from support.refusals import refusal_of, wrongly_refused

from harness import HarnessError
from harness.pools.reading import Layouts, pool_digest, read_pool
from harness.pools.record import PoolRecord


def test_whether_a_file_is_packed_is_known_by_its_content_and_a_byte_order_mark_is_skipped(written):
    text = '{"prompt": "Say red.", "samples": ["réd", "blue"]}\n\n{"prompt": "Say blue.", "samples": ["blue"]}'
    for content, name in (
        (gzip.compress(text.encode(), mtime=0), "packed.jsonl"),
        (text, "plain.jsonl.gz"),
        ("\ufeff" + text, "marked.jsonl"),
    ):
        assert responses_in(written(content, name)) == {"line-1": ["réd", "blue"], "line-3": ["blue"]}, name
    array = written(json.dumps(CODET, indent=2), "array.json")
    assert responses_in(array) == {"line-1": ["red", "blue"], "line-2": ["blue"]}  # numbered by entry


def test_a_folder_of_json_lines_is_one_pool_and_each_of_its_files_counts(written, tmp_path):
    for number in range(3):
        content = json.dumps({"problem_id": f"{number}", "responses": ["x"]}).encode()
        written(gzip.compress(content) if number == 1 else content, f"parts/{number}.jsonl" + ".gz" * (number == 1))
    written("not of the pool", "parts/notes.txt")
    parts = tmp_path / "parts"
    assert list(responses_in(parts)) == ["0", "1", "2"]
    digests = [pool_digest(parts, Layouts())]
    for content, name in (("more notes", "notes.txt"), ([OWN], "2.jsonl"), ([OWN], "3.jsonl")):
        written(content, f"parts/{name}")
        digests.append(pool_digest(parts, Layouts()))
    assert [first == second for first, second in pairwise(digests)] == [True, False, False]


def test_lines_that_need_no_grouping_are_read_one_at_a_time(written):
    for line in (CODET[0], OWN):
        records = read_pool(written(json.dumps(line) + "\nbroken\n"))
        assert next(records).responses
        with pytest.raises(HarnessError, match="line 2: not JSON"):
            next(records)


def test_what_is_no_pool_is_refused_in_one_line_with_the_place(written):
    assert not wrongly_refused(NO_POOLS, lambda content: list(read_pool(written(content), layouts=LAYOUTS)))
    assert pool_refusal(written("")).endswith("see docs/pools.md")


def test_a_missing_path_and_a_folder_without_pool_files_are_refused(tmp_path):
    assert pool_refusal(tmp_path / "absent.jsonl").endswith("no such file")
    (tmp_path / "bare").mkdir()
    assert "a folder without *.jsonl files" in pool_refusal(tmp_path / "bare")
    (tmp_path / "loop.jsonl").symlink_to("loop.jsonl")
    assert refusal_of(lambda: list(read_pool(tmp_path / "loop.jsonl"))).startswith("pool ")


def test_every_line_that_the_document_shows_is_read_as_what_it_says(written):
    table = re.findall(r"^\| ([\w-]+) \| `(\{.*?\})`", (ROOT / "docs" / "pools.md").read_text(), re.M)
    assert [name for name, _ in table] == ["own", "evalplus", "CodeT", "lm-eval", "verl"]
    for name, line in table:
        path = written(line + "\n")
        assert sum(map(len, responses_in(path).values())) in (1, 2)
        note = "".join(notes_on(path)).replace("lm-evaluation-harness", "lm-eval")
        assert note.startswith(f"pool: read as {name} samples") or name == "own"


def test_a_line_may_have_a_column_for_each_thing_known_of_its_responses(written):
    line = {
        **{"problem_id": "a", "responses": ["x", "y"], "prompt": "?", "reference": {"answer": [1, "2"]}},
        **{"logprobs": [-1, -2.5], "logprob_kind": "mean", "correct": [1, False], "finish": ["stop", "length"]},
        "names": ["first", ""],
    }
    bare, full = read_pool(written([{"problem_id": "b", "responses": ["", "\ud800", "\0"]}, line]))
    assert bare == PoolRecord("b", ["", "\ud800", "\0"])
    assert full == PoolRecord(**line)
    assert full.logprobs == [-1.0, -2.5]
    assert full.correct == [True, False]
    responses = full.as_responses()
    assert (list(responses.finish), responses.lengths.tolist()) == (["stop", "length"], [1, 1])
    assert list(bare.as_responses().finish) == ["stop"] * 3


def test_scores_are_a_list_or_lists_by_name_and_null_where_unknown(written):
    line = {"problem_id": "a", "responses": ["x", "y"]}
    for given, expected in (
        ([0.5, None], {"score": [0.5, None]}),
        ({"rm": [1, 2], "judge": [None, -3]}, {"rm": [1, 2], "judge": [None, -3]}),
        (None, {}),
    ):
        path = written([line | {"scores": given}])
        [record] = read_pool(path)
        assert record.scores == expected
        read = record.as_responses().scores
        wanted = {name: np.array(column, np.float64) for name, column in expected.items()}
        assert read.keys() == wanted.keys()
        assert all(np.array_equal(read[name], wanted[name], equal_nan=True) for name in wanted)


def test_a_malformed_line_is_refused_with_its_place_and_fault(written):
    assert not wrongly_refused(OWN_LINES, lambda line: list(read_pool(written([line]))))
