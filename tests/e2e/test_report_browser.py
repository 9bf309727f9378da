"""The report in a real browser (Debian's Chromium): it draws, plays, takes keys, and runs nothing of a response."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import files

import pytest
from support.paths import TOY
from support.processes import wait_for
from support.report_page import HOSTILE, hostile_pool, parsed

from harness.running import pipeline
from harness.running.config import RunConfig
from harness.store.keys import storable
from harness.system.progress import Progress
from harness_plugins.report.page import SCRIPTS
from harness_plugins.report.visible import visible
from harness_plugins.report.writing import write_report

CHROMIUM = shutil.which("chromium")
MISSING = not CHROMIUM or importlib.util.find_spec("playwright") is None
pytestmark = pytest.mark.skipif(
    MISSING and "CI" not in os.environ, reason="needs chromium (apt-get install chromium) and playwright"
)
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 360, "height": 740}


@dataclass
class Seen:
    """What a page did beside showing itself."""

    requests: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def chromium():
    from playwright.sync_api import sync_playwright

    assert CHROMIUM, "CI installs chromium"
    with sync_playwright() as playwright:
        args = ["--no-sandbox"] if os.getuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=args)
        yield browser
        browser.close()


@pytest.fixture
def opened(chromium):
    """`with opened(path, viewport, ...) as (page, seen)`: the file in a fresh browser context."""

    @contextmanager
    def call(path, viewport=DESKTOP, **options):
        context = chromium.new_context(viewport=viewport, **options)
        page, seen = context.new_page(), Seen()
        page.set_default_timeout(20_000)
        page.on("request", lambda request: seen.requests.append(request.url))
        page.on("console", lambda message: seen.said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda failure: seen.said.append(f"error: {failure}"))
        page.on("dialog", lambda dialog: (seen.said.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.goto(path.as_uri())
        try:
            yield page, seen
            assert seen.said == []
            assert seen.requests == [path.as_uri()]
        finally:
            context.close()

    return call


def made(folder, **options):
    """The report of one run."""
    plugins = [TOY] if options.get("engine") == "toy" else []
    rows, failures = pipeline.run(RunConfig(store=folder, plugin_files=plugins, **options), Progress())
    assert rows
    assert not failures
    return write_report(folder, (), None, plugins, Progress())


@pytest.fixture(scope="module")
def toy_report(tmp_path_factory):
    selectors = ("repexp", "shuffle", "head", "spread")
    return made(tmp_path_factory.mktemp("toy"), task="colours", engine="toy", selectors=selectors)


@pytest.fixture(scope="module")
def hostile_report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    return made(folder, pool=hostile_pool(folder / "pool.jsonl"), selectors=("repexp", "uniform"))


@pytest.fixture(scope="module")
def real_report(tmp_path_factory):
    return made(tmp_path_factory.mktemp("real"), task="game24", limit=4, n=24, selectors=("repexp", "mmr"))


def left(page):
    return page.locator(".panel").first


def picked(page):
    """The indices picked on the left, ascending."""
    return left(page).evaluate("p => [...p.querySelectorAll('.map .picked')].map(x => Number(x.dataset.index))")


def steps(page):
    return int(page.locator("#step").input_value())


def order_shown(page, path):
    """The order of the selector on the left for the problem shown, out of the page's data."""
    data, _, _ = parsed(path)
    title = page.locator("#problem-title").inner_text()
    problem = next(problem for problem in data["problems"] if problem["id"] == title)
    return problem, problem["picks"][int(left(page).locator("select").input_value())]["order"]


