"""A run killed with SIGKILL at any moment and started again gives, byte for byte, the tables of an unkilled one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import TOY, contents

from harness.store import temporary_name

KILLS = 20
PROBLEMS = 12


def command(store: Path) -> list[str]:
    options = {
        "--task": "colours",
        "--data": PROBLEMS,
        "--engine": "toy:delay_s=0.01,group=2",
        "--plugin": TOY,
        "--store": store,
    }
    flat = [str(part) for option in options.items() for part in option]
    return [sys.executable, "-m", "harness", "run", *flat, "--selector", "spread", "--selector", "shuffle", "--json"]


def files(store: Path) -> int:
    return sum(len(names) for _, _, names in os.walk(store))


@pytest.fixture(scope="module")
def unkilled(tmp_path_factory):
    store = tmp_path_factory.mktemp("unkilled")
    done = subprocess.run(command(store), capture_output=True, check=True)
    return done.stdout, contents(store)


def killed_after(store: Path, count: int, delay_s: float) -> bool:
    """Start a run and SIGKILL it `delay_s` after the store holds `count` files; whether it was killed."""
    process = subprocess.Popen(command(store), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None:
        if files(store) >= count:
            time.sleep(delay_s)
            process.send_signal(signal.SIGKILL)
            return process.wait() == -signal.SIGKILL
        time.sleep(0.0005)
    return False


def test_a_run_killed_at_any_moment_and_started_again_gives_the_bytes_of_an_unkilled_one(unkilled, tmp_path):
    table, whole = unkilled

    def trial(kill: int) -> bool:
        store = tmp_path / str(kill)
        store.mkdir()
        was_killed = killed_after(store, round(kill * len(whole) / KILLS), delay_s=0.0007 * (kill % 3))
        again = subprocess.run(command(store), capture_output=True, check=True)
        assert again.stdout == table
        assert contents(store) == whole, f"kill {kill}"
        return was_killed

    with ThreadPoolExecutor(2) as pool:
        killed = list(pool.map(trial, range(KILLS)))
    assert sum(killed) >= KILLS - 2  # the last moments may be past the end


def test_a_run_killed_again_and_again_still_arrives(unkilled, tmp_path):
    table, whole = unkilled
    for count in range(5, len(whole), 16):
        killed_after(tmp_path, count, 0)
    again = subprocess.run(command(tmp_path), capture_output=True, check=True)
    assert again.stdout == table
    assert contents(tmp_path) == whole


def test_a_half_written_temporary_file_is_swept_away(unkilled, tmp_path):
    subprocess.run(command(tmp_path), capture_output=True, check=True)
    (pool,) = (tmp_path / "pool").iterdir()
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    temporary_name(pool / "x.parquet", dead.pid).write_bytes(b"PAR1")
    subprocess.run(command(tmp_path), capture_output=True, check=True)
    assert contents(tmp_path) == unkilled[1]


def test_a_broken_shard_is_named_and_remade_once_deleted(unkilled, tmp_path):
    subprocess.run(command(tmp_path), capture_output=True, check=True)
    shard = next((tmp_path / "verdict").rglob("*.parquet"))
    shard.write_bytes(b"PAR1 not really")
    for ranking in (tmp_path / "ranking").rglob("*.json"):
        if ranking.name != "manifest.json":
            ranking.unlink()
    broken = subprocess.run(command(tmp_path), capture_output=True, text=True)
    assert broken.returncode == 2
    assert str(shard) in broken.stderr
    assert "Traceback" not in broken.stderr
    shard.unlink()
    subprocess.run(command(tmp_path), capture_output=True, check=True)
    assert contents(tmp_path) == unkilled[1]
