"""Arithmetic in a response: what is read as an expression, and how it is written again."""

from __future__ import annotations

import pytest

from harness_tasks.arithmetic import MAX_TOKENS, NotArithmetic, evaluate, symbols


def test_brackets_that_change_the_tree_are_kept_and_others_left_out():
    for text in ("1 - (2 - 3)", "1 + (2 + 3)", "1 / (2 * 3)", "(1 + 2) * 3", "1 - 2 - 3"):
        assert evaluate(symbols(text)).text == text
    assert evaluate(symbols("((1) - 2) - (3 * 4)")).text == "1 - 2 - 3 * 4"


def test_symbols_and_signs_out_of_place_are_refused():
    for text in ("", "+", "4 4", "4 + + 4", "(4", "4)", "4 ()", "4 & 4", "12345"):
        with pytest.raises(NotArithmetic, match="syntax"):
            evaluate(symbols(text))


def test_a_side_has_a_largest_length():
    longest = "+".join("1" * (MAX_TOKENS // 2))
    assert evaluate(symbols(longest)).value == MAX_TOKENS // 2
    with pytest.raises(NotArithmetic, match="syntax"):
        evaluate(symbols(f"({longest})"))
