"""Pools from evalplus, CodeT, verl, lm-evaluation-harness, inspect_ai and lighteval."""

import importlib.util
import io
import json
import zipfile
from types import SimpleNamespace as Fields

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpora.tool_lines import LM_EVAL, NEW_DETAIL, OLD_DETAIL, VERL
from support.pool_files import LAYOUTS, notes_on, pool_refusal, responses_in
from support.refusals import wrongly_refused

from harness.pools.reading import Layouts, pool_digest, read_pool
from harness_plugins.layouts.inspect_ai import records_of

SAMPLES = [
    {"task_id": "Mbpp/2", "solution": "def f(): return 1"},
    {"task_id": "HumanEval/0", "completion": "    return 2\n"},
    {"task_id": "Mbpp/2", "solution": "def f(): return 'ü'", "_identifier": "Mbpp/2 (line 3)"},
    {"task_id": "HumanEval/0", "completion": "    return 3\n", "solution": "def g():\n    return 3\n"},
]


def verl_line(colour, output, step=40, **fields):
    prompt = VERL["input"].replace("colour 0", f"colour {colour}")
    return VERL | {"input": prompt, "output": output, "step": step} | fields


def lm_eval_line(doc_id, texts, **fields):
    changed = {"doc_id": doc_id, "doc": {"question": f"Say colour {doc_id} (test)."}, "doc_hash": f"{doc_id:064x}"}
    return LM_EVAL | changed | {"resps": [texts]} | fields


def test_evalplus_samples_are_grouped_by_task_a_solution_before_a_completion_and_verdicts_are_not_taken(written):
    path = written(SAMPLES)
    read = responses_in(path)
    assert list(read) == ["Mbpp/2", "HumanEval/0"]
    assert read["Mbpp/2"] == ["def f(): return 1", "def f(): return 'ü'"]
    assert read["HumanEval/0"] == ["    return 2\n", "def g():\n    return 3\n"]  # as it stands
    assert notes_on(path) == ["pool: read as evalplus samples"]
    graded = {"base_status": "pass", "plus_status": "fail"}
    path = written([SAMPLES[1] | graded, SAMPLES[1]])
    assert notes_on(path) == ["pool: read as evalplus samples; not taken as verdicts: base_status, plus_status"]
    assert [record.correct for record in read_pool(path)] == [None]


def test_a_folder_of_programs_is_read_in_the_order_of_their_numbers(written, tmp_path):
    for task, number in (("HumanEval_10", 0), ("HumanEval_2", 10), ("HumanEval_2", 2), ("HumanEval_2", 0)):
        written(f"# {number} é", f"samples/{task}/{number}.py")
    written("[]", "samples/HumanEval_2/notes.json")
    folder = tmp_path / "samples"
    read = {"HumanEval/2": ["# 0 é", "# 2 é", "# 10 é"], "HumanEval/10": ["# 0 é"]}
    assert list(responses_in(folder).items()) == list(read.items())
    assert notes_on(folder) == ["pool: read as folders of evalplus samples"]
    before = pool_digest(folder, Layouts())
    written("{}", "samples/HumanEval_2/notes.json")
    assert pool_digest(folder, Layouts()) == before
    written(b"\xff\xfe", "samples/HumanEval_2/0.py")
    assert "0.py: not UTF-8 text" in pool_refusal(folder)


def test_lines_of_codet_are_called_by_their_numbers(written):
    lines = [{"prompt": "def f():", "samples": ["1", "2"]}, {"prompt": "def g():", "samples": ["3"]}]
    path = written("\n\n".join(map(json.dumps, lines)) + "\n")
    records = [(record.problem_id, record.prompt, record.responses) for record in read_pool(path)]
    assert records == [("line-1", "def f():", ["1", "2"]), ("line-3", "def g():", ["3"])]
    assert notes_on(path) == ["pool: read as CodeT samples"]


