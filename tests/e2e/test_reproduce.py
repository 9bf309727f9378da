"""Each figure and table of the paper by its one command, at scale tiny, from nothing to the picture."""

import contextlib
import os
import signal
import subprocess
from pathlib import Path

import pytest
from support.environments import environment_python
from support.processes import alive, descendants, harness_command, run_to_end, wait_for

from harness_plugins.engines.esm3.engine import VARIABLE

PICTURES = {
    "rf1": ["questions", "scatter"], "rf2": ["models"], "rf3": ["game24/hardness"], "rf4": ["samplers"],
    "representations": ["representations"], "rf5": ["guided"], "proteins": ["passk"],
    "rl": ["rl-likelihoods", "rl-passk", "rl-passk-linear"],
}  # fmt: skip
pytestmark = pytest.mark.slow


def reproduce(folder, name, **environment):
    env = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"} | environment
    return run_to_end(harness_command("reproduce", name, "--scale", "tiny", "--yes"), cwd=folder, env=env)


@pytest.mark.parametrize("name", PICTURES)
def test_it_goes_from_nothing_to_the_picture_and_the_table_and_again_makes_nothing(name, tmp_path):
    given = {VARIABLE: str(environment_python(VARIABLE, "esm"))} if name == "proteins" else {}
    first = reproduce(tmp_path, name, **given)
    assert first.returncode == 0, first.stderr
    out = tmp_path / "runs" / "reproduce" / f"{name}-tiny"
    pictures = sorted(out / "plots" / f"{picture}.png" for picture in PICTURES[name])
    assert sorted((out / "plots").rglob("*.png")) == pictures
    assert all(picture.stat().st_size > 10_000 for picture in pictures)
    table = (out / "numbers.md").read_text()
    assert table in first.stdout.replace("\r", "")
    drawn = [path.read_bytes() for path in pictures]
    if name in ("rf1", "rf5"):  # the second runs of others are no other
        again = reproduce(tmp_path, name, **given)
        assert again.returncode == 0, again.stderr
        assert "sample:" not in again.stderr
        assert [path.read_bytes() for path in pictures] == drawn
        assert (out / "numbers.md").read_text() == table


def test_a_part_that_fails_does_not_end_the_rest(tmp_path):
    lacking = reproduce(tmp_path, "proteins", **{VARIABLE: str(tmp_path / "nothing")})
    assert lacking.returncode == 1
    assert "Traceback" not in lacking.stderr
    assert lacking.stderr.count(f"{VARIABLE}=") == 1  # the part that makes the weights says what lacks
    assert lacking.stderr.count("failed: ") == 3  # it, the run that wants the weights, and the figure
    assert (tmp_path / "runs" / "reproduce" / "proteins-tiny" / "weights" / "esmfold").is_dir()
    assert "| 240.3 | none |" in lacking.stdout


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc, to see what is left")
def test_a_killed_reproduction_leaves_no_part_behind(tmp_path):
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    command = harness_command("reproduce", "rf4", "--scale", "tiny", "--yes")
    process = subprocess.Popen(command, cwd=tmp_path, env=os.environ | {"OMP_NUM_THREADS": "1"}, **quiet)
    parts: set[int] = set()
    try:
        wait_for(lambda: [*tmp_path.glob("runs/*/responses.*")] or process.poll() is not None, what="it samples")
        assert process.poll() is None, "it ended too early"
        parts.update(descendants(process.pid))
        process.kill()
        process.wait()
        assert parts
        wait_for(lambda: not any(map(alive, parts)), 15, "all have ended")
    finally:
        for pid in {process.pid, *parts}:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()
