"""Where the project, the plugin files of the tests and the third parties' data lie."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
SUPPORT = Path(__file__).parent
TOY = SUPPORT / "toy.py"
SHARED = ROOT.parent / "shared" / "data"  # task files and pools of third parties; not on every machine
