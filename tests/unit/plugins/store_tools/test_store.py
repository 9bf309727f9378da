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
def store(tmp_path):
    return tmp_path / "runs"


@pytest.fixture
def run(harness, store):
    """Run the toy engine, or without a task a graded pool file; `unused=True` deletes the records that this made."""
    pool = write_json_lines(store.with_name("pool.jsonl"), GIVEN)

    def records():
        return {*store.glob("cells/*"), *store.glob("sequences/*")}

    def call(*options, unused=False):
        before = records()
        source = FIXED if "--task" in options else ("--pool", pool, "--json")
        outcome = harness("run", *source, "--store", store, *options)
        for path in records() - before if unused else ():
            path.unlink()
        return outcome

    return call


@pytest.fixture
def prune(harness, store):
    return lambda *options: harness("store", "prune", "--store", store, "--json", *options)


def files_of(store):
    """What a store holds, without what marks it."""
    return {name: content for name, content in contents(store).items() if name not in (".lock", "store.json")}


def stages(outcome):
    return {row["stage"]: (row["costly"], row["goes"]) for row in outcome.rows["rows"]}


def test_every_byte_counts_once_by_task_model_and_kind(run, harness, store):
    run(*KEYED)
    run("--task", "keyed", "--n", "3", "--model", "macaw", "--selector", "shuffle")
    run("--task", "keyed", "--until-correct", "--n", "9")
    for name, size in (("rl/keyed-macaw/checkpoints/1/weights", 1000), ("plots/a.pdf", 100), ("cells/notes.txt", 10)):
        (store / name).parent.mkdir(parents=True, exist_ok=True)
        (store / name).write_bytes(bytes(size))
    rows = harness("store", "list", "--store", store, "--json").rows["rows"]
    of_model = {model: {row["stage"] for row in rows if row["model"] == model} for model in ("parrot", "macaw")}
    columns = {"responses", "vectors", "verdicts", "orders", "choices", "cells"}
    assert (of_model["parrot"], of_model["macaw"]) == (columns | {"audits", "sequences"}, columns)
    assert {row["task"] for row in rows if row["stage"] not in ("memo", "rl")} == {"keyed"}
    others = 110  # not the store's own
    assert sum(row["bytes"] for row in rows) == sum(map(len, files_of(store).values())) - others
    assert {(row["made_again"], row["costly"]) for row in rows} == {(0, 0)}


def test_no_line_is_wider_than_80_columns_and_no_word_is_cut(capsys):
    labels = {"task": "mbppplus", "model": "Qwen/Qwen2.5-Math-7B-Instruct", "files": 1}
    fixed = labels | {"last_used": "2026-01-01T00:00:00+00:00", "key": "0123456789ab", "costly": False, "goes": True}
    sizes = {"bytes": 10**9 * 999, "made_again": 10**8, "costly": 10**11}
    value = {"store": "runs", "rows": [fixed | {"stage": stage} | sizes for stage in ("responses", "sequences")]}
    for print_, more in ((stores.put_listing, {}), (stores.put_pruned, {"deleted": False})):
        print_({**value, **more})
        text = capsys.readouterr().out
        assert max(map(len, text.splitlines())) <= 80
        assert text.count("mbppplus, Qwen/Qwen2.5-Math-7B-Instruct") == 1


@pytest.mark.slow
def test_what_no_cell_uses_goes_and_every_cell_is_shown_again_from_what_stays(harness, run, prune, store):
    runs = [
        KEYED,
        ("--task", "colours", "--n", "5", "--selector", "shuffle"),  # hidden states that no cell names
        ("--task", "measured", "--n", "3", "--selector", "likely", "--selector", "raising"),
        ("--task", "colours", "--n", "30", "--until-correct"),
        ("--selector", "in-order", "--selector", "uniform"),
    ]
    rows = [run(*options).rows for options in runs]
    before = files_of(store)
    run(*KEYED, "--trials", "2", unused=True)  # shares the pool
    run(*KEYED, "--trials", "3", "--embedder", "letters", unused=True)
    run(*COLOURS, "--seed", "5", unused=True)
    run("--task", "colours", "--n", "3", "--seed", "5", "--until-correct", unused=True)
    assert len(files_of(store)) > len(before) + 20
    pruned = prune("--pools", "--yes")
    assert set(stages(pruned)) == {"responses", "vectors", "verdicts", "orders", "choices", "sequences"}
    assert files_of(store) == before
    again = [run(*options) for options in runs]
    assert [outcome.rows for outcome in again] == rows
    assert [line for outcome in again for line in outcome.err.splitlines() if "to sample" in line] == []
    assert files_of(store).keys() == before.keys()
    assert harness("leaderboard", store / "cells").code == 0
    assert stages(prune("--pools", "--yes")) == {}


