"""Figures: what they draw is recomputed here from the cells' files by other means; what cannot be drawn is one line."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import shutil
import statistics
import sys
from collections import defaultdict
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from support.json_lines import write_json_lines
from support.paths import ROOT, TOY
from support.processes import harness_command, printed_by, run_to_end
from support.refusals import refusal_of

from harness.plugin_system.registry import load_registry
from harness.results import cells
from harness.running import grid as grids
from harness.running import pipeline
from harness.running.config import RunConfig
from harness.scoring import budget_curves
from harness.scoring.metrics import Outcomes
from harness.store import shards
from harness.system.progress import Progress
from harness_plugins.figures import curves, hardness, likelihoods, scatter, style
from harness_plugins.figures import drawing as plots
from harness_plugins.figures.chosen import Chosen
from harness_plugins.figures.request import Request

NAMES = ("scatter", "questions", "models", "hardness", "samplers", "representations", "passk", "likelihoods")
GRID = "selector=spread+shuffle+head+likely,embedder=hidden-mean+letters"


@pytest.fixture
def runs(toy, tmp_path):
    """Add to the toy's store by `runs(ARGS)`; gives the folder of its cells."""

    def call(*args):
        outcome = toy("--data", "23", *args)
        assert outcome.code == 0, outcome.err
        return tmp_path / "runs" / "cells"

    return call


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A store with cells enough for every figure: two samplers, two embedders, three models, four selectors."""
    root = tmp_path_factory.mktemp("made")
    fixed = {"task": "colours", "engine": "toy", "data": Path("23"), "plugin_files": (TOY,), "store": root}
    grids.run(RunConfig(selectors=(), grid=f"{GRID},sampler=vanilla+low-temp", **fixed), Progress())
    for seed, model in enumerate(("crow", "jay"), 1):
        pipeline.run(RunConfig(selectors=("spread",), model=model, seed=seed, **fixed), Progress())
    return root


@pytest.fixture
def rich(made, tmp_path):
    """The cells of a copy of that store, in tmp_path/runs."""
    shutil.copytree(made, tmp_path / "runs")
    return tmp_path / "runs" / "cells"


def files(folder, **labels):
    """The cells in a folder with those labels, as they stand in their files."""
    found = [json.loads(path.read_text()) for path in sorted(folder.rglob("*.json"))]
    return [cell for cell in found if labels.items() <= cell["labels"].items()]


def the(folder, **labels):
    (found,) = files(folder, **labels)
    return found


def rows_of(name, *folders, **options):
    options = {"selector": None if name == "passk" else "spread", "plugin_files": (TOY,), **options}
    return plots.table(Request(name, folders, **options))


def close(value):
    return pytest.approx(value, rel=1e-5)


def expected_calls(entry):
    return (entry["n"] + 1) / (entry["c"] + 1)


def mean_calls(entry):
    return sum(entry["ranks"]) / len(entry["ranks"])


def exact_pass(n, c, k):
    return float(1 - Fraction(math.comb(n - c, k), math.comb(n, k)))


def share_solved(entries, k):
    """The share of (problem, trial) whose first correct response is among the first k."""
    found = [bool(entry["c"]) and rank <= k for entry in entries for rank in entry["ranks"]]
    return sum(found) / len(found)


# What is drawn.


def test_scatter_shows_both_means_and_the_interval_of_their_ratio(rich):
    rows = rows_of("scatter", rich, sampler="vanilla", embedder="hidden-mean")
    assert [row["series"] for row in rows] == ["crow", "jay", "parrot"]
    for row in rows:
        cell = the(rich, model=row["model"], selector="spread", sampler="vanilla", embedder="hidden-mean")
        random = statistics.fmean(map(expected_calls, cell["problems"]))
        low, high = cells.row(cell).to_json()["improvement_ci"]
        assert row["cell"] == cells.key_of(cell)
        assert (row["random"], row["n"], row["problems"]) == (close(random), 16, 23)
        assert row["selected"] == close(statistics.fmean(map(mean_calls, cell["problems"])))
        assert (row["selected_low"], row["selected_high"]) == (close(random / high), close(random / low))


def test_questions_shows_every_problem_and_the_exact_chances(rich):
    rows = rows_of("questions", rich, model="parrot", sampler="vanilla", embedder="letters", selector="shuffle")
    cell = the(rich, model="parrot", sampler="vanilla", selector="shuffle")  # reads no vectors: goes with any embedder
    assert [row["problem"] for row in rows] == [entry["id"] for entry in cell["problems"]]
    fewer = more = 0.0
    for row, entry in zip(rows, cell["problems"], strict=True):
        assert (row["N"], row["c"]) == (entry["n"], entry["c"])
        assert (row["random"], row["selected"]) == (close(expected_calls(entry)), close(mean_calls(entry)))
        for rank in entry["ranks"] if entry["c"] else ():
            fewer += 1 - exact_pass(entry["n"], entry["c"], rank)
            more += exact_pass(entry["n"], entry["c"], rank - 1)
    trials = 5 * len(rows)
    assert rows[0]["share_win"] == close(fewer / trials)
    assert rows[0]["share_loss"] == close(more / trials)
    assert rows[0]["share_tie"] == close(1 - (fewer + more) / trials)


def test_models_are_ranked_by_pass_at_1_and_show_the_calls_saved(rich):
    rows = rows_of("models", rich, sampler="vanilla", embedder="hidden-mean")
    weakest_first = []
    for row in rows:
        cell = the(rich, model=row["model"], selector="spread", sampler="vanilla", embedder="hidden-mean")
        selected, random = (statistics.fmean(map(f, cell["problems"])) for f in (mean_calls, expected_calls))
        weakest_first.append((statistics.fmean(e["c"] / e["n"] for e in cell["problems"]), row["model"]))
        assert row["pass_at_1"] == close(weakest_first[-1][0])
        assert row["saved"] == close(100 * (random - selected) / random)
        low, high = cells.row(cell).to_json()["improvement_ci"]
        assert (row["saved_low"], row["saved_high"]) == (close(100 - 100 / low), close(100 - 100 / high))
        assert row["saved_low"] <= row["saved"] <= row["saved_high"]
    assert len(rows) == 3
    assert weakest_first == sorted(weakest_first)
    assert [row["rank"] for row in rows] == [0, 1, 2]


def tenths(hardness_of):
    """Ids by bin: sorted by hardness and id, the first bins one larger where ten does not divide them."""
    ordered = sorted(hardness_of, key=lambda problem: (hardness_of[problem], problem))
    size, larger = divmod(len(ordered), 10)
    found = []
    for place in range(10):
        take = size + (place < larger)
        found.append(ordered[:take])
        ordered = ordered[take:]
    return found


def check_bins(rows, cell, hardness_of):
    by_id = {entry["id"]: entry for entry in cell["problems"]}
    assert [row["bin"] for row in rows] == list(range(1, 11))
    for row, members in zip(rows, tenths(hardness_of), strict=True):
        assert row["questions"] == len(members)
        assert row["hardness_low"] == close(min(hardness_of[one] for one in members))
        assert row["hardness_high"] == close(max(hardness_of[one] for one in members))
        for name, calls in (("random", expected_calls), ("selected", mean_calls)):
            values = [calls(by_id[one]) for one in members]
            assert row[name] == close(statistics.fmean(values))
            assert row[f"{name}_error"] == close(statistics.stdev(values) / math.sqrt(len(values)))


def test_hardness_bins_by_the_cells_own_pool(rich):
    rows = rows_of("hardness", rich, model="crow")
    cell = the(rich, model="crow")
    assert {row["judged_by"] for row in rows} == {"own pool"}
    check_bins(rows, cell, {entry["id"]: expected_calls(entry) for entry in cell["problems"]})


def test_hardness_bins_by_another_models_pool_whatever_its_selector(rich, tmp_path):
    other = the(rich, model="parrot", sampler="vanilla", selector="head")
    reference = tmp_path / "reference"
    key = cells.write(reference, other)
    hard = {entry["id"]: expected_calls(entry) for entry in other["problems"]}
    for path in (reference, reference / f"{key}.json"):
        rows = rows_of("hardness", rich, model="crow", reference=path)
        assert {row["judged_by"] for row in rows} == {"parrot"}
        check_bins(rows, the(rich, model="crow"), hard)


def test_samplers_shows_random_and_the_selector_over_each_samplers_pool(rich):
    rows = rows_of("samplers", rich, model="parrot", embedder="hidden-mean")
    seen = set()
    for row in rows:
        labels = {"sampler": row["series"], "model": "parrot", "embedder": "hidden-mean", "selector": "spread"}
        entries = the(rich, **labels)["problems"]
        if row["by"] == "random":
            assert row["selector"] == ""
            assert row["passed"] == close(statistics.fmean(exact_pass(e["n"], e["c"], row["k"]) for e in entries))
        else:
            assert row["passed"] == close(share_solved(entries, row["k"]))
        seen.add((row["series"], row["by"], row["k"]))
    both = [(sampler, by) for sampler in ("low-temp", "vanilla") for by in ("random", "selector")]
    assert seen == {(*one, k) for one in both for k in range(1, 17)}


def test_representations_shows_curves_and_calls_of_every_embedder(rich):
    rows = rows_of("representations", rich, model="parrot", sampler="vanilla")
    for row in rows:
        if row["series"] == curves.RANDOM:
            continue
        cell = the(rich, model="parrot", sampler="vanilla", selector="spread", embedder=row["series"])
        if row["measure"] == "pass@k":
            assert row["passed"] == close(share_solved(cell["problems"], row["k"]))
            assert row["low"] <= row["passed"] <= row["high"]
        else:
            random = statistics.fmean(map(expected_calls, cell["problems"]))
            assert row["calls"] == close(statistics.fmean(map(mean_calls, cell["problems"])))
            assert row["calls_low"] == close(random / cells.row(cell).to_json()["improvement_ci"][1])
    calls = {row["series"]: row["calls"] for row in rows if row["measure"] == "samples-to-correct"}
    assert list(calls) == [curves.RANDOM, "hidden-mean", "letters"]
    assert calls[curves.RANDOM] == close(random)


def test_passk_shows_random_the_oracle_and_all_selectors_of_a_pool(rich):
    rows = rows_of("passk", rich, model="parrot", sampler="vanilla")
    series = defaultdict(dict)
    for row in rows:
        series[row["series"]][row["k"]] = row["passed"]
    names = ["spread · hidden-mean", "spread · letters", "head", "likely", "shuffle"]
    assert set(series) == {curves.RANDOM, curves.ORACLE, *names}
    assert list(series)[:2] == [curves.RANDOM, curves.ORACLE]
    assert list(series)[-1] == "head"  # a subset method has no samples-to-correct to be sorted by
    entries = the(rich, model="parrot", sampler="vanilla", selector="head")["problems"]
    solvable = sum(entry["c"] > 0 for entry in entries) / len(entries)
    assert all(passed == close(solvable) for passed in series[curves.ORACLE].values())
    for k, passed in series[curves.RANDOM].items():
        assert passed == close(statistics.fmean(exact_pass(e["n"], e["c"], k) for e in entries))
    assert list(series["head"]) == [1, 2, 4, 8, 16]
    for k, passed in series["head"].items():
        assert passed == close(statistics.fmean(hit for entry in entries for hit in entry["hits"][str(k)]))
    ranked = the(rich, model="parrot", sampler="vanilla", selector="spread", embedder="letters")["problems"]
    assert list(series["spread · letters"]) == list(range(1, 17))
    for k, passed in series["spread · letters"].items():
        assert passed == close(share_solved(ranked, k))


@pytest.fixture
def crowd(rich, tmp_path):
    """15 selectors of one pool: `one00` solves each problem first, every next one later, `one14` is a subset method."""
    cell, folder = the(rich, model="crow"), tmp_path / "crowd"
    for place in range(14):
        cell["labels"]["selector"] = f"one{place:02}"
        cell["inputs"]["ranking"]["key"] = f"{place}"
        for entry in cell["problems"]:
            last = entry["n"] - entry["c"] + 1
            entry["ranks"] = [min(1 + place, last) if entry["c"] else last] * len(entry["ranks"])
            entry["orders"] = [list(range(rank)) for rank in entry["ranks"]] if entry["c"] else []
        cells.write(folder, cell)
    cell["labels"]["selector"], cell["inputs"]["ranking"]["key"] = "one14", "subset"
    for entry in cell["problems"]:
        trials = len(entry.pop("ranks")) + 0 * len(entry.pop("orders"))
        entry["hits"] = {str(k): [entry["c"] > 0] * trials for k in (1, 2, 4, 8, 16)}
    cells.write(folder, cell)
    return folder


def test_of_more_than_twelve_selectors_the_best_are_drawn_the_others_named_and_all_in_the_table(crowd):
    pytest.importorskip("matplotlib")
    said = []
    rows = rows_of("passk", crowd, say=said.append)
    assert {row["series"] for row in rows} == {curves.RANDOM, curves.ORACLE, *(f"one{i:02}" for i in range(15))}
    (line,) = said
    assert line == (
        "colours · crow · vanilla: of 15 selectors 12 are drawn, by their mean pass@k (repexp always); "
        "in the table only: one11, one12, one13"
    )
    with style.styled():
        figure = curves.draw_passk(rows)
    drawn = [f"one{i:02}" for i in (*range(11), 14)]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        curves.RANDOM,
        curves.ORACLE,
        *drawn,
        "3 more in the CSV",
    ]
    assert len(lines_of(figure)) == 2 + 12


def test_the_papers_selector_is_drawn_however_it_fares(crowd):
    rows = rows_of("passk", crowd)
    for row in rows:
        if row["series"] == "one13":
            row["series"], row["selector"] = "repexp:lam=2 · tfidf", "repexp:lam=2"
    kept = curves.best_selectors(rows)
    assert len(kept) == 12
    assert "repexp:lam=2 · tfidf" in kept
    assert "one10" not in kept


def test_each_panel_draws_its_own_best_selectors(crowd, rich):
    pytest.importorskip("matplotlib")
    rows = rows_of("passk", crowd, rich, model="crow") + rows_of("passk", rich, model="parrot", sampler="vanilla")
    with style.styled():
        figure = curves.draw_passk(rows)
    crow, parrot = figure.axes
    assert (len(crow.get_lines()), len(parrot.get_lines())) == (2 + 12, 2 + 5)
    assert figure.legends[0].get_texts()[-1].get_text() == "up to 4 more in the CSV"
    rows = rows_of("passk", crowd, selector="one13")
    assert curves.best_selectors(rows) == ["one13"]


def test_a_band_is_what_resampling_the_problems_gives(rich):
    entries = the(rich, model="crow")["problems"]
    row = next(row for row in rows_of("passk", rich, model="crow") if row["series"] == curves.RANDOM and row["k"] == 2)
    shares = [exact_pass(entry["n"], entry["c"], 2) for entry in entries]
    rng = np.random.default_rng(7)
    means = sorted(rng.choice(shares, len(shares)).mean() for _ in range(4000))
    width = means[3900] - means[100]
    assert row["high"] - row["low"] == pytest.approx(
        width, rel=0.15
    )  # of 1,000 resamples, by a seed that the key gives
    assert row["low"] == pytest.approx(means[100], abs=0.15 * width)


def test_the_band_of_a_selector_averages_trials_before_it_resamples():
    trials = np.array([[1, 9], [9, 1], [1, 9], [9, 1]])
    outcomes = Outcomes(*(np.full(4, value) for value in (9, 1, 0)), ranks=trials)
    ks, shares = budget_curves.selected_shares(outcomes, [1, 9])
    assert (ks, shares.tolist()) == ([1, 9], [[0.5, 1.0]] * 4)
    assert [ends.tolist() for ends in budget_curves.band(shares, 3)] == [[0.5, 1.0]] * 2


def test_a_curve_of_a_large_pool_has_about_forty_budgets_those_of_the_tables_among_them():
    ks = budget_curves.budgets(1000)
    assert {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000} <= set(ks)
    assert ks == sorted(set(ks))
    assert len(ks) < 55


# Likelihoods, from the store. The toy's response i has log-probability -i/n, and three tokens.


def per_token(ids, n=16):
    return [-i / n / 3 for i in ids]


def check_histogram(rows, values):
    assert sum(row["count"] for row in rows) == len(values) == rows[0]["responses"]
    assert rows[0]["mean"] == close(statistics.fmean(values))
    assert sum(row["share"] for row in rows) == pytest.approx(1, abs=1e-4)
    for row in rows[1:-1]:
        inside = sum(row["from"] + 1e-6 <= value < row["to"] - 1e-6 for value in values)
        near = sum(abs(value - edge) < 1e-6 for value in values for edge in (row["from"], row["to"]))
        assert inside <= row["count"] <= inside + near


def test_likelihoods_counts_all_the_first_picks_and_the_correct_ones(runs, tmp_path):
    folder = runs("--selector", "likely", "--selector", "spread")
    pool, verdicts = (next((tmp_path / "runs" / kind).glob("*/")) for kind in ("pool", "verdict"))
    correct = [
        [i for i, verdict in enumerate(shards.read_verdicts(verdicts / path.name)) if verdict == "correct"]
        for path in sorted(pool.glob("*.parquet"))
    ]
    groups = defaultdict(list)
    for row in rows_of("likelihoods", folder, selector="likely", k=3, store=tmp_path / "runs"):
        groups[row["group"]].append(row)
    assert list(groups) == ["all responses", "first 3 picks", "correct responses"]
    check_histogram(groups["all responses"], per_token([*range(16)] * 23))
    check_histogram(groups["first 3 picks"], per_token([0, 1, 2] * 23 * 5))
    check_histogram(groups["correct responses"], per_token([i for ids in correct for i in ids]))
    assert sum(map(len, correct)) > 0


def test_likelihoods_picks_on_beyond_the_first_correct_response_as_the_selector_would(runs, tmp_path):
    folder = runs("--selector", "spread")
    cell, root = the(folder, selector="spread"), tmp_path / "runs"
    vectors = root / "embedding" / cell["inputs"]["embedding"]["key"]
    first = []
    for path in sorted(vectors.glob("*.safetensors")):
        h = shards.load_tensors(path.read_bytes())["vectors"].astype(float)
        h -= h.mean(axis=0)
        first += np.argsort(-(h**2).sum(axis=1), kind="stable")[:4].tolist() * 5
    said = []
    rows = rows_of("likelihoods", folder, k=4, store=root, say=said.append)
    check_histogram([row for row in rows if row["group"] == "first 4 picks"], per_token(first))
    assert said == []


def test_without_k_an_eighth_of_the_pool_is_picked_and_every_trial_from_its_own_stream(runs, tmp_path):
    folder, said = runs("--selector", "shuffle", "--n", "17"), []
    rows = rows_of("likelihoods", folder, selector="shuffle", store=tmp_path / "runs", say=said.append)
    assert {row["k"] for row in rows} == {3}
    assert said == []  # the picks are those that the cell holds


def test_the_first_bin_takes_in_the_long_tail():
    values = np.concatenate([np.linspace(-1.0, -0.1, 999), [-50.0]])
    edges = likelihoods._edges(values)
    counts = likelihoods._counts(values, edges)
    assert -1.0 < edges[0] < -0.98
    assert edges[-1] == -0.1
    assert counts.sum() == 1000
    assert counts[0] == (values < edges[1]).sum() > (values < edges[0]).sum() == 5


def test_picks_that_differ_from_the_cells_are_said(runs, tmp_path):
    folder = runs("--selector", "spread")
    for path in (tmp_path / "runs" / "embedding").rglob("*.safetensors"):
        vectors = shards.read_vectors(path)
        shards.write_vectors(path, vectors[::-1])
    said = []
    rows_of("likelihoods", folder, store=tmp_path / "runs", say=said.append)
    assert re.fullmatch(
        r"cell \w+: on \d+ problems this machine's picks differ from the cell's; its own are drawn", said[0]
    )


# Which cells are shown, and what they are called.


def test_names_are_the_fewest_labels_that_tell_cells_apart(rich):
    assert {row["series"] for row in rows_of("scatter", rich, embedder="hidden-mean", model="parrot")} == {
        "parrot · low-temp",
        "parrot · vanilla",
    }


def test_the_same_table_comes_from_the_same_cells_however_they_lie(rich, tmp_path):
    for i, path in enumerate(sorted(rich.glob("*.json"), reverse=True)):
        folder = tmp_path / "split" / str(i % 2) / f"deep{i}"
        folder.mkdir(parents=True)
        shutil.copy(path, folder)
    for name in set(NAMES) - {"likelihoods"}:
        options = {"model": "parrot"} if name in ("samplers", "representations", "passk") else {"sampler": "vanilla"}
        split = (tmp_path / "split" / "1", tmp_path / "split" / "0")
        assert rows_of(name, rich, **options) == rows_of(name, *split, **options)


def test_of_several_embedders_the_papers_is_shown_and_that_is_said(rich):
    said = []
    rows = rows_of("scatter", rich, model="parrot", sampler="vanilla", say=said.append)
    assert [row["embedder"] for row in rows] == ["hidden-mean"]
    assert said == ["embedder: hidden-mean, of hidden-mean, letters (--embedder says another)"]


def test_what_cannot_be_counted_or_compared_is_said_and_the_rest_is_drawn(rich, runs):
    (rich / "broken.json").write_text("{")
    runs("--task", "keyed", "--selector", "spread")
    said = []
    rows = rows_of("models", rich, sampler="vanilla", embedder="hidden-mean", say=said.append)
    assert {row["task"] for row in rows} == {"colours"}
    assert any(line.startswith(f"not counted: cell {rich}/broken.json: cannot be read") for line in said)
    assert "left out: keyed, which one model alone ran (parrot)" in said
    rows_of("samplers", rich, embedder="hidden-mean", say=said.append)
    assert "left out: colours · crow, which was run with one sampler (vanilla)" in said


# The files.


def drawable(name, rich, tmp_path):
    """The command's arguments for a figure of the rich cells."""
    narrow = ["--embedder", "hidden-mean"] if name not in ("passk", "representations") else []
    narrow += ["--sampler", "vanilla"] if name in ("models", "likelihoods") else []
    narrow += ["--store", tmp_path / "runs"] if name == "likelihoods" else []
    chosen = ["--selector", "spread"] if name != "passk" else []
    return ["plot", name, rich, *chosen, *narrow, "--plugin", TOY]


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_is_a_pdf_a_png_and_the_table_it_was_drawn_from(harness, rich, tmp_path, name):
    pytest.importorskip("matplotlib")
    from PIL import Image

    out = tmp_path / "out"
    outcome = harness(*drawable(name, rich, tmp_path), "--out", out)
    assert outcome.code == 0, outcome.err
    assert outcome.out.splitlines() == [str(out / f"{name}.{kind}") for kind in ("pdf", "png", "csv")]
    assert (out / f"{name}.pdf").read_bytes().startswith(b"%PDF-")
    assert b"/CreationDate" not in (out / f"{name}.pdf").read_bytes()
    assert b"atplotlib" not in (out / f"{name}.png").read_bytes()  # nor its version
    with Image.open(out / f"{name}.png") as image:
        image.load()
        assert image.format == "PNG"
        assert image.info["dpi"] == pytest.approx((200, 200), abs=0.1)
        assert min(image.size) > 500
        assert len(image.convert("RGB").getcolors(1 << 24)) > 20  # no empty sheet
    lines = list(csv.DictReader(io.StringIO((out / f"{name}.csv").read_text())))
    options = {"embedder": "hidden-mean"} if name not in ("passk", "representations") else {}
    options |= {"sampler": "vanilla"} if name in ("models", "likelihoods") else {}
    rows = rows_of(name, rich, store=tmp_path / "runs", **options)
    assert len(lines) == len(rows)
    assert all(value == float(f"{value:.6g}") for row in rows for value in row.values() if isinstance(value, float))
    for line, row in zip(lines, rows, strict=True):
        assert {key: text for key, text in line.items() if text} == {
            key: str(value) for key, value in row.items() if value not in (None, "")
        }


