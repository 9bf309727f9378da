"""Pools from lm-evaluation-harness: a line, or an entry of an array, for each document and filter."""

import json

from corpora.tool_lines import LM_EVAL
from support.pool_files import LAYOUTS, notes_on, responses_in
from support.refusals import wrongly_refused

from harness.pools.reading import read_pool


def lm_eval_line(doc_id, texts, **fields):
    changed = {"doc_id": doc_id, "doc": {"question": f"Say colour {doc_id} (test)."}, "doc_hash": f"{doc_id:064x}"}
    return LM_EVAL | changed | {"resps": [texts]} | fields


def without(line, *names):
    return {name: value for name, value in line.items() if name not in names}


def test_all_repeats_of_a_document_are_responses_once_however_many_filters_there_are(written):
    lines = [
        lm_eval_line(doc, [f"{doc}{i}" for i in range(3)], filter=name)
        for name in ("strict-match", "flexible-extract")
        for doc in range(2)
    ]
    path = written(lines, "samples_toy.jsonl")
    assert responses_in(path) == {"doc-0": ["00", "01", "02"], "doc-1": ["10", "11", "12"]}
    record = next(read_pool(path))
    assert (record.prompts, record.reference, record.correct) == (("Say colour 0 (test).",), "red", None)
    note = "pool: read as lm-evaluation-harness samples; its metrics are of filtered answers: not taken as verdicts"
    assert notes_on(path) == [note]


def test_in_the_array_of_0_4_2_lines_that_repeat_responses_are_another_filters(written):
    old = [
        without(lm_eval_line(doc, [f"{doc}0", f"{doc}1"], arguments=[[f"Q{doc}", {"until": []}]]), "filter", "doc_hash")
        for doc in (0, 1, 0, 1)
    ]
    path = written(json.dumps(old, indent=2), "model_toy.jsonl")
    assert responses_in(path) == {"doc-0": ["00", "01"], "doc-1": ["10", "11"]}


def test_equal_responses_of_two_runs_count_twice_where_the_filter_is_named(written, tmp_path):
    lines = [lm_eval_line(0, ["a"], filter=name) for name in ("strict-match", "flexible-extract")]
    assert responses_in(written(lines * 2)) == {"doc-0": ["a", "a"]}
    for seed in range(2):
        written(lines, f"runs/samples_toy_{seed}.jsonl")
    written("{}", "runs/results_0.json")
    assert responses_in(tmp_path / "runs") == {"doc-0": ["a", "a"]}


def test_documents_of_two_tasks_are_not_one_because_their_numbers_are(written):
    lines = [lm_eval_line(0, ["a"]), lm_eval_line(0, ["b"], doc={"question": "Another."}, doc_hash="ff" * 32)]
    assert [record.prompts for record in read_pool(written(lines))] == [("Say colour 0 (test).",), ("Another.",)]
    assert len(list(read_pool(written([without(line, "doc_hash") for line in lines])))) == 2


def test_a_document_joins_by_the_data_sets_id_and_by_what_was_asked_where_it_has_no_prompt(written):
    chat = json.dumps([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Say colour 1"}])
    lines = [
        lm_eval_line(0, ["a"], doc={"unique_id": "test/3", "Problem": "x", "question": " ", "task_id": 4}),
        lm_eval_line(1, ["a"], doc={"id": 7}, arguments={"gen_args_0": {"arg_0": [chat], "arg_1": {}}}),
        lm_eval_line(2, ["a"], doc={"id": 8}, arguments=[["Say colour 2", {}]]),
        lm_eval_line(3, ["a"], doc="no mapping", arguments=[["[{broken", {}]]),
        lm_eval_line(4, ["a"], doc={}, arguments=None),
    ]
    assert [(record.ids, record.prompts) for record in read_pool(written(lines))] == [
        (("doc-0", "test/3"), ("x",)),
        (("doc-1",), ("Be brief.\nSay colour 1",)),
        (("doc-2",), ("Say colour 2",)),
        (("doc-3",), ("[{broken",)),
        (("doc-4",), ()),
    ]


def test_what_holds_no_texts_is_refused(written):
    faults = [
        (lm_eval_line(0, ["a"], resps=[]), "line 1: holds no responses"),
        (lm_eval_line(0, ["a"], resps="a"), "line 1: holds no responses"),
        (
            lm_eval_line(0, ["a"], resps=[[["-0.1", "False"]], [["-0.5", "False"]]]),
            "line 1: holds no responses (those of a multiple-choice task",
        ),
    ]
    assert not wrongly_refused(faults, lambda line: list(read_pool(written([line]), layouts=LAYOUTS)))
