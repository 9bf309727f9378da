"""The sandbox: canonical text, what becomes of programs, limits, losses, tiers, interpreters, system calls."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter, OrderedDict, namedtuple
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pluggy
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.environments import pythons
from support.paths import ROOT
from support.processes import alive, descendants, printed_by, run_to_end, wait_until_ended

from harness import HarnessError
from harness_tasks import sandbox as package
from harness_tasks.sandbox import (
    Malformed,
    Sandbox,
    Suite,
    bounds,
    canaries,
    canonical_reader,
    digest,
    encode,
    find_tier,
    loose,
    members,
    same,
    shared_sandbox,
    syscalls,
    tiers,
    worker,
)
from harness_tasks.sandbox.canonical import DEPTH, TooLong, encode_loosely
from harness_tasks.sandbox.transcript import Transcript, WorkerLost

SQUARE = "def square(x): return x * x"
SQUARES = Suite("squares", "square", [[3], [4]], [1.0, 1.0])
NINE_SIXTEEN = ["i9", "i10"]


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(2, unsafe_exec=True) as made:
        yield made


@pytest.fixture(scope="module", params=tiers.TIERS)
def each_tier(request):
    """A sandbox with one worker, in each tier that this machine has."""
    try:
        made = Sandbox(1, tier=request.param, unsafe_exec=True)
    except HarnessError as refusal:
        pytest.skip(str(refusal))
    with made:
        yield made


@pytest.fixture
def fresh_tiers():
    """What was found out about tiers is forgotten, before and after."""
    tiers._problem.cache_clear()
    yield
    tiers._problem.cache_clear()


def sabotage(monkeypatch, module, old, new):
    """Workers started from now on have a changed source."""
    sources = dict(worker._sources())
    assert sources[module].count(old) == 1
    sources[module] = sources[module].replace(old, new)
    monkeypatch.setattr(worker, "_sources", lambda: list(sources.items()))
    tiers._problem.cache_clear()


def results(sandbox, program, *inputs, entry_point="solve", **bounds):
    """The run of a program on inputs of one argument each."""
    bounds = {"cpu_limits_s": [2.0] * len(inputs), **bounds}
    return sandbox.run_all(Suite("test", entry_point, [[value] for value in inputs], **bounds), [program])[0]


# Canonical text

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(max_size=8)
    | st.complex_numbers(allow_nan=False)
    | st.fractions()
    | st.decimals(allow_nan=False)
    | st.sampled_from([0, 1, 1.0, True, -0.0, 2**70, 2.0**70, 0.1, Fraction(1, 10), Decimal("0.10"), Decimal("1e70")])
)
HASHABLE = st.recursive(SCALARS, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3), max_leaves=4)
VALUES = st.recursive(
    HASHABLE | st.sets(HASHABLE, max_size=3),
    lambda inner: (
        st.lists(inner, max_size=12)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(HASHABLE, inner, max_size=3)
    ),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "N"),
        ([True, False], "[T,F]"),
        (-31, "i-1f"),
        ([1.5, float("inf"), float("nan"), -0.0], "[f1.5,finf,fnan,f-0.0]"),
        (1 - 2.5j, "c1.0;-2.5"),
        ('a"b\n\u20ac', r's"a\"b\n\u20ac"'),
        (b"\x00\xff", "b00ff;"),
        (([],), "([])"),
        ({3, 1}, "<i1,i3>"),
        (frozenset(), "<>"),
        ({"b": 1, "a": [2]}, '{s"a":[i2],s"b":i1}'),
        (Fraction(-3, 16), "q-3/10"),
        (Decimal("1.50"), 'd"1.50"'),
        (re.match("a", "a"), "M"),
        (object(), "X"),
        ((lambda: 0, range(3)), "(X,X)"),
        (OrderedDict(a=1), '{s"a":i1}'),
        (Counter("a").keys(), '<s"a">'),
        (namedtuple("P", "x")(2), "(i2)"),
        (["ab"] * 8, "[" + ",".join(['s"ab"'] * 8) + "]"),
    ],
)
def test_canonical_text_is_as_described(value, text):
    assert encode(value) == text


@given(VALUES, VALUES)
@settings(max_examples=150)
def test_loose_texts_are_equal_where_values_are(one, other):
    assert (loose(encode(one)) == loose(encode(other))) == (one == other) == same(encode(one), encode(other))


@given(VALUES)
@example([[frozenset({None})]])  # mostly brackets
@settings(max_examples=150)
def test_a_value_is_the_same_as_its_like_and_read_no_further_than_it_is_long(value):
    text = loose(encode(value))
    assert same(encode(value), encode(value))
    assert loose(encode(value), len(text)) == text
    with pytest.raises(Malformed):
        loose(encode([value] * 4), len(text))


@given(VALUES)
@settings(max_examples=150)
def test_loose_text_is_the_same_by_either_way_and_a_digest_is_its_hash(value):
    import hashlib

    text = loose(encode(value))
    assert encode_loosely(value) == text
    assert loose(text) == text
    assert digest(value) == "h" + hashlib.sha256(text.encode()).hexdigest()


NUMBERS = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.complex_numbers()
ARRAYS = st.recursive(
    NUMBERS | st.none() | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple),
    max_leaves=8,
)


@given(ARRAYS)
@settings(max_examples=300)
def test_numbers_are_read_as_numpy_reads_them(value):
    numpy = pytest.importorskip("numpy")
    try:
        array = numpy.array(value)
    except ValueError:  # lists of different lengths
        array = None
    if array is None or array.dtype.kind not in "biufc":
        with pytest.raises(Malformed):
            canonical_reader.numbers(encode(value), 100)
        return
    shape, values = canonical_reader.numbers(encode(value), 100)
    assert shape == array.shape
    assert numpy.array_equal(numpy.array(values, array.dtype).reshape(shape), array, equal_nan=True)


def test_no_more_numbers_are_read_than_are_wanted():
    assert canonical_reader.numbers("[i1,i2]", 2) == ((2,), [1, 2])
    for text in ("[i1,i2,i3]", "[[],[],[]]", "[[i1,i2],[i3,i4]]", f"[i{2**64:x}]", "[i1,N]", "[[i1],i2]", '[s"a"]'):
        with pytest.raises(Malformed):
            canonical_reader.numbers(text, 2)
    assert canonical_reader.number(f"i{2**64:x}") == 2**64
    for text in ("[i1]", "N", 's"1"', "i1i1", "q1/3", "X"):
        with pytest.raises(Malformed):
            canonical_reader.number(text)


@pytest.mark.parametrize(
    "value", [float("nan"), re.match("", ""), object(), [float("nan")], complex("nan"), Decimal("nan")]
)
def test_what_equals_nothing_is_never_equal_to_itself(value):
    assert loose(encode(value)) != loose(encode(value))
    assert digest(value) != digest(value)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (complex(-0.0, 2), complex(0.0, 2)),
        (complex(0.0, -0.0), 0),
        (Decimal("0.50"), 0.5),
        (Fraction(1, 2), 0.5),
        (Fraction(1, 10), Decimal("1e-1")),
        (Decimal("1e400"), 10**400),
        (Decimal("1e1000"), Decimal("10e999")),
        (2.0**70, 2**70),
        ({1: True}, {True: 1.0}),
        (OrderedDict(a=1, b=2), {"b": 2, "a": 1}),
        ([bytearray(b"a")], [b"a"]),
        ({1, 2}, frozenset({2.0, 1})),
        ({}.keys(), set()),
    ],
)
def test_equal_values_have_equal_loose_text(one, other):
    assert one == other
    assert loose(encode(one)) == loose(encode(other)) == encode_loosely(one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([1], (1,)),
        (Fraction(1, 3), 1 / 3),
        (Fraction(2**70 + 1, 2**70), 1),
        (Decimal("1e1000"), Decimal("-1e1000")),
        (1j, -1j),
        ({1: 2}, {(1, 2)}),
        ("1", 1),
        ("a", b"a"),
        (2**53 + 1, float(2**53)),
        (0.1, Fraction("0.1")),
        (Decimal("0.1"), 0.1),
        (None, False),
        ({1: 2}, {1: 3}),
        ("\ud83d\ude00", "\U0001f600"),
        (["a\\u0000b"] * 8, ["a\0b"] * 8),
        (["a"] * 7 + [True], ["a"] * 8),
    ],
)
def test_different_values_have_different_loose_text(one, other):
    assert loose(encode(one)) != loose(encode(other))


def test_numpy_scalars_equal_plain_numbers_and_keep_their_type():
    numpy = pytest.importorskip("numpy")
    assert encode(numpy.int64(5)) == "nint64:i5;"
    assert [canonical_reader.number(encode(scalar)) for scalar in (numpy.float32(0.5), numpy.bool_(True))] == [
        0.5,
        True,
    ]
    for scalar, plain in (
        (numpy.int8(1), True),
        (numpy.float64(2), 2),
        (numpy.complex64(1j), 1j),
        (numpy.str_("a"), "a"),
        (numpy.uint64(2**64 - 1), 2**64 - 1),
        (numpy.float16("-inf"), -float("inf")),
    ):
        assert loose(encode(scalar)) == loose(encode(plain))
        assert same(encode([plain]), encode([scalar]))
        assert same(encode([scalar]), encode([plain]))


def test_what_numpy_has_beside_numbers_equals_nothing():
    numpy = pytest.importorskip("numpy")
    structured = numpy.zeros(1, [("a", int)])[0]
    for odd in (
        *(numpy.array([1]), numpy.array(1), numpy.array([], float), numpy.ma.masked, numpy.ma.array([1])),
        *(numpy.datetime64(5, "ns"), numpy.timedelta64(5, "ns"), numpy.longdouble(5), numpy.clongdouble(5)),
        *(numpy.void(b"x"), structured, numpy.array([object()])),
    ):
        assert encode(odd) == "X"


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("expected", [2 * 3.14159 * 10, 62.83, 0.1, 100000, 2**24 + 1, 1e-8, -1e300, 1e5 + 0.5, 0.0])
def test_an_expected_number_is_not_rounded_to_the_precision_of_the_result(dtype, expected):
    numpy = pytest.importorskip("numpy")
    with numpy.errstate(all="ignore"):
        for near in (expected, expected * (1 + 1e-5), expected * (1 + 1e-3), float("inf"), float("nan")):
            scalar = numpy.dtype(dtype).type(near)
            right = bool(numpy.complex128(scalar) == complex(expected))
            for made in (
                same(encode(expected), encode(scalar)),
                same(encode([1, (expected,)]), encode([1, (scalar,)])),
            ):
                assert made == right
            assert same(encode(scalar), encode(expected)) == right


def test_a_number_of_numpys_equals_a_large_int_in_double_precision():
    numpy = pytest.importorskip("numpy")
    assert same(encode([2**60 + 1]), encode([numpy.float64(2**60)]))
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


BROKEN = [
    *("", "[", "]", "[i1", "[i1,]", "[,i1]", "(i1]", "{i1}", "{i1:}", "{i1:i2,}", "{i1,i2}", "<i1:i2>", "[i1][i2]"),
    *("nbytes:i3b9aca00;", "nint64:f0.5;", "nfloat64:i1;", "nobject:i1;", "nstr:i1;", "nint64:i" + "f" * 17 + ";"),
    *("i", "iz", "i1 ", " i1", "i1i1", "f", "f1e", "f1..2", "f1_0", "c1.0", "c1;", "b0;", "b00", "q1", "q1/", 'd"x"'),
    *('s"', r's"\x"', 's"a\nb"', "nint64:i5", "nint64:s;", "E", "EValueError", "h00", "Y", "\0", "\u0661", "i\u0661"),
    *("[" * 10**6, "[" * 200 + "]" * 200),
]  # fmt: skip


READERS = [loose, canonical_reader.number, lambda text: canonical_reader.numbers(text, 99), canonical_reader.text_of]


@pytest.mark.parametrize("text", BROKEN, ids=lambda text: ascii(text[:20]))
def test_what_is_no_canonical_text_is_malformed(text):
    for read in READERS:
        with pytest.raises(Malformed):
            read(text)
    with pytest.raises((Malformed, TypeError)):
        list(members(text))


@given(st.text('[](){}<>,:;"\\NTFifscbqdnMX0123456789abe.-+/u_ \n', max_size=40))
@settings(max_examples=1000)
def test_any_text_is_read_or_malformed(text):
    for read in (*READERS, lambda text: list(members(text)), lambda text: same('[i1,(f0.5,{s"a":<i2>})]', text)):
        with contextlib.suppress(Malformed, TypeError):
            read(text)


def test_nesting_is_bounded_when_writing_and_when_reading():
    value = []
    for _ in range(DEPTH - 1):
        value = [value]
    assert loose(encode(value)) == encode(value)
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
    assert len(encode("x" * 900, 1000)) == 903


# Programs

THREADS = """
import _thread, threading
threading.stack_size(32768)
lock = _thread.allocate_lock()
lock.acquire()
while True: _thread.start_new_thread(lock.acquire, ())
"""
FLOOD = """
import os
while True:
    try: os.write(3, b"1" * 65536)
    except BlockingIOError: pass
