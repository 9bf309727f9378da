"""`scatter`, `questions` and `models` against means and chances computed from the cells' files by other means."""

import statistics

import pytest
from support.figure_cells import cell_of, close, exact_pass, expected_calls, mean_calls, refused, rows_of

from harness.results import cells as stored
from harness.results.rows import row as row_of_cell
from harness_plugins.figures import frame
from harness_plugins.figures.calls import Questions

VANILLA = {"sampler": "vanilla", "embedder": "hidden-mean"}


def test_scatter_shows_both_means_and_models_the_calls_saved_from_the_weakest_with_their_intervals(cells):
    rows, ranked = (rows_of(name, cells, **VANILLA) for name in ("scatter", "models"))
    assert [row["series"] for row in rows] == ["crow", "jay", "parrot"]
    assert [row["rank"] for row in ranked] == [0, 1, 2]
    weakest_first = []
    for row in ranked:
        point = next(point for point in rows if point["model"] == row["model"])
        cell = cell_of(cells, model=row["model"], selector="spread", **VANILLA)
        selected, random = (statistics.fmean(map(f, cell["problems"])) for f in (mean_calls, expected_calls))
        low, high = row_of_cell(cell).to_json()["improvement_ci"]
        assert point["cell"] == stored.key_of(cell)
        assert (point["random"], point["n"], point["problems"]) == (close(random), 16, 23)
        assert point["selected"] == close(selected)
        assert (point["selected_low"], point["selected_high"]) == (close(random / high), close(random / low))
        weakest_first.append((statistics.fmean(e["c"] / e["n"] for e in cell["problems"]), row["model"]))
        assert row["pass_at_1"] == close(weakest_first[-1][0])
        assert row["saved"] == close(100 * (random - selected) / random)
        assert (row["saved_low"], row["saved_high"]) == (close(100 - 100 / low), close(100 - 100 / high))
    assert weakest_first == sorted(weakest_first)


def test_a_task_that_one_model_alone_ran_is_left_out_and_alone_is_refused(copied_cells):
    line = refused("models", copied_cells, model="parrot", **VANILLA)
    assert line == "colours was run with one model (parrot): run others too, `harness run --model M`"
    other = cell_of(copied_cells, model="crow")
    other["labels"]["task"] = other["inputs"]["pool"]["key"] = "shades"
    stored.write(copied_cells, other)
    notes = []
    assert {row["task"] for row in rows_of("models", copied_cells, **VANILLA, say=notes.append)} == {"colours"}
    assert notes == ["left out: shades was run with one model (crow)"]
    line = refused("models", copied_cells, embedder="hidden-mean")
    assert line == "colours · parrot: 2 cells, which differ in sampler (low-temp, vanilla): narrow them by --sampler"


def test_questions_shows_every_problem_and_the_exact_chances(cells):
    rows = rows_of("questions", cells, model="parrot", sampler="vanilla", embedder="letters", selector="shuffle")
    cell = cell_of(cells, model="parrot", sampler="vanilla", selector="shuffle")  # no vectors: goes with any embedder
    assert [row["problem"] for row in rows] == [entry["id"] for entry in cell["problems"]]
    fewer = more = 0.0
    for row, entry in zip(rows, cell["problems"], strict=True):
        assert (row["N"], row["c"]) == (entry["n"], entry["c"])
        assert (row["random"], row["selected"]) == (close(expected_calls(entry)), close(mean_calls(entry)))
        for rank in entry["ranks"] if entry["c"] else ():
            fewer += 1 - exact_pass(entry, rank)
            more += exact_pass(entry, rank - 1)
    shares = [share / (5 * len(rows)) for share in (fewer, more)]
    assert [rows[0]["share_win"], rows[0]["share_loss"]] == [close(share) for share in shares]
    assert rows[0]["share_tie"] == close(1 - sum(shares))


def test_questions_marks_where_they_lie_and_counts_those_without_a_correct_response_at_their_mark():
    pytest.importorskip("matplotlib")
    common = {"series": "a", "selector": "s", "share_win": 0.5, "share_tie": 0.25, "share_loss": 0.25}
    places = [(2.0, 3.0, 4)] * 3 + [(1.0, 1.0, 9)] + [(17.0, 17.0, 0)] * 2
    rows = [{**common, "random": x, "selected": y, "c": c} for x, y, c in places]
    with frame.styled():
        (axes,) = Questions().draw(rows).axes
    (marks,) = axes.collections
    assert marks.get_offsets().tolist() == [[1.0, 1.0], [2.0, 3.0]]
    assert marks.get_sizes()[1] == 3 * marks.get_sizes()[0]
    assert [text.get_text() for text in axes.texts if text.get_text().isdigit()] == ["2"]
    assert "fewer / equal / more: 50 / 25 / 25 %" in axes.get_title(loc="left")
