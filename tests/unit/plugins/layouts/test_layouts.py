"""Pool files in the layouts of other tools: each read as its tool writes it, each fault one line, each line joined."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import time
import zipfile
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.paths import ROOT, TOY
from support.toy import Colours

from harness import HarnessError, Problem, Task
from harness.pools.given import pool_digest
from harness.pools.joining import IdTable, Joiner
from harness.pools.reading import count_problems, read_pool
from harness.pools.record import PoolRecord
from harness_plugins.layouts.inspect_ai import records_of


@pytest.fixture
def written(tmp_path):
    """Write a file of that name: objects as JSON lines, text or bytes as they are."""

    def call(content, name="pool.jsonl"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, list):
            content = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in content)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return call


@pytest.fixture
def imported(harness, tmp_path):
    """Import a pool for the toy task (prompts `Say colour 0 (test).`); further options as arguments."""

    def call(path, *args):
        fixed = ("--task", "colours", "--plugin", TOY, "--store", tmp_path / "runs", "--json")
        return harness("pool", "import", path, *fixed, *args)

    return call


def responses(path):
    return {record.problem_id: list(record.responses) for record in read_pool(path)}


def notes(path):
    said = []
    list(read_pool(path, said.append))
    return said


def refusal(path):
    """The one line with which a pool is refused."""
    with pytest.raises(HarnessError) as caught:
        list(read_pool(path))
    assert "\n" not in str(caught.value)
    return str(caught.value)


# evalplus

EVALPLUS = [
    {"task_id": "Mbpp/2", "solution": "def f(): return 1"},
    {"task_id": "HumanEval/0", "completion": "    return 2\n"},
    {"task_id": "Mbpp/2", "solution": "def f(): return 'ü'", "_identifier": "Mbpp/2 (line 3)"},
    {"task_id": "HumanEval/0", "completion": "    return 3\n", "solution": "def g():\n    return 3\n"},
    {"task_id": "Mbpp/2", "solution": ""},
]


def test_evalplus_samples_are_grouped_by_task_in_the_order_of_first_appearance(written):
    path = written(EVALPLUS)
    read = responses(path)
    assert list(read) == ["Mbpp/2", "HumanEval/0"]
    assert read["Mbpp/2"] == ["def f(): return 1", "def f(): return 'ü'", ""]
    assert notes(path) == ["pool: read as evalplus samples"]


def test_of_an_evalplus_line_the_whole_solution_is_preferred_and_a_completion_stays_as_it_is(written):
    assert responses(written(EVALPLUS))["HumanEval/0"] == ["    return 2\n", "def g():\n    return 3\n"]


def test_what_evalplus_itself_writes_is_read(tmp_path):
    pytest.importorskip("evalplus")
    from evalplus.data import write_jsonl

    for name in ("samples.jsonl", "samples.jsonl.gz"):
        write_jsonl(str(tmp_path / name), EVALPLUS)
        assert [len(texts) for texts in responses(tmp_path / name).values()] == [3, 2]


def test_a_folder_of_evalplus_programs_is_read_in_the_order_of_their_numbers(written, tmp_path):
    for task, number in (("HumanEval_10", 0), ("HumanEval_2", 10), ("HumanEval_2", 2), ("HumanEval_2", 0)):
        written(f"# {number}", f"samples/{task}/{number}.py")
    written("[]", "samples/HumanEval_2/notes.json")
    read = responses(tmp_path / "samples")
    assert read == {"HumanEval/2": ["# 0", "# 2", "# 10"], "HumanEval/10": ["# 0"]}
    assert list(read) == ["HumanEval/2", "HumanEval/10"]
    before = pool_digest(tmp_path / "samples")
    written("# changed", "samples/HumanEval_2/10.py")
    assert pool_digest(tmp_path / "samples") != before


# CodeT and our own

CODET = [
    {"prompt": "Say colour 0 (test).", "samples": ["say red", "say blue"]},
    {"prompt": "Say  colour 2\n(test).", "samples": ["say blue"]},
]


def test_codet_lines_are_called_by_their_numbers(written):
    path = written(json.dumps(CODET[0]) + "\n\n" + json.dumps(CODET[1]) + "\n")
    assert responses(path) == {"line-1": ["say red", "say blue"], "line-3": ["say blue"]}
    assert [record.prompt for record in read_pool(path)] == [line["prompt"] for line in CODET]


@pytest.mark.parametrize("line", [CODET[0], {"problem_id": "a", "responses": ["x"]}])
def test_lines_that_need_no_grouping_are_read_one_at_a_time(written, line):
    records = read_pool(written(json.dumps(line) + "\nbroken\n"))
    assert next(records).responses
    with pytest.raises(HarnessError, match="line 2: not JSON"):
        next(records)


def test_the_number_of_problems_is_known_before_only_where_lines_are_problems(written, tmp_path):
    assert count_problems(written(CODET)) == 2
    assert count_problems(written([{"problem_id": "a", "responses": ["x"]}])) == 1
    assert count_problems(written(EVALPLUS)) == 0
    assert count_problems(written("broken")) == 0
    assert count_problems(written(b"PAR1")) == 0
    assert count_problems(tmp_path / "absent") == 0


def test_whether_a_file_is_packed_is_seen_from_its_content_and_a_byte_order_mark_is_passed_over(written):
    text = "".join(json.dumps(line) + "\n" for line in CODET)
    assert len(responses(written(gzip.compress(text.encode()), "packed.jsonl"))) == 2
    assert len(responses(written(text, "plain.jsonl.gz"))) == 2
    assert len(responses(written(b"\xef\xbb\xbf" + text.encode()))) == 2


def test_an_array_is_read_as_its_entries(written):
    assert responses(written(json.dumps(CODET, indent=2), "pool.json")) == {
        "line-1": ["say red", "say blue"],
        "line-2": ["say blue"],
    }
    broken = [{"problem_id": "a", "responses": ["x"]}, {"problem_id": "a", "responses": ["x"]}]
    assert "entry 2: problem_id 'a' stands on entry 1 already" in refusal(written(json.dumps(broken), "pool.json"))


# lm-evaluation-harness


def lm_eval_line(doc_id, texts, **fields):
    """A line as lm-eval 0.4.13 writes it for a task that generates."""
    doc = {"question": f"Say colour {doc_id} (test).", "answer": "red"}
    return {
        "doc_id": doc_id,
        "doc": doc,
        "target": "red",
        "arguments": {"gen_args_0": {"arg_0": f"Q: {doc['question']}\nA:", "arg_1": {"until": ["\n"]}}},
        "resps": [texts],
        "filtered_resps": [texts[0]],
        "filter": "strict-match",
        "metrics": ["exact_match"],
        "doc_hash": f"{doc_id:064x}",
        "prompt_hash": "5f" * 32,
        "target_hash": "0c" * 32,
        "exact_match": 1.0,
    } | fields


def without(line, *names):
    return {name: value for name, value in line.items() if name not in names}


def test_all_repeats_of_an_lm_eval_document_are_responses_once_however_many_filters_there_are(written):
    lines = [
        lm_eval_line(doc, [f"{doc}{i}" for i in range(3)], filter=name)
        for name in ("strict-match", "flexible-extract")
        for doc in range(2)
    ]
    path = written(lines, "samples_toy.jsonl")
    assert responses(path) == {"doc-0": ["00", "01", "02"], "doc-1": ["10", "11", "12"]}
    record = next(read_pool(path))
    assert (record.prompts, record.reference, record.correct) == (("Say colour 0 (test).",), "red", None)
    assert "not taken as verdicts" in notes(path)[0]


def test_the_array_that_lm_eval_wrote_until_0_4_2_is_read_and_its_unnamed_filters_are_seen_through(written):
    old = [
        without(lm_eval_line(doc, [f"{doc}0", f"{doc}1"], arguments=[[f"Q{doc}", {"until": []}]]), "filter", "doc_hash")
        for doc in (0, 1, 0, 1)
    ]
    path = written(json.dumps(old, indent=2), "model_toy.jsonl")
    assert responses(path) == {"doc-0": ["00", "01"], "doc-1": ["10", "11"]}


def test_the_files_of_several_lm_eval_runs_in_one_folder_are_one_pool(written, tmp_path):
    for seed in range(2):
        lines = [lm_eval_line(0, [f"seed {seed}"], filter=name) for name in ("strict-match", "flexible-extract")]
        written(lines, f"runs/samples_toy_{seed}.jsonl")
    written("{}", "runs/results_0.json")
    assert responses(tmp_path / "runs") == {"doc-0": ["seed 0", "seed 1"]}
    before = pool_digest(tmp_path / "runs")
    written([lm_eval_line(0, ["another"])], "runs/samples_toy_1.jsonl")
    assert pool_digest(tmp_path / "runs") != before


def test_equal_responses_of_two_lm_eval_runs_count_twice_where_the_filter_is_named(written):
    lines = [lm_eval_line(0, ["a"], filter=name) for name in ("strict-match", "flexible-extract") * 2]
    assert responses(written(lines)) == {"doc-0": ["a", "a"]}


def test_documents_of_two_lm_eval_tasks_are_not_one_because_their_numbers_are(written):
    lines = [lm_eval_line(0, ["a"]), lm_eval_line(0, ["b"], doc={"question": "Another."}, doc_hash="ff" * 32)]
    assert [record.prompts for record in read_pool(written(lines))] == [("Say colour 0 (test).",), ("Another.",)]
    bare = [without(line, "doc_hash") for line in lines]
    assert len(list(read_pool(written(bare)))) == 2


def test_an_lm_eval_document_joins_by_the_data_sets_id_and_by_what_was_asked_where_it_has_no_prompt(written):
    chat = json.dumps([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Say colour 1"}])
    lines = [
        lm_eval_line(0, ["a"], doc={"unique_id": "test/3", "Problem": "x", "task_id": 4}),
        lm_eval_line(1, ["a"], doc={"id": 7}, arguments={"gen_args_0": {"arg_0": [chat], "arg_1": {}}}),
        lm_eval_line(2, ["a"], doc={"id": 8}, arguments=[["Say colour 2", {}]]),
    ]
    first, second, third = read_pool(written(lines))
    assert (first.ids, first.prompts) == (("doc-0", "test/3"), ("x",))
    assert second.prompts == ("Be brief.\nSay colour 1",)
    assert third.prompts == ("Say colour 2",)


def test_the_log_likelihoods_of_a_multiple_choice_task_are_no_responses(written):
    line = lm_eval_line(0, ["a"], resps=[[["-0.1", "False"]], [["-0.5", "False"]]])
    assert "line 1: resps holds no texts (those of a multiple-choice task" in refusal(written([line]))


# verl


def verl_line(colour, output, step=40, **fields):
    """A line of a validation dump: the prompt as the tokenizer decodes it, special tokens left out."""
    prompt = f"system\nYou are Qwen.\nuser\nSay colour {colour} (test).\nLet's think step by step.\nassistant\n"
    return {"input": prompt, "output": output, "gts": "red", "score": 1.0, "step": step, "acc": True} | fields


def test_a_verl_dump_is_grouped_by_input_and_its_scores_are_no_verdicts(written):
    path = written([verl_line(0, "say red"), verl_line(1, "a"), verl_line(0, "say blue", score=0.0), verl_line(0, "")])
    assert responses(path) == {"line-1": ["say red", "say blue", ""], "line-2": ["a"]}
    record = next(read_pool(path))
    assert (record.correct, record.reference) == (None, "red")
    assert notes(path) == ["pool: read as verl samples; its scores are rewards: not taken as verdicts"]


def test_two_steps_of_a_verl_run_are_two_models_and_no_pool(written, tmp_path):
    written([verl_line(0, "a", 0)], "val/0.jsonl")
    written([verl_line(0, "b", 40)], "val/40.jsonl")
    assert "step 40 after step 0: other weights, another pool" in refusal(tmp_path / "val")


def test_a_verl_dump_joins_although_its_prompts_are_rendered_chats(written, imported):
    outcome = imported(written([verl_line(0, "say red"), verl_line(2, "say blue"), verl_line(99, "x")]))
    assert outcome.code == 0, outcome.err
    assert outcome.rows["problems"] == 2
    assert "joined 2 because their prompt holds the task's" in outcome.err
    assert "1 of 3 problems join to none of the task's: 'line-3'" in outcome.err


# lighteval


def parquet(path, rows):
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def new_detail(number, texts, **doc):
    """A row as lighteval 0.13 writes it: doc, metric, model_response."""
    query = f"Solve this.\n\nSay colour {number} (test)."
    doc = {"query": query, "choices": ["red"], "gold_index": 0, "id": str(number), "task_name": "toy", **doc}
    return {
        "doc": doc,
        "metric": {"pass@k:k=1": 1.0},
        "model_response": {"input": "few shots\n" + query, "text": texts, "text_post_processed": None, "logprobs": []},
    }


def old_detail(number, texts, cast=lambda value: value):
    """A row as lighteval up to 0.10 writes it; `cast=str` as some versions do."""
    detail = {
        "example": f"Say colour {number} (test).",
        "full_prompt": f"Question: Say colour 9 (test).\nAnswer: red\n\nSay colour {number} (test).",
        "gold": ["red"],
        "predictions": texts,
        "metrics": {"qem": 0.0},
    }
    return {name: cast(value) for name, value in detail.items()}


def test_lighteval_details_of_the_new_kind_are_read(tmp_path):
    rows = [new_detail(0, ["say red", "é"]), new_detail(1, ["b"], specific={"problem": "Say colour 1 (test)."})]
    path = parquet(tmp_path / "details.parquet", rows)
    first, second = read_pool(path)
    assert (first.problem_id, first.responses, first.reference) == ("row-1", ["say red", "é"], ["red"])
    assert first.prompts == ("Solve this.\n\nSay colour 0 (test).",)
    assert second.prompts[0] == "Say colour 1 (test)."
    assert "not taken as verdicts" in notes(path)[0]


@pytest.mark.parametrize("cast", [lambda value: value, str])
def test_lighteval_details_of_the_old_kind_are_read_also_where_all_was_cast_to_text(tmp_path, cast):
    texts = ['it\'s "red"\n', "\\boxed{é}"]
    path = parquet(tmp_path / "details.parquet", [old_detail(0, texts, cast), old_detail(1, ["[INST"], cast)])
    first, second = read_pool(path)
    assert first.responses == texts
    assert second.responses == ["[INST"]
    assert first.prompts == ("Say colour 0 (test).",)
    assert first.reference == ["red"]


def test_a_lighteval_document_logged_once_for_each_metric_has_its_responses_once(tmp_path):
    rows = [old_detail(0, ["a", "b"]), old_detail(1, ["c"]), old_detail(0, ["a", "b"]), old_detail(0, ["d"])]
    path = parquet(tmp_path / "details.parquet", rows)
    assert responses(path) == {"row-1": ["a", "b", "d"], "row-2": ["c"]}


def test_parquet_files_that_are_no_lighteval_pool_are_one_clear_line(written, tmp_path):
    assert "its columns are a, b" in refusal(parquet(tmp_path / "other.parquet", [{"a": 1, "b": "x"}]))
    scores = parquet(tmp_path / "choice.parquet", [new_detail(0, [])])
    assert "row 1: holds no responses" in refusal(scores)
    assert "row 1: holds no responses" in refusal(parquet(tmp_path / "old.parquet", [old_detail(0, [-1.5])]))
    assert "cannot be read" in refusal(written(scores.read_bytes()[:200], "cut.parquet"))


# inspect_ai


def inspect_sample(name, epoch, *texts, error=None):
    """A sample with the fields of inspect_ai's EvalSample that are read."""
    choices = [SimpleNamespace(message=SimpleNamespace(text=text)) for text in texts]
    asked = [SimpleNamespace(text="Be brief."), SimpleNamespace(text=f"Say {name}")]
    return SimpleNamespace(
        id=name,
        epoch=epoch,
        input=asked if epoch % 2 else f"Say {name}",
        target=["red"],
        output=SimpleNamespace(choices=choices),
        error=error,
    )


