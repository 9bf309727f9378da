"""Study files: read as the command line would be, written so that they are read the same, faults in one line."""

import json
from pathlib import Path

import pytest
from support.json_lines import write_json_lines
from support.paths import TOY
from support.refusals import refusal_of
from support.stores import all_cells, cell_of

from harness.jobs.study import read_study

FAULTS = {
    'n = "x"': "n must be a valid integer, got 'x'",
    "n = true": "n must be a valid integer, got True",
    "paper = 1": "paper must be a valid boolean, got 1",
    "pool = 3": "pool must be the path of a file, got 3",
    "selector = [1]": "selector must be a valid string, got [1]",
    "rank-timeout = 1979-05-27": "rank_timeout must be a valid number, got datetime.date(1979, 5, 27)",
    'sellector = "a"': "no option 'sellector' (did you mean 'selector'? options: audit, ",
    'selektor = ["a"]': "no option 'selektor' (did you mean 'selector'? options: audit, ",
    "yes = true": "no option 'yes' (options: audit, ",
    '[task]\nname = "a"': "task must be a valid string, got {'name': 'a'}",
    "max-tokens = 1\nmax_tokens = 1": "'max-tokens' and 'max_tokens' are one option: keep one",
    f"task = {'[' * 9_000}": "is no TOML, the form of a file of options (maximum recursion",
    "task = colours": "is no TOML, the form of a file of options (Invalid value",
    b"\xff": "is no TOML, the form of a file of options ('utf-8' codec can't decode",
}


def test_a_fault_is_one_line_that_names_the_file_and_the_option(written):
    unexpected = {}
    for content, expected in FAULTS.items():
        path = written(content, "study.toml")
        said = refusal_of(read_study, path)
        if not said.startswith(f"study {path}: {expected}"):
            unexpected[content] = said
    assert unexpected == {}
    assert refusal_of(read_study, path.parent).startswith(f"study {path.parent}: no such file")


def test_values_are_those_of_the_command_line_and_paths_start_at_the_files_folder(written):
    text = 'pool = "a.jsonl"\ndata = "/b.csv"\nplugin = ["c.py", "../d.py"]\nmodel = "./m"\n'
    text += 'selector = "x"\nrank-timeout = 3'
    path = written(text, "studies/one.toml")
    assert read_study(path) == {
        "pool": path.parent / "a.jsonl",
        "data": Path("/b.csv"),
        "plugin_files": (path.parent / "c.py", path.parent / "../d.py"),
        "model": str(path.parent / "m"),
        "selectors": ("x",),
        "rank_timeout": 3.0,
    }


def test_a_study_names_files_as_seen_from_its_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("deep").mkdir()
    lines = ("pool = 'a b.jsonl'", "model = './m'", "store = '/other/runs'", "plugin = ['p.py', '../q.py']", "seed = 7")
    for folder in (Path(), Path("deep")):
        Path(folder, "one.toml").write_text("\n".join(lines))
    options = read_study(Path("one.toml"))
    assert (options["pool"], options["model"], options["store"]) == (Path("a b.jsonl"), "./m", Path("/other/runs"))
    options = read_study(Path("deep", "one.toml"))
    assert (options["pool"], options["model"]) == (Path("deep/a b.jsonl"), "./deep/m")
    assert (options["store"], options["seed"]) == (Path("/other/runs"), 7)
    assert options["plugin_files"] == (Path("deep/p.py"), Path("deep/../q.py"))


@pytest.fixture
def study(written):
    """The toy task as a study, with more lines."""

    def call(*lines):
        first = ['task = "colours"', 'engine = "toy"', f"plugin = [{json.dumps(str(TOY))}]", 'store = "runs"']
        return written("\n".join([*first, *lines]), "study.toml")

    return call


@pytest.mark.slow
def test_a_study_runs_and_options_replace_its_own(harness, study, tmp_path):
    path = study('selector = ["spread", "shuffle"]', "limit = 2", "seed = 3")
    rows = harness("run", path, "--json").rows
    assert [(row["selector"], row["problems"], row["seed"]) for row in rows] == [("spread", 2, 3), ("shuffle", 2, 3)]
    (row,) = harness("run", path, "--selector", "head", "--seed", 0, "--limit", 6, "--json").rows
    assert (row["selector"], row["problems"], row["seed"]) == ("head", 6, 0)
    stages = harness("run", path, "--dry-run", "--json").rows
    assert [(stage["stage"], stage["there"]) for stage in stages if "rank" in stage["stage"]] == [
        ("rank spread", 2),
        ("rank shuffle", 2),
    ]


@pytest.mark.slow
def test_a_study_holds_a_grid_and_makes_the_same_cells_again(harness, study):
    path = study('grid = "selector=spread+shuffle,embedder=hidden-mean+letters"')
    first = harness("run", path, "--limit", 2, "--json").rows
    assert len(first) == 3
    again = harness("run", path, "--limit", 2, "--json")
    assert again.rows == first
    assert "rankings of spread: reused for 2 of 2 problems" in again.err


def test_what_a_study_asks_and_cannot_be_is_one_line_with_its_name(harness, study):
    path = study("n = 0", 'selector = ["spread"]')
    outcome = harness("run", path)
    assert (outcome.code, outcome.err) == (2, f"error: study {path}: --n must be at least 1, got 0\n")


@pytest.mark.slow
def test_every_cell_records_the_options_of_its_run(toy, tmp_path):
    rows = toy("--selector", "spread", "--selector", "raising", "--limit", 2, "--rank-timeout", 60).rows
    shared = {"task": "colours", "engine": "toy", "plugin": [str(TOY)], "limit": 2, "rank_timeout": 60.0}
    assert cell_of(tmp_path / "runs", rows[0])["config"] == {**shared, "selector": ["spread"]}
    configs = [cell["config"]["selector"] for cell in all_cells(tmp_path / "runs")]
    assert sorted(configs) == [["raising"], ["spread"]]


def test_an_imported_pool_is_recorded_as_it_was_given(harness, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_json_lines(Path("p.jsonl"), [{"problem_id": "a", "responses": ["x", "y"], "correct": [False, True]}])
    (row,) = harness("run", "--pool", "p.jsonl", "--selector", "uniform", "--json").rows
    expected = {"engine": "transformers", "pool": "p.jsonl", "selector": ["uniform"]}
    assert cell_of(Path("runs"), row)["config"] == expected
