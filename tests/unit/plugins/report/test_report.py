"""The report of a run: one file that nothing in its data can break; which cells and problems it shows, and how."""

import json
import os
import re
import shlex
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from support.cells import cell
from support.cells import entry as new_entry
from support.paths import TOY
from support.refusals import error_line
from support.report_page import HOSTILE, hostile_pool, parsed
from support.stores import files_of

from harness import Pool
from harness.jobs import run as pipeline
from harness.jobs.options import RunConfig
from harness.results import cells
from harness.scoring.metrics import random_pass_at_k
from harness.system.progress import Progress
from harness_plugins.report import browsing, writing
from harness_plugins.report.browsing import NONE, OTHER, clusters, flat
from harness_plugins.report.page import BUDGET_BYTES, cut, encoded, fitted, page, side_file, visible
from harness_plugins.report.results import Cell, commands
from harness_plugins.report.writing import hardest_first, sampled, write_report

SELECTORS = {"repexp", "shuffle", "spread", "head"}


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """The report of a run of rankers and a subset method on the toy, with its rows. Not to be changed."""
    store = tmp_path_factory.mktemp("report") / "runs"
    fixed = {"task": "colours", "engine": "toy", "plugin_files": [TOY], "executor": "local:workers=1", "store": store}
    config = RunConfig(selectors=("repexp", "shuffle", "spread", "head"), **fixed)
    rows = {row.selector: row.to_json() for row in pipeline.run(config, Progress())[0]}
    path = write_report(store, (), None, [TOY], Progress())
    problems = {name: cells.read(store / "cells" / f"{row['cell']}.json")["problems"] for name, row in rows.items()}
    return SimpleNamespace(store=store, rows=rows, path=path, data=parsed(path)[0], problems=problems)


@pytest.fixture
def copied(shown, tmp_path):
    """A copy of that run's store, at the place where `toy` adds to it."""
    return Path(shutil.copytree(shown.store, tmp_path / "runs"))


@pytest.fixture
def report(harness, tmp_path):
    """Make the report of tmp_path/runs: its data; `report.path` and `report.err` are of the last."""

    def call(*args, plugin=TOY):
        outcome = harness("report", "--store", tmp_path / "runs", *(("--plugin", plugin) if plugin else ()), *args)
        assert outcome.code == 0, outcome.err
        call.err, call.path = outcome.err, Path(outcome.out.strip())
        return parsed(call.path)[0]

    return call


def names(data):
    return {selector["name"] for selector in data["selectors"]}


def picks_of(data, name):
    """A selector's picks of each problem shown."""
    place = [selector["name"] for selector in data["selectors"]].index(name)
    return [problem["picks"][place] for problem in data["problems"]]


def test_the_table_has_the_references_and_the_rows_of_the_run_the_best_first(shown):
    rows = shown.data["rows"]
    controls = ["length", "length:first=long", "norm"]
    assert [row["name"] for row in rows[:6]] == ["random (exact)", "oracle", "anti-oracle", *controls]
    assert [row["reference"] for row in rows] == [True] * 6 + [False] * 4
    assert rows[0]["samples_to_correct"] == shown.rows["shuffle"]["samples_to_correct_random"]
    improvements = [row["improvement"] for row in rows[6:-1]]
    assert improvements == sorted(improvements, reverse=True)
    for entry in rows[6:]:
        row, ranked = shown.rows[entry["name"]], entry["name"] != "head"
        for name in ("samples_to_correct", "improvement", "cell", "k95", "calls_saved"):
            assert entry[name] == row[name], name
        assert entry["interval"] == row["improvement_ci"]
        assert entry["passed"] == [row["pass_at_k"][k] for k in shown.data["budgets"]]
        assert entry["shares"] == ([row["win"], row["tie"], row["loss"]] if ranked else None)
        assert entry["q"] >= entry["p"] == row["p_random" if ranked else "p_budget"]
        assert entry["trust"] == ("few problems" if ranked else None)


