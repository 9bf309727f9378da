"""The command line as a whole: its help is light, every command has one, wrong inputs are one clear line."""

import os
import re
from types import SimpleNamespace

import numpy as np
import pytest
import typer.main
from support.processes import harness_command, printed_by, run_to_end
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


@pytest.mark.parametrize(
    ("chosen", "spins"),
    [
        ({}, "1000"),
        ({"GOMP_SPINCOUNT": "7"}, "7"),
        ({"OMP_WAIT_POLICY": "PASSIVE"}, "0"),
        ({"GOMP_SPINCOUNT": "7", "OMP_WAIT_POLICY": "ACTIVE"}, "7"),
    ],
)
def test_openmp_threads_spin_briefly_unless_the_user_says_how_they_wait(chosen, spins, tmp_path):
    np.save(tmp_path / "vectors.npy", np.arange(12.0).reshape(6, 2))
    command = harness_command("select", "--embeddings", tmp_path / "vectors.npy", "--selector", "kmeans", "-k", 2)
    own = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))}
    ended = run_to_end(command, env={**own, **chosen, "OMP_DISPLAY_ENV": "verbose"})
    assert ended.returncode == 0, ended.stderr
    assert set(re.findall(r"GOMP_SPINCOUNT = '(\d+)'", ended.stderr)) == {spins}


def test_every_command_answers_help(harness):
    group = typer.main.get_command(complete())
    commands = [[], *([name] for name in group.commands)]
    commands += [[name, part] for name, command in group.commands.items() for part in getattr(command, "commands", ())]
    assert len(commands) > 20
    for command in commands:
        outcome = harness(*command, "--help")
        assert outcome.code == 0, command
        assert "Usage:" in outcome.out
        assert harness(*command, "-h").out == outcome.out
    assert harness("--version").out == f"diversity-harness {__version__}\n"


def test_a_wrong_input_is_one_clear_line_and_exit_code_2(toy, harness):
    table = [
        ("--selector uniform --selector uniform", "a selector is given twice"),
        ("--selector repexp:lam=-1", "repexp: lam must be > 0, got -1"),
        ("--selector uniform --task colour", "unknown task 'colour' (did you mean 'colours'?"),
        ("--selector uniform --n 0", "--n must be at least 1, got 0"),
        ("--selector uniform --seed -1", "--seed must not be negative"),
        ("--selector uniform --executor local:workers=-1", "workers must be at least 0"),
        ("--selector uniform --embeddings x.npz", "--embeddings goes with --pool"),
        ("--selector uniform --outcome active", "--outcome goes with --pool"),
        ("--selector uniform --pool x.csv --threshold 7", "--threshold goes with --outcome NAME"),
    ]
    lines = {args: error_line(toy(*args.split())) for args, _ in table}
    assert not [(args, lines[args]) for args, reason in table if reason not in lines[args]]
    assert "--task game24" in error_line(harness("run", "--selector", "uniform"))
    assert harness("run").code == 2


def test_a_list_with_commas_is_one_line_that_names_the_right_form(toy, harness):
    table = [
        ("--selector repexp,uniform", "write --selector repexp --selector uniform"),
        ("--selector mmr:lam=0.5,uniform", "write --selector mmr:lam=0.5 --selector uniform"),
        ("--selector uniform,mmr:lam=0.5,repexp:lam=1,first=max", "mmr:lam=0.5 --selector repexp:lam=1,first=max"),
        ("--grid selector=repexp,uniform", "write selector=repexp+uniform"),
        ("--grid selector=uniform,embedder=tfidf,sentence", "write embedder=tfidf+sentence"),
        (
            "--selector uniform --embedder tfidf,sentence",
            "one name is wanted, and a comma separates parameters, got 's",
        ),
    ]
    lines = {args: error_line(toy(*args.split())) for args, _ in table}
    assert not [(args, lines[args]) for args, form in table if form not in lines[args]]
    select = harness("select", "--embeddings", "vectors.npz", "-k", 1, "--selector", "repexp, uniform")
    assert error_line(select).endswith("one selector chooses, got 2: --selector repexp or --selector uniform")


def test_a_command_whose_group_is_missing_is_left_out_and_named(capsys, monkeypatch):
    command = SimpleNamespace(name="absent part", origin="somebody 1.0", load=lambda: print)
    registered = SimpleNamespace(of_kind=lambda kind: [command])
    monkeypatch.setattr("harness.cli.app.load_registry", lambda groups: registered)
    assert app.complete.__wrapped__() is app.app
    assert capsys.readouterr().err == "left out: command 'absent part' from somebody 1.0: no group 'absent'\n"