"""


@pytest.mark.parametrize(
    ("program", "status", "detail"),
    [
        (SQUARE, "ok", ""),
        ("def square(x): return (", "syntax", "SyntaxError"),
        ("1 / 0", "raised", "ZeroDivisionError"),
        ("import os\nraise SystemExit", "raised", "SystemExit"),
        ("def cube(x): return x", "missing", "square"),
        ("def square(x):\n    while True: pass", "timeout", "SIGPROF"),
        ("while True: pass", "timeout", "SIGPROF"),
        ("def square(x): return bytearray(1 << 40)", "memory", ""),
        ("x = bytearray(1 << 40)", "memory", "while it was defined"),
        ("def square(x): return 'x' * 10**7", "output", ""),
        ("import os\ndef square(x): os._exit(3)", "killed", "exited with 3"),
        ("import ctypes\ndef square(x): ctypes.string_at(0)", "killed", "SIGSEGV"),
        ("def square(x): return 1 / 0", "stopped", "a test raised"),
        ("import os\nos.close(3)\nwhile True: pass", "killed", "closed its output"),
        (FLOOD, "output", ""),
        (THREADS, "killed", "too many threads"),
    ],
)
def test_a_run_says_how_it_ended(sandbox, program, status, detail):
    suite = Suite("squares", "square", [[3], [4]], [0.2, 0.2])
    run = sandbox.run_all(suite, [program])[0]
    assert (run.status, run.detail) == (status, detail)
    assert run.results == {"ok": NINE_SIXTEEN, "stopped": ["EZeroDivisionError"]}.get(status, [])
    assert len(run.cpu_s) == len(run.results)


def test_a_program_that_waits_is_stalled(sandbox):
    started = time.monotonic()
    assert results(sandbox, "import time\ndef solve(x): time.sleep(100)", 1, cpu_limits_s=[0.1]).status == "stalled"
    assert 4 < time.monotonic() - started < 15


def test_limits_are_on_cpu_time_not_on_the_wall_clock(sandbox):
    program = "import time\ndef solve(x):\n    time.sleep(0.5)\n    return x"
    assert results(sandbox, program, 1, cpu_limits_s=[0.1]).results == ["i1"]


BUSY = """
import time
def solve(x):
    end = time.thread_time() + x
    while time.thread_time() < end: pass
    return x
