"""Find a second Python environment, for a library that cannot be installed in this one, and ask what it has."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import HarnessError
from harness.system.json_text import parsed

ANSWERS_S = 300.0  # a first import of torch on a busy machine takes a minute

_VERSIONS_SCRIPT = """
import importlib.metadata as m, json, sys
print(json.dumps({name: next((d.version for d in m.distributions(name=name)), None) for name in sys.argv[1:]}))
"""


@dataclass(frozen=True)
class SecondEnvironment:
    """The places where a library's Python environment is looked for.

    name       the first word of error messages
    module     the library's module
    variable   the environment variable that names the interpreter
    beside     the interpreter to use if none is named
    make       how to make the environment, for a reader who has none
    """

    name: str
    module: str
    variable: str
    beside: Path
    make: str

    def find(self, requested: str | None, find_spec: Callable[[str], Any]) -> Path:
        """Return an interpreter: `requested`, else the variable's, else this one if it has the module, else `beside`.

        HarnessError if the path that is requested or in the variable does not exist, or if there is none.

        find_spec   finds a module in this environment, as `importlib.util.find_spec` does; None: it is not here
        """
        named = requested or os.environ.get(self.variable)
        if named:
            origin = "python=" if requested else f"{self.variable}="
            python = Path(named).expanduser().absolute()  # not resolved: the link belongs to the environment
            if not python.is_file():
                raise HarnessError(
                    f"{self.name}: {origin}{named} is not there: give the environment's bin/python, or {self.make}"
                )
            return python
        if find_spec(self.module) is not None:
            return Path(sys.executable)
        if self.beside.is_file():
            return self.beside.absolute()
        raise HarnessError(
            f"{self.name}: no environment with {self.module} ({self.variable} is not set and {self.beside} is not "
            f"there): {self.make}"
        )

    def versions(self, python: Path, distributions: Sequence[str]) -> dict[str, str | None]:
        """Return the version of each distribution in that interpreter's environment; None if it is not installed there.

        HarnessError if the interpreter does not run.
        """
        return dict(self.answer(python, _VERSIONS_SCRIPT, *distributions))

    def answer(self, python: Path, script: str, *arguments: str) -> Any:
        """Run a script, given as its source, in that interpreter; return the JSON that it prints, parsed.

        HarnessError if it fails, prints no JSON or takes more than `ANSWERS_S` seconds.
        """
        try:
            command: list[str | Path] = [python, "-c", script, *arguments]
            completed = subprocess.run(command, capture_output=True, text=True, timeout=ANSWERS_S, check=True)
            return parsed(completed.stdout, "its answer")
        except (OSError, ValueError, subprocess.SubprocessError) as failure:
            said = failure.stderr.strip() if isinstance(failure, subprocess.CalledProcessError) else ""
            reason = said.splitlines()[-1] if said else str(failure).splitlines()[0]
            raise HarnessError(f"{self.name}: {python} does not run: {reason}") from failure
