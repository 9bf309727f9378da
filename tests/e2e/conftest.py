"""Chromium, and reports in it: made once, and opened anew for each test."""

import os

import pytest
from support.report_browser import CHROMIUM, made, opened
from support.report_page import hostile_pool, parsed


@pytest.fixture(scope="module")
def chromium():
    from playwright.sync_api import sync_playwright

    assert CHROMIUM, "CI installs chromium"
    with sync_playwright() as playwright:
        args = ["--no-sandbox"] if os.getuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=args)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def toy_report(tmp_path_factory):
    selectors = ("repexp", "shuffle", "head", "spread")
    return made(tmp_path_factory.mktemp("toy"), task="colours", engine="toy", selectors=selectors)


@pytest.fixture(scope="module")
def hostile_report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    return made(folder, pool=hostile_pool(folder / "pool.jsonl"), selectors=("repexp", "uniform"))


@pytest.fixture(scope="module")
def toy_page(chromium, toy_report):
    with opened(chromium, toy_report) as page:
        yield page


@pytest.fixture
def page(toy_page, toy_report):
    """The toy's report, as it is when it was opened."""
    toy_page.mouse.move(0, 0)
    toy_page.goto(toy_report.as_uri())
    return toy_page


@pytest.fixture(scope="module")
def data(toy_report):
    return parsed(toy_report)[0]
