"""The number that a response states, exactly."""

import time

from harness_tasks.graders.stated_numbers import answer, is_right

STATED = {
    **dict.fromkeys(
        ("42", "The answer is 42.", "#### 42", r"\boxed{42}", "It is 41. No, 42.0 km", "x = 42", "$42"), "42"
    ),
    **dict.fromkeys(("0.5", "1/2", r"\boxed{\frac{3}{6}}", "The answer is 1/2 of it", "5e-1"), "1/2"),
    **dict.fromkeys(("1,234", "The total is $1,234.00.", r"\boxed{1{,}234}"), "1234"),
    **{"3.5e2 and": "350", "6.02E3": "6020", "50%": "50", "answer: three": "3", "-7": "-7"},
    **dict.fromkeys(
        ("", "four legs", r"\boxed{x+1}", "abc1e5", "The answer is not 24", "The answer is 8 or more"), None
    ),
}


def test_the_stated_number_is_a_fraction_in_lowest_terms():
    assert {text: answer(text) for text in STATED} == STATED


UNCLEAR = (  # no number: not the last digits
    *("– 2", "- 12 eggs", "2 is wrong", "3 and 1/2", r"\frac{7}{1/2}", "10^3", "10⁶", "3k", "2x", "n − 2", "GPT-4"),
    *("1.2 million / 3", "3!", "√2", r"2\pi", "3rd", "3:45", "10-12", "3/4/5", "3+4", "2 or 3", "3 of 4", "f(3)", "±2"),
    *(
        "5 squared",
        "3 dozen",
        "3 lakh",
        "5 feet 3 inches",
        "7 remainder 2",
        "3 below zero",
        "x^2 = 9",
        "2x = 6",
        "x=2, y=3",
    ),
    *(
        "I got 5 but that's wrong",
        "It is 5. No, that is wrong.",
        "5 apples, then two are left",
        "Step 2",
        "36\n\n1. first",
    ),
    *("Answer: 2 dozen", "Answer: x − 2", "The answer is 24 (wrong)", "Answer: 2 (mod 7)", "Answer: 5 (in thousands)"),
    *("3 ⋅ 2", "3∗2", "⁻2", "⌊2.5⌋", "➖2", "5‰", "1٫5", "‒2", "2\u0338", "11 in binary", "5 (negative)", "5 ppm"),
    *("The answer is $2$ or $3$.", "Answer: $5$ is wrong", "The answer is $5$ dozen", r"The answer is \(5\) squared"),
    *("four legs", "That one.", "10^\n3", "log 3", "٣", "<36", "[1, 2]"),
)
WHOLE = {  # the last number is all of its expression
    **dict.fromkeys(("−2", "(−2)", "x = −2", "Answer: minus 2", "It's minus 2", "$-2$", r"\( -2 \)", "3-5 = -2"), "-2"),
    **dict.fromkeys(("4 1/2", "It is 4½ cups", "Answer: 4 1/2 cups", r"So $4\frac{1}{2}$"), "9/2"),
    **dict.fromkeys((r"$\frac{1}{3}$", "1 / 3", "⅓", "So:\n\n$$x = \\frac{1}{3}$$"), "1/3"),
    **dict.fromkeys(("−1/2", r"$-\frac{1}{2}$"), "-1/2"),
    **dict.fromkeys(("1.2 million", "1 200 000", "$1{,}200{,}000$", "1.2 × 10^6", "So 1.2 million people."), "1200000"),
    **dict.fromkeys(
        (
            "thirty-six",
            "It's 36",
            "6 * 6 = 36",
            "**36** eggs",
            "✅ 36",
            "6 * 6 → 36",
            "“36”",
            "Answer: 36 eggs (3 boxes)",
            "36 m/s",
        ),
        "36",
    ),
    **{"The answer is 50 (i.e., 1/2)": "50", "The answer is -2 (two below zero).": "-2", "about 6 million": "6000000"},
    **{r"\(\frac{2}{3}\)": "2/3", "1 1/2": "3/2", "She pays $1,200.50 in total.": "2401/2"},
}


def test_the_last_number_is_the_whole_expression_or_none():
    assert {text: answer(text) for text in WHOLE} == WHOLE
    assert {text: number for text in UNCLEAR if (number := answer(text))} == {}


def test_hostile_texts_take_no_long_time():
    started = time.process_time()
    for text in (
        "1 " * 10_000,
        "-" * 20_000,
        "a" * 20_000 + "1",
        "\\text{" * 4000 + "1",
        "1 or " * 4000,
        "( 1 x" * 4000,
    ):
        answer(text)
    assert time.process_time() - started < 5


def test_a_number_is_right_exactly_or_within_the_tolerance():
    assert [is_right("1/3", text, 0.0) for text in ("1/3", "0.333333", "0.33", "none")] == [True, True, False, None]
    assert [is_right("12.5", text, 0.1) for text in ("12.6", "12.4", "12.61", "12,5")] == [True, True, False, None]
    assert is_right("0.1", "0.3", 0.2)  # exact: as floats the difference is above 0.2


def test_the_last_number_of_a_response_that_was_cut_off_does_not_count():
    assert [answer(text, cut_off=True) for text in ("So 12", "#### 12", r"\boxed{12}")] == [None, "12", "12"]
