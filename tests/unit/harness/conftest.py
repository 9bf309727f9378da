"""Plugin files that begin from the toy's parts and note what is asked of them, and a look at what a run wrote."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from support.stores import is_of_control

HEAD = """
import json, os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from harness import HarnessError, Problem, Task, correct, error, hookimpl, wrong
from harness.errors import Lacking
from harness_file_toy import WORDS, Colours, Parrot, Rule
from harness.contracts import Measured, Ran

HERE = Path(__file__).parent


def note(*words):
    with open(HERE / "notes", "a") as notes:
        print(*words, file=notes)

"""


@pytest.fixture
def plugin(tmp_path):
    """Write a plugin file: `plugin(code, engine=["Noting"])` registers a class under its name in small letters."""

    def write(code, name="own.py", **classes):
        for kind, names in classes.items():
            registered = "".join(f"    register({each.lower()!r}, {each})\n" for each in names)
            code += f"\n\n@hookimpl\ndef register_{kind}s(register):\n{registered}"
        path = tmp_path / "plugins" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(HEAD + code)
        return path

    return write


@pytest.fixture
def noted(tmp_path):
    """What the plugin files have noted since the last call."""

    def read():
        path = tmp_path / "plugins" / "notes"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return lines

    return read


@pytest.fixture
def new(tmp_path):
    """Files that came into a store since the last call, but those of controls, by kind: {"verdicts": 2, "cells": 1}."""
    known: set[Path] = set()

    def count(store=tmp_path / "runs"):
        now = {*store.rglob("*.parquet"), *store.rglob("*.npy"), *store.rglob("*.arrow"), *store.glob("cells/*")}
        now = {path for path in now if not is_of_control(path)}
        kinds = Counter(path.parent.name.partition(".")[0] for path in now - known)
        known.update(now)
        return dict(kinds)

    return count
