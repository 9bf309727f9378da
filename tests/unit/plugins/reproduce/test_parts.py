"""The plan of `harness reproduce`: every part is a command line that the harness accepts, at both scales."""

from functools import cache
from pathlib import Path

import pytest
import typer.main

from harness.cli import complete
from harness_plugins.reproduce import paper_numbers, parts

SCALES = [(name, scale) for name in parts.names() for scale in parts.SCALES]
MADE = {"max-cost": ["5"], "reference-pool": ["POOL"], "reference-cell": ["CELL"], "folders": ["A", "B"]}


def work(name, scale, **given):
    options = {"engine": ["--engine", "vllm"], "executor": ["--executor", "local"], **given}
    return parts.named(name, scale, Path("runs"), options)


def accepted(words):
    """The command that these words name, after typer has parsed the rest of them."""
    command = commands()
    words = list(words)
    while hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    return command.make_context("harness", words)


@pytest.mark.parametrize(("name", "scale"), SCALES)
def test_every_part_and_every_figure_is_a_command_that_exists(name, scale):
    all_ = work(name, scale, **MADE, evaluations=["EVALUATION"])
    lines = [all_.words(part) for part in [*all_.parts, *all_.figures()]]
    for words in lines:
        assert not any("{" in word for word in words)
        if words[0] != "-m":
            accepted(words)
            more = ["--yes", "--json"] if words[0] in ("run", "rl") else ["--json"]
            accepted([*words, *more])
    shown = [words for words in lines if words[0] == "plot"]
    assert shown
    assert all(words[1] in plots() for words in shown)


@cache
def commands():
    return typer.main.get_command(complete())


@cache
def plots():
    from harness.plugin_system.registry import load_registry

    return {each.name for each in load_registry(()).registrations if each.kind == "plot"}


def test_the_paper_takes_ten_models_and_five_tasks_and_three_seeds_of_three_methods_on_three_tasks():
    assert len(work("rf1", "paper").parts) == 50
    train = [part for part in work("rl", "paper").parts if part.command.startswith("rl train")]
    assert len(train) == 27
    assert len(work("rf5", "paper").parts) == 2 + 15


def test_a_value_that_no_part_made_is_missing_and_an_option_of_a_figure_is_left_out_with_it():
    rf3 = work("rf3", "paper")
    with pytest.raises(parts.NotMade, match="max-cost"):
        rf3.words(rf3.parts[0])
    for words in map(rf3.words, rf3.figures()):
        assert "--reference" not in words
        assert words[-2] == "--out"
    rl = work("rl", "paper")
    with pytest.raises(parts.NotMade, match="evaluations"):
        rl.words(rl.figures()[0])
    assert "{max-cost}" in parts.part_text(rf3, rf3.parts[0])


def test_each_number_of_the_paper_has_a_place_in_it_and_a_function_that_computes_ours():
    plan = parts.plan()
    stated = [number for name in parts.names() for number in plan[name].get("numbers", [])]
    assert len(stated) == 12
    for number in stated:
        assert number["place"]
        assert callable(getattr(paper_numbers, number["ours"]))


@pytest.mark.parametrize("name", [pytest.param("rf3", marks=pytest.mark.slow), "proteins"])
def test_a_dry_run_without_models_and_data_prices_each_part_and_names_once_what_is_missing(
    name, harness, tmp_path, monkeypatch
):
    from huggingface_hub import constants

    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    monkeypatch.setenv("OPENAI_API_KEY", "")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub" / "hub"))
    told = " ".join(harness("reproduce", name, "--dry-run", "--store", tmp_path / "runs").out.split())
    assert told.count("the hub cannot be reached from here") == 1
    _, *priced = told.split("harness run ")
    assert len(priced) == len(work(name, "paper").parts)
    for part in priced:
        assert "responses x" in part
        assert "disk: " in part
        assert "hours: not known" in part
    if name == "rf3":
        assert "5,000 problems x 1,024 = 5,120,000 responses" in priced[0]
        assert "cost up to about 3,145.73, the prompts not counted" in priced[0]
        assert "microsoft/phi-4 (about 29 GB)" in told
    assert not (tmp_path / "runs").exists()


def test_a_name_or_scale_that_is_not_there_is_one_line(harness):
    unknown = harness("reproduce", "rf11")
    assert (unknown.code, unknown.err.count("\n")) == (2, 1)
    assert "did you mean 'rf1'?" in unknown.err
    assert "--scale must be paper or tiny, got 'huge'" in harness("reproduce", "rf1", "--scale", "huge").err
    assert "unknown engine 'vlm'" in harness("reproduce", "rf1", "--engine", "vlm", "--yes").err
    unasked = harness("reproduce", "rf1", "--scale", "tiny")
    assert (unasked.code, "add --yes" in unasked.err) == (2, True)