def test_random_selections_curve_is_the_closed_form_in_its_band_and_one_answer_of_k_has_none(shown):
    random, oracle, *others = shown.data["curves"]
    n, c = (np.array([problem[name] for problem in shown.data["problems"]]) for name in ("n", "c"))
    for k, low, high, mean in zip(*(random[name] for name in ("k", "low", "high", "mean")), strict=True):
        assert mean == pytest.approx(random_pass_at_k(n, c, k).mean(), abs=1e-4)
        assert low <= mean <= high
    assert oracle["mean"] == [pytest.approx((c > 0).mean(), abs=1e-4)] * len(random["k"])
    answers = {curve["name"]: curve for curve in others if curve["kind"] == "answer"}
    assert list(answers) == ["avg@k", "maj@k", "best of k by mean-logprob"]
    maj, given = answers["maj@k"], shown.rows["shuffle"]["maj_at_k"]
    assert maj["mean"] == pytest.approx(list(given.values()), abs=1e-4)
    assert (maj["k"], maj["low"], oracle["low"]) == ([1, 2, 4, 8, 16], None, None)
    [line] = shown.data["about"]["one_answer"]
    assert f"maj@4, 16): {100 * given['4']:.1f}, {100 * given['16']:.1f}" in line


def test_every_problem_of_a_run_is_listed_with_what_its_cells_say(shown):
    listed, entries = shown.data["index"], hardest_first(shown.problems["repexp"])
    for name in ("id", "n", "c"):
        assert listed[name] == [entry[name] for entry in entries]
    for selector, ranks in zip(shown.data["selectors"], listed["ranks"], strict=True):
        by_id = {entry["id"]: entry.get("ranks") for entry in shown.problems[selector["name"]]}
        assert (ranks is None) == (selector["kind"] == "subset")
        for name, rank in zip(listed["id"], ranks or [], strict=ranks is not None):
            assert rank == (by_id[name] if len(set(by_id[name])) > 1 else by_id[name][0])


def test_cells_of_another_pool_or_other_problems_are_left_out_and_refused_where_both_are_named(
    toy, report, harness, copied, shown
):
    (seeded,) = toy("--selector", "shuffle", "--seed", "3").rows
    toy("--selector", "spread", "--limit", "2")
    newest = shown.rows["shuffle"]["cell"]
    os.utime(copied / "cells" / f"{newest}.json", (2e9, 2e9))
    data = report()
    assert (names(data), data["about"]["problems"]) == (SELECTORS, 6)
    pool = cells.read(copied / "cells" / f"{seeded['cell']}.json")["inputs"]["pool"]["key"][:8]
    assert f"not in this report: seed 3 (harness report --pool {pool})" in report.err
    assert "2 problems (harness report --cell" in data["about"]["remarks"][-1]
    other = report("--pool", pool)
    assert (names(other), other["about"]["seed"]) == ({"shuffle"}, 3)
    line = error_line(harness("report", "--store", copied, "--pool", "nothing"))
    assert line.startswith(f"error: report: no cell of pool 'nothing' in {copied}/cells; there are cells of ")
    both = [word for name in ("repexp", "spread") for word in ("--cell", shown.rows[name]["cell"][:12])]
    out = copied.parent / "deep" / "two.html"
    assert (names(report(*both, "--out", out)), report.path) == ({"repexp", "spread"}, out)
    assert "no cell whose key begins so" in error_line(harness("report", "--store", copied, "--cell", "nothing"))
    line = error_line(harness("report", "--store", copied, "--cell", newest, "--cell", seeded["cell"]))
    assert line.endswith("differ in pool, verdicts, problems, trials, seed or --correct: one report shows one pool")


