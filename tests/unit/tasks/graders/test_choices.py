"""The letter that a response chooses."""

import time

from corpora.choices import CHOSEN, NONE_CHOSEN

from harness_tasks.graders.choices import answer, bare_letter


def test_a_choice_is_read_as_models_write_it_and_no_letter_or_several_are_none():
    assert {text: answer(text) for text in CHOSEN} == CHOSEN
    assert {text: letter for text in NONE_CHOSEN if (letter := answer(text))} == {}
    # of a response that was cut off only a stated answer counts
    assert (answer("B. Paris, since", cut_off=True), answer("The answer is B. But", cut_off=True)) == (None, "B")
    references = {**dict.fromkeys(("B", "b", "(B)", "B.", "B) Paris"), "B"), "Paris": None, "": None, "K": None}
    assert {text: bare_letter(text) for text in references} == references


def test_hostile_texts_take_no_long_time():
    started = time.process_time()
    for text in ("answer " * 100_000, "answer is " + "( " * 100_000, "B or " * 100_000, "A\n" * 100_000, "*" * 10**6):
        answer(text)
    assert time.process_time() - started < 5
