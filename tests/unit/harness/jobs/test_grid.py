"""`--grid`, study files and `harness rerun`: what is crossed and shared, read as options, and made again."""

import json
from pathlib import Path

import pytest
from support.cells import cell as made_by_hand
from support.cells import entry, keep
from support.paths import TOY
from support.refusals import error_line, refusal_of, wrongly_refused
from support.stores import all_cells, cell_of

from harness.jobs.grid import parse_grid
from harness.jobs.study import config_of, difference, read_study
from harness.plugin_system.registry import Registry
from harness.results import cells

WRONG = [
    ("", "--grid: no axis ''"),
    ("selectors=a", "no axis 'selectors' (did you mean 'selector'?"),
    ("selector=a,selector=b", "axis 'selector' is given twice"),
    ("selector=a++b", "selector: a value is empty or given twice in 'a++b'"),
    ("selector=*+repexp", "selector: '*' is all of them: give it alone"),
]


def test_the_text_of_a_grid_is_taken_apart_or_refused(harness):
    assert parse_grid("selector=*,embedder=a+b:x=1,y=2 + c") == {"selector": ["*"], "embedder": ["a", "b:x=1,y=2", "c"]}
    assert wrongly_refused(WRONG, parse_grid) == []
    assert "no selector is named" in error_line(harness("run", "--grid", "task=nosuch", "--dry-run"))


def test_selectors_are_crossed_with_embedders_over_one_pool_and_what_fails_is_named(toy, tmp_path):
    axes = "selector=spread+shuffle+twice,embedder=hidden-mean+letters+nonsense"
    outcome = toy("--selector", "likely", "--limit", "2", "--grid", axes)
    assert outcome.code == 1
    made = [(row["selector"], row["embedder"]) for row in outcome.rows]
    assert made == [("likely", "none"), ("spread", "hidden-mean"), ("shuffle", "none"), ("spread", "letters")]
    for stage in ("pool", "verdict"):
        assert len({cell_of(tmp_path / "runs", row)["inputs"][stage]["key"] for row in outcome.rows}) == 1
    for line in ("sample: 32 responses in", "embed: 32 responses in"):  # states come with the responses
        assert outcome.err.count(line) == 1
    assert outcome.err.count("failed: selector 'twice'") == 1  # it reads no vectors: run once
    assert "failed: embedder=nonsense: unknown embedder 'nonsense'" in outcome.err
    alone = toy("--selector", "spread", "--embedder", "letters", "--limit", "2", store=tmp_path / "alone").rows
    assert alone == outcome.rows[3:]  # a point of a grid is the run of the same options


def test_a_star_leaves_out_what_cannot_run_here_unless_it_is_named_too(toy, monkeypatch):
    of_kind = Registry.of_kind

    def toys(registry, kind):
        return [each for each in of_kind(registry, kind) if kind != "selector" or each.origin.dist == "toy"]

    monkeypatch.setattr(Registry, "of_kind", toys)
    outcome = toy("--grid", "selector=*", "--limit", "2")
    assert outcome.code == 0, outcome.err
    assert {row["selector"] for row in outcome.rows} == {"shuffle", "spread", "particular", "likely", "head"}
    assert "left out: selector 'twice', problem" in outcome.err
    named = toy("--grid", "selector=*", "--limit", "2", "--selector", "twice")
    assert (named.code, "failed: selector 'twice'" in named.err, "left out: selector 'short'" in named.err) == (1, 1, 1)


def test_a_grid_can_be_looked_at_before_it_is_run(toy, tmp_path):
    dry = toy("--grid", "selector=spread+shuffle,embedder=hidden-mean+letters", "--dry-run")
    controls = ["rank length", "rank length:first=long", "rank norm"]
    names = ["sample", "embed", "verify", "rank spread", "rank shuffle", *controls, "embed", "rank spread"]
    assert [stage["stage"] for stage in dry.rows][: len(names)] == names
    assert dry.err.startswith("grid: 3 cells in 2 runs, which share what they can: 2 for embedder=hidden-mean, 1 for ")
    assert not list((tmp_path / "runs").rglob("*.parquet"))


# Study files.

FAULTS = {
    'n = "x"': "n must be a valid integer, got 'x'",
    "pool = 3": "pool must be the path of a file, got 3",
    'selektor = ["a"]': "no option 'selektor' (did you mean 'selector'? options: audit, ",
    "max-tokens = 1\nmax_tokens = 1": "'max-tokens' and 'max_tokens' are one option: keep one",
    f"task = {'[' * 9_000}": "is no TOML, the form of a file of options (maximum recursion",
    b"\xff": "is no TOML, the form of a file of options ('utf-8' codec can't decode",
}


def test_a_fault_of_a_study_is_one_line_that_names_the_file_and_the_option(written, tmp_path):
    cases = [(content, f"study {tmp_path / 'study.toml'}: {line}") for content, line in FAULTS.items()]
    assert wrongly_refused(cases, lambda content: read_study(written(content, "study.toml"))) == []
    assert refusal_of(read_study, tmp_path).startswith(f"study {tmp_path}: no such file")


