"""`--grid`, study files and `harness rerun`: what is crossed and shared, read as options, and made again."""

import json
from pathlib import Path

import pytest
from support.cells import cell as made_by_hand
from support.cells import entry, keep
from support.json_lines import write_json_lines
from support.paths import TOY
from support.refusals import error_line, refusal_of, wrongly_refused
from support.stores import all_cells, cell_of

from harness.jobs import grid
from harness.jobs.grid import parse_grid
from harness.jobs.options import RunConfig
from harness.jobs.study import config_of, difference, read_study
from harness.plugin_system.registry import Registry
from harness.results import cells
from harness.system.progress import Progress

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
    for words in (("--task", "game24", "--grid", "embedder=tfidf"), ("--grid", "task=nosuch")):
        assert "no selector is named" in error_line(harness("run", *words, "--dry-run"))


@pytest.fixture
def points(tmp_path):
    """The points of a grid of the toy task with these options."""
    fixed = {"task": "colours", "engine": "toy", "plugin_files": (TOY,), "store": tmp_path}
    return lambda **options: list(grid.points(RunConfig(**{**fixed, **options}), Progress(quiet=True)))


@pytest.mark.slow
def test_selectors_are_crossed_with_embedders_over_one_pool_and_what_fails_is_named(toy, tmp_path):
    axes = "selector=spread+shuffle+repexp+twice,embedder=hidden-mean+letters+nonsense"
    outcome = toy("--selector", "likely", "--limit", "2", "--grid", axes)
    assert outcome.code == 1
    assert [(row["selector"], row["embedder"]) for row in outcome.rows] == [
        *(("likely", "none"), ("spread", "hidden-mean"), ("shuffle", "none"), ("repexp", "hidden-mean")),
        *(("spread", "letters"), ("repexp", "letters")),
    ]
    for stage in ("pool", "verdict"):
        assert len({cell_of(tmp_path / "runs", row)["inputs"][stage]["key"] for row in outcome.rows}) == 1
    assert (outcome.err.count("sample: "), outcome.err.count("embed: ")) == (1, 1)  # states come with the responses
    assert outcome.err.count("failed: selector 'twice'") == 1  # it reads no vectors: run once
    assert "failed: embedder=nonsense: unknown embedder 'nonsense'" in outcome.err
    alone = toy("--selector", "spread", "--embedder", "letters", "--limit", "2", store=tmp_path / "alone").rows
    assert alone == outcome.rows[4:5]  # a point of a grid is the run of the same options


def test_a_star_leaves_out_what_cannot_run_here_unless_it_is_named_too(toy, points, monkeypatch):
    of_kind = Registry.of_kind

    def toys(registry, kind):
        return [each for each in of_kind(registry, kind) if kind != "selector" or each.origin.dist == "toy"]

    monkeypatch.setattr(Registry, "of_kind", toys)
    outcome = toy("--grid", "selector=*", "--limit", "2")
    assert outcome.code == 0, outcome.err
    assert {row["selector"] for row in outcome.rows} == {"shuffle", "spread", "particular", "likely", "head"}
    assert "left out: selector 'twice', problem" in outcome.err
    named = points(selectors=("twice",), grid="selector=*")
    assert {"twice", "short"} - named[0].optional == {"twice"}


def test_a_grid_can_be_looked_at_before_it_is_run(toy, tmp_path):
    stages = toy("--grid", "selector=spread+shuffle,embedder=hidden-mean+letters", "--dry-run").rows
    names = ["sample", "embed", "verify", "rank spread", "rank shuffle", "embed", "rank spread"]
    controls = {"rank length", "rank length:first=long", "rank norm"}
    assert [stage["stage"] for stage in stages if stage["stage"] not in controls] == names
    assert controls < {stage["stage"] for stage in stages}
    assert not list((tmp_path / "runs").rglob("*.parquet"))
    plan = toy("--grid", "selector=spread+shuffle,embedder=hidden-mean+letters,sampler=vanilla+low-temp", "--dry-run")
    words = "grid: 6 cells in 4 runs, which share what they can: 2 for sampler=vanilla, embedder=hid"
    assert plan.err.startswith(words)
    line = error_line(toy("--grid", "selector=spread,model=*"))
    assert line == "error: --grid: model=*: models are named, not installed"


# Study files.

FAULTS = {
    'n = "x"': "n must be a valid integer, got 'x'",
    "pool = 3": "pool must be the path of a file, got 3",
    "rank-timeout = 1979-05-27": "rank_timeout must be a valid number, got datetime.date(1979, 5, 27)",
    'selektor = ["a"]': "no option 'selektor' (did you mean 'selector'? options: audit, ",
    "yes = true": "no option 'yes' (options: audit, ",
    '[task]\nname = "a"': "task must be a valid string, got {'name': 'a'}",
    "max-tokens = 1\nmax_tokens = 1": "'max-tokens' and 'max_tokens' are one option: keep one",
    f"task = {'[' * 9_000}": "is no TOML, the form of a file of options (maximum recursion",
    "task = colours": "is no TOML, the form of a file of options (Invalid value",
    b"\xff": "is no TOML, the form of a file of options ('utf-8' codec can't decode",
}


def test_a_fault_of_a_study_is_one_line_that_names_the_file_and_the_option(written, tmp_path):
    cases = [(content, f"study {tmp_path / 'study.toml'}: {line}") for content, line in FAULTS.items()]
    assert wrongly_refused(cases, lambda content: read_study(written(content, "study.toml"))) == []
    assert refusal_of(read_study, tmp_path).startswith(f"study {tmp_path}: no such file")


