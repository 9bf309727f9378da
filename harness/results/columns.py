"""The columns of every table of rows: one list, which the terminal and leaderboard.md show in different styles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .rows import REFERENCES, Reference, Row

BUDGETS = ("1", "4", "16", "64", "256")


@dataclass(frozen=True)
class Style:
    """How values are written: a number (None as a dash), the decimals of win, tie, loss, and the text between these."""

    number: Callable[[float | None], str]
    share_digits: int
    between: str


def four_digits(value: float | None) -> str:
    """Four significant digits; a dash for None."""
    return "-" if value is None else f"{value:.4g}"


def two_decimals(value: float | None) -> str:
    """Two decimals; a dash for None."""
    return "-" if value is None else f"{value:.2f}"


def percent(value: float | None) -> str:
    """A share in per cent; a dash for None."""
    return "-" if value is None else f"{100 * value:.1f}"


def chance(value: float | None) -> str:
    """A p or q with two significant digits; `<1e-9` for smaller ones, a dash for None."""
    if value is None:
        return "-"
    return "<1e-9" if value < 1e-9 else f"{value:.2g}"


TERMINAL, MARKDOWN = Style(two_decimals, 0, "/"), Style(four_digits, 1, " / ")


@dataclass(frozen=True)
class Column:
    """A column of a table: its heading, and the text that it shows for each row.

    head         its heading; a narrow heading wraps at the line break
    text         row -> text
    reference    (first row, reference) -> text in the line of a `Reference`
    kept         narrow tables drop the columns with the lowest value first; 0: not shown in the terminal
    is_text      whether it is aligned to the left
    from_plugin  whether its texts come from plugins, and may hold any character
    legend       one sentence that explains it below the table; "" if its heading says all
    """

    head: str
    text: Callable[[Row], str]
    reference: Callable[[Row, Reference], str] = lambda row, reference: ""
    kept: int = 10
    is_text: bool = False
    from_plugin: bool = False
    legend: str = ""


LEGENDS = {
    "samples": "samples-to-correct: mean rank of the first correct response (n + 1 if there is none).",
    "improvement": "improvement: random's mean / the selector's; above 1 = fewer calls. Interval over problems.",
    "p": "p: could a random order do this on these pools?",
    "q": "q: the share of false discoveries, if this row is called different from a random order.",
    "shares": "win/tie/loss: chance of a lower, equal, higher rank than in a random order (subsets: of a hit at @k).",
    "gain": "gain: how much more often than a random order it has a correct response among the first k.",
    "k95": "k95: calls to 95 % of the ceiling (saved against random).",
}


def columns(rows: Sequence[Row], style: Style) -> list[Column]:
    """The columns of a table with these rows, which share their pools; budgets above the pool size are left out."""
    first, several_embedders = rows[0], len(embedders(rows)) > 1
    gain_head = "gain" if first.budget is None else f"gain@{first.budget}"
    shown = [
        Column("selector", lambda row: row.name, lambda _, reference: reference.label, is_text=True, from_plugin=True),
        Column(
            "embedder", lambda row: row.embedder, kept=10 if several_embedders else 0, is_text=True, from_plugin=True
        ),
        Column("seeds", lambda row: str(len(row.seeds or (0,))), kept=0),
        Column(
            "samples-to-\ncorrect",
            lambda row: style.number(row.samples_to_correct),
            lambda row, reference: style.number(reference.calls(row)),
            legend=LEGENDS["samples"],
        ),
        Column(
            "improvement\n[95 %]",
            lambda row: improvement(row, style),
            lambda row, reference: "1" if reference.name == "random" else style.number(reference.ratio(row)),
            legend=LEGENDS["improvement"],
        ),
        _chance_column(rows, style),
        Column(
            "win/tie/loss\n%".replace("/", style.between),
            lambda row: shares(row, style),
            kept=9,
            legend=LEGENDS["shares"],
        ),
        Column(f"{gain_head}\npoints [95 %]", gain, kept=2, legend=LEGENDS["gain"]),
    ]
    for place, k in enumerate(k for k in BUDGETS if k in first.pass_at_k_random):
        shown.append(_pass_column(k, kept=(8, 5, 7, 4, 6)[place]))
    k95_head = "k95\n(saved)" if style is TERMINAL else "k95"
    unknown = "" if style is TERMINAL else "-"
    shown.append(
        Column(k95_head, k95, lambda row, reference: str(reference.k95(row) or unknown), 5, legend=LEGENDS["k95"])
    )
    return shown


# The columns of leaderboard.md, by the beginnings of their headings, the most important first; and how many of them fit
# the width of a page on GitHub.
PUBLISHED = ("selector", "embedder", "seeds", "samples-to", "improvement", "q", "gain", "win", "k95")
MOST_PUBLISHED = 8


def published(rows: Sequence[Row]) -> list[Column]:
    """The columns of leaderboard.md, at most eight; leaderboard.csv and leaderboard.json have all values."""
    several_seeds = any(len(row.seeds or ()) > 1 for row in rows)
    heads = [head for head in PUBLISHED if several_seeds or head != "seeds"][:MOST_PUBLISHED]
    return [column for column in columns(rows, MARKDOWN) if column.head.startswith(tuple(heads))]


def _chance_column(rows: Sequence[Row], style: Style) -> Column:
    """The column of q if the rows were corrected for multiple tests, else of p."""
    if rows[0].q_random is None and all(row.dist is None for row in rows):
        return Column("p\n", lambda row: chance(row.p), kept=3, legend=LEGENDS["p"])
    written = chance if style is TERMINAL else style.number
    return Column("q\n", lambda row: written(row.q_random), kept=3, legend=LEGENDS["q"])


def _pass_column(k: str, kept: int) -> Column:
    return Column(
        f"pass@{k}\n%",
        lambda row: percent(row.pass_at_k.get(k)),
        lambda row, reference: percent(reference.passed(row)[k]),
        kept,
    )


Lines = list[list[str]]


def lines(rows: Sequence[Row], shown: Sequence[Column]) -> tuple[Lines, Lines]:
    """A table's texts: the lines of the references, and the lines of the rows; a line has a text for each column."""
    references = [[column.reference(rows[0], reference) for column in shown] for reference in REFERENCES]
    return references, [[column.text(row) for column in shown] for row in rows]


