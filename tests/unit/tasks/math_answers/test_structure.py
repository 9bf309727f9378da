"""The outer structure of an answer: brackets, elements of lists and sets; and (`intervals.py`) inequalities."""

from harness_tasks.math_answers.intervals import Union, as_union
from harness_tasks.math_answers.structure import Collection, collection, is_balanced, is_interval, split


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
    "1,2": Collection("", ("1", "2"), ""),
    "(1,2]": Collection("(", ("1", "2"), "]"),
    r"\{5\}": Collection(r"\{", ("5",), r"\}"),
    r"2\pm x": Collection("", ("2+x", "2-x"), ""),
    r"\{\pm1,3\}": Collection(r"\{", ("1", "-1", "3"), r"\}"),
    "(1,2),(3,4)": Collection("", ("(1,2)", "(3,4)"), ""),
    r"(\pm1,2)": Collection("(", (r"\pm1", "2"), ")"),
    "5": None,
    "(5)": None,
    r"(\pm1)": None,
    r"\pm1\mp2": None,
    "(1)(2)": None,
    "(1,2": None,
}


def test_a_text_is_read_as_brackets_and_elements():
    assert {text: collection(text) for text in COLLECTIONS} == COLLECTIONS
    assert list(filter(is_interval, COLLECTIONS)) == ["(1,2]", r"(\pm1,2)"]


UNIONS = {
    "x<2": Union("x", (r"(-\infty,2)",)),
    r"2\ge x": Union("x", (r"(-\infty,2]",)),
    r"2<x\le5": Union("x", ("(2,5]",)),
    r"5\ge x>2": Union("x", ("(2,5]",)),
    r"x\ne3": Union("x", (r"(-\infty,3)", r"(3,\infty)")),
    r"3\ne x": Union("x", (r"(-\infty,3)", r"(3,\infty)")),
    r"x\le\infty": Union("x", (r"(-\infty,\infty)",)),
    r"-\infty\le x<1": Union("x", (r"(-\infty,1)",)),
    r"x<2\lor x\ge3": Union("x", (r"(-\infty,2)", r"[3,\infty)")),
    r"x>2\land x\le3": Union("x", ("(2,3]",)),
    r"x<3\land x\ge2": Union("x", ("[2,3)",)),
    r"(1,2)\cup[3,4)": Union("", ("(1,2)", "[3,4)")),
    r"x<2\lor(3,4)": Union("x", (r"(-\infty,2)", "(3,4)")),
    r"\theta>0": Union(r"\theta", (r"(0,\infty)",)),
    r"x_{1}>0": Union("x_{1}", (r"(0,\infty)",)),
}
NO_UNIONS = [
    *(r"x<2\lor y>3", r"x<2\land y>1", r"x<2\land x<3", r"x>2\land x>3", r"x\ne1\land x<3", r"x<1\land x<2\land x>0"),
    *("1<2", "x<y", "x<", r"x\ne y", r"1<x>2", "1<x<2<3", r"x<2\lor5", "5", r"1\ne2", "x^{2}<4"),
]


def test_inequalities_of_one_variable_are_its_intervals():
    assert {text: as_union(text) for text in UNIONS} == UNIONS


def test_nothing_else_is_a_union_of_intervals():
    assert [text for text in NO_UNIONS if as_union(text)] == []
