"""The report of a run: one file that nothing in its data can break; which cells and problems it shows, and how."""

import base64
import hashlib
import json
import os
import re
import shlex
import shutil
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.cells import cell, subset_entry
from support.cells import entry as new_entry
from support.paths import TOY
from support.refusals import error_line
from support.report_page import HOSTILE, hostile_pool, parsed, picks_of, policy
from support.stores import files_of

from harness import Pool
from harness.jobs import run as pipeline
from harness.jobs.options import RunConfig
from harness.results import cells
from harness.scoring.metrics import random_pass_at_k
from harness.system.progress import Progress
from harness_plugins.report import browsing, writing
from harness_plugins.report.browsing import NONE, OTHER, clusters, flat, nearest_earlier
from harness_plugins.report.page import BUDGET_BYTES, SCRIPTS, cut, encoded, fitted, page, side_file, visible
from harness_plugins.report.results import Cell, commands
from harness_plugins.report.writing import beginnings, hardest_first, index, sampled, write_report


@dataclass
class Shown:
    """A run's store, the table's row of each selector, the report's file and its data. Not to be changed."""

    store: Path
    rows: dict[str, dict[str, Any]]
    path: Path
    data: dict[str, Any]


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """The report of repexp, shuffle, spread and the subset method head on the toy's six problems."""
    root, selectors = tmp_path_factory.mktemp("report") / "runs", ("repexp", "shuffle", "spread", "head")
    config = RunConfig(task="colours", engine="toy", selectors=selectors, plugin_files=[TOY], store=root)
    rows, _ = pipeline.run(config, Progress())
    path = write_report(root, (), None, [TOY], Progress())
    return Shown(root, {row.selector: row.to_json() for row in rows}, path, parsed(path)[0])


@pytest.fixture
def copied(shown, tmp_path):
    """A copy of that run's store, at the place where `toy` adds to it."""
    return Path(shutil.copytree(shown.store, tmp_path / "runs"))


@pytest.fixture
def report(harness, tmp_path):
    """Make the report of tmp_path/runs: its data; `report.path` and `report.err` are of the last."""

    def call(*args, plugin=TOY, store=tmp_path / "runs"):
        outcome = harness("report", "--store", store, *(("--plugin", plugin) if plugin else ()), *args)
        assert outcome.code == 0, outcome.err
        call.err, call.path = outcome.err, Path(outcome.out.strip())
        return parsed(call.path)[0]

    return call


def test_the_table_has_the_references_and_the_rows_of_the_run_the_best_first(shown):
    controls = ["length", "length:first=long", "norm"]
    references = [row["name"] for row in shown.data["rows"] if row["reference"]]
    assert references == ["random (exact)", "oracle", "anti-oracle", *controls]
    random, row = shown.data["rows"][0], shown.rows["shuffle"]
    ours = (random["samples_to_correct"], random["k95"])
    assert ours == (row["samples_to_correct_random"], row["k95_random"])
    measured = shown.data["rows"][6:]
    improvements = [row["improvement"] for row in measured[:-1]]
    assert improvements == sorted(improvements, reverse=True)
    for entry in measured:
        row, ranked = shown.rows[entry["name"]], entry["name"] != "head"
        for name in ("samples_to_correct", "improvement", "cell", "k95", "calls_saved"):
            assert entry[name] == row[name], name
        assert entry["interval"] == row["improvement_ci"]
        assert entry["passed"] == [row["pass_at_k"][k] for k in shown.data["budgets"]]
        assert entry["shares"] == ([row["win"], row["tie"], row["loss"]] if ranked else None)
        assert entry["q"] >= entry["p"] == row["p_random" if ranked else "p_budget"]
        assert entry["trust"] == ("few problems" if ranked else None)


def test_random_selections_curve_is_the_closed_form_and_lies_in_its_band(shown):
    random, oracle, *others = shown.data["curves"]
    n = np.array([problem["n"] for problem in shown.data["problems"]])
    c = np.array([problem["c"] for problem in shown.data["problems"]])
    for place, k in enumerate(random["k"]):
        assert random["mean"][place] == pytest.approx(random_pass_at_k(n, c, k).mean(), abs=1e-4)
        assert random["low"][place] <= random["mean"][place] <= random["high"][place]
    assert oracle["mean"] == [pytest.approx((c > 0).mean(), abs=1e-4)] * len(random["k"])
    assert oracle["low"] is None
    shuffle = next(curve for curve in others if curve["name"] == "shuffle")
    assert shuffle["k"] == sorted(set(shuffle["k"]))
    assert shuffle["k"][-1] == n[0]
    assert sum(high > low for low, high in zip(shuffle["low"], shuffle["high"], strict=True)) > 3


