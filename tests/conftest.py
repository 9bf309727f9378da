"""What the tests share: the command line in this process, and the folder of third parties' data, if it is there."""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import NamedTuple

import pytest
from hypothesis import settings
from support.paths import SHARED, TOY

from harness.cli import main

# A helper's failed assert shows its values, as a test's does.
pytest.register_assert_rewrite("support.exact_sampling", "support.processes", "support.refusals")

# A shell's background job ignores Ctrl-C, and so would all that the tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The width of what commands print here is that of a pipe, also in a worker of xdist, which sets the terminal's.
os.environ.pop("COLUMNS", None)

# Machines are shared: an example may be slow. On CI the same examples every time.
settings.register_profile("harness", deadline=None, derandomize="SEED" not in os.environ)
settings.load_profile("harness")


def pytest_collection_modifyitems(items):
    """Files with slow tests begin first, so that no worker waits long for another at the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: (item.path.parent.name != "environments", item.path not in slow))


class Outcome(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def rows(self):
        return json.loads(self.out)


@pytest.fixture
def harness(monkeypatch, capfd):
    """Run `harness ARGS` in this process: `outcome = harness("run", "--task", ...)`."""
    monkeypatch.setattr("harness.system.progress.WAITED_S", 3600.0)  # no line about what a slow machine waits for

    def call(*args):
        monkeypatch.setattr(sys, "argv", ["harness", *map(str, args)])
        capfd.readouterr()
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
        return Outcome(code, *capfd.readouterr())

    return call


@pytest.fixture
def toy(harness, tmp_path):
    """Run the toy task on the toy engine; further options as arguments."""

    def call(*args, store=tmp_path / "runs"):
        fixed = ("--task", "colours", "--engine", "toy", "--plugin", TOY, "--store", store, "--json")
        return harness("run", *fixed, *args)

    return call


@pytest.fixture
def written(tmp_path):
    """Write a file: a list as JSON lines, text and bytes as they are; its path."""

    def call(content, name="pool.jsonl"):
        if isinstance(content, list):
            content = "".join(json.dumps(line) + "\n" for line in content)
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content)
        return path

    return call


@pytest.fixture(scope="session")
def shared_data():
    """The folder of third parties' task files and pools."""
    if not SHARED.is_dir():
        pytest.skip("needs shared/data beside the project")
    return SHARED


@pytest.fixture(scope="module")
def one_thread():
    """One thread for torch: small models are slower on many, and forty times as slow on shared cores."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def blocks(active, monkeypatch):
    """Small pools fit into one block; tiny ones send them through bounds, joining, leaving and copying together."""
    if active is None:
        return
    sizes = {"facility_location.CHUNK": 7, "numerics.nearest_pick.PAIRS": 5, "numerics.similarity.CHUNK": 7}
    blocks = ("kmeans.BLOCK", "k_dpp.BLOCK", "numerics.nearest_pick.ACTIVE", "numerics.elliptical.ACTIVE")
    for name, value in (sizes | dict.fromkeys(blocks, active)).items():
        monkeypatch.setattr(f"harness_selectors.{name}", value)
