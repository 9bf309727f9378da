"""`--correct M` and `--enrichment` through every door, on pools of unequal sizes: tables, figures, the report."""

import numpy as np
import pytest
from support.json_lines import write_json_lines
from support.refusals import error_line
from support.stores import files_of

import harness as door
from harness.results import cells, leaderboard
from harness_plugins.figures import frame
from harness_plugins.figures.request import Request

OPTIONS = {"selectors": ["uniform", "k-dpp", "repexp"], "trials": 2, "quiet": True, "yes": True}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A pool of six problems of 30 to 80 responses, with vectors; ranked to the first and to the third correct one."""
    folder, rng, lines, vectors = tmp_path_factory.mktemp("screens"), np.random.default_rng(0), [], {}
    for place, n in enumerate((30, 40, 50, 60, 70, 80)):
        correct = rng.permutation([True] * place * 2 + [False] * (n - place * 2)).tolist()
        lines.append({"problem_id": f"p{place}", "responses": [f"m{i}" for i in range(n)], "correct": correct})
        vectors[f"p{place}"] = rng.normal(size=(n, 4)).astype(np.float32)
    np.savez(folder / "vectors.npz", **vectors)
    write_json_lines(folder / "pool.jsonl", lines)
    OPTIONS.update(pool=folder / "pool.jsonl", embeddings=folder / "vectors.npz", store=folder / "runs")
    for options in ({}, {"correct": 3, "enrichment": True}):
        door.run(**OPTIONS, **options)
    return folder


def test_orders_to_the_first_correct_one_are_filed_as_before_and_later_ones_apart(folder):
    files = files_of(folder / "runs", "orders")
    assert len({path.parent.name for path in files if "repexp" in path.parent.name}) == 2
    results = [row for row in door.run(**OPTIONS, correct=3, enrichment=True) if row.selector in OPTIONS["selectors"]]
    assert files_of(folder / "runs", "orders") == files  # all of it is reused
    assert [(row.correct, row.n, row.solvable, list(row.pass_at_k_random)[-1]) for row in results] == [
        (3, 80, 4, "30")
    ] * 3
    assert {row.budget for row in results} == {16}  # the largest of which all pools have a subset
    assert [row.p is None for row in results] == [False] * 3
    assert [list(row.hits_at_k or {}) for row in results] == [["1", "2"], [], ["1", "2"]]  # 5 % of 30


def test_tables_of_another_correct_response_stand_apart_and_say_so(folder, harness, tmp_path):
    content = leaderboard.gather([folder / "runs" / "cells"])
    first, third = sorted(leaderboard.boards(content), key=lambda board: board.rows[0].correct)
    assert ("correct" in first.about, third.about["correct"]) == (False, 3)
    assert (len(first.rows), len(third.rows)) == (3, 3)
    text = leaderboard.markdown([third], [])
    assert "n = 30 to 80 (budgets up to 30), 6 problems (4 solvable), samples to the 3rd correct; " in text
    assert "pass@k is 3 or more of the first k" in text
    assert "| samples-to-3rd correct |" in text
    shown = door.read_results(folder / "runs" / "cells").table()
    assert "mean rank of the first or 3rd correct response (n + 1 if none)" in shown
    joined = {(line.selector, line.pools) for line in leaderboard.across([first, third])}
    assert {("repexp", 1), ("repexp, to the 3rd", 1)} <= joined
    one, other = (next(row.cell for row in board.rows if row.selector == "repexp") for board in (first, third))
    line = error_line(harness("compare", one, other, "--in", folder / "runs" / "cells"))
    assert line.endswith("the cells count to the 1st and to the 3rd correct response: run both with one --correct")
    again = harness("rerun", other, "--in", folder / "runs" / "cells", "--store", tmp_path / "anew")
    assert f"rerun: the same cell, {other}, with the same outcomes" in again.err
    assert cells.correct(cells.read(tmp_path / "anew" / "cells" / f"{other}.json")) == 3


def test_figures_and_the_report_take_pools_of_unequal_sizes_and_later_hits(folder, harness):
    both = folder / "runs" / "cells"
    panels = {(row["panel"], row["k"]) for row in frame.table(Request("passk", [both])) if row["series"] == "repexp"}
    assert max(panels) == ("pool · pool · pool · to the 3rd correct", 30)
    for name in ("scatter", "questions", "passk"):
        assert harness("plot", name, both, "--out", folder / "plots").code == 0
    outcome = harness("report", "--store", folder / "runs")
    assert (outcome.code, "to the 1st correct response (harness report --cell " in outcome.err) == (0, True)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--correct", 0), "--correct must be at least 1, got 0"),
        (("--correct", 501), "--correct must be at most 500, got 501"),
        (("--correct", 2, "--until-correct"), "run: --until-correct takes no --correct"),
        (("--enrichment", "--until-correct"), "run: --until-correct takes no --enrichment"),
    ],
)
def test_what_cannot_be_counted_is_one_line(harness, options, reason):
    assert reason in error_line(harness("run", "--task", "game24", *options))
