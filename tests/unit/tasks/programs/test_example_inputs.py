"""Inputs made from a problem's prompt: its examples first, then mutations of them; no expected output is read."""

import random

import pytest

from harness_tasks.programs.example_inputs import example_inputs, mutated

MBPP = '"""\nShared elements.\nassert set(shared((3, 4),\n  {"a": [1.5]}, None)) == set((4, OUTPUT))\n"""'
DOCTEST = 'def half(x: float) -> float:\n    """ Half of x; half(y) for y.\n    >>> half(3.0)\n    OUTPUT\n    """\n'
NAMED = (
    'def take(arr, k):\n    """\n    Input: arr = [1, 22], k = 2. Output: OUTPUT\n    For arr = [], k = 1,\n    """\n'
)
FIRST = [  # prompt, entry point, how many are asked for, the first inputs
    (MBPP, "shared", 1, [((3, 4), {"a": [1.5]}, None)]), (DOCTEST, "half", 1, [(3.0,)]),
    (NAMED, "take", 2, [([1, 22], 2), ([], 1)]),
    ("def f(n):\n    '''\n    Input: 3\n    Input: n = 4\n    '''", "f", 2, [(3,), (4,)]),
    ("def f(grid, size):\n    ''' grid : [[0]]\n    row_size : 2 '''", "f", 1, [([[0]], 2)]),
    ('def join(words: List[str], n: int):\n    """ Join."""\n', "join", 2, [(["ab", "c", "abc"], 5), (["b", "a"], 12)]),
    ("def solve(x):\n    ''' Like solve(x). '''\n", "solve", 3, [([3, 1, 2, 4],), ("abcab",), (5,)]),
    ("f(key=1), f(x), f(1 +), f(2 + 3j)", "f", 1, [(2 + 3j,)]), ("f() and g.f(1) and h_f(2) and f(3", "f", 3, [()]),
    ("def f(x):\n    ''' f() and f(1, 2), as in f(7) '''", "f", 1, [(7,)]), ("f((((" * 200 + "x = [" * 200, "f", 3, []),
    (f"f({'{[1]: 2}'}), f(-{'-' * 3000}1), f('\\d')", "f", 1, [("\\d",)]), ("no example, and no function", "f", 3, []),
]  # fmt: skip


def test_the_examples_of_the_prompt_come_first_then_distinct_mutations_that_do_not_depend_on_the_outputs():
    assert [row for row in FIRST if example_inputs(*row[:3]) != row[3]] == []
    for prompt, entry_point in ((MBPP, "shared"), (DOCTEST, "half"), (NAMED, "take")):
        inputs = example_inputs(prompt, entry_point, 12)
        assert len({repr(each) for each in inputs}) == len(inputs) == 12
        assert inputs[:5] == example_inputs(prompt, entry_point, 5)
        for output in ("OUTPUT", "7", "[1, 2]", ""):
            assert example_inputs(prompt.replace("OUTPUT", output), entry_point, 12) == inputs


SEEDS = [True, 7, -3, 2.5, "aZ9 !", "", [1, [2, "x"]], [], (1, (2,)), {1, 2}, frozenset("ab"), {"k": [1]}, None, 2j]


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: type(seed).__name__)
def test_a_mutation_has_the_types_and_signs_of_its_seed_and_leaves_the_seed_as_it_is(seed):
    before = repr(seed)
    others = [mutated(seed, random.Random(number)) for number in range(100)]
    assert repr(seed) == before
    assert {type(other) for other in others} == {type(seed)}
    if isinstance(seed, int | float):
        assert all((other < 0) == (seed < 0) and abs(other - seed) <= max(2, abs(seed)) for other in others)
    if isinstance(seed, list):
        assert all(len(other) <= len(seed) + 1 for other in others)
        assert {type(item) for other in others for item in other} <= {int, list}
    changes = seed not in ("", [], None, 2j)
    assert (len({repr(other) for other in others}) > 1 or isinstance(seed, bool)) == changes


def test_mutations_keep_what_problems_often_ask_for():
    """Records and rows of a matrix keep their length, words stay words, and a length stays the length."""
    seeds = [("ab", 3), ("cd", 4)], [[1, 2], [3, 4]], "two red 12"
    for number in range(100):
        records, matrix, sentence = (mutated(seed, random.Random(number)) for seed in seeds)
        assert {(type(text), type(value), len(more)) for text, value, *more in records} <= {(str, int, 0)}
        assert {len(row) for row in matrix} <= {2}
        assert {*sentence.split(" ")} <= {"two", "red", "12", "11", "13", "14", "6"}
    inputs = example_inputs("first([5, 6, 7, 8], 4, 2)", "first", 30)
    assert all(len(items) == n for items, n, _ in inputs)
    assert {len(items) for items, *_ in inputs} > {4}
    assert len({k for *_, k in inputs}) > 1
