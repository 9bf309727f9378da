"""The letter that a response chooses."""

import time

from harness_tasks.graders.choices import answer, bare_letter

# Responses as models write them, and the letter that each chooses
CHOSEN = {
    "The answer is (B)": "B", "**B**": "B", "B.": "B", "b": "B", "(c)": "C", "A": "A", "I": "I", r"\boxed{B}": "B",
    r"So $\boxed{\text{(B) Paris}}$.": "B", r"\textbf{B}": "B", r"The answer is: $\boxed{C}$": "C", "Answer: C": "C",
    "Answer:B": "B", "Answer - B": "B", "ANSWER: B": "B", "Answer: **D**": "D", "**Answer: D**": "D",
    "The answer is\n**(C)**": "C", "So the final answer is:\n\nB": "B", "The answer is 'B'": "B",
    "The correct answer is **B) Paris**.": "B", "The right answer is D) all of the above": "D",
    "The correct option is: (A)": "A", "The correct choice is therefore C.": "C", "the answer would be letter B": "B",
    "Option C is correct because x": "C", "(B) is the correct answer.": "B", "The answer is A because dogs bark": "A",
    "The answer is not B. The answer is C.": "C", "The best answer is B, not A.": "B",
    "The answer is B, A is wrong": "B", "I would choose D.": "D", "I choose option (E) here": "E",
    "It is option B": "B", "A) red\nB) blue\nC) green\n\nB": "B", "B. Paris\n\nParis is the capital.": "B",
    "D): Joyce": "D", "A) Water expands.\nSo, the answer is C.": "C",
}  # fmt: skip
NONE_CHOSEN = [
    *("", "A dog", "The answer is a dog", "The answer is A dog", "Answer: I don't know", "None of these"),
    *("I think the answer is B or C", "The answer is (A) and (B).", "The answer is B, C, and D", r"\boxed{A, B}"),
    *("A) red\nB) blue\nC) green\nD) pink", "(A) is wrong, (C) fits better.", "The answer isn't B", "42"),
    *("The capital of France is Paris.", r"\boxed{A} or \boxed{B}"),
]


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
