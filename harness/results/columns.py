"""Tables of rows: one list of columns, which the terminal, notebooks and leaderboard.md show in different styles.

Also the remarks that stand below a table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from .rows import FALLBACK, ByBudget, Reference, Row, references

BUDGETS = ("1", "4", "16", "64", "256")
WARNS = 0.05  # share of correct verdicts by a fallback, above which tables warn


@dataclass(frozen=True)
class Style:
    """How values are written: the format of a number, the decimals of win, tie, loss, and the text between these."""

    digits: str
    share_digits: int
    between: str

    def number(self, value: float | None) -> str:
        """A number; a dash for None."""
        return "-" if value is None else f"{value:{self.digits}}"


def percent(value: float | None) -> str:
    """A share in per cent; a dash for None."""
    return "-" if value is None else f"{100 * value:.1f}"


def chance(value: float | None) -> str:
    """A p or q with two significant digits; `<1e-9` for smaller ones, a dash for None."""
    if value is None:
        return "-"
    return "<1e-9" if value < 1e-9 else f"{value:.2g}"


TERMINAL, MARKDOWN = Style(".2f", 0, "/"), Style(".4g", 1, " / ")


@dataclass(frozen=True)
class Column:
    """A column of a table: its heading, and the text that it shows for each row.

    head         its heading; a narrow heading wraps at the line break
    text         row -> text
    reference    reference -> text in the line of a `Reference`
    kept         narrow tables drop the columns with the lowest value first; 0: not shown in the terminal
    is_text      whether it is aligned to the left
    from_plugin  whether its texts come from plugins, and may hold any character
    legend       one sentence that explains it below the table; "" if its heading says all
    """

    head: str
    text: Callable[[Row], str]
    reference: Callable[[Reference], str] = lambda reference: ""
    kept: int = 10
    is_text: bool = False
    from_plugin: bool = False
    legend: str = ""

    @property
    def one_line(self) -> str:
        """Its heading without line breaks."""
        return self.head.replace("-\n", "-").replace("\n", " ").strip()


def columns(rows: Sequence[Row], style: Style) -> list[Column]:
    """The columns of a table with these rows, which share their pools; budgets above the pool size are left out."""
    first, terminal = rows[0], style is TERMINAL
    corrected = first.q_random is not None or any(row.dist is not None for row in rows)
    gain_head = "gain" if first.budget is None else f"gain@{first.budget}"
    passed = [
        Column(
            f"pass@{k}\n%",
            lambda row, k=k: percent(row.pass_at_k.get(k)),  # type: ignore[misc]
            lambda reference, k=k: percent(reference.pass_at_k[k]),  # type: ignore[misc]
            kept,
        )
        for k, kept in zip([k for k in BUDGETS if k in first.pass_at_k_random], (8, 5, 7, 4, 6), strict=False)
    ]
    return [
        Column("selector", lambda row: row.name, lambda reference: reference.label, is_text=True, from_plugin=True),
        Column(
            "embedder",
            lambda row: row.embedder,
            kept=10 if len(embedders(rows)) > 1 else 0,
            is_text=True,
            from_plugin=True,
        ),
        Column("seeds", lambda row: str(len(row.seeds or (0,))), kept=0),
        Column(
            "samples-to-\ncorrect",
            lambda row: style.number(row.samples_to_correct),
            lambda reference: style.number(reference.samples_to_correct),
            legend="samples-to-correct: mean rank of the first correct response (n + 1 if there is none).",
        ),
        Column(
            "improvement\n[95 %]",
            lambda row: improvement(row, style),
            lambda reference: "1" if reference.improvement == 1 else style.number(reference.improvement),
            legend="improvement: random's mean / the selector's; above 1 = fewer calls. Interval over problems.",
        ),
        Column(
            "q\n",
            lambda row: (chance if terminal else style.number)(row.q_random),
            kept=3,
            legend="q: the share of false discoveries, if this row is called different from a random order.",
        )
        if corrected  # for multiple tests
        else Column("p\n", lambda row: chance(row.p), kept=3, legend="p: could a random order do this on these pools?"),
        Column(
            "win/tie/loss\n%".replace("/", style.between),
            lambda row: shares(row, style),
            kept=9,
            legend="win/tie/loss: chance of a lower, equal, higher rank than in a random order "
            "(subsets: of a hit at @k).",
        ),
        Column(
            f"{gain_head}\npoints [95 %]",
            gain,
            kept=2,
            legend="gain: how much more often than a random order it has a correct response among the first k.",
        ),
        *passed,
        Column(
            "k95\n(saved)" if terminal else "k95",
            k95,
            lambda reference: str(reference.k95 or ("" if terminal else "-")),
            5,
            legend="k95: calls to 95 % of the ceiling (saved against random).",
        ),
    ]


def published(rows: Sequence[Row]) -> list[Column]:
    """The columns of leaderboard.md, the eight most important, since these fit the width of a page on GitHub."""
    last = "seeds" if any(len(row.seeds or ()) > 1 for row in rows) else "k95"
    heads = ("selector", "embedder", "samples-to", "improvement", "q", "gain", "win", last)
    return [column for column in columns(rows, MARKDOWN) if column.head.startswith(heads)]


def lines(rows: Sequence[Row], shown: Sequence[Column]) -> tuple[list[list[str]], list[list[str]]]:
    """A table's texts: the lines of the references, and the lines of the rows; a line has a text for each column."""
    first = [[column.reference(reference) for column in shown] for reference in references(rows[0])]
    return first, [[column.text(row) for column in shown] for row in rows]


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


