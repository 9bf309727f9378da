"""The report in a real browser (Debian's Chromium): it draws, plays, takes keys, and runs nothing of a response."""

import csv
import re
import socket
from pathlib import Path

import numpy as np
import pytest
from support.processes import wait_for
from support.report_browser import ABSENT, PHONE, left, made, opened, press
from support.report_page import HOSTILE, hostile_pool, pool_file

import harness
from harness.results import inert_text
from harness.system.json_text import storable
from harness.system.progress import Progress
from harness_plugins.figures import frame
from harness_plugins.figures.request import Request
from harness_plugins.report import writing
from harness_plugins.report.page import visible
from harness_plugins.report.searching import write_search

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(ABSENT, reason="needs chromium (apt-get install chromium) and playwright"),
]


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


def test_the_page_draws_all_its_parts_without_an_error(page, data):
    assert page.title().startswith("colours")
    assert page.locator("tbody").last.locator("th").all_inner_texts() == [s["name"] for s in data["selectors"]]
    # references, controls, selectors
    counts = {"tbody tr": 3 + 3 + 4, "#curves .curve": 2 + 3 + 4, "#curves .band": 1 + 4, "#problems li": 6}
    counts |= {".map .pt": 2 * 16}
    assert {what: page.locator(what).count() for what in counts} == counts
    assert page.locator("#answers-note").is_visible()
    assert page.locator("#command").inner_text() == "\n".join(data["commands"])
    assert page.locator("#command").inner_text().startswith("harness run --task colours ")


def extra(page):
    return page.locator("#table .extra:visible")


def test_more_columns_are_shown_and_hidden_by_keyboard(page, data):
    assert extra(page).count() == 0
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
    assert extra(page).count() == 0


def test_a_problem_is_chosen_by_click_or_found_by_its_name_also_if_the_chosen_one_is_hidden(page):
    title, items = page.locator("#problem-title"), page.locator("#problems li:visible")
    items.nth(3).click()
    assert title.inner_text() == items.nth(3).locator("span").first.inner_text()
    assert page.locator("#problems [aria-selected=true]").count() == 1
    for name, key in (("2", "Enter"), ("4", "Tab")):
        page.locator("#search").fill(f"COLOUR {name}")
        assert [text[:6] for text in items.all_inner_texts()] == [f"test/{name}"]
        page.locator("#search").press(key)
        if key == "Tab":  # one item can always be reached
            page.keyboard.press("Home")
        assert title.inner_text() == f"test/{name}"
    page.locator("#search").fill("no such problem")
    assert page.locator("#found").inner_text() == "0 of 6 problems"


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
    for place, selector in enumerate(data["selectors"]):
        left(page).locator("select").select_option(selector["name"])
        if selector["kind"] == "subset":
            assert picked(page) == [0, 1, 2, 3]  # the largest budget that 5 calls pay for
            assert "set for budget 4" in left(page).locator(".status").inner_text()
            assert left(page).locator(".novelty .pt").count() == 0
        else:
            problem, order = order_shown(page, data)
            assert order == problem["picks"][place]["order"]
            assert picked(page) == sorted(order[:5])


def test_playing_goes_on_by_itself_pauses_and_stops_at_the_end(chromium, toy_report):
    with opened(chromium, toy_report, clock=True) as page:
        page.locator("#speed").select_option("4")
        page.locator("#play").click()
        page.clock.run_for(150 + 250)
        page.locator("#play").click()
        page.clock.run_for(10_000)
        assert (steps(page), page.locator("#play").inner_text()) == (2, "Play")
        page.locator("#speed").select_option("16")
        page.locator("#play").click()
        page.clock.run_for(10_000)
        assert (steps(page), page.locator("#play").inner_text()) == (16, "Play")


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


def focused(page):
    names = ("id", "className.baseVal", "tagName")
    return page.evaluate(" || ".join(f"document.activeElement.{name}" for name in names))


