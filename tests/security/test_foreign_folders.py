"""What somebody else sends is data: no code in it runs. What is sent to others does not say who and where one is."""

import json
import re

import pytest
from support.json_lines import write_json_lines
from support.paths import SUPPORT, TOY
from support.pool_breakers import BREAKERS
from support.training_runs import COUNTING, counted_run

from harness.results.published import places, read
from harness_plugins.rl.training import read_run

PROGRAM = "from pathlib import Path\nPath({mark!r}).write_text('it ran')\n"


def edited(run, **fields):
    file = run.folder / "run.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | fields))


def test_rl_eval_runs_no_plugin_file_that_only_the_folder_names(harness, tmp_path):
    run = counted_run(tmp_path, 1)
    mark, program = tmp_path / "mark", tmp_path / "evil.py"
    program.write_text(PROGRAM.format(mark=str(mark)))
    edited(run, plugin_files=[str(COUNTING), str(program)])
    for given in ((), ("--plugin", COUNTING)):
        outcome = harness("rl", "eval", run.folder, *given, "--step", "99")
        assert outcome.code == 2
        assert f"--plugin {program}: give that too, if you trust where it is from" in outcome.err
        assert not mark.exists()
    assert harness("rl", "eval", run.folder, "--plugin", COUNTING, "--plugin", program, "--step", "99").code == 2
    assert mark.exists()


def test_rl_eval_starts_no_program_that_only_the_folder_names_and_a_moved_folder_is_evaluated(harness, tmp_path):
    run = counted_run(tmp_path / "before", 1)
    assert str(run.folder) not in (run.folder / "run.json").read_text()
    mark, program = tmp_path / "mark", tmp_path / "python"
    program.write_text(f"#!/bin/sh\ntouch {mark}\n")
    program.chmod(0o755)
    whole = (run.folder / "run.json").read_text()
    edited(run, trainer=f"verl:python={program}")
    outcome = harness("rl", "eval", run.folder, "--plugin", COUNTING)
    assert outcome.code == 2
    assert f"--trainer verl:python={program}: give that too" in outcome.err
    assert not mark.exists()
    (run.folder / "run.json").write_text(whole)
    edited(run, plugin_files=["/home/ada/" + COUNTING.name])  # the file that this name stands for is taken
    moved = run.folder.rename(tmp_path / "moved")
    assert [len(path.read_text().splitlines()) for path in read_run(moved).problems.values()] == [8, 8]
    outcome = harness("rl", "eval", moved, "--plugin", COUNTING, "--step", "99")
    assert "has no checkpoint at step 99 (it has " in outcome.err  # the trainer of the plugin was asked


@pytest.fixture
def published(harness, tmp_path):
    """What was published, and the page, of a run whose files all have absolute paths."""
    folder = tmp_path / "ada lovelace"
    task, pool = folder / "q.jsonl", folder / "pool.jsonl"
    folder.mkdir()
    write_json_lines(task, [{"id": name, "prompt": "?", "reference": gold} for name, gold in (("a", "4"), ("b", "2"))])
    write_json_lines(pool, [{"problem_id": name, "responses": ["4", "2", "7"]} for name in "ab"])
    options = (
        "--task",
        f"own:file={task},grader=number",
        "--pool",
        pool,
        "--plugin",
        TOY,
        "--store",
        tmp_path / "runs",
    )
    assert harness("run", "--selector", "uniform", "--selector", "shuffle", *options).code == 0
    to = tmp_path / "published"
    publish = ("results", "publish", "--store", tmp_path / "runs", "--to", to, "--plugin", TOY, "--json")
    outcome = harness(*publish)
    assert outcome.code == 0
    assert harness("leaderboard", to, "--out", to).code == 0
    assert harness("results", "validate", to).code == 0
    assert harness("report", "--store", tmp_path / "runs", "--out", to / "page.html", "--plugin", TOY).code == 0
    return to, outcome.rows