def test_a_dump_of_verl_is_grouped_by_input_and_its_scores_are_no_verdicts(written):
    lines = [verl_line(0, "say red"), verl_line(1, "a"), verl_line(0, "say blue", score={"acc": 1}), verl_line(0, "")]
    path = written(lines)
    assert responses_in(path) == {"line-1": ["say red", "say blue", ""], "line-2": ["a"]}
    record = next(read_pool(path))
    assert (record.prompt, record.correct, record.reference) == (lines[0]["input"], None, "red")
    assert record.scores == {"score": [1.0, None, 1.0]}
    rewards = "pool: read as verl samples; its scores are rewards: taken as scores, not as verdicts"
    assert notes_on(path) == [f"{rewards}; not taken as verdicts: acc"]


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


def test_a_document_joins_by_the_data_sets_id_and_by_what_was_asked_where_it_has_no_prompt(written):
    chat = json.dumps([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Say colour 1"}])
    documents = {
        (("doc-0", "test/3"), ("x",)): ({"unique_id": "test/3", "Problem": "x", "question": " ", "task_id": 4}, None),
        (("doc-1",), ("Be brief.\nSay colour 1",)): ({"id": 7}, {"gen_args_0": {"arg_0": [chat], "arg_1": {}}}),
        (("doc-2",), ("Say colour 2",)): ({"id": 8}, [["Say colour 2", {}]]),
        (("doc-3",), ("[{broken",)): ("no mapping", [["[{broken", {}]]),
        (("doc-4",), ()): ({}, None),
    }
    lines = [lm_eval_line(i, ["a"], doc=doc, arguments=given) for i, (doc, given) in enumerate(documents.values())]
    assert [(record.ids, record.prompts) for record in read_pool(written(lines))] == list(documents)


def test_a_sample_without_texts_is_refused_with_its_line(written):
    faults = [
        ([{"task_id": 2, "solution": "x"}], "line 1: task_id must be a text, got 2"),
        ([SAMPLES[0], {"task_id": "a", "solution": ["x"]}], "line 2: solution must be a text, got ['x']"),
        ([{"prompt": "a", "samples": "x"}], "line 1: samples must be a list of texts"),
        ([{"prompt": "a", "samples": []}], "line 1: no samples"),
        ([verl_line(0, None)], "line 1: output must be a text, got None"),
        ([verl_line(0, "a", 0), verl_line(0, "b")], "line 2: step 40 after step 0: other weights, another pool"),
        ([lm_eval_line(0, ["a"], resps=[])], "line 1: holds no responses"),
        ([lm_eval_line(0, ["a"], resps=[[["-0.1", "False"]]])], "(those of a multiple-choice task"),
    ]
    assert not wrongly_refused(faults, lambda lines: list(read_pool(written(lines), layouts=LAYOUTS)))


def inspect_sample(name, epoch, *texts, error=None, **scores):
    """A sample with the fields of inspect_ai's EvalSample that are read."""
    reason = "max_tokens" if epoch % 2 else "stop"
    choices = [Fields(message=Fields(text=text), stop_reason=reason) for text in texts]
    asked = [Fields(text="Be brief."), Fields(text=f"Say {name}")] if epoch % 2 else f"Say {name}"
    given = {scorer: Fields(value=value) for scorer, value in scores.items()} or None
    output = Fields(choices=choices)
    return Fields(id=name, epoch=epoch, input=asked, target=["red"], output=output, error=error, scores=given)


def test_the_epochs_of_a_sample_are_its_responses_and_the_numbers_of_a_scorer_scores_its_letters_not():
    both = inspect_sample(7, 1, "71", "72", rm=1.0)  # a score of two choices together
    samples = [inspect_sample("a", 2, "a2", rm=True, judge=3), both, inspect_sample("a", 1, "a1", rm=0.5, match="C")]
    samples += [inspect_sample("a", 3, "a3", error="timeout"), inspect_sample("b", 1)]
    notes = []
    seven, letter = records_of(samples, notes.append)
    assert (seven.problem_id, seven.responses, seven.scores) == ("sample-7", ["71", "72"], {})
    assert (letter.problem_id, letter.responses, letter.reference) == ("a", ["a1", "a2"], ["red"])
    assert letter.finish == ["length", "stop"]
    assert (letter.prompts, letter.scores) == (("Be brief.\nSay a",), {"rm": [0.5, None], "judge": [None, 3]})
    assert notes == ["pool: 2 of 5 samples ended without an answer: no responses"]
    assert [record.prompts for record in records_of(samples[:1], print)] == [("Say a",)]


def zipped(name, content="{}"):
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return sink.getvalue()


def test_a_log_is_known_by_its_content_and_its_fault_and_that_of_another_archive_are_one_line(written):
    fault = "inspect_ai cannot read this log"
    if importlib.util.find_spec("inspect_ai") is None:
        fault = "an inspect_ai log needs inspect_ai: not installed: pip install 'diversity-harness[inspect]'"
    for content, words in (
        (zipped("header.json"), fault),
        (zipped("_journal/start.json"), fault),
        ('{\n  "version": 2,\n  "status": "success",\n  "eval": {}\n}', fault),
        (zipped("readme.txt"), "a zip archive, but no inspect_ai log"),
        (zipped("header.json")[:40], "a broken zip archive"),
        (zipped("header.json", bytes(65 << 20)), "expands to 68,157,440 bytes, over 100 times its size"),
    ):
        assert words in pool_refusal(written(content, "log.bin"))


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


def old_detail(number, texts, cast=lambda value: value):
    """A row of the old kind; `cast=str` as some versions write it."""
    row = OLD_DETAIL | {"example": f"Say colour {number} (test).", "predictions": texts}
    return {name: cast(value) for name, value in row.items()}


def test_details_of_the_new_and_of_the_old_kind_are_read_also_where_all_was_cast_to_text(details):
    texts = ['it\'s "red"\n', "\\boxed{é}"]
    path = details(new_detail(0, texts), new_detail(1, ["[INST"], specific={"problem": "Say colour 1 (test)."}))
    first, second = read_pool(path)
    assert (first.prompts, first.responses) == (("Solve this.\n\nSay colour 0 (test).",), texts)
    assert second.prompts == ("Say colour 1 (test).", "Solve this.\n\nSay colour 1 (test).")
    (note,) = notes_on(path)
    assert note.startswith("pool: read as lighteval details")
    assert note.endswith("not taken as verdicts")
    for cast in (lambda value: value, str):
        first, second = read_pool(details(old_detail(0, texts, cast), old_detail(1, ["[INST"], cast)))
        assert (first.responses, second.responses) == (texts, ["[INST"])
        assert (first.problem_id, first.prompts, first.reference) == ("row-1", ("Say colour 0 (test).",), ["red"])


def test_a_document_logged_once_for_each_metric_has_its_responses_once(details):
    rows = [old_detail(0, ["a", "b"]), old_detail(1, ["c"]), old_detail(0, ["a", "b"]), old_detail(0, ["d"])]
    assert responses_in(details(*rows)) == {"row-1": ["a", "b", "d"], "row-2": ["c"]}
    rows = [new_detail(0, ["a"]), new_detail(0, ["a"], task_name="other"), new_detail(0, ["a"], id="1")]
    assert responses_in(details(*rows)) == {f"row-{number}": ["a"] for number in (1, 2, 3)}
    rows = [new_detail(0, [str(number % 65)], id="0") for number in range(130)]  # two batches of rows and more
    assert responses_in(details(*rows)) == {"row-1": [str(number) for number in range(65)]}


def test_parquet_that_is_no_pool_of_lighteval_is_refused_in_one_line(details, written):
    structs = "row 1: doc and model_response must be structs, as lighteval writes them"
    for row, words in (
        ({"a": 1, "b": "x"}, "its columns are a, b"),
        (old_detail(0, [-1.5]), "row 1: holds no responses"),
        (new_detail(0, ["a"]) | {"doc": "x"}, structs),
    ):
        assert words in pool_refusal(details(row))
    cut = written(details(new_detail(0, ["a"])).read_bytes()[:200], "cut.parquet")
    assert "this parquet file cannot be read" in pool_refusal(cut)