def test_the_page_of_a_real_run_draws_all_its_parts_without_an_error(opened, real_report):
    data, _, _ = parsed(real_report)
    with opened(real_report) as (page, _):
        assert page.title().startswith("game24")
        assert page.locator("tbody tr").count() == 3 + 2
        assert page.locator("#curves .curve").count() == 4
        assert page.locator("#curves .band").count() == 3
        assert page.locator("#problems li").count() == 4
        assert page.locator(".map .pt").count() == 2 * 24
        assert page.locator(".novelty .pt, .novelty .hidden:not(line)").count() == 2 * 24
        assert set(page.locator(".novelty p").all_inner_texts()) == {
            "elliptical bonus, pick by pick",
            "distance to the nearest earlier pick, pick by pick",
        }
        assert page.locator("tbody").last.locator("th").all_inner_texts() == [s["name"] for s in data["selectors"]]


@pytest.mark.parametrize("name", SCRIPTS)
def test_each_file_of_the_script_is_whole_by_itself(chromium, name):
    page = chromium.new_page()
    page.evaluate(
        'text => { new Function(`"use strict"; ${text}`); }',
        (files("harness_plugins.report") / f"{name}.js").read_text(),
    )
    with pytest.raises(Exception, match="SyntaxError"):
        page.evaluate("text => { new Function(text); }", "function half() {")
    page.close()


def extra(page):
    return page.locator("#table .extra:visible")


def test_more_columns_are_shown_and_hidden_by_keyboard(opened, toy_report):
    data, _, _ = parsed(toy_report)
    with opened(toy_report) as (page, _):
        button = page.get_by_role("button", name="More columns")
        assert (extra(page).count(), button.get_attribute("aria-expanded")) == (0, "false")
        button.focus()
        page.keyboard.press("Enter")
        button = page.get_by_role("button", name="Fewer columns")
        assert button.get_attribute("aria-expanded") == "true"
        heads = ["p", "q", "k95", "calls saved", "interval"]
        assert page.locator("thead .extra:visible").all_inner_texts() == heads
        assert extra(page).count() == 5 * (1 + len(data["rows"]))
        assert page.locator("#more-note").is_visible()
        for row in data["rows"][3:]:
            shown = page.locator("tbody tr", has=page.get_by_role("rowheader", name=row["name"], exact=True))
            p, q, k95, saved, interval = shown.locator(".extra").all_inner_texts()
            assert float(p) == pytest.approx(row["p"], rel=0.05)
            assert float(q) == pytest.approx(row["q"], rel=0.05)
            assert k95 == (str(row["k95"]) if row["k95"] else "–")
            assert saved.replace("−", "-") == (f"{row['calls_saved']:+}".replace("+0", "0") if row["k95"] else "–")
            assert interval == (row["trust"] or "–")
        page.keyboard.press("Space")
        assert (extra(page).count(), page.locator("#more-note").is_visible()) == (0, False)
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "scroll"


def test_a_phone_brings_more_columns_beside_the_names(opened, toy_report):
    with opened(toy_report, PHONE, has_touch=True, is_mobile=True) as (page, _):
        page.locator("#more").tap()
        name, first = page.locator("tbody th").last.bounding_box(), extra(page).first.bounding_box()
        assert 0 <= name["x"] < name["x"] + name["width"] <= first["x"] + 1
        assert first["x"] + first["width"] <= 360
        assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_a_problem_is_chosen_by_click_or_found_by_its_name(opened, toy_report):
    with opened(toy_report) as (page, _):
        for item in (page.locator("#problems li").nth(0), page.locator("#problems li").nth(3)):
            item.click()
            assert page.locator("#problem-title").inner_text() == item.locator("span").first.inner_text()
            assert page.locator("#problems [aria-selected=true]").count() == 1
        page.locator("#search").fill("COLOUR 2")
        assert page.locator("#problems li:visible").all_inner_texts()[0].startswith("test/2")
        assert page.locator("#problems li:visible").count() == 1
        page.locator("#search").press("Enter")
        assert page.locator("#problem-title").inner_text() == "test/2"
        page.locator("#search").fill("no such problem")
        assert page.locator("#found").inner_text() == "0 of 6 problems"


