"""The command line as a whole: its help is light, every command has one, wrong inputs are one clear line."""

from __future__ import annotations

import typer.main
from support.processes import printed_by
from support.refusals import error_line

from harness import __version__
from harness.cli import app, complete


def test_help_imports_nothing_heavy_and_listing_no_torch():
    heavy = {"torch", "transformers", "pyarrow", "sklearn", "scipy", "pydantic", "datasets", "safetensors"}
    code = f"""
import contextlib, io, sys
from harness.cli import main

def loaded(*args):
    sys.argv = ["harness", *args]
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
        main()
    return set(sys.modules)

print(sorted({heavy!r} & loaded("--help")))
print(sorted({{"torch", "transformers"}} & loaded("list")))
print(sorted({{"torch", "transformers", "matplotlib"}} & loaded("plot", "--list")))
"""
    assert printed_by(code).splitlines() == ["[]"] * 3


def test_every_command_answers_help(harness):
    group = typer.main.get_command(complete())
    commands = [[], *([name] for name in group.commands)]
    commands += [[name, part] for name, command in group.commands.items() for part in getattr(command, "commands", ())]
    assert len(commands) > 20
    for command in commands:
        outcome = harness(*command, "--help")
        assert outcome.code == 0, command
        assert "Usage:" in outcome.out
    assert harness("--version").out == f"diversity-harness {__version__}\n"


def test_a_wrong_input_is_one_clear_line_and_exit_code_2(toy, harness, tmp_path):
    table = [
        ("--selector uniform --selector uniform", "a selector is given twice"),
        ("--selector repexp:lam=-1", "repexp: lam must be > 0, got -1"),
        ("--selector uniform --task colour", "unknown task 'colour' (did you mean 'colours'?"),
        ("--selector uniform --embedder hidden-last", "needs the model's hidden states, which engine"),
        ("--selector uniform --sampler vanilla:temperature=0", "temperature must be > 0"),
        ("--selector uniform --split tests", "no split 'tests' (did you mean 'test'?"),
        ("--selector uniform --n 0", "--n must be at least 1, got 0"),
        ("--selector uniform --seed -1", "--seed must not be negative"),
        ("--selector uniform --max-tokens 2000", "a parrot forgets after 1,000 tokens"),
        ("--selector uniform --executor local:workers=-1", "workers must be at least 0"),
        ("--selector uniform --embeddings x.npz", "--embeddings goes with --pool"),
        ("--selector uniform --plugin absent.py", "absent.py: no such file"),
    ]
    lines = {args: error_line(toy(*args.split())) for args, _ in table}
    assert not [(args, lines[args]) for args, reason in table if reason not in lines[args]]
    assert "--task game24" in error_line(harness("run", "--selector", "uniform"))
    assert harness("run").code == 2
    (tmp_path / "file").write_text("")
    assert "choose another --store" in error_line(toy("--selector", "shuffle", store=tmp_path / "file" / "runs"))


def test_a_wrong_model_path_is_one_clear_line(harness, tmp_path):
    for model, reason in {"./no/folder": "no/folder", "/etc": "/etc", "tiny25": "did you mean 'tiny24'?"}.items():
        args = ("run", "--task", "game24", "--selector", "uniform", "--model", model, "--store", tmp_path)
        assert reason in error_line(harness(*args))


def test_a_command_whose_group_is_missing_is_left_out_and_named(capsys, monkeypatch):
    class Command:
        name, origin = "absent part", "somebody 1.0"

        def load(self):
            return print

    class Registered:
        def of_kind(self, kind):
            return [Command()]

    monkeypatch.setattr("harness.cli.app.load_registry", lambda groups: Registered())
    assert app.complete.__wrapped__() is app.app
    assert capsys.readouterr().err == "left out: command 'absent part' from somebody 1.0: no group 'absent'\n"
