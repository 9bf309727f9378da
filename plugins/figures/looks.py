"""The look of each series: a selector has the same colour and marker in every plot and in the report.

The colours have the hues of Okabe and Ito (Wong 2011, Nature Methods 8:441). They stay apart for readers with any kind
of colour blindness, on a white and on a dark page. Nothing in this module needs matplotlib.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

COLOURS = ("#0072b2", "#c04a00", "#009e73", "#cc6fa8", "#d69000", "#45a6e0", "#5a3d1e")
DARK = ("#3f8fe0", "#ee7430", "#2fc498", "#e07fc0", "#f3cb55", "#a0dcf7", "#a38350")  # the same on a dark page
# The report's name of each marker, and matplotlib's. Their number and that of the colours have no common divisor.
MARKERS = {
    **{"circle": "o", "square": "s", "up": "^", "diamond": "D", "down": "v", "plus": "P"},
    **{"cross": "X", "left": "<", "right": ">", "star": "*", "hexagon": "h", "pentagon": "p"},
}
DASHES: tuple[tuple[float, ...], ...] = ((), (5, 1.5), (1, 1), (5, 1, 1, 1), (2.5, 1), (8, 1.5, 1, 1.5))
SLOTS = len(COLOURS) * len(MARKERS)

# A selector's slot is its place; those that are most often compared come first and differ in colour. The name of any
# other selector decides its slot by its hash.
ORDER = (
    *("repexp", "uniform", "dedup", "facility-location", "mmr", "kmeans-pp", "answer-round-robin"),
    *("dpp-map", "kcenter", "outcome-ucb", "kmedoids", "ngram-coverage", "in-order", "kmeans"),
    *("k-dpp", "logprob", "unlikely", "length", "rnd", "majority", "gp-ucb"),
    *("gp-thompson", "score", "score-mmr", "score-dpp", "outcome-ucb-seen", "answer-coverage", "norm"),
)

# The places of samplers and embedders; of other series (models, tasks) each figure numbers its own.
OTHERS = (
    ("vanilla", "low-temp", "high-temp", "min-p", "nucleus"),
    ("hidden-mean", "hidden-last", "hidden-penultimate", "tfidf", "sentence", "random-features", "esmc"),
)


@dataclass(frozen=True)
class Look:
    """How a series looks: the place of its colour, its marker's name, and its dashes in widths of the line."""

    colour: int
    marker: str
    dash: tuple[float, ...]


def looks(series: Sequence[str]) -> dict[str, Look]:
    """Return the look of each series of a figure; all differ, up to six variants of each of 84 selectors.

    The name of a series begins with its selector (`repexp:lam=0.1 · hidden-mean`). The selector's name alone decides
    colour and marker, unless another selector of the figure has the same hash. Variants of a selector (its parameters,
    its embedder) differ in their dashes.
    """
    slots = _slots({_selector(name) for name in series})
    variants: dict[str, list[str]] = {}
    for name in sorted(set(series)):
        variants.setdefault(_selector(name), []).append(name)
    return {name: look(slots[_selector(name)], variants[_selector(name)].index(name)) for name in series}


def of_others(series: Iterable[Any]) -> dict[Any, Look]:
    """Return the look of each series that is no selector: at its place in `OTHERS`, else at the next free one."""
    names = list(dict.fromkeys(series))
    slots = {name: known.index(name) for known in OTHERS for name in names if name in known}
    free = (slot for slot in itertools.count() if slot not in slots.values())
    return {name: look(slots[name] if name in slots else next(free)) for name in names}


def look(slot: int, variant: int = 0) -> Look:
    """Return the look of a slot: the first 84 slots differ in colour or marker; variants of one differ in dashes."""
    dash = DASHES[(slot // len(COLOURS) + variant) % len(DASHES)]
    return Look(slot % len(COLOURS), list(MARKERS)[slot % len(MARKERS)], dash)


def _selector(series: str) -> str:
    """The selector with which the name of a series begins, without parameters."""
    return series.partition(" · ")[0].partition(":")[0]


def _slots(selectors: Collection[str]) -> dict[str, int]:
    """Each selector's slot; of two with the same one, the second in the alphabet gets the next that is free."""
    slots = {name: ORDER.index(name) for name in selectors if name in ORDER}
    for name in sorted(set(selectors) - set(ORDER)):
        slot = len(ORDER) + int(hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest(), 16) % (
            SLOTS - len(ORDER)
        )
        while slot in slots.values() and len(slots) < SLOTS:
            slot = (slot + 1) % SLOTS
        slots[name] = slot
    return slots
