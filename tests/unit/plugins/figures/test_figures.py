"""The figures of a store's cells: each table is recomputed from the cells' files; the drawings, and the command."""

import json
import math
import re
from collections import defaultdict
from pathlib import Path
from statistics import fmean, median, stdev

import pytest
from support.cells import N, subset_entry
from support.cells import cell as new_cell
from support.cells import entry as new_entry
from support.paths import TOY
from support.refusals import error_line, refusal_of
from support.stores import files_of

from harness.columns.store import filed, read, stem_of
from harness.jobs import grid
from harness.jobs import run as pipeline
from harness.jobs.options import RunConfig
from harness.plugin_system.registry import load_registry
from harness.results import cells as stored
from harness.results.inert_text import csv_table
from harness.results.rows import row as row_of_cell
from harness.system.files import write_parts
from harness.system.progress import Progress
from harness_plugins.figures import curves, frame
from harness_plugins.figures.request import Request

pytest.importorskip("matplotlib")
NAMES = ["scatter", "questions", "models", "strength", "hardness", "gains"]
NAMES += ["samplers", "representations", "passk", "likelihoods"]
VANILLA = {"sampler": "vanilla", "embedder": "hidden-mean"}
PARROT = {"model": "parrot", "sampler": "vanilla"}


@pytest.fixture(scope="module")
def figure_store(tmp_path_factory):
    """The store: two samplers, two embedders, three models, four selectors, 23 problems. Not to be changed."""
    root = tmp_path_factory.mktemp("figures")
    fixed = {"task": "colours", "engine": "toy", "data": Path("23"), "plugin_files": (TOY,), "store": root}
    fixed["executor"] = "local:workers=1"
    kinds = "selector=spread+shuffle+head+likely,embedder=hidden-mean+letters"
    grid.run(RunConfig(selectors=(), grid=kinds, **fixed), Progress())
    for other in ({"sampler": "low-temp"}, {"model": "crow", "seed": 1}, {"model": "jay", "seed": 2}):
        pipeline.run(RunConfig(selectors=("spread",), **fixed, **other), Progress())
    return root


@pytest.fixture(scope="module")
def cells(figure_store):
    """The folder of its cells. Not to be changed."""
    return figure_store / "cells"


def rows_of(name, *folders, **options):
    """The figure's table: of the toy's selector `spread`, unless the options name another."""
    options = {"selector": None if name == "passk" else "spread", "plugin_files": (TOY,), **options}
    return frame.table(Request(name, folders, **options))


def refused(name, *folders, **options):
    """The line with which a figure's table is refused, without the figure's name."""
    return refusal_of(rows_of, name, *folders, **options).removeprefix(f"plot {name}: ")


def cell_of(folder, **labels):
    """The only cell in a folder with these labels, as it stands in its file."""
    contents = [json.loads(path.read_text()) for path in sorted(folder.rglob("*.json"))]
    (cell,) = [cell for cell in contents if not cell.get("control") and labels.items() <= cell["labels"].items()]
    return cell


def close(value):
    """Equal but for the rounding of a table."""
    return pytest.approx(value, rel=1e-5)


def expected_calls(entry):
    """Random selection's samples-to-correct on a problem."""
    return (entry["n"] + 1) / (entry["c"] + 1)


def mean_calls(entry):
    """The selector's samples-to-correct on a problem."""
    return fmean(entry["ranks"])


def pass_at_1(entry):
    return entry["c"] / entry["n"]


def mean(values_of, entries):
    return fmean(map(values_of, entries))


def random_share(entries, k):
    """Random selection's pass@k."""
    return fmean(1 - math.comb(entry["n"] - entry["c"], k) / math.comb(entry["n"], k) for entry in entries)


def share_solved(entries, k):
    """The selector's pass@k: the share of (problem, trial) whose first correct response is among the first k."""
    return fmean(bool(entry["c"]) and rank <= k for entry in entries for rank in entry["ranks"])