def test_the_epochs_of_an_inspect_sample_are_its_responses_in_their_order():
    said = []
    samples = [
        inspect_sample("a", 2, "a2"),
        inspect_sample(7, 1, "71", "72"),
        inspect_sample("a", 1, "a1"),
        inspect_sample("a", 3, "a3", error="timeout"),
        inspect_sample("b", 1),
    ]
    records = {record.problem_id: record for record in records_of(samples, said.append)}
    assert {name: list(record.responses) for name, record in records.items()} == {
        "sample-7": ["71", "72"],
        "a": ["a1", "a2"],
    }
    assert records["a"].prompts == ("Be brief.\nSay a",)
    assert said == ["pool: 2 of 5 samples ended without an answer: no responses"]


def zipped(**files):
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        for name, content in files.items():
            archive.writestr(name.replace("__", "."), content)
    return sink.getvalue()


JSON_LOG = '{\n  "version": 2,\n  "status": "success",\n  "eval": {}\n}'


@pytest.mark.parametrize("content", [zipped(header__json="{}"), JSON_LOG])
def test_an_inspect_log_is_known_by_its_content_and_its_fault_is_one_line(written, content):
    try:
        import inspect_ai.log  # noqa: F401
    except ImportError:
        expected = "an inspect_ai log, which its own reader reads: pip install inspect_ai"
    else:
        expected = "inspect_ai cannot read this log"
    assert expected in refusal(written(content, "log.bin"))


