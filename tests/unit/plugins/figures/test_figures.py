"""The figures of a store's cells: each table is recomputed from the cells' files; the drawings, and the command."""

import json
import math
import re
import shutil
import statistics
from collections import defaultdict
from fractions import Fraction
from pathlib import Path

import pytest
from support.cells import N, subset_entry
from support.cells import cell as new_cell
from support.cells import entry as new_entry
from support.json_lines import write_json_lines
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
from harness_plugins.figures.calls import Hardness, Scatter
from harness_plugins.figures.gains import Gains, Strength
from harness_plugins.figures.request import Request

pytest.importorskip("matplotlib")
CELLS = ("scatter", "questions", "models", "strength", "hardness", "gains")
NAMES = (*CELLS, "samplers", "representations", "passk", "likelihoods")
VANILLA = {"sampler": "vanilla", "embedder": "hidden-mean"}
# What narrows the cells of `figure_store` down to those that a figure can show.
NARROW = {name: {"sampler": "vanilla"} for name in ("models", "passk", "likelihoods")}
NARROW["passk"]["model"] = "parrot"


@pytest.fixture(scope="module")
def figure_store(tmp_path_factory):
    """The store: two samplers, two embedders, three models, four selectors, 23 problems. Not to be changed."""
    root = tmp_path_factory.mktemp("figures")
    fixed = {"task": "colours", "engine": "toy", "data": Path("23"), "plugin_files": (TOY,), "store": root}
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
    contents = [cell for cell in contents if not cell.get("control")]
    (cell,) = [cell for cell in contents if labels.items() <= cell["labels"].items()]
    return cell


def close(value):
    """Equal but for the rounding of a table."""
    return pytest.approx(value, rel=1e-5)


def expected_calls(entry):
    """Random selection's samples-to-correct on a problem."""
    return (entry["n"] + 1) / (entry["c"] + 1)


def mean_calls(entry):
    """The selector's samples-to-correct on a problem."""
    return statistics.fmean(entry["ranks"])


def exact_pass(entry, k):
    """Random selection's pass@k on a problem."""
    n, c = entry["n"], entry["c"]
    return float(1 - Fraction(math.comb(n - c, k), math.comb(n, k)))


def share_solved(entries, k):
    """The selector's pass@k: the share of (problem, trial) whose first correct response is among the first k."""
    hits = [bool(entry["c"]) and rank <= k for entry in entries for rank in entry["ranks"]]
    return sum(hits) / len(hits)


# Calls


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


def test_hardness_bins_by_another_models_pool_whatever_its_selector_or_by_the_cells_own(cells, tmp_path):
    cell = cell_of(cells, model="crow")
    hard = cell_of(cells, model="parrot", sampler="vanilla", selector="head")
    reference = tmp_path / f"{stored.write(tmp_path, hard)}.json"
    rows = rows_of("hardness", cells, model="crow", reference=reference)
    assert rows_of("hardness", cells, model="crow", reference=tmp_path) == rows
    check_bins(rows, "parrot", cell, hard)
    check_bins(rows_of("hardness", cells, model="crow"), "own pool", cell, cell)
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


# Curves


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


