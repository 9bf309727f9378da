"""What a person sees of results: columns that fit, comparisons, leaderboards, published cells, and `harness verify`."""

import io
import re
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console
from support.cells import cell, entry, keep, subset_entry
from support.searches import pool_in

from harness.cli import result_tables as tables
from harness.cli.tables import answer, asked, lines
from harness.results.leaderboard import Board
from harness.results.legends import LEGENDS, TRUST
from harness.results.rows import Row, columns
from harness.scoring import metrics
from harness.scoring.metrics import Outcomes
from harness.system import console as printing


def row_of(selector, subset=False, seed=0):
    rng = np.random.default_rng(seed)
    c, ranks = rng.integers(1, 20, 120), rng.integers(1, 40, (120, 5))
    hits = {k: ranks <= k for k in metrics.budgets(256)} if subset else None
    drawn = Outcomes(np.full(120, 256), c, np.zeros(120, int), None if subset else ranks, hits)
    labels = {"task": "game24", "split": "heldout", "model": "tiny24", "engine": "transformers", "sampler": "vanilla"}
    labels |= {"embedder": "tfidf", "selector": selector, "trials": 5, "seed": 0, "cell": "abc", "grader": "game24 1"}
    return Row(**labels, conditions={}, disputed=None, **metrics.summary(drawn))


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


def test_columns_that_do_not_fit_are_left_out_and_none_is_cut(shown):
    start = re.compile(r" (random|oracle|anti|facility|uniform|kmed)")
    for width in (72, 100, 160):
        text = shown(tables.of_one_pool, ROWS, width=width)
        lines = [line.rstrip() for line in text.splitlines() if start.match(line)]
        assert "…" not in text, width
        assert (len(lines), max(map(len, lines)) <= width) == (6, True)  # nothing is folded over two lines
    row, text = ROWS[0], shown(tables.of_one_pool, ROWS, width=170)
    for part in ("pass@256", f"{row.k95} ({row.calls_saved:+d})", f"gain@{row.budget}"):
        assert part in text
    assert re.search(r"^ random \(exact\).* " + str(row.k95_random) + r"\s*$", text, re.M)
    head = shown(tables.of_one_pool, ROWS, width=80).split("random (exact)")[0]
    words = ("selector", "samples-to-", "improvement", "win/tie/loss", "pass@1", "k95", "pass@4 ", "gain@")
    assert [word for word in words if word in head] == list(words[:5])
    corrected = shown(tables.of_one_pool, [replace(row, q_random=0.012345) for row in ROWS], width=170)
    assert re.search(r"\bq\b.*\b0\.012\b", corrected, re.S)
    nothing = dict.fromkeys(("budget", "p_budget", "win_budget", "tie_budget", "loss_budget"))
    assert "None" not in shown(tables.of_one_pool, [replace(row, **nothing) for row in ROWS], width=170)


def test_two_lines_below_a_table_say_what_it_counts_and_explain_says_what_each_column_and_mark_means(shown, tmp_path):
    short, full = (shown(tables.results, ROWS, tmp_path, explain, width=80) for explain in (False, True))
    said = [line for line in short.splitlines() if line.partition(":")[0] in LEGENDS]
    assert [line.partition(":")[0] for line in said] == ["samples-to-correct", "improvement"]
    assert said[1].endswith("More: --explain")
    heads = [re.sub(r"@\d+", "@k", column.one_line.partition(" ")[0]) for column in columns(ROWS)]
    assert set(heads) - set(LEGENDS) == {"selector", "embedder", "seeds"}
    assert [name for name in LEGENDS if f"\n{name}: " not in full] == []


def test_a_table_says_of_how_many_seeds_and_what_its_intervals_and_grades_are_worth(shown, tmp_path):
    seeds = [replace(row, seeds=[0, 1, 2], disputed=4, trust="rough") for row in ROWS]
    text = shown(tables.leaderboard, [Board({}, seeds, [("twice", "broke")])], [tmp_path], width=160)
    rows = [replace(row, errors=3, flagged=True, trust="few problems") for row in ROWS]
    text += shown(tables.results, rows * 3, tmp_path, width=160)
    for part in (
        *("5 trials, 3 seeds", "failed: twice: broke", "disputed grades: 4.", TRUST["rough"]),
        *(f"intervals: {TRUST['few problems']}.", f"cells in {tmp_path}/cells: 9"),
        "verifier errors (counted as not correct): 3, over 1 %: the verifier needs a look",
    ):
        assert part in text


# `harness compare`, `leaderboard` and `results`.

