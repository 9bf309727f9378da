"""Values with their canonical text, pairs of values that are equal or different, and what is no canonical text."""

import re
from collections import Counter, OrderedDict, namedtuple
from decimal import Decimal
from fractions import Fraction

TEXTS = [
    (None, "N"), ([True, False], "[T,F]"), (-31, "i-1f"),
    ([1.5, float("inf"), float("nan"), -0.0], "[f1.5,finf,fnan,f-0.0]"), (1 - 2.5j, "c1.0;-2.5"),
    ('a"b\n\u20ac', r's"a\"b\n\u20ac"'), (b"\x00\xff", "b00ff;"), (([],), "([])"), ({3, 1}, "<i1,i3>"),
    (frozenset(), "<>"), ({"b": 1, "a": [2]}, '{s"a":[i2],s"b":i1}'), (Fraction(-3, 16), "q-3/10"),
    (Decimal("1.50"), "q3/2"), (re.match("a", "a"), "M"), (object(), "X"), ((lambda: 0, range(3)), "(X,X)"),
    (OrderedDict(a=1), '{s"a":i1}'), (Counter("a").keys(), '<s"a">'), (namedtuple("P", "x")(2), "(i2)"),
    (["ab"] * 8, "[" + ",".join(['s"ab"'] * 8) + "]"), (["a"] * 7 + ['"'], "[" + 's"a",' * 7 + r's"\""' + "]"),
    ("\ud83d\ude00", "X"),  # it would be read as the one character that JSON writes so
]  # fmt: skip

# Unlike everything, and unlike themselves
UNEQUAL = [float("nan"), re.match("", ""), object(), [float("nan")], complex("nan"), complex(1, float("nan"))]
UNEQUAL += [Decimal("nan"), Decimal("1e1000")]

EQUAL = [
    (complex(-0.0, 2), complex(0.0, 2)), (complex(0.0, -0.0), 0), (Decimal("0.50"), 0.5), (Decimal("-1.25e2"), -125),
    (Decimal("-Infinity"), -float("inf")), (Decimal("1e400"), 10**400), (Fraction(1, 2), 0.5),
    (Fraction(1, 10), Decimal("1e-1")), (2.0**70, 2**70), ({1: True}, {True: 1.0}),
    (OrderedDict(a=1, b=2), {"b": 2, "a": 1}), ([bytearray(b"a")], [b"a"]), ({1, 2}, frozenset({2.0, 1})),
    ({}.keys(), set()),
]  # fmt: skip

DIFFERENT = [
    ([1], (1,)), (Fraction(1, 3), 1 / 3), (Fraction(2**70 + 1, 2**70), 1),
    (Fraction(16**700, 3), Fraction(16**700, 5)), (Decimal("1e1000"), Decimal("-1e1000")), (1j, -1j),
    ({1: 2}, {(1, 2)}), ("1", 1), ("a", b"a"), (2**53 + 1, float(2**53)), (0.1, Fraction("0.1")),
    (Decimal("0.1"), 0.1), (None, False), ({1: 2}, {1: 3}), ("\ud83d\ude00", "\U0001f600"),
    (["a\\u0000b"] * 8, ["a\0b"] * 8), (["a"] * 7 + [True], ["a"] * 8),
]  # fmt: skip

BROKEN = [
    *("", "[", "]", "[i1", "[i1,]", "[,i1]", "(i1]", "{i1}", "{i1:}", "{i1:i2,}", "{i1,i2}", "<i1:i2>", "[i1][i2]"),
    *("nbytes:i3b9aca00;", "nint64:f0.5;", "nfloat64:i1;", "nobject:i1;", "nstr:i1;", "nint64:i" + "f" * 17 + ";"),
    *("i", "iz", "i1 ", " i1", "i1i1", "f", "f1e", "f1..2", "f1_0", "c1.0", "c1;", "b0;", "b00", "q1", "q1/", "q1/x"),
    *('s"', r's"\x"', 's"a\nb"', "nint64:i5", "nint64:s;", "E", "EValueError", "h00", "Y", "\0", "\u0661", "i\u0661"),
    *("[" * 10**6, "[" * 200 + "]" * 200, "[" * 101 + "i1" + "]" * 101),
]  # fmt: skip
