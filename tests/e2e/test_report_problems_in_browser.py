"""The report in a real browser: its tables, its charts of every question, and the pools in files beside it."""

import csv
import re
from pathlib import Path

import numpy as np
import pytest
from support.processes import wait_for
from support.report_browser import ABSENT, left, made, opened, press
from support.report_page import HOSTILE, hostile_pool, pool_file

from harness.results import inert_text
from harness.system.json_text import storable
from harness_plugins.figures import frame
from harness_plugins.figures.request import Request
from harness_plugins.report import writing
from harness_plugins.report.page import visible

pytestmark = [
    pytest.mark.slow, pytest.mark.skipif(ABSENT, reason="needs chromium (apt-get install chromium) and playwright"),
]  # fmt: skip


def saved(page, button):
    """The lines of the CSV file that a button saves."""
    with page.expect_download() as download:
        page.locator(button).click()
    page.requests[:] = [url for url in page.requests if not url.startswith("blob:")]
    with open(download.value.path(), newline="") as file:
        return list(csv.reader(file))


def first_column(page):
    return page.locator("#table tbody").last.locator("th").all_inner_texts()


def test_the_table_is_sorted_by_click_and_by_keyboard_and_what_is_missing_stays_last(page, data):
    calls = {row["name"]: row["samples_to_correct"] for row in data["rows"][6:]}  # below references and controls
    ranked = sorted((name for name in calls if calls[name]), key=calls.get)
    heading = page.get_by_role("columnheader", name="samples-to-correct")
    heading.get_by_role("button").click()
    assert (first_column(page), heading.get_attribute("aria-sort")) == ([*ranked, "head"], "ascending")
    page.keyboard.press("Enter")
    assert (first_column(page), heading.get_attribute("aria-sort")) == ([*ranked[::-1], "head"], "descending")
    page.get_by_role("columnheader", name="selector").get_by_role("button").focus()
    page.keyboard.press("Space")
    assert first_column(page) == sorted(calls)
    assert heading.get_attribute("aria-sort") == "none"
    assert page.locator("#table tbody").first.locator("th").first.inner_text() == "random (exact)"


def test_tables_are_saved_with_all_their_values(page, data):
    head, *lines = saved(page, "#results-csv")
    for row, line in zip(data["rows"], lines, strict=True):
        values = dict(zip(head, line, strict=True))
        assert (values["selector"], values["cell"]) == (row["name"], row.get("cell", ""))
        low = row.get("interval") and pytest.approx(row["interval"][0], rel=1e-5)
        assert (float(values["improvement_low"]) if values["improvement_low"] else None) == low
        assert float(values["pass_at_4"]) == pytest.approx(row["passed"][data["budgets"].index("4")], rel=1e-5)
    head, *lines = saved(page, "#problems-csv")
    listed, ranker = data["index"], [selector["name"] for selector in data["selectors"]].index(head[4])
    for place, (name, n, correct, random, calls) in enumerate(line[:5] for line in lines):
        assert [name, int(n), int(correct)] == [listed[column][place] for column in ("id", "n", "c")]
        assert float(random) == pytest.approx((int(n) + 1) / (int(correct) + 1), rel=1e-5)
        assert float(calls) == pytest.approx(np.mean(listed["ranks"][ranker][place]), rel=1e-5)


def test_a_saved_table_holds_no_formula(chromium, tmp_path):
    names = ["=1+1", "@sum", " -2", "a,b", 'say "x"', "'=1"]
    pool = pool_file(tmp_path / "pool.jsonl", {name: [("x", 1), ("y", 0)] for name in names})
    with opened(chromium, made(tmp_path / "runs", pool=pool, selectors=("uniform",))) as page:
        lines = saved(page, "#problems-csv")
    assert {line[0] for line in lines[1:]} == {inert_text.csv_cell(name) for name in names}


def test_the_list_opens_on_the_problem_where_the_two_differ_most_and_is_sorted_by_choice(page, data):
    assert page.locator("#problems").evaluate("list => list.scrollTop") == 0
    assert page.locator("#problems li").first.get_attribute("aria-selected") == "true"

    def gap(name):
        ranks = [column[data["index"]["id"].index(name)] for column in data["index"]["ranks"] if column]
        return abs(np.log(np.mean(ranks[0]) / np.mean(ranks[-1])))

    def names():
        return [text.split("\n")[0] for text in page.locator("#problems li").all_inner_texts()]

    assert [gap(name) for name in names()] == sorted(map(gap, names()), reverse=True)
    page.locator("#sort").select_option("easiest first")
    assert names() == data["index"]["id"][::-1]


