"""Values as canonical text: what it equals, its digest, its members and numbers; hostile text."""

import contextlib
import hashlib
from decimal import Decimal
from fractions import Fraction

import numpy
import pytest
from corpora.canonical_texts import BROKEN, DIFFERENT, EQUAL, TEXTS, UNEQUAL
from hypothesis import example, given, settings
from hypothesis import strategies as st

from harness_tasks.sandbox import Malformed, digest, encode, loose, members, number, numbers, same
from harness_tasks.sandbox.canonical import DEPTH, TooLong, text_of

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
NUMBERS = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.complex_numbers()
ARRAYS = st.recursive(
    NUMBERS | st.none() | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple),
    max_leaves=8,
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
        *(numpy.array([1]), numpy.array([], float), numpy.ma.masked, numpy.datetime64(5, "ns"), numpy.longdouble(5)),
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


@given(ARRAYS)
@settings(max_examples=60)
def test_numbers_are_read_as_numpy_reads_them(value):
    try:
        array = numpy.array(value)
    except ValueError:  # lists of different lengths
        array = None
    if array is None or array.dtype.kind not in "biufc":
        with pytest.raises(Malformed):
            numbers(encode(value), 100)
        return
    shape, values = numbers(encode(value), 100)
    assert shape == array.shape
    assert numpy.array_equal(numpy.array(values, array.dtype).reshape(shape), array, equal_nan=True)


def test_a_number_is_read_and_nothing_else_is_and_no_more_of_them_than_are_wanted():
    spelled = [number(text) for text in ("T", f"i{2**64:x}", "f-inf", "c0.5;-1.0", "nfloat32:f0.5;", "nbool:F;")]
    assert spelled == [True, 2**64, -float("inf"), 0.5 - 1j, 0.5, False]
    assert numbers("[i1,i2]", 2) == ((2,), [1, 2])
    many = ("[i1,i2,i3]", "[[],[],[]]", "[[i1,i2],[i3,i4]]", f"[i{2**64:x}]", "[i1,N]", "[[i1],i2]", '[s"a"]')
    assert not [text for text in ("[i1]", "N", 's"1"', "i1i1", "q1/3", "X") if not refused(number, text)]
    assert not [text for text in many if not refused(lambda text: numbers(text, 2), text)]


def test_a_number_of_numpys_is_compared_exactly_and_a_large_int_in_double_precision():
    faults, large = [], 2**60 + 1
    with numpy.errstate(all="ignore"):
        for dtype in ("float16", "float32", "float64", "complex64", "complex128"):
            for expected in (2 * 3.14159 * 10, 0.1, 2**24 + 1, 1e-8, -1e300, 1e5 + 0.5, 0.0):
                for near in (expected, expected * (1 + 1e-5), expected * (1 + 1e-3), float("inf"), float("nan")):
                    scalar = numpy.dtype(dtype).type(near)
                    pairs = [(expected, scalar), (scalar, expected), ([1, (expected,)], [1, (scalar,)])]
                    right = bool(numpy.complex128(scalar) == complex(expected))
                    faults += [pair for pair in pairs if same(*map(encode, pair)) != right]
    for right, pairs in (
        (True, [(large, numpy.float64(2**60)), (float(2**60), numpy.int64(large))]),
        (False, [(large, float(2**60)), (large, numpy.int64(2**60)), (10**400, numpy.float64("inf"))]),
        (False, [({large}, {numpy.float64(2**60)})]),
    ):
        faults += [pair for pair in pairs if same(*map(encode, pair)) != right]
    assert faults == []


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
