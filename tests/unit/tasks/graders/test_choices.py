"""The letter that a response chooses."""

import time

from corpora.choices import CHOSEN, NONE_CHOSEN

from harness_tasks.graders.choices import answer, bare_letter


def test_a_choice_is_read_as_models_write_it():
    assert {text: answer(text) for text in CHOSEN} == CHOSEN


def test_no_letter_or_several_are_no_choice():
    assert {text: letter for text in NONE_CHOSEN if (letter := answer(text))} == {}


def test_of_a_response_that_was_cut_off_only_a_stated_answer_counts():
    assert (answer("B. Paris, since", cut_off=True), answer("The answer is B. But", cut_off=True)) == (None, "B")


def test_a_reference_is_a_letter_with_what_is_around_it():
    letters = {text: bare_letter(text) for text in ("B", "b", "(B)", "B.", "B) Paris", "Paris", "", "K")}
    assert letters == {**dict.fromkeys(("B", "b", "(B)", "B.", "B) Paris"), "B"), "Paris": None, "": None, "K": None}


def test_hostile_texts_take_no_long_time():
    started = time.process_time()
    for text in ("answer " * 100_000, "answer is " + "( " * 100_000, "B or " * 100_000, "A\n" * 100_000, "*" * 10**6):
        answer(text)
    assert time.process_time() - started < 5
