"""Values as canonical text: what it equals, its digest, its members and numbers; hostile text."""

import contextlib
import hashlib
import re
from collections import Counter, OrderedDict, namedtuple
from decimal import Decimal
from fractions import Fraction

import numpy
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from harness_tasks.sandbox import Malformed, digest, encode, loose, members, number, numbers, same
from harness_tasks.sandbox.canonical import DEPTH, TooLong, text_of

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

SCALARS = (
    *(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.binary(max_size=8)),
    *(st.complex_numbers(allow_nan=False), st.fractions(), st.decimals("-1e400", "1e400", allow_nan=False, places=9)),
    st.sampled_from([0, 1, 1.0, True, -0.0, 2**70, 2.0**70, 0.1, Fraction(1, 10), Decimal("0.10"), Decimal("1e70")]),
)
HASHABLE = st.recursive(
    st.one_of(SCALARS), lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3), max_leaves=4
)
VALUES = st.recursive(
    HASHABLE | st.sets(HASHABLE, max_size=3),
    lambda inner: st.lists(inner, max_size=12) | st.dictionaries(HASHABLE, inner, max_size=3),
    max_leaves=12,
)


def test_canonical_text_is_as_described_and_equal_where_values_are():
    assert [(encode(value), text) for value, text in TEXTS if encode(value) != text] == []
    scalars = [numpy.int8(1), numpy.float64(2), numpy.complex64(1j), numpy.str_("a"), numpy.bytes_(b"a")]
    scalars += [numpy.uint64(2**64 - 1), numpy.float16("-inf")]
    equal = EQUAL + [(scalar, scalar.item()) for scalar in scalars]
    faults = [(value, value) for value in UNEQUAL if digest(value) == digest(value)]
    for pairs, expected in ((equal, True), (DIFFERENT, False), ([(value, value) for value in UNEQUAL], False)):
        texts = [(encode(left), encode(right)) for left, right in pairs]
        faults += [pair for pair in texts if {loose(pair[0]) == loose(pair[1]), same(*pair)} != {expected}]
    assert faults == []


@given(VALUES, VALUES)
@example([[frozenset({None})]], 0)  # mostly brackets
@settings(max_examples=40)
def test_of_any_two_values_too_and_a_text_is_read_no_further_than_it_is_long(left, right):
    assert (loose(encode(left)) == loose(encode(right))) == (left == right) == same(encode(left), encode(right))
    text = loose(encode(left))
    assert loose(text) == text
    assert digest(left) == "h" + hashlib.sha256(text.encode()).hexdigest()
    assert loose(encode(left), len(text)) == text
    with pytest.raises(Malformed):
        loose(encode([left] * 4), len(text))


def test_what_numpy_has_beside_numbers_and_a_value_that_is_nested_too_deeply_equal_nothing():
    others = [
        *(numpy.array([1]), numpy.ma.masked, numpy.datetime64(5, "ns"), numpy.longdouble(5)),
        *(numpy.void(b"x"), numpy.zeros(1, [("a", int)])[0], numpy.array([object()])),
    ]
    assert [encode(other) for other in others] == ["X"] * len(others)
    value = []
    for _ in range(DEPTH - 1):
        value = [value]
    assert loose(encode(value)) == encode(value)
    assert loose("[" * DEPTH + "i1" + "]" * DEPTH)
    assert encode([value]) == "X"
    value.append(value)
    assert encode(value) == "X"


def test_long_text_is_refused_before_it_is_made_and_a_long_list_has_the_digest_of_its_whole_text():
    folded = [0]
    for _ in range(90):
        folded = [folded, folded]  # 2 ** 90 elements
    for value in (folded, "x" * 997, [None] * 2000, {"x" * 2000}, ["x" * 300] * 8):
        with pytest.raises(TooLong):
            encode(value, 1000)
    assert len(encode("x" * 996, 1000)) == 999
    for value in ([*range(2500)], tuple(range(1000)), [], ()):
        assert digest(value) == "h" + hashlib.sha256(loose(encode(value)).encode()).hexdigest()


