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