def test_stepping_shows_the_picks_in_their_order_and_the_text_of_the_last(opened, toy_report):
    with opened(toy_report) as (page, _):
        problem, order = order_shown(page, toy_report)
        assert picked(page) == []
        assert page.locator("#back").is_disabled()
        for made in (1, 2, 3):
            page.locator("#next").click()
            assert picked(page) == sorted(order[:made])
            assert left(page).locator("pre").inner_text() == problem["texts"][problem["text"][order[made - 1]]]
            assert left(page).locator(".novelty .picked").count() == made
        page.locator("#back").click()
        assert picked(page) == sorted(order[:2])
        page.locator("#step").fill("16")
        assert picked(page) == list(range(16))
        assert page.locator("#next").is_disabled()
        page.locator("#step").fill("4")
        assert picked(page) == sorted(order[:4])


def test_another_selector_can_be_chosen_on_either_side(opened, toy_report):
    data, _, _ = parsed(toy_report)
    with opened(toy_report) as (page, _):
        page.locator("#step").fill("5")
        for place, selector in enumerate(data["selectors"]):
            left(page).locator("select").select_option(selector["name"])
            if selector["kind"] == "subset":
                assert picked(page) == [0, 1, 2, 3]  # the largest budget that 5 calls pay for
                assert "set for budget 4" in left(page).locator(".status").inner_text()
                assert left(page).locator(".novelty .pt").count() == 0
            else:
                problem, order = order_shown(page, toy_report)
                assert order == problem["picks"][place]["order"]
                assert picked(page) == sorted(order[:5])


def test_playing_goes_on_by_itself_pauses_and_stops_at_the_end(opened, toy_report):
    with opened(toy_report) as (page, _):
        page.locator("#speed").select_option("4")
        page.locator("#play").click()
        assert page.locator("#play").inner_text() == "Pause"
        wait_for(lambda: steps(page) >= 2)
        page.locator("#play").click()
        here = steps(page)
        assert page.locator("#play").inner_text() == "Play"
        page.wait_for_timeout(600)
        assert steps(page) == here < 16
        page.locator("#speed").select_option("16")
        page.locator("#play").click()
        wait_for(lambda: steps(page) == 16)
        wait_for(lambda: page.locator("#play").inner_text() == "Play")
        page.locator("#play").click()  # from the beginning again
        wait_for(lambda: steps(page) < 16)


def test_correctness_is_shown_on_demand_only(opened, toy_report):
    with opened(toy_report) as (page, _):
        problem, _ = order_shown(page, toy_report)
        page.locator("#next").click()
        rings = page.locator(".map").first.locator(".verdict:visible")
        assert rings.count() == 0
        assert "correct" not in page.locator(".panels").inner_text()
        page.get_by_role("switch", name="Show correctness").check()
        assert rings.count() == problem["c"] > 0
        assert rings.first.evaluate("r => getComputedStyle(r).pointerEvents") == "none"  # it covers its neighbours
        assert "first correct at pick" in left(page).locator(".status").inner_text()
        assert left(page).locator(".head").inner_text().split(" · ")[-1] in ("correct", "wrong")
        page.get_by_role("switch", name="Show correctness").uncheck()
        assert rings.count() == 0
        assert "correct" not in page.locator(".panels").inner_text()


def test_the_text_of_a_response_is_shown_on_hover_and_on_focus_in_both_panels(opened, toy_report):
    with opened(toy_report) as (page, _):
        problem, _ = order_shown(page, toy_report)
        points = left(page).locator(".map .pt")
        for index in (3, 11):
            points.nth(index).hover(force=True)
            looked = left(page).locator(".head").inner_text()
            assert f"response {index}" in looked or problem["text"].count(problem["text"][index]) > 1
        points.nth(5).focus()
        for panel in page.locator(".panel").all():
            assert "response 5 " in panel.locator(".head").inner_text()
            assert panel.locator("pre").inner_text() == problem["texts"][problem["text"][5]]
            assert panel.locator(".looked:not(.hidden)").count() == 1