def test_one_answer_of_k_has_curves_without_bands_and_a_line_below_the_table(shown):
    answers = [curve for curve in shown.data["curves"] if curve["kind"] == "answer"]
    assert [curve["name"] for curve in answers] == ["avg@k", "maj@k", "best of k by mean-logprob"]
    row = shown.rows["shuffle"]
    for curve, values in zip(answers[1:], (row["maj_at_k"], row["best_of_k"]["mean-logprob"]), strict=True):
        assert curve["mean"] == pytest.approx(list(values.values()), abs=1e-4)
        assert (curve["k"], curve["low"]) == ([1, 2, 4, 8, 16], None)
    [line] = shown.data["about"]["one_answer"]
    assert f"maj@4, 16): {100 * row['maj_at_k']['4']:.1f}, {100 * row['maj_at_k']['16']:.1f}" in line


def test_the_report_is_one_file_in_the_store_and_the_same_store_gives_the_same_bytes(report, shown, copied):
    assert shown.path == shown.store / "report.html"
    (copied / "report.html").unlink()
    report()
    assert report.path == copied / "report.html"
    assert report.path.read_bytes() == shown.path.read_bytes()


SELECTORS = {"repexp", "shuffle", "spread", "head"}


def names(data):
    return {selector["name"] for selector in data["selectors"]}


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
    line = error_line(harness("report", "--store", copied, "--cell", newest, "--cell", seeded["cell"]))
    assert line.endswith("differ in pool, verdicts, problems, trials, seed or --correct: one report shows one pool")


def test_cells_can_be_named_by_the_beginning_of_their_keys(report, harness, shown, tmp_path):
    first, second = (shown.rows[name]["cell"] for name in ("repexp", "spread"))
    data = report("--cell", first[:12], "--cell", second, "--out", tmp_path / "deep" / "two.html", store=shown.store)
    assert report.path == tmp_path / "deep" / "two.html"
    assert names(data) == {"repexp", "spread"}
    for key, fault in (("nothing", "no cell whose key begins so"), ("", "'' begins the keys of 7 cells")):
        assert fault in error_line(harness("report", "--store", shown.store, "--cell", key))


def test_an_edited_cell_and_a_failed_one_are_named_and_left_out(toy, report, harness, copied, shown, tmp_path):
    store = tmp_path / "failed"
    assert "report: no cells in" in error_line(harness("report", "--store", store))
    toy("--selector", "raising", store=store)
    assert harness("report", "--store", store).err.endswith(f"error: report: no cell in {store}/cells has results\n")
    toy("--selector", "raising")
    key = shown.rows["shuffle"]["cell"]
    path = copied / "cells" / f"{key}.json"
    path.write_text(path.read_text().replace('"errors":0', '"errors":1'))
    assert names(report()) == SELECTORS - {"shuffle"}
    assert f"left out: cell {path}: was edited" in report.err
    assert "failed (selector 'raising'" in report.err
    assert "was edited" in error_line(harness("report", "--store", copied, "--cell", key))


def test_the_page_has_the_command_that_makes_its_run_again_beside_its_files(shown, harness, tmp_path, monkeypatch):
    monkeypatch.chdir(TOY.parent)
    (line,) = shown.data["commands"]
    words, store = shlex.split(line)[1:], tmp_path / "again"
    outcome = harness(*words, *(() if "--plugin" in words else ("--plugin", TOY)), "--store", store)
    assert outcome.code == 0, outcome.err
    names = [sorted(path.name for path in (folder / "cells").iterdir()) for folder in (store, shown.store)]
    assert names[0] == names[1]


def test_recorded_options_are_written_as_they_are_and_no_text_leaves_its_word():
    config = {"task": "$(rm -rf /)", "max_tokens": 64, "regrade": True, "audit": False, "ids": None}
    config |= {"plugin": ["a b.py", "c.py"], "selector": ["x\n;ls\x1b[2J"]}
    made = [
        cell([new_entry("a", [1])]) | {"config": config},
        cell([new_entry("a", [1])]) | {"config": config | {"selector": ["y"]}},
    ]
    (line,) = commands([Cell("0", content) for content in made])
    words = ["harness", "run", "--task", "$(rm -rf /)", "--max-tokens", "64", "--regrade", "--plugin", "a b.py"]
    words += ["--plugin", "c.py", "--selector", "x ;ls⟨U+001B⟩[2J", "--selector", "y"]
    assert shlex.split(line) == words
    assert "\n" not in line


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


