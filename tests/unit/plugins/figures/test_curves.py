"""`samplers`, `representations` and `passk`: each curve is recomputed from the cells' files."""

import statistics
from collections import defaultdict

import pytest
from support.figure_cells import (
    NARROW,
    cell_of,
    close,
    exact_pass,
    expected_calls,
    mean_calls,
    refused,
    rows_of,
    share_solved,
)

from harness.results import cells as stored
from harness.results.rows import row as row_of_cell
from harness_plugins.figures import curves, frame


def random_share(entries, k):
    return statistics.fmean(exact_pass(entry, k) for entry in entries)


def test_samplers_shows_random_and_the_selector_over_each_samplers_pool(cells):
    notes, points, widths = [], set(), []
    for row in rows_of("samplers", cells, embedder="hidden-mean", say=notes.append):
        labels = {"sampler": row["series"], "model": "parrot", "embedder": "hidden-mean", "selector": "spread"}
        entries, is_random = cell_of(cells, **labels)["problems"], row["by"] == "random"
        assert row["passed"] == close((random_share if is_random else share_solved)(entries, row["k"]))
        assert row["low"] <= row["passed"] <= row["high"]
        widths.append(row["high"] - row["low"])
        assert row["selector"] == ("" if is_random else "spread")
        points.add((row["series"], row["by"], row["k"]))
    both = [(sampler, by) for sampler in ("low-temp", "vanilla") for by in ("random", "selector")]
    assert points == {(*pair, k) for pair in both for k in range(1, 17)}
    assert "left out: colours · crow was run with one sampler (vanilla)" in notes
    assert statistics.median(widths) > 0.05


def first_reaching(height, passed):
    """The budget, on the line between two, at which a curve of budgets 1, 2, ... reaches a height; None if never."""
    before = 0.0
    for k, value in passed.items():
        if value >= height - 1e-5:
            return k if k == 1 else k - 1 + min(1, (height - before) / (value - before))
        before = value
    return None


def test_every_curve_says_how_many_times_fewer_calls_it_needs_for_randoms_pass_at_k(cells):
    for name, narrow in (("passk", NARROW["passk"]), ("samplers", {"embedder": "hidden-mean"})):
        curves_of = defaultdict(list)
        for row in rows_of(name, cells, **narrow):
            curves_of[row["series"], bool(row["selector"])].append(row)
        for (series, selected), rows in curves_of.items():
            assert selected == all("times_fewer" in row for row in rows)
            random = {
                row["k"]: row["passed"] for row in curves_of[series if name == "samplers" else curves.RANDOM, False]
            }
            if not selected or len(rows) < 16:
                continue
            passed, given = {row["k"]: row["passed"] for row in rows}, 0
            for row in rows:
                calls, theirs = (first_reaching(random[row["k"]], each) for each in (passed, random))
                assert row["times_fewer"] == (calls and pytest.approx(theirs / calls, rel=1e-3)), (series, row["k"])
                if row["times_fewer_high"] is not None:
                    given += 1
                    assert (row["times_fewer_low"] or 0) <= row["times_fewer"] <= row["times_fewer_high"]
            assert given, series


def test_samplers_draws_a_band_behind_each_line(cells):
    pytest.importorskip("matplotlib")
    with frame.styled():
        (axes,) = curves.Samplers().draw(rows_of("samplers", cells, embedder="hidden-mean")).axes
    assert (len(axes.get_lines()), len(axes.collections)) == (4, 4)


