"""`harness new`: what it writes installs, is listed, runs, conforms and passes its own tests, all untouched."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import sysconfig
import tomllib
from dataclasses import dataclass
from fnmatch import fnmatch
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from support.paths import ROOT
from support.processes import run_to_end

KINDS = ("selector", "task", "embedder", "sampler")
LONG = "a-name-of-exactly-32-characters2"


def can_build_without_the_network() -> bool:
    """Whether this environment's own setuptools can build a wheel by itself."""
    try:
        return tuple(map(int, version("setuptools").split(".")[:2])) >= (70, 1)
    except PackageNotFoundError:
        return False


@dataclass
class Environment:
    """A virtual environment of its own, in which what this one has installed can be imported, and one store for all."""

    folder: Path
    store: Path

    def __post_init__(self) -> None:
        self.store.mkdir()
        command = [sys.executable, "-m", "venv", "--without-pip", self.folder]
        subprocess.run(command, check=True)
        (site_packages,) = self.folder.glob("lib/python*/site-packages")
        installed = sysconfig.get_path("purelib")
        # addsitedir and no bare path: the harness itself may be there as an editable install, a .pth file
        (site_packages / "_installed.pth").write_text(f"import site; site.addsitedir({installed!r})\n")
        for name in ("harness", "pip"):
            script = self.folder / "bin" / name
            run = f"import runpy; runpy.run_module({name!r}, run_name='__main__', alter_sys=True)"
            script.write_text(f"#!{self.folder}/bin/python\n{run}\n")
            script.chmod(script.stat().st_mode | stat.S_IXUSR)

    def shell(self, command: str, cwd: Path) -> str:
        """What a command line prints; it must succeed."""
        if command.startswith("pip install") and can_build_without_the_network():
            command = command.replace("pip install", "pip install --no-build-isolation")
        unwanted = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYTEST_ADDOPTS")
        env = {key: value for key, value in os.environ.items() if key not in unwanted}
        env |= {"PATH": f"{self.folder}/bin:{env['PATH']}", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "COLUMNS": "200"}
        done = subprocess.run(
            command, shell=True, cwd=cwd, env=env, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    fresh = tmp_path_factory.mktemp("fresh")
    return Environment(fresh / "venv", fresh / "runs")


@pytest.fixture
def texts(harness, tmp_path):
    """Write a package and read it back: path inside it -> content."""

    def call(kind, name):
        made = harness("new", kind, name, "--into", tmp_path, "--json").rows
        return {path: (Path(made["folder"]) / path).read_text() for path in made["files"]}

    return call


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_commands_it_prints_install_list_run_check_and_test_the_package(kind, environment, tmp_path):
    name = f"brand-new-{kind}"
    made = json.loads(environment.shell(f"harness new {kind} {name} --json", tmp_path))
    enter, install, listing, race, check, tests = made["commands"]
    folder = tmp_path / made["folder"]
    assert enter == f"cd harness-{name}"
    (folder / "runs").symlink_to(environment.store)  # what one kind's run has sampled, the next reuses
    environment.shell(install, folder)
    (row,) = [row for row in json.loads(environment.shell(f"{listing} --json", folder)) if row["name"] == name]
    assert (row["from"], "broken" in row["what"]) == (f"harness-{name} 0.1.0", False)
    rows = json.loads(environment.shell(f"{race} --json", folder))
    assert name in rows[0].values()
    assert rows[0]["problems"] == (8 if kind == "task" else 10)
    assert 0 < rows[0]["samples_to_correct"] <= rows[0]["n"] + 1
    findings = json.loads(environment.shell(f"{check} --json", folder))
    assert {"passed"} <= {finding["outcome"] for finding in findings} <= {"passed", "not applicable"}
    passed = environment.shell(tests, folder)
    assert " passed" in passed
    assert " failed" not in passed


@pytest.mark.slow
def test_a_package_installed_for_good_works_from_anywhere_and_its_name_is_taken(environment, tmp_path):
    environment.shell("harness new selector brand-new-copy", tmp_path)
    environment.shell("pip install ./harness-brand-new-copy", tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert "harness-brand-new-copy 0.1.0" in environment.shell("harness show selector brand-new-copy", elsewhere)
    refusal = environment.shell("harness new selector brand-new-copy 2>&1 || true", elsewhere)
    assert "'brand-new-copy' is a selector of harness-brand-new-copy 0.1.0 already" in refusal
    refusal = environment.shell("harness new sampler brand-new-copy 2>&1 || true", elsewhere)
    assert "the module harness_brand_new_copy is installed already" in refusal


def test_a_person_is_told_the_files_and_the_next_commands(harness, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outcome = harness("new", "selector", "my-novelty", "--into", "a folder")
    first, after, *commands = outcome.out.splitlines()
    assert first.startswith("wrote a folder/harness-my-novelty: pyproject.toml, README.md, harness_my_novelty.py")
    assert after == "next:"
    assert commands[0] == "cd 'a folder/harness-my-novelty'"
    assert "harness check selector my-novelty" in commands
    shown = (tmp_path / "a folder" / "harness-my-novelty" / "README.md").read_text()
    assert "\n".join(commands[1:]) in shown


@pytest.mark.parametrize("kind", KINDS)
def test_the_files_listed_are_the_files_written_and_the_class_is_in_camel_case(kind, harness, tmp_path):
    made = harness("new", f"{kind}s", "top-50-words", "--into", tmp_path, "--json").rows
    folder = tmp_path / "harness-top-50-words"
    assert made["folder"] == str(folder)
    assert sorted(made["files"]) == sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())
    assert "class Top50Words" in (folder / "harness_top_50_words.py").read_text()


@pytest.mark.parametrize(
    ("kind", "name", "said"),
    [
        ("engine", "mine", "no template for kind 'engine' (there are selector, task, embedder, sampler)"),
        ("selektor", "mine", "no template for kind 'selektor'"),
        ("selector", "My-Novelty", "a name is lower-case words joined by '-', such as my-selector"),
        ("selector", "my_novelty", "got 'my_novelty'"),
        ("selector", "2-fast", "got '2-fast'"),
        ("selector", "fast-", "got 'fast-'"),
        ("selector", "../fast", "got '../fast'"),
        ("selector", "fast\n", "got 'fast\\n'"),
        ("selector", "", "got ''"),
        ("selector", f"{LONG}b", "at most 32 characters"),
        ("selector", "lambda", "'lambda' is a Python keyword"),
        ("selector", "none", "'none' is a Python keyword"),
        ("sampler", "random", "'random' is a module of Python's standard library"),
        ("selector", "uniform", "'uniform' is a selector of diversity-harness"),
        ("task", "game24", "'game24' is a task of diversity-harness"),
        ("embedder", "tasks", "the module harness_tasks is installed already"),
        ("selector", "pool", "the selector's file uses another Pool"),
        ("sampler", "harness-error", "the sampler's file uses another HarnessError"),
        ("task", "key-error", "the task's file uses another KeyError"),
    ],
)
def test_a_name_that_cannot_work_is_refused_in_one_line_and_nothing_is_written(kind, name, said, harness, tmp_path):
    outcome = harness("new", kind, name, "--into", tmp_path)
    assert outcome.code == 2
    assert said in outcome.err
    assert len(outcome.err.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_a_built_ins_name_of_another_kind_is_free(harness, tmp_path):
    assert harness("new", "embedder", "uniform", "--into", tmp_path).code == 0


def test_a_folder_with_content_is_left_alone_and_an_empty_one_is_filled(harness, tmp_path):
    folder = tmp_path / "harness-mine"
    folder.mkdir()
    assert harness("new", "task", "mine", "--into", tmp_path).code == 0
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    outcome = harness("new", "selector", "mine", "--into", tmp_path)
    assert outcome.code == 2
    assert (
        outcome.err == f"error: new: {folder} exists and is not empty: choose another name or --into another folder\n"
    )
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_a_place_that_cannot_be_written_is_one_line(harness, tmp_path):
    (tmp_path / "file").write_text("")
    outcome = harness("new", "task", "mine", "--into", tmp_path / "file")
    assert outcome.code == 2
    assert outcome.err.startswith(f"error: new task: cannot write {tmp_path}/file/harness-mine: ")
    assert len(outcome.err.splitlines()) == 1


@pytest.mark.parametrize("name", ["a", LONG])
@pytest.mark.parametrize("kind", KINDS)
def test_what_it_writes_is_clean_under_this_projects_rules_and_its_own(kind, name, harness, tmp_path):
    folder = harness("new", kind, name, "--into", tmp_path, "--json").rows["folder"]
    ours = ("--config", str(ROOT / "pyproject.toml"))
    for options in (("check", *ours), ("format", "--check", *ours), ("check",), ("format", "--check")):
        command = [sys.executable, "-m", "ruff", *options, "--no-cache", "."]
        done = run_to_end(command, cwd=folder)
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_what_it_writes_names_no_place_of_this_machine_or_project_and_leaves_nothing_open(kind, texts):
    forbidden = (str(ROOT), str(Path.home()), "/work", "harness_selectors", "harness_tasks", "harness_plugins", "docs/")
    for path, text in texts(kind, "mine").items():
        assert not [word for word in (*forbidden, "$", "TODO", "pass\n") if word in text], path


@pytest.mark.parametrize("kind", KINDS)
def test_the_package_depends_on_this_version_and_registers_itself(kind, texts):
    written = tomllib.loads(texts(kind, "my-own")["pyproject.toml"])["project"]
    assert written["dependencies"] == [f"diversity-harness>={version('diversity-harness')}"]
    assert written["entry-points"]["harness"] == {"my-own": "harness_my_own"}


def test_every_template_is_packaged():
    package_data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    package = ROOT / "plugins" / "scaffold"
    templates = [path.relative_to(package) for path in (package / "templates").rglob("*.*")]
    assert len(templates) >= 11
    for path in templates:
        assert any(fnmatch(str(path), pattern) for pattern in package_data["harness_plugins.scaffold"]), path