"""


def test_each_test_has_the_whole_of_its_own_limit(sandbox):
    run = results(sandbox, BUSY, *[0.3] * 4, cpu_limits_s=[0.6] * 4)
    assert run.status == "ok"
    assert all(0.25 < cpu_s < 0.6 for cpu_s in run.cpu_s)


def test_a_test_has_no_more_than_its_own_limit(sandbox):
    run = results(sandbox, BUSY, 0.01, 1.5, cpu_limits_s=[5.0, 0.2])
    assert (run.status, run.results) == ("timeout", [encode(0.01)])


DISARMS = """
import os, sys, time
def solve(x):
    ours = sys._getframe(1).f_globals
    ours["confinement"].arm(0, 0)
    ours["_arm"] = ours["confinement"].arm = lambda *rest: None
    spend(x)
    for line in range(FORGED): os.write(3, b"1 i1\\n")
    spend(x if x < 1 else 60)
    return x
def spend(cpu_s):
    end = time.process_time() + cpu_s
    while time.process_time() < end: pass
"""


@pytest.mark.parametrize("tier", tiers.TIERS)
def test_a_test_whose_timers_the_program_disarms_is_ended_from_outside(monkeypatch, fresh_tiers, tier):
    """Not by the limit on all tests, which is 30 CPU-seconds here and would say SIGXCPU."""
    sabotage(monkeypatch, "bounds", "ENCODE_CPU_S = 10.0", "ENCODE_CPU_S = 0.5")
    try:
        made = Sandbox(1, tier=tier, unsafe_exec=True)
    except HarnessError as refusal:
        pytest.skip(str(refusal))
    program = "FORGED = 0\n" + DISARMS
    with made as sandbox:
        run = results(sandbox, program, 0.01, 1, cpu_limits_s=[0.3, 0.3], total_cpu_s=30.0)
        assert (run.status, run.detail, run.results) == ("timeout", "its timers disarmed", ["f0.01"])
        forged = results(sandbox, program.replace("= 0", "= 2"), 1, 0, 0, cpu_limits_s=[0.3] * 3, total_cpu_s=30.0)
        assert (forged.status, forged.detail) == ("timeout", "its timers disarmed")
        assert results(sandbox, program, 0.1, 0.1, 0.1, cpu_limits_s=[0.3] * 3).status == "ok"


def test_a_run_has_a_limit_over_all_its_tests(sandbox):
    run = results(sandbox, BUSY, *[0.5] * 8, total_cpu_s=1.0)
    assert run.status == "timeout"
    assert 1 <= len(run.results) <= 4


def test_results_keep_the_order_of_the_programs(sandbox):
    programs = [f"def square(x): return {n}" if n % 7 else "def square(x): return (" for n in range(60)]
    runs = sandbox.run_all(SQUARES, programs)
    assert [run.results[:1] for run in runs] == [[f"i{n:x}"] if n % 7 else [] for n in range(60)]
    assert sandbox.run_all(SQUARES, []) == []


def test_a_test_that_raises_ends_the_run_unless_told_otherwise(sandbox):
    program = "def square(x): return 1 // (x - 3)"
    assert sandbox.run_all(SQUARES, [program])[0].status == "stopped"
    run = sandbox.run_all(SQUARES, [program], stop_at_raise=False)[0]
    assert (run.status, run.results) == ("ok", ["EZeroDivisionError", "i1"])


def test_the_judge_sees_results_as_they_come_and_stops_a_program_at_once(sandbox):
    slow = "def solve(x):\n    while x > 1: pass\n    return x"
    seen = []

    def judge(program, test, text):
        seen.append((program, test, text))
        return False

    started = time.monotonic()
    suite = Suite("slow", "solve", [[1], [2]], [30.0, 30.0])
    run = sandbox.run_all(suite, [slow], judge)[0]
    assert (run.status, run.detail, seen) == ("stopped", "by the judge", [(0, 0, "i1")])
    assert time.monotonic() - started < 10
    assert sandbox.run_all(SQUARES, [SQUARE])[0].results == NINE_SIXTEEN


def test_a_judge_that_agrees_changes_nothing_and_only_the_head_of_results_is_kept(sandbox):
    run = sandbox.run_all(
        SQUARES, ["def square(x): return 'x' * 10**5"], lambda program, test, text: len(text) > 10**5
    )[0]
    assert run.status == "ok"
    assert [len(text) for text in run.results] == [200, 200]


def test_a_judge_that_fails_fails_the_call_and_spoils_nothing(sandbox):
    def judge(program, test, text):
        raise ArithmeticError("the judge's own")

    for programs in ([SQUARE], [SQUARE] * 9):
        with pytest.raises(ArithmeticError, match="the judge's own"):
            sandbox.run_all(SQUARES, programs, judge)
    assert sandbox.run_all(SQUARES, [SQUARE] * 3)[2].results == NINE_SIXTEEN


def test_a_slow_judge_is_not_the_programs_fault(monkeypatch, fresh_tiers):
    tight = "IDLE_S, WALL_PER_CPU, TEST_WALL_PER_CPU, LEAST_TEST_WALL_S, ENCODE_CPU_S = 1.0, 1.0, 0.5, 0.5, 0.5"
    sabotage(monkeypatch, "bounds", "THREADS = 256", f"THREADS = 256\n{tight}\n")
    monkeypatch.setattr(bounds, "IDLE_S", 1.0)
    monkeypatch.setattr(bounds, "WALL_PER_CPU", 0.0)
    monkeypatch.setattr(worker, "SPARE_S", 1.0)
    suite = Suite("slow judge", "solve", [[n] for n in range(4)], [0.5] * 4)
    with Sandbox(1, unsafe_exec=True) as sandbox:
        runs = sandbox.run_all(suite, ["def solve(x): return 'x' * 300_000"], lambda *result: time.sleep(1) is None)
        assert runs[0].status == "ok"
        assert results(sandbox, "import time\ndef solve(x): time.sleep(9)", 1, cpu_limits_s=[0.1]).status == "stalled"


def test_a_result_can_come_back_as_a_digest(sandbox):
    program = "import itertools\ndef solve(x): return list(itertools.combinations_with_replacement('abcdefgh', x))"
    suite = Suite("long", "solve", [[8], [9], [9]], [5.0] * 3, digest=[True, True, False], output_bytes=1000)
    run = sandbox.run_all(suite, [program])[0]
    import itertools

    expected = [digest(list(itertools.combinations_with_replacement("abcdefgh", n))) for n in (8, 9)]
    assert (run.status, run.results) == ("output", expected)


def test_short_results_have_digests_too(sandbox):
    values = [None, True, 2, 2.0, "x", [], (1.0, [2]), {1}]
    run = results(sandbox, "def solve(x): return x", *values, digest=[True] * len(values))
    assert run.results == [digest(value) for value in values]
    assert len(set(run.results)) == len(values) - 1


def test_a_result_is_gone_before_the_next_test(sandbox):
    program = """
        class Large:
            def __init__(self): self.bytes = bytes(150 << 20)
        def solve(x): return Large()
    """
    run = results(sandbox, textwrap.dedent(program), 1, 2, 3, memory_bytes=200 << 20)
    assert run.results == ["X"] * 3


def test_inputs_are_fresh_for_every_test_and_program(sandbox):
    shared = [1]
    suite = Suite("shared", "solve", [[shared], [shared]], [1.0, 1.0])
    for run in sandbox.run_all(suite, ["def solve(x):\n    x.append(2)\n    return x"] * 3):
        assert run.results == ["[i1,i2]", "[i1,i2]"]


def test_programs_live_in_a_module_of_their_own(sandbox):
    program = """
        import dataclasses, pickle, sys, typing
        @dataclasses.dataclass
        class Point:
            x: int
            y: "typing.Optional[Point]" = None
        def solve(x):
            assert __name__ != "__main__" and sys.modules[__name__].Point is Point
            assert typing.get_type_hints(Point)["y"] == typing.Optional[Point]
            back = pickle.loads(pickle.dumps(Point(x)))
            print("to nowhere", back, file=sys.stderr)
            print("\\ud800", flush=True)
            return dataclasses.astuple(back)
    """
    assert results(sandbox, textwrap.dedent(program), 5).results == ["(i5,N)"]


def test_a_program_has_nothing_of_ours(each_tier):
    program = """
        import builtins, fcntl, os, sys, __main__
        def is_open(fd):
            try: return fcntl.fcntl(fd, fcntl.F_GETFD) >= 0
            except OSError: return False
        def solve(x):
            builtins.len = lambda value: x
            ours = [name for name in [*sys.modules, *vars(__main__)] if "sandbox" in name or name == "sources"]
            open_ones, environment = [fd for fd in range(256) if is_open(fd)], os.environ.keys() - {"LC_CTYPE", "PWD"}
            return open_ones, len([]), ours, environment, os.getcwd()
    """
    (text,) = results(each_tier, textwrap.dedent(program), 7).results
    assert text == encode(([0, 1, 2, 3], 7, [], set(tiers.ENVIRONMENT), "/"))


SCRAPER = """
import ctypes
MARK = b"-".join([b"left", b"behind"])
def memory():
    with open("/proc/self/maps") as maps:
        for line in maps:
            span, rights, *_ = line.split()
            low, high = (int(end, 16) for end in span.split("-"))
            if rights.startswith("rw"):
                yield ctypes.string_at(low, high - low)