def test_scatter_shows_both_means_and_models_the_calls_saved_from_the_weakest_with_their_intervals(cells):
    rows, ranked = (rows_of(name, cells, **VANILLA) for name in ("scatter", "models"))
    assert [row["series"] for row in rows] == ["crow", "jay", "parrot"]
    assert [row["rank"] for row in ranked] == [0, 1, 2]
    assert [row["pass_at_1"] for row in ranked] == sorted(row["pass_at_1"] for row in ranked)
    for row in ranked:
        point = next(point for point in rows if point["model"] == row["model"])
        cell = cell_of(cells, model=row["model"], selector="spread", **VANILLA)
        selected, random = (mean(f, cell["problems"]) for f in (mean_calls, expected_calls))
        low, high = row_of_cell(cell).to_json()["improvement_ci"]
        assert (point["cell"], point["n"], point["problems"]) == (stored.key_of(cell), 16, 23)
        assert (point["random"], point["selected"]) == (close(random), close(selected))
        assert (point["selected_low"], point["selected_high"]) == (close(random / high), close(random / low))
        assert row["pass_at_1"] == close(mean(pass_at_1, cell["problems"]))
        assert row["saved"] == close(100 * (random - selected) / random)
        assert (row["saved_low"], row["saved_high"]) == (close(100 - 100 / low), close(100 - 100 / high))


def test_questions_shows_every_problem_and_the_chances(cells):
    rows = rows_of("questions", cells, **PARROT, embedder="letters", selector="shuffle")
    cell = cell_of(cells, **PARROT, selector="shuffle")  # no vectors: goes with any embedder
    shares = row_of_cell(cell)
    for row, entry in zip(rows, cell["problems"], strict=True):
        assert (row["problem"], row["N"], row["c"]) == (entry["id"], entry["n"], entry["c"])
        assert (row["random"], row["selected"]) == (close(expected_calls(entry)), close(mean_calls(entry)))
        for name in ("win", "tie", "loss"):
            assert row[f"share_{name}"] == close(getattr(shares, name))


def check_bins(rows, judge, cell, hard):
    """Problems sorted by hardness and id, in ten bins, the first three larger by one."""
    by_id = {entry["id"]: entry for entry in cell["problems"]}
    ordered = sorted((expected_calls(entry), entry["id"]) for entry in hard["problems"])
    assert len(rows) == 10
    for place, row in enumerate(rows):
        part = ordered[2 * place + min(place, 3) : 2 * place + 2 + min(place + 1, 3)]
        assert (row["bin"], row["judged_by"], row["questions"]) == (place + 1, judge, len(part))
        assert (row["hardness_low"], row["hardness_high"]) == (close(part[0][0]), close(part[-1][0]))
        for name, calls in (("random", expected_calls), ("selected", mean_calls)):
            values = [calls(by_id[problem]) for _, problem in part]
            error = stdev(values) / math.sqrt(len(values))
            assert (row[name], row[f"{name}_error"]) == (close(fmean(values)), close(error))


def test_hardness_bins_by_another_models_pool_whatever_its_selector_or_by_the_cells_own(cells, tmp_path):
    cell, hard = cell_of(cells, model="crow"), cell_of(cells, **PARROT, selector="head")
    reference = tmp_path / f"{stored.write(tmp_path, hard)}.json"
    rows = rows_of("hardness", cells, model="crow", reference=reference)
    assert rows_of("hardness", cells, model="crow", reference=tmp_path) == rows
    check_bins(rows, "parrot", cell, hard)
    check_bins(rows_of("hardness", cells, model="crow"), "own pool", cell, cell)
    cell["problems"] = cell["problems"][:9]
    stored.write(tmp_path / "nine", cell)
    line = refused("hardness", tmp_path / "nine")
    assert line == "colours · crow has 9 problems, which make no 10 bins: run more (--limit)"
    for folder, change, words in (
        ("no", None, f"--reference: no file '{tmp_path}/no', and no cell "),
        (cells, None, "holds 4 pools of these problems ("),
        ("small", {"problems": hard["problems"][:20]}, "no cell there holds all 23 problems of colours · crow: run"),
        ("other", {"labels": hard["labels"] | {"task": "shades"}}, "no cell there holds all 23 problems of colours"),
    ):
        if change:
            stored.write(tmp_path / folder, hard | change)
        assert words in refused("hardness", cells, model="crow", reference=tmp_path / folder)


