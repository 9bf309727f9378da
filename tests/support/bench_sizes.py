"""The options of a bench, with `--smallest`: sizes at which all of it runs in seconds, so that a test can run it."""

from __future__ import annotations

import argparse
from typing import Any


def parsed(parser: argparse.ArgumentParser, **smallest: Any) -> argparse.Namespace:
    """The options given on the command line; with `--smallest` the others are these, by name."""
    parser.add_argument("--smallest", action="store_true", help="run all of it in seconds; the figures then say little")
    if parser.parse_args().smallest:
        parser.set_defaults(**smallest)
    return parser.parse_args()
