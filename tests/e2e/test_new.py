"""`harness new`: what it writes installs, is listed, runs, conforms and passes its own tests, all untouched."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from support.processes import run_to_end

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """One store for all: what one kind's run has sampled, the next reuses."""
    return tmp_path_factory.mktemp("runs")


@pytest.fixture
def shell(tmp_path):
    """Run a command line, which must succeed, in a fresh environment that sees what this one has installed."""
    folder = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site_packages,) = folder.glob("lib/python*/site-packages")
    # addsitedir and no bare path: the harness itself may be there as an editable install, a .pth file
    installed = f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n"
    (site_packages / "_installed.pth").write_text(installed)
    for name in ("harness", "pip"):
        script = folder / "bin" / name
        run = f"import runpy; runpy.run_module({name!r}, run_name='__main__', alter_sys=True)"
        script.write_text(f"#!{folder}/bin/python\n{run}\n")
        script.chmod(0o755)
    unwanted = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYTEST_ADDOPTS")
    env = {key: value for key, value in os.environ.items() if key not in unwanted}
    env |= {"PATH": f"{folder}/bin:{env['PATH']}", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "COLUMNS": "200"}

    def call(command: str, cwd: Path) -> str:
        command = command.replace("pip install", "pip install --no-build-isolation")  # without the network
        done = subprocess.run(command, shell=True, cwd=cwd, env=env, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return call


def test_the_commands_it_prints_install_list_run_check_and_test_the_package(shell, runs, tmp_path):
    made = json.loads(shell("harness new selector brand-new --json", tmp_path))
    enter, install, listing, race, check, tests = made["commands"]
    folder = tmp_path / made["folder"]
    assert enter == "cd harness-brand-new"
    (folder / "runs").symlink_to(runs)
    shell(install, folder)
    (row,) = [row for row in json.loads(shell(f"{listing} --json", folder)) if row["name"] == "brand-new"]
    assert (row["from"], "broken" in row["what"]) == ("harness-brand-new 0.1.0", False)
    rows = json.loads(shell(f"{race} --json", folder))
    assert [(row["selector"], row["problems"]) for row in rows] == [("brand-new", 10), ("uniform", 10)]
    assert shell(check, folder).count("passed") > 5
    assert " passed" in shell(tests, folder)


@pytest.mark.parametrize("kind", ["task", "embedder", "sampler", "engine"])
def test_a_package_that_is_not_installed_runs_by_its_file_and_passes_its_own_tests(
    kind, harness, runs, tmp_path, monkeypatch
):
    made = harness("new", kind, "brand-new", "--into", tmp_path, "--json").rows
    _, _, listing, race, _, tests = made["commands"]
    monkeypatch.chdir(made["folder"])
    monkeypatch.setenv("PYTHONPATH", str(made["folder"]))
    Path("runs").symlink_to(runs)
    plugin = ("--plugin", "harness_brand_new.py")
    assert "brand-new" in harness(*shlex.split(listing)[1:], *plugin).out
    rows = harness(*shlex.split(race)[1:], *plugin, "--json").rows
    assert "brand-new" in rows[0].values()
    assert rows[0]["problems"] == (8 if kind == "task" else 10)
    assert 0 < rows[0]["samples_to_correct"] <= rows[0]["n"] + 1
    done = run_to_end([sys.executable, *shlex.split(tests)[1:]])
    assert done.returncode == 0, done.stdout
