"""The tables that the documents take from the published cells; `BLOCKS` has each by its name."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from harness.cli import result_tables
from harness.errors import HarnessError
from harness.records import Floats
from harness.results import cells, stopping_times
from harness.results.leaderboard import Across, across, pool_name
from harness.results.published import SEQUENCES
from harness.results.rows import Interval, Row
from harness.scoring import stats
from harness.scoring.metrics import random_samples_to_correct
from harness.system.console import captured
from harness_plugins.rl import evaluation, figures
from published import RESULTS, boards, called, every, ladder, lines, rows_with, samplers

BEST = 5
HARD = 0.05  # at most this share of the responses is correct
BY_SCORE = ("logprob", "majority", "mmr", "score", "score-dpp", "score-mmr", "unlikely")
RL = {"base": "initial model", "none": "GRPO", "unlikely": "Unlikeliness"}


def number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def interval(ends: Interval) -> str:
    return "[-]" if ends is None else f"[{ends[0]:.2f}, {ends[1]:.2f}]"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], texts: int = 1) -> str:
    """A Markdown table; the first `texts` columns are aligned to the left."""
    marks = ["---" if place < texts else "---:" for place in range(len(heads))]
    return "".join(f"| {' | '.join(row)} |\n" for row in [heads, marks, *rows])


# README.md


def first_run() -> str:
    """The table that the README's first command prints."""
    labelled = rows_with("pools", model="tiny24", selector=("repexp", "uniform", "facility-location"))
    by_name = {row.selector: row for _, row in labelled if row.embedder in ("hidden-mean", "none")}
    measured = [row for board in boards("pools") for row in board.lines]
    beside = [
        replace(row, control=True)
        for name in ("length", "length:first=long", "norm")
        for row in measured
        if (row.model, row.selector) == ("tiny24", name) and row.embedder in ("hidden-mean", "none")
    ]
    os.environ["COLUMNS"] = "80"  # words are wrapped as in a terminal
    with captured(80) as text:
        result_tables.of_one_pool([*(by_name[name] for name in ("repexp", "uniform", "facility-location")), *beside])
    kept = [line.rstrip() for line in text.getvalue().splitlines()]
    first = next(place for place, line in enumerate(kept) if line)
    last = max(place for place, line in enumerate(kept) if line.startswith(" facility-location"))
    return "```\n" + "\n".join(kept[first : last + 1]) + "\n```\n"


def best_selectors() -> str:
    """Answers of language models beside screens: the best by answers and without, RepExp, one that learns, controls."""
    tenth, by_name = _screens(10), {line.selector: line for line in reversed(lines())}
    without = next(line.selector for line in lines() if not {"answers", "outcomes"} & {*_reads(line)})
    heads = ["selector", "reads", "language models' answers, first hit", "[pools like these]"]
    rows = []
    for name in (lines()[0].selector, without, "repexp", "gp-ucb (learns)", "norm", "length:first=long"):
        by_length = name.startswith("length")
        line, on_screens = by_name.get(name), tenth.get((name, "none" if by_length else "morgan"), {})
        told = _across_row(line)[1:4] if line else ["texts" if by_length else "vectors", "-", "-"]
        improved = (_improved(on_screens[each]) if each in on_screens else "-" for each in ("hiv", "tox21"))
        rows.append([name, *told, *improved])
    return table([*heads, "HIV screen, tenth hit", "Tox21, tenth hit"], rows, 2)


def _reads(line: Across) -> Sequence[str]:
    assert line.reads is not None, f"{line.selector} is not installed"
    return line.reads


def _given(line: Across) -> str:
    return ", ".join(line.embedder if name == "vectors" else name for name in _reads(line)) or "nothing"


def _across_row(line: Across) -> list[str]:
    mean = f"{line.improvement:.2f} {interval(line.improvement_ci)}"
    shares = f"{100 * line.win:.0f} / {100 * line.loss:.0f}"
    return [line.selector, _given(line), mean, interval(line.pools_ci), number(line.worst), shares]


# docs/which-selector.md