def square(x): return sum(piece.count(MARK + b" ") for piece in memory())
"""


def test_neither_source_nor_results_of_a_program_stay_in_memory_for_the_next(each_tier):
    if each_tier.tier == "landlock":
        pytest.skip("programs cannot look at their own memory map in this tier")
    marks = "left-behind " * 500
    program = f"def square(x): return {marks!r}"
    for _ in range(3):
        told, scraped = each_tier.run_all(SQUARES, [program, SCRAPER])
        assert told.results == [encode(marks)] * 2
        assert (scraped.status, scraped.results) == ("ok", ["i0", "i0"])
    seen = each_tier.run_all(SQUARES, [SCRAPER + f"kept = {marks!r}.encode()"])[0]  # it does find what is there
    assert int(seen.results[0][1:], 16) >= 500


def test_the_kernel_kills_programs_first_when_memory_runs_out(each_tier):
    program = "def solve(x): return open('/proc/self/oom_score_adj').read()"
    run = results(each_tier, program, 1)
    if run.results == ["EPermissionError"]:
        pytest.skip("this tier cannot read it")
    assert run.results == [encode("1000\n")]


def test_standard_input_raises(sandbox):
    assert results(sandbox, "def solve(x): return input()", 1).results == ["EOSError"]
    assert results(sandbox, "import sys\ndef solve(x): return sys.stdin.read()", 1).results == ["EOSError"]


def test_the_same_program_gives_the_same_results(sandbox):
    program = "import random\ndef solve(x): return [random.random(), hash('x'), list({'a', 'b', 'c', 'd'})]"
    runs = sandbox.run_all(Suite("chance", "solve", [[1]], [1.0]), [program] * 6)
    assert len({run.results[0] for run in runs}) == 1


def test_threads_and_generators_of_honest_programs_work(sandbox):
    program = """
        from concurrent.futures import ThreadPoolExecutor
        from functools import lru_cache
        @lru_cache(None)
        def fibonacci(n): return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)
        def solve(x):
            with ThreadPoolExecutor(4) as pool:
                return list(pool.map(fibonacci, range(x)))
    """
    assert results(sandbox, textwrap.dedent(program), 9).results == [encode([0, 1, 1, 2, 3, 5, 8, 13, 21])]


def test_memory_is_counted_from_the_bare_interpreter(sandbox):
    program = "def solve(x): return len(bytearray(x << 20))"
    for extra in ("", "import numpy\n"):
        run = results(sandbox, extra + program, 200, memory_bytes=256 << 20)
        assert run.status == "ok", run
        assert results(sandbox, extra + program, 300, memory_bytes=256 << 20).status == "memory"


def test_numpy_is_there_for_those_who_import_it(sandbox):
    pytest.importorskip("numpy")
    program = """
from numpy import linalg
import numpy as np
def solve(x): return linalg.det(np.eye(x)), np.arange(x).sum(), np.random.rand()
"""
    run = results(sandbox, program, 3)
    assert run.results[0].startswith("(nfloat64:f1.0;,nint64:i3;,")
    assert results(sandbox, program, 3).results == run.results


def test_without_numpy_programs_that_import_it_just_fail(each_tier, monkeypatch, tmp_path):
    other = tmp_path / "python"  # an interpreter of its own: no site-packages, no numpy
    base = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    other.write_text(f'#!/bin/sh\nexec {base} -S "$@"\n')
    other.chmod(0o755)
    monkeypatch.setenv("HARNESS_SANDBOX_PYTHON", str(other))
    with Sandbox(1, tier=each_tier.tier, unsafe_exec=True) as sandbox:
        assert sandbox.run_all(SQUARES, ["import numpy\n" + SQUARE])[0].detail == "ModuleNotFoundError"


def test_normal_forms_forget_spelling_and_keep_what_a_program_can_see(sandbox):
    def form(program):
        return sandbox.normalised([program])[0]

    assert form("def f( x ):\n  'doc'\n  return(x) # c") == form('def f(x):\n    """other"""\n\n    return x')
    assert form("class A:\n 'doc'") == "class A:\n    pass"
    assert form("def f(): 'doc'\nprint(f.__doc__)") != form("def f(): 'other'\nprint(f.__doc__)")
    assert form("x = 1") != form("x = 2")
    assert form("x = (") is None
    assert form("x = 0x" + "f" * 5000) == "x = 0x" + "f" * 5000
    assert sandbox.normalised([]) == []


def test_a_program_that_kills_the_parser_costs_only_itself(sandbox):
    heavy = "x = " + " + ".join(["[" + "1," * 20_000 + "]"] * 60)  # takes longer than its limit, or much memory
    forms = sandbox.normalised(["x=1", "(" * 10**5, "x=2", "-" * 10**6 + "1", heavy, "x=3"])
    assert (forms[0], forms[1], forms[2], forms[3], forms[5]) == ("x = 1", None, "x = 2", None, "x = 3")


# Suites


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"cpu_limits_s": [1.0]}, "2 inputs but 1 cpu_limits_s"),
        ({"digest": [True]}, "2 inputs but 1 digest"),
        ({"cpu_limits_s": [1.0, 0]}, "CPU limits must be > 0"),
        ({"memory_bytes": 0}, "memory_bytes must be > 0, got 0"),
    ],
)
def test_a_suite_that_makes_no_sense_is_refused(arguments, message):
    with pytest.raises(HarnessError, match=message):
        Suite(**{"key": "odd", "entry_point": "f", "inputs": [[1], [2]], "cpu_limits_s": [1.0, 1.0], **arguments})


def test_inputs_that_cannot_travel_are_refused(sandbox):
    with pytest.raises(HarnessError, match="plain Python data"):
        sandbox.run_all(Suite("odd", "f", [[lambda: 0]], [1.0]), [SQUARE])
    with pytest.raises(HarnessError, match="do not load inside"):
        sandbox.run_all(Suite("odd", "f", [[Path()], [Malformed()]], [1.0, 1.0]), [SQUARE])
    assert sandbox.run_all(SQUARES, [SQUARE])[0].results == NINE_SIXTEEN


@pytest.mark.parametrize("count", [1, 7, 8, 9, 20])
def test_more_suites_than_a_worker_remembers_all_work(count):
    suites = [Suite("same key", "solve", [[n]], [1.0]) for n in range(count)]
    with Sandbox(1, unsafe_exec=True) as sandbox:
        sandbox.run_all(SQUARES, [SQUARE])
        (worker,) = sandbox._idle["plain"]
        for suite in suites + suites[::-1] + suites:
            assert sandbox.run_all(suite, ["def solve(x): return x"])[0].results == [encode(suite.inputs[0][0])]
        assert sandbox._idle["plain"] == [worker]


# Losses


def strike(sandbox, number):
    """Send a signal to the processes of a sandbox's workers, all stopped: none may report that another was killed."""
    running = [*sandbox._busy, *(worker for idle in sandbox._idle.values() for worker in idle)]
    pids = {pid for worker in running for pid in (worker._process.pid, *descendants(worker._process.pid))}
    for sent in (signal.SIGSTOP, number):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, sent)
    return True


