"""The house keeps its order: what the core imports, what files are called, what is documented."""

from __future__ import annotations

import ast
import re
import shutil
import sys
from pathlib import Path

import pytest
from support.paths import ROOT
from support.processes import printed_by, run_to_end

from harness import hookspecs
from harness.cli import complete

FOLDERS = ("harness", "tasks", "selectors", "plugins", "tests")
SOURCES = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
FORBIDDEN = {"harness_tasks", "harness_selectors", "harness_plugins"}
FORBIDDEN |= {"torch", "transformers", "vllm", "datasets", "evalplus", "ray", "verl"}


def imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add((node.module or "").split(".")[0])
    return found


@pytest.mark.parametrize("path", [p for p in SOURCES if p.is_relative_to(ROOT / "harness")], ids=lambda p: p.name)
def test_the_core_imports_no_plugin_and_nothing_heavy(path):
    assert not imported(path) & FORBIDDEN


def test_the_whole_core_loads_without_torch():
    files = [path.relative_to(ROOT).with_suffix("") for path in (ROOT / "harness").rglob("*.py")]
    modules = [".".join(path.parts) for path in files if not path.stem.startswith("__")]
    code = f"import sys, importlib\nfor name in {modules!r}: importlib.import_module(name)\n"
    code += f"print(sorted({FORBIDDEN!r} & set(sys.modules)))"
    assert printed_by(code) == "[]"


def test_no_file_bears_a_stdlib_modules_name():
    taken = set(sys.stdlib_module_names)
    assert not [str(path) for path in SOURCES if path.stem in taken and not path.stem.startswith("__")]


def test_the_plugin_folders_are_no_packages_and_the_stdlib_keeps_its_selectors():
    for folder in ("tasks", "selectors", "plugins"):
        assert not (ROOT / folder / "__init__.py").exists()
    code = "import selectors, asyncio, subprocess; print(selectors.__file__)"
    assert str(ROOT / "selectors") not in printed_by(code, cwd=ROOT)


def test_every_python_file_of_the_plugin_folders_is_packaged():
    import tomllib

    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    for folder in ("tasks", "selectors", "plugins"):
        packages = {path.parent for path in (ROOT / folder).rglob("*.py")}
        names = {f"harness_{'.'.join(package.relative_to(ROOT).parts)}" for package in packages}
        assert names <= set(listed)


def test_every_hook_is_documented():
    text = (ROOT / "docs" / "plugins.md").read_text()
    hooks = [name for name in vars(hookspecs) if name.startswith("register_")]
    assert len(hooks) == 15
    for hook in hooks:
        assert hook in text
        assert getattr(hookspecs, hook).__doc__


def test_every_command_and_option_that_the_documents_name_exists():
    import typer.main

    documents = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    group = typer.main.get_command(complete())
    for path in documents:
        text = re.sub(r"\\\n", " ", path.read_text())
        for block in re.findall(r"```(?:sh|bash|console)\n(.*?)```", text, re.S):
            for line in block.splitlines():
                if not re.match(r"\$? ?harness \w", line.strip()):
                    continue
                command = group
                for word in line.strip().removeprefix("$").split()[1:]:
                    if not hasattr(command, "commands"):
                        break
                    command = command.commands[word]
                known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
                assert set(re.findall(r"(?<= )--[a-z-]+", line)) <= known, f"{path.name}: {line}"


def test_every_command_is_documented():
    import typer.main

    text = (ROOT / "README.md").read_text() + "".join(path.read_text() for path in (ROOT / "docs").rglob("*.md"))
    commands = typer.main.get_command(complete()).commands
    for name in commands:
        assert f"harness {name}" in text
    for name in commands["pool"].commands:
        assert f"harness pool {name}" in text or f"pool {name}" in text


def lines_of(node):
    return node.end_lineno - node.lineno + 1


def parameters_of(node):
    given = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
    return [argument.arg for argument in given if argument.arg not in ("self", "cls")]


CODE = [path for path in SOURCES if not path.is_relative_to(ROOT / "tests")]


@pytest.mark.parametrize("path", CODE, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_functions_and_lists_of_parameters_are_short(path):
    text = path.read_text()
    assert text.count("\n") <= 400
    functions = [
        node for node in ast.walk(ast.parse(text)) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    assert not [node.name for node in functions if lines_of(node) > 60]
    if not path.stem.endswith("commands"):
        assert not [node.name for node in functions if len(parameters_of(node)) > 7]


def test_an_import_from_a_higher_layer_fails_the_lint(tmp_path):
    for folder in ("harness", "plugins", "selectors", "tasks"):
        name = folder if folder == "harness" else f"harness_{folder}"
        shutil.copytree(ROOT / folder, tmp_path / name, ignore=shutil.ignore_patterns("models", "__pycache__"))
    (tmp_path / "harness_plugins" / "models").mkdir()
    shutil.copy(ROOT / "plugins" / "models" / "checkpoint.py", tmp_path / "harness_plugins" / "models")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)

    def lint():
        code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); sys.argv = ['lint-imports', '--no-cache']\n"
        code += "from importlinter.cli import lint_imports_command; lint_imports_command()"
        return run_to_end([sys.executable, "-c", code], cwd=tmp_path)

    assert lint().returncode == 0
    with (tmp_path / "harness" / "scoring" / "metrics.py").open("a") as file:
        file.write("\n\ndef upwards():\n    from harness.running import plan\n    return plan\n")
    broken = lint()
    assert broken.returncode == 1
    assert "harness.scoring is not allowed to import harness.running" in broken.stdout