def focused(page):
    return page.evaluate(
        "document.activeElement.id || document.activeElement.className.baseVal || document.activeElement.tagName"
    )


def test_everything_is_reached_and_done_by_keyboard_with_a_visible_focus(opened, toy_report):
    with opened(toy_report) as (page, _):
        page.locator("#search").focus()
        page.keyboard.press("ArrowDown")
        first = page.locator("#problem-title").inner_text()
        page.keyboard.press("ArrowDown")
        assert page.locator("#problem-title").inner_text() != first
        page.keyboard.press("End")
        assert page.locator("#problems li").last.get_attribute("aria-selected") == "true"
        _, order = order_shown(page, toy_report)
        page.keyboard.press("Tab")
        assert focused(page) == "play"
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid"
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowLeft")
        assert picked(page) == order[:1]
        page.keyboard.press("Enter")
        wait_for(lambda: steps(page) >= 2)
        page.keyboard.press("Space")
        page.keyboard.press("Home")
        assert steps(page) == 0
        order_of_focus = []
        for _ in range(8):
            page.keyboard.press("Tab")
            order_of_focus.append(focused(page))
        assert order_of_focus[:4] == ["next", "step", "speed", "reveal"]
        assert order_of_focus[4] == "SELECT"
        assert order_of_focus[5].startswith("pt ")  # one point of the map is in the tab order, whichever is current
        page.locator("#reveal").focus()
        page.keyboard.press("Space")
        assert page.locator("#reveal").is_checked()
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        page.keyboard.press("ArrowRight")
        assert page.evaluate("Number(document.activeElement.dataset.index)") == order[0]
        page.keyboard.press("ArrowRight")
        assert page.evaluate("Number(document.activeElement.dataset.index)") == order[1]
        page.keyboard.press("ArrowDown")
        assert page.evaluate("Number(document.activeElement.dataset.index)") == (order[1] + 1) % 16
        assert left(page).locator(".looked:not(.hidden)").count() == 1
        assert left(page).locator(".map [tabindex='0']").count() == 1


def test_the_curves_are_read_by_keyboard_and_switched_off_and_on(opened, toy_report):
    data, _, _ = parsed(toy_report)
    with opened(toy_report) as (page, _):
        page.locator("#curves svg").focus()
        for _ in range(2):
            page.keyboard.press("ArrowRight")
        readout = page.locator("#readout").inner_text()
        assert readout.startswith("k = 2: ")
        random = data["curves"][0]
        assert f"random {100 * random['mean'][random['k'].index(2)]:.1f} %" in readout
        button = page.locator("#legend button", has_text="shuffle")
        before = page.locator("#curves .curve").count()
        button.click()
        assert (button.get_attribute("aria-pressed"), page.locator("#curves .curve").count()) == ("false", before - 1)
        button.click()
        assert (button.get_attribute("aria-pressed"), page.locator("#curves .curve").count()) == ("true", before)


@pytest.mark.parametrize("place", range(len(HOSTILE)))
def test_a_hostile_response_is_shown_as_text_and_stays_inert(opened, hostile_report, place):
    with opened(hostile_report) as (page, _):
        page.locator("#problems li", has_text="<script>alert(0)</script>").click()
        before = page.locator("*").count()
        left(page).locator(".map .pt").nth(place).focus()
        shown = left(page).locator("pre").text_content()
        expected = visible(storable(HOSTILE[place])[:4000])
        assert shown == expected
        assert page.locator("*").count() == before
        assert page.locator("script").count() == 2
        assert page.locator("img, iframe, object, link, #made-of-text").count() == 0
        assert page.evaluate("window.pwned") is None
        note = left(page).locator(".response .note").inner_text()
        assert note == ("The first 4,000 of 525,016 characters." if "half a mega" in expected else note)
        assert bool(note) == (len(HOSTILE[place]) > 4000)


