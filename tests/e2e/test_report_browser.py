"""The report in a real browser (Debian's Chromium): it draws, plays, takes keys, and runs nothing of a response."""

import csv
import importlib.util
import os
import re
import shutil
import socket
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from support.paths import TOY
from support.processes import wait_for
from support.report_page import HOSTILE, hostile_pool, parsed, pool_file

import harness
from harness.jobs import run as pipeline
from harness.jobs.options import RunConfig
from harness.results import inert_text
from harness.system.json_text import storable
from harness.system.progress import Progress
from harness_plugins.figures import frame
from harness_plugins.figures.request import Request
from harness_plugins.report import writing
from harness_plugins.report.page import visible
from harness_plugins.report.searching import write_search
from harness_plugins.report.writing import write_report

CHROMIUM = shutil.which("chromium")
ABSENT = (not CHROMIUM or importlib.util.find_spec("playwright") is None) and "CI" not in os.environ
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 360, "height": 740}
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(ABSENT, reason="needs chromium (apt-get install chromium) and playwright"),
]


@pytest.fixture(scope="module")
def chromium():
    from playwright.sync_api import sync_playwright

    assert CHROMIUM, "CI installs chromium"
    with sync_playwright() as playwright:
        args = ["--no-sandbox"] if os.getuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=args)
        yield browser
        browser.close()


