"""`models`: the calls saved by each model, from the weakest to the strongest."""

from __future__ import annotations

import statistics

from support.figure_cells import cell_of, close, expected_calls, mean_calls, refused, rows_of

from harness.results import cells as stored


def test_models_are_ranked_by_pass_at_1_and_show_the_calls_saved(cells):
    rows = rows_of("models", cells, sampler="vanilla", embedder="hidden-mean")
    weakest_first = []
    for row in rows:
        cell = cell_of(cells, model=row["model"], selector="spread", sampler="vanilla", embedder="hidden-mean")
        selected, random = (statistics.fmean(map(f, cell["problems"])) for f in (mean_calls, expected_calls))
        weakest_first.append((statistics.fmean(e["c"] / e["n"] for e in cell["problems"]), row["model"]))
        assert row["pass_at_1"] == close(weakest_first[-1][0])
        assert row["saved"] == close(100 * (random - selected) / random)
        low, high = stored.row(cell).to_json()["improvement_ci"]
        assert (row["saved_low"], row["saved_high"]) == (close(100 - 100 / low), close(100 - 100 / high))
    assert len(rows) == 3
    assert weakest_first == sorted(weakest_first)
    assert [row["rank"] for row in rows] == [0, 1, 2]


def test_a_task_that_one_model_alone_ran_is_left_out_and_alone_is_refused(copied_cells):
    narrow = {"sampler": "vanilla", "embedder": "hidden-mean"}
    line = refused("models", copied_cells, model="parrot", **narrow)
    assert line == "one model a task (parrot): run a weaker or stronger one too, `harness run --model M`"
    other = cell_of(copied_cells, model="crow")
    other["labels"]["task"] = other["inputs"]["pool"]["key"] = "shades"
    stored.write(copied_cells, other)
    notes = []
    assert {row["task"] for row in rows_of("models", copied_cells, **narrow, say=notes.append)} == {"colours"}
    assert notes == ["left out: shades, which one model alone ran (crow)"]


def test_two_cells_of_one_model_are_narrowed_down_first(cells):
    line = refused("models", cells, embedder="hidden-mean")
    assert line == "colours · test · parrot: 2 cells, which differ in sampler: narrow them by --sampler"
