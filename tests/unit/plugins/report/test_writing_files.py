"""The pools beside the page: those that have no room in it, as scripts of one statement that no text can leave."""

import json
import re

import pytest
from support.report_page import HOSTILE, hostile_pool

from harness_plugins.report import browsing, page, writing


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


def test_hostile_texts_stay_inside_the_string_and_long_ones_are_cut_to_the_files_budget(
    harness, report, tmp_path, monkeypatch
):
    pool = hostile_pool(tmp_path / "pool.jsonl")
    assert harness("run", "--pool", pool, "--selector", "uniform", "--store", tmp_path / "runs").code == 0
    monkeypatch.setattr(writing, "MOST_PROBLEMS", 1)
    monkeypatch.setattr(writing, "FILE_BYTES", (9_000, 9_000))
    data = report("--out", tmp_path / "odd #1 %.html", plugin=None)
    (path,) = (tmp_path / "odd #1 %-files").iterdir()
    assert data["files"]["folder"] == "odd #1 %-files"
    view = pool_in(path)["view"]
    assert sum(isinstance(text, list) for text in view["texts"]) >= 2
    assert "" in view["texts"]
    for text in HOSTILE:
        path.write_bytes(page.side_file("r", {"text": text}))
        assert pool_in(path)["view"]["text"] == text
