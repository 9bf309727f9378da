"""What a user sees while work goes on: lines in a pipe, a bar on a terminal, and what is waited for."""

import io
import time

import pytest
from rich.console import Console

from harness.system import progress as module
from harness.system.progress import Progress, Stage, clock, doing, rate


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
        until(out, "sample: 0/48 responses, 0:00:00 so far")
        stage.tokens(0)
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
        until(out, "timing a probe ... 0:00:00 so far\n" * 2)
        with doing("loading model m"):
            until(out, "loading model m ... 0:00:00 so far\n")


def test_a_stage_inside_a_wait_shows_itself_alone(out, monkeypatch):
    monkeypatch.setattr(module, "WAITED_S", 0.4)  # longer than a busy machine takes to begin the stage
    progress = Progress(out)
    with progress.waiting("preparing"), progress.stage("import", 2, "problems"):
        while out.getvalue().count("import: 0/2 problems, ") < 12:
            time.sleep(0.01)
        assert "preparing" not in out.getvalue()  # before the stage ends: then the wait may go on


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


def test_durations_are_hours_minutes_seconds_and_a_slow_rate_is_told_in_minutes_or_hours():
    table = {-3: "0:00:00", 59.6: "0:01:00", 80: "0:01:20", 7199: "1:59:59", 360_000: "100:00:00"}
    assert {seconds: clock(seconds) for seconds in table} == table
    table = {1234.5: "1,234/s", 12.3: "12/s", 1.23: "1.2/s", 0.5: "30/min", 0.02: "1.2/min", 0.001: "3.6/h"}
    assert {per_s: rate(per_s) for per_s in table} == table


@pytest.fixture
def now(monkeypatch):
    """A clock that stands still, in a list."""
    now = [1000.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


def test_without_tokens_the_rest_takes_as_long_as_what_is_done(now):
    stage = Stage("embed", 10, "responses")
    now[0] += 5
    assert stage.state() == ["0/10 responses", "0:00:05 so far"]
    stage.advance(2)
    now[0] += 5
    assert stage.state() == ["2/10 responses", "12/min", "about 0:00:40 left"]
    resumed = Stage("embed", 10, "responses")
    resumed.done = 8
    now[0] += 5
    assert resumed.state() == ["8/10 responses", "0:00:05 so far"]
    resumed.advance()
    assert resumed.state()[-1] == "about 0:00:05 left"
    resumed.advance()
    assert resumed.state()[-1] == "0:00:05 so far"


def test_the_time_left_of_sampling_begins_as_a_bound_and_comes_near_to_the_truth(now):
    stage, rest, seen = Stage("sample", 40, "responses", 100), [30, 50, 70, 90] * 10, []
    now[0] += 60  # loading
    stage.tokens(0)
    active, began = [rest.pop(0) for _ in range(4)], now[0]
    while active:
        now[0] += 1
        stage.tokens(len(active))
        active = [length - 1 for length in active]
        stage.advance(active.count(0))
        active = [length for length in active if length]
        active += [rest.pop(0) for _ in range(min(4 - len(active), len(rest)))]
        seen.append((now[0] - began, stage.state()[-1]))
    assert seen[0][1] == "at most 0:16:39 left"
    really = seen[-1][0]
    for at, line in seen[len(seen) // 2 : -1]:
        word, left, _ = line.split()[0], line.split()[1], line
        hours, minutes, seconds = map(int, left.split(":"))
        assert (word, hours) == ("about", 0)
        assert abs(60 * minutes + seconds - (really - at)) < 0.3 * (really - at) + 30


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_terminal_shows_as_much_as_fits_the_terminal(width):
    stage = Stage("sample", 1_000, "responses", 100)
    stage.tokens(0)
    stage.tokens(5_120)
    stage.advance(12)
    shown = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None, legacy_windows=False)
    shown.print(shown.status(stage).renderable)
    [line] = shown.file.getvalue().splitlines()
    assert len(line) <= width
    assert "12/1,000 responses" in line
    assert ("5,120 tokens" in line) == (width > 80)
    assert " left" in line


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
