"""Run the cells of a notebook, or the Python blocks of a document, as a session does: in `__main__`, source kept."""

from __future__ import annotations

import json
import linecache
from pathlib import Path
from typing import Any


def code_cells(path: Path) -> list[str]:
    """The sources of a notebook's code cells."""
    cells = json.loads(path.read_text())["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def run_cell(source: str, session: dict[str, Any]) -> None:
    """Run one cell in a session's namespace; like IPython, keep its source for `inspect.getsource`."""
    name = f"<cell {hash(source):x}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    exec(compile(source, name, "exec"), session)


def session(*cells: str) -> dict[str, Any]:
    """The namespace of a session after these cells."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for cell in cells:
        run_cell(cell, namespace)
    return namespace