SPREAD = [entry("a", [1, 3]), entry("b", [4, 4]), entry("c", [2, 6])]
SHUFFLE = [entry("a", [2, 2]), entry("b", [7, 5]), entry("d", [1, 1])]
HEAD = [subset_entry("a", [4, 4]), subset_entry("b", [4, 4]), subset_entry("c", [8, 2])]
MANY = [cell([entry(f"p{i}", [1 + rank * (i % 4)] * 2) for i in range(40)], f"m{rank}") for rank in (1, 2)]
COMPARED = [
    (
        (cell(SPREAD), cell(SHUFFLE, "shuffle")),
        "spread (none, 2 seeds): 3.00 calls; shuffle (none, 2 seeds): 4.00 calls; 2 problems, 2 that only one has left",
        "; 1 cells of a seed that only one has left out",
        "below 0 the first needs fewer",
        "the first needs fewer on 1 problems: b (4.0 for 6.0)",
    ),
    (
        (cell(SPREAD), cell(HEAD, "head")),
        "head (none): pass@2 16.7 %",
        "difference +16.67 [",
        "the first hits more on 1 problems: a (0.5 for 0.0)",
    ),
    (
        MANY,
        "calls for the pass@k that the second has at k; above 1 the first needs fewer\n",
        " 2 25.0 1 1.0 1.00 [1.00, 1.00]",
        " 8 100.0 7 4.0 1.75 [-]",
        "largest factor: 1.67, at k = 5\n",
        "times fewer [-]: fewer than 5 problems lie between this pass@k and 0",
    ),
    ((cell([entry(f"p{i}", [9, 9], c=0) for i in range(40)], "never", pool="other"), MANY[0]), " 1 25.0 1 never -"),
]


def test_a_comparison_says_where_the_first_does_better_and_how_many_times_fewer_calls_it_needs(
    harness, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)  # or it looks into results/ too
    keep(tmp_path / "cells", cell(SPREAD, seed=1), cell(SHUFFLE, "shuffle", 1), cell(SHUFFLE, "shuffle", 2))
    for pair, *parts in COMPARED:
        outcome = harness("compare", *(path.stem for path in keep(tmp_path / "cells", *pair)), "--store", tmp_path)
        assert outcome.code == 0, outcome.err
        plain = re.sub(r" +", " ", outcome.out)
        assert [part for part in parts if part not in plain] == []


def test_cells_are_published_and_checked(harness, tmp_path):
    keep(tmp_path / "cells", cell(SPREAD))
    results = tmp_path / "results"
    published = harness("results", "publish", "--store", tmp_path, "--to", results)
    assert published.out.split(": conformance ")[1].startswith("not tried: unknown selector 'spread'")
    valid = harness("results", "validate", results)
    assert (valid.code, valid.out) == (0, "all cells can be counted\n")
    (results / "colours.parquet").write_text("{")
    assert harness("results", "validate", results).code == 1


# What `harness verify` prints below its table, and how it asks on the terminal.

COUNTS = dict.fromkeys(("errors", "timeouts", "skipped", "failed"), 0) | {"problems": 3, "solved": 1, "calls": 4}
COUNTS |= {"budget_used_up": False, "commonest_error": None, "exhausted": [], "unsolved": []}


def test_the_lines_of_a_verification_say_what_was_found_what_failed_and_what_is_unsolved(capsys):
    def printed(**values):
        return "\n".join(lines({**COUNTS, **values}))

    assert printed() == "1 of 3 problems solved with 4 calls"
    faults = printed(solved=None, calls=1, errors=3, timeouts=2, skipped=1, budget_used_up=True)
    assert faults.startswith("1 call, 3 ended in errors, 2 of them took too long, 1 skipped\nthe budget is used up")
    line = printed(errors=3, failed=2, commonest_error="exit code 2: no server")
    assert "3 ended in errors (most often: exit code 2: no server; --retry-errors checks them again)" in line
    message = printed(exhausted=["a"], unsolved=list("bcdefgh"))
    assert "unsolved, no response is left: a\n" in message
    assert message.endswith("unsolved, responses are left: b, c, d, e, f, and 2 more")
    hit = {"problem_id": "plates", "index": 81, "call": 3, "value": 6.2}
    asked({**COUNTS, "ask": [{"problem_id": "plates", "index": 52, "response": ""}], "found": [hit]})
    picks, hits = capsys.readouterr().out.split("found so far:")
    assert "52" in picks
    heads, values = (line.split() for line in hits.strip().splitlines()[:3:2])
    assert (heads, values) == (["problem", "index", "call", "value"], ["plates", "81", "3", "6.2"])


def test_a_question_shows_the_whole_response_and_offers_numbers_where_they_are_taken(monkeypatch, capsys):
    question = {"problem_id": "p", "index": 0, "response": "word " * 100 + "\n\x1b[2Jend"}
    for takes_values, allowed in ((False, "y, n, skip, error, or q? "), (True, "y, n, a number, skip, error, or q? ")):
        monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
        assert answer(question, takes_values=takes_values) == "y\n"
        printed = capsys.readouterr().err
        assert "word " * 100 + "\n\N{REPLACEMENT CHARACTER}[2Jend" in printed
        assert printed.endswith(f"problem p, index 0: {allowed}")


def test_answers_typed_into_a_pipe_are_taken_and_q_leaves_the_rest_out(harness, tmp_path, monkeypatch):
    pool = pool_in(tmp_path, {"a": [False, True], "b": [True]})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO("n\nperhaps\ny\nq\n"))
    ended = harness("verify", "--pool", pool, "--selector", "in-order", "--ask", "-k", 2)
    assert "an outcome is y, n, skip, error, got 'perhaps'" in ended.err
    assert (ended.out.count("to verify now:"), "1 of 2 problems solved with 2 calls" in ended.out) == (3, True)