def all_selectors() -> str:
    """Every ranker over all pools, with what it reads (of vectors those that serve it best), and its CPU time."""
    with (RESULTS / "cost.csv").open() as file:
        cost = {line["selector"]: line["cpu_ms"] for line in csv.DictReader(file)}
    heads = ["selector", "reads", "improvement [problems]", "[pools]", "on solvable", "worst pool", "won / lost %"]
    heads.append("ms a pool")
    rows = []
    for line in lines():
        texts = _across_row(line)
        rows.append([*texts[:4], number(line.solvable), *texts[4:], cost[line.selector.split(" ")[0]]])
    for line in across([replace(board, rows=board.controls) for board in boards("pools")]):
        if line.embedder == "tfidf":
            texts = _across_row(line)
            texts[0] += f" (control, {line.pools} pools)"
            rows.append([*texts[:4], number(line.solvable), *texts[4:], cost.get(line.selector, "-")])
    return table(heads, rows, 2)


def pools() -> str:
    """The pools, and what a perfect order could gain on each."""
    heads = [
        "pool",
        "problems x n",
        "solved by some response",
        "pass@1 %",
        "random's calls",
        "oracle's calls",
        "the most",
    ]
    rows = []
    for board in boards("pools"):
        row = board.rows[0]
        random, oracle = row.samples_to_correct_random, row.samples_to_correct_oracle
        assert random
        assert oracle
        first = f"{100 * (row.pass_at_k_random['1'] or 0):.1f}"
        sizes = [f"{row.problems} x {row.n}", str(row.solvable), first]
        rows.append([called(board), *sizes, number(random), number(oracle), number(random / oracle)])
    return table(heads, rows)


def by_budget() -> str:
    """pass@k of the best selectors and RepExp on each pool, for a few calls and many."""
    shown = [(line.selector, line.embedder) for place, line in enumerate(lines()) if place < BEST]
    shown += [(line.selector, line.embedder) for line in lines()[BEST:] if line.selector == "repexp"]
    heads = ["pool", "k", "random", *(name for name, _ in shown)]
    rows = []
    for board in boards("pools"):
        for k in ("1", "8", "64"):
            if int(k) >= board.about["n"]:
                continue
            by_name = {(row.name, row.embedder): row for row in board.rows}
            values = [board.rows[0].pass_at_k_random.get(k), *(by_name[name].pass_at_k.get(k) for name in shown)]
            rows.append([called(board), k, *(f"{100 * (value or 0):.1f}" for value in values)])
    return table(heads, rows)


def by_score() -> str:
    """Orders by likelihood, alone and with variety, and votes, on the pools that have log-probabilities."""
    scored = [board for board in boards("pools") if any(row.selector.startswith("score:") for row in board.rows)]
    given = {(line.selector, line.embedder): _given(line) for line in across(boards("pools"))}
    values: dict[tuple[str, str], list[str]] = {}
    for place, board in enumerate(scored):
        for row in board.rows:
            if row.embedder in ("none", "tfidf") and row.selector.partition(":")[0] in BY_SCORE:
                line = values.setdefault((row.selector, row.embedder), ["-"] * len(scored))
                line[place] = f"{number(row.improvement)} {interval(row.improvement_ci)}"
    rows = [[f"`{of[0]}`", given[of], *line] for of, line in sorted(values.items())]
    return table(["selector", "reads", *map(called, scored)], rows, 2)


# docs/paper.md


def by_pool() -> str:
    """RepExp on each pool with each kind of vectors (RF1); tiny24's other states and random features last."""
    of = {"n": 64, "sampler": "vanilla", "embedder": ("hidden-last", "hidden-penultimate", "random-features")}
    others = rows_with("factors", model="tiny24", selector="repexp", **of)
    rows = []
    for board, row in [*rows_with("pools", selector="repexp"), *others]:
        calls = number(row.samples_to_correct_random), number(row.samples_to_correct)
        rows.append([called(board), row.embedder, *calls, _improved(row)])
    return table(["pool", "vectors", "random's calls", "its calls", "improvement [95 %]"], rows, 2)


