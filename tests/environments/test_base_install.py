"""The wheel without extras, in an environment of its own, outside the source tree; the sandbox with other Pythons."""

import json
import os
import shutil
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import numpy as np
import pluggy
import pytest
from support.environments import pythons
from support.paths import ROOT
from support.processes import run_to_end
from support.sandboxes import results

from harness import HarnessError
from harness_tasks.sandbox import Sandbox, encode, tiers

pytestmark = pytest.mark.slow

MOST_MB = 500
EXTRAS = ("torch", "transformers", "datasets", "math_verify", "matplotlib", "evalplus", "httpx", "ray", "kmedoids")
VECTORLESS = ("uniform", "in-order", "dedup", "length", "ngram-coverage")
ON_VECTORS = ("repexp", "kcenter", "kmeans-pp", "mmr", "facility-location", "dpp-map", "kmeans", "k-dpp")
PUZZLES = {
    "4-5-6-10": ["(10 - 6) * (5 + 1)", "4 * 5 + 10 - 6", "(4 + 5 - 6) * 10"],
    "1-1-1-8": ["8 * (1 + 1 + 1)", "24", "1 + 1 + 1 + 8 = 11"],
}
LACKING = {
    ("run", "--task", "game24", "--selector", "repexp"): "hf",
    ("run", "--task", "game24", "--selector", "rnd", "--selector", "kmedoids"): "hf,kmedoids",
    ("plot", "passk"): "plots",
    ("run", "--task", "game24", "--model", "m", "--engine", "openai", "--selector", "uniform"): "api",
}
HERE = sys.version_info[1]


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


def test_the_wheel_holds_every_file_of_the_packages_and_no_test(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert "harness_plugins/models/tiny24/models/tiny24/config.json" in names
    assert not [name for name in names if name.startswith("tests/") or "/tests/" in name]


@pytest.mark.parametrize("minor", [HERE, *(pytest.param(m, marks=pytest.mark.release) for m in {11, 12, 13} - {HERE})])
def test_the_base_install_is_small_ranks_compares_reports_and_says_which_extra_is_lacking(minor, wheel, tmp_path):
    python = sys.executable if minor == HERE else next(iter(pythons(minor)), None)
    if python is None:
        pytest.skip(f"no Python 3.{minor} here")
    programs = tmp_path / "venv" / "bin"
    run_to_end([python, "-m", "venv", tmp_path / "venv"], check=True)
    install = [programs / "python", "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt", wheel]
    run_to_end(install, check=True, timeout=900)
    asked = f"import importlib.util as i; print([n for n in {EXTRAS} if i.find_spec(n)])"
    assert run_to_end([programs / "python", "-c", asked], cwd=tmp_path).stdout == "[]\n"
    packages = next((tmp_path / "venv/lib").glob("python3*")) / "site-packages"
    pips = ("pip", "setuptools", "pkg_resources")  # are in every new environment
    files = [path for part in packages.iterdir() if not part.name.startswith(pips) for path in [part, *part.rglob("*")]]
    assert sum(path.stat().st_size for path in files if path.is_file()) < MOST_MB * 1e6

    def harness(*arguments):
        return run_to_end([programs / "harness", *arguments], cwd=tmp_path, timeout=300)

    def printed(*arguments):
        done = harness(*arguments)
        assert done.returncode == 0, (arguments, done.stderr)
        return done.stdout

    lines = [{"problem_id": name, "responses": texts, "logprobs": [-1, -2, -3]} for name, texts in PUZZLES.items()]
    (tmp_path / "pool.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    chosen = [f"--selector={name}" for name in (*VECTORLESS, *ON_VECTORS)]
    rows = json.loads(printed("run", "--task", "game24", "--pool", "pool.jsonl", *chosen, "--json"))
    assert [row["selector"] for row in rows] == [*VECTORLESS, *ON_VECTORS]
    assert {row["embedder"] for row in rows if row["selector"] in ON_VECTORS} == {"tfidf"}
    for command in (
        ["leaderboard", "runs/cells"],
        ["compare", *(row["cell"] for row in rows[:2])],
        ["report"],
        ["doctor"],
    ):
        printed(*command)
    assert (tmp_path / "runs/report.html").stat().st_size > 10_000
    np.savez(tmp_path / "vectors.npz", plates=np.random.default_rng(0).normal(size=(50, 16)))
    picks = printed("select", "--embeddings", "vectors.npz", "--selector", "repexp", "-k", "8", "--json")
    assert len(set(json.loads(picks)[0]["order"])) == 8
    for command, extras in LACKING.items():
        done = harness(*command)
        assert done.returncode == 2, (command, done.stdout)
        assert done.stderr.strip().endswith(f"pip install 'diversity-harness[{extras}]'"), (command, done.stderr)
        assert "by arithmetic" not in done.stderr, (command, done.stderr)  # no price: a library is all that is missing


# The sandbox with another Python: as the interpreter of programs, and as our own.

TRUSTED_SIDE = """
    from harness_tasks.sandbox import Sandbox, Suite, digest, encode, loose
    with Sandbox(2, unsafe_exec=True) as sandbox:
        suite = Suite("square", [[3], [4]], [1.0, 1.0], digest=[False, True])
        run, bad = sandbox.run_all(suite, ["def square(x): return x * x", "def square(x):\\n while True: pass"])
        assert run.results == [encode(9), digest(16)] and bad.status == "timeout", (run, bad)
        assert loose("[T,f2.0]") == "[i1,i2]"
    print(sandbox.tier)
"""


@pytest.mark.parametrize("minor", {11, 12, 13} - {sys.version_info.minor})
def test_programs_and_the_trusted_side_run_with_another_python(monkeypatch, minor, tmp_path):
    version = [sys.executable, "-c", "import sys; print(sys.version_info.minor)"]
    python = next((path for path in pythons(minor) if run_to_end([path, *version[1:]]).stdout == f"{minor}\n"), None)
    if python is None:  # a shim may start another version
        pytest.skip(f"no Python 3.{minor} here")
    monkeypatch.setenv("HARNESS_SANDBOX_PYTHON", python)
    program = "import sys\ndef solve(x): return [*sys.version_info[:2], x, [x] * 9, {x: x}, ['a'] * 9]"
    for tier in ("bwrap", "landlock"):
        try:
            made = Sandbox(1, tier=tier)
        except HarnessError:
            continue
        with made as sandbox:
            expected = encode([3, minor, 1.5, [1.5] * 9, {1.5: 1.5}, ["a"] * 9])
            assert results(sandbox, program, 1.5).results == [expected]
            assert sandbox.normalised(["x  =1", "x = ("]) == ["x = 1", None]
    for name, folder in (("harness", "harness"), ("harness_tasks", "tasks"), ("pluggy", Path(pluggy.__file__).parent)):
        (tmp_path / name).symlink_to(ROOT / folder)
    command = [python, "-W", "error", "-c", textwrap.dedent(TRUSTED_SIDE)]
    done = run_to_end(command, timeout=120, env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in tiers.TIERS