def test_of_more_than_twelve_selectors_the_best_are_drawn_and_the_papers_always(cells, tmp_path):
    cell = cell_of(cells, model="crow")
    for place in range(15):  # `one00` solves each problem first, every next one later
        cell["labels"]["selector"] = f"one{place:02}"
        cell["inputs"]["ranking"]["key"] = f"{place}"
        for entry in cell["problems"]:
            last = entry["n"] - entry["c"] + 1
            entry["ranks"] = [min(1 + place, last) if entry["c"] else last] * len(entry["ranks"])
            entry["orders"] = [list(range(rank)) for rank in entry["ranks"]] if entry["c"] else []
        stored.write(tmp_path, cell)
    notes = []
    rows = rows_of("passk", tmp_path, say=notes.append)
    assert {row["series"] for row in rows if row["selector"]} == {f"one{i:02}" for i in range(15)}
    assert notes[0].startswith("colours · crow · vanilla: of 15 selectors 12 are drawn, by their mean pass@k (repexp")
    with frame.styled():
        figure = curves.PassK().draw(rows + rows_of("passk", cells, model="parrot", sampler="vanilla"))
    assert [len(axes.get_lines()) for axes in figure.axes] == [2 + 3 + 12, 2 + 3 + 5]
    named = [text.get_text() for text in figure.legends[0].get_texts()]
    assert {f"one{i:02}" for i in range(12)} == {name for name in named if name.startswith("one")}
    assert named[-1] == "up to 3 more in the CSV"
    for row in rows:
        if row["series"] == "one13":
            row["series"], row["selector"] = "repexp:lam=2 · tfidf", "repexp:lam=2"
    kept, _ = curves.best_selectors(rows)
    assert (len(kept), "repexp:lam=2 · tfidf" in kept, "one11" in kept) == (12, True, False)


# Gains over several pools


SHARES = [(0, 0.02), (0.02, 0.05), (0.05, 0.2), (0.2, 0.5), (0.5, 1)]


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


def test_the_best_five_over_all_pools_and_repexp_are_shown_with_the_means_of_each_class(pools):
    rows = rows_of("gains", pools, selector=None)
    assert list(dict.fromkeys(row["series"].partition(" ")[0] for row in rows)) == ["f", "e", "d", "c", "b", "repexp"]
    assert len({row["panel"] for row in rows}) == 2
    for row in rows:
        entries = cell_of(pools, model=row["model"], selector=row["selector"])["problems"]
        inside = [entry for entry in entries if row["above"] < entry["c"] / entry["n"] <= row["up_to"]]
        assert row["questions"] == len(inside) >= 5
        random, selected = (statistics.fmean(map(calls, inside)) for calls in (expected_calls, mean_calls))
        assert (row["random"], row["selected"]) == (close(random), close(selected))
        assert row["improvement"] == close(random / selected)
        assert row["improvement_low"] is None or row["improvement_low"] < row["improvement"] < row["improvement_high"]
    shares = [entry["c"] / 100 for entry in entries]
    assert {(row["above"], row["up_to"]) for row in rows} == {
        (low, high) for low, high in SHARES if sum(low < share <= high for share in shares) >= 5
    }
    assert len(Gains().draw(rows).axes) == 2


def test_strength_has_a_point_a_pool_of_repexp_and_the_two_best(pools):
    notes = []
    rows = rows_of("strength", pools, selector=None, say=notes.append)
    assert notes[0].startswith("3 of 8 selectors and embedders are shown (repexp · ")
    shown = [(row["panel"].partition(" ")[0], row["model"]) for row in rows]
    assert sorted(shown) == sorted((name, model) for name in ("repexp", "f", "e") for model in ("jay", "crow"))
    for row in rows:
        entries = cell_of(pools, model=row["model"], selector=row["selector"])["problems"]
        assert row["pass_at_1"] == close(statistics.fmean(entry["c"] / 100 for entry in entries))
        random, selected = (statistics.fmean(map(calls, entries)) for calls in (expected_calls, mean_calls))
        assert row["improvement"] == close(random / selected)
        assert row["improvement_low"] < row["improvement"] < row["improvement_high"]
    assert [axes.get_title().partition(" ")[0] for axes in Strength().draw(rows).axes] == ["repexp", "f", "e"]