def test_an_edited_cell_and_a_failed_one_are_named_and_left_out(toy, report, harness, copied, shown, tmp_path):
    assert "report: no cells in" in error_line(harness("report", "--store", tmp_path))
    toy("--selector", "raising")
    key = shown.rows["shuffle"]["cell"]
    path = copied / "cells" / f"{key}.json"
    path.write_text(path.read_text().replace('"errors":0', '"errors":1'))
    assert names(report()) == SELECTORS - {"shuffle"}
    assert f"left out: cell {path}: was edited" in report.err
    assert "failed (selector 'raising'" in report.err
    assert "was edited" in error_line(harness("report", "--store", copied, "--cell", key))


def test_the_page_has_the_command_that_makes_its_run_again(shown, harness, tmp_path, monkeypatch):
    monkeypatch.chdir(TOY.parent)
    (line,) = shown.data["commands"]
    words, store = shlex.split(line)[1:], tmp_path / "again"
    outcome = harness(*words, *(() if "--plugin" in words else ("--plugin", TOY)), "--store", store)
    assert outcome.code == 0, outcome.err
    assert sorted(os.listdir(store / "cells")) == sorted(os.listdir(shown.store / "cells"))


def test_recorded_options_are_written_as_they_are_and_no_text_leaves_its_word():
    config = {
        "task": "$(rm -rf /)",
        "max_tokens": 64,
        "regrade": True,
        "audit": False,
        "ids": None,
        "plugin": ["a b.py"],
    }
    made = [cell([new_entry("a", [1])]) | {"config": config | {"selector": [name]}} for name in ("x\n;ls\x1b[2J", "y")]
    (line,) = commands([Cell("0", content) for content in made])
    words = ["harness", "run", "--task", "$(rm -rf /)", "--max-tokens", "64", "--regrade", "--plugin", "a b.py"]
    assert shlex.split(line) == [*words, "--selector", "x ;ls⟨U+001B⟩[2J", "--selector", "y"]
    assert "\n" not in line


def test_points_in_a_plane_keep_their_distances_on_the_map():
    plane = np.random.default_rng(2).normal(size=(30, 2)) * [3, 1]
    turned = plane @ np.linalg.qr(np.random.default_rng(3).normal(size=(40, 2)))[0].T
    for vectors in (turned, np.repeat(turned, 2, axis=0)):  # fewer than dimensions, and more
        centred = vectors - vectors.mean(axis=0)
        made = flat(centred)
        points = np.column_stack([made["x"], made["y"]])
        assert (made["variance"], np.ptp(points[:, 0])) == (1.0, 1000)
        ours, theirs = (np.linalg.norm(each[:, None] - each, axis=2) for each in (points, centred))
        assert ours == pytest.approx(theirs * ours.max() / theirs.max(), abs=2)


def test_the_seven_largest_clusters_have_colours_the_rest_and_no_answer_have_theirs():
    def clustered(answers, texts=None):
        n = len(answers)
        columns = np.zeros((n, 0), np.float32), np.zeros(n), np.zeros(n, np.int64)
        return clusters(Pool(texts or ["x"] * n, *columns, answers))

    answers = [letter for letter, size in zip("abcdefghi", range(10, 1, -1), strict=True) for _ in range(size)]
    labels, members, by = clustered([*answers, None])
    assert labels == [[letter, size] for letter, size in zip("abcdefg", range(10, 3, -1), strict=True)]
    assert (members.count(OTHER), members[-1], by) == (3 + 2, NONE, "answer")
    assert clustered([None] * 3, ["x ", "y", "x"]) == ([["x", 2], ["y", 1]], [0, 1, 0], "text")


