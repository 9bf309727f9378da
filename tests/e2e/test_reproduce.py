"""Each figure and table of the paper at scale tiny, from nothing to the picture; kills and faults of the command."""

import os
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.environments import environment_python
from support.processes import descendants, harness_command, run_to_end, wait_for, wait_until_ended

from harness.columns.column import forget
from harness_plugins.engines.esm3.engine import VARIABLE
from harness_plugins.reproduce import paper_numbers, parts

PICTURES = {
    "rf1": ["questions", "scatter"], "rf2": ["models"], "rf3": ["game24/hardness"], "rf4": ["samplers"],
    "representations": ["representations"], "rf5": ["guided"], "rl": ["rl-likelihoods", "rl-passk", "rl-passk-linear"],
}  # fmt: skip
pytestmark = pytest.mark.slow


def reproduce(folder, name, **environment):
    env = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"} | environment
    return run_to_end(harness_command("reproduce", name, "--scale", "tiny", "--yes"), cwd=folder, env=env)


def drawn(out: Path, *names: str) -> list[bytes]:
    """The pictures, after a look at whether these are all and none is empty."""
    pictures = sorted(out / "plots" / f"{name}.png" for name in names)
    assert sorted((out / "plots").rglob("*.png")) == pictures
    assert all(picture.stat().st_size > 10_000 for picture in pictures)
    return [picture.read_bytes() for picture in pictures]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """One for all: several figures show the same pools."""
    return tmp_path_factory.mktemp("reproduced") / "runs"


@pytest.mark.parametrize("name", PICTURES)
def test_it_goes_from_nothing_to_the_picture_and_the_table_and_again_makes_nothing(name, store, harness, monkeypatch):
    """Smaller than scale tiny, and each part in this process, which imports the libraries once."""
    said = []

    def here(command, environment=None, out=None, check=False):
        done = harness(*command[command.index("harness") + 1 :])
        said.append(done.err)
        forget()
        if out:
            out.write_text(done.out)
        return done.code if out else SimpleNamespace(returncode=done.code)

    def carried_out():
        said.clear()
        work = parts.named(name, "tiny", store, {"engine": [], "executor": []})
        parts.carry_out(work, said.append)
        failed = [part for part in [*work.parts, *parts.draw(work, said.append)] if part.status != 0]
        assert not failed, said
        table = paper_numbers.table(work)
        assert (work.out / "numbers.md").read_text() == table + "\n"
        return table, drawn(work.out, *PICTURES[name])

    monkeypatch.setattr(parts, "run_child", here)
    monkeypatch.setattr(parts, "subprocess", SimpleNamespace(run=here))
    smaller = {
        key: re.sub(r"--n 32 --limit \d+", "--n 16 --limit 16", value) if isinstance(value, str) else value[:3]
        for key, value in parts.plan()[name]["tiny-scale"].items()
    }
    monkeypatch.setitem(parts.plan()[name], "tiny-scale", smaller | {"seed": ["1"], "n": "16"})
    first, made = carried_out(), {path: path.stat().st_mtime_ns for path in store.rglob("*.parquet")}
    assert made
    if name == "rf5":  # the second runs of others are no other
        assert carried_out() == first
        assert {path: path.stat().st_mtime_ns for path in store.rglob("*.parquet")} == made


def test_the_command_does_so_with_each_part_in_a_process_of_its_own(tmp_path):
    done = reproduce(tmp_path, "proteins", **{VARIABLE: str(environment_python(VARIABLE, "esm"))})
    assert done.returncode == 0, done.stderr
    out = tmp_path / "runs" / "reproduce" / "proteins-tiny"
    drawn(out, "passk")
    assert (out / "numbers.md").read_text() in done.stdout.replace("\r", "")


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
    process = subprocess.Popen(
        harness_command("reproduce", "rf4", "--scale", "tiny", "--yes"),
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(lambda: [*tmp_path.glob("runs/*/responses.*")] or process.poll() is not None, what="it samples")
        assert process.poll() is None, "it ended too early"
        family = descendants(process.pid)
    finally:
        process.kill()
        process.wait()
    assert family
    wait_until_ended(family, 60)