def test_of_several_pools_a_selector_may_be_named_and_what_cannot_be_compared_is_refused(pools, tmp_path):
    for name in ("gains", "strength"):
        assert {row["selector"] for row in rows_of(name, pools, selector="a")} == {"a"}
        assert {row["model"] for row in rows_of(name, pools, selector="alone")} == {"crow"}
    for model, selector in (("jay", "a"), ("crow", "b")):
        stored.write(tmp_path / "apart", cell_of(pools, model=model, selector=selector))
    line = refused("gains", tmp_path / "apart", selector=None)
    assert line == "no ranker has cells of all 2 pools: give folders whose cells share one"
    notes, other = [], cell_of(pools, model="crow", selector="a")
    other["inputs"]["pool"]["key"] = other["labels"]["model"] = "dove"
    for problem in other["problems"]:
        problem |= {"c": 0, "ranks": [101] * 2, "orders": [], "routes": {}}
    stored.write(tmp_path / "more", other)
    rows_of("strength", pools, tmp_path / "more", selector="a", say=notes.append)
    assert notes[0].startswith("left out: colours · dove · vanilla · n = 100")
    stored.write(tmp_path / "sets", new_cell([subset_entry("p0", [1, 1])], "subset"))
    line = refused("strength", tmp_path / "sets", selector=None)
    assert line == "cells of selectors that choose sets, not orders: they have no samples-to-correct"
    stored.write(tmp_path / "wrong", new_cell([new_entry(name, [N + 1] * 2, c=0) for name in ("p0", "p1")], "a"))
    line = refused("strength", tmp_path / "wrong", selector="a")
    assert line == "no pool has a correct response: there is no improvement to draw"


# Likelihoods, from the store: the toy's response i has log-probability -i/n, and three tokens


def check_histogram(rows, indices, n=16):
    values = [-index / n / 3 for index in indices]
    assert sum(row["count"] for row in rows) == len(values) == rows[0]["responses"]
    assert rows[0]["mean"] == close(statistics.fmean(values))
    assert sum(row["share"] for row in rows) == pytest.approx(1, abs=1e-4)
    for row in rows[1:-1]:
        inside = sum(row["from"] + 1e-6 <= value < row["to"] - 1e-6 for value in values)
        near = sum(abs(value - edge) < 1e-6 for value in values for edge in (row["from"], row["to"]))
        assert inside <= row["count"] <= inside + near


def test_all_responses_first_picks_beyond_the_first_correct_and_correct_ones_are_counted(figure_store, cells):
    labels, correct, groups = {"model": "parrot", "sampler": "vanilla", "selector": "likely"}, [], defaultdict(list)
    pool = cell_of(cells, **labels)["inputs"]["pool"]["key"]
    for path in files_of(figure_store, "verdicts"):
        if pool in str(path):
            correct += [i for i, status in enumerate(read(path)["status"].to_pylist()) if status == "correct"]
    for row in rows_of("likelihoods", cells, k=3, store=figure_store, **labels):
        groups[row["group"]].append(row)
    assert list(groups) == ["all responses", "first 3 picks", "correct responses"]
    for rows, indices in zip(groups.values(), ([*range(16)] * 23, [0, 1, 2] * 5 * 23, correct), strict=True):
        check_histogram(rows, indices)
    assert correct


@pytest.mark.slow
def test_what_the_store_lacks_or_holds_otherwise_is_said(toy, harness, tmp_path):
    toy("--selector", "spread", "--selector", "head")
    root = tmp_path / "runs"
    folder, options = root / "cells", {"store": root}
    assert refused("likelihoods", folder, k=17, **options).startswith("-k 17: the smallest pool of cell")
    line = refused("likelihoods", folder, selector="head", **options)
    assert line == "selector 'head' chooses sets, not an order: it has no first picks; `harness plot passk` draws it"
    for path in files_of(root, "vectors"):
        turned, content = filed(path.parent, stem_of(path), read(path)[::-1].copy())
        path.unlink()
        write_parts(turned, content)
    notes = []
    rows_of("likelihoods", folder, say=notes.append, **options)
    what = r"cell \w+: on \d problems this machine's picks differ from the cell's; its own are drawn"
    assert re.fullmatch(what, notes[0])
    files_of(root, "responses")[0].unlink()
    assert "holds 5 of the 6 problems of cell" in refused("likelihoods", folder, **options)
    pool = write_json_lines(tmp_path / "pool.jsonl", [{"problem_id": "p", "responses": ["a"], "correct": [True]}])
    harness("run", "--pool", pool, "--selector", "uniform", "--store", tmp_path / "given")
    line = refused("likelihoods", tmp_path / "given" / "cells", selector="uniform", store=tmp_path / "given")
    assert line.endswith("carries no token counts: sample one with `harness run`")