def test_what_is_published_names_no_folder_of_its_maker(published, tmp_path):
    to, rows = published
    texts = {path.name: path.read_text() for path in to.rglob("*") if path.is_file() and path.suffix != ".parquet"}
    cells = {place.key: read(place) for place in places([to])}
    texts |= {key: json.dumps(cell) for key, cell in cells.items()}
    assert len(texts) == 2 + 1 + 2 + 1  # cells, badges, leaderboard, page
    assert [name for name, text in texts.items() if "lovelace" in text or str(tmp_path) in text] == []
    cell = cells[rows[0]["cell"]]
    assert cell["config"]["pool"] == "pool.jsonl"
    assert cell["config"]["plugin"] == ["toy.py"]
    assert cell["labels"]["task"] == "own:file=q.jsonl,grader=number"
    assert re.fullmatch(r"[0-9a-f]{16,}", cell["inputs"]["ranking"]["selector"]["code"])


def test_a_cell_without_paths_is_published_as_it_is(toy, harness, tmp_path, monkeypatch):
    monkeypatch.chdir(SUPPORT)
    fixed = ("--task", "colours", "--engine", "toy", "--plugin", "toy.py", "--store", tmp_path / "runs")
    assert harness("run", "--selector", "shuffle", *fixed).code == 0
    [path] = (tmp_path / "runs" / "cells").glob("*.json")
    [row] = harness(
        "results", "publish", "--store", tmp_path / "runs", "--to", tmp_path / "out", "--plugin", "toy.py", "--json"
    ).rows
    [place] = places([tmp_path / "out"])
    published, kept = read(place), json.loads(path.read_bytes())
    assert {**kept, "checksum": 0, "from": 0} == {**published, "checksum": 0, "from": 0}
    assert (row["file"], row["cell"]) == (str(tmp_path / "out" / "colours.parquet"), path.stem)


EVIL = "\x9b31m\u202eabc\u2066\x7f\u200f\ud800"


def test_json_holds_no_character_that_a_terminal_obeys(harness, tmp_path):
    pool = tmp_path / "pool.jsonl"
    line = {"problem_id": f"a{EVIL}", "responses": [f"x{EVIL}", "y"], "correct": [True, False], "names": [EVIL, "b"]}
    write_json_lines(pool, [line])
    outcome = harness("select", "--pool", pool, "--selector", "uniform", "-k", "2", "--json")
    assert outcome.code == 0
    assert outcome.out.isprintable() or outcome.out.replace("\n", "").isprintable()
    assert "\\u009b31m\\u202eabc\\u2066\\u007f\\u200f" in outcome.out
    store = tmp_path / "runs"
    for command in (
        ("run", "--pool", pool, "--selector", "uniform", "--store", store, "--json"),
        ("pool", "show", "--store", store, "--json"),
        ("list", "--json"),
    ):
        if command[:2] == ("pool", "show"):
            [key] = [path.parent.name.rpartition(".")[2] for path in store.glob("*/pool.json")]
            command = (*command[:2], key[:8], *command[2:])
        outcome = harness(*command)
        assert outcome.code == 0, outcome.err
        assert outcome.out.replace("\n", "").replace("\xa0", "").isprintable()
        assert json.loads(outcome.out)


def test_a_selector_that_breaks_its_pool_costs_its_own_row_alone(harness, written):
    pool = written([{"problem_id": name, "responses": list("xyz"), "correct": [False, True, False]} for name in "ab"])
    names = [factory.__name__.lower() for factory in BREAKERS]
    selectors = [word for name in [*names, "uniform"] for word in ("--selector", name)]
    outcome = harness("run", "--pool", pool, *selectors, "--plugin", SUPPORT / "pool_breakers.py", "--json")
    assert outcome.code == 1
    assert outcome.rows[-1]["selector"] == "uniform"
    good = {row["selector"] for row in outcome.rows}
    assert set(re.findall(r"failed: selector '(\w+)', problem", outcome.err)) == {*names} - good
    assert {"writes", "mutes", "subset"}.isdisjoint(good)
