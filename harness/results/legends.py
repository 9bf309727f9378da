"""What the columns and marks of a table mean: two lines below every table, all of it by `--explain`."""

from __future__ import annotations

from collections.abc import Iterable

LEGENDS = {
    "samples-to-correct": "mean rank of the first (--correct m: the m-th) correct response; n + 1 if none.",
    "improvement": "random's mean / the selector's; above 1 = fewer calls. 95 % interval over problems.",
    "p": "could a random order do this on these pools?",
    "q": "the share of false discoveries, if this row is called different from a random order.",
    "win/tie/loss": "chance of a lower, equal, higher rank than in a random order (subsets: of a hit at @k).",
    "gain@k": "pass@k less random's, at the budget where random solves about half of what can be solved.",
    "pass@k": "how often the first k have a correct response (--correct m: m of them).",
    "k95": "calls to 95 % of the ceiling (saved against random).",
    "hits@k": "how many of the first k are correct.",
    "EF": "enrichment factor: how many correct ones the head of an order holds, as a multiple of random's.",
    "oracle, anti-oracle": "they know the verdicts and take a correct response first, or last.",
    "norm, length": "controls, simple orders by size; a selector by vectors should be more than these.",
    "not told from": "the 95 % interval of the ratio of calls includes 1.",
    "(learns)": "it gets the outcome of each of its picks before the next; an order alone is not.",
    "one answer taken from k": "what a single response is worth, if nobody can verify; of a pool, not of a selector.",
}
ACROSS = {
    "improvement": "geometric mean over pools of random's mean / the selector's; above 1 = fewer calls.",
    "(problems)": "95 % if the problems of these very pools were sampled anew.",
    "(pools)": "95 % of the mean over pools like these, by Student's t: they are few, and no random sample.",
    "solvable": "the same mean over problems with a correct response; no order finds one in the others.",
    "worst": "the smallest improvement on a pool.",
    "win/loss": "how often its first correct response comes earlier, and later, than in a random order.",
    "reads": "`answers` are extracted from the responses, or programs are run for them; ?: not installed or not said.",
}
RESTRICTED = "verifier calls when stopping after k (k + 1 if none was correct)."  # of runs until the first correct one
TRUST = {
    "nominal": "nominal",
    "rough": "rough, one problem has more than 3 % of the expected calls (docs/statistics.md)",
    "few problems": "rough, fewer than 100 problems (docs/statistics.md)",
}
MORE = " More: --explain"


def ordinal(m: int) -> str:
    """The ordinal number: "1st", "2nd", "10th"."""
    return f"{m}{'th' if m % 100 in (11, 12, 13) else {1: 'st', 2: 'nd', 3: 'rd'}.get(m % 10, 'th')}"


def below(counted_to: Iterable[int] = (1,), explain: bool | None = None) -> list[str]:
    """What stands below tables that count to these correct responses; the two lines alone where `explain` is None."""
    nth = " or ".join("first" if m == 1 else ordinal(m) for m in sorted(set(counted_to)))
    return (
        texts(LEGENDS)
        if explain
        else [
            f"samples-to-correct: mean rank of the {nth} correct response (n + 1 if none).",
            "improvement: random's mean / its own; above 1 = fewer calls." + MORE * (explain is not None),
        ]
    )


def below_across(explain: bool) -> list[str]:
    """What stands below a table of selectors across pools."""
    return (
        texts(ACROSS)
        if explain
        else [
            "improvement: geometric mean over pools; above 1 = fewer calls than random.",
            "[...]: 95 % for these very pools' problems; then for pools like these." + MORE,
        ]
    )


def texts(legends: dict[str, str]) -> list[str]:
    """A line for each legend."""
    return [f"{name}: {text}" for name, text in legends.items()]
