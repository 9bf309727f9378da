"""Carry out command lines one after another in one process: each a line of JSON on stdin, what it printed on stdout.

Each is carried out as `python -m harness` would, so that libraries are imported once for all; it ends with its stdin.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import tempfile
from contextlib import suppress

from harness.columns.column import forget


def main() -> None:
    """Answer until stdin ends: out and err of each command line, what its child processes print among it."""
    with os.fdopen(os.dup(1), "w") as answers:
        for line in sys.stdin:
            sys.argv = ["harness", *json.loads(line)]
            with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
                os.dup2(out.fileno(), 1)
                os.dup2(err.fileno(), 2)
                with suppress(SystemExit):
                    runpy.run_module("harness", run_name="__main__")
                sys.stdout.flush()
                sys.stderr.flush()
                forget()  # a model that was timed
                printed = [file.seek(0) or file.read() for file in (out, err)]
            print(json.dumps(printed), file=answers, flush=True)


if __name__ == "__main__":
    main()
