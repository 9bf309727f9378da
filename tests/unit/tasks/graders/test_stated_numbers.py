"""The number that a response states, exactly."""

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


def test_a_number_is_right_exactly_or_within_the_tolerance():
    assert [is_right("1/3", text, 0.0) for text in ("1/3", "0.333333", "0.33", "none")] == [True, True, False, None]
    assert [is_right("12.5", text, 0.1) for text in ("12.6", "12.4", "12.61", "12,5")] == [True, True, False, None]
    assert is_right("0.1", "0.3", 0.2)  # exact: as floats the difference is above 0.2


def test_the_last_number_of_a_response_that_was_cut_off_does_not_count():
    assert [answer(text, cut_off=True) for text in ("So 12", "#### 12", r"\boxed{12}")] == [None, "12", "12"]