def test_an_archive_that_is_no_inspect_log_is_one_clear_line(written):
    assert "a zip archive, but no inspect_ai log" in refusal(written(zipped(readme__txt="x"), "pool.zip"))
    assert "a broken zip archive" in refusal(written(zipped(header__json="{}")[:40], "cut.eval"))


@pytest.mark.parametrize("kind", ["eval", "json"])
def test_what_inspect_ai_itself_writes_is_read(tmp_path, kind):
    log = pytest.importorskip("inspect_ai.log")
    from inspect_ai.model import ChatMessageUser, ModelOutput

    asked = ["Say colour 0 (test).", [ChatMessageUser(content="Say colour 1 (test).")]]
    samples = [
        log.EvalSample(
            id=number,
            epoch=epoch,
            input=asked[number],
            target="red",
            output=ModelOutput.from_content("toy", f"é{epoch}"),
        )
        for epoch in (1, 2)
        for number in (0, 1)
    ]
    spec = log.EvalSpec(
        created="2026-01-01T00:00:00+00:00", task="toy", dataset=log.EvalDataset(), model="toy", config=log.EvalConfig()
    )
    path = tmp_path / "log.bin"
    log.write_eval_log(log.EvalLog(eval=spec, status="success", samples=samples), str(path), format=kind)
    first, second = read_pool(path)
    assert first.responses == second.responses == ["é1", "é2"]
    assert (first.problem_id, first.prompts) == ("sample-0", ("Say colour 0 (test).",))
    assert second.prompts == ("Say colour 1 (test).",)


