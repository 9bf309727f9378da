"""What one line says of an exception of a plugin."""

import inspect

import numpy as np

from harness.errors import error_text


def test_the_line_is_the_plugins_own_also_where_a_library_raised():
    try:
        np.stack([])
    except ValueError as failure:
        text = error_text(failure)
    line = inspect.getsourcelines(test_the_line_is_the_plugins_own_also_where_a_library_raised)[1] + 2
    assert text == f"raised ValueError: need at least one array to stack (test_errors.py:{line})"
