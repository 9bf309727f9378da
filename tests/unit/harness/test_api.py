"""The Python door: `select`, `run`, `read_results` give the command line's picks and rows; a fault is one line."""

import csv
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from support.choosing import of_duplicates
from support.json_lines import write_json_lines
from support.notebooks import session
from support.paths import TOY
from support.processes import printed_by, run_to_end
from support.refusals import refusal_of, wrongly_refused
from support.stores import cell_of

import harness as package
from harness import read_results, run, select

H = of_duplicates(30, 6, 1)
TEXTS = ["red apple", "green pear", "red apples", "blue sky"]


@pytest.fixture
def picks(harness, tmp_path):
    """What `harness select` picks: problem id -> indices."""

    def call(*options):
        rows = harness("select", *options, "--store", tmp_path / "runs", "--json").rows
        return {row["problem_id"]: row["order"] for row in rows}

    return call


def plain(chosen):
    return {name: indices.tolist() for name, indices in chosen.items()}


def test_vectors_in_memory_are_chosen_from_as_those_of_a_file(picks, tmp_path):
    both, path = {"problem": H, "b": H[:9]}, tmp_path / "E.npz"
    np.savez(path, **both)
    verified = {"problem": np.array([3, 4]), "b": (0,)}
    lines = [{"problem_id": name, "indices": list(map(int, indices))} for name, indices in verified.items()]
    done = write_json_lines(tmp_path / "done.jsonl", lines)
    options = ("--embeddings", path, "--selector", "repexp", "-k", 5)
    expected = picks(*options, "--seed", 4, "--dim", 3, "--no-centre")
    for source in (both, path):
        assert plain(select(source, k=5, seed=4, dim=3, centre=False)) == expected
    for h in (H.astype(np.float64), sparse.csr_matrix(H), sparse.coo_matrix(H)):
        assert select(h, k=5, seed=4, dim=3, centre=False).tolist() == expected["problem"]
    after = picks(*options, "--verified", done)
    for source, given in ((both, verified), (str(path), verified), (path, done)):
        assert plain(select(source, k=5, verified=given)) == after
    for batches in ([3, 4], [np.array([3]), [4]]):
        assert select(H, k=5, verified=batches).tolist() == after["problem"]


def test_texts_in_memory_are_chosen_from_as_those_of_a_pool_and_ids_are_the_callers_own(picks, tmp_path, capfd):
    pool = write_json_lines(tmp_path / "p.jsonl", [{"problem_id": "problem", "responses": TEXTS}])
    expected = picks("--pool", pool, "--selector", "repexp", "-k", 3)
    capfd.readouterr()
    assert plain(select(pool, k=3, quiet=True)) == plain(select({"problem": TEXTS}, k=3, quiet=True)) == expected
    assert capfd.readouterr() == ("", "")
    chosen = select(np.array(TEXTS), k=3)
    assert (chosen.tolist(), chosen.dtype) == (expected["problem"], np.intp)
    assert "embedder: tfidf" in capfd.readouterr().err
    assert list(select({7: [[1, 2], [3, 4], [9, 9]], (1, 2): H.tolist()}, k=2)) == [7, (1, 2)]


def test_an_object_of_the_callers_selects(tmp_path):
    body = "class Far:\n    def rank(self, pool, rng):\n        yield from (pool.embeddings**2).sum(1).argsort()"
    far = session(body)["Far"]()
    far.model = object()  # no key could be made of it, and none is needed
    expected = ((H - H.mean(axis=0)) ** 2).sum(1).argsort()[:4].tolist()
    assert select(H, type(far), 4).tolist() == select(H, far, 4).tolist() == expected
    options = {"budget": 9, "quiet": True, "journal": tmp_path / "journal.jsonl"}
    outcome = package.verify(sparse.csr_matrix(H), lambda name, index, text: index == expected[3], far, **options)
    assert (outcome["solved"], outcome["calls"]) == (1, 4)


