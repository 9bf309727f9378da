"""Moved: `Weights` is in `harness.records`. This module works for one release more."""

from __future__ import annotations

import sys

from .records import Weights as Weights

print("harness.weights has moved: import Weights from harness.records", file=sys.stderr)
