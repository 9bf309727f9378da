"""Canonical text as the trusted side reads it: what it equals, its members, its numbers; hostile text."""

import contextlib

import pytest
from corpora.canonical_texts import BROKEN, DIFFERENT, EQUAL, UNEQUAL
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.canonical_values import ARRAYS, VALUES

from harness_tasks.sandbox import Malformed, encode, loose, members, number, numbers, same
from harness_tasks.sandbox.canonical import text_of


@given(VALUES, VALUES)
@settings(max_examples=60)
def test_loose_texts_are_equal_where_values_are(left, right):
    assert (loose(encode(left)) == loose(encode(right))) == (left == right) == same(encode(left), encode(right))


def test_loose_texts_are_equal_where_values_are_also_in_rare_cases():
    for pairs, equal in ((EQUAL, True), (DIFFERENT, False), ([(value, value) for value in UNEQUAL], False)):
        texts = [(encode(left), encode(right)) for left, right in pairs]
        assert [pair for pair in texts if (loose(pair[0]) == loose(pair[1])) != equal or same(*pair) != equal] == []


@given(VALUES)
@example([[frozenset({None})]])  # mostly brackets
@settings(max_examples=60)
def test_a_value_equals_itself_and_is_read_no_further_than_it_is_long(value):
    text = loose(encode(value))
    assert same(encode(value), encode(value))
    assert loose(encode(value), len(text)) == text
    with pytest.raises(Malformed):
        loose(encode([value] * 4), len(text))


@given(ARRAYS)
@settings(max_examples=150)
def test_numbers_are_read_as_numpy_reads_them(value):
    numpy = pytest.importorskip("numpy")
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


def test_no_more_numbers_are_read_than_are_wanted():
    assert numbers("[i1,i2]", 2) == ((2,), [1, 2])
    for text in ("[i1,i2,i3]", "[[],[],[]]", "[[i1,i2],[i3,i4]]", f"[i{2**64:x}]", "[i1,N]", "[[i1],i2]", '[s"a"]'):
        with pytest.raises(Malformed):
            numbers(text, 2)


def test_a_number_is_read_and_nothing_else_is():
    spelled = [number(text) for text in ("T", f"i{2**64:x}", "f-inf", "c0.5;-1.0", "nfloat32:f0.5;", "nbool:F;")]
    assert spelled == [True, 2**64, -float("inf"), 0.5 - 1j, 0.5, False]
    for text in ("[i1]", "N", 's"1"', "i1i1", "q1/3", "X"):
        with pytest.raises(Malformed):
            number(text)


def test_an_expected_number_is_not_rounded_to_the_precision_of_the_result():
    numpy = pytest.importorskip("numpy")
    expected_numbers = [2 * 3.14159 * 10, 62.83, 0.1, 100000, 2**24 + 1, 1e-8, -1e300, 1e5 + 0.5, 0.0]
    faults = []
    with numpy.errstate(all="ignore"):
        for dtype in ("float16", "float32", "float64", "complex64", "complex128"):
            for expected in expected_numbers:
                for near in (expected, expected * (1 + 1e-5), expected * (1 + 1e-3), float("inf"), float("nan")):
                    scalar = numpy.dtype(dtype).type(near)
                    pairs = [(expected, scalar), (scalar, expected), ([1, (expected,)], [1, (scalar,)])]
                    right = bool(numpy.complex128(scalar) == complex(expected))
                    faults += [pair for pair in pairs if same(*map(encode, pair)) != right]
    assert faults == []


def test_a_number_of_numpys_equals_a_large_int_in_double_precision():
    numpy = pytest.importorskip("numpy")
    assert same(encode(2**60 + 1), encode(numpy.float64(2**60)))
    assert same(encode(float(2**60)), encode(numpy.int64(2**60 + 1)))
    assert not same(encode(2**60 + 1), encode(float(2**60)))
    assert not same(encode(2**60 + 1), encode(numpy.int64(2**60)))
    assert not same(encode(10**400), encode(numpy.float64("inf")))
    assert not same(encode({2**60 + 1}), encode({numpy.float64(2**60)}))


def test_members_are_those_that_python_iterates_over():
    assert list(members(encode([1.0, "a,]", (2,)]))) == ["i1", 's"a,]"', "(i2)"]
    assert list(members(encode({2, 1}))) == ["i1", "i2"]
    assert list(members(encode({1: [2], "x": {}}))) == ["i1", 's"x"']
    assert list(members(encode(()))) == list(members(encode(""))) == list(members(encode(b""))) == []
    assert list(members(encode("ab"))) == ['s"a"', 's"b"']
    assert list(members(encode(b"ab"))) == ["i61", "i62"]
    for text in ("N", "i1", "f1.5", "X"):
        with pytest.raises(TypeError):
            list(members(text))
    with pytest.raises(Malformed):
        list(members("[i1,(i2,i3,i4)]", 5))


def iterated(text):
    return list(members(text))


READERS = [loose, number, lambda text: numbers(text, 99), text_of]


def refused(read, text, *errors):
    try:
        read(text)
    except errors:
        return True
    return False


def test_what_is_no_canonical_text_is_malformed():
    accepted = [text[:40] for text in BROKEN if not all(refused(read, text, Malformed) for read in READERS)]
    accepted += [text[:40] for text in BROKEN if not refused(iterated, text, Malformed, TypeError)]
    accepted += [text[:40] for text in BROKEN if same("[i1,i2]", text)]
    assert accepted == []


@given(st.text('[](){}<>,:;"\\NTFifscbqdnMX0123456789abe.-+/u_ \n', max_size=40))
@settings(max_examples=300)
def test_any_text_is_read_or_malformed(text):
    for read in (*READERS, iterated, lambda text: same('[i1,(f0.5,{s"a":<i2>})]', text)):
        with contextlib.suppress(Malformed, TypeError):
            read(text)