def pool_of(answers, texts=None):
    n = len(answers)
    return Pool(texts or ["x"] * n, np.zeros((n, 0), np.float32), np.zeros(n), np.zeros(n, np.int64), answers)


def test_the_seven_largest_clusters_have_colours_the_rest_and_no_answer_have_theirs():
    answers = [letter for letter, size in zip("abcdefghi", range(10, 1, -1), strict=True) for _ in range(size)]
    labels, members, by = clusters(pool_of([*answers, None]))
    assert labels == [[letter, size] for letter, size in zip("abcdefg", range(10, 3, -1), strict=True)]
    assert (members.count(OTHER), members[-1], by) == (3 + 2, NONE, "answer")
    labels, members, by = clusters(pool_of([None] * 3, ["x ", "y", "x"]))
    assert (labels, members, by) == ([["x", 2], ["y", 1]], [0, 1, 0], "text")


def test_the_problems_of_a_large_run_are_a_seeded_sample_even_over_hardness():
    entries = hardest_first([{"id": f"p{i}", "c": i % 50, "n": 64} for i in range(500)])
    chosen = sampled(entries, 100, "seed")
    assert len({entry["id"] for entry in chosen}) == 100
    assert np.bincount([entry["c"] for entry in chosen]).tolist() == [2] * 50
    assert hardest_first(entries[::-1]) == entries
    assert sampled(entries, 100, "other") != chosen


def test_a_problem_that_lost_a_file_is_left_out_and_without_the_responses_the_table_alone_is_shown(report, copied):
    for name, kind in (("2", "verdicts"), ("4", "orders")):
        next(path for path in files_of(copied, kind) if path.name.startswith(f"test_{name}")).unlink()
    data = report()
    assert sorted(problem["id"] for problem in data["problems"]) == [f"test/{i}" for i in (0, 1, 3, 5)]
    assert data["browsing"]["note"] == "2 problems have no responses in the store."
    shutil.rmtree(files_of(copied, "responses")[0].parents[1])
    data = report()
    assert data["problems"] == []
    assert "not in the store" in data["browsing"]["note"]
    assert len(data["rows"]) == 3 + 3 + 4  # references, controls, selectors


def test_orders_go_on_to_the_end_beyond_the_first_correct_pick(shown):
    cell = json.loads((shown.store / "cells" / f"{shown.rows['repexp']['cell']}.json").read_text())
    stored = {entry["id"]: entry["orders"] for entry in cell["problems"]}
    for problem, picks in zip(shown.data["problems"], picks_of(shown.data, "repexp"), strict=True):
        assert sorted(picks["order"]) == list(range(16))
        assert picks["note"] == ""
        first = stored[problem["id"]][0]
        assert picks["order"][: len(first)] == first
        assert problem["verdict"][first[-1]] == "c"
        assert "c" not in [problem["verdict"][index] for index in first[:-1]]


def test_a_selector_that_changed_or_is_gone_shows_its_stored_picks_and_says_so(report, copied, shown, tmp_path):
    changed = tmp_path / "changed.py"
    changed.write_text(TOY.read_text() + "\nEDITED = True\n")
    for plugin, reason in ((changed, "another version"), (None, "unknown selector 'shuffle'")):
        picks = picks_of(report(plugin=plugin), "shuffle")
        for entry, before in zip(picks, picks_of(shown.data, "shuffle"), strict=True):
            assert reason in entry["note"]
            assert entry["order"] == before["order"][: entry["ranks"][0]]
            assert len(entry["values"]) == len(entry["order"])


def test_repexp_shows_its_bonus_and_others_the_distance_to_the_nearest_earlier_pick(shown):
    bonuses, distances = picks_of(shown.data, "repexp")[0], picks_of(shown.data, "spread")[0]
    assert bonuses["figure"] == "elliptical bonus"
    assert np.all(np.diff(bonuses["values"][1:]) < 1e-3)  # after the random first pick each has the largest left
    assert distances["figure"].startswith("distance")
    assert distances["values"][0] is None
    assert len(bonuses["values"]) == len(distances["values"]) == 16
    assert picks_of(shown.data, "shuffle")[0]["values"][1] > 0  # it reads no vectors, and is measured on the map's
    h = np.random.default_rng(1).normal(size=(7, 3))
    expected = [min(float(np.linalg.norm(h[i] - h[j])) for j in range(i)) for i in range(1, 7)]
    assert nearest_earlier(h) == [None, *map(pytest.approx, expected)]