def test_the_same_cells_give_the_same_bytes_in_another_process_with_other_settings(harness, rich, tmp_path):
    pytest.importorskip("matplotlib")
    settings = tmp_path / "matplotlibrc"
    settings.write_text("font.size: 20\naxes.facecolor: yellow\nsavefig.dpi: 50\n")
    env = {**os.environ, "MATPLOTLIBRC": str(settings), "PYTHONHASHSEED": "77", "SOURCE_DATE_EPOCH": "1000000000"}
    command = drawable("passk", rich, tmp_path)
    assert harness(*command, "--out", tmp_path / "here").code == 0
    run_to_end(harness_command(*command, "--out", tmp_path / "there"), env=env, check=True)
    for kind in ("pdf", "png", "csv"):
        here, other = ((tmp_path / place / f"passk.{kind}").read_bytes() for place in ("here", "there"))
        assert here == other, kind


def test_a_drawing_holds_the_tables_values(rich):
    pytest.importorskip("matplotlib")
    with style.styled():
        rows = rows_of("scatter", rich, sampler="vanilla", embedder="hidden-mean")
        drawn = {
            tuple(map(float, (*line.get_xdata(), *line.get_ydata()))) for line in lines_of(scatter.draw_scatter(rows))
        }
        assert {(row["random"], row["selected"]) for row in rows} <= drawn
        rows = rows_of("passk", rich, model="parrot", sampler="vanilla")
        wanted = defaultdict(list)
        for row in rows:
            wanted[row["series"]].append((row["k"], 100 * row["passed"]))
        drawn = [list(zip(*map(list, line.get_data()), strict=True)) for line in lines_of(curves.draw_passk(rows))]
        assert drawn == list(wanted.values())
        rows = rows_of("hardness", rich, model="crow")
        random, selected = (list(line.get_ydata()) for line in lines_of(hardness.draw_hardness(rows)))
        assert random == [row["random"] for row in rows]
        assert selected == [row["selected"] for row in rows]


