"""The text that a response states, in one spelling."""

from harness_tasks.graders.stated import normalised
from harness_tasks.graders.stated import text_answer as answer

STATED = {
    **dict.fromkeys(
        (
            *("Paris", "**Paris.**", "'Paris'", "  paris \n", "PARIS!", "The answer is Paris.", "Answer:\nParis"),
            *(
                "The answer is Paris. It is nice.",
                "#### Paris",
                "Final Answer: **Paris**",
                r"It is \boxed{\text{Paris}}.",
            ),
            *("Answer: Rome.\nNo. Answer: Paris", "The answer: Paris"),
        ),
        "paris",
    ),
    "Answer: Dr. Who": "dr. who",
    r"\boxed{New  York}": "new york",
    "The capital is Paris.": "the capital is paris",
    "": None,
    "...": None,
    "x" * 20_001: None,
}


def test_a_statement_or_else_the_whole_response_is_the_answer():
    assert {text: answer(text) for text in STATED} == STATED


def test_a_response_that_was_cut_off_is_no_answer_as_a_whole():
    texts = ("Paris is", "Answer: Par", "Answer: Paris. It is", "Answer: Paris\n", "\\boxed{Paris} is")
    assert [answer(text, cut_off=True) for text in texts] == [None, None, "paris", "paris", "paris"]


def test_texts_are_one_spelling_up_to_case_blanks_and_what_is_around_them():
    assert normalised(" “Ｎew\u00a0 York”. ") == "new york"
    assert normalised("-5") == "-5"
