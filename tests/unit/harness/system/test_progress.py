"""What a user sees while work goes on; tables in which no word is cut; which libraries are missing."""

import io
import re
import tomllib

import pytest
from rich.console import Console
from support.paths import ROOT
from support.processes import wait_for
from support.refusals import refusal_of

from harness.system import extras
from harness.system.console import Heading, word_table
from harness.system.progress import Progress, Stage, clock, doing, rate


@pytest.fixture
def out(monkeypatch):
    """A pipe; lines come after 0.02 s, then every 0.05 s."""
    for name, seconds in (("SHOW_AFTER_S", 0.02), ("WAITED_S", 0.02), ("PLAIN_EVERY_S", 0.05), ("LOOK_EVERY_S", 0.01)):
        monkeypatch.setattr(f"harness.system.progress.{name}", seconds)
    return io.StringIO()


def until(out, *parts):
    """Wait until the output holds each part."""
    wait_for(lambda: all(part in out.getvalue() for part in parts), 60, f"{parts}")


def test_lines_come_by_the_clock_even_if_nothing_is_reported(out):
    with Progress(out).waiting("timing a probe"):
        until(out, "timing a probe ... 0:00:00 so far\n" * 2)
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


def test_durations_are_hours_minutes_seconds_and_a_slow_rate_is_told_in_minutes_or_hours():
    table = {-3: "0:00:00", 59.6: "0:01:00", 7199: "1:59:59", 360_000: "100:00:00"}
    assert {seconds: clock(seconds) for seconds in table} == table
    table = {1234.5: "1,234/s", 12.3: "12/s", 1.23: "1.2/s", 0.5: "30/min", 0.02: "1.2/min", 0.001: "3.6/h"}
    assert {per_s: rate(per_s) for per_s in table} == table


LINE = f"to do: {'responses ' * 12}in /a/path/that/is/longer/than/the/terminal/is/wide/and/stays/whole/to/its/end"


def test_a_terminal_shows_as_much_as_fits_and_a_message_is_wrapped_there_between_words(monkeypatch, out):
    stage = Stage("sample", 1_000, "responses", 100)
    for tokens in (0, 5_120):
        stage.tokens(tokens)
    stage.advance(12)
    for width in (60, 120):
        shown = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None, legacy_windows=False)
        shown.print(shown.status(stage).renderable)
        [line] = shown.file.getvalue().splitlines()
        assert (len(line) <= width, "12/1,000 responses" in line, " left" in line) == (True, True, True)
        assert ("5,120 tokens" in line) == (width == 120)
    for columns, most in (("", 999), ("40", len(LINE.split()[-1]))):  # a pipe, a narrow terminal
        monkeypatch.setenv("COLUMNS", columns)
        Progress(out := io.StringIO()).say(LINE)
        assert out.getvalue().split() == LINE.split()
        assert max(map(len, out.getvalue().splitlines())) == min(most, len(LINE))


SPEC = "repexp:lam=0.1,state=penultimate,normalise=true"
CALLS = Heading("calls", kept=5, right=True)
HEADINGS = [Heading("selector"), Heading("model", kept=2), CALLS, Heading("what", kept=4, prose=True)]
ROWS = [
    [SPEC, "HuggingFaceTB/SmolLM2-135M-Instruct", "6.47", "the determinant of the covariance, which it maximizes"],
    ["uniform", "tiny24", "12.40", "an order that is random"],
]


def printed(headings, rows, width):
    table, shown = word_table(headings, rows, width)
    Console(file=(out := io.StringIO()), width=width).print(table)
    assert max(map(len, out.getvalue().splitlines())) <= width
    return out.getvalue(), [headings[at].head for at in shown]


def test_no_word_of_a_table_is_cut_and_the_least_kept_columns_go_first():
    kept = {60: ["selector", "calls"], 100: ["selector", "calls", "what"], 135: ["selector", "model", "calls", "what"]}
    for width, heads in kept.items():
        text, shown = printed(HEADINGS, ROWS, width)
        assert shown == heads
        words = set(text.split())
        for place, heading in enumerate(HEADINGS):
            assert heading.head not in shown or all(set(row[place].split()) <= words for row in ROWS), text
    text, _ = printed([HEADINGS[0], Heading("calls", right=True)], [[SPEC, "6.47"], ["uniform", "1"]], 40)
    lines = [re.split(r"\s{2,}| 6.47", line.strip())[0] for line in text.splitlines()]
    pieces = ["repexp:lam=0.1,", "state=penultimate,", "normalise=true"]  # broken behind punctuation
    assert [line for line in lines if line and line in SPEC] == pieces
    text, _ = printed([Heading("name")], [["[bold]x[/bold]\x1b[31m"]], 80)
    assert ("[bold]x[/bold]" in text, "\x1b" in text) == (True, False)


def test_all_missing_libraries_are_named_in_one_line_with_one_command(monkeypatch, tmp_path):
    (tmp_path / "runs_of_earlier_days").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert extras.missing(["json", "runs_of_earlier_days"]) == ["runs_of_earlier_days"]  # a folder is no library
    absent = {"torch", "transformers", "kmedoids", "thirdparty"}
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name in absent else type("Spec", (), {"origin": ""}))
    needed = {"engine e": ["torch", "numpy", "transformers"], "selector s": ["kmedoids"], "task x": ["thirdparty"]}
    words = "engine e needs torch, transformers; selector s needs kmedoids; task x needs thirdparty: not installed: "
    command = "pip install 'diversity-harness[hf,kmedoids]' thirdparty"
    assert refusal_of(extras.require_all, needed) == words + command
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for library, extra in extras.EXTRA.items():  # every extra that is named exists and brings its library
        texts = " ".join(declared[extra]).replace("_", "-")
        assert library.replace("_", "-") in texts or library == "huggingface_hub"  # transformers brings it
