"""The command line: its help is light, wrong inputs are one clear line, and what `list`, `show` and `select` print."""

import json
import os
from types import SimpleNamespace

import numpy as np
import typer.main
from click.testing import CliRunner
from support.choosing import LINES, written
from support.paths import TOY
from support.processes import printed_by
from support.refusals import error_line

from harness import __version__
from harness.cli import app, complete


def test_help_imports_nothing_heavy_and_listing_no_torch():
    few = {"torch", "transformers", "matplotlib"}
    heavy = few | {"numpy", "rich.console", "pyarrow", "sklearn", "scipy", "pydantic", "datasets", "safetensors"}
    code = f"""
import contextlib, io, sys
from harness.cli import main

for forbidden, *args in (({heavy!r}, "--help"), ({few!r}, "list"), ({few!r}, "plot", "--list")):
    sys.argv = ["harness", *args]
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
        main()
    print(sorted(forbidden & set(sys.modules)))
"""
    assert printed_by(code).splitlines() == ["[]"] * 3


def test_openmp_threads_spin_briefly_unless_the_user_says_how_they_wait(harness, monkeypatch):
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)
    harness("--version")
    assert os.environ.pop("GOMP_SPINCOUNT") == "1000"
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    harness("--version")
    assert "GOMP_SPINCOUNT" not in os.environ


def test_every_command_answers_help(harness):
    group = typer.main.get_command(complete())
    commands = [[], *([name] for name in group.commands)]
    commands += [[name, part] for name, command in group.commands.items() for part in getattr(command, "commands", ())]
    assert len(commands) > 20
    for command in commands:
        outcome = CliRunner().invoke(group, [*command, "--help"])
        assert (outcome.exit_code, "Usage:" in outcome.output) == (0, True), command
    assert harness("run", "-h").out == harness("run", "--help").out
    assert harness("--version").out == f"diversity-harness {__version__}\n"


WRONG = [
    ("--selector uniform --selector uniform", "a selector is given twice"),
    ("--selector uniform --task colour", "unknown task 'colour' (did you mean 'colours'?"),
    ("--selector uniform --embeddings x.npz", "--embeddings goes with --pool"),
    ("--selector uniform --pool x.csv --threshold 7", "--threshold goes with --outcome NAME"),
    ("--selector uniform,mmr:lam=0.5,repexp:lam=1,first=max", "mmr:lam=0.5 --selector repexp:lam=1,first=max"),
    ("--grid selector=repexp,uniform", "write selector=repexp+uniform"),
    ("--selector uniform --embedder tfidf,sentence", "one name is wanted, and a comma separates parameters, got 's"),
]


def test_a_wrong_input_is_one_clear_line_and_exit_code_2(toy, harness):
    lines = {args: error_line(toy(*args.split())) for args, _ in WRONG}
    assert [(args, lines[args]) for args, reason in WRONG if reason not in lines[args]] == []
    assert "--task game24" in error_line(harness("run", "--selector", "uniform"))
    assert harness("run").code == 2
    select = harness("select", "--embeddings", "vectors.npz", "-k", 1, "--selector", "repexp, uniform")
    assert error_line(select).endswith("one selector chooses, got 2: --selector repexp or --selector uniform")


def test_a_command_whose_group_is_missing_is_left_out_and_named(capsys, monkeypatch):
    command = SimpleNamespace(name="absent part", origin="somebody 1.0", load=lambda: print)
    registered = SimpleNamespace(of_kind=lambda kind: [command])
    monkeypatch.setattr("harness.cli.app.load_registry", lambda groups: registered)
    assert app.complete.__wrapped__() is app.app
    assert capsys.readouterr().err == "left out: command 'absent part' from somebody 1.0: no group 'absent'\n"


def test_list_names_kind_origin_and_what_it_is(harness, monkeypatch):
    rows = harness("list", "selectors", "--plugin", TOY, "--json").rows
    spread = {"kind": "selector", "name": "spread", "from": "toy", "what": "Farthest vector first."}
    assert [row for row in rows if row["name"] == "spread"] == [spread]
    assert "unknown kind 'selektors' (did you mean 'selector'?" in error_line(harness("list", "selektors"))
    assert "repexp" in harness("list").out
    monkeypatch.setenv("COLUMNS", "80")
    lines = harness("list", "embedders").out.splitlines()
    assert lines[-1].startswith("all from diversity-harness ")
    assert "from" not in lines[1].split()


def test_show_gives_parameters_with_defaults_the_formula_and_a_tasks_exact_first_prompt(harness):
    shown = harness("show", "selector", "repexp")
    assert ("lam: float = 1.0" in shown.out, "2510.11686" in shown.out) == (True, True)
    assert harness("show", "repexp").out == shown.out  # a bonus has the name too
    assert harness("show", "selector", "repexp", "--json").rows["parameters"]["lam"]["default"] == 1.0
    assert error_line(harness("show", "kmeens")) == "error: show: nothing is named 'kmeens': did you mean 'kmeans'?"
    for task, prompt in (("colours", "\nSay colour 0 (test).\n"), ("keyed", "\nSay colour 0 (test). I say\n")):
        assert harness("show", "task", task, "--example", "--plugin", TOY).out.endswith(prompt)  # without a template
    value = harness("show", "task", "game24", "--example", "--json").rows
    assert (value["id"], value["messages"][0]["role"]) == ("1-1-1-8", "user")
    assert "for tasks only" in error_line(harness("show", "selector", "uniform", "--example"))


def test_select_prints_problem_rank_index_and_how_a_response_begins_or_json_lines(harness, tmp_path):
    pool = written(tmp_path / "pool.jsonl", LINES)
    select = ("select", "--store", tmp_path / "runs", "--plugin", TOY)
    shown = harness(*select, "--pool", pool, "--selector", "length:first=long", "-k", "2").out
    rows = [line.strip().split(maxsplit=3) for line in shown.splitlines() if "test/" in line]
    assert rows[:2] == [["test/0", "1", "4", "say pink and grey"], ["test/0", "2", "2", "say green"]]
    assert len(rows) == 6
    vectors = written(tmp_path / "E.npz", {"plate a": np.eye(3)})
    shown = harness(*select, "--embeddings", vectors, "--selector", "head", "-k", "1").out
    assert shown.splitlines()[3].split()[:3] == ["plate", "a", "-"]  # a set has no ranks
    options = (*select, "--pool", pool, "--selector", "uniform")
    lines = harness(*options, "-k", 2, "--jsonl").out.splitlines()
    assert [json.loads(line) for line in lines] == harness(*options, "-k", 2, "--json").rows
    assert harness(*options).code == 2  # how many to choose must be said