def test_a_lost_worker_is_replaced_and_its_program_run_again(each_tier):
    lost = []

    def judge(program, test, text):
        if not lost:
            lost.append(text)
            strike(each_tier, signal.SIGKILL)
        return True

    slow = "import time\ndef square(x):\n    time.sleep(0.3)\n    return x * x"
    assert each_tier.run_all(SQUARES, [slow], judge)[0].results == NINE_SIXTEEN
    assert lost


def test_idle_workers_that_died_are_no_error():
    with Sandbox(2, unsafe_exec=True) as sandbox:
        sandbox.run_all(SQUARES, ["import time\ntime.sleep(0.2)\n" + SQUARE] * 2)
        assert len(sandbox._idle["plain"]) == 2
        strike(sandbox, signal.SIGKILL)
        assert [run.results for run in sandbox.run_all(SQUARES, [SQUARE] * 5)] == [NINE_SIXTEEN] * 5


def test_a_worker_lost_twice_is_our_error(each_tier):
    slow = "import time\ndef square(x):\n    time.sleep(0.3)\n    return x * x"
    run = each_tier.run_all(SQUARES, [slow], lambda *result: strike(each_tier, signal.SIGKILL))[0]
    assert (run.status, run.results) == ("error", [])
    assert "lost its worker twice" in run.detail
    assert each_tier.run_all(SQUARES, [SQUARE])[0].results == NINE_SIXTEEN


def test_a_worker_that_hangs_is_given_up(monkeypatch):
    monkeypatch.setattr(worker, "SPARE_S", 1.0)
    monkeypatch.setattr(bounds, "IDLE_S", 1.0)

    suite = Suite("squares", "square", [[3], [4]], [0.2, 0.2], total_cpu_s=0.2)
    slow = "import time\ndef square(x):\n    time.sleep(0.2)\n    return x * x"
    with Sandbox(1, unsafe_exec=True) as sandbox:
        family = set()

        def freeze(*result):
            family.update(descendants())
            return strike(sandbox, signal.SIGSTOP)

        before = set(descendants())
        assert sandbox.run_all(suite, [slow], freeze)[0].status == "error"
        assert sandbox.run_all(SQUARES, [SQUARE])[0].results == NINE_SIXTEEN
        assert family - before
        wait_until_ended(family - before, 10)


def test_a_program_dies_with_its_fork_server(each_tier):
    family = []

    def judge(program, test, text):
        (worker,) = each_tier._busy
        chain = [worker._process.pid, *descendants(worker._process.pid)]
        if not family:
            family.extend(chain)
            os.kill(chain[-2], signal.SIGKILL)  # the fork server; the program is the last
            return True
        return False  # when it is run again

    slow = "import time\ndef square(x):\n    time.sleep(4.5 if x == 4 else 0)\n    return x * x"
    assert each_tier.run_all(SQUARES, [slow], judge)[0].status == "stopped"
    wait_until_ended(family, 2)


def test_nothing_outlives_a_closed_sandbox():
    before = set(descendants())
    with Sandbox(2, unsafe_exec=True) as sandbox:
        sandbox.run_all(SQUARES, [SQUARE] * 4 + ["import numpy\n" + SQUARE])
        assert set(descendants()) > before
    wait_until_ended(set(descendants()) - before, 10)
    with pytest.raises(HarnessError, match="closed"):
        sandbox.run_all(SQUARES, [SQUARE])


def test_closing_ends_calls_under_way():
    sandbox = Sandbox(2, unsafe_exec=True)
    busy = "def square(x):\n    while True: pass"
    suite = Suite("busy", "square", [[1]], [60.0])
    threading.Timer(0.5, sandbox.close).start()
    started = time.monotonic()
    with pytest.raises(HarnessError, match="closed"):
        sandbox.run_all(suite, [busy] * 2)
    assert time.monotonic() - started < 20


HARNESS = """
import os, sys, threading
from harness_tasks.sandbox import Sandbox, Suite
sandbox = Sandbox(2, tier=sys.argv[1], unsafe_exec=True)
busy = "import time\\ndef f(x):\\n    while x: pass\\n    return 1"
suite = Suite("busy", "f", [[0], [1]], [60.0, 60.0])
def judge(program, test, text):
    os.write(1, b"running\\n")  # whole, also from two threads
    return True
def work(): sandbox.run_all(suite, [busy] * 2, judge)
if sys.argv[2] == "thread":
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
elif sys.argv[2] == "main":
    work()
else:
    sandbox.run_all(Suite("quick", "f", [[0]], [1.0]), [busy] * 2, judge)
    sys.stdin.read()
"""


@pytest.mark.parametrize("where", ["main", "thread", "idle"])
def test_a_killed_harness_leaves_nothing_running(each_tier, where):
    command = [sys.executable, "-c", HARNESS, each_tier.tier, where]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as harness:
        assert harness.stdout.readline() == b"running\n"
        family = set(descendants(harness.pid))
        assert len(family) >= 2
        harness.kill()
    wait_until_ended(family, 10)