def test_orders_go_on_to_the_end_and_repexp_shows_its_bonus_others_the_distance_to_the_nearest_earlier_pick(shown):
    stored = {entry["id"]: entry["orders"][0] for entry in shown.problems["repexp"]}
    for problem, picks in zip(shown.data["problems"], picks_of(shown.data, "repexp"), strict=True):
        assert (sorted(picks["order"]), picks["note"]) == (list(range(16)), "")
        first = stored[problem["id"]]
        assert picks["order"][: len(first)] == first
        assert [problem["verdict"][index] == "c" for index in first] == [False] * (len(first) - 1) + [True]
    bonuses, distances = picks_of(shown.data, "repexp")[0], picks_of(shown.data, "spread")[0]
    assert (bonuses["figure"], len(bonuses["values"])) == ("elliptical bonus", 16)
    assert np.all(np.diff(bonuses["values"][1:]) < 1e-3)  # after the random first pick each has the largest left
    assert distances["figure"].startswith("distance")
    assert picks_of(shown.data, "shuffle")[0]["values"][1] > 0  # it reads no vectors, and is measured on the map's
    h = np.random.default_rng(1).normal(size=(7, 3))
    expected = [min(float(np.linalg.norm(h[i] - h[j])) for j in range(i)) for i in range(1, 7)]
    assert browsing.nearest_earlier(h) == [None, *map(pytest.approx, expected)]


def test_a_selector_that_changed_or_is_gone_shows_its_stored_picks_and_says_so(report, copied, shown, tmp_path):
    changed = tmp_path / "changed.py"
    changed.write_text(TOY.read_text() + "\nEDITED = True\n")
    for plugin, reason in ((changed, "another version"), (None, "unknown selector 'shuffle'")):
        picks = picks_of(report(plugin=plugin), "shuffle")
        for entry, before in zip(picks, picks_of(shown.data, "shuffle"), strict=True):
            assert reason in entry["note"]
            assert entry["order"] == before["order"][: entry["ranks"][0]]
            assert len(entry["values"]) == len(entry["order"])


def test_a_problem_that_lost_a_file_is_left_out_and_without_the_responses_the_table_alone_is_shown(report, copied):
    for name, kind in (("2", "verdicts"), ("4", "orders")):
        next(path for path in files_of(copied, kind) if path.name.startswith(f"test_{name}")).unlink()
    data = report()
    assert sorted(problem["id"] for problem in data["problems"]) == [f"test/{i}" for i in (0, 1, 3, 5)]
    assert data["browsing"]["note"] == "2 problems have no responses in the store."
    shutil.rmtree(files_of(copied, "responses")[0].parents[1])
    data = report()
    assert (data["problems"], len(data["rows"])) == ([], 3 + 3 + 4)  # references, controls, selectors
    assert "not in the store" in data["browsing"]["note"]


def pool_in(path):
    """What a file hands to the page: JSON in a string literal, the only thing in its one statement."""
    literal = re.fullmatch(r'document\.currentScript\.dataset\.pool = ("[^\n]*");\n', path.read_text())[1]
    assert not set("<>&\u2028\u2029") & set(literal)
    return json.loads(json.loads(literal))


def test_a_pool_without_room_in_the_page_is_in_a_file_beside_it_and_the_same_store_gives_the_same_bytes(
    report, copied, shown, monkeypatch
):
    (copied / "report.html").unlink()
    with monkeypatch.context() as patch:
        patch.setattr(writing, "MOST_PROBLEMS", 2)
        data = report()
        folder, where = copied / "report-files", data["index"]["where"]
        before = {path.name: path.read_bytes() for path in (*folder.iterdir(), report.path)}
        for name in ("77.js", "mine.js"):
            (folder / name).write_text("mine")
        report()
    after = {path.name: path.read_bytes() for path in (*folder.iterdir(), report.path)}
    assert after == before | {"mine.js": b"mine"}
    assert sorted(where) == list("ffffpp")
    assert [view["at"] for view in data["problems"]] == [at for at, letter in enumerate(where) if letter == "p"]
    assert data["browsing"] | {"shown": 2, "total": 6} == data["browsing"]
    assert data["files"] | {"folder": "report-files", "count": 4} == data["files"]
    whole = {view["id"]: view for view in shown.data["problems"]}
    for path in [folder / f"{at}.js" for at, letter in enumerate(where) if letter == "f"]:
        read = pool_in(path)
        view, other = read["view"], whole[data["index"]["id"][int(path.stem)]]
        assert read["report"] == data["files"]["report"]
        assert view | {"picks": 0, "at": 0} == other | {"picks": 0, "at": 0}
        for picks, more in zip(view["picks"], other["picks"], strict=True):
            if "sets" in picks:
                assert picks == more
            elif view["c"]:
                assert picks["order"] == more["order"][: picks["ranks"][0]]
                assert (picks["note"], len(picks["values"])) == (browsing.STORED, len(picks["order"]))
    assert report()["files"] is None
    assert [path.name for path in folder.iterdir()] == ["mine.js"]
    assert report.path == copied / "report.html"
    assert report.path.read_bytes() == shown.path.read_bytes()


