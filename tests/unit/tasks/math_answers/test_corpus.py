r"""Answers that must be accepted or rejected, by kind, and seeded perturbations: what equals a reference and what not.

One test reports every row of the table that fails. The texts are ours: no row is taken from a data set.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from random import Random

import pytest

from harness import Problem
from harness_tasks.competition_math import Math
from harness_tasks.data.math_rows import boxed
from harness_tasks.gsm8k import Gsm8k
from harness_tasks.math_answers import MathTask
from harness_tasks.math_answers.equality import reference_in

TASK = MathTask()
UNION = r"(-\infty,2) \cup (3,\infty)"


def status(gold: str, response: str, task: MathTask = TASK) -> str:
    return task.verify(Problem("p", "", gold), response).status


# kind: (reference, what a response boxes, whether that is right)
BOXED: dict[str, list[tuple[str, str, bool]]] = {
    "words behind a value": [
        ("8", r"8\text{ or more}", False),
        ("8", "8 or more", False),
        ("8", r"8\text{ or less}", False),
        ("8", r"8\text{ more}", False),
        ("8", "8 less", False),
        ("8", r"\text{at least }8", False),
        ("8", "at most 8", False),
        ("8", "more than 8", False),
        ("8", r"8\text{ below zero}", False),
        ("8", r"8\text{ is wrong}", False),
        ("8", "8 incorrect", False),
        ("8", r"\text{not }8", False),
        ("8", "8 squared", False),
        ("8", r"8\text{ factorial}", False),
        ("8", r"8\text{!}", False),
        ("8", "8 tenths", False),
        ("8", r"8\text{ hundredths}", False),
        ("8", "8 halves", False),
        ("8", "8 tens", False),
        ("8", r"8\text{ dozen}", False),
        ("8", r"8\text{ point two}", False),
        ("8", r"8\text{ of }20", False),
        ("8", "8 to 1", False),
        ("8", "8 apples", True),
        ("8", r"8\text{ green apples}", True),
        ("8", "8 men", True),
        ("8", "8 feet squared", True),
        ("8", r"8\text{ miles per }\text{hour}", True),
        ("8", "8 quarters", True),
        ("8", r"8\text{ m}", True),
        ("8", r"8\text{ s}", True),
        ("8", "exactly 8", True),
        ("8", "about 8", True),
    ],
    "letters behind a value": [
        ("12", r"12\text{k}", False),
        ("12000", r"12\text{k}", True),
        ("12", r"12\text{K}", False),
        ("12", r"12\text{M}", False),
        ("12", r"12\text{x}", False),
        ("12", "12k", False),
        ("12", "12 k", False),
        ("12k", "12k", True),
        ("12", "12 hundred", False),
        ("1200", "12 hundred", True),
        ("12", r"12\text{ thousand}", False),
        ("12000", r"12\text{ thousand}", True),
    ],
    "remarks": [
        ("18", "18 apples, out of 20", True),
        ("7", "7 apples, out of 10", True),
        ("7", r"7\text{ apples, out of }10", True),
        ("7", "7 apples out of 10", True),
        ("10", "7 apples, out of 10", False),
        ("7", "7 out of 10", False),
        (r"\frac{7}{10}", "7 out of 10", True),
        ("0.7", "7 out of 10", True),
        ("7", "7 or more out of 10", False),
        ("24", "24, not 25", True),
        ("25", "24, not 25", False),
        ("24", "24, since 6 times 4 is that", True),
        ("24", "24 rather than 25", False),
        ("24", "24 apples rather than 25", True),
        ("25", "24 apples rather than 25", False),
        (r"\text{does not exist}", "does not exist", True),
        (r"\text{even}", "even, not odd", True),
        (r"\text{odd}", "even, not odd", False),
    ],
    "per cent signs: the sign is dropped on both sides, the number must be the reference's": [
        ("24", r"24\%", True),
        ("24", "24%", True),
        ("24", "24 percent", True),
        ("24", r"24\text{ percent}", True),
        (r"24\%", "24", True),
        ("0.5", r"0.5\%", True),
        (r"0.5\%", r"0.50\%", True),
        (r"\frac{1}{2}", r"\frac{1}{2}\%", True),
        ("0.6", r"60\%", False),
        (r"60\%", "0.6", False),
        ("60", "0.6", False),
        (r"\frac{3}{5}", r"60\%", False),
        ("24", r"2400\%", False),
        ("24", r"0.24\%", False),
    ],
    "numbers in words": [
        ("12", "twelve", True),
        ("12", r"\text{Twelve}", True),
        ("12", "twelve apples", True),
        ("24", "twenty-four", True),
        ("105", "one hundred and five", True),
        ("105", r"\text{one hundred and five}", True),
        ("12345", "twelve thousand three hundred forty-five", True),
        ("1000000", "one million", True),
        ("-5", "negative five", True),
        ("-5", "minus 5", True),
        ("0", "zero", True),
        (r"\frac{2}{3}", "two thirds", True),
        (r"\frac{3}{4}", "three-fourths", True),
        (r"\frac{5}{2}", "two and a half", True),
        ("2.5", "2 and a half", True),
        ("2, 3", "two and three", True),
        ("5", "two and three", False),
        ("12", "twenty", False),
        ("12", "twelve hundred", False),
        ("12", "not twelve", False),
        ("12", "twelve or more", False),
        ("12", "a twelve", False),
        ("1", "one of the angles", False),
        ("2", "two thirds", False),
        ("5", "five hundred", False),
        (r"\text{one-to-one}", "1", False),
    ],
    "scientific notation": [
        ("24", "24e0", True),
        ("24", "2.4e1", True),
        ("24", "2.4E+1", True),
        ("0.024", "2.4e-2", True),
        ("2400000", "2.4e6", True),
        ("24", "24e1", False),
        ("24", "24e", False),
        ("24e", "24e", True),
        ("24", "24e0x", False),
        ("24", "1e999999999", False),
    ],
    "mixed numbers": [
        ("3.5", "3 1/2", True),
        (r"\frac{7}{2}", "3 1/2", True),
        (r"\frac{7}{2}", "3 1/2 cups", True),
        ("-3.5", "-3 1/2", True),
        (r"\frac{7}{2}", r"3\frac{1}{2}", True),
        (r"\frac{7}{2}", "3½", True),
        (r"\frac{3}{2}", "3 1/2", False),
        (r"\frac{31}{2}", "3 1/2", False),
        ("4", "3 2/2", False),
        ("3, \\frac{1}{2}", "3 1/2", False),
        ("55", "5 5", False),
    ],
    "inequalities and intervals": [
        (UNION, "x<2 or x>3", True),
        (UNION, r"x<2 \text{ or } x>3", True),
        (UNION, "x > 3 or x < 2", True),
        (UNION, r"x < 2 \lor 3 < x", True),
        (UNION, "2 > x or x > 3", True),
        (UNION, r"(3,\infty) \cup (-\infty,2)", True),
        (UNION, r"x \le 2 or x > 3", False),
        (UNION, "x<2 and x>3", False),
        (UNION, "x<3 or x>2", False),
        (UNION, "x<2", False),
        (UNION, "x<2 or x>4", False),
        (UNION, "x<2 or x>3 or x=2.5", False),
        (UNION, r"x \ne 2", False),
        (r"(-\infty,3) \cup (3,\infty)", r"x \ne 3", True),
        ("x<2 or x>3", UNION, True),
        ("x<2 or x>3", "x>3 or x<2", True),
        ("x<2 or x>3", "y<2 or y>3", False),
        ("(2,3)", "x>2 and x<3", True),
        ("(2,3)", "x<3 and x>2", True),
        ("(2,3)", "2<x<3", True),
        ("(2,3)", r"x>2 \text{ and } x<3", True),
        ("(2,3]", r"2 < x \le 3", True),
        ("(2,3]", "3 >= x > 2", True),
        ("(2,3]", "2 <= x < 3", False),
        ("(2,3)", "x>2 or x<3", False),
        (r"[2,\infty)", r"x \geq 2", True),
        (r"[2,\infty)", r"x \geqslant \frac{4}{2}", True),
        (r"[2,\infty)", "x>2", False),
        (r"[\sqrt{2},\infty)", r"x \ge \sqrt2", True),
        (r"[-1,1] \cup \{3\}", r"-1 \le x \le 1", False),
        ("2", "x<2", False),
    ],
    "signs that say more": [
        ("4", r"4 \approx 99", False),
        ("99", r"4 \approx 99", False),
        (r"\sqrt{51}", r"\sqrt{51} \approx 99", False),
        (r"\sqrt{51}", r"\sqrt{51} \approx 7.14", True),
        (r"\pi", r"\pi \approx 3.14", True),
        ("7.14", r"x \approx 7.14", True),
        ("7.14", r"\approx 7.14", True),
        ("9", "9'", False),
        ("(5,6)", "(5,6)'", False),
        ("2k+2", "2k+2_3", False),
        ("0", r"\text{not }0", False),
        ("0", r"0\text{ minus }1", False),
        ("xyz", "zyx", True),
        ("64", "64_7", False),
        ("-64", "-64_7", False),
        ("-64_7", "-64_{7}", True),
        ("720", "6!=720", True),
        ("12", "9 163/200", False),
        ("9.815", "9 163/200", True),
    ],
    "no solution": [
        (r"\emptyset", r"\text{no solution}", True),
        (r"\text{no solution}", r"\emptyset", True),
        (r"\emptyset", r"\varnothing", True),
        (r"\emptyset", r"\{\}", True),
        (r"\emptyset", "no real solutions", True),
        (r"\emptyset", "There are no solutions.", True),
        (r"\emptyset", "the empty set", True),
        (r"\text{none}", r"\emptyset", True),
        (r"\text{does not exist}", "DNE", True),
        (r"\emptyset", "0", False),
        (r"\emptyset", r"\{0\}", False),
        (r"\emptyset", r"\{\emptyset\}", False),
        ("0", r"\emptyset", False),
        ("0", r"\text{no solution}", False),
        ("0", "none", False),
        (r"\text{no}", r"\text{no solution}", False),
        (r"\emptyset", "no", False),
        (r"\emptyset", r"(-\infty,\infty)", False),
    ],
    "several answers": [
        (r"\boxed{1}, \boxed{2}", r"1, 2", True),
        (r"\boxed{1}, \boxed{2}", r"2 \text{ and } 1", True),
        (r"\boxed{1}, \boxed{2}", r"\{1,2\}", True),
        (r"\boxed{1}, \boxed{2}", "2", False),
        (r"\boxed{1}, \boxed{2}", "1", False),
        (r"\boxed{1}, \boxed{2}", "1, 2, 3", False),
        (r"\boxed{(1,2)}, \boxed{(3,4)}", "(3,4) and (1,2)", True),
        (r"\boxed{(1,2)}, \boxed{(3,4)}", "(1,3), (2,4)", False),
        (r"\boxed{\frac{1}{\sqrt{3}}}, \boxed{x^2}", r"\frac{\sqrt{3}}{3}, x \cdot x", True),
    ],
}

# kind: (reference, a response without a box, or with one that it denies, whether that is right)
STATED: dict[str, list[tuple[str, str, bool]]] = {
    "denied": [
        ("24", "The answer is not 24", False),
        ("24", "The answer isn't 24.", False),
        ("24", "The answer: not 24", False),
        ("24", "The answer is **not** $24$.", False),
        ("24", r"The answer is not \boxed{24}", False),
        ("24", r"So it is not equal to $\boxed{24}$.", False),
        ("24", r"$x \ne \boxed{24}$", False),
        ("24", "It is not 24", False),
        ("24", "It cannot be 24", False),
        ("24", "My answer is no longer 24", False),
        ("24", "I doubt that the answer is 24", False),
        ("24", "I don't think the answer is 24", False),
        ("24", "answer is wrong: 24", False),
        ("24", r"It is \boxed{24}, and not \boxed{25}.", True),
        ("25", r"It is \boxed{24}, and not \boxed{25}.", False),
        ("24", "The answer is 24. So the answer is not 25.", True),
        ("25", "The answer is not 24. The answer is 25.", True),
        ("25", "The answer is 24, no: the answer is 25.", True),
        ("24", "The answer is 24, not 25", True),
    ],
    "bounded": [
        ("24", "The answer is at least 24", False),
        ("24", "The answer is less than 24.", False),
        ("24", "The answer is less than $24$.", False),
        ("24", "The answer is no more than 24", False),
        ("24", "The answer is between 20 and 24", False),
        ("24", "The answer is either 23 or 24", False),
        ("24", "The answer is 23 or 24", False),
        ("24", "The answer is 24 or more", False),
        ("24", "the answer is 20-24", False),
        ("24", "So there are at most 24", False),
    ],
    "said in words": [
        ("24", "The answer is twenty-four.", True),
        ("18", "The answer is 18 apples, out of 20", True),
        ("7", "The answer is 7 apples, out of 10.", True),
        ("20", "The answer is 18 apples, out of 20", False),
        ("18", "the answer is therefore 18 dollars", True),
        ("18", "The answer is exactly 18.", True),
        ("3.5", "The answer is 3 1/2.", True),
    ],
}


@pytest.mark.parametrize("task", [TASK, Gsm8k()], ids=["boxed", "hashes"])
def test_every_row_of_the_corpus_has_its_verdict(task: MathTask) -> None:
    rows = [
        (kind, gold, rf"So it is $\boxed{{{answer}}}$.", right)
        for kind, of in BOXED.items()
        for gold, answer, right in of
    ]
    rows += [(kind, gold, response, right) for kind, of in STATED.items() for gold, response, right in of]
    failing = [
        f"{kind}: {gold!r} against {response!r} must be {'right' if right else 'wrong'}"
        for kind, gold, response, right in rows
        if status(gold, response, task) != ("correct" if right else "wrong")
    ]
    assert failing == []


# Solutions that end in several boxes, in the form in which MATH has five


@pytest.mark.parametrize(
    ("solution", "reference"),
    [
        (r"So the roots are $\boxed{1}$ and $\boxed{-2}$.", r"\boxed{1}, \boxed{-2}"),
        (r"Hence \[\boxed{(1,2)}, \quad \boxed{(3,4)}\]", r"\boxed{(1,2)}, \boxed{(3,4)}"),
        (r"It is $\boxed{x+1}$ or $\boxed{x-1}$.", r"\boxed{x+1}, \boxed{x-1}"),
        (r"One finds $\boxed{3}$. Another way gives $\boxed{3}$ too.", "3"),
        (r"First \boxed{2}, from which we see that it must be \boxed{5}.", "5"),
        (r"It is $\boxed{1\frac{1}{2}},$ or $\boxed{\frac{3}{2}}$.", r"\frac{3}{2}"),
        (r"It is $\boxed{\frac{\sqrt{3}}{3}}$ or $\boxed{\frac{1}{\sqrt{3}}}$.", r"\frac{1}{\sqrt{3}}"),
        (r"It is $\boxed{5}$.", "5"),
        (r"It is $\boxed 5$.", "5"),
    ],
)
def test_a_solution_that_ends_in_several_boxes_has_several_answers(solution: str, reference: str) -> None:
    last = boxed(solution)
    assert last is not None
    assert reference_in(solution, last) == reference
    assert status(reference, solution) == "correct"
    assert TASK.audit(Problem("p", "", reference), solution).status == "correct"


def test_the_strict_rule_knows_the_last_of_several_boxes() -> None:
    several = Problem("p", "", r"\boxed{1}, \boxed{2}")
    assert TASK.audit(several, r"\boxed{2}").status == "correct"
    assert TASK.audit(several, r"\boxed{1}").status == "wrong"


def test_the_task_reads_several_boxes_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "test.jsonl"
    file.write_text('{"problem": "Solve it.", "solution": "So $x = \\\\boxed{1}$ and $\\\\boxed{-2}$."}\n')
    [problem] = Math(data=str(file)).problems("test")
    assert problem.reference == r"\boxed{1}, \boxed{-2}"
    assert status(problem.reference, r"\boxed{-2, 1}") == "correct"
    assert status(problem.reference, r"\boxed{-2}") == "wrong"


# Perturbations: an answer of another value is wrong however it is dressed, one of the same value right


def integer(rng: Random) -> tuple[str, Fraction]:
    value = rng.choice([-1, 1]) * rng.randint(1, 10 ** rng.randint(1, 6))
    return str(value), Fraction(value)


def decimal(rng: Random) -> tuple[str, Fraction]:
    value = Fraction(rng.randint(-99_999, 99_999), 10 ** rng.randint(1, 4))
    return f"{float(value):.4f}".rstrip("0").rstrip("."), value


def fraction(rng: Random) -> tuple[str, Fraction]:
    value = Fraction(rng.randint(1, 99), rng.randint(2, 99)) * rng.choice([-1, 1])
    sign = "-" if value < 0 else ""
    return rf"{sign}\frac{{{abs(value.numerator)}}}{{{value.denominator}}}", value


def dressed(text: str, rng: Random) -> str:
    """An answer in one of the ways in which models write the same value."""
    ways: list[Callable[[str], str]] = [
        lambda a: a,
        lambda a: rf"{a}\text{{ cm}}",
        lambda a: f"{a} apples",
        lambda a: rf"{a}\text{{ square units}}",
        lambda a: rf"x = {a}",
        lambda a: rf"\displaystyle {a}",
        lambda a: rf"\$ {a}",
        lambda a: rf"{a}\%",
        lambda a: rf"\left({a}\right)" if "frac" not in a and "," not in a else a,
        lambda a: rf"{{{a}}}",
        lambda a: rf"\approx {a}",
        lambda a: f"**{a}**",
        lambda a: f"{a}.",
        lambda a: rf"\,{a}\,",
        lambda a: f"{a}, not 7",
        lambda a: f"{a} apples, out of 99",
        lambda a: a.replace("frac", "dfrac"),
    ]
    return rng.choice(ways)(text)


def respelt(value: Fraction, rng: Random) -> str:
    """Another spelling of the same value."""
    sign = "-" if value < 0 else ""
    whole, rest = divmod(abs(value), 1)
    spellings = [
        rf"{sign}\frac{{{abs(value.numerator) * 3}}}{{{value.denominator * 3}}}",
        f"{value.numerator}/{value.denominator}",
    ]
    if value.denominator == 1:
        spellings += [f"{value}.0", f"{int(value):,}", f"{value}e0"]
    if rest and whole:
        spellings += [rf"{sign}{whole}\frac{{{rest.numerator}}}{{{rest.denominator}}}", f"{sign}{whole} {rest}"]
    return rng.choice(spellings)


OFFSETS = [Fraction(1), Fraction(-1), Fraction(1, 2), Fraction(1, 100), Fraction(10), Fraction(-7)]
FACTORS = [Fraction(-1), Fraction(2), Fraction(10), Fraction(1, 10), Fraction(100), Fraction(1, 100), Fraction(1000)]
SPOILED = [
    "not {}", "{} or more", r"{}\text{{ or less}}", "at least {}", "{} tenths", "{} hundredths", "{}_7", "{} 7",
    r"{}\text{{ thousand}}", r"{}\text{{k}}", "{} is wrong", "{}, 7777", "{} or 7777", r"\pm {}", "{} dozen",
    "{} squared", "{}e3", "x > {}", r"x \ne {}", r"{} \cdot x", "{}x", r"{}\text{{ more}}", "({}, 7777)",
    r"\{{{}, 7777\}}", "[{}, 7777]", "{} < x", "{}7", "7{}",
]  # fmt: skip


def test_another_value_is_wrong_in_every_dress_and_the_same_value_right() -> None:
    rng = Random(20261122)
    falsely: list[str] = []
    for _ in range(700):
        gold, value = rng.choice([integer, decimal, fraction])(rng)
        same = dressed(rng.choice([gold, respelt(value, rng)]), rng)
        other = value + rng.choice(OFFSETS) if rng.random() < 0.5 or not value else value * rng.choice(FACTORS)
        different = dressed(respelt(other, rng), rng)
        spoiled = rng.choice(SPOILED).format(gold)
        for answer, right in ((same, True), (different, other == value), (spoiled, False)):
            if (status(gold, rf"\boxed{{{answer}}}") == "correct") is not right:
                falsely.append(f"{gold!r} against {answer!r} must be {'right' if right else 'wrong'}")
    assert falsely == []


def test_structured_answers_with_one_entry_changed_are_wrong() -> None:
    rng = Random(7)
    falsely: list[str] = []
    shapes = [
        "({}, {})",
        "[{}, {}]",
        "({}, {}]",
        r"\{{{}, {}\}}",
        "{}, {}",
        r"\begin{{pmatrix}} {} \\ {} \end{{pmatrix}}",
        "{} + {}i",
        r"{}\sqrt{{{}}}",
    ]
    for _ in range(200):
        shape = rng.choice(shapes)
        a, b = rng.sample(range(2, 60), 2)
        gold = shape.format(a, b)
        spaced = shape.format(f" {a} ", f" {b} ")
        others = [
            shape.format(a, b + 60),
            shape.format(a + 60, b),
            shape.format(-a, b),
            shape.format(a, f"{b}, {b + 1}"),
        ]
        for answer, right in ((spaced, True), (rng.choice(others), False)):
            if (status(gold, rf"\boxed{{{answer}}}") == "correct") is not right:
                falsely.append(f"{gold!r} against {answer!r} must be {'right' if right else 'wrong'}")
    assert falsely == []