def beyond_norm() -> str:
    """RepExp and norm, the largest row first, on each pool that has both; of factors, on the model's own vectors."""
    rows, changed = [], [each for each in rows_with("factors", selector="repexp") if each[1].embedder != "tfidf"]
    for board, row in [*rows_with("pools", selector="repexp"), *changed]:
        if beside := row.controls.get("norm"):
            calls = (row.samples_to_correct_random, beside["samples_to_correct"], row.samples_to_correct)
            name = called(board) + ("" if row.seeds == [0] else f", seeds {', '.join(map(str, row.seeds or ()))}")
            ratio = f"{number(beside['ratio'])} {interval(beside['ratio_ci'])}"
            rows.append([name, row.embedder, str(board.about["n"]), *map(number, calls), ratio])
    heads = ["pool", "vectors", "n", "random's calls", "norm's", "RepExp's", "RepExp's / norm's [95 %]"]
    return table(heads, rows, 2)


def by_strength_hard() -> str:
    """On hard problems of the ladder and of tiny24's other samplers: RepExp, and its calls by answer-coverage's."""
    coverage, repexp = (
        [*ladder(*of), *(each for each in samplers(*of) if each[1].sampler not in ("vanilla", "low-temp"))]
        for of in (("answer-coverage", "tfidf"), ("repexp", "hidden-mean"))
    )
    rows = [
        [called(board).replace(", Game of 24", ""), *_on_hard(row, other)]
        for (board, other), (_, row) in zip(coverage, repexp, strict=True)
    ]
    return table(["pool", "problems", "repexp", "answer-coverage", "calls, the first / the second"], rows)


def hard_pools() -> str:
    """RepExp and answer-coverage on the hard problems of each pool."""
    coverage = {
        pool_name(board): row for board, row in rows_with("pools", selector="answer-coverage", embedder="tfidf")
    }
    rows = [
        [called(board), row.embedder, *_on_hard(row, coverage[pool_name(board)])]
        for board, row in rows_with("pools", selector="repexp", embedder=("hidden-mean", "tfidf"))
    ]
    return table(["pool", "vectors", "problems", "repexp", "answer-coverage", "calls, the first / the second"], rows, 2)


def _on_hard(row: Row, other: Row) -> list[str]:
    """On a pool's problems with few correct responses, but some: how many, both improvements, and the calls' ratio."""
    both = [every().measured[each.cell] for each in (row, other)]
    (outcomes, others), seeds = map(cells.outcomes, both), list(map(cells.resampling_seed, both))
    assert outcomes.ranks is not None
    assert others.ranks is not None
    hard = (outcomes.c > 0) & (outcomes.c <= HARD * outcomes.n)
    random = random_samples_to_correct(outcomes.n, outcomes.c)[hard]
    calls, other_calls = (ranks.mean(axis=1)[hard] for ranks in (outcomes.ranks, others.ranks))
    pairs = ((random, calls, seeds[0]), (random, other_calls, seeds[1]), (calls, other_calls, seeds[0]))
    ratios = [
        f"{number(float(a.mean() / b.mean()))} {interval(stats.ratio_interval(a, b, seed))}" for a, b, seed in pairs
    ]
    return [str(int(hard.sum())), *ratios]


def by_sampler() -> str:
    """RepExp and facility-location on five samplers (RF4)."""
    covering, exploring = samplers("facility-location", "tfidf"), samplers("repexp")
    rows = [
        [row.sampler, number(row.samples_to_correct_random), _improved(row), _improved(other)]
        for (_, row), (_, other) in zip(covering, exploring, strict=True)
    ]
    return table(["sampler", "random's calls", "facility-location [95 %]", "repexp [95 %]"], rows)


def by_ridge() -> str:
    """RepExp's improvement on tfidf by its ridge, on the pools where it was varied."""
    ridges = ("1", "0.1", "0.01", "0.001")
    specs = ["repexp", *(f"repexp:lam={ridge}" for ridge in ridges[1:])]
    rows = []
    for board in boards("pools"):
        varied = [
            row
            for folder in ("pools", "factors")
            for other, row in rows_with(folder, selector=tuple(specs), embedder="tfidf")
            if other.about == board.about
        ]
        by_spec = {row.selector: f"{number(row.improvement, 3)} {interval(row.improvement_ci)}" for row in varied}
        if len(by_spec) == len(specs):
            rows.append([called(board), *(by_spec[spec] for spec in specs)])
    return table(["pool", *(f"λ = {ridge}" for ridge in ridges)], rows)


