"""Every bench runs through at its smallest size, so that none rots unseen; what it measures is not looked at."""

import os
import sys

import pytest
from support.paths import ROOT
from support.processes import run_to_end

BENCHES = sorted(path.stem for path in (ROOT / "tests" / "bench").glob("*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("bench", BENCHES)
def test_a_bench_runs_through_at_its_smallest_size(bench, tmp_path):
    command = [sys.executable, ROOT / "tests" / "bench" / f"{bench}.py", "--smallest"]
    ended = run_to_end(command, cwd=tmp_path, env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.strip()
    if ended.stdout.startswith("not measured: "):
        pytest.skip(ended.stdout.strip())