def test_everything_is_reached_and_done_by_keyboard_with_a_visible_focus(page, data):
    page.locator("#search").focus()
    press(page, "ArrowDown", "End")
    assert page.locator("#problems li").last.get_attribute("aria-selected") == "true"
    _, order = order_shown(page, data)
    press(page, "Tab")
    assert focused(page) == "play"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    press(page, "ArrowRight", "ArrowRight", "ArrowLeft")
    assert picked(page) == order[:1]
    press(page, "Enter")
    wait_for(lambda: steps(page) >= 2)
    press(page, "Space", "Home")
    assert steps(page) == 0
    for name in ("next", "step", "speed", "reveal", "SELECT", "pt "):  # one point of the map is in the tab order
        press(page, "Tab")
        assert focused(page).startswith(name)
    page.locator("#reveal").focus()
    press(page, "Space", "Tab", "Tab")
    assert page.locator("#reveal").is_checked()
    for key, index in (("ArrowRight", order[0]), ("ArrowRight", order[1]), ("ArrowDown", (order[1] + 1) % 16)):
        press(page, key)
        assert page.evaluate("Number(document.activeElement.dataset.index)") == index
    assert left(page).locator(".map [tabindex='0']").count() == 1


def test_the_curves_are_read_by_keyboard_and_switched_off_and_on(page, data):
    page.locator("#curves svg").focus()
    press(page, "ArrowRight", "ArrowRight")
    random = data["curves"][0]
    shown = f" random {100 * random['mean'][random['k'].index(2)]:.1f} % "
    assert shown in page.locator("#readout", has_text="k = 2: ").inner_text()
    button = page.locator("#legend button", has_text="shuffle")
    before = page.locator("#curves .curve").count()
    for pressed, count in (("false", before - 1), ("true", before)):
        button.click()
        assert (button.get_attribute("aria-pressed"), page.locator("#curves .curve").count()) == (pressed, count)


def test_of_many_curves_eleven_are_shown_and_the_others_are_there_to_be_switched_on(chromium, tmp_path):
    selectors = tuple(f"shuffle:offset={place}" for place in range(9))
    with opened(chromium, made(tmp_path, task="colours", engine="toy", selectors=selectors)) as page:
        off = page.locator("#legend button[aria-pressed=false]")
        assert (page.locator("#legend button").count(), off.count()) == (14, 3)
        assert page.locator("#curves .curve").count() == 11
        off.first.click()
        assert page.locator("#curves .curve").count() == 12


def assert_inert(page):
    assert page.locator("script").count() == 2
    assert page.locator("img, iframe, object, link, #made-of-text").count() == 0
    assert page.evaluate("window.pwned") is None


def test_hostile_responses_are_shown_as_text_and_stay_inert(chromium, hostile_report):
    with opened(chromium, hostile_report) as page:
        page.locator("#problems li", has_text="<script>alert(0)</script>").click()
        before = page.locator("*").count()
        for place, text in enumerate(HOSTILE):
            left(page).locator(".map .pt").nth(place).focus()
            assert left(page).locator("pre").text_content() == visible(storable(text)[:4000])
            assert page.locator("*").count() == before
            assert bool(left(page).locator(".response .note").inner_text()) == (len(text) > 4000)
        assert_inert(page)


def test_even_markup_that_got_in_would_not_run(chromium, hostile_report):
    attempts = """() => {
      const script = document.createElement("script");
      script.textContent = "window.pwned = 1";
      document.body.append(script);
      const box = document.createElement("div");
      box.innerHTML = '<img src="http://127.0.0.1:PORT/x.png" onerror="window.pwned = 2"><p style="color: red">x</p>';
      document.body.append(box);
    }"""
    with socket.create_server(("127.0.0.1", 0)) as server, opened(chromium, hostile_report) as page:
        server.setblocking(False)
        page.evaluate(attempts.replace("PORT", str(server.getsockname()[1])))
        wait_for(lambda: page.wait_for_timeout(50) or len(page.notes) >= 3, what="refusals of script, image and style")
        with pytest.raises(BlockingIOError):
            server.accept()
        assert page.evaluate("window.pwned") is None
        assert [line for line in page.notes if "Content Security Policy" not in line] == []
        page.notes.clear()
        del page.requests[1:]  # the image, which was refused before it was requested


