"""Check that a selector reads only the columns that it names, keeps nothing of a pool, and does not change it."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

from harness.plugin_system.component import parameters

from ..records import Pool, Problem, Verdict, correct, wrong
from . import examples
from .checking import Inapplicable, Violation, check, error_text, expect
from .picking import brief, is_ranker, needs, order, ranking
from .selector_basics import BASIC, COLUMNS


@check("use the pool's columns and nothing else", presumes=BASIC)
def label_blind(selector: Any) -> None:
    """The order does not change with the verdicts and references that its callers hold."""
    pool = examples.pool()
    labels = [bool(i % 5 == 2) for i in range(len(pool))]
    for seed in range(3):
        first = _order_near(selector, pool, labels, seed)
        second = _order_near(selector, pool, [not label for label in labels], seed)
        expect(
            first == second, f"with other verdicts in its callers' frames it gives {brief(second)}, not {brief(first)}"
        )


def _order_near(selector: Any, pool: Pool, is_correct: list[bool], seed: int) -> list[int]:
    """The selector's order, while this frame holds verdicts in variables named as in the pipeline."""
    verdicts: list[Verdict] = [correct() if label else wrong() for label in is_correct]
    problem = Problem(
        "conformance/labels", "?", reference=[a for a, v in zip(pool.answers, is_correct, strict=True) if v]
    )
    picks = order(selector, pool, seed)
    assert len(verdicts) == len(pool)
    assert problem.reference is not None
    return picks


@check("keep no pool and no state: a selector has parameters only", presumes=BASIC)
def keeps_no_pool(selector: Any) -> None:
    """After a ranking its parameters are unchanged, and nothing of the pool is found in its pickle."""
    before = parameters(selector)
    pool = examples.pool()
    marked = examples.replaced(
        pool, texts=[*pool.texts[:-1], examples.SENTINEL], answers=[examples.SENTINEL] * len(pool)
    )
    order(selector, marked)
    expect(parameters(selector) == before, f"ranking changed its parameters from {before} to {parameters(selector)}")
    expect(not _pickle_holds(selector, examples.SENTINEL), "its pickle holds texts of a pool that it ranked")


def _pickle_holds(selector: Any, text: str) -> bool:
    try:
        return text.encode() in pickle.dumps(selector)
    except Exception:  # the check `picklable` reports it
        return False


@check("work on a copy", presumes=BASIC)
def inputs_unchanged(selector: Any) -> None:
    """Every column has the same bytes after a ranking as before, and is the same object."""
    pool = examples.pool()
    before, columns = _contents(pool), dict(vars(pool))
    order(selector, pool)
    changed = [
        name for name in columns if _contents(pool)[name] != before[name] or vars(pool)[name] is not columns[name]
    ]
    expect(not changed, f"ranking changed the pool's {' and '.join(changed)}")


@check("work on a copy; leave `flags.writeable` alone", presumes=BASIC)
def inputs_stay_read_only(selector: Any) -> None:
    """The pool's arrays are read-only during and after a ranking."""
    pool = examples.pool()
    if is_ranker(selector):
        next(ranking(selector, pool, seed=99))
        _require_read_only(pool)
    order(selector, pool)
    _require_read_only(pool)


def _require_read_only(pool: Pool) -> None:
    columns = {**vars(pool), **pool.scores}
    writeable = [name for name, column in columns.items() if getattr(getattr(column, "flags", None), "writeable", 0)]
    expect(not writeable, f"it made the pool's {' and '.join(writeable)} writeable")


def _contents(pool: Pool) -> dict[str, bytes]:
    """Each column as bytes."""
    columns = {**vars(pool), "scores": [(name, values.tobytes()) for name, values in pool.scores.items()]}
    return {
        name: column.tobytes() if isinstance(column, np.ndarray) else pickle.dumps(tuple(column))
        for name, column in columns.items()
    }


@check('name what it reads in `needs`: some of "embeddings", "logprobs", "scores", or ()', presumes=BASIC)
def needs_what_it_says(selector: Any) -> None:
    """Columns that it does not say it needs may be missing."""
    pool, absent = examples.pool(), [name for name in COLUMNS if name not in needs(selector)]
    if not absent:
        raise Inapplicable("it needs every column")
    n = len(pool)
    blank = {"embeddings": np.zeros((n, 0), np.float32), "logprobs": np.full(n, np.nan), "scores": {}}
    expected = order(selector, pool)
    try:
        got = order(selector, examples.replaced(pool, **{name: blank[name] for name in absent}))
    except Exception as failure:
        raise Violation(f"without {' and '.join(absent)}, not in its needs, it {error_text(failure)}") from failure
    expect(got == expected, f"{' or '.join(absent)}, not in its needs, changes its order")


CHECKS = (label_blind, keeps_no_pool, inputs_unchanged, inputs_stay_read_only, needs_what_it_says)