# Faults


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            [{"question": "a", "answers": ["b"]}],
            "line 1: unknown layout: its keys are 'question', 'answers'; known are",
        ),
        ([{"task_id": "a", "prompt": "b"}], "line 1: unknown layout: its keys are 'task_id', 'prompt'"),
        ([{}], "line 1: unknown layout: its keys are none"),
        ('{\n "results": {},\n "configs": {}\n}', "line 1: unknown layout: its keys are 'results', 'configs'"),
        ("{\n", "line 1: not JSON"),
        ("[", "line 1: not JSON"),
        ('[{"problem_id": "a", "responses": ["x"]}, 3]', "entry 2: expected JSON objects"),
        ('{"problem_id": "a", "responses": ["x"]}\n3\n', "line 2: expected JSON objects"),
        ("[]", "empty"),
        ([*EVALPLUS[:1], CODET[0]], "line 2: the first line is evalplus (task_id, solution or completion), this one"),
        ([*EVALPLUS[:1], {"task_id": "a"}], "line 2: the first line is evalplus"),
        ([{"problem_id": "a", "responses": ["x"]}, CODET[0]], "line 2: the first line is own"),
        ([{"task_id": 2, "solution": "x"}], "line 1: task_id must be a text, got 2"),
        ([{"task_id": "a", "solution": ["x"]}], "line 1: solution must be a text, got ['x']"),
        ([{"prompt": None, "samples": ["x"]}], "line 1: prompt must be a text"),
        ([{"prompt": "a", "samples": "x"}], "line 1: samples must be a list of texts"),
        ([{"prompt": "a", "samples": []}], "line 1: no samples"),
        ([lm_eval_line(0, ["a"], resps=[])], "line 1: no resps"),
        ([lm_eval_line(0, ["a"], resps="a")], "line 1: resps holds no texts"),
        ([verl_line(0, None)], "line 1: output must be a text, got None"),
        ([verl_line(0, "a", input=[1])], "line 1: input must be a text"),
        ('{"problem_id": "a", "responses": ["x"], "reference": [NaN]}', "(a): reference must hold plain values"),
        ('{"problem_id": "a", "responses": ["x"], "reference": ' + "1" * 5000 + "}", "line 1: not JSON"),
        (gzip.compress(b"{}", mtime=0)[:10] + b"\xff" * 40, "not UTF-8 text"),  # no such block in a gzip stream
    ],
)
def test_each_fault_of_a_pool_file_is_one_line_with_its_place(written, content, said):
    path = written(content)
    line = refusal(path)
    assert said in line
    assert line.startswith(f"pool {path}")


