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
