"""`harness store prune`: what no cell needs goes, and what a cell needs stays, byte for byte."""

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

from harness.store.json_files import read_manifest
from harness.store.stage import Store

FIXED = ("--engine", "toy", "--plugin", TOY, "--limit", "2", "--json")
KEYED = ("--task", "keyed", "--n", "4", "--audit", "--selector", "spread")
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
def prune(harness, tmp_path):
    return lambda *options: harness("store", "prune", "--store", tmp_path / "runs", "--json", *options)


@pytest.fixture
def unused(run, tmp_path):
    """Run the options, and delete the cells and sequences that this made."""
    store = tmp_path / "runs"

    def call(*options):
        before = set(store.glob("*/*.json"))
        run(*options)
        for path in set(store.glob("*/*.json")) - before:
            path.unlink()

    return call


def files_of(store):
    """What a store holds, without its lock."""
    return {name: content for name, content in contents(store).items() if name != ".lock"}


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
    unused(*KEYED, "--embedder", "letters")
    unused("--task", "colours", "--n", "3", "--seed", "5", "--selector", "spread")
    unused("--task", "colours", "--n", "3", "--seed", "5", "--until-correct")
    assert len(files_of(store)) > len(before) + 20
    stages = {row["stage"] for row in prune("--pools", "--yes").rows["rows"]}
    assert stages == {"pool", "embedding", "verdict", "ranking", "sequence", "stopped"}
    assert files_of(store) == before
    again = [run(*options) for options in runs]
    assert [outcome.rows for outcome in again] == rows
    assert [line for outcome in again for line in outcome.err.splitlines() if "to sample" in line] == []
    assert files_of(store).keys() == before.keys()
    assert harness("leaderboard", store / "cells").code == 0
    assert prune("--pools", "--yes").rows["rows"] == []


@pytest.mark.slow
def test_tables_and_the_report_have_the_same_bytes_after_a_prune(harness, run, prune, unused, tmp_path):
    def shown():
        cell = max((tmp_path / "runs" / "cells").glob("*.json"))
        page = harness(
            "report", "--cell", cell.stem, "--store", tmp_path / "runs", "--plugin", TOY, "--out", tmp_path / "page"
        )
        assert page.code == 0, page.err
        board = harness("leaderboard", tmp_path / "runs" / "cells", "--out", tmp_path / "board")
        assert board.code == 0, board.err
        return (tmp_path / "page").read_bytes(), contents(tmp_path / "board")

    run(*KEYED)
    before = shown()
    unused(*KEYED, "--trials", "2")
    assert len(prune("--yes").rows["rows"]) == 1
    assert shown() == before


def test_without_yes_nothing_is_deleted_and_a_pool_without_a_cell_needs_pools(run, prune, unused, tmp_path):
    unused("--task", "colours", "--n", "3", "--selector", "spread", "--audit")
    before = contents(tmp_path / "runs")
    listed = prune().rows
    assert contents(tmp_path / "runs") == before
    goes = {row["stage"]: (row["costly"], row["goes"]) for row in listed["rows"]}
    again, costly = (False, True), (True, False)
    assert goes == {"ranking": again, "audit": again, "verdict": again, "embedding": costly, "pool": costly}
    sizes = {row["stage"]: row["bytes"] for row in listed["rows"]}
    assert sizes["pool"] == sum(len(content) for name, content in before.items() if name.startswith("pool/"))
    assert prune("--yes").rows["deleted"]
    assert {name.split("/")[0] for name in files_of(tmp_path / "runs")} == {"pool", "embedding", "graded"}
    resumed = run("--task", "colours", "--n", "3", "--selector", "spread")
    assert "pool: reused for 2 of 2 problems" in resumed.err
    assert "embeddings: reused for 2 of 2 problems" in resumed.err


def test_what_came_from_a_file_goes_only_with_its_pool(prune, unused, tmp_path):
    unused("--selector", "in-order")
    assert {row["stage"]: row["goes"] for row in prune().rows["rows"]} == {
        "ranking": True,
        "verdict": False,
        "pool": False,
    }


