"""Files that are no file of GSM8K, and what the line that refuses them must say (a regular expression)."""

from __future__ import annotations

import gzip

SUM = b'{"question": "What is 2 + 3?", "answer": "#### 5"}\n'

FAULTY_FILES = {
    "missing column": (
        SUM + b'{"q": 1, "answer": "#### 1"}',
        r"data [^ ]+, line 2: no value in column 'question' \(columns: q, answer\)",
    ),
    "null": (b'{"question": null, "answer": "#### 5"}', "line 1: no value in column 'question'"),
    "no columns": (b"{}", r"line 1: no value in column '\w+' \(columns: none\)"),
    "wrong type": (
        SUM + b'{"question": ["a"], "answer": "#### 5"}', "line 2: column 'question' must be text, got list",
    ),
    "blank": (b'{"question": " \\n", "answer": "#### 5"}', "line 1: column 'question' is blank"),
    "empty": (b"", "'[^']+' has no rows"), "blank lines only": (b"\n\n", "'[^']+' has no rows"),
    "empty array": (b"[]", "'[^']+' has no rows"),
    "not objects": (SUM + b"[1]", "line 2: expected JSON objects, one a line or all in one array"),
    "not JSON": (b"question,answer\n1,2", r"line 1: not JSON \(Expecting value"),
    "nested too deep": (b"[" * 100_000, "line 1: not JSON"),
    "not text": (b"\xff\xfe\x00\x01", "not UTF-8 text, plain or gzipped"),
    "cut gzip": (gzip.compress(b'{"a": 1}' * 99, mtime=0)[:-9], r"not UTF-8 text, plain or gzipped \(Compressed"),
    "bad gzip body": (gzip.compress(b"x", mtime=0)[:10] + b"\xff" * 30, "not UTF-8 text, plain or gzipped"),
    "cut parquet": (b"PAR1" + b"x" * 50, "cannot read '[^']+': Parquet magic bytes not found"),
}  # fmt: skip