def remarks(rows: Sequence[Row]) -> list[str]:
    """A sentence for each reason why intervals are a dash, for each selector with several versions, and on marks."""
    named = {"improvement_ci": "improvement", "gain_at_k_ci": "gain"}
    reasons: dict[str, list[str]] = {}
    for row in rows:
        for name, reason in row.no_interval.items():
            if name in named and (name != "gain_at_k_ci" or row.gain_at_k_ci.get(str(row.budget)) is None):
                without_budgets = reason.partition(": ")[2] if name == "gain_at_k_ci" else reason
                reasons.setdefault(f"{named[name]} [-]: {without_budgets}", []).append(row.name)
    sentences = [f"{line} ({', '.join(dict.fromkeys(selectors))})." for line, selectors in reasons.items()]
    sentences += [
        f"{count} versions of {selector} (code or settings changed), in brackets the cells that `harness run` named."
        for selector, count in Counter(row.selector for row in rows if row.version is not None).items()
    ]
    if any(row.learns for row in rows):
        sentences.append(
            "(learns): it is told the outcome of each of its picks before the next; an order alone is not."
        )
    counts = [row.disputed for row in rows if row.disputed is not None]
    return [*sentences, f"disputed grades: {max(counts)}."] if counts else sentences


def verdict_remarks(row: Row) -> Iterator[str]:
    """Yield remarks on a row's verdicts: how many a fallback made correct, the chance level, the cost of answers."""
    routes = row.routes or {}
    if set(routes) - {"-"}:  # a grader with only one route has "-" alone
        share, count = row.fallback_share or 0.0, routes.get(FALLBACK, 0)
        warning = f", over {100 * WARNS:.0f} %: read them before you trust this table" if share > WARNS else ""
        counts = f"{count:,} of {sum(routes.values()):,} verdicts"
        yield f"correct by a fallback, not stated as asked: {counts}, {100 * share:.1f} %{warning}"
    if row.chance:
        line, share_correct = f"chance level: {chance_text(row.chance)}", row.pass_at_k_random.get("1")
        if share_correct is not None:
            line += f", {100 * share_correct:.2f} % for their own"
        if row.chance["correct"]:
            by_luck = f"{100 * (1 - (1 - row.chance['share']) ** row.n):.0f} %"
            line += f"; at that level one of {row.n:,} responses is correct with a probability of {by_luck}"
        yield line
    if row.answering:
        responses, cpu_s = int(row.answering["responses"]), row.answering["cpu_s"]
        a_problem = f"{cpu_s / responses * row.n:.2f} s for the {row.n:,} of a problem"
        yield f"{answers_line(responses, cpu_s)}, {a_problem}, to set against the calls saved"


def chance_text(level: Mapping[str, Any]) -> str:
    """The text of a chance level (as `chance_level` returns it) in per cent, with its interval and counts."""
    ends = level["share_ci"]
    interval = f" [{100 * ends[0]:.2f}, {100 * ends[1]:.2f}]" if ends else ""
    hits = f"{level['correct']:,} of {level['gradings']:,} gradings against other problems' answers are correct"
    return f"{100 * level['share']:.2f} %{interval}, {hits}"


def answers_line(responses: int, cpu_s: float) -> str:
    """Say what it cost to run so many responses for their answers."""
    return (
        f"answers by running {responses:,} responses: {cpu_s:.1f} CPU-seconds, {1000 * cpu_s / responses:.1f} ms each"
    )


def answer_remarks(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a remark on the pools that the rows share, without a full stop: avg@k, maj@k and best-of-k at some k."""
    row, best = rows[0], {name: by_k for row in rows for name, by_k in (row.best_of_k or {}).items()}
    if not (row.maj_at_k or best):
        return
    parts = [f"a random one (avg@k): {100 * (row.avg_at_k or 0.0):.1f}"]
    parts += [_at_budgets("the commonest answer (maj@", row.maj_at_k)] if row.maj_at_k else []
    parts += [_at_budgets(f"the highest {name} (best of ", by_k) for name, by_k in best.items()]
    yield f"one answer taken from k responses, % correct: {'; '.join(parts)}"


def _at_budgets(name: str, by_k: ByBudget) -> str:
    """The values at the tables' budgets above 1, where all are the average; for tiny pools at the largest one."""
    ks = [k for k in BUDGETS[1:] if k in by_k] or list(by_k)[-1:]
    return f"{name}{', '.join(ks)}): {', '.join(f'{100 * (by_k[k] or 0.0):.1f}' for k in ks)}"


def html_table(rows: Sequence[Row]) -> str:
    """A plain HTML table of rows that share their pools, as the terminal shows them; every text is escaped."""
    shown = [column for column in columns(rows, TERMINAL) if column.kept]
    first, measured = lines(rows, shown)
    align = ["left" if column.is_text else "right" for column in shown]

    def line(tag: str, texts: Sequence[str]) -> str:
        pairs = zip(texts, align, strict=True)
        cells = (f'<{tag} style="text-align:{side}">{escape(text)}</{tag}>' for text, side in pairs)
        return f"<tr>{''.join(cells)}</tr>"

    row = rows[0]
    names = dict.fromkeys((row.task, row.split, row.model, row.sampler))
    title = " · ".join([*names, f"n = {row.n}, {row.problems} problems ({row.solvable} solvable)"])
    head = line("th", [column.one_line for column in shown])
    body = "".join(line("td", texts) for texts in [*first, *measured])
    return f"<table><caption>{escape(title)}</caption><thead>{head}</thead><tbody>{body}</tbody></table>"