def test_the_pools_of_an_rl_evaluation_are_used(prune, unused, tmp_path):
    unused("--task", "keyed", "--n", "3", "--audit", "--selector", "spread")
    [pool] = (tmp_path / "runs" / "pool").iterdir()
    (tmp_path / "runs" / "rl").mkdir()
    evaluation = tmp_path / "runs" / "rl" / "rl-eval.json"
    evaluation.write_text(json.dumps({"policies": [{"pool": pool.name}]}))
    assert {row["stage"] for row in prune("--pools").rows["rows"]} == {"ranking"}
    evaluation.write_text("{}")
    assert "is no evaluation" in error_line(prune("--pools", "--yes"))


def test_a_cell_that_cannot_be_read_keeps_everything(prune, run, unused, tmp_path):
    run("--task", "colours", "--n", "3", "--selector", "spread")
    [cell] = (tmp_path / "runs" / "cells").iterdir()
    whole = cell.read_bytes()
    cell.write_bytes(whole[:-9])
    assert f"cell {cell}: not JSON" in error_line(prune("--yes", "--pools"))
    cell.rename(cell.with_name(f"{cell.name}.damaged"))
    assert "nobody knows what it needs" in error_line(prune("--yes", "--pools"))


def test_the_newest_cache_of_a_tasks_verdicts_stays_and_older_ones_go(prune, run, tmp_path):
    run("--task", "keyed", "--n", "3", "--selector", "spread")
    [newest] = (tmp_path / "runs" / "graded").iterdir()
    older = Store(tmp_path / "runs").stage("graded", {**read_manifest(newest), "code": "other"}, ".parquet")
    older.begin()
    os.utime(older.folder / "manifest.json", (0, 0))
    assert [(row["stage"], row["key"]) for row in prune("--yes").rows["rows"]] == [("graded", older.key)]
    assert list((tmp_path / "runs" / "graded").iterdir()) == [newest]


def test_links_and_files_that_are_not_the_stores_own_stay(harness, prune, unused, tmp_path):
    store, outside = tmp_path / "runs", tmp_path / "outside"
    unused("--task", "colours", "--n", "3", "--selector", "spread")
    [verdict], [ranking], [pool] = ((store / kind).iterdir() for kind in ("verdict", "ranking", "pool"))
    links = [store / "embedding", verdict, max(ranking.glob("test_*.json"))]  # a kind, a stage, a shard
    for number, path in enumerate(links):
        outside.mkdir(exist_ok=True)
        shutil.move(path, outside / str(number))
        path.symlink_to(outside / str(number))
    others = [ranking / "notes.json", pool / "own.parquet", store / "readme", store / "pool" / "mine" / "a.parquet"]
    for path in others:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    before = contents(outside)
    assert {row["stage"] for row in prune("--yes", "--pools").rows["rows"]} == {"ranking", "pool"}
    assert contents(outside) == before
    left = {path for path in store.rglob("*") if path.is_file() or path.is_symlink()}
    cache = next(store.glob("graded/*/manifest.json"))
    assert left == {*links, *others, cache, store / ".lock"}
    listed = {Path(other["path"]) for other in harness("store", "list", "--store", store, "--json").rows["others"]}
    assert listed == {*links[:2], ranking, pool, store / "readme", store / "pool" / "mine"}


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
        assert {path.stem for path in store.glob("stopped/*/*.*.*")} == {
            path.stem for path in store.glob("sequence/*/*.*.*")
        }, most
        shutil.rmtree(store)
        (tmp_path / "killed").rename(store)
        assert prune("--yes", "--pools").code == 0
        assert {name.split("/")[0] for name in files_of(store)} <= {"graded"}, most
        shutil.rmtree(store)
        shutil.copytree(tmp_path / "whole", store)


def test_a_store_that_another_process_uses_is_left_alone(prune, unused, tmp_path):
    unused("--task", "colours", "--n", "3", "--selector", "spread")
    code = "import sys; from pathlib import Path; from harness.store.in_use import use; use(Path(sys.argv[1])); "
    code += "print('held', flush=True); sys.stdin.read()"
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