def test_representations_shows_curves_and_calls_of_every_embedder(cells):
    rows = rows_of("representations", cells, model="parrot", sampler="vanilla")
    for row in rows:
        if row["series"] == curves.RANDOM:
            continue
        cell = cell_of(cells, model="parrot", sampler="vanilla", selector="spread", embedder=row["series"])
        if row["measure"] == "pass@k":
            assert row["passed"] == close(share_solved(cell["problems"], row["k"]))
            assert row["low"] <= row["passed"] <= row["high"]
        else:
            random = statistics.fmean(map(expected_calls, cell["problems"]))
            assert row["calls"] == close(statistics.fmean(map(mean_calls, cell["problems"])))
            low, high = row_of_cell(cell).to_json()["improvement_ci"]
            assert (row["calls_low"], row["calls_high"]) == (close(random / high), close(random / low))
    calls = {row["series"]: row["calls"] for row in rows if row["measure"] == "samples-to-correct"}
    assert list(calls) == [curves.RANDOM, "hidden-mean", "letters"]
    assert calls[curves.RANDOM] == close(random)


def test_the_panels_of_representations_share_their_x_axes(cells):
    pytest.importorskip("matplotlib")
    rows = rows_of("representations", cells, model="parrot", sampler="vanilla")
    easier = [row | {"panel": "easier", "n": 8} for row in rows if (row.get("k") or 0) <= 8]
    for row in easier:
        if row["measure"] != "pass@k":
            row |= {name: row[name] and row[name] / 3 for name in ("calls", "calls_low", "calls_high") if name in row}
    with frame.styled():
        upper, calls, lower, fewer = curves.Representations().draw(rows + easier).axes
    assert upper.get_xlim() == lower.get_xlim()
    assert calls.get_xlim() == fewer.get_xlim()
    (low, high), every = calls.get_xlim(), [row["calls"] for row in rows + easier if row["measure"] != "pass@k"]
    assert low < min(every) < max(every) < high


def test_pools_whose_embedders_differ_have_panels_of_their_own_named_by_what_else_differs(cells, tmp_path):
    pytest.importorskip("matplotlib")
    first = {"model": "parrot", "sampler": "vanilla", "selector": "spread"}

    def two_pools(folder, seed):
        for place, embedder in enumerate(("hidden-mean", "letters", "hidden-mean", "letters")):
            cell = cell_of(cells, **first, embedder=embedder)
            if place > 1:
                cell["labels"]["seed"], cell["inputs"]["pool"]["key"] = seed, "another"
                cell["labels"]["embedder"] = cell["inputs"]["embedding"]["key"] = f"words-{place}"
            stored.write(folder, cell)
        return folder

    rows = rows_of("representations", two_pools(tmp_path / "seeds", 7))
    panels = list(dict.fromkeys(row["panel"] for row in rows))
    assert panels == [f"colours · parrot · vanilla · seed {seed}" for seed in (0, 7)]
    with frame.styled():
        assert len(curves.Representations().draw(rows).axes) == 4
    assert len({row["panel"] for row in rows_of("passk", tmp_path / "seeds")}) == 2
    line = refused("representations", two_pools(tmp_path / "alike", 0))
    assert "differ in nothing that a figure can name" in line


def test_one_sampler_or_embedder_and_other_problems_are_not_compared(cells, tmp_path):
    common = {"model": "parrot", "sampler": "vanilla", "embedder": "hidden-mean"}
    assert "colours · parrot was run with one sampler (vanilla): run others too, " in refused(
        "samplers", cells, **common
    )
    line = refused("representations", cells, **common)
    assert line.startswith("colours · parrot was run with one embedder (hidden-mean): run")
    line = refused("representations", cells, selector="shuffle")
    assert line == "selector 'shuffle' reads no vectors: name one that does (--selector)"
    for sampler, problems in (("vanilla", 23), ("low-temp", 12)):
        cell = cell_of(cells, model="parrot", sampler=sampler, embedder="hidden-mean")
        cell["problems"] = cell["problems"][:problems]
        stored.write(tmp_path / "both", cell)
    assert refused("samplers", tmp_path / "both").endswith(
        "are not of the same problems: run both with the same --limit"
    )