SPOILT = sparse.csr_matrix(H)
SPOILT[3, 1] = np.nan
FAULTS = [
    ((H, {"k": 31}), "select: problem 'problem' has 30 responses: -k 31 is more"),
    ((H, {"k": "3"}), "select: k must be a valid integer, got '3'"),
    ((H, {"kk": 3}), "select: no option 'kk' (did you mean 'k'? options: centre, data, "),
    ((H[0], {}), "embeddings vectors: 'problem' has shape (6,), expected (n, d): one row a response"),
    (([[1], [2, 3]], {}), "embeddings vectors: 'problem' cannot be read ("),
    (({}, {}), "select: no problems are given"),
    ((TEXTS, {"k": 1, "model": "tiny24"}), "select: --task, --model and --scorer go with a pool file"),
    (
        (TEXTS, {"k": 1, "verified": [4]}),
        "verified (problem): indices must be whole numbers from 0 to 3, each once, got 4",
    ),
    (({"a": TEXTS}, {"k": 1, "verified": [1]}), "select: verified must be a mapping of problem ids to indices"),
    ((SPOILT, {}), "must hold finite numbers up to 1e+15, got nan in 1 of 30 rows, row 3 the first"),
]


def test_a_fault_of_select_is_one_line_in_a_notebook_too():
    assert wrongly_refused(FAULTS, lambda given: select(given[0], quiet=True, **given[1])) == []
    with pytest.raises(package.HarnessError) as caught:
        select(H, k=31)
    assert caught.value._render_traceback_() == [f"HarnessError: {caught.value}"]


def test_import_harness_loads_the_door_only_when_it_is_used():
    code = "import sys, harness\nprint('harness.api' in sys.modules, 'pydantic' in sys.modules)\n"
    code += "print({'run', 'select', 'read_results', 'Pool'} <= set(dir(harness)), hasattr(harness, 'rum'))\n"
    code += "harness.run, harness.select, harness.read_results\n"
    code += "print({'torch', 'transformers', 'pandas', 'matplotlib', 'datasets', 'harness_plugins'} & set(sys.modules))"
    assert printed_by(code).splitlines() == ["False False", "True False", "set()"]


# `run` and `read_results`.

CELL = "class Last:\n    needs = ()\n    def rank(self, pool, rng):\n        yield from range(len(pool) - 1, -1, -1)"
Last = session(CELL)["Last"]


@pytest.fixture
def door(tmp_path):
    """`run` of the toy task with its plugins and a store in `tmp_path`."""

    def call(*selectors, **options):
        fixed = {"task": "colours", "engine": "toy", "plugin_files": TOY, "store": tmp_path / "runs", "limit": 3}
        return run(**{**fixed, "selectors": selectors, "quiet": True, **options})

    return call


def test_the_rows_the_table_and_a_flat_frame_are_the_command_lines(door, harness, tmp_path, monkeypatch):
    results = door("spread", "head", n=np.int64(4))
    fixed = ("--task", "colours", "--engine", "toy", "--plugin", TOY, "--store", tmp_path / "runs", "--limit", 3)
    command = ("run", *fixed, "--n", 4, "--selector", "spread", "--selector", "head")
    assert results.table() == repr(results) == harness(*command).out
    assert json.loads(json.dumps([row.to_json() for row in results])) == harness(*command, "--json").rows
    assert (len(results), results[0], results[-1:]) == (2, results.rows[0], results.rows[1:])
    frame = results.to_pandas()
    assert frame["samples_to_correct"][0] == results[0].samples_to_correct
    assert np.isnan(frame["samples_to_correct"][1])  # a subset method has none
    assert frame["improvement_ci_low"][0] == results[0].improvement_ci[0]
    assert frame["pass_at_k_4"].tolist() == [row.pass_at_k["4"] for row in results]
    assert frame.map(lambda value: isinstance(value, (dict, list, tuple))).sum().sum() == 0
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert refusal_of(results.to_pandas) == "to_pandas needs pandas, which is not installed: pip install pandas"
    results = door(grid="selector=spread,embedder=hidden-mean+letters")
    assert [row.embedder for row in results] == ["hidden-mean", "letters"]
    assert results.table().count("random (exact)") == 1


def test_an_object_is_raced_in_one_table_and_ranked_again(door, tmp_path, capfd):
    results = door("spread", Last())
    assert [row.selector for row in results] == ["spread", "Last"]
    capfd.readouterr()
    again = door("spread", Last(), quiet=False)
    assert "rankings of spread: reused for 3 of 3 problems\nrank Last: 3 problems" in capfd.readouterr().err
    assert again[1].samples_to_correct == results[1].samples_to_correct
    changed = door(session(CELL.replace("range(len(pool) - 1, -1, -1)", "range(len(pool))"))["Last"])
    orders = [entry["orders"][0] for entry in cell_of(tmp_path / "runs", changed[0].to_json())["problems"]]
    assert [order for order in orders if order != list(range(len(order)))] == []