def test_a_folder_without_pool_files_and_a_program_that_is_no_text_are_one_clear_line(written, tmp_path):
    (tmp_path / "bare").mkdir()
    assert "a folder without *.jsonl files" in refusal(tmp_path / "bare")
    written(b"\xff\xfe", "samples/HumanEval_0/0.py")
    assert "0.py: not UTF-8 text" in refusal(tmp_path / "samples")


def test_a_hundred_thousand_samples_are_grouped_in_seconds(written):
    lines = (f'{{"task_id": "HumanEval/{i * 61 % 164}", "solution": "    return {i}\\n"}}\n' for i in range(100_000))
    path = written("".join(lines))
    started = time.monotonic()
    read = responses(path)
    assert time.monotonic() - started < 30  # half a second on an idle machine
    assert len(read) == 164
    assert sorted(int(text.split()[-1]) for texts in read.values() for text in texts) == list(range(100_000))


def test_a_pool_of_unequal_sizes_needs_n_and_then_takes_the_first_of_each(written, harness, tmp_path):
    path = written([lm_eval_line(0, ["say red", "x"]), lm_eval_line(1, ["x", "say green", "y"])])
    options = ("--task", "colours", "--plugin", TOY, "--store", tmp_path / "runs", "--json", "--selector", "shuffle")
    assert "say --n 2 to take the first 2 of each" in harness("run", "--pool", path, *options).err
    outcome = harness("run", "--pool", path, *options, "--n", 2)
    assert (outcome.code, outcome.rows[0]["n"], outcome.rows[0]["solvable"]) == (0, 2, 2)
    assert "read as lm-evaluation-harness samples" in outcome.err  # said on every run, not on the first alone


