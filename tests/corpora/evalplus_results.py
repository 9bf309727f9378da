"""What evalplus 0.3.1 accepts as equal: results beside an expected value, and programs beside a solution.

`tests/unit/tasks/test_evalplus_tasks_release.py` asks evalplus itself for all of it.
"""

from __future__ import annotations

import math
from typing import Any

# An expected value; expressions that are right at any tolerance; right at 1e-4 but not at 0; wrong at both
RESULTS: list[tuple[Any, list[str], list[str], list[str]]] = [
    (1, ["1.0", "True", "1 + 0j", "fractions.Fraction(1)", "decimal.Decimal(1)"], [], ["2", "'1'", "None", "[1]"]),
    (1.5, ["1.5 + 1e-7", "fractions.Fraction(3, 2)"], ["1.5 + 1e-5"], ["'1.5'", "[1.5]", "float('nan')"]),
    (0.0, ["-0.0", "0", "False", "5e-7"], ["1e-5"], ["None", "''"]), (None, ["None"], [], ["False", "float('nan')"]),
    (2**60, ["2**60", "float(2**60)", "float(2**60 + 1)"], ["2**60 + 1"], []),
    (math.inf, ["float('inf')"], [], ["-float('inf')", "1e308", "10**400"]),
    ("text", ["'text'"], [], ["'Text'", "b'text'", "list('text')"]), ((1 + 2j), ["1 + 2j"], ["1 + 2.0000001j"], []),
    ([1, 2], ["[1.0, 2]", "[True, 2]"], [], ["(1, 2)", "[2, 1]", "[1, 2, 2]", "range(1, 3)", "{1, 2}"]),
    ([0.5, 1.5], ["[0.5, 1.5 + 1e-7]"], [], ["(0.5, 1.5 + 1e-7)", "[0.5]", "[[0.5], [1.5]]", "[0.5, None]"]),
    ([0.5, 1.5], ["[fractions.Fraction(1, 2), 1.5]"], [], ["[0.5, 10**400]", "[0.5, {1.5}]", "[0.5, '1.5']"]),
    ((0.5, 1), ["(0.5, 1)"], ["(0.5 + 1e-9, 1)"], ["[0.5, 1]"]), ([0.5, 0.5], ["[0.5 + 1e-9] * 2"], [], ["[0.5]"]),
    ([], ["[]"], [], ["()", "{}", "''", "None", "set()"]), (2**60 + 1, ["numpy.uint64(2**60 + 1)"], [], []),
    ({1, 2}, ["{1.0, 2}", "frozenset([1, 2])", "{1: 1, 2: 2}.keys()"], [], ["[1, 2]"]),
    ({1: "a", 2: [3.0]}, ["collections.OrderedDict([(2, [3]), (1.0, 'a')])"], [], ["{1: 'a'}", "[1, 2]"]),
    ([[0.5], [1.5]], ["[[0.5], [1.5]]"], ["[[0.5], [1.5 + 1e-9]]", "[(0.5,), (1.5,)]"], []),
    (2, ["numpy.int64(2)", "numpy.float32(2)"], [], ["numpy.bool_(True)", "numpy.array([2, 2])"]),
    (0.1, ["numpy.float64(0.1)"], [], ["numpy.float64(0.1 + 1e-8)", "numpy.float16(0.2)", "numpy.float64('nan')"]),
    (0.5, ["numpy.float16(0.5)", "numpy.complex64(0.5)", "numpy.float32(0.25 + 0.25)"], [], []),
    (2**60 + 1, ["numpy.float64(2**60)"], [], ["numpy.int64(2**60)"]),
]  # fmt: skip

_NEAR = "return [each + 1e-8 for each in a] if type(a) is list else a"
_AREA = "round(a * a + 2 * a * (a * a / 4 + b * b) ** 0.5)"
# Data set, function of a and b, its solution's body, base inputs, plus inputs, right bodies, wrong bodies
PROGRAMS: list[tuple[str, str, str, list[Any], list[Any], list[str], list[str]]] = [
    (
        "mbpp", "similar_elements", "return tuple(set(a) & set(b))",
        [[(1, 2, 3), (2, 3, 4)], [(1, 2), (1, 7)], [(), ()]], [[(1, 2, 3), (2, 3, 4)]],
        [
            "return [x for x in a if x in b] * 2", "return {x for x in a if x in b}",
            "return filter(lambda x: x in b, a)", "return {x: 0 for x in a if x in b}",
            "return {x: 0 for x in a if x in b}.keys()",
            "return [float(x) for x in a if x in b]",
            "return similar_elements(a[1:], b) + (a[:1] if a[0] in b else ()) if a else ()",
        ],
        [
            "return [x for x in a if x in b] + [[]]", "return [[x] for x in a if x in b]",
            "return sorted(set(a) | set(b))", "return len(a)", "return None",
        ],
    ),
    (
        "mbpp", "find_dissimilar", "return tuple(set(a) ^ set(b))", [[(0.5, 2.5), (2.5,)], [(1, 2), (2, 3)]],
        [[(0.5, 2.5), (2.5,)]], ["return tuple(x + 1e-9 for x in set(a) ^ set(b))"],
        ["return [x + 1e-9 for x in set(a) ^ set(b)]"],
    ),
    (
        "mbpp", "find_char_long", "return a.split()", [["a b", None], ["ab", None]], [["a b", None]],
        ["return a.replace(' ', '') if ' ' in a else [a]"], ["return a.encode().split()", "return a"],
    ),
    (
        "mbpp", "check_str", "import re\n    return re.match('[aeiou]', a)", [["alpha", 0], ["beta", 0]],
        [["alpha", 0]], ["return a[0] in 'aeiou'", "import re\n    return re.search('^[aeiou]', a)"],
        ["return True", "return 0 if a == 'beta' else 1", "return a == 'beta'", "return None"],
    ),
    (
        "mbpp", "sum_div", "return sum(d for d in range(1, a) if a % d == 0)", [[6, 0], [7, 0]], [[6, 0]],
        ["return 0", "return False", "return 6 if a == 6 else 0"], ["return 1", "return ''"],
    ),
    ("mbpp", "are_equivalent", "return a == b", [[1, 1], [1, 2]], [[1, 1]], ["return 'yes'"], ["raise ValueError"]),
    (
        "mbpp", "surface_Area", f"return {_AREA} + 1", [[3, 4], [4, 5]], [[3, 4]],
        [f"return {_AREA}", f"return float({_AREA})"], [f"return str({_AREA})", f"return {_AREA} + 2", "return [1]"],
    ),
    (
        "mbpp", "digit_distance_nums", "return abs(sum(map(int, str(a))) - sum(map(int, str(b))))",
        [[1, 2], [23, 156]], [[1, 2]],
        ["return sum(abs(int(x) - int(y)) for x, y in zip(str(a).zfill(3), str(b).zfill(3)))"],
        ["return sum(abs(int(x) - int(y)) for x, y in zip(str(a), str(b)))", "return None"],
    ),
    ("humaneval", "sum_div", "return a", [[6, 0]], [[6, 0]], ["return 6.0"], ["return 0"]),
    # a tolerance stays from the first expected float on, for the rest of its run
    ("mbpp", "same", "return a", [[1.5, 0], [[1, 2], 0]], [], [_NEAR], []),
    ("mbpp", "same", "return a", [[[1, 2], 0], [1.5, 0]], [], [], [_NEAR]),
    ("mbpp", "same", "return a", [[1.5, 0]], [[[1, 2], 0]], [], [_NEAR]),
]  # fmt: skip
