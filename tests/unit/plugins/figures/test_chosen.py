"""Which cells a figure shows, what they are called, and the one line where none or too many could be shown."""

from __future__ import annotations

import shutil

from support.figure_cells import cell_of, refused, rows_of

from harness.results import cells as stored


def test_names_are_the_fewest_labels_that_tell_cells_apart(cells):
    rows = rows_of("scatter", cells, embedder="hidden-mean", model="parrot")
    assert {row["series"] for row in rows} == {"parrot · low-temp", "parrot · vanilla"}


def test_the_same_table_comes_from_the_same_cells_however_they_lie(cells, tmp_path):
    for i, path in enumerate(sorted(cells.glob("*.json"), reverse=True)):
        folder = tmp_path / str(i % 2) / f"deep{i}"
        folder.mkdir(parents=True)
        shutil.copy(path, folder)
    for name, narrow in (("scatter", {"sampler": "vanilla"}), ("passk", {"model": "parrot"})):
        assert rows_of(name, cells, **narrow) == rows_of(name, tmp_path / "1", tmp_path / "0", **narrow)


def test_of_several_embedders_the_papers_is_shown_and_that_is_said_else_one_must_be_named(cells, tmp_path):
    notes = []
    rows = rows_of("scatter", cells, model="parrot", sampler="vanilla", say=notes.append)
    assert [row["embedder"] for row in rows] == ["hidden-mean"]
    assert notes == ["embedder: hidden-mean, of hidden-mean, letters (--embedder says another)"]
    for embedder in ("letters", "tfidf"):
        cell = cell_of(cells, model="crow")
        cell["labels"]["embedder"] = cell["inputs"]["embedding"]["key"] = embedder
        stored.write(tmp_path, cell)
    assert refused("scatter", tmp_path) == "cells of 2 embedders (letters, tfidf): say which --embedder"


def test_a_cell_that_cannot_be_counted_is_named_and_the_rest_is_drawn(copied_cells):
    (copied_cells / "broken.json").write_text("{")
    notes = []
    assert rows_of("scatter", copied_cells, model="crow", say=notes.append)
    assert notes[0].startswith(f"not counted: cell {copied_cells}/broken.json: cannot be read")


def test_folders_without_cells_are_refused(toy, tmp_path):
    where = "`harness run` keeps its cells in runs/cells"
    assert refused("passk", tmp_path / "no") == f"no folder {tmp_path}/no; {where}"
    toy("--selector", "twice")
    folder = tmp_path / "runs" / "cells"
    assert refused("passk", folder) == f"no cells in {folder} (1 that failed); {where}"


def test_a_label_that_no_cell_has_is_refused_with_those_there_are(cells):
    labels = {
        "selector": "head, likely, shuffle, spread",
        "embedder": "hidden-mean, letters, none",
        "task": "colours",
        "model": "crow, jay, parrot",
        "sampler": "low-temp, vanilla",
    }
    for option, names in labels.items():
        line = refused("passk", cells, **{option: "x"})
        assert line == f"no cell of {option} 'x'; there are {names}: name one of them, or run that one"
    assert refused("scatter", cells, selector=None).startswith("no cell of selector 'repexp'; there are")


def test_a_subset_method_has_no_samples_to_correct(cells):
    for name in ("scatter", "questions", "models", "hardness"):
        line = refused(name, cells, selector="head")
        assert line.startswith("selector 'head' chooses sets, not an order: it has no samples-to-correct"), name


def test_options_of_other_figures_and_wrong_numbers_are_refused(tmp_path):
    assert refused("passk", k=3) == "-k goes with `harness plot likelihoods` only"
    line = refused("passk", reference=tmp_path)
    assert line == "--reference goes with `harness plot hardness` and `harness plot guided` only"
    assert refused("likelihoods", k=0) == "-k must be at least 1, got 0"


def test_two_cells_that_nothing_tells_apart_are_named(copied_cells):
    cell = cell_of(copied_cells, model="crow")
    cell["inputs"]["ranking"]["selector"]["file"] = "another"
    other = stored.write(copied_cells, cell)
    line = refused("scatter", copied_cells, model="crow")
    assert other in line
    assert "differ in nothing that a figure can name (a version, a setting): give a folder that holds one" in line


def test_more_than_can_be_told_apart_is_refused(cells, tmp_path):
    cell = cell_of(cells, model="crow")
    for seed in range(13):
        cell["labels"]["seed"] = cell["inputs"]["pool"]["key"] = str(seed)
        stored.write(tmp_path, cell)
    for name, what in (("scatter", "models"), ("questions", "panels"), ("hardness", "panels"), ("passk", "pools")):
        assert refused(name, tmp_path).startswith(f"13 {what}, and 12 can be told apart: narrow them by --task"), name