def lines_of(figure):
    (axes,) = figure.axes
    return axes.get_lines()


def test_every_panel_title_axis_and_unit_is_there(rich, tmp_path):
    pytest.importorskip("matplotlib")
    with style.styled():
        for name in NAMES:
            figure = load_registry().find("plot", name).load()
            options = {"sampler": "vanilla"} if name in ("models", "likelihoods") else {}
            rows = rows_of(name, rich, store=tmp_path / "runs", **options)
            drawn = figure.draw(rows)
            assert drawn.get_suptitle()
            for axes in drawn.axes:
                assert axes.get_xlabel()
                assert axes.get_ylabel() or axes.get_yticklabels()
            assert drawn.legends


def test_twelve_series_differ_in_marker_and_the_colours_in_line():
    looks = [style.look(place) for place in range(12)]
    assert len({look["marker"] for look in looks}) == 12
    assert len({(look["color"], look["linestyle"]) for look in looks}) == 12


@pytest.mark.parametrize(("low", "high"), [(1, 17), (3.9, 4.1), (1, 6401), (0.5, 0.6), (1, 1)])
def test_a_log_axis_has_ticks_and_holds_what_it_was_given(low, high):
    pytest.importorskip("matplotlib")
    for base in (2, 10):
        _, (axes,) = style.panels("ticks", 1)
        style.log_axis(axes.xaxis, low, high, base=base)
        left, right = axes.get_xlim()
        assert left < low <= high < right
        assert 2 <= sum(left <= tick <= right for tick in axes.xaxis.get_majorticklocs()) <= 9