def guided() -> str:
    """The share of puzzles solved within k responses, with and without the bonus on tokens (RF5)."""
    ks = ("1", "4", "8", "32", "128", "1024")
    by_beta: dict[float, list[dict[str, Any]]] = {}
    for record in stopping_times.records([RESULTS / SEQUENCES]):
        assert not isinstance(record, HarnessError), record
        by_beta.setdefault(record["inputs"]["sampler"]["beta"], []).append(record)
    rows = []
    for beta, same in sorted(by_beta.items()):
        row = stopping_times.row(same)
        rows.append([f"β = {beta:g}", *(_share(row["share_solved"][k], row["share_solved_se"][k]) for k in ks)])
    for beta in sorted(by_beta)[1:]:
        gains = [_within(by_beta[beta], int(k)) - _within(by_beta[0.0], int(k)) for k in ks]
        texts = []
        for place, gain in enumerate(gains):
            ends = stats.difference_interval(100 * gain, place)
            texts.append(f"{100 * gain.mean():+.0f} {'[-]' if ends is None else [*map(round, ends)]}")
        rows.append([f"β = {beta:g} less β = 0, in points [95 %]", *texts])
    return table(["", *ks], rows)


def _share(share: float | None, error: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} ± {100 * (error or 0):.1f}"


def _within(records: Sequence[dict[str, Any]], k: int) -> Floats:
    """For each puzzle the share of its sequences, one a seed, that a response within k solves."""
    solved: dict[str, list[bool]] = {}
    for record in records:
        for entry in record["problems"]:
            solved.setdefault(entry["id"], []).append(entry["solved"] and entry["time"] <= k)
    return np.array([np.mean(solved[name]) for name in sorted(solved)])


def rl() -> str:
    """pass@k after training, by method and group size, with 95 % intervals over problems and seeds (RF6)."""
    return _rl(lambda row, k: _in_per_cent(row["pass_at_k"][k], row["pass_at_k_ci"][k]))


def rl_gains() -> str:
    """What each method adds to GRPO's pass@k at the same group size."""
    return _rl(_over_grpo, "none")


def _over_grpo(row: dict[str, Any], k: str) -> str:
    return _in_per_cent(row["gain_over"]["none"][k], row["gain_over_ci"]["none"][k], "+")


def _rl(value: Callable[[dict[str, Any], str], str], without: str = "") -> str:
    rows, ks = [], ("1", "4", "16", "64", "256", "1024")
    for file in sorted(RESULTS.glob("rl/*/rl-eval.json"), key=lambda path: int(path.parent.name.split("-")[-1])):
        for row in evaluation.rows(evaluation.read(file)):
            name = RL.get(row["bonus"], f"`{row['bonus']}`")
            group = "-" if row["bonus"] == "base" else file.parent.name.split("-")[-1]
            if row["bonus"] != without:
                rows.append([name, group, *(value(row, k) if k in row["pass_at_k"] else "-" for k in ks)])
    return table(["method", "group", *(f"pass@{k}" for k in ks)], rows)


def _in_per_cent(value: float, ends: Interval, sign: str = "") -> str:
    return figures.in_per_cent(value, ends, sign).replace("±", " ± ")


# docs/screens.md

SCREENS = {"hiv": "HIV", "tox21": "Tox21", "muv-3000": "MUV, 3,000 each", "muv": "MUV, whole"}
CONTROLS = ("length", "length:first=long", "norm")
VECTORS = ("none", "morgan", "morgan (unit)")