def test_without_yes_nothing_is_deleted_and_a_pool_without_a_cell_needs_pools(run, prune, harness, store):
    run(*COLOURS, unused=True)
    rows = {row["stage"]: row for row in harness("store", "list", "--store", store, "--json").rows["rows"]}
    again, costly = dict.fromkeys(("orders", "choices", "verdicts"), (False, True)), ("vectors", "responses")
    for stage in (*again, *costly):
        assert rows[stage]["made_again" if stage in again else "costly"] == rows[stage]["bytes"]
    before = contents(store)
    assert stages(prune()) == again | dict.fromkeys(costly, (True, False))
    assert contents(store) == before
    assert prune("--yes").rows["deleted"]
    assert {path.parent.name.partition(".")[0] for path in store.glob("*/*/column.json")} == set(costly)
    resumed = run(*COLOURS)
    for stage in ("pool", "embeddings"):
        assert f"{stage}: reused for 2 of 2 problems" in resumed.err
    before = files_of(store)
    column = next(store.glob("*/vectors.*"))
    for folder in (column, column.parent, store / "cells"):  # what killed writers left
        (folder / ".elsewhere-7.a.npy.tmp").write_bytes(bytes(9))
    [row] = prune("--yes").rows["rows"]
    assert (row["stage"], row["files"], row["bytes"]) == ("leftovers", 3, 27)
    assert files_of(store) == before


def test_links_and_files_that_are_not_the_stores_own_stay(prune, run, store, tmp_path):
    outside = tmp_path / "outside"
    run(*COLOURS, unused=True)
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
    assert set(stages(prune("--yes", "--pools"))) >= {"orders", "responses"}
    assert contents(outside) == before
    left = {path for path in store.rglob("*") if (path.is_file() or path.is_symlink()) and "memo" not in path.parts}
    assert left == {*links, *others, store / ".lock", store / "store.json"}


@pytest.mark.slow
@pytest.mark.parametrize("options", [("--selector", "in-order"), ("--task", "colours", "--until-correct")])
def test_a_killed_prune_is_completed_by_the_next_and_the_next_run_makes_what_is_missing(
    monkeypatch, run, prune, store, tmp_path, options
):
    rows, unlink = run(*options).rows, Path.unlink
    for path in [*store.glob("cells/*.json"), *store.glob("sequences/*.json")]:
        path.unlink()
    total = sum(row["files"] for row in prune("--pools").rows["rows"])
    shutil.copytree(store, tmp_path / "whole")
    for most in {0, 1, total // 2, total - 1}:
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


def test_a_pool_of_an_rl_evaluation_is_used_and_a_record_that_cannot_be_read_keeps_everything(prune, run, store):
    run(*KEYED, unused=True)
    [pool] = (path.parent for path in store.glob("*/pool.json"))
    evaluation, cell = store / "rl" / "rl-eval.json", store / "cells" / "a.json"
    evaluation.parent.mkdir()
    evaluation.write_text(json.dumps({"policies": [{"pool": pool.name.rpartition(".")[2]}]}))
    assert set(stages(prune("--pools"))) == {"orders"}
    for path, words in ((evaluation, "is no evaluation"), (cell, f"cell {cell}: ")):
        path.write_text("{}")
        assert words in error_line(prune("--pools", "--yes"))
        path.unlink()


def test_a_store_that_another_process_uses_is_left_alone_and_what_is_no_store_refused(prune, run, harness, store):
    run(*COLOURS, unused=True)
    code = "import sys; from pathlib import Path; from harness.columns.store import Store\n"
    code += "with Store(Path(sys.argv[1])).used(): print('held', flush=True); sys.stdin.read()"
    before = contents(store)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", code, store], **pipes) as process:
        assert process.stdout.readline() == "held\n"
        assert "another process uses" in error_line(prune("--yes", "--pools"))
        assert prune().code == 0
        process.kill()
    assert contents(store) == before
    assert prune("--yes", "--pools").code == 0
    (empty := store.with_name("empty")).mkdir()
    for command in ("list", "prune"):
        assert "is no store" in error_line(harness("store", command, "--store", empty))
    assert os.listdir(empty) == []
