"""Verdicts on math answers: the tables of the corpus, seeded changes of value and spelling, and verl's strict rules."""

from fractions import Fraction
from random import Random

from corpora.math_outside import ROWS
from corpora.math_texts import DRESSES, GSM8K, MATH, SHAPES, SPOILED
from corpora.math_verdicts import BOXED, STATED
from support.math_grading import TASK

from harness import Problem, Verdict
from harness_tasks.competition_math import Math, reference_in
from harness_tasks.graders.strict_rules import strict_verdict
from harness_tasks.gsm8k import Gsm8k
from harness_tasks.own import Own

TASKS = {"math": Math(), "gsm8k": Gsm8k(), "boxed": TASK}
TASKS |= {"own": Own(file="f.jsonl", grader="number"), "own-math": Own(file="f.jsonl", grader="math")}


def falsely_graded(gold, response, is_right, task=TASK):
    """A line if the verdict is not the expected one, else nothing."""
    expected = "correct" if is_right else "wrong"
    status = task.verify(Problem("p", "", gold), response).status
    return [] if status == expected else [f"{gold!r} against {response!r} is {status}, not {expected}"]


def parts(right, wrong):
    """The texts between the bars of two cells, each with whether it is right."""
    return [(text, cell is right) for cell in (right, wrong) for text in cell.split(" | ") if text]


def test_every_response_answer_and_statement_of_the_corpus_has_its_verdict():
    rows = [
        (gold, response, is_right, TASKS[name])
        for name, response, *cells in (row for kind in ROWS.values() for row in kind)
        for gold, is_right in parts(*cells)
    ]
    for gold, cells in (row for kind in BOXED.values() for row in kind.items()):
        rows += [(gold, rf"So $\boxed{{{text}}}$.", is_right) for text, is_right in parts(*cells)]
    rows += [(*row, TASKS[name]) for kind in STATED.values() for row in kind for name in ("boxed", "gsm8k")]
    assert len(rows) > 400
    assert [line for row in rows for line in falsely_graded(*row)] == []


# a solution that ends in several boxes, in the form in which MATH has five, and its reference
SEVERAL = {
    r"So the roots are $\boxed{1}$ and $\boxed{-2}$.": r"\boxed{1}, \boxed{-2}",
    r"Hence \[\boxed{(1,2)}, \quad \boxed{(3,4)}\]": r"\boxed{(1,2)}, \boxed{(3,4)}",
    r"It is $\boxed{x+1}$ or $\boxed{x-1}$.": r"\boxed{x+1}, \boxed{x-1}",
    r"One finds $\boxed{3}$. Another way gives $\boxed{3}$ too.": "3",
    r"First \boxed{2}, from which we see that it must be \boxed{5}.": "5",
    r"It is $\boxed{\frac{\sqrt{3}}{3}}$ or $\boxed{\frac{1}{\sqrt{3}}}$.": r"\frac{1}{\sqrt{3}}",
    r"It is $\boxed 5$.": "5",
}


def test_a_solution_that_ends_in_several_boxes_has_several_answers_of_which_verls_rule_takes_the_last():
    assert {solution: reference_in(solution) for solution in SEVERAL} == SEVERAL
    for solution, reference in SEVERAL.items():
        assert falsely_graded(reference, solution, True) == []
        assert TASK.audit(Problem("p", "", reference), solution).status == "correct"
    assert TASK.audit(Problem("p", "", r"\boxed{1}, \boxed{2}"), r"\boxed{1}").status == "wrong"


# Perturbations: an answer of another value is wrong however it is dressed, one of the same value right


def number(rng):
    """An integer, a decimal or a fraction as text, and its value."""
    kind = rng.randrange(3)
    if kind == 0:
        value = rng.choice([-1, 1]) * rng.randint(1, 10 ** rng.randint(1, 6))
        return str(value), Fraction(value)
    if kind == 1:
        value = Fraction(rng.randint(-99_999, 99_999), 10 ** rng.randint(1, 4))
        return f"{float(value):.4f}".rstrip("0").rstrip("."), value
    value = Fraction(rng.randint(1, 99), rng.randint(2, 99)) * rng.choice([-1, 1])
    return rf"{'-' * (value < 0)}\frac{{{abs(value.numerator)}}}{{{value.denominator}}}", value


def respelt(value, rng):
    """Another spelling of the same value."""
    sign, (whole, rest) = "-" * (value < 0), divmod(abs(value), 1)
    spellings = [
        rf"{sign}\frac{{{abs(value.numerator) * 3}}}{{{value.denominator * 3}}}",
        rf"{sign}\dfrac{{{abs(value.numerator)}}}{{{value.denominator}}}",
        f"{value.numerator}/{value.denominator}",
    ]
    if value.denominator == 1:
        spellings += [f"{value}.0", f"{int(value):,}", f"{value}e0", rf"\left({value}\right)"]
    if rest and whole:
        spellings += [rf"{sign}{whole}\frac{{{rest.numerator}}}{{{rest.denominator}}}", f"{sign}{whole} {rest}"]
    return rng.choice(spellings)


OFFSETS = [Fraction(offset) for offset in ("1", "-1", "1/2", "1/100", "10", "-7")]
FACTORS = [Fraction(factor) for factor in ("-1", "2", "10", "1/10", "100", "1/100", "1000")]


def test_another_value_is_wrong_in_every_dress_and_the_same_value_right():
    rng, faults = Random(20261122), []
    for _ in range(400):
        gold, value = number(rng)
        same = rng.choice(DRESSES).format(rng.choice([gold, respelt(value, rng)]))
        other = value + rng.choice(OFFSETS) if rng.random() < 0.5 or not value else value * rng.choice(FACTORS)
        different = rng.choice(DRESSES).format(respelt(other, rng))
        spoiled = rng.choice(SPOILED).format(gold)
        for answer, is_right in ((same, True), (different, other == value), (spoiled, False)):
            faults += falsely_graded(gold, rf"\boxed{{{answer}}}", is_right)
    for _ in range(100):  # one entry of several is another
        shape, (a, b) = rng.choice(SHAPES), rng.sample(range(2, 60), 2)
        others = [(a, b + 60), (a + 60, b), (-a, b), (a, f"{b}, {b + 1}")]
        for entries, is_right in (((f" {a} ", f" {b} "), True), (rng.choice(others), False)):
            faults += falsely_graded(shape.format(a, b), rf"\boxed{{{shape.format(*entries)}}}", is_right)
    assert faults == []


def test_the_strict_rules_accept_what_verls_do_without_fallback_and_give_their_names_as_routes():
    rows = [("boxed", *row) for row in MATH] + [("####", "18", *row) for row in GSM8K]
    assert [row for row in rows if (strict_verdict(*row[:3]).status == "correct") is not row[3]] == []
    assert strict_verdict("boxed", "5", "The final answer is $5$.") == Verdict("wrong", "no answer", "math_reward")
    assert strict_verdict("boxed", "5", r"\boxed{6}") == Verdict("wrong", "different", "math_reward")
    assert strict_verdict("####", "5", "#### 5") == Verdict("correct", "", "gsm8k strict")
    assert strict_verdict("####", "5", None) == Verdict("wrong", "not text", "gsm8k strict")