def test_listing_figures_needs_no_matplotlib_and_drawing_says_that_it_does(harness, rich, monkeypatch):
    code = "import sys; from harness_plugins.figures import drawing; drawing.listing()"
    code += "; print({'matplotlib', 'torch'} & set(sys.modules))"
    assert printed_by(code) == "set()"
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    listed = [row["name"] for row in harness("plot", "--list", "--json").rows]
    assert listed[: len(NAMES)] == list(NAMES)  # those of trained models, which are not made of cells, follow
    outcome = harness("plot", "passk", rich)
    assert (outcome.code, outcome.err) == (
        2,
        "error: plot: figures are drawn by matplotlib, which is not installed: pip install matplotlib\n",
    )


# What cannot be drawn.


def refused(name, *folders, **options):
    return refusal_of(rows_of, name, *folders, **options)


def test_an_unknown_figure_is_refused_by_name(tmp_path):
    assert refused("scater", tmp_path).startswith(
        "plot: no figure 'scater' (did you mean 'scatter'? figures: guided, hardness,"
    )


def test_folders_without_cells_are_refused(tmp_path):
    assert refused("passk", tmp_path / "no") == (
        f"plot passk: no folder {tmp_path}/no; `harness run` keeps its cells in runs/cells"
    )
    assert refused("passk", tmp_path) == (
        f"plot passk: no cells in {tmp_path}; `harness run` keeps its cells in runs/cells"
    )