def test_only_the_selector_that_made_the_cell_is_run_again_and_must_rank_far_enough(harness, tmp_path):
    edited, root = tmp_path / "toy.py", tmp_path / "runs"
    edited.write_text(TOY.read_text().replace('logprobs, kind="stable")', 'logprobs, kind="stable")[:15]'))
    run = ("run", "--task", "colours", "--engine", "toy", "--selector", "likely", "--limit", "1", "--plugin", edited)
    assert harness(*run, "--store", root).code == 0
    options = {"store": root, "selector": "likely", "k": 16}
    line = refused("likelihoods", root / "cells", plugin_files=(edited,), **options)
    assert line.startswith("selector 'likely', problem 'test/0': ")
    assert "the ranking ended after 15 of 16 responses" in line
    line = refused("likelihoods", root / "cells", **options)
    assert line.startswith("selector 'likely' is not the version that made cell ")


# Which cells a figure shows, and the one line where none or too many could be shown


def test_of_several_embedders_the_papers_is_shown_and_that_is_said_else_one_must_be_named(cells, tmp_path):
    notes = []
    rows = rows_of("scatter", cells, model="parrot", sampler="vanilla", say=notes.append)
    assert [row["embedder"] for row in rows] == ["hidden-mean"]
    assert notes == ["2 embedders (hidden-mean, letters): hidden-mean is shown; --embedder chooses another"]
    for embedder in ("letters", "tfidf"):
        cell = cell_of(cells, model="crow")
        cell["labels"]["embedder"] = cell["inputs"]["embedding"]["key"] = embedder
        stored.write(tmp_path, cell)
    assert refused("scatter", tmp_path) == "cells of 2 embedders (letters, tfidf): say which --embedder"


def test_what_no_figure_can_show_is_refused_in_one_line_and_a_cell_that_cannot_be_counted_is_named(cells, tmp_path):
    copied, notes = Path(shutil.copytree(cells, tmp_path / "runs" / "cells")), []
    other = cell_of(copied, model="crow")
    other["labels"]["task"] = other["inputs"]["pool"]["key"] = "shades"
    stored.write(copied, other)
    (copied / "broken.json").write_text("{")
    assert {row["task"] for row in rows_of("models", copied, **VANILLA, say=notes.append)} == {"colours"}
    assert notes[0].startswith(f"not counted: cell {copied}/broken.json: not JSON")
    assert notes[1] == "left out: shades was run with one model (crow)"
    parrot = {"model": "parrot", **VANILLA}
    where = "`harness run` keeps its cells in runs/cells"
    for name, folder, options, words in (
        ("models", cells, parrot, "colours was run with one model (parrot): run others too, `harness run --model M`"),
        ("models", cells, {"embedder": "hidden-mean"}, "colours · parrot: 2 cells, which differ in sampler (low-temp,"),
        ("samplers", cells, parrot, "colours · parrot was run with one sampler (vanilla): run others too, "),
        ("representations", cells, parrot, "colours · parrot was run with one embedder (hidden-mean): run"),
        ("representations", cells, {"selector": "shuffle"}, "selector 'shuffle' reads no vectors: name one that does"),
        ("scatter", cells, {"selector": "head"}, "selector 'head' chooses sets, not an order: it has no samples-to-"),
        ("scatter", cells, {"selector": None}, "no cell of selector 'repexp'; there are"),
        ("passk", cells, {"sampler": "x"}, "no cell of sampler 'x'; there are low-temp, vanilla: name one of them, or"),
        ("passk", cells, {"k": 3}, "-k goes with `harness plot likelihoods` only"),
        ("passk", cells, {"reference": tmp_path}, "--reference goes with `harness plot hardness` and `harness plot gu"),
        ("likelihoods", cells, {"k": 0}, "-k must be at least 1, got 0"),
        ("passk", tmp_path / "no", {}, f"results {tmp_path}/no: no such folder; {where}"),
        ("passk", tmp_path, {"task": "x"}, "no cell of task 'x'; there are"),
    ):
        assert refused(name, folder, **options).startswith(words), words
    for sampler, problems in (("vanilla", 23), ("low-temp", 12)):
        cell = cell_of(cells, model="parrot", sampler=sampler, embedder="hidden-mean", selector="spread")
        cell["problems"] = cell["problems"][:problems]
        stored.write(tmp_path / "both", cell)
    assert "are not of the same problems: run both with the same --limit" in refused("samplers", tmp_path / "both")


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


