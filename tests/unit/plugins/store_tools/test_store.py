"""`harness store`: every byte counts once; what no cell needs goes, and what a cell needs stays, byte for byte."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.json_lines import write_json_lines
from support.paths import TOY
from support.refusals import error_line
from support.stores import contents

from harness_plugins.store_tools import store as stores

FIXED = ("--engine", "toy", "--plugin", TOY, "--limit", "2", "--json")
KEYED = ("--task", "keyed", "--n", "4", "--audit", "--selector", "spread")
COLOURS = ("--task", "colours", "--n", "3", "--selector", "spread")
GIVEN = [{"problem_id": str(i), "responses": ["a", "b", "c"], "correct": [i == 0, True, False]} for i in range(2)]


@pytest.fixture
def run(harness, tmp_path):
    """Run the toy engine, or without a task a graded pool file, on a store in `tmp_path`."""
    pool = write_json_lines(tmp_path / "pool.jsonl", GIVEN)

    def call(*options):
        source = FIXED if "--task" in options else ("--pool", pool, "--json")
        return harness("run", *source, "--store", tmp_path / "runs", *options)

    return call


@pytest.fixture
def listed(harness, tmp_path):
    return lambda: harness("store", "list", "--store", tmp_path / "runs", "--json").rows


@pytest.fixture
def prune(harness, tmp_path):
    return lambda *options: harness("store", "prune", "--store", tmp_path / "runs", "--json", *options)


@pytest.fixture
def unused(run, tmp_path):
    """Run the options, and delete the cells and sequences that this made."""

    def records():
        return {*(tmp_path / "runs").glob("cells/*"), *(tmp_path / "runs").glob("sequences/*")}

    def call(*options):
        before = records()
        run(*options)
        for path in records() - before:
            path.unlink()

    return call


def files_of(store):
    """What a store holds, without what marks it."""
    return {name: content for name, content in contents(store).items() if name not in (".lock", "store.json")}


# list


def test_every_byte_counts_once_by_task_model_and_kind(run, listed, tmp_path):
    store = tmp_path / "runs"
    run(*KEYED)
    run("--task", "keyed", "--n", "3", "--model", "macaw", "--selector", "shuffle")
    run("--task", "keyed", "--until-correct", "--n", "9")
    for name, size in (("rl/keyed-macaw/checkpoints/1/weights", 1000), ("plots/a.pdf", 100), ("cells/notes.txt", 10)):
        (store / name).parent.mkdir(parents=True, exist_ok=True)
        (store / name).write_bytes(bytes(size))
    report = listed()
    stages = {(row["task"], row["model"], row["stage"]) for row in report["rows"]}
    columns = {"responses", "vectors", "verdicts", "orders", "choices", "cells"}
    assert {stage for _, model, stage in stages if model == "parrot"} >= columns | {"audits", "sequences"}
    assert {stage for _, model, stage in stages if model == "macaw"} == columns
    assert {task for task, model, stage in stages if stage not in ("memo", "rl")} == {"keyed"}
    others = 110  # not the store's own
    assert sum(row["bytes"] for row in report["rows"]) == sum(map(len, files_of(store).values())) - others
    assert {(row["made_again"], row["costly"]) for row in report["rows"]} == {(0, 0)}


def test_no_line_is_wider_than_80_columns_and_no_word_is_cut(capsys):
    labels = {"task": "mbppplus", "model": "Qwen/Qwen2.5-Math-7B-Instruct", "files": 1}
    fixed = labels | {"last_used": "2026-01-01T00:00:00+00:00", "key": "0123456789ab", "costly": False, "goes": True}
    sizes = {"bytes": 10**9 * 999, "made_again": 10**8, "costly": 10**11}
    rows = [fixed | {"stage": stage} | sizes for stage in ("responses", "vectors", "sequences")]
    value = {"store": "runs", "rows": rows}
    for print_, more in ((stores.put_listing, {}), (stores.put_pruned, {"deleted": False})):
        print_({**value, **more})
        text = capsys.readouterr().out
        assert max(map(len, text.splitlines())) <= 80
        assert text.count("mbppplus, Qwen/Qwen2.5-Math-7B-Instruct") == 1


# prune


@pytest.mark.slow
def test_what_no_cell_uses_goes_and_every_cell_is_shown_again_from_what_stays(harness, run, prune, unused, tmp_path):
    store = tmp_path / "runs"
    runs = [
        KEYED,
        ("--task", "colours", "--n", "5", "--selector", "shuffle"),  # hidden states that no cell names
        ("--task", "measured", "--n", "3", "--selector", "likely", "--selector", "raising"),
        ("--task", "colours", "--n", "30", "--until-correct"),
        ("--selector", "in-order", "--selector", "uniform"),
    ]
    rows = [run(*options).rows for options in runs]
    before = files_of(store)
    unused(*KEYED, "--trials", "2")  # shares the pool
    unused(*KEYED, "--trials", "3", "--embedder", "letters")
    unused(*COLOURS, "--seed", "5")
    unused("--task", "colours", "--n", "3", "--seed", "5", "--until-correct")
    assert len(files_of(store)) > len(before) + 20
    stages = {row["stage"] for row in prune("--pools", "--yes").rows["rows"]}
    assert stages == {"responses", "vectors", "verdicts", "orders", "choices", "sequences"}
    assert files_of(store) == before
    again = [run(*options) for options in runs]
    assert [outcome.rows for outcome in again] == rows
    assert [line for outcome in again for line in outcome.err.splitlines() if "to sample" in line] == []
    assert files_of(store).keys() == before.keys()
    assert harness("leaderboard", store / "cells").code == 0
    assert prune("--pools", "--yes").rows["rows"] == []


def test_without_yes_nothing_is_deleted_and_a_pool_without_a_cell_needs_pools(run, prune, listed, unused, tmp_path):
    unused(*COLOURS)
    rows = {row["stage"]: row for row in listed()["rows"]}
    for name, stages in (("costly", ("responses", "vectors")), ("made_again", ("verdicts", "orders", "choices"))):
        assert all(rows[stage][name] == rows[stage]["bytes"] for stage in stages)
    before = contents(tmp_path / "runs")
    pruned = prune().rows
    assert contents(tmp_path / "runs") == before
    goes = {row["stage"]: (row["costly"], row["goes"]) for row in pruned["rows"]}
    again, costly = (False, True), (True, False)
    assert goes == {"orders": again, "choices": again, "verdicts": again, "vectors": costly, "responses": costly}
    assert prune("--yes").rows["deleted"]
    columns = {path.parent.name.partition(".")[0] for path in (tmp_path / "runs").glob("*/*/column.json")}
    assert columns == {"responses", "vectors"}
    resumed = run(*COLOURS)
    assert "pool: reused for 2 of 2 problems" in resumed.err
    assert "embeddings: reused for 2 of 2 problems" in resumed.err


def test_the_pools_of_an_rl_evaluation_are_used(prune, unused, tmp_path):
    unused(*KEYED)
    [pool] = (path.parent for path in (tmp_path / "runs").glob("*/pool.json"))
    (tmp_path / "runs" / "rl").mkdir()
    evaluation = tmp_path / "runs" / "rl" / "rl-eval.json"
    evaluation.write_text(json.dumps({"policies": [{"pool": pool.name.rpartition(".")[2]}]}))
    assert {row["stage"] for row in prune("--pools").rows["rows"]} == {"orders"}
    evaluation.write_text("{}")
    assert "is no evaluation" in error_line(prune("--pools", "--yes"))


def test_a_cell_that_cannot_be_read_keeps_everything(prune, run, tmp_path):
    run(*COLOURS)
    cell = max((tmp_path / "runs" / "cells").iterdir())
    cell.write_bytes(cell.read_bytes()[:-9])
    assert f"cell {cell}: not JSON" in error_line(prune("--yes", "--pools"))


def test_links_and_files_that_are_not_the_stores_own_stay(prune, unused, tmp_path):
    store, outside = tmp_path / "runs", tmp_path / "outside"
    unused(*COLOURS)
    folders = {path.parent.name.partition(".")[0]: path.parent for path in store.glob("*/*/column.json")}
    orders = folders["orders"]
    links = [folders["verdicts"], max(orders.glob("test_*.arrow"))]  # a column, a file of one
    outside.mkdir()
    for number, path in enumerate(links):
        shutil.move(path, outside / str(number))
        path.symlink_to(outside / str(number))
    others = [orders / "notes.json", orders.parent / "own.parquet", store / "readme", store / "mine" / "a.parquet"]
    for path in others:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    before = contents(outside)
    assert {row["stage"] for row in prune("--yes", "--pools").rows["rows"]} >= {"orders", "responses"}
    assert contents(outside) == before
    left = {path for path in store.rglob("*") if (path.is_file() or path.is_symlink()) and "memo" not in path.parts}
    assert left == {*links, *others, store / ".lock", store / "store.json"}


def test_what_killed_writers_left_goes(run, prune, tmp_path):
    run(*COLOURS)
    before = files_of(tmp_path / "runs")
    column = next((tmp_path / "runs").glob("*/vectors.*"))
    for folder in (column, column.parent, tmp_path / "runs" / "cells"):
        (folder / ".elsewhere-7.a.npy.tmp").write_bytes(bytes(9))
    [row] = prune("--yes").rows["rows"]
    assert (row["stage"], row["files"], row["bytes"]) == ("leftovers", 3, 27)
    assert files_of(tmp_path / "runs") == before


@pytest.mark.slow
@pytest.mark.parametrize("options", [("--selector", "in-order"), ("--task", "colours", "--until-correct")])
def test_a_killed_prune_is_completed_by_the_next_and_the_next_run_makes_what_is_missing(
    monkeypatch, run, prune, tmp_path, options
):
    rows, unlink, store = run(*options).rows, Path.unlink, tmp_path / "runs"
    for path in [*store.glob("cells/*.json"), *store.glob("sequences/*.json")]:
        path.unlink()
    total = sum(row["files"] for row in prune("--pools").rows["rows"])
    shutil.copytree(store, tmp_path / "whole")
    for most in range(total):
        left = iter(range(most))

        def killed(path, missing_ok=False, left=left):
            if next(left, None) is None:
                raise KeyboardInterrupt
            unlink(path, missing_ok=missing_ok)

        with monkeypatch.context() as patch:
            patch.setattr(Path, "unlink", killed)
            assert prune("--yes", "--pools").code == 130
        shutil.copytree(store, tmp_path / "killed")
        assert run(*options).rows == rows, most
        shutil.rmtree(store)
        (tmp_path / "killed").rename(store)
        assert prune("--yes", "--pools").code == 0
        assert files_of(store) == {}, most
        shutil.rmtree(store)
        shutil.copytree(tmp_path / "whole", store)


def test_a_store_that_another_process_uses_is_left_alone(prune, unused, tmp_path):
    unused(*COLOURS)
    code = "import sys; from pathlib import Path; from harness.columns.store import Store\n"
    code += "with Store(Path(sys.argv[1])).used(): print('held', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", code, tmp_path / "runs"]
    before = contents(tmp_path / "runs")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        assert "another process uses" in error_line(prune("--yes", "--pools"))
        assert prune().code == 0
        process.kill()
    assert contents(tmp_path / "runs") == before
    assert prune("--yes", "--pools").code == 0


def test_what_is_no_store_is_refused(harness, tmp_path):
    for command in ("list", "prune"):
        assert "is no store" in error_line(harness("store", command, "--store", tmp_path))
    assert os.listdir(tmp_path) == []
