"""The commands in the page: what would make its cells again."""

import shlex

from support.cells import cell, entry
from support.paths import TOY

from harness_plugins.report.chosen import Cell
from harness_plugins.report.reproduce import commands

ENTRIES = [entry("a", [1]), entry("b", [2])]


def lines(*cells):
    return commands([Cell(str(place), content, "") for place, content in enumerate(cells)])["lines"]


def test_the_page_has_the_command_that_makes_its_run_again_beside_its_files(shown, harness, tmp_path, monkeypatch):
    monkeypatch.chdir(TOY.parent)
    (line,) = shown.data["commands"]["lines"]
    words, store = shlex.split(line)[1:], tmp_path / "again"
    outcome = harness(*words, *(() if "--plugin" in words else ("--plugin", TOY)), "--store", store)
    assert outcome.code == 0, outcome.err
    names = [sorted(path.name for path in (folder / "cells").iterdir()) for folder in (store, shown.store)]
    assert names[0] == names[1]


def test_selectors_of_one_embedder_share_a_command_and_those_that_read_none_join_the_first():
    made = [cell(ENTRIES, "a", embedder="x"), cell(ENTRIES, "b"), cell(ENTRIES, "a", embedder="y")]
    first, second = lines(*made)
    assert first.endswith("--embedder x --limit 2 --trials 1 --seed 0 --selector a --selector b")
    assert "--embedder y" in second
    (imported,) = lines(cell(ENTRIES, "a", task="pool", engine="pool", split="pool", sampler="pool", model="mine"))
    assert imported == "harness run --pool POOL_FILE --n 8 --limit 2 --trials 1 --seed 0 --selector a"


def test_recorded_options_are_written_as_they_are_and_no_text_leaves_its_word():
    config = {"task": "$(rm -rf /)", "max_tokens": 64, "regrade": True, "audit": False, "ids": None}
    config |= {"plugin": ["a b.py", "c.py"], "selector": ["x\n;ls\x1b[2J"]}
    made = [cell(ENTRIES) | {"config": config}, cell(ENTRIES) | {"config": config | {"selector": ["y"]}}]
    (line,) = lines(*made)
    words = ["harness", "run", "--task", "$(rm -rf /)", "--max-tokens", "64", "--regrade", "--plugin", "a b.py"]
    words += ["--plugin", "c.py", "--selector", "x ;ls⟨U+001B⟩[2J", "--selector", "y"]
    assert shlex.split(line) == words
    assert "\n" not in line
    assert commands([Cell("0", made[0])])["recorded"]
