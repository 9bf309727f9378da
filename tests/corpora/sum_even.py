"""About the small problem `sum_even` (support/evalplus_problems.py): programs, faulty rows, damaged ground truth."""

from __future__ import annotations

import gzip

# A program and the reason for which it is wrong
WRONG = {
    "def sum_even(n):\n    return 0 if not n else 6": "plus: test 1", "def sum_even(n):\n    return 7": "base: test 1",
    "def sum_even(n):\n    return n and 6": "base: test 2",
    "def sum_even(n):\n    return {3: 6, 0: 0}[len(n)]": "plus: test 1 raised KeyError",
    "def sum_even(n):\n    raise type('\\n' * 999, (Exception,), {})": "base: test 1 raised Exception",
    "def sum_even(n:\n    return 7": "syntax", "import nothing_like_it\ndef sum_even(n): return 6": "raised",
    "def sum_even(n): return 6\ndel sum_even": "no function sum_even",
    "def sum_even(n):\n    while True: pass": "timeout", "def sum_even(n):\n    return [0] * 10**9": "memory",
    "def sum_even(n):\n    return 'x' * 10**8": "output", "import os\ndef sum_even(n):\n    os._exit(0)": "killed",
}  # fmt: skip

HOSTILE = [
    "class Same(int):\n    __eq__ = lambda s, o: True\n    __hash__ = int.__hash__\ndef sum_even(n): return Same(5)",
    "class Same:\n    __eq__ = lambda s, o: True\ndef sum_even(n): return Same()",
    "import os, sys\ndef sum_even(n):\n    for fd in range(64):\n        try: os.write(fd, b'0 i6\\n' * 9)\n"
    "        except OSError: pass\n    os._exit(0)",
    "import sys\ndef sum_even(n):\n    frame = sys._getframe()\n    while frame:\n        for name, value in "
    "frame.f_locals.items():\n            if 'expected' in name: return value[0]\n        frame = frame.f_back",
    "def sum_even(n):\n    n = []\n    n.append(n)\n    return n",
    "import sys\nsys.setrecursionlimit(10**9)\ndef sum_even(n): return sum_even(n)",
    "def sum_even(n):\n    raise SystemExit(0)",
    *(
        f"def sum_even(n):\n    return {junk}"
        for junk in ("\x00", "\ud800", "(" * 10**5, "1+" * 10**5 + "1", "x" * 10**6)
    ),
]

EVEN = "sum(x for x in n if x % 2 == 0)"
SELF_AWARE = [  # two programs with one syntax tree, docstrings aside, of which the second is wrong
    [f"{blank}def sum_even(n): return {EVEN} * (sum_even.__code__.co_firstlineno < 3)" for blank in ("", "\n\n")],
    [
        f"def sum_even(n):\n    {text}return {EVEN} + len(sum_even.__code__.co_consts[0] or '')"
        for text in ("", "'x'\n    ")
    ],
    [f"import sys\ndef sum_even(n): return ({blank}{EVEN} + sys._getframe().f_lineno - 2)" for blank in ("", "\n")],
]

# A change of a row and the complaint about it
FAULTY = [
    ({"task_id": "Mbpp-7"}, "task_id must be Mbpp/NUMBER or HumanEval/NUMBER, got 'Mbpp-7'"),
    ({"entry_point": "a b"}, "entry_point must be a function's name, got 'a b'"),
    ({"entry_point": None}, "no value in column 'entry_point'"),
    ({"base_input": None}, "column 'base_input' must be a list with a list of arguments for each test"),
    ({"plus_input": [1]}, "column 'plus_input' must be a list with a list of arguments for each test"),
    ({"plus_input": "[1"}, "column 'plus_input' is no JSON"),
    ({"atol": "much"}, "column 'atol' must be a number of at least 0, got 'much'"),
    ({"atol": True}, "column 'atol' must be a number of at least 0, got True"),
]

# What is no ground truth of its five tests
DAMAGE = [
    b"", b"junk", gzip.compress(b"{", mtime=0), gzip.compress(b"[]", mtime=0),
    gzip.compress(b'{"expected": [], "cpu_s": [], "memory_bytes": 1073741824}', mtime=0),
    gzip.compress(b'{"expected": [1, 2, 3, 4, 5], "cpu_s": [1, 1, 1, 1, 1], "memory_bytes": 1073741824}', mtime=0),
    gzip.compress(b'{"expected": ["i6"], "cpu_s": "no", "memory_bytes": null, "more": 1}', mtime=0),
    gzip.compress(b"[" * 100_000, mtime=0), gzip.compress(bytes(1000), mtime=0)[:-9],
]  # fmt: skip
