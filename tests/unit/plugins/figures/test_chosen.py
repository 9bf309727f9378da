"""Which cells a figure shows, what they are called, and the one line where none or too many could be shown."""

import shutil

from support.cells import entry
from support.figure_cells import cell_of, refused, rows_of

from harness.results import cells as stored


def test_names_are_the_fewest_labels_that_tell_cells_apart_wherever_the_cells_lie(cells, tmp_path):
    for i, path in enumerate(sorted(cells.glob("*.json"), reverse=True)):
        folder = tmp_path / str(i % 2) / f"deep{i}"
        folder.mkdir(parents=True)
        shutil.copy(path, folder)
    narrow = {"embedder": "hidden-mean", "model": "parrot"}
    rows = rows_of("scatter", cells, **narrow)
    assert {row["series"] for row in rows} == {"parrot · low-temp", "parrot · vanilla"}
    assert rows_of("scatter", tmp_path / "1", tmp_path / "0", **narrow) == rows


def test_of_several_embedders_the_papers_is_shown_and_that_is_said_else_one_must_be_named(cells, tmp_path):
    notes = []
    rows = rows_of("scatter", cells, model="parrot", sampler="vanilla", say=notes.append)
    assert [row["embedder"] for row in rows] == ["hidden-mean"]
    assert notes == ["2 embedders (hidden-mean, letters): hidden-mean is shown; --embedder chooses another"]
    cell = cell_of(cells, model="crow")
    cell["labels"]["embedder"] = cell["inputs"]["pool"]["key"] = "letters"
    stored.write(tmp_path / "other", cell)
    rows_of("scatter", tmp_path / "other", cells, model=None, sampler="vanilla", say=notes.append)
    assert notes[-1] == "left out: colours · crow · vanilla · n = 16 · seed 1 has no cell of hidden-mean"
    for embedder in ("letters", "tfidf"):
        cell = cell_of(cells, model="crow")
        cell["labels"]["embedder"] = cell["inputs"]["embedding"]["key"] = embedder
        stored.write(tmp_path, cell)
    assert refused("scatter", tmp_path) == "cells of 2 embedders (letters, tfidf): say which --embedder"


def test_pools_of_several_seeds_and_sizes_are_told_apart_by_their_options(cells, tmp_path):
    for seed, n in ((0, 16), (1, 16), (0, 4)):
        for sampler in ("vanilla", "low-temp"):
            cell = cell_of(cells, model="parrot", sampler=sampler, selector="spread", embedder="hidden-mean")
            cell["labels"]["seed"] = cell["inputs"]["pool"]["seed"] = seed
            cell["inputs"]["pool"]["key"] = f"{sampler}-{seed}-{n}"
            if n == 4:
                cell["inputs"]["ranking"]["n"] = n
                trials = [n + 1] * cell["labels"]["trials"]
                cell["problems"] = [entry(each["id"], trials, c=0, n=n) for each in cell["problems"]]
            stored.write(tmp_path, cell)
    line = refused("samplers", tmp_path)
    where = "colours · parrot · low-temp: 3 cells, which differ in n (4, 16), seed (0, 1)"
    assert line == f"{where}: narrow them by --n --seed"
    for chosen, wanted in (({"seed": 1}, (16, 2)), ({"n": 4}, (4, 2)), ({"n": 16, "seed": 0}, (16, 2))):
        rows = rows_of("samplers", tmp_path, **chosen)
        assert ({row["n"] for row in rows}, len({row["series"] for row in rows})) == ({wanted[0]}, wanted[1])
    assert refused("samplers", tmp_path, n=5).startswith("no cell of n 5; there are 4, 16: name one of them")


def test_folders_without_cells_are_refused_and_a_cell_that_cannot_be_counted_is_named(toy, copied_cells, tmp_path):
    (copied_cells / "broken.json").write_text("{")
    notes = []
    assert rows_of("scatter", copied_cells, model="crow", say=notes.append)
    assert notes[0].startswith(f"not counted: cell {copied_cells}/broken.json: not JSON")
    where = "`harness run` keeps its cells in runs/cells"
    line = refused("passk", tmp_path / "no")
    assert line == f"results {tmp_path}/no: no such folder; {where}"
    toy("--selector", "twice", store=tmp_path / "failed")
    folder = tmp_path / "failed" / "cells"
    assert refused("passk", folder) == f"no cells in {folder} (1 that failed); {where}"


def test_a_label_that_no_cell_has_is_refused_with_those_there_are(cells):
    labels = {"selector": "head, likely, shuffle, spread", "embedder": "hidden-mean, letters, none"}
    labels |= {"task": "colours", "model": "crow, jay, parrot", "sampler": "low-temp, vanilla"}
    for option, names in labels.items():
        line = refused("passk", cells, **{option: "x"})
        assert line == f"no cell of {option} 'x'; there are {names}: name one of them, or run that one"
    assert refused("scatter", cells, selector=None).startswith("no cell of selector 'repexp'; there are")


def test_what_does_not_go_with_a_figure_is_refused(cells, tmp_path):
    line = refused("scatter", cells, selector="head")
    assert line.startswith("selector 'head' chooses sets, not an order: it has no samples-to-correct")
    assert refused("passk", k=3) == "-k goes with `harness plot likelihoods` only"
    line = refused("passk", reference=tmp_path)
    assert line == "--reference goes with `harness plot hardness` and `harness plot guided` only"
    assert refused("likelihoods", k=0) == "-k must be at least 1, got 0"


def test_cells_that_nothing_tells_apart_and_more_than_can_be_told_apart_are_refused(cells, tmp_path):
    cell = cell_of(cells, model="crow")
    pair = [stored.write(tmp_path / "two", cell)]
    cell["inputs"]["ranking"]["selector"]["file"] = "another"
    pair.append(stored.write(tmp_path / "two", cell))
    line = refused("scatter", tmp_path / "two")
    assert all(key in line for key in pair)
    assert "differ in nothing that a figure can name (a version, a setting): give a folder that holds one" in line
    for seed in range(13):
        cell["labels"]["seed"], cell["inputs"]["pool"]["key"] = seed, str(seed)
        stored.write(tmp_path / "many", cell)
    for name, what in (("scatter", "models"), ("questions", "panels"), ("hardness", "panels"), ("passk", "pools")):
        line = refused(name, tmp_path / "many")
        assert line.startswith(f"13 {what}, and 12 can be told apart: narrow them by --task"), name
