"""The outer structure of an answer: brackets, elements of lists and sets."""

from harness_tasks.math_answers.normal_form import Collection, collection, is_balanced, split


def test_brackets_are_balanced_or_nothing_reads_them():
    assert is_balanced(r"(1,2] \{[x]\}")
    assert not any(map(is_balanced, ["(", ")", ")(", r"\{}", "{x]"]))
    assert is_balanced("(" * 30 + ")" * 30)
    assert not is_balanced("(" * 31 + ")" * 31)


def test_a_separator_counts_outside_all_brackets_only():
    assert split("1, (2,3) ,[4,5)", ",") == ["1", "(2,3)", "[4,5)"]
    assert split(r"\{1,2\}", ",") == [r"\{1,2\}"]
    assert split(r"x\cup y\cupz", r"\cup") == ["x", r"y\cupz"]


COLLECTIONS = {
    "1,2": Collection("", ("1", "2")),
    "(1,2]": Collection("(]", ("1", "2")),
    r"\{5\}": Collection(r"\{\}", ("5",)),
    r"2\pm x": Collection("", ("2+x", "2-x")),
    r"\{\pm1,3\}": Collection(r"\{\}", ("1", "-1", "3")),
    "(1,2),(3,4)": Collection("", ("(1,2)", "(3,4)")),
    r"(\pm1,2)": Collection("()", (r"\pm1", "2")),
    "5": None,
    "(5)": None,
    r"(\pm1)": None,
    r"\pm1\mp2": None,
    "(1)(2)": None,
    "(1,2": None,
}


def test_a_text_is_read_as_brackets_and_elements():
    assert {text: collection(text) for text in COLLECTIONS} == COLLECTIONS
