"""The task game24: its puzzles, splits and checker, on what models write and on random expressions, tampered with."""

import gzip
import hashlib
import json
import re
from collections import Counter
from fractions import Fraction

from corpora.game24 import ACCEPTED, BAD_CSV_FILES, BAD_JSON_FILES, HONEST, OF_OTHER_HANDS, WRONG
from hypothesis import given, settings
from hypothesis import strategies as st
from support.refusals import refusal_of, wrongly_refused

from harness import Problem, correct
from harness_tasks.game24 import Game24, puzzle_id, solvable_hands

TASK = Game24()
FOUR_FIVE = Problem("4-5-6-10", "4 5 6 10")


def puzzle(*numbers):
    return Problem(puzzle_id(numbers), " ".join(map(str, sorted(numbers))))


def test_the_puzzles_are_the_published_1362_in_the_order_of_their_numbers_and_are_asked_for_in_one_message(shared_data):
    task = Game24(data=str(shared_data / "tasks" / "game24.csv"))
    published = sorted([int(number) for number in problem.prompt.split()] for problem in task.problems("test"))
    assert list(map(list, solvable_hands())) == published
    [problem] = [problem for problem in TASK.problems("test") if problem.id == "4-5-6-10"]
    [message] = TASK.messages(problem)
    assert (problem, message["role"]) == (FOUR_FIVE, "user")
    assert message["content"].startswith("Use the numbers 4, 5, 6, 10, each exactly once, ")
    for each in (TASK, task):
        parts = {split: [problem.id for problem in each.problems(split)] for split in ("train", "dev", "heldout")}
        assert Counter(parts["train"] + parts["dev"] + parts["heldout"]) == Counter(
            problem.id for problem in TASK.problems("test")
        )
        assert {split: len(part) for split, part in parts.items()} == {"train": 948, "dev": 145, "heldout": 269}
    remark = "game24: tiny24 was trained by this project, so only the 269 puzzles held out from its training are used"
    assert TASK.default_split("tiny24") == ("heldout", remark)
    assert TASK.default_split("tiny24-large")[0] == "heldout"
    assert TASK.default_split("Qwen/Qwen2.5-7B-Instruct") == ("test", "")


def test_a_local_file_is_read_in_its_order_solvable_or_not_and_a_bad_or_missing_one_is_refused(written, tmp_path):
    for name, content in (
        ("24.csv", "Rank,Puzzles,AMT (s)\n1,10 4 6 5,4.4\n2,1 1 1 1,5.5\n"),
        ("24.csv", "\ufeffPuzzles\r\n10 4 6 5\r\n1 1 1 1\r\n"),
        ("24.jsonl", '{"numbers": [10, 4, 6, 5]}\n\n{"numbers": "1 1 1 1"}\n'),
        ("24.jsonl", gzip.compress(b'{"puzzle": "10 4 6 5"}\n{"prompt": "1, 1, 1, 1", "id": 7}\n', mtime=0)),
    ):
        task = Game24(data=str(written(content, name)))
        problems = [(problem.id, problem.prompt) for problem in task.problems("test")]
        assert problems == [("4-5-6-10", "4 5 6 10"), ("1-1-1-1", "1 1 1 1")]
        assert task.revision == "sha256:" + hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()[:16]
    for name, faults in (("puzzles.csv", BAD_CSV_FILES), ("puzzles", BAD_JSON_FILES)):
        assert not wrongly_refused(faults, lambda text, name=name: Game24(str(written(text, name))).problems("test"))
    task = Game24(data=str(tmp_path / "none.jsonl"))
    for call in (lambda: task.problems("test"), lambda: task.revision):
        assert refusal_of(call) == f"game24: cannot read '{tmp_path}/none.jsonl': No such file or directory"


def test_every_answer_of_the_corpus_has_its_verdict_and_its_short_reason():
    spellings = {"(10 - 6) * 5 + 4", "4 + (10 - 6) * 5", "5 * (10 - 6) + 4"}
    rows = [(FOUR_FIVE, text, "correct", "") for text in ACCEPTED]
    rows += [(FOUR_FIVE, text, "wrong", reason) for text, reason in WRONG]
    rows += [(puzzle(*numbers), *row) for numbers, *row in OF_OTHER_HANDS]
    verdicts = [(row, TASK.verify(*row[:2])) for row in rows]
    assert not [(row, verdict) for row, verdict in verdicts if (verdict.status, verdict.reason) != row[2:]]
    assert not [text for text in ACCEPTED if TASK.answer(FOUR_FIVE, text) not in spellings]
    filler = "Answer: (10 - 6) * 5 + 4" + " " * (20_000 - len("(10 - 6) * 5 + 4"))
    assert TASK.verify(FOUR_FIVE, "x\n" * 50_000 + HONEST) == correct()
    assert TASK.verify(FOUR_FIVE, filler).reason == "no answer"  # its line begins before the last 20,000 characters
    answers = {"Answer: (10-6)*5+4 = 20+5 = 24": "(10 - 6) * 5 + 4 = 20 + 5", "no idea": None}
    answers |= {"Answer: ((10-6)*5)+4 = 48": "(10 - 6) * 5 + 4 = 48"}
    assert {text: TASK.answer(FOUR_FIVE, text) for text in answers} == answers


