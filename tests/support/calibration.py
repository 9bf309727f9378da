"""The bench of the statistics as a module: laws of known truth, from which tests draw."""

from __future__ import annotations

import importlib.util
import sys

from support.paths import ROOT

_spec = importlib.util.spec_from_file_location("calibration", ROOT / "tests" / "bench" / "calibration.py")
assert _spec is not None
assert _spec.loader is not None
calibration = importlib.util.module_from_spec(_spec)
sys.modules["calibration"] = calibration  # where its dataclasses look for their annotations
_spec.loader.exec_module(calibration)