def test_values_are_those_of_the_command_line_and_paths_start_at_the_files_folder(written, tmp_path, monkeypatch):
    text = 'pool = "a b.jsonl"\ndata = "/b.csv"\nplugin = ["c.py", "../d.py"]\nmodel = "./m"\n'
    written(text + 'selector = "x"\nrank-timeout = 3\nseed = 7', "studies/one.toml")
    monkeypatch.chdir(tmp_path)
    paths = {"pool": Path("studies/a b.jsonl"), "data": Path("/b.csv"), "model": "./studies/m"}
    paths["plugin_files"] = (Path("studies/c.py"), Path("studies/../d.py"))
    assert read_study(Path("studies/one.toml")) == {**paths, "selectors": ("x",), "rank_timeout": 3.0, "seed": 7}


def test_a_study_runs_options_replace_its_own_and_each_cell_records_those_of_its_run(harness, written, tmp_path):
    lines = ['task = "colours"', 'engine = "toy"', f"plugin = [{json.dumps(str(TOY))}]", 'store = "runs"', "limit = 2"]
    path = written("\n".join([*lines, 'selector = ["spread", "raising"]', "seed = 3"]), "study.toml")
    row = harness("run", path, "--json").rows[0]
    assert (row["selector"], row["problems"], row["seed"]) == ("spread", 2, 3)
    shared = {"task": "colours", "engine": "toy", "plugin": [str(TOY)], "limit": 2, "seed": 3}
    configs = {cell["config"]["selector"][0]: cell["config"] for cell in all_cells(tmp_path / "runs")}
    assert set(configs) == {"spread", "raising"}
    assert configs["spread"].items() >= {**shared, "selector": ["spread"]}.items()
    (row,) = harness("run", path, "--selector", "head", "--seed", 0, "--limit", 1, "--json").rows
    assert (row["selector"], row["problems"], row["seed"]) == ("head", 1, 0)
    line = error_line(harness("run", written("n = 0\n" + path.read_text(), "study.toml")))
    assert line == f"error: study {path}: --n must be at least 1, got 0"


# `harness rerun`: the same cell where nothing changed, else what did; a stranger's cell gives no orders.


@pytest.fixture
def cell(toy, tmp_path):
    """The file of a cell of the toy task."""
    (row,) = toy("--selector", "shuffle:offset=2", "--limit", 3, "--seed", 4).rows
    return tmp_path / "runs" / "cells" / f"{row['cell']}.json"


def test_a_rerun_makes_the_same_cell_in_its_store_and_in_another(harness, cell, tmp_path):
    dry = harness("rerun", cell, "--plugin", TOY, "--store", tmp_path / "fresh", "--dry-run", "--json")
    assert [stage["to_make"] for stage in dry.rows] == [3, 3, 3, 3]
    assert not (tmp_path / "fresh").exists()
    for store, made in (("runs", "reused for 3 of 3"), ("fresh", "sample: 48 responses")):
        named = (cell.stem[:6], "--in", cell.parent)
        outcome = harness("rerun", *named, "--plugin", TOY, "--store", tmp_path / store, "--json")
        assert (outcome.code, [row["cell"] for row in outcome.rows]) == (0, [cell.stem])
        assert made in outcome.err
        assert f"rerun: the same cell, {cell.stem}, with the same outcomes\n" in outcome.err
        assert outcome.err.endswith("--store NEW makes all of it anew\n") == (store == "runs")


def test_what_changed_is_named(harness, written, tmp_path, monkeypatch):
    before = made_by_hand([entry("a", [1]), entry("b", [1])])
    now = {**before, "problems": [before["problems"][0], entry("b", [2])]}
    assert difference(before, now).endswith(", with other outcomes for 1 of 2 problems")
    assert difference(before, {**before, "problems": before["problems"][:-1]}).endswith(": the problems changed")
    monkeypatch.chdir(tmp_path)
    line = {"problem_id": "a", "responses": ["x", "y"], "correct": [False, True]}
    written([line])
    (row,) = harness("run", "--pool", "pool.jsonl", "--selector", "uniform", "--json").rows
    written([{**line, "responses": ["x", "z"]}])  # another pool at the same place
    outcome = harness("rerun", row["cell"])
    assert (outcome.code, "rerun: another cell, " in outcome.err) == (0, True)
    assert f", not {row['cell']}: pool.file changed\n" in outcome.err


def test_what_runs_code_or_reaches_others_must_be_given_again_and_a_cell_without_options_is_one_line(harness, tmp_path):
    made = made_by_hand([entry("p0", [1])])
    powers = {"plugin": ["x.py"], "engine": "openai:url=http://a", "executor": "ray:address=b", "unsafe_exec": True}
    [path] = keep(tmp_path / "old", made)
    assert "records no options (an older version made it)" in error_line(harness("rerun", path))
    [path] = keep(tmp_path, made | {"config": powers | {"task": "colours"}})
    line = (
        f"cell {path} was made with --plugin x.py --engine openai:url=http://a --executor ray:address=b --unsafe-exec"
    )
    assert (
        error_line(harness("rerun", path))
        == f"error: rerun: {line}: give that too, if you trust where the cell is from"
    )
    given = {"plugin_files": (), "engine": "toy", "executor": "local", "unsafe_exec": False, "selectors": ("uniform",)}
    assert config_of(path, cells.read(path), given).engine == "toy"
    [path] = keep(tmp_path, made | {"config": {"n": "many"}})
    assert error_line(harness("rerun", path)) == f"error: cell {path}: n must be a valid integer, got 'many'"
    assert "no cell whose key begins so in" in error_line(harness("rerun", "feed", "--in", tmp_path))