def test_passk_shows_random_the_oracle_and_all_selectors_of_a_pool(cells):
    series = defaultdict(dict)
    for row in rows_of("passk", cells, model="parrot", sampler="vanilla"):
        series[row["series"]][row["k"]] = row["passed"]
    names = ["spread · hidden-mean", "spread · letters", "head", "likely", "shuffle"]
    answers = ["avg@k", "maj@k", "best of k by mean-logprob"]
    assert set(series) == {curves.RANDOM, curves.ORACLE, *answers, *names}
    assert list(series)[:5] == [curves.RANDOM, curves.ORACLE, *answers]
    assert list(series)[-1] == "head"  # a subset method has no samples-to-correct to be sorted by
    entries = cell_of(cells, model="parrot", sampler="vanilla", selector="head")["problems"]
    solvable = sum(entry["c"] > 0 for entry in entries) / len(entries)
    assert all(passed == close(solvable) for passed in series[curves.ORACLE].values())
    for k, passed in series[curves.RANDOM].items():
        assert passed == close(random_share(entries, k))
    assert series["avg@k"][16] == close(statistics.fmean(entry["c"] / entry["n"] for entry in entries))
    assert series["maj@k"] == {
        k: close(statistics.fmean(e["maj_at_k"][str(k)] for e in entries)) for k in (1, 2, 4, 8, 16)
    }
    assert list(series["head"]) == [1, 2, 4, 8, 16]
    for k, passed in series["head"].items():
        assert passed == close(statistics.fmean(hit for entry in entries for hit in entry["hits"][str(k)]))
    ranked = cell_of(cells, model="parrot", sampler="vanilla", selector="spread", embedder="letters")["problems"]
    assert series["spread · letters"] == {k: close(share_solved(ranked, k)) for k in range(1, 17)}


@pytest.fixture(scope="module")
def crowd(cells, tmp_path_factory):
    """15 selectors of one pool: `one00` solves each problem first, every next one later."""
    cell, folder = cell_of(cells, model="crow"), tmp_path_factory.mktemp("crowd")
    for place in range(15):
        cell["labels"]["selector"] = f"one{place:02}"
        cell["inputs"]["ranking"]["key"] = f"{place}"
        for entry in cell["problems"]:
            last = entry["n"] - entry["c"] + 1
            entry["ranks"] = [min(1 + place, last) if entry["c"] else last] * len(entry["ranks"])
            entry["orders"] = [list(range(rank)) for rank in entry["ranks"]] if entry["c"] else []
        stored.write(folder, cell)
    return folder


def test_of_more_than_twelve_selectors_each_panel_draws_its_best_and_the_others_are_named_and_in_the_table(
    crowd, cells
):
    pytest.importorskip("matplotlib")
    notes = []
    rows = rows_of("passk", crowd, say=notes.append)
    assert {row["series"] for row in rows if row["selector"]} == {f"one{i:02}" for i in range(15)}
    assert notes == [
        "colours · crow · vanilla: of 15 selectors 12 are drawn, by their mean pass@k (repexp always); "
        "in the table only: one12, one13, one14"
    ]
    with frame.styled():
        figure = curves.PassK().draw(rows + rows_of("passk", cells, model="parrot", sampler="vanilla"))
    crow, parrot = figure.axes
    assert (len(crow.get_lines()), len(parrot.get_lines())) == (2 + 3 + 12, 2 + 3 + 5)
    named = [text.get_text() for text in figure.legends[0].get_texts()]
    assert {f"one{i:02}" for i in range(12)} == {name for name in named if name.startswith("one")}
    assert named[-1] == "up to 3 more in the CSV"


def test_the_papers_selector_is_drawn_however_it_fares_and_a_single_one_alone(crowd):
    rows = rows_of("passk", crowd)
    for row in rows:
        if row["series"] == "one13":
            row["series"], row["selector"] = "repexp:lam=2 · tfidf", "repexp:lam=2"
    kept, _ = curves.best_selectors(rows)
    assert len(kept) == 12
    assert "repexp:lam=2 · tfidf" in kept
    assert "one11" not in kept
    assert curves.best_selectors(rows_of("passk", crowd, selector="one13")) == (["one13"], [])