def test_a_folder_where_all_failed_says_so(toy, tmp_path):
    toy("--selector", "twice")
    assert "(1 that failed)" in refused("passk", tmp_path / "runs" / "cells")


@pytest.mark.parametrize("option", ["selector", "embedder", "task", "model", "sampler"])
def test_a_label_that_no_cell_has_is_refused_with_those_there_are(rich, option):
    there = {"selector": "head, likely, shuffle, spread", "embedder": "hidden-mean, letters, none", "task": "colours"}
    there |= {"model": "crow, jay, parrot", "sampler": "low-temp, vanilla"}
    assert f"no cell of {option} 'x'; there are {there[option]}:" in refused("passk", rich, **{option: "x"})


def test_without_a_selector_the_papers_is_looked_for(rich):
    assert "plot scatter: no cell of selector 'repexp'; there are" in refused("scatter", rich, selector=None)


def test_several_embedders_without_the_papers_are_refused(toy, tmp_path):
    toy("--grid", "selector=spread,embedder=letters+tfidf")
    folder = tmp_path / "runs" / "cells"
    assert refused("scatter", folder) == ("plot scatter: cells of 2 embedders (letters, tfidf): say which --embedder")


@pytest.mark.parametrize("name", ["scatter", "questions", "models", "hardness", "representations", "likelihoods"])
def test_a_subset_method_has_no_samples_to_correct(runs, tmp_path, name):
    folder = runs("--selector", "head", "--embedder", "letters")
    options = {"store": tmp_path / "runs"}
    line = refused(name, folder, selector="head", **options)
    assert "chooses sets, not an order" in line or "reads no vectors" in line