def test_samplers_shows_random_and_the_selector_over_each_samplers_pool_and_how_many_times_fewer_calls(cells):
    notes, series, widths = [], defaultdict(list), []
    for row in rows_of("samplers", cells, embedder="hidden-mean", say=notes.append):
        labels = {"sampler": row["series"], "model": "parrot", "embedder": "hidden-mean", "selector": "spread"}
        entries, is_random = cell_of(cells, **labels)["problems"], row["by"] == "random"
        assert row["passed"] == close((random_share if is_random else share_solved)(entries, row["k"]))
        assert row["low"] <= row["passed"] <= row["high"]
        widths.append(row["high"] - row["low"])
        series[row["series"], row["by"]].append(row["k"])
        assert (row["selector"], "times_fewer" in row) == (("", False) if is_random else ("spread", True))
        if row.get("times_fewer_high"):
            assert (row["times_fewer_low"] or 0) <= row["times_fewer"] <= row["times_fewer_high"]
    both = [(sampler, by) for sampler in ("low-temp", "vanilla") for by in ("random", "selector")]
    assert series == {each: list(range(1, 17)) for each in both}
    assert "left out: colours · crow was run with one sampler (vanilla)" in notes
    assert median(widths) > 0.05


def test_passk_shows_random_the_oracle_and_all_selectors_of_a_pool(cells):
    series = defaultdict(dict)
    for row in rows_of("passk", cells, **PARROT):
        series[row["series"]][row["k"]] = row["passed"]
    answers = ["avg@k", "maj@k", "best of k by mean-logprob"]
    assert list(series)[:5] == [curves.RANDOM, curves.ORACLE, *answers]
    assert sorted(list(series)[5:-1]) == ["likely", "shuffle", "spread · hidden-mean", "spread · letters"]
    assert list(series)[-1] == "head"  # a subset method has no samples-to-correct to be sorted by
    entries, sets = cell_of(cells, **PARROT, selector="head")["problems"], (1, 2, 4, 8, 16)
    ranked = cell_of(cells, **PARROT, selector="spread", embedder="letters")["problems"]
    for name, ks, passed in (
        (curves.ORACLE, range(1, 17), lambda _: fmean(entry["c"] > 0 for entry in entries)),
        (curves.RANDOM, range(1, 17), lambda k: random_share(entries, k)),
        ("maj@k", sets, lambda k: fmean(e["maj_at_k"][str(k)] for e in entries)),
        ("head", sets, lambda k: fmean(hit for entry in entries for hit in entry["hits"][str(k)])),
        ("spread · letters", range(1, 17), lambda k: share_solved(ranked, k)),
    ):
        assert series[name] == {k: close(passed(k)) for k in ks}, name
    assert series["avg@k"][16] == close(mean(pass_at_1, entries))


def test_of_more_than_twelve_selectors_the_best_are_drawn_and_the_papers_always(cells, tmp_path):
    cell, notes = cell_of(cells, model="crow"), []
    for place in range(15):  # `one00` solves each problem first, every next one later
        cell["labels"]["selector"], cell["inputs"]["ranking"]["key"] = f"one{place:02}", f"{place}"
        for entry in cell["problems"]:
            last = entry["n"] - entry["c"] + 1
            entry["ranks"] = [min(1 + place, last) if entry["c"] else last] * len(entry["ranks"])
            entry["orders"] = [list(range(rank)) for rank in entry["ranks"]] if entry["c"] else []
        stored.write(tmp_path, cell)
    rows = rows_of("passk", tmp_path, say=notes.append)
    assert {row["series"] for row in rows if row["selector"]} == {f"one{i:02}" for i in range(15)}
    assert notes[0].startswith("colours · crow · vanilla: of 15 selectors 12 are drawn, by their mean pass@k (repexp")
    with frame.styled():
        named = [text.get_text() for text in curves.PassK().draw(rows).legends[0].get_texts()]
    assert [name for name in named if "one" in name] == [f"one{i:02}" for i in range(12)]
    assert named[-1] == "3 more in the CSV"
    for row in rows:
        if row["series"] == "one13":
            row["series"], row["selector"] = "repexp:lam=2 · tfidf", "repexp:lam=2"
    kept, _ = curves.best_selectors(rows)
    assert (len(kept), "repexp:lam=2 · tfidf" in kept, "one11" in kept) == (12, True, False)


@pytest.fixture(scope="module")
def pools(cells, tmp_path_factory):
    """Two pools, ranked by RepExp and by a to f, each better than the one before; `alone` is on the second only."""
    folder = tmp_path_factory.mktemp("pools")
    for model in ("jay", "crow"):
        cell = cell_of(cells, model=model)
        for name, late in {"repexp": 30, **dict(zip("abcdef", range(7, 1, -1), strict=True)), "alone": 0}.items():
            cell["labels"]["selector"] = cell["inputs"]["ranking"]["selector"]["name"] = name
            cell["labels"]["trials"] = cell["inputs"]["ranking"]["trials"] = 2
            for place, entry in enumerate(cell["problems"]):
                ranks = [place % 5 + late + 1, late + 3] if place else [101, 101]
                entry.pop("maj_at_k", None)
                c = place * 7 % 61
                entry |= {"n": 100, "c": c, "ranks": ranks, "routes": {"-": c} if c else {}, "best_of_k": {}}
                entry["orders"] = [[*range(rank)] for rank in ranks] if place else []
            if name != "alone" or model == "crow":
                stored.write(folder, cell)
    return folder