def test_control_c_ends_a_run_at_once(each_tier):
    command = [sys.executable, "-c", HARNESS, each_tier.tier, "main"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as harness:
        assert harness.stdout.readline() == b"running\n"
        family = set(descendants(harness.pid))
        harness.send_signal(signal.SIGINT)
        assert harness.wait(20) != 0
    wait_until_ended(family, 10)


# Processes and threads


def in_child(_):
    shared = shared_sandbox(unsafe_exec=True)
    return shared.workers, shared.run_all(SQUARES, [SQUARE])[0].results


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_processes_of_multiprocessing_have_a_shared_sandbox_with_one_worker(method):
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map(in_child, range(3)) == [(1, NINE_SIXTEEN)] * 3


def test_the_shared_sandbox_is_one_for_the_process_and_has_every_core():
    shared = shared_sandbox(unsafe_exec=True)
    found = []
    thread = threading.Thread(target=lambda: found.append(shared_sandbox(unsafe_exec=True)))
    thread.start()
    thread.join()
    assert found == [shared]
    assert shared.workers == len(os.sched_getaffinity(0))
    assert shared.run_all(SQUARES, [SQUARE])[0].results == NINE_SIXTEEN


def test_a_sandbox_may_be_used_from_many_threads_at_once(sandbox):
    found = []

    def work(n):
        runs = sandbox.run_all(SQUARES, [f"def square(x): return {n}"] * 20)
        found.append({text for run in runs for text in run.results} == {f"i{n:x}"})

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 6


def test_a_forked_process_lets_go_of_its_parents_workers():
    script = """
        import os
        from harness import HarnessError
        from harness_tasks.sandbox import Suite, shared_sandbox
        suite = Suite("squares", "square", [[3]], [1.0])
        square = "def square(x): return x * x"
        shared = shared_sandbox(unsafe_exec=True)
        assert shared.run_all(suite, [square])[0].results == ["i9"]
        pid = os.fork()
        if pid == 0:
            assert shared_sandbox(unsafe_exec=True) is not shared
            assert shared_sandbox(unsafe_exec=True).run_all(suite, [square])[0].results == ["i9"]
            try:
                shared.run_all(suite, [square])
            except HarnessError as problem:
                assert "another process" in str(problem)
                os._exit(0)
            os._exit(1)
        assert os.waitpid(pid, 0)[1] == 0
        assert shared.run_all(suite, [square])[0].results == ["i9"]
        print("done")
    """
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)]  # 3.12 warns of forks beside threads
    done = run_to_end(command, timeout=120)
    assert (done.stdout, done.stderr) == ("done\n", "")


def test_a_forked_process_does_not_keep_workers_alive(each_tier):
    script = f"""
        import os, sys, time
        from harness_tasks.sandbox import Sandbox, Suite
        sandbox = Sandbox(1, tier={each_tier.tier!r}, unsafe_exec=True)
        sandbox.run_all(Suite("squares", "square", [[3]], [1.0]), ["def square(x): return x * x"])
        if os.fork() == 0:
            time.sleep(30)
            os._exit(0)
        print("ready", flush=True)
        time.sleep(30)
    """
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as harness:
        assert harness.stdout.readline() == b"ready\n"
        family = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in descendants(harness.pid)}
        twin = {pid for pid, line in family.items() if b"time.sleep(30)" in line}
        assert len(twin) == 1
        harness.kill()
        wait_until_ended(set(family) - twin, 10)
        assert all(map(alive, twin))
        os.kill(twin.pop(), signal.SIGKILL)


def test_limits_hold_where_their_signals_were_blocked_or_ignored_by_the_harness():
    script = """
        import signal, threading
        from harness_tasks.sandbox import Sandbox, Suite
        stops = [signal.SIGPROF, signal.SIGALRM, signal.SIGXCPU]
        for number in stops:
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, stops)
        with Sandbox(1, unsafe_exec=True) as sandbox:
            suite = Suite("busy", "f", [[1]], [0.1])
            print(sandbox.run_all(suite, ["def f(x):\\n    while True: pass"])[0].status)
    """
    done = run_to_end([sys.executable, "-c", textwrap.dedent(script)], timeout=120)
    assert (done.stdout, done.stderr) == ("timeout\n", "")


def test_the_trusted_side_loads_neither_numpy_nor_what_runs_inside():
    heavy = {"numpy", "ctypes", "harness_tasks.sandbox.inside"}
    code = f"import sys, harness_tasks.sandbox; print(sorted({heavy} & set(sys.modules)))"
    assert printed_by(code) == "[]"


# Hostile lines


def transcript(*parts, tests=2, judge=None):
    made = Transcript(tests, judge)
    for part in parts:
        made.read(part)
    return made


@pytest.mark.parametrize(
    ("written", "status"),
    [
        (b"+\n1 i1\n1 i2\n=ok \n", "ok"),
        (b"+\n1 i1\n=ok \n", "killed"),
        (b"+\n1 i1\n1 i2\n1 i3\n=ok \n", "killed"),
        (b"+\n=error \n", "killed"),
        (b"+\n=stalled \n", "killed"),
        (b"+\n=stopped a test raised\n", "killed"),
        (b"+\n1 i1\n=stopped a test raised\n", "killed"),
        (b"+\n1 EValueError\n=stopped a test raised\n", "stopped"),
        (b"+\n=memory \n1 i1\n1 i2\n=ok \n", "memory"),
        (b"+\n1 \xff\n", "killed"),
        (b"+\n-1 i1\n", "killed"),
        (b"+\n" + b"9" * 5000 + b" i1\n", "killed"),
        (b"+\n", "killed"),
    ],
)
def test_a_program_can_claim_nothing_that_it_should_not(written, status):
    for cut in range(len(written) if len(written) < 100 else 1):
        assert transcript(written[:cut], written[cut:]).run("exit", 0).status == status


def test_a_process_that_was_never_confined_is_our_fault():
    for written in (b"", b"1 i1\n1 i2\n=ok \n", b"+"):
        with pytest.raises(WorkerLost, match="could not be set up"):
            transcript(written).run("exit", 1)


@given(st.lists(st.binary(max_size=30) | st.sampled_from([b"+\n", b"1 i1\n", b"=ok \n", b"\n"]), max_size=8))
def test_any_bytes_make_a_run_or_none(parts):
    made = transcript(*parts)
    try:
        assert made.run("signal", 9).status in {
            "ok",
            "syntax",
            "raised",
            "missing",
            "memory",
            "output",
            "stopped",
            "killed",
        }
    except WorkerLost:
        assert not b"".join(parts).startswith(b"+\n")


# Tiers and interpreters


def test_the_tier_and_its_remark_are_told():
    tier, remark = find_tier(unsafe_exec=True)
    assert tier in tiers.TIERS
    assert remark.startswith("sandbox: ")
    assert "\n" not in remark


def test_a_tier_that_is_asked_for_is_used_or_refused(monkeypatch, each_tier):
    monkeypatch.setenv("HARNESS_SANDBOX_TIER", each_tier.tier)
    assert find_tier(unsafe_exec=True)[0] == each_tier.tier
    monkeypatch.setenv("HARNESS_SANDBOX_TIER", "chroot")
    with pytest.raises(HarnessError, match="unknown tier 'chroot'"):
        find_tier()
    monkeypatch.setenv("HARNESS_SANDBOX_TIER", "none")
    with pytest.raises(HarnessError, match="--unsafe-exec"):
        find_tier()


def test_without_bubblewrap_the_next_tier_is_used_and_says_why(monkeypatch, tmp_path, fresh_tiers):
    monkeypatch.setenv("PATH", str(tmp_path))
    tier, remark = find_tier(unsafe_exec=True)
    assert tier == ("none" if tiers._problem("landlock", None) else "landlock")
    assert "bubblewrap (bwrap) is not installed" in remark
    with pytest.raises(HarnessError, match="'bwrap' does not hold here: bubblewrap"):
        Sandbox(tier="bwrap")