def embedders(rows: Sequence[Row]) -> list[str]:
    """The embedders whose vectors were read."""
    return list(dict.fromkeys(row.embedder for row in rows if row.embedder != "none"))


def improvement(row: Row, style: Style) -> str:
    """The text of random's mean / the selector's, with its interval; a dash for each that does not exist."""
    if row.improvement is None:
        return "-"
    ends = row.improvement_ci
    interval = f" [{style.number(ends[0])}, {style.number(ends[1])}]" if ends else " [-]"
    return style.number(row.improvement) + interval


def shares(row: Row, style: Style) -> str:
    """Win, tie, loss in per cent: by rank, or for subset methods by hit at the telling budget; else a dash."""
    of_rank = row.win is not None
    values = (row.win, row.tie, row.loss) if of_rank else (row.win_budget, row.tie_budget, row.loss_budget)
    numbers = [value for value in values if value is not None]
    if len(numbers) < len(values):
        return "-"
    written = style.between.join(f"{100 * value:.{style.share_digits}f}" for value in numbers)
    return written if of_rank else f"{written} @{row.budget}"


def gain(row: Row) -> str:
    """The gain at the telling budget, in percentage points, with its interval; a dash for each that does not exist."""
    value = row.gain_at_k.get(str(row.budget))
    if value is None:
        return "-"
    ends = row.gain_at_k_ci[str(row.budget)]
    interval = f" [{100 * ends[0]:+.1f}, {100 * ends[1]:+.1f}]" if ends else " [-]"
    return f"{100 * value:+.1f}{interval}"


def k95(row: Row) -> str:
    """The calls to reach 95 % of the ceiling, and in brackets those saved against random; a dash if unknown."""
    return "-" if row.k95 is None else f"{row.k95} ({row.calls_saved:+d})"


def absent_intervals(rows: Sequence[Row]) -> list[str]:
    """Why intervals are shown as a dash, each reason once."""
    named = {"improvement_ci": "improvement", "gain_at_k_ci": "gain"}
    reasons: dict[str, list[str]] = {}
    for row in rows:
        for name, reason in row.no_interval.items():
            if name in named and (name != "gain_at_k_ci" or row.gain_at_k_ci.get(str(row.budget)) is None):
                without_budgets = reason.partition(": ")[2] if name == "gain_at_k_ci" else reason
                line = f"{named[name]} [-]: {without_budgets}"
                reasons.setdefault(line, []).append(row.name)
    return [f"{line} ({', '.join(dict.fromkeys(selectors))})." for line, selectors in reasons.items()]


def learning(rows: Sequence[Row]) -> list[str]:
    """A sentence that explains the mark of selectors that learn, if there are any."""
    sentence = "(learns): it is told the outcome of each of its picks before the next; an order alone is not."
    return [sentence] if any(row.learns for row in rows) else []


def versions(rows: Sequence[Row]) -> list[str]:
    """A sentence for each selector of which several versions are in the table."""
    counts = Counter(row.selector for row in rows if row.version is not None)
    return [
        f"{count} versions of {selector} (code or settings changed), in brackets the cells that `harness run` named."
        for selector, count in counts.items()
    ]
