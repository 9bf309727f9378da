"""Extraction: which part of a response is its final answer; and `normal_form.py`, one spelling for equal answers."""

import time

from corpora.math_texts import FRAGMENTS, NORMAL_FORMS, REPEATED, STATEMENTS
from hypothesis import given, settings
from hypothesis import strategies as st

from harness_tasks.math_answers.equality import compare
from harness_tasks.math_answers.extraction import LOOK_AT, MAX_ANSWER, Extraction, final_statement
from harness_tasks.math_answers.normal_form import normal_form


def test_every_response_of_the_corpus_states_its_answer():
    rows = [(form, *row) for form, rows in STATEMENTS.items() for row in rows]
    assert [row for row in rows if final_statement(row[1], row[0]) != Extraction(*row[2:])] == []


NO_ANSWER = [
    *((text, "", "no answer") for text in ("", "no idea", r"\boxed{}", r"\boxed{ }", "\x00", "\ud800")),
    *((text, "boxed", "no answer") for text in ("\\boxed{5\x00}", "\\boxed{5\x1b}", "\\boxed{5\ud800}")),
    (r"\boxed{3} so in all \boxed{4 + \frac{1}", "boxed", "cut off"),
    (rf"\boxed{{{'1' * (MAX_ANSWER + 1)}}}", "boxed", "too long"), (r"\boxed{5}" + " so" * LOOK_AT, "", "no answer"),
    (None, "", "not text"), (b"\\boxed{5}", "", "not text"),
]  # fmt: skip


def test_what_states_no_answer_has_none_and_a_reason_and_within_the_limits_there_is_one():
    assert [row for row in NO_ANSWER if final_statement(row[0]) != Extraction(None, *row[1:])] == []
    assert final_statement(rf"\boxed{{{'1' * 500}}}").answer == "1" * 500
    assert final_statement("so " * LOOK_AT + r"\boxed{5}").answer == "5"
    assert final_statement("\x00\ud800\\boxed{5}").answer == "5"


def test_a_problem_that_a_base_model_invents_is_cut_off():
    invented = "The answer is 5.\n\nQuestion: How many?\nAnswer: 7\n\nProblem: What?\n\\boxed{9}"
    assert final_statement(invented).answer == "5"
    assert final_statement("Problem restated.\nProblem: What is 2+3?\n\\boxed{5}").answer == "5"
    near = r"The answer is near $\boxed{1}$:" + "\nP: (1,2)\nQ: (3,4), so it is \\boxed{7}"
    assert final_statement(near).answer == "7"
    assert final_statement("#### 5\nQuestion 2: " + "How many? #### 7\n" * 5_000, "####").answer == "5"


def test_extraction_takes_linear_time():
    for unit in REPEATED:  # these take 0.001 to 0.02 s, with a quadratic rule seconds to minutes
        text, started = unit * (200_000 // len(unit)), time.process_time()
        final_statement(text)
        final_statement(text, "####")
        assert time.process_time() - started < 1, unit


def test_every_answer_of_the_corpus_has_its_normal_form():
    assert [(text, normal_form(text)) for text, form in NORMAL_FORMS if normal_form(text) != form] == []


@settings(max_examples=100)
@given(st.lists(st.sampled_from([*FRAGMENTS, " ", "\n"]), max_size=14).map("".join) | st.text(max_size=40))
def test_the_normal_form_is_a_fixed_point_and_equal_to_its_text(text):
    form = normal_form(text)
    assert normal_form(form) == form
    assert not form or compare(text, form).equal is True  # where nothing is left, nothing is answered
