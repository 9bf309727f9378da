"""The commands in the page: what would make its cells again."""

import shlex

from support.cells import cell, entry
from support.paths import TOY

from harness_plugins.report.results import Cell, commands


def test_the_page_has_the_command_that_makes_its_run_again_beside_its_files(shown, harness, tmp_path, monkeypatch):
    monkeypatch.chdir(TOY.parent)
    (line,) = shown.data["commands"]
    words, store = shlex.split(line)[1:], tmp_path / "again"
    outcome = harness(*words, *(() if "--plugin" in words else ("--plugin", TOY)), "--store", store)
    assert outcome.code == 0, outcome.err
    names = [sorted(path.name for path in (folder / "cells").iterdir()) for folder in (store, shown.store)]
    assert names[0] == names[1]


def test_recorded_options_are_written_as_they_are_and_no_text_leaves_its_word():
    config = {"task": "$(rm -rf /)", "max_tokens": 64, "regrade": True, "audit": False, "ids": None}
    config |= {"plugin": ["a b.py", "c.py"], "selector": ["x\n;ls\x1b[2J"]}
    made = [
        cell([entry("a", [1])]) | {"config": config},
        cell([entry("a", [1])]) | {"config": config | {"selector": ["y"]}},
    ]
    (line,) = commands([Cell("0", content) for content in made])
    words = ["harness", "run", "--task", "$(rm -rf /)", "--max-tokens", "64", "--regrade", "--plugin", "a b.py"]
    words += ["--plugin", "c.py", "--selector", "x ;ls⟨U+001B⟩[2J", "--selector", "y"]
    assert shlex.split(line) == words
    assert "\n" not in line