def test_gains_shows_the_best_five_and_repexp_by_class_and_strength_a_point_a_pool_of_the_best(pools):
    notes, rows = [], rows_of("gains", pools, selector=None)
    points = rows_of("strength", pools, selector=None, say=notes.append)
    assert list(dict.fromkeys(row["series"].partition(" ")[0] for row in rows)) == ["f", "e", "d", "c", "b", "repexp"]
    assert notes[0].startswith("3 of 8 selectors and embedders are shown (repexp · ")
    for row in (*rows, *points):
        entries = cell_of(pools, model=row["model"], selector=row["selector"])["problems"]
        inside = [each for each in entries if row.get("above", -1) < pass_at_1(each) <= row.get("up_to", 1)]
        random, selected = (mean(calls, inside) for calls in (expected_calls, mean_calls))
        assert row["improvement"] == close(random / selected)
        assert row["improvement_low"] is None or row["improvement_low"] < row["improvement"] < row["improvement_high"]
        if row in rows:
            assert (row["questions"], row["random"], row["selected"]) == (len(inside), close(random), close(selected))
        else:
            assert row["pass_at_1"] == close(mean(pass_at_1, entries))
    classes = [(0, 0.02), (0.02, 0.05), (0.05, 0.2), (0.2, 0.5), (0.5, 1)]
    full = {(low, up) for low, up in classes if sum(low < pass_at_1(each) <= up for each in entries) >= 5}
    assert {(row["above"], row["up_to"]) for row in rows} == full
    shown = [(row["panel"].partition(" ")[0], row["model"]) for row in points]
    assert sorted(shown) == sorted((name, model) for name in ("repexp", "f", "e") for model in ("jay", "crow"))


def test_of_several_pools_a_selector_may_be_named_and_what_cannot_be_compared_is_refused(pools, tmp_path):
    assert {row["selector"] for row in rows_of("gains", pools, selector="a")} == {"a"}
    assert {row["model"] for row in rows_of("strength", pools, selector="alone")} == {"crow"}
    for model, selector in (("jay", "a"), ("crow", "b")):
        stored.write(tmp_path / "apart", cell_of(pools, model=model, selector=selector))
    stored.write(tmp_path / "sets", new_cell([subset_entry("p0", [1, 1])], "subset"))
    unsolved = new_cell([new_entry(name, [N + 1] * 2, c=0) for name in ("p0", "p1")], "a", model="dove")
    stored.write(tmp_path / "wrong", unsolved)
    for name, folder, line in (
        ("gains", "apart", "no ranker has cells of all 2 pools: give folders whose cells share one"),
        ("strength", "sets", "cells of selectors that choose sets, not orders: they have no samples-to-correct"),
        ("strength", "wrong", "no pool has a correct response: there is no improvement to draw"),
    ):
        assert refused(name, tmp_path / folder, selector=None) == line
    notes = []
    rows_of("strength", pools, tmp_path / "wrong", selector="a", say=notes.append)
    assert notes[0].startswith("left out: colours · dove · vanilla · n = 8")


def test_all_responses_first_picks_beyond_the_first_correct_and_correct_ones_are_counted(figure_store, cells):
    labels, correct, groups = {**PARROT, "selector": "likely"}, [], defaultdict(list)
    pool = cell_of(cells, **labels)["inputs"]["pool"]["key"]
    for path in files_of(figure_store, "verdicts"):
        if pool in str(path):
            correct += [i for i, status in enumerate(read(path)["status"].to_pylist()) if status == "correct"]
    for row in rows_of("likelihoods", cells, k=3, store=figure_store, **labels):
        groups[row["group"]].append(row)
    wanted = {"all responses": [*range(16)] * 23, "first 3 picks": [0, 1, 2] * 5 * 23, "correct responses": correct}
    assert list(groups) == list(wanted)
    for rows, indices in zip(groups.values(), wanted.values(), strict=True):
        values = [-index / 16 / 3 for index in indices]
        assert sum(row["count"] for row in rows) == len(values) == rows[0]["responses"] > 0
        assert rows[0]["mean"] == close(fmean(values))
        for row in rows[1:-1]:
            assert row["share"] == close(row["count"] / len(values))
            least, most = (sum(row["from"] + e < x < row["to"] - e for x in values) for e in (1e-6, -1e-6))
            assert least <= row["count"] <= most