def test_one_model_is_not_ranked(runs):
    assert refused("models", runs("--selector", "spread")) == (
        "plot models: one model a task (parrot): run a weaker or stronger one too, `harness run --model M`"
    )


def test_two_cells_of_one_model_are_narrowed_down_first(rich):
    line = refused("models", rich, embedder="hidden-mean")
    assert "colours · test · parrot: 2 cells, which differ in sampler: narrow them by --sampler" in line


def test_one_sampler_or_embedder_is_not_compared(runs):
    folder = runs("--selector", "spread")
    assert "colours · parrot was run with one sampler (vanilla): run others too" in refused("samplers", folder)
    assert "colours · parrot was run with one embedder (hidden-mean): run" in refused("representations", folder)
    runs("--selector", "shuffle")
    line = refused("representations", folder, selector="shuffle")
    assert line == "plot representations: selector 'shuffle' reads no vectors: name one that does (--selector)"


def test_samplers_of_different_problems_are_not_compared(runs):
    runs("--selector", "spread", "--sampler", "low-temp", "--limit", "12")
    assert "are not of the same problems: run both with the same --limit" in refused(
        "samplers", runs("--selector", "spread")
    )


def test_fewer_than_ten_problems_make_no_ten_bins(runs):
    folder = runs("--selector", "spread", "--limit", "9")
    assert "colours · parrot has 9 problems, which make no 10 bins: run more (--limit)" in refused("hardness", folder)


