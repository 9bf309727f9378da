"""Plugins' layouts that are broken, as code of one method, each with what is said of it."""

BROKEN_LAYOUTS = [
    ({"factory": '"no_such_package:Layout"'}, "failed to import: No module named 'no_such_package'"),
    ({"factory": "lambda: 1 / 0"}, "cannot be built: raised ZeroDivisionError"),
    ({"factory": "object"}, "it lacks name, fits, read, keys (of lines) or holds (of files)"),
]

# The body of `read`
WRONG_READERS = [
    ("yield 1 / 0", "raised ZeroDivisionError: division by zero (anything.py:"),
    ("yield PoolRecord('p', ['x']); raise SystemExit(3)", "raised SystemExit: 3 (anything.py:"),
    ("return 3", "raised TypeError: 'int' object is not iterable"), ("yield 3", "must give PoolRecords, got 3"),
    ("yield PoolRecord('p', [])", "must give texts, and at least one response, got PoolRecord(problem_id='p'"),
    ("yield PoolRecord(3, ['x'])", "must give texts, and at least one response, got PoolRecord("),
    ("yield PoolRecord('p', ['x'], prompt=3)", "must give texts, and at least one response, got PoolRecord("),
    ("yield PoolRecord('p', ['x'], correct=[])", "must give columns as long as the responses (1)"),
    ("yield PoolRecord('p', ['x'], finish=['stop'] * 2)", "must give columns as long as the responses (1)"),
]  # fmt: skip
