"""`harness new`: which names it takes, and what it writes."""

import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

from support.paths import ROOT
from support.processes import run_to_end
from support.refusals import error_line, refusal_of

from harness_plugins.scaffold.commands import new_package

KINDS = ("selector", "task", "embedder", "sampler", "engine")
LONG = "a-name-of-exactly-32-characters2"


def test_what_it_writes_conforms_is_clean_and_is_a_whole_package_that_names_no_place_and_leaves_nothing_open(
    harness, tmp_path
):
    forbidden = (str(ROOT), str(Path.home()), "harness_selectors", "harness_tasks", "harness_plugins", "docs/")
    ours, runs = ("--config", str(ROOT / "pyproject.toml")), []
    for kind, name in zip(KINDS, ("top-50-words", "a", *[LONG] * 3), strict=True):
        made = new_package(f"{kind}s", name, tmp_path / kind)
        module, folder = f"harness_{name.replace('-', '_')}", tmp_path / kind / f"harness-{name}"
        texts = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}
        assert (made["folder"], sorted(made["files"])) == (str(folder), sorted(texts))
        assert "class " + "".join(map(str.capitalize, name.split("-"))) in texts[f"{module}.py"]
        written = tomllib.loads(texts["pyproject.toml"])["project"]
        assert written["dependencies"] == [f"diversity-harness>={version('diversity-harness')}"]
        assert written["entry-points"]["harness"] == {name: module}
        for path, text in texts.items():
            assert not [word for word in (*forbidden, "$", "TODO", "pass\n") if word in text], path
        runs.append((("check", *ours), folder))  # what is first-party depends on the folder
    runs += [(options, tmp_path) for options in (("format", "--check", *ours), ("check",), ("format", "--check"))]
    for options, folder in runs:
        done = run_to_end([sys.executable, "-m", "ruff", *options, "--no-cache", "."], cwd=folder)
        assert done.returncode == 0, done.stdout
    plugin = tmp_path / "selector" / "harness-top-50-words" / "harness_top_50_words.py"
    outcome = harness("check", "selector", "top-50-words", "--plugin", plugin)  # the others' run the kit in e2e
    assert (outcome.code, " 0 failed" in outcome.out) == (0, True)


def test_a_name_that_cannot_work_is_refused_in_one_line_and_nothing_is_written(tmp_path, monkeypatch):
    (tmp_path / "harness_taken_already.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    into = tmp_path / "into"
    for kind, name, reason in (
        ("executor", "mine", "no template for kind 'executor' (there are selector, task, embedder, sampler, engine)"),
        ("selector", "My-Novelty", "a name is lower-case words joined by '-', such as my-selector"),
        *[("selector", name, f"got {name!r}") for name in ("2-fast", "../fast", "fast\n", "")],
        ("selector", f"{LONG}b", "at most 32 characters"),
        ("selector", "lambda", "'lambda' is a Python keyword"),
        ("sampler", "random", "'random' is a module of Python's standard library"),
        ("selector", "uniform", "'uniform' is a selector of diversity-harness"),
        ("embedder", "tasks", "the module harness_tasks is installed already"),
        ("sampler", "taken-already", "the module harness_taken_already is installed already"),
    ):
        assert reason in refusal_of(new_package, kind, name, into)
    assert not into.exists()
    assert new_package("embedder", "uniform", into)  # a built-in's name of another kind is free


def test_an_empty_folder_is_filled_and_a_person_told_the_files_and_next_commands_one_with_content_is_left_alone(
    harness, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "a folder" / "harness-my-novelty"
    folder.mkdir(parents=True)
    new = ("new", "selector", "my-novelty", "--into", "a folder")
    first, after, *commands = harness(*new).out.splitlines()
    assert first.startswith("wrote a folder/harness-my-novelty: pyproject.toml, README.md, harness_my_novelty.py")
    assert (after, commands[0]) == ("next:", "cd 'a folder/harness-my-novelty'")
    assert "harness check selector my-novelty" in commands
    assert "\n".join(commands[1:]) in (folder / "README.md").read_text()
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert "a folder/harness-my-novelty exists and is not empty: choose another name or" in error_line(harness(*new))
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    (tmp_path / "file").write_text("")
    line = refusal_of(new_package, "task", "mine", tmp_path / "file")
    assert line.startswith(f"new task: cannot write {tmp_path}/file/harness-mine: ")
