"""`scatter` and `questions` against means and chances that are computed from the cells' files by other means."""

from __future__ import annotations

import statistics

import pytest
from support.figure_cells import cell_of, close, exact_pass, expected_calls, mean_calls, rows_of

from harness.results import cells as stored
from harness_plugins.figures import scatter, style


def test_scatter_shows_both_means_and_the_interval_of_their_ratio(cells):
    rows = rows_of("scatter", cells, sampler="vanilla", embedder="hidden-mean")
    assert [row["series"] for row in rows] == ["crow", "jay", "parrot"]
    for row in rows:
        cell = cell_of(cells, model=row["model"], selector="spread", sampler="vanilla", embedder="hidden-mean")
        random = statistics.fmean(map(expected_calls, cell["problems"]))
        low, high = stored.row(cell).to_json()["improvement_ci"]
        assert row["cell"] == stored.key_of(cell)
        assert (row["random"], row["n"], row["problems"]) == (close(random), 16, 23)
        assert row["selected"] == close(statistics.fmean(map(mean_calls, cell["problems"])))
        assert (row["selected_low"], row["selected_high"]) == (close(random / high), close(random / low))


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
    trials = 5 * len(rows)
    assert rows[0]["share_win"] == close(fewer / trials)
    assert rows[0]["share_loss"] == close(more / trials)
    assert rows[0]["share_tie"] == close(1 - (fewer + more) / trials)


def test_questions_marks_where_they_lie_and_counts_those_without_a_correct_response_at_their_mark():
    pytest.importorskip("matplotlib")
    common = {"series": "a", "selector": "s", "share_win": 0.5, "share_tie": 0.25, "share_loss": 0.25}
    places = [(2.0, 3.0, 4)] * 3 + [(1.0, 1.0, 9)] + [(17.0, 17.0, 0)] * 2
    rows = [{**common, "random": x, "selected": y, "c": c} for x, y, c in places]
    with style.styled():
        (axes,) = scatter.draw_questions(rows).axes
    (marks,) = axes.collections
    assert marks.get_offsets().tolist() == [[1.0, 1.0], [2.0, 3.0]]
    assert marks.get_sizes()[1] == 3 * marks.get_sizes()[0]
    assert [text.get_text() for text in axes.texts if text.get_text().isdigit()] == ["2"]
    assert "fewer / equal / more: 50 / 25 / 25 %" in axes.get_title(loc="left")