def test_a_number_is_read_and_nothing_else_is_and_no_more_of_them_than_are_wanted():
    spelled = [number(text) for text in ("T", f"i{2**64:x}", "f-inf", "c0.5;-1.0", "nfloat32:f0.5;", "nbool:F;")]
    assert spelled == [True, 2**64, -float("inf"), 0.5 - 1j, 0.5, False]
    assert numbers("[i1,i2]", 2) == ((2,), [1, 2])
    assert numbers(encode([[1, 0.5], (True, 1j)]), 9) == ((2, 2), [1, 0.5, True, 1j])
    many = ("[i1,i2,i3]", "[[],[],[]]", "[[i1,i2],[i3,i4]]", f"[i{2**64:x}]", "[i1,N]", "[[i1],i2]", '[s"a"]')
    assert not [text for text in ("[i1]", "N", 's"1"', "i1i1", "q1/3", "X") if not refused(number, text)]
    assert not [text for text in many if not refused(lambda text: numbers(text, 2), text)]


def test_a_number_of_numpys_is_compared_exactly_and_a_large_int_in_double_precision():
    pairs, large = [], 2**60 + 1
    with numpy.errstate(all="ignore"):
        for dtype in ("float16", "float32", "float64", "complex64"):
            for expected in (2 * 3.14159 * 10, 0.1, 2**24 + 1, 1e-8, -1e300, 1e5 + 0.5, 0.0):
                for near in (expected, expected * (1 + 1e-5), float("inf"), float("nan")):
                    scalar = numpy.dtype(dtype).type(near)
                    right = bool(numpy.complex128(scalar) == complex(expected))
                    pairs += [(expected, scalar, right), (scalar, expected, right), ([(expected,)], [(scalar,)], right)]
    pairs += [(large, numpy.float64(2**60), True), (float(2**60), numpy.int64(large), True)]
    pairs += [(large, float(2**60), False), (large, numpy.int64(2**60), False), (10**400, numpy.float64("inf"), False)]
    pairs.append(({large}, {numpy.float64(2**60)}, False))
    assert [pair for pair in pairs if same(*map(encode, pair[:2])) != pair[2]] == []


MEMBERS = [
    ([1.0, "a,]", (2,)], ["i1", 's"a,]"', "(i2)"]), ({2, 1}, ["i1", "i2"]), ({1: [2], "x": {}}, ["i1", 's"x"']),
    ((), []), ("", []), ("ab", ['s"a"', 's"b"']), (b"ab", ["i61", "i62"]),
]  # fmt: skip


def test_members_are_those_that_python_iterates_over():
    assert [(value, list(members(encode(value)))) for value, _ in MEMBERS] == MEMBERS
    assert not [text for text in ("N", "i1", "f1.5", "X") if not refused(iterated, text, TypeError)]
    with pytest.raises(Malformed):
        list(members("[i1,(i2,i3,i4)]", 5))


def iterated(text):
    return list(members(text))


READERS = [loose, number, lambda text: numbers(text, 99), text_of]


def refused(read, text, errors=Malformed):
    try:
        read(text)
    except errors:
        return True
    return False


def test_what_is_no_canonical_text_is_malformed():
    accepted = [text[:40] for text in BROKEN if not all(refused(read, text) for read in READERS)]
    accepted += [text[:40] for text in BROKEN if not refused(iterated, text, (Malformed, TypeError))]
    accepted += [text[:40] for text in BROKEN if same("[i1,i2]", text)]
    assert accepted == []


@given(st.text('[](){}<>,:;"\\NTFifscbqdnMX0123456789abe.-+/u_ \n', max_size=40))
@settings(max_examples=150)
def test_any_text_is_read_or_malformed(text):
    for read in (*READERS, iterated, lambda text: same('[i1,(f0.5,{s"a":<i2>})]', text)):
        with contextlib.suppress(Malformed, TypeError):
            read(text)
