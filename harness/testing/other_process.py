"""Repeat a call in another process, with another hash seed, an empty working directory and nothing loaded yet.

If the result differs, it depends on `hash` of a string, on the order of a set, on a file in the working directory, or
on state that the parent process had set up.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.plugin_system.registry import load_file
from harness.system import output

from .checking import Inapplicable, Violation, expect

TIMEOUT_S = 300
FILE_PREFIX = "harness_file_"  # what the registry calls the module of a `--plugin FILE`


def called_elsewhere(function: Callable[..., Any], component: Any, *arguments: Any) -> Any:
    """Return the result of `function(component, *arguments)` in a new process, sent as JSON: tuples become lists.

    The function must be importable. Violation if the call fails there; Inapplicable if the component's class is defined
    in `__main__`.
    """
    module = type(component).__module__
    if module == "__main__":
        raise Inapplicable("its class is defined in __main__, which another process cannot import")
    file = sys.modules[module].__file__ if module.startswith(FILE_PREFIX) else None
    call = pickle.dumps((function, component, arguments))
    paths = json.dumps([str(Path(path).resolve()) if Path(path).exists() else path for path in sys.path])
    environment = os.environ | {"PYTHONHASHSEED": "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"}
    code = f"import sys; sys.path[:] = {paths}; from harness.testing.other_process import answer; answer({file!r})"
    with tempfile.TemporaryDirectory() as empty:
        done = subprocess.run(
            [sys.executable, "-c", code], input=call, cwd=empty, env=environment, capture_output=True, timeout=TIMEOUT_S
        )
    if done.returncode:
        last_line = done.stderr.decode(errors="replace").strip().split("\n")[-1]
        raise Violation(f"another process cannot run it: {last_line:.200}")
    lines = done.stdout.decode().strip().split("\n")
    expect(lines[-1].strip(), "another process gave no answer")
    return json.loads(lines[-1])


def answer(file: str | None) -> None:
    """Read a call from stdin and print its result; runs in the new process, whose other output goes to stderr.

    file   the plugin file that defines the component, loaded first; None if its module can be imported
    """
    with output.reserved():
        if file is not None:
            load_file(Path(file))
        function, component, arguments = pickle.load(sys.stdin.buffer)
        output.write(f"{json.dumps(function(component, *arguments))}\n")
    output.end()
