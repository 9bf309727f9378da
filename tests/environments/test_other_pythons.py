"""The sandbox with other Pythons that this project supports: as the interpreter of programs, and as our own."""

import os
import sys
import textwrap
from pathlib import Path

import pluggy
import pytest
from support.environments import pythons
from support.paths import ROOT
from support.processes import run_to_end
from support.sandboxes import results

from harness import HarnessError
from harness_tasks.sandbox import Sandbox, encode, tiers

pytestmark = pytest.mark.slow


@pytest.fixture(params=[minor for minor in (11, 12, 13) if minor != sys.version_info.minor], ids=lambda n: f"3.{n}")
def python(request):
    """Another Python, of pyenv or on the path, and its version."""
    for path in pythons(request.param):
        if run_to_end([path, "-c", "import sys; print(sys.version_info.minor)"]).stdout == f"{request.param}\n":
            return path, [3, request.param]
    return pytest.skip(f"no Python 3.{request.param} here")


@pytest.mark.parametrize("tier", ["bwrap", "landlock"])
def test_programs_run_with_another_python(monkeypatch, tier, python):
    path, version = python
    monkeypatch.setenv("HARNESS_SANDBOX_PYTHON", path)
    try:
        made = Sandbox(1, tier=tier)
    except HarnessError as refusal:
        pytest.skip(str(refusal))
    program = "import sys\ndef solve(x): return [*sys.version_info[:2], x, [x] * 9, {x: x}, ['a'] * 9]"
    with made as sandbox:
        assert results(sandbox, program, 1.5).results == [encode([*version, 1.5, [1.5] * 9, {1.5: 1.5}, ["a"] * 9])]
        assert sandbox.normalised(["x  =1", "x = ("]) == ["x = 1", None]


def test_the_trusted_side_runs_on_another_python(python, tmp_path):
    (tmp_path / "harness").symlink_to(ROOT / "harness")
    (tmp_path / "harness_tasks").symlink_to(ROOT / "tasks")
    (tmp_path / "pluggy").symlink_to(Path(pluggy.__file__).parent)
    script = """
        from harness_tasks.sandbox import Sandbox, Suite, digest, encode, loose
        with Sandbox(2, unsafe_exec=True) as sandbox:
            suite = Suite("square", [[3], [4]], [1.0, 1.0], digest=[False, True])
            run, bad = sandbox.run_all(suite, ["def square(x): return x * x", "def square(x):\\n while True: pass"])
            assert run.results == [encode(9), digest(16)] and bad.status == "timeout", (run, bad)
            assert loose("[T,f2.0]") == "[i1,i2]"
            assert sandbox.normalised(["x  =1"]) == ["x = 1"]
        print(sandbox.tier)
    """
    command = [python[0], "-W", "error", "-c", textwrap.dedent(script)]
    done = run_to_end(command, timeout=120, env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in tiers.TIERS
