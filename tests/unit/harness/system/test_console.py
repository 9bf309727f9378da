"""Tables in which no word is cut, at any width."""

import io
import re

import pytest
from rich.console import Console

from harness.system.console import Heading, word_table

SPEC = "repexp:lam=0.1,state=penultimate,normalise=true"
HEADINGS = [
    Heading("selector"),
    Heading("model", kept=2),
    Heading("calls", kept=5, right=True),
    Heading("what", kept=4, prose=True),
]
ROWS = [
    [SPEC, "HuggingFaceTB/SmolLM2-135M-Instruct", "6.47", "the determinant of the covariance, which it maximizes"],
    ["uniform", "tiny24", "12.40", "an order that is random"],
]


def printed(headings, rows, width):
    table, shown = word_table(headings, rows, width)
    out = Console(file=io.StringIO(), width=width)
    out.print(table)
    return out.file.getvalue(), [headings[at].head for at in shown]


@pytest.mark.parametrize("width", [60, 70, 80, 100, 120, 200])
def test_no_word_is_cut_and_no_line_too_wide(width):
    text, shown = printed(HEADINGS, ROWS, width)
    assert max(map(len, text.splitlines())) <= width
    words = set(text.split())
    for place, heading in enumerate(HEADINGS):
        for row in ROWS if heading.head in shown else ():
            assert set(row[place].split()) <= words, (heading.head, text)


def test_the_least_kept_columns_go_first():
    assert [printed(HEADINGS, ROWS, width)[1] for width in (60, 80, 100, 135)] == [
        ["selector", "calls"],
        ["selector", "calls"],
        ["selector", "calls", "what"],
        ["selector", "model", "calls", "what"],
    ]


def test_a_name_wider_than_the_table_is_broken_behind_punctuation():
    text, _ = printed([Heading("selector"), Heading("calls", right=True)], [[SPEC, "6.47"], ["uniform", "1"]], 40)
    lines = [re.split(r"\s{2,}| 6.47", line.strip())[0] for line in text.splitlines()]
    assert max(map(len, text.splitlines())) <= 40
    assert SPEC in "".join(lines)
    assert [line for line in lines if line and line in SPEC] == [
        "repexp:lam=0.1,",
        "state=penultimate,",
        "normalise=true",
    ]


def test_texts_are_no_markup_and_no_control_characters():
    text, _ = printed([Heading("name")], [["[bold]x[/bold]\x1b[31m"]], 80)
    assert "[bold]x[/bold]" in text
    assert "\x1b" not in text
