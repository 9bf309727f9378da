"""Reports in a real browser (Debian's Chromium): made by a run, opened in a page that must stay quiet, and driven."""

from __future__ import annotations

import importlib.util
import os
import shutil
from contextlib import contextmanager

from harness.jobs import run as pipeline
from harness.jobs.options import RunConfig
from harness.system.progress import Progress
from harness_plugins.report.writing import write_report
from support.paths import TOY

CHROMIUM = shutil.which("chromium")
ABSENT = (not CHROMIUM or importlib.util.find_spec("playwright") is None) and "CI" not in os.environ
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 360, "height": 740}


@contextmanager
def opened(chromium, path, viewport=DESKTOP, clock=False, **options):
    """`with opened(chromium, path, ...) as page`: in a fresh context; it must be quiet and ask for nothing else."""
    context = chromium.new_context(viewport=viewport, **options)
    page = context.new_page()
    page.notes, page.requests = [], []
    page.set_default_timeout(20_000)
    if clock:
        page.clock.install(time=0)
    page.on("request", lambda request: page.requests.append(request.url))
    page.on("console", lambda message: page.notes.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda failure: page.notes.append(f"error: {failure}"))
    page.on("dialog", lambda dialog: (page.notes.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    page.goto(path.as_uri())
    if clock:
        page.clock.pause_at(3600)  # from here on time goes on by `run_for` only, however slow the machine
    try:
        yield page
        assert page.notes == []
        assert set(page.requests) == {path.as_uri()}
    finally:
        context.close()


def made(folder, **options):
    """The report of one run."""
    pipeline.run(RunConfig(store=folder, plugin_files=[TOY], **options), Progress())
    return write_report(folder, (), None, [TOY], Progress())


def left(page):
    return page.locator(".panel").first


def press(page, *keys):
    for key in keys:
        page.keyboard.press(key)
