"""The base install: the wheel without extras, in an environment of its own, used outside the source tree."""

import json
import shutil
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from support.environments import pythons
from support.paths import ROOT
from support.processes import run_to_end

pytestmark = pytest.mark.slow

MOST_MB = 500
EXTRAS = "import torch, transformers, datasets, math_verify, matplotlib, evalplus, httpx, ray, kmedoids"
VECTORLESS = ("uniform", "in-order", "dedup", "length", "ngram-coverage")
ON_VECTORS = ("repexp", "kcenter", "kmeans-pp", "mmr", "facility-location", "dpp-map", "kmeans", "k-dpp")
PUZZLES = {
    "4-5-6-10": ["(10 - 6) * (5 + 1)", "4 * 5 + 10 - 6", "(4 + 5 - 6) * 10"],
    "1-1-1-8": ["8 * (1 + 1 + 1)", "24", "1 + 1 + 1 + 8 = 11"],
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built from a copy of the checkout's files."""
    source, folder = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, source / name)
    run_to_end([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder, source], check=True)
    return next(folder.glob("*.whl"))


OTHER_MINORS = {11, 12, 13} - {sys.version_info[1]}
OTHERS = [pytest.param(f"3.{minor}", marks=pytest.mark.release) for minor in sorted(OTHER_MINORS)]


@pytest.fixture(scope="module", params=[f"3.{sys.version_info[1]}", *OTHERS])
def base(request, wheel, tmp_path_factory):
    """A folder outside the source tree, and the `bin` of an environment with nothing but the wheel."""
    here = [sys.executable] if sys.version_info[:2] == tuple(map(int, request.param.split("."))) else []
    python = next(iter([*here, *pythons(int(request.param[2:]))]), None)
    if python is None:
        pytest.skip(f"no Python {request.param} here")
    folder = tmp_path_factory.mktemp("base")
    run_to_end([python, "-m", "venv", folder / "venv"], check=True)
    install = [folder / "venv/bin/python", "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt"]
    run_to_end([*install, wheel], check=True, timeout=900)
    return folder, folder / "venv/bin"


@pytest.fixture
def harness(base):
    """A function that runs a command of the base install, and returns the finished process."""
    folder, programs = base
    return lambda *arguments: run_to_end([programs / "harness", *arguments], cwd=folder, timeout=300)


def test_it_is_small_and_has_no_extra(base):
    folder, programs = base
    for name in EXTRAS.removeprefix("import ").split(", "):
        assert run_to_end([programs / "python", "-c", f"import {name}"], cwd=folder).returncode, name
    packages = next((folder / "venv/lib").glob("python3*")) / "site-packages"
    pips = ("pip", "setuptools", "pkg_resources")  # are in every new environment
    files = [path for part in packages.iterdir() if not part.name.startswith(pips) for path in [part, *part.rglob("*")]]
    assert sum(path.stat().st_size for path in files if path.is_file()) < MOST_MB * 1e6


def test_a_pool_is_ranked_by_the_selectors_compared_and_reported(base, harness):
    folder, _ = base
    lines = [{"problem_id": name, "responses": texts, "logprobs": [-1, -2, -3]} for name, texts in PUZZLES.items()]
    (folder / "pool.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    chosen = [f"--selector={name}" for name in (*VECTORLESS, *ON_VECTORS)]
    done = harness("run", "--task", "game24", "--pool", "pool.jsonl", *chosen, "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert [row["selector"] for row in rows] == [*VECTORLESS, *ON_VECTORS]
    assert {row["embedder"] for row in rows if row["selector"] in ON_VECTORS} == {"tfidf"}
    cells = [row["cell"] for row in rows[:2]]
    for command in (["leaderboard", "runs/cells"], ["compare", *cells], ["report"], ["doctor"]):
        done = harness(*command)
        assert done.returncode == 0, (command, done.stderr)
    assert (folder / "runs/report.html").stat().st_size > 10_000


def test_vectors_of_ones_own_are_enough_to_select(base, harness):
    folder, _ = base
    np.savez(folder / "vectors.npz", plates=np.random.default_rng(0).normal(size=(50, 16)))
    done = harness("select", "--embeddings", "vectors.npz", "--selector", "repexp", "-k", "8", "--json")
    assert done.returncode == 0, done.stderr
    assert len(set(json.loads(done.stdout)[0]["order"])) == 8


COMMANDS = {
    ("run", "--task", "game24", "--selector", "repexp"): "hf",
    ("run", "--task", "game24", "--selector", "rnd", "--selector", "kmedoids"): "hf,kmedoids",
    ("plot", "passk"): "plots",
    ("run", "--task", "game24", "--model", "m", "--engine", "openai", "--selector", "uniform"): "api",
}


def test_a_command_that_lacks_an_extra_says_which(harness):
    for command, extras in COMMANDS.items():
        done = harness(*command)
        assert done.returncode == 2, (command, done.stdout)
        assert done.stderr.strip().endswith(f"pip install 'diversity-harness[{extras}]'"), (command, done.stderr)
        assert "by arithmetic" not in done.stderr, (command, done.stderr)  # no price: a library is all that is missing


def test_the_wheel_holds_every_file_of_the_packages_and_no_test(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert "harness_plugins/models/tiny24/models/tiny24/config.json" in names
    assert not [name for name in names if name.startswith("tests/") or "/tests/" in name]