# Files, drawings, the command


@pytest.fixture(scope="module")
def tables(cells, figure_store):
    """The table of each figure, by its name."""
    return {name: rows_of(name, cells, store=figure_store, **NARROW.get(name, {})) for name in NAMES}


@pytest.mark.slow
def test_a_figure_is_a_pdf_a_png_and_the_table_it_was_drawn_from(harness, tables, cells, figure_store, tmp_path):
    from PIL import Image

    options = ("--selector", "spread", "--sampler", "vanilla", "--store", figure_store, "--plugin", TOY)
    outcome = harness("plot", "likelihoods", cells, *options, "--out", tmp_path)
    assert outcome.code == 0, outcome.err
    pdf, png, table = (tmp_path / f"likelihoods.{kind}" for kind in ("pdf", "png", "csv"))
    assert outcome.out.splitlines() == [str(pdf), str(png), str(table)]
    assert pdf.read_bytes().startswith(b"%PDF-")
    assert b"/CreationDate" not in pdf.read_bytes()
    assert b"atplotlib" not in png.read_bytes()  # nor its version
    with Image.open(png) as image:
        assert len(image.convert("RGB").getcolors(1 << 24)) > 20  # no empty sheet
    assert table.read_text() == csv_table(tables["likelihoods"])


def test_every_figure_can_be_drawn_and_has_its_title_axes_and_units(tables):
    rows = [row for table in tables.values() for row in table]
    assert all(value == float(f"{value:.6g}") for row in rows for value in row.values() if type(value) is float)
    assert csv_table([{"a": 0.5, "b": None}, {"c": "x"}]) == "a,b,c\n0.5,,\n,,x\n"
    with frame.styled():
        for name, rows in tables.items():
            figure = load_registry().find("plot", name).load()().draw(rows)
            figure.draw_without_rendering()  # warns, and so fails, where the layout does not fit
            assert figure.get_suptitle(), name
            assert figure.legends, name
            for axes in figure.axes:
                assert axes.get_xlabel(), name
                assert axes.get_ylabel() or axes.get_yticklabels(), name


def test_a_drawing_holds_the_tables_values(tables):
    with frame.styled():
        rows = tables["scatter"]
        (axes,) = Scatter().draw(rows).axes
        points = {tuple(map(float, line.get_xydata()[0])) for line in axes.get_lines()}
        assert {(row["random"], row["selected"]) for row in rows} <= points
        wanted = defaultdict(list)
        for row in tables["passk"]:
            wanted[row["series"]].append((row["k"], 100 * row["passed"]))
        (axes,) = curves.PassK().draw(tables["passk"]).axes
        points = [list(zip(*map(list, line.get_data()), strict=True)) for line in axes.get_lines()]
        assert points == list(wanted.values())


def test_figures_are_listed_without_matplotlib_and_what_is_missing_is_one_line(harness, cells, monkeypatch):
    monkeypatch.setattr("harness.system.extras.find_spec", lambda name: None)
    listed = [row["name"] for row in harness("plot", "--list", "--json").rows]
    assert listed[: len(NAMES)] == list(NAMES)  # those of trained models, which are not made of cells, follow
    line = error_line(harness("plot", "passk", cells))
    assert line == "error: plot needs matplotlib: not installed: pip install 'diversity-harness[plots]'"
    line = error_line(harness("plot", "scater"))
    assert line.startswith("error: plot: no figure 'scater' (did you mean 'scatter'? figures: gains, guided,")
