"""The number or the text that a response states, and a search by a regular expression, which is ended in time."""

import time

import pytest

from harness_tasks.graders import stated
from harness_tasks.graders.stated import is_right, normalised, number_answer, text_answer

STATED = {  # a number, and the responses that state it
    "42": ["42", "The answer is 42.", "#### 42", r"\boxed{42}", "It is 41. No, 42.0 km", "x = 42", "$42", "forty-two"],
    "1/2": ["0.5", "1/2", r"\boxed{\frac{3}{6}}", "The answer is 1/2 of it", "5e-1"], "6020": ["6.02E3"],
    "1234": ["1,234", "The total is $1,234.00.", r"\boxed{1{,}234}"], "50": ["50%"], "4": ["four legs"],
    "-2": ["−2", "(−2)", "x = −2", "Answer: minus 2", "$-2$", r"\( -2 \)", "3-5 = -2"],
    "9/2": ["4 1/2", "It is 4½ cups", "Answer: 4 1/2 cups", r"So $4\frac{1}{2}$"],
    "1/3": [r"$\frac{1}{3}$", "1 / 3", "⅓", "So:\n\n$$x = \\frac{1}{3}$$"],
    "1200000": ["1.2 million", "1 200 000", "$1{,}200{,}000$", "1.2 × 10^6"],
    "36": ["6 * 6 = 36", "**36** eggs", "✅ 36", "6 * 6 → 36", "Answer: 36 eggs (3 boxes)", "36 m/s"],
    "7": [r"\boxed{7}, not 8", r"That is never more than \boxed{7}"],
    "None": ["", r"\boxed{x+1}", "abc1e5", "The answer is not 24", "The answer is 8 or more", "√2", r"2\pi", "3rd",
        "GPT-4", "2x", "3k", "n − 2", "It is 3:45", "It is 10-12", "It is 2 or 3", "f(3)", "3 squared", "٣", "<36",
        "Answer: 2 (mod 7)", "The answer is $2$ or $3$.", "[1, 2]"],
}  # fmt: skip
PARIS = [
    "Paris", "**Paris.**", "'Paris'", "  paris \n", "PARIS!", "The answer is Paris.", "Answer:\nParis", "#### Paris",
    "The answer is Paris. It is nice.", "Final Answer: **Paris**", r"It is \boxed{\text{Paris}}.",
    "Answer: Rome.\nNo. Answer: Paris",
]  # fmt: skip
TEXTS = {
    **dict.fromkeys(PARIS, "paris"), "Answer: Dr. Who": "dr. who", r"\boxed{New  York}": "new york",
    "The capital is Paris.": "the capital is paris", "": None, "...": None, "x" * 20_001: None,
}  # fmt: skip


def test_the_stated_number_is_read_exactly_as_a_whole_expression():
    rows = [(text, number) for number, texts in STATED.items() for text in texts]
    assert [(text, str(number_answer(text))) for text, _ in rows] == rows


def test_a_statement_or_else_the_whole_response_is_the_text():
    assert {text: text_answer(text) for text in TEXTS} == TEXTS
    assert (normalised(" “Ｎew\u00a0 York”. "), normalised("-5")) == ("new york", "-5")


def test_a_number_is_right_exactly_or_within_the_tolerance():
    assert [is_right("1/3", text, 0.0) for text in ("1/3", "0.333333", "0.33")] == [True, True, False]
    assert [is_right("12.5", text, 0.1) for text in ("12.6", "12.4", "12.61")] == [True, True, False]
    assert is_right("0.1", "0.3", 0.2)  # exact: as floats the difference is above 0.2


def test_the_end_of_a_response_that_was_cut_off_does_not_count():
    numbers = [number_answer(text, cut_off=True) for text in ("So 12", "#### 12", r"\boxed{12}")]
    assert numbers == [None, "12", "12"]
    texts = ("Paris is", "Answer: Par", "Answer: Paris. It is", "Answer: Paris\n", "\\boxed{Paris} is")
    assert [text_answer(text, cut_off=True) for text in texts] == [None, None, "paris", "paris", "paris"]


def test_the_last_match_or_its_first_group_is_found_and_a_search_without_end_is_ended(monkeypatch):
    cases = [(r"x=(\d+)", "x=1, x=22", "22"), (r"\d+", "1 and 22", "22"), (r"x(\d)?", "x", ""), (r"y", "x", None)]
    assert [(pattern, text, stated.last_match(pattern, text)) for pattern, text, _ in cases] == cases
    monkeypatch.setattr(stated, "LIMIT_S", 1.0)
    with pytest.raises(TimeoutError):
        stated.last_match(r"(a+)+$", "a" * 40 + "b")


def test_hostile_texts_take_no_long_time():
    started = time.process_time()
    for text in (
        *("1 " * 10_000, "-" * 20_000, "a" * 20_000 + "1", "\\text{" * 4000 + "1", "1 or " * 4000, "( 1 x" * 4000),
        *("\\[" * 10_000 + "1", "$1" * 10_000, "1/" * 10_000),
    ):
        number_answer(text)
    assert time.process_time() - started < 5