def test_what_the_store_lacks_or_holds_otherwise_and_another_version_of_the_selector_is_said(toy, harness, tmp_path):
    root, edited = tmp_path / "runs", tmp_path / "toy.py"
    toy("--selector", "spread", "--selector", "head", "--limit", "2")
    folder, options = root / "cells", {"store": root}
    assert refused("likelihoods", folder, k=17, **options).startswith("-k 17: the smallest pool of cell")
    for path in files_of(root, "vectors"):
        turned, content = filed(path.parent, stem_of(path), read(path)[::-1].copy())
        path.unlink()
        write_parts(turned, content)
    notes = []
    rows_of("likelihoods", folder, say=notes.append, **options)
    what = r"cell \w+: on \d problems this machine's picks differ from the cell's; its own are drawn"
    assert re.fullmatch(what, notes[0])
    files_of(root, "responses")[0].unlink()
    assert "holds 1 of the 2 problems of cell" in refused("likelihoods", folder, **options)
    edited.write_text(TOY.read_text().replace('logprobs, kind="stable")', 'logprobs, kind="stable")[:15]'))
    options = {"store": tmp_path / "edited", "selector": "likely", "k": 16}
    run = ("run", "--task", "colours", "--engine", "toy", "--selector", "likely", "--limit", "1", "--plugin", edited)
    assert harness(*run, "--store", options["store"]).code == 0
    line = refused("likelihoods", options["store"] / "cells", plugin_files=(edited,), **options)
    assert line.startswith("selector 'likely', problem 'test/0': ")
    assert "the ranking ended after 15 of 16 responses" in line
    line = refused("likelihoods", options["store"] / "cells", **options)
    assert line.startswith("selector 'likely' is not the version that made cell ")


def test_what_no_figure_can_show_is_refused_in_one_line_and_a_cell_that_cannot_be_counted_is_named(cells, tmp_path):
    more, notes = tmp_path / "more", []
    other, crow = cell_of(cells, model="crow"), cell_of(cells, model="crow")
    other["labels"]["task"] = other["inputs"]["pool"]["key"] = "shades"
    stored.write(more, other)
    (more / "broken.json").write_text("{")
    assert {row["task"] for row in rows_of("models", cells, more, **VANILLA, say=notes.append)} == {"colours"}
    assert notes[0].startswith(f"not counted: cell {more}/broken.json: not JSON")
    assert notes[1] == "left out: shades was run with one model (crow)"
    assert [row["embedder"] for row in rows_of("scatter", cells, **PARROT, say=notes.append)] == ["hidden-mean"]
    assert notes[2:] == ["2 embedders (hidden-mean, letters): hidden-mean is shown; --embedder chooses another"]
    for embedder in ("letters", "tfidf"):
        crow["labels"]["embedder"] = crow["inputs"]["embedding"]["key"] = embedder
        stored.write(tmp_path / "unnamed", crow)
    for place in range(2):
        crow["labels"]["embedder"], crow["inputs"]["ranking"]["selector"]["file"] = "hidden-mean", f"{place}"
        stored.write(tmp_path / "alike", crow)
    for seed in range(13):
        crow["labels"]["seed"], crow["inputs"]["pool"]["key"] = seed, str(seed)
        stored.write(tmp_path / "many", crow)
    for sampler, problems in (("vanilla", 23), ("low-temp", 12)):
        cell = cell_of(cells, model="parrot", sampler=sampler, embedder="hidden-mean", selector="spread")
        stored.write(tmp_path / "both", cell | {"problems": cell["problems"][:problems]})
    parrot = {"model": "parrot", **VANILLA}
    where = "`harness run` keeps its cells in runs/cells"
    for name, folder, options, words in (
        ("models", cells, parrot, "colours was run with one model (parrot): run others too, `harness run --model M`"),
        ("models", cells, {"embedder": "hidden-mean"}, "colours · parrot: 2 cells, which differ in sampler (low-temp,"),
        ("samplers", tmp_path / "both", {}, "are not of the same problems: run both with the same --limit"),
        ("representations", cells, {"selector": "shuffle"}, "selector 'shuffle' reads no vectors: name one that does"),
        ("scatter", cells, {"selector": "head"}, "selector 'head' chooses sets, not an order: it has no samples-to-"),
        ("scatter", cells, {"selector": None}, "no cell of selector 'repexp'; there are"),
        ("scatter", tmp_path / "unnamed", {}, "cells of 2 embedders (letters, tfidf): say which --embedder"),
        ("scatter", tmp_path / "alike", {}, "differ in nothing that a figure can name (a version, a setting): give a"),
        ("scatter", tmp_path / "many", {}, "13 models, and 12 can be told apart: narrow them by --task"),
        ("hardness", tmp_path / "many", {}, "13 panels, and 12 can be told apart: narrow them by --task"),
        ("passk", cells, {"sampler": "x"}, "no cell of sampler 'x'; there are low-temp, vanilla: name one of them, or"),
        ("passk", cells, {"k": 3}, "-k goes with `harness plot likelihoods` only"),
        ("passk", cells, {"reference": tmp_path}, "--reference goes with `harness plot hardness` and `harness plot gu"),
        ("likelihoods", cells, {"k": 0}, "-k must be at least 1, got 0"),
        ("passk", tmp_path / "no", {}, f"results {tmp_path}/no: no such folder; {where}"),
    ):
        assert words in refused(name, folder, **options), words


