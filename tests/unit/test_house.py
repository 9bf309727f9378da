"""The house keeps its order: what the core imports, what files are called, what is documented, where tests stand."""

import ast
import re
import shutil
import sys
import tomllib
from functools import cache

import typer.main
from support.paths import ROOT
from support.processes import printed_by, run_to_end

from harness import hookspecs
from harness.cli import complete

FOLDERS = ("tasks", "selectors", "plugins")
SOURCE = [path for folder in ("harness", *FOLDERS) for path in sorted((ROOT / folder).rglob("*.py"))]
TESTS = [path for path in sorted((ROOT / "tests").rglob("*.py")) if path.name.startswith("test_")]
DOCUMENTS = [*ROOT.glob("*.md"), ROOT / "tests" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
MAKEFILE = (ROOT / "Makefile").read_text()
SETUPTOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
# Documents that tell, and do not ask, users to type something.
NO_HINTS = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "log.md")
HEAVY = {"torch", "transformers", "vllm", "datasets", "evalplus", "ray", "verl"}


@cache
def tree(path):
    return ast.parse(path.read_text())


def shown(path):
    return path.relative_to(ROOT).as_posix()


def imported(path):
    """The top-level names of the modules that a file imports."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module.split(".")[0]


def test_the_core_imports_no_plugin_and_nothing_heavy():
    forbidden = {"harness_tasks", "harness_selectors", "harness_plugins", *HEAVY}
    core = [path for path in SOURCE if path.is_relative_to(ROOT / "harness")]
    assert [shown(path) for path in core if forbidden & set(imported(path))] == []
    modules = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in core if path.stem[:2] != "__"]
    code = f"import sys, importlib\nfor name in {modules!r}: importlib.import_module(name)\n"
    assert printed_by(code + f"print(sorted({forbidden!r} & set(sys.modules)))") == "[]"


def test_no_file_bears_a_stdlib_modules_name_and_the_stdlib_keeps_its_selectors():
    taken = {name for name in sys.stdlib_module_names if not name.startswith("__")}
    assert [shown(path) for path in SOURCE + TESTS if path.stem in taken] == []
    assert [folder for folder in FOLDERS if (ROOT / folder / "__init__.py").exists()] == []
    code = "import selectors, asyncio, subprocess; print(selectors.__file__)"
    assert str(ROOT / "selectors") not in printed_by(code, cwd=ROOT)


def test_every_file_of_the_plugin_folders_is_packaged():
    plugins = {shown(path.parent).replace("/", ".") for path in SOURCE if not path.is_relative_to(ROOT / "harness")}
    assert {folder for folder in plugins if f"harness_{folder}" not in SETUPTOOLS["packages"]} == set()
    files = {path for folder in FOLDERS for path in (ROOT / folder).rglob("*.*") if path.is_file()}
    packaged = set()
    for package, globs in SETUPTOOLS["package-data"].items():
        folder = ROOT.joinpath(*package.removeprefix("harness_").split("."))
        packaged |= {path for glob in globs for path in folder.glob(glob)}
    assert len(packaged) > 20
    assert [shown(path) for path in files - packaged if path.suffix not in (".py", ".pyc")] == []


def test_every_hook_and_command_is_documented_and_every_command_and_option_that_is_named_exists():
    text = (ROOT / "docs" / "plugins.md").read_text()
    hooks = [name for name in vars(hookspecs) if name.startswith("register_")]
    assert len(hooks) == 12
    assert [hook for hook in hooks if hook not in text or not getattr(hookspecs, hook).__doc__] == []
    group, unknown = typer.main.get_command(complete()), []
    documents = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    text = re.sub(r"\\\n", " ", "\n".join(path.read_text() for path in documents))
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
    pairs = re.findall(r"^([a-z][a-z-]*)(?=[ a-z-]*:)|(?<= )([a-z-]+)(?=[ a-z-]*:)", MAKEFILE, re.M)
    targets, unknown = {name for pair in pairs for name in pair if name}, []
    folders = r"(?:harness|plugins|selectors|tasks|tests|docs|results)"
    for path in DOCUMENTS:
        if path.name == "log.md":  # it names files as they were
            continue
        text = path.read_text()
        named = [word for pair in re.findall(r"^make ([a-z-]+)|`make ([a-z -]+)`", text, re.M) for word in pair]
        unknown += [(shown(path), name) for name in " ".join(named).split() if name not in targets]
        files = re.findall(rf"(?<![\w./-]){folders}/(?!\S*NAME)[\w./-]+\.(?:py|md|json|jsonl)\b", text)
        files += [f"{shown(path.parent)}/{link}" for link in re.findall(r"\]\((?!https?:)([^)#]+)", text)]
        here = (ROOT, ROOT / "harness")
        unknown += [(shown(path), name) for name in files if not any((root / name).exists() for root in here)]
    assert unknown == []


def test_what_asks_for_make_has_a_form_for_users_without_a_checkout():
    make = re.compile(r"\bmake (?:run|vllm|verl|esm)\b")
    texts = {}
    for path in SOURCE:
        constants = (node.value for node in ast.walk(tree(path)) if isinstance(node, ast.Constant))
        texts |= {f"{shown(path)}: {text[:40]}": text for text in constants if isinstance(text, str)}
    texts |= {shown(path): path.read_text() for path in DOCUMENTS if path.name not in NO_HINTS}
    texts = {where: text for where, text in texts.items() if make.search(text) and not where.startswith("tests/")}
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
    found = {shown(path) for path in SOURCE if reading.search(path.read_text())} - {"harness/system/json_text.py"}
    assert sorted(found - set(READS_ITS_OWN.split())) == []


def test_every_folder_of_the_source_has_tests_in_its_mirror_and_no_test_file_imports_another():
    folders = {path.parent.relative_to(ROOT) for path in SOURCE if path.name != "__init__.py"}
    unit = ROOT / "tests" / "unit"
    mirrored = {path.parent.relative_to(unit) for path in TESTS if path.is_relative_to(unit)}
    alone = {folder for folder in folders - mirrored if len(folder.parts) <= 3 and str(folder) != "harness"}
    assert sorted(map(str, alone)) == []
    another = re.compile(r"^ *(?:from|import) .*\b(?:test_\w+|conftest)\b", re.M)
    assert [shown(path) for path in TESTS if another.search(path.read_text())] == []


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