@contextmanager
def opened(chromium, path, viewport=DESKTOP, **options):
    """`with opened(chromium, path, ...) as page`: in a fresh context; it must be quiet and ask for nothing else."""
    context = chromium.new_context(viewport=viewport, **options)
    page = context.new_page()
    page.notes, page.requests = [], []
    page.set_default_timeout(20_000)
    page.on("request", lambda request: page.requests.append(request.url))
    page.on("console", lambda message: page.notes.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda failure: page.notes.append(f"error: {failure}"))
    page.on("dialog", lambda dialog: (page.notes.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    page.goto(path.as_uri())
    try:
        yield page
        assert page.notes == []
        assert set(page.requests) == {path.as_uri()}
    finally:
        context.close()


def made(folder, **options):
    """The report of one run."""
    pipeline.run(RunConfig(store=folder, plugin_files=[TOY], executor="local:workers=1", **options), Progress())
    return write_report(folder, (), None, [TOY], Progress())


@pytest.fixture(scope="module")
def toy_page(chromium, tmp_path_factory):
    selectors = ("repexp", "shuffle", "head", "spread")
    path = made(tmp_path_factory.mktemp("toy"), task="colours", engine="toy", selectors=selectors)
    with opened(chromium, path) as page:
        page.path, page.data = path, parsed(path)[0]
        yield page


@pytest.fixture
def page(toy_page):
    """The toy's report, as it is when it was opened."""
    toy_page.mouse.move(0, 0)
    toy_page.goto(toy_page.path.as_uri())
    return toy_page


@pytest.fixture
def data(page):
    return page.data


def left(page):
    return page.locator(".panel").first


def press(page, *keys):
    for key in keys:
        page.keyboard.press(key)


def picked(page):
    """The indices picked on the left, ascending."""
    return left(page).evaluate("p => [...p.querySelectorAll('.map .picked')].map(x => Number(x.dataset.index))")


def steps(page):
    return int(page.locator("#step").input_value())


def order_shown(page, data):
    """The problem shown, and the order of the selector on the left, out of the page's data."""
    title = page.locator("#problem-title").inner_text()
    problem = next(problem for problem in data["problems"] if problem["id"] == title)
    return problem, problem["picks"][int(left(page).locator("select").input_value())]["order"]


def saved(page, button):
    """The lines of the CSV file that a button saves."""
    with page.expect_download() as download:
        page.locator(button).click()
    page.requests[:] = [url for url in page.requests if not url.startswith("blob:")]
    with open(download.value.path(), newline="") as file:
        return list(csv.reader(file))


def test_the_page_draws_all_its_parts_without_an_error(page, data):
    assert page.title().startswith("colours")
    assert page.locator("tbody").last.locator("th").all_inner_texts() == [s["name"] for s in data["selectors"]]
    counts = {"tbody tr": 3 + 3 + 4, "#curves .curve": 2 + 3 + 4, "#curves .band": 1 + 4, "#problems li": 6}
    counts |= {".map .pt": 2 * 16}
    assert {what: page.locator(what).count() for what in counts} == counts
    assert page.locator("#answers-note").is_visible()
    assert page.locator("#command").inner_text() == "\n".join(data["commands"])


def test_the_table_has_more_columns_and_is_sorted_by_click_and_by_keyboard(page, data):
    page.get_by_role("button", name="More columns").focus()
    press(page, "Enter")
    assert page.get_by_role("button", name="Fewer columns").get_attribute("aria-expanded") == "true"
    assert page.locator("thead .extra:visible").all_inner_texts() == ["p", "q", "k95", "calls saved", "interval"]
    for row in data["rows"][6:]:
        shown = page.locator("tbody tr", has=page.get_by_role("rowheader", name=row["name"], exact=True))
        p, q, k95, _, interval = shown.locator(".extra").all_inner_texts()
        assert (float(p), float(q)) == (pytest.approx(row["p"], rel=0.05), pytest.approx(row["q"], rel=0.05))
        assert (k95, interval) == (str(row["k95"] or "–"), row["trust"] or "–")
    press(page, "Space")
    assert page.locator("#table .extra:visible").count() == 0
    calls = {row["name"]: row["samples_to_correct"] for row in data["rows"][6:]}  # below references and controls
    ranked = sorted((name for name in calls if calls[name]), key=calls.get)
    heading, names = page.get_by_role("columnheader", name="samples-to-correct"), page.locator("#table tbody").last
    heading.get_by_role("button").click()
    for order, said in ((ranked, "ascending"), (ranked[::-1], "descending")):  # what is missing stays last
        assert names.locator("th").all_inner_texts() == [*order, "head"]
        assert heading.get_attribute("aria-sort") == said
        press(page, "Enter")


def test_tables_are_saved_with_all_their_values_and_no_formula(page, data, chromium, tmp_path):
    head, *lines = saved(page, "#results-csv")
    for row, line in zip(data["rows"], lines, strict=True):
        values = dict(zip(head, line, strict=True))
        assert (values["selector"], values["cell"]) == (row["name"], row.get("cell", ""))
        low = values["improvement_low"]
        assert (low and float(low)) == (pytest.approx(row["interval"][0], rel=1e-5) if row.get("interval") else "")
        assert float(values["pass_at_4"]) == pytest.approx(row["passed"][data["budgets"].index("4")], rel=1e-5)
    head, *lines = saved(page, "#problems-csv")
    listed, ranker = data["index"], [selector["name"] for selector in data["selectors"]].index(head[4])
    for place, (name, *numbers) in enumerate(line[:5] for line in lines):
        n, c, ranks = listed["n"][place], listed["c"][place], listed["ranks"][ranker][place]
        assert name == listed["id"][place]
        assert [*map(float, numbers)] == pytest.approx([n, c, (n + 1) / (c + 1), np.mean(ranks)], rel=1e-5)
    names = ["=1+1", "@sum", " -2", "a,b", 'say "x"', "'=1"]
    pool = pool_file(tmp_path / "pool.jsonl", {name: [("x", 1), ("y", 0)] for name in names})
    with opened(chromium, made(tmp_path / "runs", pool=pool, selectors=("uniform",))) as other:
        lines = saved(other, "#problems-csv")
    assert {line[0] for line in lines[1:]} == {inert_text.csv_cell(name) for name in names}


def test_of_many_curves_eleven_are_shown_and_hardness_shows_the_values_of_the_plot(chromium, tmp_path):
    selectors = tuple(f"shuffle:offset={place}" for place in range(9))
    path = made(tmp_path, task="colours", engine="toy", data=Path("23"), selectors=selectors)
    data = parsed(path)[0]
    name, random = data["selectors"][0]["name"], data["curves"][0]
    passed = 100 * random["mean"][random["k"].index(2)]
    rows = frame.table(Request("hardness", (tmp_path / "cells",), selector=name))
    with opened(chromium, path) as page:
        off = page.locator("#legend button[aria-pressed=false]")
        assert (page.locator("#legend button").count(), off.count()) == (14, 3)
        off.first.click()
        assert page.locator("#curves .curve").count() == 12
        page.locator("#curves svg").focus()
        press(page, "ArrowRight", "ArrowRight")
        readout = page.locator("#readout", has_text="k = 2: ").inner_text()
        assert float(re.search(r" random ([\d.]+) % ", readout)[1]) == pytest.approx(passed, abs=0.051)
        shown = page.locator("#hardness svg").get_attribute("aria-label")
    for series, column in (("random (exact)", "random"), (name, "selected")):
        values = re.search(rf"{re.escape(series)} ([\d., ]+)", shown)[1].rstrip(", ").split(", ")
        assert [float(value) for value in values] == [pytest.approx(row[column], abs=0.051) for row in rows]


def test_a_problem_is_chosen_from_the_list_by_its_name_by_its_mark_or_from_the_table_of_all(page, data):
    title, items = page.locator("#problem-title"), page.locator("#problems li:visible")

    def names():
        return [text.split("\n")[0] for text in items.all_inner_texts()]

    def gap(name):
        ranks = [column[data["index"]["id"].index(name)] for column in data["index"]["ranks"] if column]
        return abs(np.log(np.mean(ranks[0]) / np.mean(ranks[-1])))

    assert items.first.get_attribute("aria-selected") == "true"  # where the two differ most
    assert [gap(name) for name in names()] == sorted(map(gap, names()), reverse=True)
    page.locator("#sort").select_option("easiest first")
    assert names() == data["index"]["id"][::-1]
    items.nth(3).click()
    assert title.inner_text() == names()[3]
    assert page.locator("#problems [aria-selected=true]").count() == 1
    for name, key in (("2", "Enter"), ("4", "Tab")):
        page.locator("#search").fill(f"COLOUR {name}")
        assert names() == [f"test/{name}"]
        press(page, key, *(["Home"] if key == "Tab" else []))  # one item can always be reached
        assert title.inner_text() == f"test/{name}"
    page.locator("#search").fill("no such problem")
    assert page.locator("#found").inner_text() == "0 of 6 problems"
    page.locator("#scatter svg").focus()
    press(page, "ArrowRight", "ArrowRight", "ArrowLeft")
    name = page.locator("#scatter-readout").inner_text().split(" ")[0].removesuffix(":")
    press(page, "Enter")
    assert title.inner_text() == name
    page.locator("#against").select_option("shuffle")
    assert "calls of shuffle" in page.locator("#scatter").inner_text()
    page.locator("#all-problems summary").click()
    other = page.locator("#problem-table tbody tr").last
    other.get_by_role("button").click()
    assert title.inner_text() == other.locator("th").inner_text()


def test_stepping_shows_the_picks_in_their_order_and_the_text_of_the_last(page, data):
    problem, order = order_shown(page, data)
    assert picked(page) == []
    assert page.locator("#back").is_disabled()
    for count in (1, 2):
        page.locator("#next").click()
        assert picked(page) == sorted(order[:count])
        assert left(page).locator("pre").inner_text() == problem["texts"][problem["text"][order[count - 1]]]
        assert left(page).locator(".novelty .picked").count() == count
    page.locator("#back").click()
    assert picked(page) == order[:1]
    page.locator("#step").fill("16")
    assert picked(page) == list(range(16))
    assert page.locator("#next").is_disabled()
    page.locator("#step").fill("5")
    for selector in data["selectors"]:
        left(page).locator("select").select_option(selector["name"])
        if selector["kind"] == "subset":
            assert picked(page) == [0, 1, 2, 3]  # the largest budget that 5 calls pay for
            assert "set for budget 4" in left(page).locator(".status").inner_text()
            assert left(page).locator(".novelty .pt").count() == 0
        else:
            assert picked(page) == sorted(order_shown(page, data)[1][:5])


def test_correctness_is_shown_on_demand_only_and_a_response_on_hover_and_on_focus_in_both_panels(page, data):
    problem, _ = order_shown(page, data)
    rings, switch = page.locator(".map").first.locator(".verdict:visible"), page.get_by_role("switch")
    page.locator("#next").click()
    assert (rings.count(), "correct" in page.locator(".panels").inner_text()) == (0, False)
    switch.check()
    assert rings.count() == problem["c"] > 0
    assert rings.first.evaluate("r => getComputedStyle(r).pointerEvents") == "none"  # it covers its neighbours
    assert "first correct at pick" in left(page).locator(".status").inner_text()
    assert left(page).locator(".head").inner_text().split(" · ")[-1] in ("correct", "wrong")
    points = left(page).locator(".map .pt")
    points.nth(3).hover(force=True)
    assert left(page).locator("pre").inner_text() == problem["texts"][problem["text"][3]]
    points.nth(5).focus()
    for panel in page.locator(".panel").all():
        assert "response 5 " in panel.locator(".head").inner_text()
        assert panel.locator("pre").inner_text() == problem["texts"][problem["text"][5]]


def test_everything_is_reached_and_done_by_keyboard_with_a_visible_focus(page, data):
    def focused():
        return page.evaluate(
            " || ".join(f"document.activeElement.{it}" for it in ("id", "className.baseVal", "tagName"))
        )

    page.locator("#search").focus()
    press(page, "ArrowDown", "End")
    assert page.locator("#problems li").last.get_attribute("aria-selected") == "true"
    _, order = order_shown(page, data)
    press(page, "Tab")
    assert focused() == "play"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    press(page, "ArrowRight", "ArrowRight", "ArrowLeft")
    assert picked(page) == order[:1]
    press(page, "Enter")
    wait_for(lambda: steps(page) == 16)  # it stops at the end by itself
    assert page.locator("#play").inner_text() == "Play"
    press(page, "Home", "Enter")
    wait_for(lambda: steps(page) >= 2)
    press(page, "Space", "Home")
    assert steps(page) == 0
    for name in ("next", "step", "speed", "reveal", "SELECT", "pt "):  # one point of the map is in the tab order
        press(page, "Tab")
        assert focused().startswith(name)
    page.locator("#reveal").focus()
    press(page, "Space", "Tab", "Tab")
    assert page.locator("#reveal").is_checked()
    for key, index in (("ArrowRight", order[0]), ("ArrowRight", order[1]), ("ArrowDown", (order[1] + 1) % 16)):
        press(page, key)
        assert page.evaluate("Number(document.activeElement.dataset.index)") == index
    assert left(page).locator(".map [tabindex='0']").count() == 1


@pytest.fixture
def hostile(tmp_path, monkeypatch):
    """The report of hostile responses, with one of its two pools in a file beside the page; both files."""
    monkeypatch.setattr(writing, "MOST_PROBLEMS", 1)
    path = made(tmp_path / "runs", pool=hostile_pool(tmp_path / "pool.jsonl"), selectors=("repexp", "uniform"))
    (beside,) = (tmp_path / "runs" / "report-files").iterdir()
    return path, beside


def choose_the_other(page):
    page.locator("#problems li[aria-selected=false]").click()
    wait_for(lambda: page.wait_for_timeout(20) or "Loading" not in page.locator("#pool-note").text_content())


def assert_shown_as_text(page):
    before, texts = page.locator("*").count(), []
    for point in left(page).locator(".map .pt").all():
        point.focus()
        texts.append(left(page).locator("pre").text_content())
        assert page.locator("*").count() == before
    assert sorted(texts) == sorted(visible(storable(text)[:4000]) for text in HOSTILE)
    assert page.locator("script").count() == 2
    assert page.locator("img, iframe, object, link, #made-of-text").count() == 0
    assert page.evaluate("window.pwned") is None


def test_hostile_responses_in_the_page_and_beside_it_are_shown_as_text_and_even_markup_that_got_in_would_not_run(
    chromium, hostile
):
    path, beside = hostile
    with socket.create_server(("127.0.0.1", 0)) as server, opened(chromium, path) as page:
        server.setblocking(False)
        assert_shown_as_text(page)
        for words, found in (("prompt of <script>", 1), ("prompt of a-very", 1), ("prompt of", 2)):
            page.locator("#search").fill(words)
            assert page.locator("#problems li:visible").count() == found
        assert page.requests == [path.as_uri()]
        choose_the_other(page)  # it is loaded when it is chosen
        assert page.requests.pop() == beside.as_uri()
        assert page.locator("#pool").is_visible()
        assert_shown_as_text(page)
        attempts = """() => {
          const add = (name, fields) => document.body.append(Object.assign(document.createElement(name), fields));
          add("script", { textContent: "window.pwned = 1" });
          add("script", { src: "BESIDE" });
          add("div", { innerHTML: `<img src="http://127.0.0.1:PORT/x" onerror="pwned = 2"><p style="color: red">` });
        }"""
        page.evaluate(attempts.replace("PORT", str(server.getsockname()[1])).replace("BESIDE", beside.as_uri()))
        wait_for(lambda: page.wait_for_timeout(50) or len(page.notes) >= 4, what="refusals of scripts, image and style")
        with pytest.raises(BlockingIOError):
            server.accept()
        assert page.evaluate("window.pwned") is None
        assert [line for line in page.notes if "Content Security Policy" not in line] == []
        page.notes.clear()
        del page.requests[1:]  # what was refused before it was requested


def test_without_its_files_or_with_those_of_another_report_the_page_says_so_and_works_alone_also_on_a_phone(
    chromium, hostile
):
    path, beside = hostile
    text = beside.read_text()
    beside.write_text(text.replace('report\\":\\"', 'report\\":\\"0', 1))
    for reason in ("was made for another report", "is not beside this page"):
        with opened(chromium, path, PHONE, has_touch=True, is_mobile=True) as page:
            page.locator("#next").tap()
            page.locator("#reveal").set_checked(True)
            page.locator("#more").tap()
            assert page.evaluate("document.documentElement.scrollWidth") <= 360
            maps = [panel.bounding_box() for panel in page.locator(".map").all()]
            assert maps[0]["y"] + maps[0]["height"] < maps[1]["y"]  # one below the other
            choose_the_other(page)
            said = page.locator("#pool-note").inner_text()
            assert f"report-files/{beside.name}" in said
            assert reason in said
            assert "of 12 are correct. Rank of the first correct one, in each trial: " in said
            assert not page.locator("#pool").is_visible()
            assert page.evaluate("document.documentElement.scrollWidth") <= 360
            page.notes[:] = [note for note in page.notes if "ERR_FILE_NOT_FOUND" not in note]
            page.requests.remove(beside.as_uri())
        beside.unlink(missing_ok=True)


def test_the_page_of_a_search_with_hostile_names_draws_all_its_parts_also_on_a_dark_phone(chromium, tmp_path):
    names = [f"{row} {HOSTILE[row % len(HOSTILE)]}"[:200] for row in range(60)]
    h = np.random.default_rng(0).normal(size=(60, 5))
    np.savez(tmp_path / "plate.npz", plate=h, names=[storable(name).replace("\0", "") for name in names])
    search = harness.search(tmp_path / "plate.npz", journal=tmp_path / "plate.jsonl", quiet=True)
    for place, name in enumerate(search.ask(11)[:9]):  # two are out
        search.tell(name, place == 4)
    quiet = Progress(quiet=True)
    path = write_search(tmp_path / "plate.jsonl", None, quiet, 0.1, embeddings=tmp_path / "plate.npz")
    for options in ({}, {"viewport": PHONE, "color_scheme": "dark"}):
        with opened(chromium, path, **options) as page:
            counts = {"#map .pt": 60, "#map .picked": 11, "#curve .curve": 2, "#curve .band": 1, "tbody tr": 11}
            assert {what: page.locator(what).count() for what in counts} == counts
            assert page.locator("#said").inner_text().startswith("If 10 % of the candidates are hits, as --rate says, ")
            assert page.locator("#out").inner_text().startswith("2 without an outcome: ")
            assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
            page.locator("th button", has_text="outcome").click()
            assert page.locator("tbody tr").first.locator("td").nth(3).inner_text() == "hit"