@pytest.fixture(scope="module")
def tables(cells, figure_store):
    """The table of each figure, by its name."""
    narrow = {"models": {"sampler": "vanilla"}, "passk": PARROT, "likelihoods": {"sampler": "vanilla"}}
    return {name: rows_of(name, cells, store=figure_store, **narrow.get(name, {})) for name in NAMES}


def test_every_figure_can_be_drawn_with_its_title_axes_and_units_and_holds_the_tables_values(tables):
    rows = [row for table in tables.values() for row in table]
    assert all(value == float(f"{value:.6g}") for row in rows for value in row.values() if type(value) is float)
    assert csv_table([{"a": 0.5, "b": None}, {"c": "x"}]) == "a,b,c\n0.5,,\n,,x\n"
    points = {}
    with frame.styled():
        for name, rows in tables.items():
            figure = load_registry().find("plot", name).load()().draw(rows)
            figure.draw_without_rendering()  # warns, and so fails, where the layout does not fit
            assert figure.get_suptitle(), name
            assert figure.legends, name
            for axes in figure.axes:
                assert axes.get_xlabel(), name
                assert axes.get_ylabel() or axes.get_yticklabels(), name
            points[name] = [line.get_xydata().tolist() for line in figure.axes[0].get_lines()]
    assert all([[row["random"], row["selected"]]] in points["scatter"] for row in tables["scatter"])
    wanted = defaultdict(list)
    for row in tables["passk"]:
        wanted[row["series"]].append([row["k"], 100 * row["passed"]])
    assert points["passk"] == list(wanted.values())


@pytest.mark.slow
def test_a_figure_is_a_pdf_a_png_and_the_table_it_was_drawn_from(harness, tables, cells, figure_store, tmp_path):
    options = ("--selector", "spread", "--sampler", "vanilla", "--store", figure_store, "--plugin", TOY)
    outcome = harness("plot", "likelihoods", cells, *options, "--out", tmp_path)
    assert outcome.code == 0, outcome.err
    pdf, png, table = (tmp_path / f"likelihoods.{kind}" for kind in ("pdf", "png", "csv"))
    assert outcome.out.splitlines() == [str(pdf), str(png), str(table)]
    assert pdf.read_bytes().startswith(b"%PDF-")
    assert b"/CreationDate" not in pdf.read_bytes()
    assert b"atplotlib" not in png.read_bytes()  # nor its version
    assert table.read_text() == csv_table(tables["likelihoods"])


def test_figures_are_listed_without_matplotlib_and_what_is_missing_is_one_line(harness, cells, monkeypatch):
    monkeypatch.setattr("harness.system.extras.find_spec", lambda name: None)
    listed = [row["name"] for row in harness("plot", "--list", "--json").rows]
    assert listed[: len(NAMES)] == NAMES  # those of trained models, which are not made of cells, follow
    line = error_line(harness("plot", "passk", cells))
    assert line == "error: plot needs matplotlib: not installed: pip install 'diversity-harness[plots]'"
    line = error_line(harness("plot", "scater"))
    assert line.startswith("error: plot: no figure 'scater' (did you mean 'scatter'? figures: gains, guided,")
