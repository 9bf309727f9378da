"""What a user sees while work goes on: lines in a pipe, a bar on a terminal, and what is waited for."""

import io
import time

import pytest
from rich.console import Console

from harness.system import progress as module
from harness.system.activity import current, doing
from harness.system.progress import BarStage, Progress


@pytest.fixture
def out(monkeypatch):
    """A pipe; lines come after 0.02 s, then every 0.05 s."""
    monkeypatch.setattr(module, "SHOW_AFTER_S", 0.02)
    monkeypatch.setattr(module, "WAITED_S", 0.02)
    monkeypatch.setattr(module, "PLAIN_EVERY_S", 0.05)
    monkeypatch.setattr(module, "LOOK_EVERY_S", 0.01)
    return io.StringIO()


def until(out, *parts):
    """Wait until the output holds each part."""
    deadline = time.monotonic() + 20
    while not all(part in out.getvalue() for part in parts):
        assert time.monotonic() < deadline, out.getvalue()
        time.sleep(0.01)


def test_lines_come_by_the_clock_even_if_nothing_is_reported(out):
    with Progress(out).stage("sample", 48, "responses", most_tokens=10) as stage:
        with doing("loading model m"):
            until(out, "sample: 0/48 responses, loading model m, 0:00:00 so far")
        stage.tokens(0)
        until(out, "sample: 0/48 responses, 0:00:00 so far")
        stage.tokens(5)
        until(out, "sample: 0/48 responses, 5 tokens, ", " tokens/s, at most 0:00:")
        stage.note = lambda: "0.12 of 5.00 USD"
        until(out, " tokens/s, 0.12 of 5.00 USD, at most 0:00:")
        stage.tokens(3)
        stage(2)
        until(out, "sample: 2/48 responses, 8 tokens, ", "about 0:00:")
        stage(46)
    assert out.getvalue().splitlines()[-1].startswith("sample: 48 responses of 8 tokens in 0:00:0")
    assert "0/s" not in out.getvalue().replace("0 tokens/s", "")


def test_work_without_a_count_is_named_and_the_innermost_name_counts(out):
    with Progress(out).waiting("timing a probe"):
        until(out, "timing a probe ...\n", "timing a probe ... 0:00:00 so far\n")
        with doing("loading model m"):
            until(out, "loading model m ...\n")
    assert current() is None


def test_a_stage_inside_a_wait_shows_itself_alone(out):
    progress = Progress(out)
    with progress.waiting("preparing"), progress.stage("import", 2, "problems"):
        until(out, "import: 0/2 problems, 0:00:00 so far\n" * 2)
    assert "preparing ... 0" not in out.getvalue()


def test_quiet_progress_prints_nothing(out):
    progress = Progress(out, quiet=True)
    with progress.waiting("preparing"), progress.stage("sample", 2, "responses") as stage:
        time.sleep(0.1)  # longer than the time after which others print
        stage.advance(2)
    assert out.getvalue() == ""


def test_a_line_that_cannot_be_printed_does_not_break_the_work(out, monkeypatch):
    progress, said = Progress(out), []

    def say(line):
        said.append(line)
        raise BrokenPipeError

    monkeypatch.setattr(progress, "say", say)
    with progress.waiting("preparing"):
        while len(said) < 3:
            time.sleep(0.01)


@pytest.mark.parametrize("most_tokens", [0, 100])
def test_the_time_left_agrees_with_the_count_beside_it(most_tokens, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    console = Console(file=io.StringIO(), width=120, force_terminal=True)
    stage, shown = BarStage("sample", 100, "responses", most_tokens, console), {}
    [_, _, _, column] = stage.bars.columns
    for done, seconds in ((1, 60), (99, 1), (100, 1)):  # all but the first are done at once, as by a chunk of an engine
        now[0] += seconds
        if most_tokens:
            stage.tokens(10 * (done - stage.done))
        stage.advance(done - stage.done)
        shown[done] = column.render(stage.bars.tasks[0]).plain
    assert shown[1].endswith(" left")
    assert shown[99].endswith("about 0:00:01 left")
    assert shown[100].startswith("100/100 responses")
    assert shown[100].endswith("0:01:02 so far")


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_bar_shows_as_much_as_fits_the_terminal(width):
    stage = BarStage("sample", 1_000, "responses", 100, Console(file=io.StringIO(), width=width, force_terminal=True))
    stage.tokens(0)
    stage.tokens(5_120)
    stage.advance(12)
    shown = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None, legacy_windows=False)
    shown.print(stage.bars.make_tasks_table(stage.bars.tasks))
    [line] = shown.file.getvalue().splitlines()
    assert len(line) <= width
    assert "12/1,000 responses" in line
    assert ("tokens/s" in line) == (width > 80)
    assert (" left" in line) == (width > 60)


def test_a_message_is_wrapped_between_words_on_a_terminal_and_stays_one_line_in_a_pipe(monkeypatch, out):
    line = "to do: " + "responses " * 12 + "in /a/path/that/is/longer/than/the/terminal/is/wide/and/stays/whole"
    monkeypatch.delenv("COLUMNS", raising=False)
    Progress(out).say(line)
    assert out.getvalue() == f"{line}\n"
    monkeypatch.setenv("COLUMNS", "40")
    narrow = io.StringIO()
    Progress(narrow).say(line)
    assert narrow.getvalue().split() == line.split()
    assert [part for part in narrow.getvalue().splitlines() if len(part) > 40] == [line.split()[-1]]
