"""What somebody else sends is data: no code in it runs. What is sent to others does not say who and where one is."""

import json
import re

from support.json_lines import write_json_lines
from support.paths import SUPPORT, TOY
from support.pool_breakers import HARMS
from support.training_runs import COUNTING, counted_run

from harness.columns.stored import pool_keys
from harness.results.published import places, read
from harness_plugins.rl.training import read_run


def test_rl_eval_runs_no_plugin_and_no_program_that_only_the_folder_names_and_evaluates_a_moved_folder(
    harness, tmp_path
):
    run = counted_run(tmp_path / "before", 1)
    file, mark, plugin, program = run.folder / "run.json", *(tmp_path / name for name in ("mark", "evil.py", "python"))
    plugin.write_text(f"from pathlib import Path\nPath({str(mark)!r}).write_text('it ran')\n")
    program.write_text(f"#!/bin/sh\ntouch {mark}\n")
    program.chmod(0o755)
    whole, ours = json.loads(file.read_text()), ("--plugin", COUNTING)
    assert str(run.folder) not in file.read_text()
    for fields, given, words in (
        ({"plugin_files": [str(COUNTING), str(plugin)]}, (), f"--plugin {plugin}: give that too, if you trust where"),
        ({"plugin_files": [str(COUNTING), str(plugin)]}, ours, f"--plugin {plugin}: give that too, if you trust where"),
        ({"trainer": f"verl:python={program}"}, ours, f"--trainer verl:python={program}: give that too"),
    ):
        file.write_text(json.dumps(whole | fields))
        outcome = harness("rl", "eval", run.folder, *given, "--step", "99")
        assert (outcome.code, words in outcome.err) == (2, True), outcome.err
        assert not mark.exists()
    # The file that this name stands for is taken.
    file.write_text(json.dumps(whole | {"plugin_files": ["/home/ada/" + COUNTING.name]}))
    moved = run.folder.rename(tmp_path / "moved")
    assert [len(path.read_text().splitlines()) for path in read_run(moved).problems.values()] == [8, 8]
    outcome = harness("rl", "eval", moved, *ours, "--step", "99")
    assert "has no checkpoint at step 99 (it has " in outcome.err  # the trainer of the plugin was asked
    harness("rl", "eval", moved, *ours, "--plugin", plugin, "--step", "99")
    assert mark.exists()


def test_what_is_published_names_no_folder_of_its_maker(harness, tmp_path):
    folder, store, to = tmp_path / "ada lovelace", tmp_path / "runs", tmp_path / "published"
    task, pool = folder / "q.jsonl", folder / "pool.jsonl"
    folder.mkdir()
    write_json_lines(task, [{"id": name, "prompt": "?", "reference": gold} for name, gold in (("a", "4"), ("b", "2"))])
    write_json_lines(pool, [{"problem_id": name, "responses": ["4", "2", "7"]} for name in "ab"])
    plugin, spec = ("--plugin", TOY), f"own:file={task},grader=number"
    selectors = ("--selector", "uniform", "--selector", "shuffle")
    assert harness("run", "--task", spec, "--pool", pool, *selectors, *plugin, "--store", store).code == 0
    rows = harness("results", "publish", "--store", store, "--to", to, *plugin, "--json").rows
    assert harness("leaderboard", to, "--out", to).code == 0
    assert harness("results", "validate", to).code == 0
    assert harness("report", "--store", store, "--out", to / "page.html", *plugin).code == 0
    texts = {path.name: path.read_text() for path in to.rglob("*") if path.is_file() and path.suffix != ".parquet"}
    cells = {place.key: read(place) for place in places([to])}
    texts |= {key: json.dumps(cell) for key, cell in cells.items()}
    assert len(texts) == 2 + 1 + 2 + 1  # cells, badges, leaderboard, page
    assert [name for name, text in texts.items() if "lovelace" in text or str(tmp_path) in text] == []
    cell = cells[rows[0]["cell"]]
    assert (cell["config"]["pool"], cell["config"]["plugin"]) == ("pool.jsonl", ["toy.py"])
    assert cell["labels"]["task"] == "own:file=q.jsonl,grader=number"


EVIL = "\x9b31m\u202eabc\u2066\x7f\u200f\ud800"


def test_json_holds_no_character_that_a_terminal_obeys(harness, written, tmp_path):
    line = {"problem_id": f"a{EVIL}", "responses": [f"x{EVIL}", "y"], "correct": [True, False], "names": [EVIL, "b"]}
    given, store = ("--pool", written([line]), "--selector", "uniform"), ("--store", tmp_path / "runs")
    outputs = [harness(*command, "--json").out for command in (("select", *given, "-k", "2"), ("run", *given, *store))]
    [key] = pool_keys(tmp_path / "runs")
    outputs += [harness(*command, "--json").out for command in (("pool", "show", key, *store), ("list",))]
    assert "\\u009b31m\\u202eabc\\u2066\\u007f\\u200f" in outputs[0]
    for output in outputs:
        assert output.replace("\n", "").replace("\xa0", "").isprintable()
        assert json.loads(output)


def test_a_selector_that_breaks_its_pool_costs_its_own_row_alone(harness, written):
    pool = written([{"problem_id": name, "responses": list("xyz"), "correct": [False, True, False]} for name in "ab"])
    selectors = [word for name in (*HARMS, "uniform") for word in ("--selector", name)]
    outcome = harness("run", "--pool", pool, *selectors, "--plugin", SUPPORT / "pool_breakers.py", "--json")
    assert outcome.code == 1
    assert outcome.rows[-1]["selector"] == "uniform"
    good = {row["selector"] for row in outcome.rows}
    assert set(re.findall(r"failed: selector '(\w+)', problem", outcome.err)) == {*HARMS} - good
    assert {"writes", "mutes"}.isdisjoint(good)
