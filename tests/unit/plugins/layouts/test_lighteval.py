"""Pools from lighteval: parquet of details, of its two kinds."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpora.tool_lines import NEW_DETAIL, OLD_DETAIL
from support.pool_files import notes_on, pool_refusal, responses_in

from harness.pools.reading import read_pool


@pytest.fixture
def details(tmp_path):
    """Write rows as parquet; the file's path."""

    def call(*rows):
        pq.write_table(pa.Table.from_pylist(list(rows)), tmp_path / "details.parquet")
        return tmp_path / "details.parquet"

    return call


def new_detail(number, texts, **doc):
    doc = {"query": f"Solve this.\n\nSay colour {number} (test).", "id": str(number), **doc}
    return NEW_DETAIL | {"doc": NEW_DETAIL["doc"] | doc, "model_response": {"text": texts}}


def old_detail(number, texts, cast=lambda value: value, **changed):
    """A row of the old kind; `cast=str` as some versions write it."""
    row = OLD_DETAIL | {"example": f"Say colour {number} (test).", "predictions": texts} | changed
    return {name: cast(value) for name, value in row.items()}


def test_details_of_the_new_kind_are_read(details):
    rows = [new_detail(0, ["say red", "é"]), new_detail(1, ["b"], specific={"problem": "Say colour 1 (test)."})]
    path = details(*rows)
    first, second = read_pool(path)
    assert (first.problem_id, first.responses, first.reference) == ("row-1", ["say red", "é"], ["red"])
    assert first.prompts == ("Solve this.\n\nSay colour 0 (test).",)
    assert second.prompts == ("Say colour 1 (test).", "Solve this.\n\nSay colour 1 (test).")
    (note,) = notes_on(path)
    assert note.startswith("pool: read as lighteval details")
    assert note.endswith("not taken as verdicts")


@pytest.mark.parametrize("cast", [lambda value: value, str])
def test_details_of_the_old_kind_are_read_also_where_all_was_cast_to_text(details, cast):
    texts = ['it\'s "red"\n', "\\boxed{é}"]
    first, second = read_pool(details(old_detail(0, texts, cast), old_detail(1, ["[INST"], cast)))
    assert first.responses == texts
    assert second.responses == ["[INST"]
    assert first.prompts == ("Say colour 0 (test).",)
    assert first.reference == ["red"]


def test_of_an_old_detail_without_a_bare_prompt_the_full_one_counts_also_as_a_chat(details):
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Say red."}]
    (record,) = read_pool(details(old_detail(0, ["a"], example=None, full_prompt=chat)))
    assert record.prompt == "Be brief.\nSay red."
    (record,) = read_pool(details(old_detail(0, "[a", example="[not a list")))
    assert (record.prompt, record.responses) == ("[not a list", ["[a"])


def test_a_document_logged_once_for_each_metric_has_its_responses_once(details):
    rows = [old_detail(0, ["a", "b"]), old_detail(1, ["c"]), old_detail(0, ["a", "b"]), old_detail(0, ["d"])]
    assert responses_in(details(*rows)) == {"row-1": ["a", "b", "d"], "row-2": ["c"]}
    rows = [new_detail(0, ["a"]), new_detail(0, ["a"], task_name="other"), new_detail(0, ["a"], id="1")]
    assert responses_in(details(*rows)) == {f"row-{number}": ["a"] for number in (1, 2, 3)}
    rows = [new_detail(0, [str(number % 65)], id="0") for number in range(130)]  # two batches of rows and more
    assert responses_in(details(*rows)) == {"row-1": [str(number) for number in range(65)]}


def test_parquet_that_is_no_pool_of_lighteval_is_refused_in_one_line(details, written):
    assert "its columns are a, b" in pool_refusal(details({"a": 1, "b": "x"}))
    assert "row 1: holds no responses" in pool_refusal(details(old_detail(0, [-1.5])))
    assert "row 1: doc and model_response must be structs, as lighteval writes them" in pool_refusal(
        details(new_detail(0, ["a"]) | {"doc": "x"})
    )
    scores = details(new_detail(0, []))
    assert "row 1: holds no responses" in pool_refusal(scores)
    assert "this parquet file cannot be read" in pool_refusal(written(scores.read_bytes()[:200], "cut.parquet"))
