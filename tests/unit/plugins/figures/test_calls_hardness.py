"""`hardness`: ten bins, of the cell's own pool or of another model's."""

import math
import statistics

from support.figure_cells import cell_of, close, expected_calls, mean_calls, refused, rows_of

from harness.results import cells as stored
from harness_plugins.figures.calls import Hardness


def tenths(hardness_of):
    """Ids by bin: sorted by hardness and id, the first bins one larger where ten does not divide them."""
    ordered = sorted(hardness_of, key=lambda problem: (hardness_of[problem], problem))
    size, larger = divmod(len(ordered), 10)
    parts = []
    for place in range(10):
        take = size + (place < larger)
        parts.append(ordered[:take])
        ordered = ordered[take:]
    return parts


def test_hardness_bins_by_another_models_pool_whatever_its_selector_or_by_the_cells_own(cells, tmp_path):
    cell = cell_of(cells, model="crow")
    hard = cell_of(cells, model="parrot", sampler="vanilla", selector="head")
    reference = tmp_path / f"{stored.write(tmp_path, hard)}.json"
    rows = rows_of("hardness", cells, model="crow", reference=reference)
    assert rows_of("hardness", cells, model="crow", reference=tmp_path) == rows
    check_bins(rows, "parrot", cell, hard)
    check_bins(rows_of("hardness", cells, model="crow"), "own pool", cell, cell)


def check_bins(rows, judge, cell, hard):
    hardness_of = {entry["id"]: expected_calls(entry) for entry in hard["problems"]}
    by_id = {entry["id"]: entry for entry in cell["problems"]}
    assert [(row["bin"], row["judged_by"]) for row in rows] == [(place, judge) for place in range(1, 11)]
    for row, members in zip(rows, tenths(hardness_of), strict=True):
        assert row["questions"] == len(members)
        assert row["hardness_low"] == close(min(hardness_of[problem] for problem in members))
        assert row["hardness_high"] == close(max(hardness_of[problem] for problem in members))
        for name, calls in (("random", expected_calls), ("selected", mean_calls)):
            values = [calls(by_id[problem]) for problem in members]
            assert row[name] == close(statistics.fmean(values))
            assert row[f"{name}_error"] == close(statistics.stdev(values) / math.sqrt(len(values)))


def test_a_single_question_has_no_error_and_fewer_than_ten_no_bins(cells, tmp_path):
    cell = cell_of(cells, model="crow")
    cell["problems"] = cell["problems"][:10]
    stored.write(tmp_path / "ten", cell)
    rows = rows_of("hardness", tmp_path / "ten")
    assert {(row["questions"], row["random_error"], row["selected_error"]) for row in rows} == {(1, None, None)}
    assert len(Hardness().draw(rows).axes) == 1
    cell["problems"] = cell["problems"][:9]
    stored.write(tmp_path / "nine", cell)
    line = refused("hardness", tmp_path / "nine")
    assert line == "colours · crow has 9 problems, which make no 10 bins: run more (--limit)"


def test_a_reference_that_does_not_fit_is_refused(cells, tmp_path):
    def refused_with(reference):
        return refused("hardness", cells, model="crow", reference=reference)

    assert refused_with(tmp_path / "no").startswith(f"--reference: no file '{tmp_path}/no', and no cell ")
    assert "holds 4 pools of these problems (" in refused_with(cells)
    small, other = cell_of(cells, model="jay"), cell_of(cells, model="jay")
    small["problems"] = small["problems"][:20]
    stored.write(tmp_path / "small", small)
    line = "no cell there holds all 23 problems of colours · crow: run the reference's model on them"
    assert line in refused_with(tmp_path / "small")
    other["labels"]["task"] = "shades"
    assert line in refused_with(tmp_path / f"{stored.write(tmp_path, other)}.json")