def test_where_no_tier_holds_programs_are_refused_with_the_reasons(monkeypatch, tmp_path, fresh_tiers):
    monkeypatch.setenv("PATH", str(tmp_path))
    sabotage(monkeypatch, "confinement", "    if version < 1:", "    if version < 1000:")
    with pytest.raises(HarnessError, match=r"no bwrap: .*no landlock: .*no Landlock.*--unsafe-exec") as refusal:
        find_tier()
    assert "\n" not in str(refusal.value)
    assert find_tier(unsafe_exec=True)[1].startswith("sandbox: NONE")


def test_a_tier_whose_canary_does_harm_is_refused(monkeypatch, fresh_tiers):
    if tiers._problem("landlock", None):
        pytest.skip("no Landlock here")
    sabotage(monkeypatch, "inside", 'if self.tier == "landlock":', 'if self.tier == "nothing":')
    with pytest.raises(HarnessError, match="a test program read a file outside"):
        Sandbox(tier="landlock")


@pytest.mark.parametrize(
    ("old", "new", "harm"),
    [
        ("confinement.install(self.filter)", "pass", "opened a socket"),
        ('limits["memory_bytes"]', "(1 << 40)", "took too much memory"),
    ],
)
def test_the_canaries_notice_a_missing_wall(monkeypatch, fresh_tiers, old, new, harm):
    tier, _ = find_tier(unsafe_exec=True)
    if tier == "none":
        pytest.skip("no wall here, but the others")
    sabotage(monkeypatch, "inside", old, new)
    child = worker.Worker(tiers.command(tier, "plain"))
    try:
        assert (
            canaries.harm_done(lambda suite, program: child.run(suite, program, None, True)) == f"a test program {harm}"
        )
    finally:
        child.kill()


@pytest.mark.parametrize("harm", canaries.HARM)
def test_each_canary_would_sing(harm, tmp_path):
    """Run here, where nothing holds it, each does what it is named after."""
    secret = tmp_path / "secret"
    secret.write_text(canaries.SECRET)
    code = f"{canaries.HARM[harm]}\nimport sys\nprint(canary(sys.argv[1]), flush=True)"
    done = run_to_end([sys.executable, "-c", code, str(secret)], cwd=tmp_path)
    assert done.stdout == "True\n"
    Path("/tmp/canary").unlink(missing_ok=True)


def test_what_cannot_be_confined_does_not_run(monkeypatch, fresh_tiers, each_tier):
    sabotage(monkeypatch, "inside", "confinement.limit_resources(", "raise OSError; (")
    with pytest.raises(HarnessError, match="could not be set up"):
        Sandbox(tier=each_tier.tier, unsafe_exec=True)


def test_an_unknown_machine_is_not_confined_by_a_filter_for_another(monkeypatch, fresh_tiers):
    sabotage(monkeypatch, "confinement", "machine = os.uname().machine\n", 'machine = "vax"\n')
    for tier in ("bwrap", "landlock"):
        with pytest.raises(HarnessError, match=r"no table of system calls|not installed|has no Landlock"):
            Sandbox(tier=tier)
    with Sandbox(1, tier="none", unsafe_exec=True) as sandbox:
        assert sandbox.run_all(SQUARES, [SQUARE])[0].results == NINE_SIXTEEN


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (None, "does not run"),
        ("exit 1", "does not run"),
        ("echo '[[3, 9], \"\", [], [], null]'", "3.11 is the oldest"),
    ],
)
def test_an_interpreter_that_will_not_do_is_refused_in_one_line(monkeypatch, tmp_path, script, message):
    path = tmp_path / "python"
    if script is not None:
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
    monkeypatch.setenv("HARNESS_SANDBOX_PYTHON", str(path))
    with pytest.raises(HarnessError, match=message) as refusal:
        Sandbox(unsafe_exec=True)
    assert "\n" not in str(refusal.value)


def interpreters():
    """Other Pythons that this project supports, from PATH or pyenv."""
    for minor in (11, 12, 13):
        if minor == sys.version_info.minor:
            continue
        for path in pythons(minor):
            command = [path, "-c", "import sys; print(sys.version_info[:2])"]
            if run_to_end(command).stdout == f"(3, {minor})\n":
                yield pytest.param(path, id=f"3.{minor}")
                break
        else:
            yield pytest.param(None, id=f"3.{minor}", marks=pytest.mark.skip(f"no Python 3.{minor} here"))


@pytest.mark.parametrize("python", list(interpreters()))
def test_programs_run_with_another_python(monkeypatch, each_tier, python):
    monkeypatch.setenv("HARNESS_SANDBOX_PYTHON", python)
    with Sandbox(1, tier=each_tier.tier, unsafe_exec=True) as sandbox:
        run = results(
            sandbox, "import sys\ndef solve(x): return [*sys.version_info[:2], x, [x] * 9, {x: x}, ['a'] * 9]", 1.5
        )
        version = tuple(map(int, re.search(r"3\.(\d+)", python).group().split(".")))
        assert run.results == [encode([*version, 1.5, [1.5] * 9, {1.5: 1.5}, ["a"] * 9])]
        assert sandbox.normalised(["x  =1", "x = ("]) == ["x = 1", None]