def test_values_are_those_of_the_command_line_and_paths_start_at_the_files_folder(written, tmp_path, monkeypatch):
    text = 'pool = "a b.jsonl"\ndata = "/b.csv"\nplugin = ["c.py", "../d.py"]\nmodel = "./m"\n'
    text += 'selector = "x"\nrank-timeout = 3\nstore = "/other/runs"\nseed = 7'
    written(text, "studies/one.toml")
    monkeypatch.chdir(tmp_path)
    assert read_study(Path("studies/one.toml")) == {
        "pool": Path("studies/a b.jsonl"),
        "data": Path("/b.csv"),
        "plugin_files": (Path("studies/c.py"), Path("studies/../d.py")),
        "model": "./studies/m",
        "selectors": ("x",),
        "rank_timeout": 3.0,
        "store": Path("/other/runs"),
        "seed": 7,
    }


@pytest.mark.slow
def test_a_study_runs_options_replace_its_own_and_each_cell_records_those_of_its_run(harness, written, tmp_path):
    lines = ['task = "colours"', 'engine = "toy"', f"plugin = [{json.dumps(str(TOY))}]", 'store = "runs"', "limit = 2"]
    path = written("\n".join([*lines, 'selector = ["spread", "raising"]', "seed = 3"]), "study.toml")
    row = harness("run", path, "--json").rows[0]
    assert (row["selector"], row["problems"], row["seed"]) == ("spread", 2, 3)
    shared = {"task": "colours", "engine": "toy", "plugin": [str(TOY)], "limit": 2, "seed": 3}
    configs = {cell["config"]["selector"][0]: cell["config"] for cell in all_cells(tmp_path / "runs")}
    assert set(configs) == {"spread", "raising"}
    assert configs["spread"].items() >= {**shared, "selector": ["spread"]}.items()
    (row,) = harness("run", path, "--selector", "head", "--seed", 0, "--limit", 6, "--json").rows
    assert (row["selector"], row["problems"], row["seed"]) == ("head", 6, 0)
    stages = harness("run", path, "--dry-run", "--json").rows
    assert ("rank spread", 2) in [(stage["stage"], stage["there"]) for stage in stages]
    path = written("\n".join([*lines, 'grid = "selector=spread+shuffle,embedder=hidden-mean+letters"']), "study.toml")
    first = harness("run", path, "--json").rows
    assert len(first) == 3
    again = harness("run", path, "--json")
    assert again.rows == first
    assert "rankings of spread: reused for 2 of 2 problems" in again.err
    path = written("\n".join([*lines, "n = 0", 'selector = ["spread"]']), "study.toml")
    assert error_line(harness("run", path)) == f"error: study {path}: --n must be at least 1, got 0"


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
        assert outcome.code == 0, outcome.err
        assert [row["cell"] for row in outcome.rows] == [cell.stem]
        assert made in outcome.err
        assert f"rerun: the same cell, {cell.stem}, with the same outcomes\n" in outcome.err
        assert outcome.err.endswith("--store NEW makes all of it anew\n") == (store == "runs")


def test_what_changed_is_named(cell, harness, tmp_path, monkeypatch):
    before = cells.read(cell)
    now = json.loads(json.dumps(before))
    now["problems"][1]["ranks"][0] += 1
    assert difference(before, now) == f"the same cell, {cell.stem}, with other outcomes for 1 of 3 problems"
    now["inputs"]["ranking"]["selector"]["code"] = now["inputs"]["pool"]["n"] = now["inputs"]["pool"]["key"] = "x"
    names = "pool.n, ranking.selector.code"
    assert difference(before, now) == f"another cell, {cells.key_of(now)}, not {cell.stem}: {names} changed"
    assert difference(before, {**before, "problems": before["problems"][:-1]}).endswith(": the problems changed")
    monkeypatch.chdir(tmp_path)
    line = {"problem_id": "a", "responses": ["x", "y"], "correct": [False, True]}
    write_json_lines(tmp_path / "p.jsonl", [line])
    (row,) = harness("run", "--pool", "p.jsonl", "--selector", "uniform", "--json").rows
    config = {"engine": "transformers", "pool": "p.jsonl", "selector": ["uniform"]}
    assert cell_of(Path("runs"), row)["config"] == config
    write_json_lines(tmp_path / "p.jsonl", [{**line, "responses": ["x", "z"]}])  # another pool at the same place
    outcome = harness("rerun", row["cell"])
    assert (outcome.code, "rerun: another cell, " in outcome.err) == (0, True)
    assert f", not {row['cell']}: pool.file changed\n" in outcome.err


def test_what_runs_code_or_reaches_others_must_be_given_again(harness, cell):
    line = f"cell {cell} was made with --plugin {TOY}: give that too, if you trust where the cell is from"
    assert error_line(harness("rerun", cell)) == f"error: rerun: {line}"
    made = cells.read(cell)
    powers = {"plugin": ["x.py"], "engine": "openai:url=http://a", "executor": "ray:address=b", "unsafe_exec": True}
    made["config"] |= powers
    words = "--plugin x.py --engine openai:url=http://a --executor ray:address=b --unsafe-exec: give that too"
    assert words in refusal_of(config_of, cell, made, {})
    given = {"plugin_files": (), "engine": "toy", "executor": "local", "unsafe_exec": False}
    assert config_of(cell, made, given).engine == "toy"


def test_a_cell_without_options_or_with_broken_ones_is_one_line(harness, tmp_path):
    made = made_by_hand([entry("p0", [1])])
    [path] = keep(tmp_path / "old", made)
    assert "records no options (an older version made it)" in error_line(harness("rerun", path))
    [path] = keep(tmp_path, made | {"config": {"n": "many"}})
    assert error_line(harness("rerun", path)) == f"error: cell {path}: n must be a valid integer, got 'many'"
    assert "no cell whose key begins so in" in error_line(harness("rerun", "feed"))
