"""The house keeps its order: what the core imports, what files are called, what is documented, where tests stand."""

import ast
import re
import shutil
import sys
import tomllib

import numpy as np
import typer.main
from support.paths import ROOT
from support.processes import printed_by, run_to_end

from harness import hookspecs
from harness.cli import complete

FOLDERS = ("tasks", "selectors", "plugins")
SOURCE = {
    path.relative_to(ROOT).as_posix(): path.read_text()
    for folder in ("harness", *FOLDERS)
    for path in sorted((ROOT / folder).rglob("*.py"))
}
TESTS = [path for path in sorted((ROOT / "tests").rglob("*.py")) if path.name.startswith("test_")]
DOCUMENTS = {
    path.relative_to(ROOT).as_posix(): path.read_text()
    for path in [*ROOT.glob("*.md"), ROOT / "tests" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
}
HEAVY = {"torch", "transformers", "vllm", "datasets", "evalplus", "ray", "verl"}


def test_the_core_imports_no_plugin_and_nothing_heavy():
    forbidden = {"harness_tasks", "harness_selectors", "harness_plugins", *HEAVY}
    core = {path: text for path, text in SOURCE.items() if path.startswith("harness/")}
    importing = re.compile(rf"^ *(?:from|import) ({'|'.join(forbidden)})\b", re.M)
    assert [path for path, text in core.items() if importing.search(text)] == []
    modules = [path.removesuffix(".py").replace("/", ".") for path in core if "/__" not in path]
    code = f"import sys, importlib\nfor name in {modules!r}: importlib.import_module(name)\n"
    assert printed_by(code + f"print(sorted({forbidden!r} & set(sys.modules)))") == "[]"


def test_given_vectors_load_nothing_that_they_do_not_need(tmp_path):
    np.savez(tmp_path / "E.npz", a=np.random.default_rng(0).normal(size=(30, 4)))
    heavy = HEAVY | {"sklearn", "scipy.stats", "scipy.optimize", "matplotlib"}
    arguments = ["harness", "select", "--embeddings", "E.npz", "--selector", "repexp", "-k", "3"]
    code = f"import sys; from harness.cli import main; sys.argv = {arguments!r}\ntry: main()\n"
    code += f"except SystemExit as stop: print('heavy:', bool(stop.code), sorted({heavy!r} & set(sys.modules)))"
    assert printed_by(code, cwd=tmp_path).endswith("heavy: False []")


def test_no_file_bears_a_stdlib_modules_name_and_the_stdlib_keeps_its_selectors():
    stems = {path: path.rpartition("/")[2].removesuffix(".py") for path in [*SOURCE, *map(str, TESTS)]}
    assert [path for path, stem in stems.items() if stem in sys.stdlib_module_names and stem[:2] != "__"] == []
    assert [folder for folder in FOLDERS if (ROOT / folder / "__init__.py").exists()] == []
    code = "import selectors, asyncio, subprocess; print(selectors.__file__)"
    assert str(ROOT / "selectors") not in printed_by(code, cwd=ROOT)


def test_every_file_of_the_plugin_folders_is_packaged():
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = {path.rpartition("/")[0].replace("/", ".") for path in SOURCE if not path.startswith("harness/")}
    assert {folder for folder in folders if f"harness_{folder}" not in setuptools["packages"]} == set()
    files = {path for folder in FOLDERS for path in (ROOT / folder).rglob("*.*") if path.is_file()}
    packaged = set()
    for package, globs in setuptools["package-data"].items():
        folder = ROOT.joinpath(*package.removeprefix("harness_").split("."))
        packaged |= {path for glob in globs for path in folder.glob(glob)}
    assert len(packaged) > 20
    assert [str(path) for path in files - packaged if path.suffix not in (".py", ".pyc")] == []


def test_every_hook_and_command_is_documented_and_every_command_and_option_that_is_named_exists():
    hooks = [name for name in vars(hookspecs) if name.startswith("register_")]
    assert len(hooks) == 12
    plugins = DOCUMENTS["docs/plugins.md"]
    assert [hook for hook in hooks if hook not in plugins or not getattr(hookspecs, hook).__doc__] == []
    group, unknown = typer.main.get_command(complete()), []
    pages = (text for path, text in DOCUMENTS.items() if path.startswith(("README", "CONTRIBUTING", "docs/")))
    text = re.sub(r"\\\n", " ", "\n".join(pages))
    assert [name for name in group.commands if f"harness {name}" not in text] == []
    assert [name for name in group.commands["pool"].commands if f"pool {name}" not in text] == []
    for block in re.findall(r"```(?:sh|bash|console)\n(.*?)```", text, re.S):
        for line in re.findall(r"^ *(?:\$ ?)?harness (\w.*)", block, re.M):
            command = group
            for word in line.split():
                if not hasattr(command, "commands"):
                    break
                command = command.commands[word]
            known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
            unknown += [(line, option) for option in re.findall(r"(?<= )--[a-z-]+", line) if option not in known]
    assert unknown == []


def test_every_file_and_make_target_that_the_documents_name_exists():
    makefile, unknown = (ROOT / "Makefile").read_text(), []
    targets = {name for line in re.findall(r"^([a-z][a-z -]*):", makefile, re.M) for name in line.split()}
    folders = r"(?:harness|plugins|selectors|tasks|tests|docs|results)"
    for path, text in DOCUMENTS.items():
        if path == "docs/log.md":  # it names files as they were
            continue
        named = [word for pair in re.findall(r"^make ([a-z-]+)|`make ([a-z -]+)`", text, re.M) for word in pair]
        unknown += [(path, name) for name in " ".join(named).split() if name not in targets]
        files = re.findall(rf"(?<![\w./-]){folders}/(?!\S*NAME)[\w./-]+\.(?:py|md|json|jsonl)\b", text)
        beside = path.rpartition("/")[0] or "."
        files += [f"{beside}/{link}" for link in re.findall(r"\]\((?!https?:)([^)#]+)", text)]
        here = (ROOT, ROOT / "harness")
        unknown += [(path, name) for name in files if not any((root / name).exists() for root in here)]
    assert unknown == []


def test_what_asks_for_make_has_a_form_for_users_without_a_checkout():
    make = re.compile(r"\bmake (?:run|vllm|verl|esm)\b")
    for_developers = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/log.md")
    texts = {path: text for path, text in DOCUMENTS.items() if path.startswith("docs") or "/" not in path}
    texts = {path: text for path, text in texts.items() if path not in for_developers}
    for path in (path for path, text in SOURCE.items() if make.search(text)):
        constants = [node.value for node in ast.walk(ast.parse(SOURCE[path])) if isinstance(node, ast.Constant)]
        texts |= {f"{path}: {text[:40]}": text for text in constants if isinstance(text, str)}
    texts = {where: text for where, text in texts.items() if make.search(text)}
    assert len(texts) >= 3
    assert [where for where, text in texts.items() if "pip install" not in text] == []


# Who calls json.loads: what reads back what this program has written, over a pipe or in a folder of its own.
READS_ITS_OWN = """
harness/columns/responses.py harness/columns/store.py harness/jobs/options.py harness/results/leaderboard.py
harness/system/children.py harness/system/warden.py harness/testing/checking.py
plugins/engines/esm3/child.py plugins/engines/esm3/engine.py plugins/engines/vllm/child/harness_vllm/protocol.py
plugins/proteins/tiny.py plugins/reproduce/parts.py plugins/reproduce/rehearsal.py plugins/rl/training_run.py
plugins/rl/verl_steps.py tasks/sandbox/forked.py tasks/sandbox/tiers.py
"""


def test_json_from_outside_is_read_by_one_function():
    reading = re.compile(r"\bjson\.loads?\(|\bfrom json import|\borjson\b")
    found = {path for path, text in SOURCE.items() if reading.search(text)} - {"harness/system/json_text.py"}
    assert sorted(found - set(READS_ITS_OWN.split())) == []


def test_every_folder_of_the_source_has_tests_in_its_mirror_and_no_test_file_imports_another():
    folders = {path.rpartition("/")[0] for path in SOURCE if not path.endswith("__init__.py")} - {"harness"}
    unit = ROOT / "tests" / "unit"
    mirrored = {path.parent.relative_to(unit).as_posix() for path in TESTS if path.is_relative_to(unit)}
    assert sorted(folder for folder in folders - mirrored if folder.count("/") <= 2) == []
    another = re.compile(r"^ *(?:from|import) .*\b(?:test_\w+|conftest)\b", re.M)
    assert [str(path) for path in TESTS if another.search(path.read_text())] == []


def test_an_import_from_a_higher_layer_fails_the_lint(tmp_path):
    for folder in ("harness", *FOLDERS):
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
        file.write("\n\ndef upwards():\n    from harness.jobs import plan\n    return plan\n")
    broken = lint()
    assert broken.returncode == 1
    assert "harness.scoring is not allowed to import harness.jobs" in broken.stdout