def test_hardness_shows_the_values_of_the_plot(chromium, tmp_path):
    path = made(tmp_path, task="colours", engine="toy", data=Path("23"), selectors=("spread",))
    rows = frame.table(Request("hardness", (tmp_path / "cells",), selector="spread"))
    with opened(chromium, path) as page:
        shown = page.locator("#hardness svg").get_attribute("aria-label")
    for name, column in (("random (exact)", "random"), ("spread", "selected")):
        values = re.search(rf"{re.escape(name)} ([\d., ]+)", shown)[1].rstrip(", ").split(", ")
        assert [float(value) for value in values] == [pytest.approx(row[column], abs=0.051) for row in rows]


def test_a_question_is_opened_from_its_mark_by_keyboard_and_from_the_table_of_all(page):
    page.locator("#scatter svg").focus()
    press(page, "ArrowRight", "ArrowRight", "ArrowLeft")
    name = page.locator("#scatter-readout").inner_text().split(" ")[0].removesuffix(":")
    press(page, "Enter")
    assert page.locator("#problem-title").inner_text() == name
    page.locator("#against").select_option("shuffle")
    assert "calls of shuffle" in page.locator("#scatter").inner_text()
    page.locator("#all-problems summary").click()
    other = page.locator("#problem-table tbody tr").last
    other.get_by_role("button").click()
    assert page.locator("#problem-title").inner_text() == other.locator("th").inner_text()


@pytest.fixture
def crowded(tmp_path, monkeypatch):
    """The hostile report, with one of its two pools in a file beside the page."""
    monkeypatch.setattr(writing, "MOST_PROBLEMS", 1)
    pool = hostile_pool(tmp_path / "pool.jsonl")
    path = made(tmp_path / "runs", pool=pool, selectors=("repexp", "uniform"))
    (beside,) = (tmp_path / "runs" / "report-files").iterdir()
    return path, beside


def choose_the_other(page):
    page.locator("#problems li[aria-selected=false]").click()
    wait_for(lambda: page.wait_for_timeout(20) or "Loading" not in page.locator("#pool-note").text_content())


def test_a_pool_beside_the_page_is_loaded_when_it_is_chosen_and_its_hostile_texts_stay_inert(chromium, crowded):
    path, beside = crowded
    with opened(chromium, path) as page:
        assert page.requests == [path.as_uri()]
        for words, found in (("prompt of <script>", 1), ("prompt of a-very", 1), ("prompt of", 2)):
            page.locator("#search").fill(words)
            assert page.locator("#problems li:visible").count() == found
        choose_the_other(page)
        assert page.requests == [path.as_uri(), beside.as_uri()]
        page.requests.pop()
        assert page.locator("#pool").is_visible()
        before, texts = page.locator("*").count(), []
        for point in left(page).locator(".map .pt").all():
            point.focus()
            texts.append(left(page).locator("pre").text_content())
        assert sorted(texts) == sorted(visible(storable(text)[:4000]) for text in HOSTILE)
        assert page.locator("*").count() == before
        assert page.locator("script").count() == 2
        assert page.locator("img, iframe, object, link, #made-of-text").count() == 0
        assert page.evaluate("window.pwned") is None
        attempt = "() => { const s = document.createElement('script'); s.src = '%s'; document.body.append(s); }"
        page.evaluate(attempt % beside.as_uri())
        wait_for(lambda: page.wait_for_timeout(20) or page.notes, what="the refusal of a script without the nonce")
        assert "Content Security Policy" in page.notes.pop()
        page.requests.pop()  # it was refused


def test_without_its_files_or_with_those_of_another_report_the_page_says_so_and_works_alone(chromium, crowded):
    path, beside = crowded
    text = beside.read_text()
    beside.write_text(text.replace('report\\":\\"', 'report\\":\\"0', 1))
    for reason in ("was made for another report", "is not beside this page"):
        with opened(chromium, path) as page:
            choose_the_other(page)
            said = page.locator("#pool-note").inner_text()
            assert f"report-files/{beside.name}" in said
            assert reason in said
            assert "of 12 are correct. Rank of the first correct one, in each trial: " in said
            assert not page.locator("#pool").is_visible()
            choose_the_other(page)
            assert page.locator("#pool").is_visible()
            page.notes[:] = [note for note in page.notes if "ERR_FILE_NOT_FOUND" not in note]
            page.requests.remove(beside.as_uri())
        beside.unlink(missing_ok=True)