# Joining


class Puzzles(Task):
    """Problems as given; asked in a chat of two messages."""

    def __init__(self, *prompts, references=()):
        self.list = [Problem(f"p{i}", text) for i, text in enumerate(prompts)]
        if references:
            self.list = [Problem(one.id, one.prompt, ref) for one, ref in zip(self.list, references, strict=True)]

    def problems(self, split):
        return self.list

    def messages(self, problem):
        asked = f"Solve: {problem.prompt} Answer with a number."
        return [{"role": "system", "content": "Be brief."}, {"role": "user", "content": asked}]


def joined(task, prompt, name="line-1", ids=None):
    """The id of the problem that a line with this prompt joins to, and how."""
    problem, way = Joiner(task, task.problems("test"), ids)(PoolRecord(name, ["x"], prompt=prompt))
    return (problem and problem.id, way)


def test_ids_come_before_prompts_and_raw_prompts_before_rendered_ones():
    task = Puzzles("How many eggs are there?", "Solve: p Answer with a number.", "p")
    assert joined(task, "How many eggs are there?", "p2") == ("p2", "id")
    assert joined(task, " How  many\neggs are there?") == ("p0", "prompt")
    assert joined(task, "Solve: p Answer with a number.") == ("p1", "prompt")
    assert joined(task, "Be brief.\nSolve: p Answer with a number.") == ("p2", "rendered")
    assert joined(task, "nothing of the kind") == (None, "")


def test_a_prompt_within_a_rendered_chat_joins():
    task = Puzzles("How many eggs are there?", "4 5 6 10")
    assert joined(task, "<|user|>How many\neggs are there?<|end|>\n<|assistant|>") == ("p0", "within")
    assert joined(task, "user Solve: 4 5 6 10 Answer with a number. assistant") == ("p1", "within")  # as it is asked
    assert joined(task, "user How many eggs are there, then? assistant") == (None, "")


def test_a_prompt_of_under_twenty_characters_is_not_looked_for_within_others():
    assert joined(Puzzles("a" * 19), f"user {'a' * 19} assistant") == (None, "")
    assert joined(Puzzles("a" * 20), f"user {'a' * 20} assistant") == ("p0", "within")


def test_of_prompts_within_each_other_the_longest_counts():
    short = "How many eggs are there?"
    task = Puzzles(short, f"Ada has 3 hens. {short} Say why.", f"{short} Say why, and when.")
    assert joined(task, f"user Ada has 3 hens. {short} Say why. assistant") == ("p1", "within")
    assert joined(task, f"user {short} Say why, and when. assistant") == ("p2", "within")
    assert joined(task, f"user {short} assistant") == ("p0", "within")


def test_what_holds_the_prompts_of_several_problems_joins_to_none():
    task = Puzzles("How many eggs are there?", "How many hens are there?")
    shots = "Question: How many eggs are there? Answer: 3 Question: How many hens are there? Answer:"
    assert joined(task, shots) == (None, "several")
    assert joined(task, "How many eggs are there? Again: How many eggs are there?") == ("p0", "within")


@pytest.mark.parametrize("after", ["3", "3.", ".5", "0 and more"])
def test_a_number_that_goes_on_is_another_problem(after):
    task = Puzzles("Make 24 from the numbers 1 1 1 1", "12 eggs and 13 hens: which?")
    assert joined(task, f"user Make 24 from the numbers 1 1 1 1{after} assistant") == (None, "")
    assert joined(task, "user Make 24 from the numbers 1 1 1 1. assistant") == ("p0", "within")
    assert joined(task, "user 1.12 eggs and 13 hens: which? assistant") == (None, "")
    assert joined(task, "user 112 eggs and 13 hens: which? assistant") == (None, "")


