"""Values as canonical text, and its digest."""

import hashlib

import pytest
from corpora.canonical_texts import DIFFERENT, EQUAL, TEXTS, UNEQUAL
from hypothesis import given, settings
from support.canonical_values import VALUES

from harness_tasks.sandbox import digest, encode, loose
from harness_tasks.sandbox.canonical import DEPTH, TooLong


def encode_loosely(value):
    return loose(encode(value))


def test_canonical_text_is_as_described():
    assert [(encode(value), text) for value, text in TEXTS if encode(value) != text] == []


def test_values_are_equal_if_their_loose_texts_are():
    assert [pair for pair in EQUAL if pair[0] != pair[1] or len({*map(encode_loosely, pair)}) != 1] == []
    assert [pair for pair in DIFFERENT if encode_loosely(pair[0]) == encode_loosely(pair[1])] == []


def test_what_equals_nothing_has_another_loose_text_and_digest_each_time():
    assert [value for value in UNEQUAL if encode_loosely(value) == encode_loosely(value)] == []
    assert [value for value in UNEQUAL if digest(value) == digest(value)] == []


@given(VALUES)
@settings(max_examples=60)
def test_a_digest_is_the_hash_of_the_loose_text(value):
    text = loose(encode(value))
    assert text == loose(text)
    assert digest(value) == "h" + hashlib.sha256(text.encode()).hexdigest()


def test_numpys_numbers_keep_their_type_and_equal_plain_ones():
    numpy = pytest.importorskip("numpy")
    assert encode(numpy.int64(5)) == "nint64:i5;"
    pairs = [
        (numpy.int8(1), True),
        (numpy.float64(2), 2),
        (numpy.complex64(1j), 1j),
        (numpy.str_("a"), "a"),
        (numpy.bytes_(b"a"), b"a"),
        (numpy.uint64(2**64 - 1), 2**64 - 1),
        (numpy.float16("-inf"), -float("inf")),
    ]
    assert [pair for pair in pairs if encode_loosely(pair[0]) != encode_loosely(pair[1])] == []


def test_what_numpy_has_beside_numbers_equals_nothing():
    numpy = pytest.importorskip("numpy")
    structured = numpy.zeros(1, [("a", int)])[0]
    others = [
        *(numpy.array([1]), numpy.array(1), numpy.array([], float), numpy.ma.masked, numpy.ma.array([1])),
        *(numpy.datetime64(5, "ns"), numpy.timedelta64(5, "ns"), numpy.longdouble(5), numpy.clongdouble(5)),
        *(numpy.void(b"x"), structured, numpy.array([object()])),
    ]
    assert [encode(other) for other in others] == ["X"] * len(others)


def test_a_value_that_is_nested_too_deeply_is_unlike_everything():
    value = []
    for _ in range(DEPTH - 1):
        value = [value]
    assert loose(encode(value)) == encode(value)
    assert loose("[" * DEPTH + "i1" + "]" * DEPTH)
    assert encode([value]) == "X"
    value.append(value)
    assert encode(value) == "X"


def test_long_text_is_refused_before_it_is_made():
    folded = [0]
    for _ in range(90):
        folded = [folded, folded]  # 2 ** 90 elements
    for value in (folded, "x" * 2000, [None] * 2000, {"x" * 2000}, ["x" * 300] * 8):
        with pytest.raises(TooLong):
            encode(value, 1000)
    assert len(encode("x" * 996, 1000)) == 999
    with pytest.raises(TooLong):
        encode("x" * 997, 1000)


def test_a_long_list_or_tuple_has_the_digest_of_its_whole_text():
    for value in ([*range(2500)], tuple(range(1000)), [], ()):
        assert digest(value) == "h" + hashlib.sha256(encode_loosely(value).encode()).hexdigest()