def test_no_data_can_end_its_element_or_file_and_hostile_responses_leave_a_page_of_its_own_elements_only(
    harness, report, tmp_path
):
    for text in HOSTILE:
        written = encoded({"text": text, text[:50]: [text]}).decode()
        assert not set("<>&\u2028\u2029") & set(written)
        assert json.loads(written) == {"text": text, text[:50]: [text]}
        (tmp_path / "0.js").write_bytes(side_file("r", {"text": text}))
        assert pool_in(tmp_path / "0.js")["view"]["text"] == text
    pool = hostile_pool(tmp_path / "pool.jsonl")
    assert harness("run", "--pool", pool, "--selector", "uniform", "--store", tmp_path / "runs").code == 0
    data = report(plugin=None)
    _, elements, tags = parsed(report.path)
    assert [attrs.get("type", tag) for tag, attrs, _ in elements] == ["style", "application/json", "script"]
    assert not {"img", "b"} & set(tags)
    easiest = {problem["id"]: problem for problem in data["problems"]}["<script>alert(0)</script>"]
    texts = [easiest["texts"][place] for place in easiest["text"]]
    assert (texts[0], texts[8][1]) == (HOSTILE[0], len(HOSTILE[8]))
    assert report.path.stat().st_size < 300_000


def test_what_cannot_be_seen_is_spelled_out_and_a_long_text_is_its_beginning_and_its_length():
    table = {
        "a\x00b\x1b\u202e\u200b\ud800": "a⟨U+0000⟩b⟨U+001B⟩⟨U+202E⟩⟨U+200B⟩⟨U+D800⟩",
        "tab\tline\r\nend\rlone": "tab\tline\nend⟨U+000D⟩lone",
        "naïve \u05e9\u05dc \U0001f600 e\u0301": "naïve \u05e9\u05dc \U0001f600 e\u0301",
        "Z" + "\u0301" * 500: "Z" + "\u0301" * 4,
    }
    assert {text: visible(text) for text in table} == table
    assert (cut("x\x00" * 5, 4), cut("x" * 4, 4)) == (["x⟨U+0000⟩x⟨U+0000⟩", 10], "xxxx")


def test_of_a_large_run_a_seeded_sample_even_over_hardness_is_shown_with_texts_cut_as_little_as_the_budget_asks():
    entries = hardest_first([{"id": f"p{i}", "c": i % 50, "n": 64} for i in range(500)])
    chosen = sampled(entries, 100, "seed")
    assert np.bincount([entry["c"] for entry in chosen]).tolist() == [2] * 50
    assert sampled(hardest_first(entries[::-1]), 100, "seed") == chosen != sampled(entries, 100, "other")
    views = [{"id": place, "texts": ["x" * 5000] * 10} for place in range(40)]
    made, cut_at = fitted(views, 130_000)
    assert (len(made), cut_at, made[7]["texts"]) == (40, 250, [["x" * 250, 5000]] * 10)
    assert len(encoded(made)) <= 130_000 < len(encoded(fitted(views, 10**6)[0]))
    made, cut_at = fitted(views, 3000)
    assert len(encoded(made)) <= 3000
    assert (2 <= len(made) < 40, cut_at, made[0]["id"]) == (True, 40, 0)
    assert fitted(views[:1], 10) == ([], 40)
    assert fitted([{"texts": ["short"]}], 10**6) == ([{"texts": ["short"]}], None)
    assert len(page({})) + BUDGET_BYTES < 3_000_000