def test_of_doubles_with_one_reference_the_first_is_taken_and_others_are_left_out():
    text = "How many eggs are there?"
    for prompt in (text, f"user {text} assistant"):
        assert joined(Puzzles(text, "another one, not this", text, references="181"), prompt)[0] == "p0"
        assert joined(Puzzles(text, "another one, not this", text, references="182"), prompt) == (None, "several")
    assert joined(Puzzles(text, text, text, references="121"), text) == (None, "several")


def test_what_fits_several_problems_is_said_and_left_out(written, imported, tmp_path):
    shots = "Say colour 0 (test). red. Say colour 1 (test). green."
    outcome = imported(written([*CODET, {"prompt": shots, "samples": ["x"]}]))
    assert outcome.rows["problems"] == 2
    assert "1 of 3 problems fit several of the task's and are left out: 'line-3'; a table of --ids says" in outcome.err


def test_the_prompts_of_five_thousand_problems_are_looked_for_in_five_thousand_lines_in_seconds():
    task = Puzzles(*(f"Ada buys {i} eggs at {i % 7} each; what does she pay? " + "Say why. " * 20 for i in range(5000)))
    join = Joiner(task, task.problems("test"))
    lines = [PoolRecord("x", ["x"], prompt=f"system\nBe good.\nuser\n{one.prompt}\nassistant\n") for one in task.list]
    started = time.monotonic()
    assert [join(line)[0] for line in lines] == task.list
    assert time.monotonic() - started < 60  # a second and a half on an idle machine


# --ids


TABLE = [{"task_id": "test/3", "prompt": CODET[0]["prompt"]}, {"task_id": "test/2", "prompt": CODET[1]["prompt"]}]


def delimited(rows, delimiter=","):
    sink = io.StringIO()
    writer = csv.DictWriter(sink, list(rows[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    return sink.getvalue()


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (TABLE, "table.jsonl"),
        (json.dumps(TABLE, indent=1), "table.json"),
        (delimited(TABLE), "table.csv"),
        (delimited(TABLE, "\t"), "table.tsv"),
        (gzip.compress(delimited(TABLE).encode(), mtime=0), "table.csv.gz"),
        ([{"problem_id": "test/3", "pool_id": "line-1"}, {"id": "test/2", "from": "line-2"}], "by_line.jsonl"),
        ("problem_id,pool_id,prompt\ntest/3,line-1,\ntest/2,line-2,elsewhere\n", "by_line.csv"),
    ],
)
def test_a_table_says_which_problem_a_line_answers_even_against_its_prompt(written, imported, content, name):
    outcome = imported(written(CODET), "--ids", written(content, name))
    assert outcome.code == 0, outcome.err
    assert outcome.rows["problems"] == 2
    assert "joined 2 by the table of --ids" in outcome.err


def test_a_line_joins_as_the_table_says_or_not_at_all_and_others_as_without_it(written):
    task = Puzzles("How many eggs are there?", "How many hens are there?")
    ids = IdTable(written([{"task_id": "p1", "pool_id": "a"}, {"task_id": "elsewhere", "pool_id": "b"}], "table.jsonl"))
    assert joined(task, "How many eggs are there?", "a", ids) == ("p1", "--ids")
    assert joined(task, "How many eggs are there?", "b", ids) == (None, "--ids")
    assert joined(task, "How many eggs are there?", "c", ids) == ("p0", "prompt")


def test_a_prompt_that_a_table_gives_to_two_problems_names_none(written):
    task = Puzzles("one", "two", "three")
    rows = [{"task_id": f"p{i}", "prompt": text} for i, text in ((0, "x"), (1, " x "), (2, "y"), (2, "y"), (0, "x"))]
    ids = IdTable(written(rows, "table.jsonl"))
    assert joined(task, "x", ids=ids) == (None, "")
    assert joined(task, "y", ids=ids) == ("p2", "--ids")


def test_a_pool_is_imported_anew_for_another_table(written, imported, harness, tmp_path):
    path = written(CODET)
    keys = set()
    for target in ("test/3", "test/4"):
        table = written([{"task_id": target, "pool_id": "line-1"}], "table.jsonl")
        keys.add(imported(path, "--ids", table).rows["pool"])
        out = tmp_path / "out.jsonl"
        harness("pool", "export", sorted(keys)[0], "--out", out, "--store", tmp_path / "runs")
    assert len(keys) == 2
    exported = set()
    for key in keys:
        harness("pool", "export", key, "--out", out, "--store", tmp_path / "runs")
        exported.add(tuple(sorted(json.loads(line)["problem_id"] for line in out.read_text().splitlines())))
    assert exported == {("test/2", "test/3"), ("test/2", "test/4")}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "no rows"),
        ("task_id,pool_id\n", "no rows"),
        ([{"task_id": "test/0"}], "line 1: expected the task's id (task_id, problem_id or id) and the pool's line"),
        ([{"pool_id": "line-1"}], "line 1: expected the task's id"),
        ("a,b\n1,2\n", "line 2: expected the task's id"),
        ("task_id,pool_id\ntest/0,\n", "line 2: expected the task's id"),
        ("pool_id,task_id\nline-1,test/0\nline-1,test/1\n", "line 3: 'line-1' is 'test/1' here and 'test/0' in a row"),
        ('task_id,prompt\ntest/0,"open\n', "not CSV"),
        ("[1, 2]", "expected JSON objects"),
        ('{"task_id": ', "line 1: not JSON"),
        (b"task_id,pool_id\n\xff,\xff\n", "not UTF-8"),
        ([{"task_id": "test/0", "pool_id": "nowhere"}], "names no line of pool"),
        ([{"task_id": "HumanEval/0", "pool_id": "line-1"}], "names no line of pool"),
    ],
)
def test_each_fault_of_a_table_is_one_line(written, imported, content, said):
    table = written(content, "table.csv")
    outcome = imported(written(CODET), "--ids", table)
    assert outcome.code == 2
    (line,) = outcome.err.strip().splitlines()
    assert said in line
    assert line.startswith(f"error: ids {table}")


