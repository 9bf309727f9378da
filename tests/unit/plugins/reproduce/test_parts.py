"""The plan of `harness reproduce`: every part is a command line that the harness accepts, at both scales."""

from pathlib import Path

import pytest
import typer.main

from harness.cli import complete
from harness.plugin_system.registry import load_registry
from harness_plugins.reproduce import paper_numbers, parts

MADE = {"max-cost": ["5"], "reference-pool": ["POOL"], "reference-cell": ["CELL"], "folders": ["A", "B"]}


def work(name, scale="paper", **given):
    options = {"engine": ["--engine", "vllm"], "executor": ["--executor", "local"], **given}
    return parts.named(name, scale, Path("runs"), options)


def test_every_part_and_every_figure_is_a_command_that_exists():
    commands = typer.main.get_command(complete())
    plots = {each.name for each in load_registry(()).registrations if each.kind == "plot"}

    def accept(words):
        command = commands
        while hasattr(command, "commands"):
            command = command.commands[words.pop(0)]
        command.make_context("harness", words)

    for each in ((name, scale) for name in parts.names() for scale in parts.SCALES):
        all_ = work(*each, **MADE, evaluations=["EVALUATION"])
        lines = [all_.words(part) for part in [*all_.parts, *all_.figures()]]
        assert not [word for words in lines for word in words if "{" in word], each
        for words in lines:
            if words[0] != "-m":
                accept([*words, *(["--yes"] if words[0] in ("run", "rl") else []), "--json"])
        shown = [words[1] for words in lines if words[0] == "plot"]
        assert shown, each
        assert {*shown} <= plots, each


def test_the_paper_takes_ten_models_and_five_tasks_and_three_seeds_of_three_methods_on_three_tasks():
    assert len(work("rf1").parts) == 50
    assert len([part for part in work("rl").parts if part.command.startswith("rl train")]) == 27
    assert len(work("rf5").parts) == 2 + 15
    wanted = parts.to_fetch(work("rf3"))
    assert any(line.startswith("model microsoft/phi-4 (about 29 GB): https://huggingface.co/") for line in wanted)


def test_a_value_that_no_part_made_is_missing_and_an_option_of_a_figure_is_left_out_with_it():
    rf3, rl = work("rf3"), work("rl")
    with pytest.raises(parts.NotMade, match="max-cost"):
        rf3.words(rf3.parts[0])
    for words in map(rf3.words, rf3.figures()):
        assert "--reference" not in words
        assert words[-2] == "--out"
    with pytest.raises(parts.NotMade, match="evaluations"):
        rl.words(rl.figures()[0])
    assert "{max-cost}" in parts.part_text(rf3, rf3.parts[0])


def test_each_number_of_the_paper_has_a_place_in_it_and_a_function_that_computes_ours():
    stated = [number for name in parts.names() for number in parts.plan()[name].get("numbers", [])]
    assert len(stated) == 12
    assert all(number["place"] and callable(getattr(paper_numbers, number["ours"])) for number in stated)


def test_a_dry_run_without_models_and_data_prices_each_part_and_names_once_what_is_missing(
    harness, tmp_path, monkeypatch
):
    from huggingface_hub import constants

    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub" / "hub"))
    told = " ".join(harness("reproduce", "proteins", "--dry-run", "--store", tmp_path / "runs").out.split())
    assert told.count("the hub cannot be reached from here") == 1
    _, *priced = told.split("harness run ")
    assert len(priced) == len(work("proteins").parts)
    for part in priced:
        assert all(words in part for words in ("responses x", "disk: ", "hours: not known"))
    assert not (tmp_path / "runs").exists()


def test_a_name_or_scale_that_is_not_there_is_one_line(harness):
    for options, line in (
        (["rf11"], "did you mean 'rf1'?"),
        (["rf1", "--scale", "huge"], "--scale must be paper or tiny, got 'huge'"),
        (["rf1", "--engine", "vlm", "--yes"], "unknown engine 'vlm'"),
        (["rf1", "--scale", "tiny"], "add --yes"),
    ):
        refused = harness("reproduce", *options)
        assert (refused.code, refused.err.count("\n"), line in refused.err) == (2, 1, True)
