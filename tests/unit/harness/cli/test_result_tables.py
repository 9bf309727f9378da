"""What a person sees: the columns that fit, and none that is cut."""

import io
import re
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from harness.cli import result_tables as tables
from harness.results.leaderboard import Board
from harness.results.legends import LEGENDS, TRUST
from harness.results.rows import Row, chance, columns
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


def test_no_column_is_cut_and_no_line_is_wider_than_the_console(shown):
    for width in (72, 100, 160):
        text = shown(tables.of_one_pool, ROWS, width=width)
        assert "…" not in text, width
        assert len(table_lines(text)) == 6, width  # nothing is folded over two lines
        assert max(map(len, table_lines(text))) <= width


def test_a_wide_console_shows_k95_with_the_calls_saved_p_and_the_gain_a_narrow_one_the_main_columns(shown):
    row, text = ROWS[0], shown(tables.of_one_pool, ROWS, width=170)
    for part in ("pass@256", f"{row.k95} ({row.calls_saved:+d})", f"gain@{row.budget}"):
        assert part in text
    assert re.search(r"^ random \(exact\).* " + str(row.k95_random) + r"\s*$", text, re.M)
    head = shown(tables.of_one_pool, ROWS, width=80).split("random (exact)")[0]
    for word in ("selector", "samples-to-", "improvement", "win/tie/loss", "pass@1"):
        assert word in head
    assert not [word for word in ("k95", "pass@4 ", "gain@") if word in head]
    assert "pass@16" not in shown(tables.of_one_pool, ROWS, width=72)
    corrected = shown(tables.of_one_pool, [replace(row, q_random=0.012345) for row in ROWS], width=170)
    assert re.search(r"\bq\b.*\b0\.012\b", corrected, re.S)
    assert re.search(r"\bp\b", text)
    nothing = dict.fromkeys(("budget", "p_budget", "win_budget", "tie_budget", "loss_budget"))
    assert "None" not in shown(tables.of_one_pool, [replace(row, **nothing) for row in ROWS], width=170)


def test_two_lines_below_a_table_say_what_it_counts_and_explain_says_what_each_column_and_mark_means(shown, tmp_path):
    short, full = (shown(tables.results, ROWS, tmp_path, explain, width=80) for explain in (False, True))
    told = [line for line in short.splitlines() if line.startswith(tuple(f"{name}: " for name in LEGENDS))]
    assert [line.partition(":")[0] for line in told] == ["samples-to-correct", "improvement"]
    assert told[1].endswith("More: --explain")
    heads = [re.sub(r"@\d+", "@k", column.one_line.partition(" ")[0]) for column in columns(ROWS)]
    assert set(heads) - set(LEGENDS) == {"selector", "embedder", "seeds"}
    assert [name for name in LEGENDS if f"\n{name}: " not in full] == []
    every = shown(tables.leaderboard, [Board({}, ROWS, ())] * 2, (), True, width=160)
    assert every.count("win/tie/loss: ") == 1


@pytest.mark.parametrize("width", [80, 100])
def test_long_specs_are_broken_behind_punctuation_only(shown, width):
    spec, embedder = "repexp:lam=0.001,first=max,device=cpu", "sentence:model=sentence-transformers/all-MiniLM-L6-v2"
    text = shown(tables.of_one_pool, [row_of(spec, embedder), row_of("uniform", seed=1)], width=width)
    pieces = {line[: line.index("  ")].strip() for line in text.splitlines() if line.startswith((" repexp", " first"))}
    assert pieces & {spec, "repexp:lam=0.001,", "repexp:lam=0.001,first=max,"}
    assert re.search(r"sentence:model=\S*", text)
    assert max(map(len, text.splitlines()[1:])) <= width


def test_a_subset_method_shows_its_test_and_shares_at_the_budget(shown):
    row = ROWS[2]
    line = next(line for line in table_lines(shown(tables.of_one_pool, ROWS, width=170)) if "kmedoids" in line)
    shares = "/".join(f"{100 * getattr(row, name):.0f}" for name in ("win_budget", "tie_budget", "loss_budget"))
    assert f"{shares} @{row.budget}" in line
    assert chance(row.p_budget) in line.split()
    low, high = row.gain_at_k_ci[str(row.budget)]
    assert f"[{100 * low:+.1f}, {100 * high:+.1f}]" in line


def test_a_table_says_of_how_many_seeds_and_what_its_intervals_and_grades_are_worth(shown, tmp_path):
    seeds = [replace(row, seeds=[0, 1, 2], disputed=4, trust="rough") for row in ROWS]
    text = shown(tables.leaderboard, [Board({}, seeds, [("twice", "broke")])], [tmp_path], width=160)
    for part in ("5 trials, 3 seeds", "failed: twice: broke", "disputed grades: 4.", TRUST["rough"]):
        assert part in text
    rows = [replace(row, errors=3, flagged=True, trust="few problems") for row in ROWS]
    text = shown(tables.results, rows * 3, tmp_path, width=160)
    assert f"intervals: {TRUST['few problems']}." in text
    assert "verifier errors (counted as not correct): 3, over 1 %: the verifier needs a look" in text
    assert f"cells in {tmp_path}/cells: 9" in text
    assert f"cells in {tmp_path}/cells: abc, abc, abc" in shown(tables.results, ROWS, tmp_path, width=160)
