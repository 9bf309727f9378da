"""The report's data: which cells, their figures, points, picks and texts; and a file that nothing in it can break."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
from importlib.resources import files

import numpy as np
import pytest
from support.paths import TOY
from support.processes import run_to_end
from support.report_page import HOSTILE, hostile_pool, parsed, policy, pool_file

from harness import Pool
from harness.scoring.budget_curves import band
from harness.scoring.metrics import random_pass_at_k
from harness.store.json_files import read_record, write_record
from harness_plugins.report.browsing import NONE, OTHER, clusters, flat, sampled
from harness_plugins.report.orders import nearest_earlier
from harness_plugins.report.page import SCRIPTS, encoded, fitted, joined_script
from harness_plugins.report.visible import cut, visible
from harness_selectors.repexp import RepExp


@pytest.fixture
def report(harness, tmp_path):
    """Make the report of tmp_path/runs; its path."""

    def call(*args, store=tmp_path / "runs", plugin=TOY):
        outcome = harness("report", "--store", store, *(("--plugin", plugin) if plugin else ()), *args)
        assert outcome.code == 0, outcome.err
        call.err = outcome.err
        return type(store)(outcome.out.strip())

    return call


def picks_of(data, name):
    place = [selector["name"] for selector in data["selectors"]].index(name)
    return [problem["picks"][place] for problem in data["problems"]]


# Which cells.


def test_the_report_of_the_last_run_is_one_file_in_the_store(toy, report, tmp_path):
    rows = toy("--selector", "repexp", "--selector", "shuffle").rows
    path = report()
    assert path == tmp_path / "runs" / "report.html"
    data, _, _ = parsed(path)
    measured = {row["name"]: row for row in data["rows"] if not row["reference"]}
    for row in rows:
        shown = measured[row["selector"]]
        assert shown["cell"] == row["cell"]
        for ours, theirs in (("samples_to_correct",) * 2, ("improvement",) * 2, ("interval", "improvement_ci")):
            assert shown[ours] == row[theirs]
        assert shown["passed"] == [row["pass_at_k"][k] for k in data["budgets"]]
        assert shown["shares"] == [row["win"], row["tie"], row["loss"]]
    references = [row["name"] for row in data["rows"] if row["reference"]]
    assert references == ["random (exact)", "oracle", "anti-oracle"]
    assert data["rows"][0]["samples_to_correct"] == rows[0]["samples_to_correct_random"]


def test_the_table_has_chances_budgets_and_what_its_intervals_are_worth(toy, report):
    rows = {row["selector"]: row for row in toy(*(f"--selector={s}" for s in ("repexp", "shuffle", "spread"))).rows}
    data, _, _ = parsed(report())
    shown = {row["name"]: row for row in data["rows"]}
    for name, row in rows.items():
        for ours, theirs in (("p", "p_random"), ("k95", "k95"), ("calls_saved", "calls_saved"), ("trust", "trust")):
            assert shown[name][ours] == row[theirs]
        assert shown[name]["trust"] == "few problems"
    assert shown["random (exact)"]["k95"] == rows["shuffle"]["k95_random"]
    smallest_first = sorted(rows, key=lambda name: rows[name]["p_random"])
    bound = 1.0
    for place, name in reversed(list(enumerate(smallest_first, 1))):  # Benjamini and Hochberg's step up
        bound = min(bound, rows[name]["p_random"] * 3 / place)
        assert shown[name]["q"] == pytest.approx(bound, rel=1e-4)


def test_a_subset_method_is_tested_by_its_sets_and_has_no_budget_of_its_own(toy, report):
    (row,) = toy("--selector", "head").rows
    shown = parsed(report())[0]["rows"][-1]
    assert shown["p"] == shown["q"] == row["p_budget"] is not None
    assert (shown["k95"], shown["calls_saved"], shown["trust"]) == (None, None, None)


def test_cells_of_another_pool_or_other_problems_are_left_out(toy, report):
    toy("--selector", "shuffle", "--seed", "3")
    toy("--selector", "spread", "--limit", "2")
    toy("--selector", "shuffle")
    toy("--selector", "repexp")
    data, _, _ = parsed(report())
    assert {selector["name"] for selector in data["selectors"]} == {"shuffle", "repexp"}
    assert data["about"]["problems"] == 6


def test_cells_can_be_named_by_the_beginning_of_their_keys(toy, report, tmp_path):
    rows = toy("--selector", "repexp", "--selector", "shuffle", "--selector", "spread").rows
    out = tmp_path / "deep" / "two.html"
    path = report("--cell", rows[0]["cell"][:12], "--cell", rows[2]["cell"], "--out", out)
    assert path == out
    assert {selector["name"] for selector in parsed(path)[0]["selectors"]} == {"repexp", "spread"}


def test_what_cannot_be_reported_is_one_line(toy, harness, tmp_path):
    store = ("--store", tmp_path / "runs")
    assert "no cells in" in harness("report", *store).err
    first = toy("--selector", "shuffle").rows[0]["cell"]
    second = toy("--selector", "shuffle", "--seed", "1").rows[0]["cell"]
    outcome = harness("report", *store, "--cell", first, "--cell", second)
    assert outcome.code == 2
    assert "one report shows one pool" in outcome.err
    assert "no cell of" in harness("report", *store, "--cell", "nothing").err
    assert "2 cells of" in harness("report", *store, "--cell", "").err


def test_an_edited_cell_and_a_failed_one_are_named_and_left_out(toy, report, harness, tmp_path):
    rows = toy("--selector", "shuffle", "--selector", "raising", "--selector", "spread").rows
    path = tmp_path / "runs" / "cells" / f"{rows[0]['cell']}.json"
    path.write_text(path.read_text().replace('"errors":0', '"errors":1'))
    data, _, _ = parsed(report())
    assert [selector["name"] for selector in data["selectors"]] == ["spread"]
    assert f"left out: cell {path}: was edited" in report.err
    assert "failed (selector 'raising'" in report.err
    outcome = harness("report", "--store", tmp_path / "runs", "--cell", rows[0]["cell"])
    assert (outcome.code, "was edited" in outcome.err) == (2, True)


def test_of_two_cells_of_one_selector_the_newer_is_shown(toy, report, tmp_path):
    plugin = tmp_path / "mine.py"
    source = "class Mine:\n    needs = ()\n    def rank(self, pool, rng):\n        yield from {order}\n\n\n"
    source += "from harness import hookimpl\n@hookimpl\ndef register_selectors(register):\n    register('mine', Mine)\n"
    cells = []
    for order in ("range(len(pool))", "reversed(range(len(pool)))"):
        plugin.write_text(source.format(order=order))
        cells.append(toy("--selector", "mine", "--plugin", plugin).rows[0]["cell"])
        os.utime(tmp_path / "runs" / "cells" / f"{cells[-1]}.json", (len(cells), len(cells)))
    data, _, _ = parsed(report("--plugin", plugin))
    assert [row["cell"] for row in data["rows"] if not row["reference"]] == cells[1:]


def test_names_say_the_embedder_where_there_are_several(toy, report):
    toy("--selector", "repexp", "--selector", "shuffle")
    toy("--selector", "repexp", "--embedder", "letters")
    data, _, _ = parsed(report())
    names = {selector["name"] for selector in data["selectors"]}
    assert names == {"repexp · hidden-mean", "repexp · letters", "shuffle"}


# Figures.


def test_random_selections_curve_is_the_closed_form_and_lies_in_its_band(toy, report):
    toy("--selector", "shuffle")
    data, _, _ = parsed(report())
    random, oracle, shuffle = data["curves"]
    n = np.array([problem["n"] for problem in data["problems"]])
    c = np.array([problem["c"] for problem in data["problems"]])
    for place, k in enumerate(random["k"]):
        assert random["mean"][place] == pytest.approx(random_pass_at_k(n, c, k).mean(), abs=1e-4)
        assert random["low"][place] <= random["mean"][place] <= random["high"][place]
    assert oracle["mean"] == [pytest.approx((c > 0).mean(), abs=1e-4)] * len(random["k"])
    assert shuffle["k"] == sorted(set(shuffle["k"]))
    assert shuffle["k"][-1] == n[0]
    assert sum(high > low for low, high in zip(shuffle["low"], shuffle["high"], strict=True)) > 3


def test_a_band_is_as_wide_as_the_mean_of_many_problems_is_uncertain():
    shares = np.random.default_rng(0).random((400, 3)) ** [0.5, 1, 3]
    low, high = band(shares, seed=1)
    half = 1.96 * shares.std(axis=0) / 20
    assert low == pytest.approx(shares.mean(axis=0) - half, abs=0.004)
    assert high == pytest.approx(shares.mean(axis=0) + half, abs=0.004)
    assert np.array_equal(band(shares, seed=1), (low, high))


def test_a_curve_counts_no_problem_without_a_correct_response(harness, report, tmp_path):
    pool = pool_file(tmp_path / "p.jsonl", {"a": [("x", 1), ("y", 0)], "b": [("x", 0), ("y", 0)]})
    harness("run", "--pool", pool, "--selector", "uniform", "--store", tmp_path / "runs")
    data, _, _ = parsed(report(plugin=None))
    assert [curve["mean"][-1] for curve in data["curves"]] == [0.5, 0.5, 0.5]
    assert data["problems"][0]["picks"][0]["ranks"] == [3] * 5  # the hardest first


def test_a_subset_method_has_budgets_and_sets_and_no_order(toy, report):
    toy("--selector", "head", "--selector", "shuffle")
    data, _, _ = parsed(report())
    curve = next(curve for curve in data["curves"] if curve["name"] == "head")
    assert curve["k"] == [1, 2, 4, 8, 16]
    assert [selector["kind"] for selector in data["selectors"]] == ["order", "subset"]
    solvable = [
        picks for picks, problem in zip(picks_of(data, "head"), data["problems"], strict=True) if problem["c"] > 0
    ]
    assert solvable
    assert all(picks["sets"]["4"] == [0, 1, 2, 3] and "order" not in picks for picks in solvable)


# Picks.


def test_orders_go_on_to_the_end_beyond_the_first_correct_pick(toy, report, tmp_path):
    toy("--selector", "repexp", "--selector", "shuffle")
    data, _, _ = parsed(report())
    for name in ("repexp", "shuffle"):
        key = next(row["cell"] for row in data["rows"] if row["name"] == name)
        cell = json.loads((tmp_path / "runs" / "cells" / f"{key}.json").read_text())
        stored = {entry["id"]: entry["orders"] for entry in cell["problems"]}
        for problem, picks in zip(data["problems"], picks_of(data, name), strict=True):
            assert sorted(picks["order"]) == list(range(16))
            assert picks["note"] == ""
            first = stored[problem["id"]][0]
            assert picks["order"][: len(first)] == first
            assert problem["verdict"][first[-1]] == "c"
            assert "c" not in [problem["verdict"][index] for index in first[:-1]]


def test_a_selector_that_changed_or_is_gone_shows_its_stored_picks_and_says_so(harness, report, tmp_path):
    plugin = tmp_path / "changing.py"
    shutil.copy(TOY, plugin)
    fixed = ("--task", "colours", "--engine", "toy", "--plugin", plugin, "--store", tmp_path / "runs")
    assert harness("run", *fixed, "--selector", "shuffle").code == 0
    whole = picks_of(parsed(report(plugin=plugin))[0], "shuffle")
    plugin.write_text(plugin.read_text() + "\nEDITED = True\n")
    for given, reason in ((plugin, "another version"), (None, "unknown selector 'shuffle'")):
        picks = picks_of(parsed(report(plugin=given))[0], "shuffle")
        for one, before in zip(picks, whole, strict=True):
            assert reason in one["note"]
            assert one["order"] == before["order"][: one["ranks"][0]]
            assert len(one["values"]) == len(one["order"])


def test_an_order_that_does_not_begin_as_the_stored_one_is_not_shown(toy, report, tmp_path):
    toy("--selector", "shuffle")
    whole = picks_of(parsed(report())[0], "shuffle")[-1]
    for path in (tmp_path / "runs" / "ranking").glob("*/test*.json"):
        ranking = read_record(path)
        ranking["trials"][0] = [whole["order"][-1]]
        write_record(path, ranking)
    picks = picks_of(parsed(report())[0], "shuffle")[-1]
    assert picks["order"] == [whole["order"][-1]]
    assert "differs" in picks["note"]


def test_the_elliptical_bonus_is_that_of_its_definition():
    h = np.random.default_rng(0).normal(size=(9, 4))
    h[5] = h[2]
    lam, expected = 0.3, []
    for row in range(9):
        expected.append(float(h[row] @ np.linalg.inv(lam * np.eye(4) + h[:row].T @ h[:row]) @ h[row]))
    assert RepExp(lam=lam).bonuses(h) == pytest.approx(expected)
    assert RepExp(lam=lam).bonuses(h[:0]) == []


def test_the_distance_to_the_nearest_earlier_pick_is_that_of_brute_force():
    h = np.random.default_rng(1).normal(size=(7, 3))
    expected = [None] + [min(float(np.linalg.norm(h[i] - h[j])) for j in range(i)) for i in range(1, 7)]
    assert nearest_earlier(h) == [None, *map(pytest.approx, expected[1:])]


def test_repexp_shows_its_bonus_and_others_a_distance(toy, report):
    toy("--selector", "repexp:lam=0.5", "--selector", "spread", "--selector", "shuffle")
    data, _, _ = parsed(report())
    bonuses, distances = picks_of(data, "repexp:lam=0.5")[0], picks_of(data, "spread")[0]
    assert bonuses["figure"] == "elliptical bonus"
    assert np.all(np.diff(bonuses["values"][1:]) < 1e-3)  # after the random first pick each has the largest left
    assert distances["figure"].startswith("distance")
    assert distances["values"][0] is None
    assert len(bonuses["values"]) == len(distances["values"]) == 16
    assert picks_of(data, "shuffle")[0]["values"][1] > 0  # it reads no vectors, and is measured on the map's


# Points and clusters.


def test_points_in_a_plane_keep_their_distances_on_the_map():
    plane = np.random.default_rng(2).normal(size=(30, 2)) * [3, 1]
    turned = plane @ np.linalg.qr(np.random.default_rng(3).normal(size=(40, 2)))[0].T
    for vectors in (turned, np.repeat(turned, 2, axis=0)):
        centred = vectors - vectors.mean(axis=0)
        shown = flat(centred)
        points = np.column_stack([shown["x"], shown["y"]])
        assert shown["variance"] == 1.0
        assert np.ptp(points[:, 0]) == 1000
        ours = np.linalg.norm(points[:, None] - points, axis=2)
        theirs = np.linalg.norm(centred[:, None] - centred, axis=2)
        assert ours == pytest.approx(theirs * ours.max() / theirs.max(), abs=2)


def test_vectors_that_do_not_differ_lie_at_one_place():
    for vectors in (np.zeros((5, 3)), np.zeros((5, 0)), np.zeros((1, 3))):
        shown = flat(vectors)
        assert set(shown["x"]) == set(shown["y"]) == {500}
        assert shown["variance"] is None
    line = flat(np.array([[-1.0], [0.0], [1.0]]))
    assert (line["x"], line["y"]) in (([0, 500, 1000], [500] * 3), ([1000, 500, 0], [500] * 3))


def pool_of(answers, texts=None):
    n = len(answers)
    return Pool(texts or ["x"] * n, np.zeros((n, 0), np.float32), np.zeros(n), np.zeros(n, np.int64), answers)


def test_the_seven_largest_clusters_have_colours_the_rest_and_no_answer_have_theirs():
    answers = [letter for letter, size in zip("abcdefghi", range(10, 1, -1), strict=True) for _ in range(size)]
    labels, members, by = clusters(pool_of([*answers, None]))
    assert [label for label, _ in labels] == list("abcdefg")
    assert [size for _, size in labels] == [10, 9, 8, 7, 6, 5, 4]
    assert (members.count(OTHER), members[-1], by) == (3 + 2, NONE, "answer")
    labels, members, by = clusters(pool_of([None] * 3, ["x ", "y", "x"]))
    assert (labels, members, by) == ([["x", 2], ["y", 1]], [0, 1, 0], "text")


def test_a_run_without_vectors_has_a_map_of_its_words(toy, report):
    toy("--engine", "stateless", "--selector", "shuffle")
    data, _, _ = parsed(report())
    assert data["problems"][0]["map"]["of"] == "tfidf"
    assert len(set(data["problems"][0]["map"]["x"])) > 2


def test_the_problems_of_a_large_run_are_a_seeded_sample_even_over_hardness():
    entries = [{"id": f"p{i}", "c": i % 50, "n": 64} for i in range(500)]
    chosen = sampled(entries, 100, "seed")
    assert len({entry["id"] for entry in chosen}) == 100
    assert [entry["c"] for entry in chosen] == sorted(entry["c"] for entry in chosen)
    assert np.bincount([entry["c"] for entry in chosen]).tolist() == [2] * 50
    assert sampled(entries[::-1], 100, "seed") == chosen
    assert sampled(entries, 100, "other") != chosen
    assert len(sampled(entries[:7], 100, "seed")) == 7


def test_without_the_responses_the_table_is_still_shown(toy, report, tmp_path):
    toy("--selector", "shuffle")
    shutil.rmtree(tmp_path / "runs" / "pool")
    data, _, _ = parsed(report())
    assert data["problems"] == []
    assert "not in the store" in data["browsing"]["note"]
    assert len(data["rows"]) == 4


@pytest.mark.parametrize(("kind", "suffix"), [("verdict", "parquet"), ("ranking", "json")])
def test_a_problem_that_lost_a_shard_is_left_out_and_counted(toy, report, tmp_path, kind, suffix):
    toy("--selector", "shuffle", "--selector", "spread")
    next((tmp_path / "runs" / kind).glob(f"*/test_2*.{suffix}")).unlink()
    data, _, _ = parsed(report())
    assert sorted(problem["id"] for problem in data["problems"]) == [f"test/{i}" for i in (0, 1, 3, 4, 5)]
    assert data["browsing"]["note"] == "1 problems have no responses in the store."


def test_the_map_is_of_the_vectors_that_most_selectors_read(toy, report):
    toy("--selector", "repexp", "--selector", "spread", "--embedder", "letters")
    toy("--selector", "repexp")
    assert {problem["map"]["of"] for problem in parsed(report())[0]["problems"]} == {"letters"}


# Texts and the file.


def test_what_cannot_be_seen_is_spelled_out():
    assert visible("a\x00b\x1b\u202e\u200b\ud800") == "a⟨U+0000⟩b⟨U+001B⟩⟨U+202E⟩⟨U+200B⟩⟨U+D800⟩"
    assert visible("tab\tline\r\nend\rlone") == "tab\tline\nend⟨U+000D⟩lone"
    assert (
        visible("naïve \u05e9\u05dc\u05d5\u05dd \U0001f600 e\u0301")
        == "naïve \u05e9\u05dc\u05d5\u05dd \U0001f600 e\u0301"
    )
    assert len(visible("Z" + "\u0301" * 500)) == 5
    assert cut("x" * 10, 4) == ["xxxx", 10]
    assert cut("x" * 4, 4) == "xxxx"


def test_no_data_can_end_its_element():
    for text in HOSTILE:
        written = encoded({"text": text, text[:50]: [text]}).decode()
        assert not set("<>&\u2028\u2029") & set(written)
        assert json.loads(written) == {"text": text, text[:50]: [text]}


def test_hostile_responses_leave_a_page_of_its_own_elements_only(harness, report, tmp_path):
    pool = hostile_pool(tmp_path / "pool.jsonl")
    outcome = harness(
        "run", "--pool", pool, "--selector", "repexp", "--selector", "uniform", "--store", tmp_path / "runs"
    )
    assert outcome.code == 0, outcome.err
    path = report(plugin=None)
    data, found, tags = parsed(path)
    assert [(tag, attrs.get("type")) for tag, attrs, _ in found] == [
        ("style", None),
        ("script", "application/json"),
        ("script", None),
    ]
    assert "img" not in tags
    assert "b" not in tags
    easiest = {problem["id"]: problem for problem in data["problems"]}["<script>alert(0)</script>"]
    shown = [easiest["texts"][place] for place in easiest["text"]]
    assert shown[0] == HOSTILE[0]
    half_a_megabyte = shown[8]
    assert half_a_megabyte[1] == len(HOSTILE[8])
    assert HOSTILE[8].startswith(half_a_megabyte[0])
    assert path.stat().st_size < 300_000


def test_the_policy_allows_this_script_and_this_style_and_nothing_else(toy, report):
    toy("--selector", "shuffle")
    path = report()
    _, (style, _, script), _ = parsed(path)

    def hashed(text):
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    assert policy(path).split("; ") == [
        "default-src 'none'",
        f"script-src {hashed(script[2])}",
        f"style-src {hashed(style[2])}",
        "base-uri 'none'",
        "form-action 'none'",
    ]


def test_the_script_is_its_files_joined_in_a_block_that_makes_no_name_global(toy, report):
    toy("--selector", "shuffle")
    _, (_, _, (_, _, script)), _ = parsed(report())
    folder = files("harness_plugins.report")
    assert {f"{name}.js" for name in SCRIPTS} == {one.name for one in folder.iterdir() if one.name.endswith(".js")}
    assert script.startswith('"use strict";\n{\n')
    at = [script.index((folder / f"{name}.js").read_text()) for name in SCRIPTS]
    assert at == sorted(at)


@pytest.mark.skipif(not shutil.which("oxlint"), reason="needs oxlint (pip install oxlint)")
def test_the_script_passes_the_linter(tmp_path):
    script, settings = tmp_path / "script.js", tmp_path / "settings.json"
    script.write_text(joined_script())
    wanted = ("no-undef", "no-redeclare", "no-unused-vars", "prefer-const", "eqeqeq")
    rules = {"categories": {"correctness": "error"}, "rules": dict.fromkeys(wanted, "error")}
    settings.write_text(json.dumps({"env": {"browser": True, "es2022": True}, **rules}))
    done = run_to_end(["oxlint", "--config", settings, script])
    assert done.returncode == 0, done.stdout


def test_the_same_store_gives_the_same_bytes(toy, report):
    toy("--selector", "repexp", "--selector", "shuffle", "--selector", "head")
    first = report().read_bytes()
    assert report().read_bytes() == first


def test_a_hundred_problems_of_long_texts_stay_under_three_megabytes(harness, report, tmp_path):
    words = np.random.default_rng(0).integers(0, 10**9, size=(130, 64, 40))
    texts = {
        f"p{i:03}": [("".join(map(str, row)) * 5, j < i % 9) for j, row in enumerate(rows)]
        for i, rows in enumerate(words)
    }
    pool = pool_file(tmp_path / "pool.jsonl", texts)
    options = ("--selector", "uniform", "--selector", "length", "--store", tmp_path / "runs")
    assert harness("run", "--pool", pool, *options).code == 0
    path = report(plugin=None)
    data, _, _ = parsed(path)
    assert path.stat().st_size < 3_000_000
    assert (data["browsing"]["shown"], data["browsing"]["total"]) == (100, 130)
    assert data["browsing"]["cut_at"] == 250
    begin, length = data["problems"][0]["texts"][0]
    assert (len(begin), length) == (250, len(texts[data["problems"][0]["id"]][0][0]))


def test_where_no_cut_is_short_enough_fewer_problems_are_shown():
    views = [{"id": place, "texts": ["x" * 5000] * 10} for place in range(40)]
    shown, cut_at = fitted(views, 3000)
    assert len(encoded(shown)) <= 3000
    assert 2 <= len(shown) < 40
    assert cut_at == 40
    assert shown[0]["id"] == 0
    assert fitted(views[:1], 10) == ([], 40)
    assert fitted(views[:1], 10**6)[1] == 4000
    assert fitted([{"texts": ["short"]}], 10**6) == ([{"texts": ["short"]}], None)