def test_even_markup_that_got_in_would_not_run(opened, hostile_report):
    attempts = """() => {
      const script = document.createElement("script");
      script.textContent = "window.pwned = 1";
      document.body.append(script);
      const box = document.createElement("div");
      box.innerHTML = '<img src="http://127.0.0.1:PORT/x.png" onerror="window.pwned = 2"><p style="color: red">x</p>';
      document.body.append(box);
    }"""
    with socket.create_server(("127.0.0.1", 0)) as server, opened(hostile_report) as (page, seen):
        server.setblocking(False)
        page.evaluate(attempts.replace("PORT", str(server.getsockname()[1])))
        wait_for(lambda: page.wait_for_timeout(50) or len(seen.said) >= 3)  # script, image and style
        page.wait_for_timeout(200)
        with pytest.raises(BlockingIOError):
            server.accept()
        assert page.evaluate("window.pwned") is None
        assert all("Content Security Policy" in line for line in seen.said)
        seen.said.clear()
        del seen.requests[1:]  # what was asked for, and refused before it left


@pytest.mark.parametrize("report", ["real_report", "hostile_report"])
def test_a_phone_shows_it_without_sideways_scrolling(opened, report, request):
    with opened(request.getfixturevalue(report), PHONE, has_touch=True, is_mobile=True) as (page, _):
        for at in range(page.locator("#problems li").count()):
            page.locator("#problems li").nth(at).tap()
            page.locator("#next").tap()
            page.locator("#reveal").set_checked(at % 2 == 0)
            assert page.evaluate("document.documentElement.scrollWidth") <= 360
        maps = [panel.bounding_box() for panel in page.locator(".map").all()]
        assert maps[0]["y"] + maps[0]["height"] < maps[1]["y"]  # one below the other
        heights = "b => b.map(one => one.getBoundingClientRect().height)"
        assert min(page.locator("button, select, #reveal").evaluate_all(heights)) >= 20


def test_it_follows_the_systems_colours_and_prints_on_white_without_its_controls(opened, toy_report):
    def paper(page):
        return page.evaluate("getComputedStyle(document.body).backgroundColor")

    with opened(toy_report, color_scheme="light") as (page, _):
        light = paper(page)
    with opened(toy_report, color_scheme="dark", reduced_motion="reduce") as (page, _):
        assert paper(page) != light
        assert page.evaluate("getComputedStyle(document.querySelector('.shape')).transitionDuration") == "0s"
        page.emulate_media(media="print")
        assert paper(page) == "rgb(255, 255, 255)"
        assert page.locator(".transport:visible, aside:visible, #more:visible").count() == 0
        assert page.locator(".map:visible").count() == 2


def test_a_search_that_hides_the_chosen_problem_leaves_another_to_reach(opened, toy_report):
    with opened(toy_report) as (page, _):
        page.locator("#problems li").first.click()
        chosen = page.locator("#problem-title").inner_text()
        other = "test/0" if chosen != "test/0" else "test/1"
        page.locator("#search").fill(other)
        page.keyboard.press("Tab")
        page.keyboard.press("Home")
        assert page.locator("#problem-title").inner_text() == other


def test_picks_that_end_early_say_why(opened, tmp_path):
    plugin = tmp_path / "plugin.py"
    shutil.copy(TOY, plugin)
    config = RunConfig(
        task="colours", engine="toy", selectors=("shuffle",), plugin_files=[plugin], store=tmp_path / "runs"
    )
    pipeline.run(config, Progress())
    plugin.write_text(plugin.read_text() + "\nEDITED = True\n")
    path = write_report(tmp_path / "runs", (), None, [plugin], Progress())
    with opened(path) as (page, _):
        _, order = order_shown(page, path)
        assert len(order) < 16
        assert "only the stored picks are shown" in left(page).locator(".novelty p").inner_text()
        page.locator("#step").fill(str(len(order)))
        assert picked(page) == sorted(order)
        assert page.locator("#next").is_disabled()