def test_a_table_that_is_absent_or_without_a_task_is_one_clear_line(written, imported, harness, tmp_path):
    assert "no such file" in imported(written(CODET), "--ids", tmp_path / "absent.csv").err
    table = written(TABLE, "table.jsonl")
    outcome = harness("pool", "import", written(CODET), "--ids", table, "--store", tmp_path / "runs")
    assert outcome.code == 2
    assert "say which --task" in outcome.err


# The documents


def test_every_line_that_the_documents_show_is_read_as_what_they_say(written):
    table = re.findall(r"^\| ([\w-]+) \| `(\{.*?\})`", (ROOT / "docs" / "pools.md").read_text(), re.M)
    assert [name for name, _ in table] == ["own", "evalplus", "CodeT", "lm-eval", "verl"]
    for name, line in table:
        path = written(line + "\n")
        assert sum(len(texts) for texts in responses(path).values()) in (1, 2)
        said = "".join(notes(path)).replace("lm-evaluation-harness", "lm-eval")
        assert said.startswith(f"pool: read as {name} samples") or name == "own"


# Real data


def test_the_codet_pool_joins_to_all_of_humaneval_plus_by_the_table_and_to_four_without(harness, shared_data, tmp_path):
    pools = shared_data / "pools"
    fixed = ("--task", "humanevalplus", "--data", shared_data / "tasks" / "HumanEvalPlus-v0.1.10.jsonl.gz", "--json")
    pool = ("pool", "import", pools / "codet_humaneval_codegen16B_n100.jsonl", *fixed, "--store", tmp_path / "runs")
    outcome = harness(*pool, "--ids", pools / "codet_HumanEval_for_code_generation.jsonl")
    assert outcome.code == 0, outcome.err
    assert (outcome.rows["problems"], outcome.rows["n"], outcome.rows["responses"]) == (164, 100, 16_400)
    assert "joined 164 by the table of --ids" in outcome.err
    assert "join to none" not in outcome.err
    bare = harness(*pool)
    assert bare.rows["problems"] == 4
    assert "joined 4 by prompt" in bare.err
    assert "160 of 164 problems join to none of the task's: 'line-1', 'line-2', 'line-3'" in bare.err


def test_math500_joins_by_prompt_by_id_and_by_rendered_chat(shared_data):
    from harness_tasks.competition_math import Math500

    task = Math500(data=str(shared_data / "tasks" / "math500.jsonl"))
    problems = list(task.problems("test"))
    join = Joiner(task, problems)
    chat = "system\nPlease reason step by step.\nuser\n{}\nassistant\n"
    for record, way in (
        (lambda one: PoolRecord("doc-0", ["x"], more_prompts=[one.prompt]), "prompt"),
        (lambda one: PoolRecord("doc-0", ["x"], more_ids=[one.id]), "id"),
        (lambda one: PoolRecord("line-1", ["x"], prompt=chat.format(one.prompt)), "within"),
        (lambda one: PoolRecord("line-1", ["x"], prompt=chat.format(task.messages(one)[-1]["content"])), "within"),
    ):
        assert [join(record(one)) for one in problems] == [(one, way) for one in problems]


def test_the_toy_task_has_the_prompts_that_these_tests_join_to():
    assert [one.prompt for one in Colours().problems("test")][:2] == ["Say colour 0 (test).", "Say colour 1 (test)."]
