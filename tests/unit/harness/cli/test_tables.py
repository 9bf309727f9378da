"""What a person sees: the columns that fit, and none that is cut."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from harness.cli import result_tables as tables
from harness.results.columns import chance
from harness.results.rows import Row
from harness.scoring import metrics
from harness.scoring.metrics import Outcomes
from harness.system import console as printing


def row_of(selector, embedder="tfidf", subset=False, seed=0, **more):
    rng = np.random.default_rng(seed)
    c = rng.integers(1, 20, 120)
    ranks = rng.integers(1, 40, (120, 5))
    hits = {k: ranks <= k for k in metrics.budgets(256)} if subset else None
    drawn = Outcomes(np.full(120, 256), c, np.zeros(120, int), None if subset else ranks, hits)
    labels = {"task": "game24", "split": "heldout", "model": "tiny24", "engine": "transformers", "sampler": "vanilla"}
    labels |= {"embedder": embedder, "selector": selector, "trials": 5, "seed": 0, "cell": "abc"}
    about = {"grader": "game24 1", "conditions": {}, "disputed": None}
    return Row(**labels, **about, **metrics.summary(drawn) | more)


ROWS = [row_of("facility-location"), row_of("uniform", seed=1), row_of("kmedoids", subset=True)]


@pytest.fixture
def shown(monkeypatch):
    """What `print_(value)` prints on a console of that width."""

    def call(print_, *values, width):
        out = io.StringIO()
        for module in (tables, printing):
            monkeypatch.setattr(module, "console", lambda *_: Console(file=out, width=width, highlight=False))
        print_(*values)
        return out.getvalue()

    return call


def table_lines(text):
    return [
        line.rstrip() for line in text.splitlines() if re.match(r" (random|oracle|anti|facility|uniform|kmed)", line)
    ]


@pytest.mark.parametrize("width", [80, 100, 120, 160])
def test_no_column_is_cut_and_no_line_is_wider_than_the_console(shown, width):
    text = shown(tables._results, ROWS, width=width)
    assert "…" not in text
    assert len(table_lines(text)) == 6  # nothing is folded over two lines
    assert max(map(len, table_lines(text))) <= width


@pytest.mark.parametrize("width", [80, 170])
def test_no_head_names_a_budget_where_there_is_none(shown, width):
    nothing = dict.fromkeys(("budget", "p_budget", "win_budget", "tie_budget", "loss_budget"))
    text = shown(tables._results, [replace(row, **nothing) for row in ROWS], width=width)
    assert "None" not in text
    assert "gain" in text or width == 80


def test_a_wide_console_shows_k95_with_the_calls_saved_p_and_the_gain(shown):
    text = shown(tables._results, ROWS, width=170)
    row = ROWS[0]
    assert "pass@256" in text
    assert f"{row.k95} ({row.calls_saved:+d})" in text
    assert f"gain@{row.budget}" in text
    assert re.search(r"^ random \(exact\).* " + str(row.k95_random) + r"\s*$", text, re.M)


def test_a_narrow_console_keeps_the_main_columns(shown):
    text = shown(tables._results, ROWS, width=80)
    head = text.split("random (exact)")[0]
    for word in ("selector", "samples-to-", "improvement", "win/tie/loss", "pass@1"):
        assert word in head
    assert "k95" not in head
    assert "pass@4 " not in head


def test_a_very_narrow_console_still_shows_whole_columns(shown):
    assert "pass@16" not in shown(tables._results, ROWS, width=72)
    assert max(map(len, table_lines(shown(tables._results, ROWS, width=72)))) <= 72


def test_a_subset_method_shows_its_test_and_shares_at_the_budget(shown):
    row = ROWS[2]
    line = next(line for line in table_lines(shown(tables._results, ROWS, width=170)) if "kmedoids" in line)
    shares = "/".join(f"{100 * getattr(row, name):.0f}" for name in ("win_budget", "tie_budget", "loss_budget"))
    assert f"{shares} @{row.budget}" in line
    assert chance(row.p_budget) in line.split()
    ends = row.gain_at_k_ci[str(row.budget)]
    assert f"[{100 * ends[0]:+.1f}, {100 * ends[1]:+.1f}]" in line


def test_rows_that_were_corrected_for_one_another_show_q_and_others_p(shown):
    corrected = [replace(row, q_random=0.012345) for row in ROWS]
    assert "0.012" in shown(tables._results, corrected, width=170)
    assert re.search(r"\bq\b", shown(tables._results, corrected, width=170))
    assert re.search(r"\bp\b", shown(tables._results, ROWS, width=170))


@pytest.mark.parametrize(("value", "text"), [(None, "-"), (2e-10, "<1e-9"), (0.00057, "0.00057"), (0.5024, "0.5")])
def test_a_chance_has_two_digits(value, text):
    assert chance(value) == text


def test_a_table_of_several_seeds_says_so_and_a_leaderboard_says_what_its_intervals_are_worth(shown, tmp_path):
    from harness.results.leaderboard import Board

    rows = [replace(row, seeds=[0, 1, 2], disputed=4) for row in ROWS]
    text = shown(tables.leaderboard, [Board({}, rows, [("twice", "broke")])], [tmp_path], width=120)
    assert "5 trials, 3 seeds" in text
    assert "failed: twice: broke" in text
    assert "disputed grades: 4." in text
    assert f"intervals: {tables.TRUST.get(rows[0].trust, 'nominal')}" in text