def test_verdicts_on_the_gpt4_pool_are_the_logged_ones_and_equal_answers_have_equal_verdicts(shared_data):
    """100 responses to each of the 100 puzzles 900 to 999 of the published file, with the verdicts logged there."""
    rows = (shared_data / "tasks" / "game24.csv").read_text().splitlines()[1:]
    pools = json.loads((shared_data / "pools" / "tot_game24_gpt4_standard_n100.json").read_text())
    verdicts = {}
    for pool in pools:
        problem = puzzle(*map(int, rows[pool["idx"]].split(",")[1].split()))
        statuses = [TASK.verify(problem, response).status for response in pool["ys"]]
        assert [status == "correct" for status in statuses] == list(map(bool, pool["accs"]))
        for response, status in zip(pool["ys"][:25], statuses, strict=False):
            verdicts.setdefault((problem.id, TASK.answer(problem, response)), set()).add(status)
    assert (sum(sum(pool["accs"]) for pool in pools), sum(any(pool["accs"]) for pool in pools)) == (734, 33)
    assert all(len(statuses) == 1 for statuses in verdicts.values())


PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2}
PLAIN = dict(zip("+-*/()", "+-*/()", strict=True))
LATEX = PLAIN | {"*": r"\times", "/": r"\div", "(": r"\left(", ")": r"\right)"}


def rendered(tree, signs=PLAIN, fractions=False, weakest=0):
    """The text of a tree, a number or (sign, left, right), in brackets where it binds less than `weakest`."""
    if isinstance(tree, int):
        return str(tree)
    sign, left, right = tree
    if sign == "/" and fractions:
        return rf"\frac{{{rendered(left, signs, True)}}}{{{rendered(right, signs, True)}}}"
    strength = PRECEDENCE[sign]
    sides = rendered(left, signs, fractions, strength), rendered(right, signs, fractions, strength + 1)
    text = f" {signs[sign]} ".join(sides)
    return text if strength >= weakest else signs["("] + text + signs[")"]


def evaluated(tree):
    """The exact value of a tree, None where it divides by zero, and its numbers."""
    if isinstance(tree, int):
        return Fraction(tree), [tree]
    (left, some), (right, more) = map(evaluated, tree[1:])
    if left is None or right is None or (tree[0] == "/" and right == 0):
        return None, some + more
    values = {"+": left + right, "-": left - right, "*": left * right}
    return (left / right if tree[0] == "/" else values[tree[0]]), some + more


def joined(left, right):
    return st.tuples(st.sampled_from("+-*/"), left, right)


NUMBER = st.integers(1, 13)
TWO = joined(NUMBER, NUMBER)
THREE = joined(TWO, NUMBER) | joined(NUMBER, TWO)
SOLVED = st.sampled_from(
    [
        *(("/", 8, ("-", 3, ("/", 8, 3))), ("*", 7, ("+", 3, ("/", 3, 7))), ("/", 6, ("-", 1, ("/", 3, 4)))),
        *(("+", ("*", ("-", 10, 6), 5), 4), ("+", ("+", 1, 1), ("+", 11, 11)), ("/", 12, ("-", 3, ("/", 5, 2)))),
    ]
)
TREES = SOLVED | joined(THREE, NUMBER) | joined(NUMBER, THREE) | joined(TWO, TWO)


@settings(max_examples=80)
@given(tree=TREES, signs=st.sampled_from([PLAIN, LATEX]), fractions=st.booleans())
def test_any_expression_gets_the_verdict_of_exact_evaluation(tree, signs, fractions):
    value, numbers = evaluated(tree)
    expected = {Fraction(24): "", None: "division by zero"}.get(value, "value")
    for wrapping in ("{}", "Answer: {} = 24", r"\boxed{{{}}}"):
        response = wrapping.format(rendered(tree, signs, fractions))
        verdict = TASK.verify(puzzle(*numbers), response)
        assert (verdict.reason, verdict.status) == (expected, "wrong" if expected else "correct")
        assert TASK.answer(puzzle(*numbers), response) == rendered(tree)


TAMPERED = st.text("0123456789+-*/()=.! \n", max_size=2)


@settings(max_examples=60)
@given(tree=SOLVED, place=st.integers(0, 40), cut=st.integers(0, 2), put=TAMPERED)
def test_a_tampered_answer_is_correct_only_where_it_still_makes_24(tree, place, cut, put):
    text, numbers = rendered(tree), evaluated(tree)[1]
    text = text[:place] + put + text[place + cut :]
    if TASK.verify(puzzle(*numbers), text) == correct():
        line = [line for line in text.split("\n") if re.search("[0-9]", line)][-1]
        expression = re.sub(r"^ *\*\*|\*\*[ .]*$", "", line).partition("=")[0].rstrip(" .")
        assert re.fullmatch(r"[0-9+\-*/() ]+", expression)
        assert sorted(map(int, re.findall("[0-9]+", expression))) == sorted(numbers)
        assert eval(re.sub("([0-9]+)", r"Fraction(\1)", expression)) == 24