def test_a_phone_shows_it_without_sideways_scrolling(chromium, hostile_report):
    with opened(chromium, hostile_report, PHONE, has_touch=True, is_mobile=True) as page:
        for at in range(page.locator("#problems li").count()):
            page.locator("#problems li").nth(at).tap()
            page.locator("#next").tap()
            page.locator("#reveal").set_checked(at % 2 == 0)
            assert page.evaluate("document.documentElement.scrollWidth") <= 360
        maps = [panel.bounding_box() for panel in page.locator(".map").all()]
        assert maps[0]["y"] + maps[0]["height"] < maps[1]["y"]  # one below the other
        page.locator("#more").tap()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.fixture(scope="module")
def search_page(tmp_path_factory):
    """The page of a search with hostile names: 9 outcomes, one of them a hit, and two that are out."""
    folder = tmp_path_factory.mktemp("search")
    h = np.random.default_rng(0).normal(size=(60, 5))
    names = [f"{row} {HOSTILE[row % len(HOSTILE)]}"[:200] for row in range(60)]
    np.savez(folder / "plate.npz", plate=h, names=[storable(name).replace("\0", "") for name in names])
    search = harness.search(folder / "plate.npz", journal=folder / "plate.jsonl", quiet=True)
    for place, name in enumerate(search.ask(11)[:9]):
        search.tell(name, place == 4)
    return write_search(folder / "plate.jsonl", None, Progress(quiet=True), 0.1, embeddings=folder / "plate.npz")


@pytest.mark.parametrize("options", [{}, {"viewport": PHONE, "color_scheme": "dark"}])
def test_the_page_of_a_search_draws_all_its_parts(chromium, search_page, options):
    with opened(chromium, search_page, **options) as page:
        counts = {"#map .pt": 60, "#map .picked": 11, "#curve .curve": 2, "#curve .band": 1, "tbody tr": 11}
        assert {what: page.locator(what).count() for what in counts} == counts
        assert page.locator("#said").inner_text().startswith("If 10 % of the candidates are hits, as --rate says, ")
        assert page.locator("#out").inner_text().startswith("2 without an outcome: ")
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        page.locator("th button", has_text="outcome").click()
        assert page.locator("tbody tr").first.locator("td").nth(3).inner_text() == "hit"


# Its tables, its charts of every question, and the pools in files beside it.


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
    press(page, "Enter")
    assert (first_column(page), heading.get_attribute("aria-sort")) == ([*ranked[::-1], "head"], "descending")
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


def test_the_list_opens_on_the_problem_where_the_two_differ_most_and_is_sorted(page, data):
    def names():
        return [text.split("\n")[0] for text in page.locator("#problems li").all_inner_texts()]

    def gap(name):
        ranks = [column[data["index"]["id"].index(name)] for column in data["index"]["ranks"] if column]
        return abs(np.log(np.mean(ranks[0]) / np.mean(ranks[-1])))

    assert page.locator("#problems li").first.get_attribute("aria-selected") == "true"
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


def test_a_question_is_read_and_opened_from_its_mark_by_keyboard_and_from_the_table_of_all(page, data):
    page.locator("#scatter svg").focus()
    press(page, "ArrowRight", "ArrowRight", "ArrowLeft")
    name = page.locator("#scatter-readout").inner_text().split(" ")[0].removesuffix(":")
    press(page, "Enter")
    assert page.locator("#problem-title").inner_text() == name
    page.locator("#against").select_option("shuffle")
    assert "calls of shuffle" in page.locator("#scatter").inner_text()
    page.locator("#all-problems summary").click()
    other = page.locator("#problem-table tbody tr").last
    name = other.locator("th").inner_text()
    other.get_by_role("button").click()
    assert page.locator("#problem-title").inner_text() == name


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
        texts = []
        for point in left(page).locator(".map .pt").all():
            point.focus()
            texts.append(left(page).locator("pre").text_content())
        assert sorted(texts) == sorted(visible(storable(text)[:4000]) for text in HOSTILE)
        assert_inert(page)
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
            page.notes[:] = [note for note in page.notes if "ERR_FILE_NOT_FOUND" not in note]
            page.requests.remove(beside.as_uri())
        beside.unlink(missing_ok=True)