FIRST = Cell(
    "1", cell([new_entry("a", [1, 3], c=4), new_entry("b", [9, 9], c=0), new_entry("<i>", [2, 2], c=1)]), "first"
)
SECOND = Cell(
    "2", cell([new_entry("a", [2, 2], c=4), new_entry("b", [9, 9], c=0), new_entry("<i>", [7, 5], c=1)]), "second"
)
SUBSETS = Cell("3", cell([subset_entry(name, [1]) for name in ("a", "b", "<i>")]), "subsets")


def test_every_problem_of_a_run_is_listed_with_what_its_cells_say(shown):
    listed, cells = shown.data["index"], {}
    for name, row in shown.rows.items():
        cells[name] = json.loads((shown.store / "cells" / f"{row['cell']}.json").read_text())["problems"]
    entries = hardest_first(cells["repexp"])
    assert [entry["c"] for entry in entries] == sorted(entry["c"] for entry in entries)
    for name in ("id", "n", "c"):
        assert listed[name] == [entry[name] for entry in entries]
    for selector, ranks in zip(shown.data["selectors"], listed["ranks"], strict=True):
        by_id = {entry["id"]: entry.get("ranks") for entry in cells[selector["name"]]}
        assert ranks is None if selector["kind"] == "subset" else len(ranks) == 6
        for problem, rank in zip(listed["id"], ranks or [], strict=False):
            assert rank == (by_id[problem] if len(set(by_id[problem])) > 1 else by_id[problem][0])
    assert listed["where"] == "pppppp"
    assert shown.data["files"] is None


def test_a_long_list_has_mean_ranks_and_beginnings_of_prompts_where_they_have_room(monkeypatch):
    order = ["b", "<i>", "a"]
    assert index([FIRST, SUBSETS], order)["ranks"] == [[9, 2, [1, 3]], None]
    monkeypatch.setattr(writing, "LIST_BYTES", 10)
    assert index([SECOND, SUBSETS], order)["ranks"] == [[9.0, 6.0, 2.0], None]
    prompts = {"a": "x\u202e" + "y" * 100, "b": "short"}
    assert beginnings(order, prompts) == {"prompt": ["short", "", "x⟨U+202E⟩" + "y" * 78]}
    monkeypatch.setattr(writing, "PROMPTS_BYTES", 90)
    assert beginnings(["b", "a"], prompts) == {}


@pytest.fixture
def crowded(monkeypatch):
    """Pages with room for two pools."""
    monkeypatch.setattr(writing, "MOST_PROBLEMS", 2)


def pool_in(path):
    """What a file hands to the page: JSON in a string literal, the only thing in its one statement."""
    literal = re.fullmatch(r'document\.currentScript\.dataset\.pool = ("[^\n]*");\n', path.read_text())[1]
    assert not set("<>&\u2028\u2029") & set(literal)
    return json.loads(json.loads(literal))


def test_a_pool_that_has_no_room_in_the_page_is_in_a_file_named_by_its_place(report, copied, shown, crowded):
    data = report()
    where = data["index"]["where"]
    assert sorted(where) == list("ffffpp")
    assert [view["at"] for view in data["problems"]] == [at for at, letter in enumerate(where) if letter == "p"]
    assert data["browsing"] | {"shown": 2, "total": 6} == data["browsing"]
    paths = sorted((copied / "report-files").iterdir())
    assert [path.name for path in paths] == [f"{at}.js" for at, letter in enumerate(where) if letter == "f"]
    assert data["files"] | {"folder": "report-files", "count": 4} == data["files"]
    whole = {view["id"]: view for view in shown.data["problems"]}
    for path in paths:
        read = pool_in(path)
        view, other = read["view"], whole[data["index"]["id"][int(path.stem)]]
        assert read["report"] == data["files"]["report"]
        assert {name: view[name] for name in other if name not in ("picks", "at")} == {
            name: other[name] for name in view if name not in ("picks", "at")
        }
        for picks, more in zip(view["picks"], other["picks"], strict=True):
            if "sets" in picks:
                assert picks == more
            elif view["c"]:
                assert picks["order"] == more["order"][: picks["ranks"][0]]
                assert picks["note"] == browsing.STORED
                assert len(picks["values"]) == len(picks["order"])
    for text in HOSTILE:
        path.write_bytes(side_file("r", {"text": text}))
        assert pool_in(path)["view"]["text"] == text