def _screens(correct: int, half: str = "held") -> dict[tuple[str, str], dict[str, Row]]:
    """(selector, vectors) -> screen -> its row on a half, to that correct response; controls first."""
    measured: dict[tuple[str, str], dict[str, Row]] = {}
    for board in boards("screens"):
        screen, _, of = board.about["model"].rpartition("-")
        if (of, board.about.get("correct", 1)) == (half, correct):
            for row in (row for row in board.lines if row.embedder in VECTORS):
                measured.setdefault((row.name, row.embedder), {})[screen] = row
    names = list(dict.fromkeys(name for name, _ in measured))
    return {
        of: measured[of] for of in sorted(measured, key=lambda of: (of[0] not in CONTROLS, names.index(of[0]), of[1]))
    }


def _of_screens(correct: int) -> str:
    measured = _screens(correct)
    screens = [name for name in SCREENS if any(name in rows for rows in measured.values())]
    rows = [
        [
            f"`{name.removesuffix(' (learns)')}`",
            of,
            *(_improved(rows[each]) if each in rows else "-" for each in screens),
        ]
        for (name, of), rows in measured.items()
    ]
    return table(["selector", "vectors", *(SCREENS[name] for name in screens)], rows, 2)


def _improved(row: Row) -> str:
    return f"{number(row.improvement)} {interval(row.improvement_ci)}"


def screen_pools() -> str:
    """The screens' pools: how many, of which sizes, how many are active."""
    rows = []
    for screen, row in _screens(1)["norm", "morgan"].items():
        least = int([*row.pass_at_k_random][-1])
        sizes = f"{least:,}" if least == row.n else f"{least:,} to {row.n:,}"
        active = f"{100 * (row.pass_at_k_random['1'] or 0):.1f}"
        rows.append([SCREENS[screen], str(row.problems), sizes, active, number(row.samples_to_correct_random, 1)])
    return table(["screen", "pools", "compounds each", "active %", "random's calls to the first hit"], rows)


def screens_first() -> str:
    """Improvement over random to the first hit, on the half that nothing was chosen on."""
    return _of_screens(1)


def screens_tenth() -> str:
    """The same to the tenth hit."""
    return _of_screens(10)


def screens_controls() -> str:
    """RepExp's calls divided by those of each control, paired by pool."""
    rows = []
    for correct in (1, 10):
        for (name, of), by_screen in _screens(correct).items():
            if name == "repexp":
                for screen, row in by_screen.items():
                    beside = [row.controls.get(control) for control in ("norm", "length:first=long")]
                    ratios = [
                        f"{number(each['ratio'])} {interval(each['ratio_ci'])}" if each else "-" for each in beside
                    ]
                    rows.append([SCREENS[screen], "first" if correct == 1 else "tenth", of, *ratios])
    return table(["screen", "hit", "vectors", "repexp / norm", "repexp / length:first=long"], sorted(rows), 3)


def screens_halves() -> str:
    """Improvement on the half on which choices were made, beside that on the other."""
    rows = []
    for correct, word in ((1, "first"), (10, "tenth")):
        halves = [_screens(correct, half) for half in ("choose", "held")]
        for name, of in (("length:first=long", "none"), *product(("norm", "repexp", "gp-ucb (learns)"), VECTORS[1:])):
            pairs = [_improved(half[name, of][screen]) for screen in ("hiv", "tox21") for half in halves]
            rows.append([f"`{name.removesuffix(' (learns)')}`", of, word, *pairs])
    heads = [f"{screen}, {half}" for screen in ("HIV", "Tox21") for half in ("choose", "held")]
    return table(["selector", "vectors", "hit", *heads], rows, 3)


BLOCKS: dict[str, Callable[[], str]] = {
    "first-run": first_run,
    "best-selectors": best_selectors,
    "all-selectors": all_selectors,
    "pools": pools,
    "by-budget": by_budget,
    "hard-pools": hard_pools,
    "by-score": by_score,
    "by-pool": by_pool,
    "beyond-norm": beyond_norm,
    "by-strength-hard": by_strength_hard,
    "by-sampler": by_sampler,
    "by-ridge": by_ridge,
    "guided": guided,
    "rl": rl,
    "rl-gains": rl_gains,
    "screen-pools": screen_pools,
    "screens-first": screens_first,
    "screens-tenth": screens_tenth,
    "screens-halves": screens_halves,
    "screens-controls": screens_controls,
}