@pytest.mark.parametrize("python", list(interpreters()))
def test_the_trusted_side_runs_on_another_python(python, tmp_path):
    (tmp_path / "harness").symlink_to(ROOT / "harness")
    (tmp_path / "harness_tasks").symlink_to(ROOT / "tasks")
    (tmp_path / "pluggy").symlink_to(Path(pluggy.__file__).parent)
    script = """
        import sys
        from harness_tasks.sandbox import Sandbox, Suite, digest, encode, loose
        with Sandbox(2, unsafe_exec=True) as sandbox:
            suite = Suite("squares", "square", [[3], [4]], [1.0, 1.0], digest=[False, True])
            run, bad = sandbox.run_all(suite, ["def square(x): return x * x", "def square(x):\\n while True: pass"])
            assert run.results == [encode(9), digest(16)] and bad.status == "timeout", (run, bad)
            assert loose("[T,f2.0]") == "[i1,i2]"
            assert sandbox.normalised(["x  =1"]) == ["x = 1"]
        print(sandbox.tier)
    """
    done = subprocess.run(
        [python, "-W", "error", "-c", textwrap.dedent(script)],
        capture_output=True, text=True, timeout=120, env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in tiers.TIERS


# System calls

DATA = "<iIQ6Q"


def verdict(program, machine, number, *arguments, architecture=None):
    """What a seccomp filter says: classic BPF, as the kernel runs it."""
    import struct

    arguments = [value & 0xFFFFFFFFFFFFFFFF for value in (*arguments, *[0] * 6)][:6]
    data = struct.pack(DATA, number, architecture or syscalls.ARCHITECTURES[machine], 0, *arguments)
    accumulator, position = 0, 0
    while True:
        code, yes, no, constant = program[position]
        position += 1
        if code == 0x20:
            accumulator = struct.unpack_from("<I", data, constant)[0]
        elif code == 0x06:
            return constant
        else:
            holds = {0x15: accumulator == constant, 0x35: accumulator >= constant, 0x45: accumulator & constant}[code]
            position += yes if holds else no


MACHINES = {"x86_64": 0, "aarch64": 1}
TIMER = 0x7F12_3456_7890
DANGEROUS = {  # numbers on x86_64 and aarch64
    "socket": (41, 198), "socketpair": (53, 199), "connect": (42, 203), "bind": (49, 200), "sendto": (44, 206),
    "sendmsg": (46, 211), "fork": (57, None), "vfork": (58, None), "execve": (59, 221), "execveat": (322, 281),
    "kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131), "rt_sigqueueinfo": (129, 138),
    "pidfd_send_signal": (424, 424), "pidfd_getfd": (438, 438), "ptrace": (101, 117), "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271), "prctl": (157, 167), "seccomp": (317, 277), "setrlimit": (160, 164),
    "open": (2, None), "creat": (85, None), "unlink": (87, None), "unlinkat": (263, 35), "rename": (82, None),
    "renameat": (264, 38), "renameat2": (316, 276), "rmdir": (84, None), "mkdir": (83, None), "mkdirat": (258, 34),
    "link": (86, None), "linkat": (265, 37), "symlink": (88, None), "symlinkat": (266, 36), "chmod": (90, None),
    "fchmod": (91, 52), "fchmodat": (268, 53), "chown": (92, None), "fchownat": (260, 54), "truncate": (76, 45),
    "ftruncate": (77, 46), "fallocate": (285, 47), "mknodat": (259, 33), "utimensat": (280, 88), "setxattr": (188, 5),
    "mount": (165, 40), "umount2": (166, 39), "chroot": (161, 51), "pivot_root": (155, 41), "unshare": (272, 97),
    "setns": (308, 268), "bpf": (321, 280), "userfaultfd": (323, 282), "perf_event_open": (298, 241),
    "io_uring_setup": (425, 425), "memfd_create": (319, 279), "keyctl": (250, 219), "add_key": (248, 217),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "init_module": (175, 105), "reboot": (169, 142),
    "setuid": (105, 146), "capset": (126, 91), "personality": (135, 92), "setsid": (112, 157), "umask": (95, 166),
    "chdir": (80, 49), "fchdir": (81, 50), "dup2": (33, None), "dup3": (292, 24), "rt_sigprocmask": (14, 135),
    "timer_create": (222, 107), "timer_settime": (223, 110), "alarm": (37, None), "shmget": (29, 194),
    "mq_open": (240, 180), "splice": (275, 76), "sendfile": (40, 71), "clone3": (435, 435), "openat2": (437, 437),
    "landlock_create_ruleset": (444, 444), "mlock": (149, 228), "sched_setscheduler": (144, 119),
    "setpriority": (141, 140), "process_madvise": (440, 440), "fsconfig": (431, 431), "sethostname": (170, 161),
}  # fmt: skip


@pytest.mark.parametrize("machine", MACHINES)
def test_the_filter_allows_what_is_on_its_list_and_nothing_else(machine):
    program = syscalls.seccomp_filter(machine, TIMER)
    column = MACHINES[machine]
    conditional = (*syscalls.CONDITIONS, "setitimer")
    free = {both[column] for name, both in syscalls.NUMBERS.items() if name not in conditional}
    named = {both[column] for both in syscalls.NUMBERS.values()}
    for number in range(600):
        said = verdict(program, machine, number)
        assert (said == syscalls.ALLOW) >= (number in free)
        if number not in named:
            assert said == (syscalls.ENOSYS if number >= 424 else syscalls.EPERM)
    for name, numbers in DANGEROUS.items():
        if numbers[column] is not None:
            expected = syscalls.ENOSYS if numbers[column] >= 424 else syscalls.EPERM
            assert verdict(program, machine, numbers[column], *[0xFFFF] * 6) == expected, name
            assert verdict(program, machine, numbers[column]) == expected, name


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("name", "arguments", "allowed"),
    [
        ("openat", (-100, 0, os.O_RDONLY | os.O_CLOEXEC), True),
        ("openat", (-100, 0, os.O_WRONLY), False),
        ("openat", (-100, 0, os.O_RDWR), False),
        ("openat", (-100, 0, os.O_CREAT), False),
        ("openat", (-100, 0, os.O_TRUNC), False),
        ("openat", (-100, 0, os.O_APPEND), False),
        ("openat", (-100, 0, 0o20000000), False),
        ("clone", (0x3D0F00,), True),  # glibc's pthread_create
        ("clone", (17,), False),
        ("clone", (0x4111,), False),  # vfork
        ("clone", (0x3D0F00 & ~0x10000,), False),
        ("fcntl", (3, 1), True),
        ("fcntl", (3, 1030, 3), True),
        ("fcntl", (3, 4, 0o20000), False),
        ("fcntl", (3, 8, 1), False),
        ("fcntl", (3, 10, 9), False),
        ("fcntl", (3, 1024), False),
        ("ioctl", (3, 0x5401), True),
        ("ioctl", (3, 0x5412), False),
        ("setitimer", (2, TIMER), True),
        ("setitimer", (2, TIMER + (1 << 32)), False),
        ("setitimer", (2, TIMER + 8), False),
        ("setitimer", (0, 0), False),
        ("rt_sigaction", (2, 1), True),
        ("rt_sigaction", (27, 1), False),
        ("rt_sigaction", (14, 1), False),
        ("rt_sigaction", (24, 1), False),
        ("prlimit64", (0, 9, 0, 1), True),
        ("prlimit64", (0, 9, 1 << 33), False),
        ("prlimit64", (0, 9, 4096), False),
    ],
)
def test_some_calls_are_allowed_with_some_arguments_only(machine, name, arguments, allowed):
    number = syscalls.NUMBERS[name][MACHINES[machine]]
    said = verdict(syscalls.seccomp_filter(machine, TIMER), machine, number, *arguments)
    assert said == (syscalls.ALLOW if allowed else syscalls.EPERM)


def test_foreign_architectures_are_killed_and_x32_refused():
    for machine in MACHINES:
        program = syscalls.seccomp_filter(machine, TIMER)
        for architecture in (0x40000003, 0x40000028, 0xC000003E, 0xC00000B7):  # i386, arm, x86_64, aarch64
            said = verdict(program, machine, 57 + 7, architecture=architecture)
            assert (said == syscalls.KILL) == (architecture != syscalls.ARCHITECTURES[machine])
    program = syscalls.seccomp_filter("x86_64", TIMER)
    assert verdict(program, "x86_64", 0x40000000 + 1) == syscalls.EPERM
    with pytest.raises(KeyError):
        syscalls.seccomp_filter("vax", TIMER)


HEADERS = {"x86_64": "*/asm/unistd_64.h", "aarch64": "asm-generic/unistd.h"}


@pytest.mark.parametrize("machine", MACHINES)
def test_the_numbers_are_those_of_the_kernels_header(machine):
    header = next(Path("/usr/include").glob(HEADERS[machine]), None)
    if header is None:
        pytest.skip(f"no kernel header /usr/include/{HEADERS[machine]} here")
    text = re.sub(r"__NR3264_", "__NR_", header.read_text())
    numbers = {name: int(number) for name, number in re.findall(r"#define __NR_(\w+)\s+(\d+)", text)}
    names = {"newfstatat": "fstatat"} if machine == "aarch64" else {}
    column = MACHINES[machine]
    assert "openat" in numbers
    for name, both in {**syscalls.NUMBERS, **DANGEROUS}.items():
        known = numbers.get(names.get(name, name), numbers.get(name))
        if known is not None or both[column] is None:
            assert both[column] == known, name
        else:
            assert both[column] > 420, name  # newer than the header


# House


def test_the_package_names_what_it_offers():
    assert sorted(package.__all__) == package.__all__ == [name for name in package.__all__ if hasattr(package, name)]


def test_every_module_that_is_sent_inside_imports_the_standard_library_only():
    for name, source in worker._sources():
        found = set(re.findall(r"^\s*(?:from|import) ([a-z_0-9.]+)", source, re.M)) - {"."}
        roots = {module.partition(".")[0] for module in found if not module.startswith(".")}
        assert roots <= {*sys.stdlib_module_names, "_sha2", "_sha256"}, name
        assert json.dumps(source)