def test_the_same_store_gives_the_same_files_and_those_of_an_earlier_report_are_removed(
    report, copied, crowded, monkeypatch
):
    report()
    folder = copied / "report-files"
    before = {path.name: path.read_bytes() for path in (*folder.iterdir(), report.path)}
    for name in ("77.js", "mine.js"):
        (folder / name).write_text("mine")
    report()
    assert {path.name: path.read_bytes() for path in (*folder.iterdir(), report.path)} == before | {"mine.js": b"mine"}
    monkeypatch.undo()
    assert report()["files"] is None
    assert [path.name for path in folder.iterdir()] == ["mine.js"]


def test_no_data_can_end_its_element():
    for text in HOSTILE:
        written = encoded({"text": text, text[:50]: [text]}).decode()
        assert not set("<>&\u2028\u2029") & set(written)
        assert json.loads(written) == {"text": text, text[:50]: [text]}


def test_hostile_responses_leave_a_page_of_its_own_elements_only(harness, report, tmp_path):
    pool = hostile_pool(tmp_path / "pool.jsonl")
    options = ("--selector", "repexp", "--selector", "uniform", "--store", tmp_path / "runs")
    outcome = harness("run", "--pool", pool, *options)
    assert outcome.code == 0, outcome.err
    data = report(plugin=None)
    _, elements, tags = parsed(report.path)
    assert [attrs.get("type", tag) for tag, attrs, _ in elements] == ["style", "application/json", "script"]
    assert not {"img", "b"} & set(tags)
    easiest = {problem["id"]: problem for problem in data["problems"]}["<script>alert(0)</script>"]
    texts = [easiest["texts"][place] for place in easiest["text"]]
    assert texts[0] == HOSTILE[0]
    begin, length = texts[8]
    assert length == len(HOSTILE[8])
    assert HOSTILE[8].startswith(begin)
    assert report.path.stat().st_size < 300_000


def test_the_policy_allows_this_script_its_files_joined_this_style_and_nothing_else(shown):
    _, ((_, _, style), _, (_, _, script)), _ = parsed(shown.path)

    def hashed(text):
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    sources = f"script-src {hashed(script)}; style-src {hashed(style)}"
    assert policy(shown.path) == f"default-src 'none'; {sources}; base-uri 'none'; form-action 'none'"
    folder = files("harness_plugins.report")
    at = [script.index((folder / f"{name}.js").read_text()) for name in SCRIPTS]
    assert at == sorted(at)


def test_what_cannot_be_seen_is_spelled_out_and_a_long_text_is_its_beginning_and_its_length():
    table = {
        "a\x00b\x1b\u202e\u200b\ud800": "a⟨U+0000⟩b⟨U+001B⟩⟨U+202E⟩⟨U+200B⟩⟨U+D800⟩",
        "tab\tline\r\nend\rlone": "tab\tline\nend⟨U+000D⟩lone",
        "naïve \u05e9\u05dc\u05d5\u05dd \U0001f600 e\u0301": "naïve \u05e9\u05dc\u05d5\u05dd \U0001f600 e\u0301",
        "Z" + "\u0301" * 500: "Z" + "\u0301" * 4,
    }
    assert {text: visible(text) for text in table} == table
    assert cut("x\x00" * 5, 4) == ["x⟨U+0000⟩x⟨U+0000⟩", 10]
    assert cut("x" * 4, 4) == "xxxx"


def test_texts_are_cut_as_little_as_the_budget_asks_and_then_fewer_problems_are_shown():
    views = [{"id": place, "texts": ["x" * 5000] * 10} for place in range(40)]
    shown, cut_at = fitted(views, 130_000)
    assert (len(shown), cut_at, shown[7]["texts"]) == (40, 250, [["x" * 250, 5000]] * 10)
    assert len(encoded(shown)) <= 130_000 < len(encoded(fitted(views, 10**6)[0]))
    shown, cut_at = fitted(views, 3000)
    assert len(encoded(shown)) <= 3000
    assert (2 <= len(shown) < 40, cut_at, shown[0]["id"]) == (True, 40, 0)
    assert fitted(views[:1], 10) == ([], 40)
    assert fitted([{"texts": ["short"]}], 10**6) == ([{"texts": ["short"]}], None)
    assert len(page({})) + BUDGET_BYTES < 3_000_000