def test_a_reference_that_does_not_fit_is_refused(rich, tmp_path):
    absent = refused("hardness", rich, model="crow", reference=tmp_path / "no")
    assert absent == f"plot hardness: --reference {tmp_path}/no: no such cell or folder"
    assert "holds 4 pools of these problems (" in refused("hardness", rich, model="crow", reference=rich)
    small = the(rich, model="jay")
    small["problems"] = small["problems"][:20]
    cells.write(tmp_path / "small", small)
    line = refused("hardness", rich, model="crow", reference=tmp_path / "small")
    assert "no cell there holds all 23 problems of colours · crow: run the reference's model on them" in line
    other = the(rich, model="jay")
    other["labels"]["task"] = "shades"
    path = tmp_path / f"{cells.write(tmp_path, other)}.json"
    assert "no cell there holds all 23 problems" in refused("hardness", rich, model="crow", reference=path)


def test_options_of_other_figures_and_wrong_numbers_are_refused(rich, tmp_path):
    assert refused("passk", rich, k=3) == "plot passk: -k goes with `harness plot likelihoods` only"
    said = "--reference goes with `harness plot hardness` and `harness plot guided` only"
    assert said in refused("passk", rich, reference=tmp_path)
    assert refused("likelihoods", rich, k=0) == "plot likelihoods: -k must be at least 1, got 0"


