"""Two runs on one store at the same time."""

import subprocess

import pytest
from support.paths import TOY
from support.processes import harness_command
from support.stores import contents


@pytest.mark.slow
def test_two_runs_on_one_store_at_the_same_time_give_the_bytes_of_a_single_one(toy, tmp_path):
    selectors = ("--selector", "spread", "--selector", "shuffle")
    alone = toy(*selectors, store=tmp_path / "alone")
    fixed = ("run", "--task", "colours", "--engine", "toy", "--plugin", TOY, "--json")
    command = harness_command(*fixed, "--store", tmp_path / "shared", *selectors)
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) for _ in range(2)]
    assert [process.communicate()[0] for process in both] == [alone.out] * 2
    assert [process.returncode for process in both] == [0, 0]
    assert contents(tmp_path / "shared") == contents(tmp_path / "alone")
