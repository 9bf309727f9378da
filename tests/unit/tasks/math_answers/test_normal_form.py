"""The normal form: one spelling for the answers that are the same."""

from __future__ import annotations

from corpora.math_fragments import FRAGMENTS
from corpora.math_normal_forms import NORMAL_FORMS
from hypothesis import given, settings
from hypothesis import strategies as st

from harness_tasks.math_answers.equality import compare
from harness_tasks.math_answers.normal_form import normal_form

pieces = [*FRAGMENTS, " ", "\n", "\nQuestion:"]
texts = st.one_of(st.lists(st.sampled_from(pieces), max_size=14).map("".join), st.text(max_size=40))


def test_every_answer_of_the_corpus_has_its_normal_form():
    assert [(text, normal_form(text)) for text, form in NORMAL_FORMS if normal_form(text) != form] == []


@settings(max_examples=400)
@given(texts)
def test_the_normal_form_is_a_fixed_point_and_equal_to_its_text(text):
    form = normal_form(text)
    assert normal_form(form) == form
    assert compare(text, form).equal is True