AWAY = """
class Away:
    def map(self, function, items, uses_model):
        if function.keywords["out"].column.kind == "orders":
            raise HarnessError("sent away")
        return map(function, items)
"""


def test_a_selector_that_fails_is_told_and_objects_rank_in_this_process_whatever_the_executor(door, plugin, capfd):
    own = [TOY, plugin(AWAY, executor=["Away"])]
    results = door("spread", Last(), plugin_files=own, executor="away", quiet=False)
    assert [row.selector for row in results] == ["Last"]
    assert list(results.failures.values()) == ["sent away"]
    assert "failed: sent away\n" in capfd.readouterr().err
    assert results.table().endswith("failed: sent away\n")


RUN_FAULTS = [
    ({"selectors": ()}, "run: say which selectors to compare, e.g. --selector repexp --selector uniform"),
    ({"max_tokns": 3}, "run: no option 'max_tokns' (did you mean 'max_tokens'? options: "),
    ({"embeddings": np.eye(3)}, "run: embeddings must be the path of a file, got array(["),
    ({"preset": "large"}, "no preset 'large'"),
    ({"selectors": (), "until_correct": True}, "run: --until-correct makes no rows: use `harness run` in a shell"),
    ({"selectors": [Last()], "rank_timeout": 3}, "run: --rank-timeout goes with specs: objects of this session"),
    ({"selectors": "raising"}, "selector 'raising', problem 'test/1', trial 0: raised ZeroDivisionError: oh"),
]


def test_a_fault_of_run_is_one_line_and_long_work_begins_with_yes(door, monkeypatch):
    assert wrongly_refused(RUN_FAULTS, lambda options: door(**{"selectors": "spread", **options})) == []
    monkeypatch.setattr("harness.jobs.price.MANY_RESPONSES", 40)
    line = refusal_of(door, "shuffle", n=20)
    assert line.startswith("run: not begun, since it takes 60 responses")
    assert len(door("shuffle", n=20, yes=True)) == 1


def test_results_are_read_from_stores_folders_files_and_keys(door, harness, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert refusal_of(read_results) == "read_results: no cells in results, runs/cells"
    rows = [*door("spread", "shuffle", store="runs"), *door("spread", store="runs", seed=1)]
    assert "raising" in refusal_of(door, "raising", store="runs")
    results = read_results("runs")
    assert [(row.selector, len(row.seeds or [0])) for row in results] == [("spread", 2), ("shuffle", 1)]
    assert (len(results.failures), len(results.boards)) == (1, 2)
    assert [row.cell for row in read_results("runs/cells")] == [row.cell for row in read_results()]
    for name in (f"runs/cells/{rows[1].cell}.json", rows[1].cell[:9]):
        assert [row.cell for row in read_results(name)] == [rows[1].cell]
    shown = harness("leaderboard", "runs/cells").out
    assert results.table() == shown.rpartition("written: ")[0]
    written = list(csv.DictReader(Path("runs/leaderboard.csv").read_text().splitlines()))
    frame, written = results.to_pandas(), [line for line in written if line["control"] in ("", "False")]
    assert list(frame["cell"]) == [line["cell"] for line in written]
    assert set(frame.columns) <= set(written[0])
    shutil.copy(f"runs/cells/{rows[0].cell}.json", "other.json")
    assert refusal_of(read_results, "other.json").startswith(
        "read_results: cell other.json: is named otherwise than its"
    )
    both = read_results("runs", "other.json")
    assert (len(both), "not counted: cell other.json: is named" in both.table()) == (len(results), True)


SCRIPT = """
print("this script ran")
import harness
from harness_plugins.executors import local
local.ALONE_S = local.START_S = 0.0
rows = harness.run(selectors=["uniform"], pool="p.jsonl", trials=1, quiet=True, executor="local:workers=2")
print(len(rows))
"""


@pytest.mark.slow
def test_worker_processes_do_not_run_a_script_again_that_has_no_guard(tmp_path):
    lines = [{"problem_id": str(i), "responses": ["x", "y"], "correct": [False, True]} for i in range(8)]
    write_json_lines(tmp_path / "p.jsonl", lines)
    (tmp_path / "script.py").write_text(SCRIPT)
    done = run_to_end([sys.executable, "script.py"], cwd=tmp_path)
    assert done.stdout == "this script ran\n1\n", done.stderr