def test_two_cells_that_nothing_tells_apart_are_named(rich, tmp_path):
    cell = the(rich, model="crow")
    cell["inputs"]["ranking"]["selector"]["file"] = "another"
    other = cells.write(rich, cell)
    line = refused("scatter", rich, model="crow")
    assert other in line
    assert (
        "differ in nothing that a figure can name (a version, a setting): give a folder that holds one of them" in line
    )


def test_more_than_can_be_told_apart_is_refused(rich, tmp_path):
    cell, folder = the(rich, model="crow"), tmp_path / "many"
    for seed in range(13):
        cell["labels"]["seed"] = cell["inputs"]["pool"]["key"] = str(seed)
        cells.write(folder, cell)
    for name, what in (("scatter", "models"), ("questions", "panels"), ("hardness", "panels"), ("passk", "pools")):
        assert f"plot {name}: 13 {what}, and 12 can be told apart: narrow them by --task" in refused(name, folder)


def test_likelihoods_says_what_the_store_lacks(runs, tmp_path):
    folder, root = runs("--selector", "spread", "--selector", "head"), tmp_path / "runs"
    options = {"store": root}
    assert "-k 17: the smallest pool of cell" in refused("likelihoods", folder, k=17, **options)
    assert "chooses sets, not an order: it has no first picks" in refused(
        "likelihoods", folder, selector="head", **options
    )
    elsewhere = refused("likelihoods", folder, **options | {"store": tmp_path / "else"})
    assert f"store {tmp_path}/else does not hold the pool of cell" in elsewhere
    next((root / "pool").rglob("*.parquet")).unlink()
    assert "holds 22 of the 23 problems of cell" in refused("likelihoods", folder, **options)


def test_likelihoods_asks_the_selector_that_made_the_cell(toy, tmp_path):
    own = tmp_path / "own.py"
    code = "from harness import hookimpl\nclass Own:\n    needs = ()\n    def rank(self, pool, rng):\n        {}\n"
    code += "@hookimpl\ndef register_selectors(register):\n    register('own', Own)\n"
    own.write_text(code.format("yield from range(len(pool))"))
    assert toy("--selector", "own", "--plugin", own).code == 0
    own.write_text(code.format("yield from reversed(range(len(pool)))"))
    options = {"store": tmp_path / "runs", "plugin_files": (own, TOY), "selector": "own"}
    line = refused("likelihoods", tmp_path / "runs" / "cells", **options)
    assert line.startswith("plot likelihoods: selector 'own' is not the version that made cell ")


def test_a_pool_without_log_probabilities_has_no_likelihoods(harness, tmp_path):
    root = tmp_path / "runs"
    lines = [{"problem_id": f"p{i}", "responses": ["a", "b"], "correct": [True, False]} for i in range(3)]
    pool = write_json_lines(tmp_path / "pool.jsonl", lines)
    assert harness("run", "--pool", pool, "--selector", "uniform", "--store", root).code == 0
    line = refused("likelihoods", root / "cells", selector="uniform", store=root)
    assert line.endswith("carries no token counts: sample one with `harness run`")


def test_a_refusal_is_one_line_and_exit_code_2(harness, rich):
    pytest.importorskip("matplotlib")
    outcome = harness("plot", "scatter", rich, "--selector", "nobody")
    assert outcome.code == 2
    assert outcome.err.startswith("error: plot scatter: no cell of selector 'nobody'; there are head,")
    assert outcome.err.count("\n") == 1


# The documents.


def test_the_page_names_every_figure_column_and_option():
    import typer.main

    from harness.cli import complete

    page = (ROOT / "docs" / "plots.md").read_text()
    assert tuple(row["name"] for row in plots.listing())[: len(NAMES)] == NAMES
    for name in NAMES:
        assert len(re.findall(rf"^\| `{name}` \|", page, re.M)) == 2  # what it draws, and its columns
    command = typer.main.get_command(complete()).commands["plot"]
    for parameter in command.params:
        options = [option for option in parameter.opts if option.startswith("-")]
        assert not options or any(option in page for option in options) or options[0] in ("--json", "--plugin"), options


def test_the_page_names_every_column_of_the_tables(rich, tmp_path):
    page = (ROOT / "docs" / "plots.md").read_text()
    common = set(Chosen("", the(rich, model="crow")).columns)
    for name in NAMES:
        (line,) = re.findall(rf"^\| `{name}` \| ([^|]*) \|$", page, re.M)
        options = {"sampler": "vanilla"} if name in ("models", "likelihoods") else {}
        rows = rows_of(name, rich, store=tmp_path / "runs", **options)
        for column in {column for row in rows for column in row} - common:
            assert re.search(rf"\b{column}\b", line), f"{name}: {column}"
