"""`harness new KIND NAME`: write a small package, a plugin that passes its own tests.

Each kind starts from an algorithm that works, so that every step from there changes something that runs. The texts
are in templates/, as `string.Template`s.
"""

from __future__ import annotations

import ast
import keyword
import re
import shlex
import sys
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import Any

from harness import __version__
from harness.errors import HarnessError
from harness.plugin_system.registry import load_registry

LONGEST_NAME = 32  # the templates' lines stay within 120 columns up to here

# What each kind's template does, and how it is raced where it stands, without network.
_START = {
    "selector": "farthest-first traversal",
    "task": "sums of two numbers",
    "embedder": "hashed runs of characters",
    "sampler": "temperature and nucleus",
}
_RACE = {
    "selector": "--task game24 --limit 10 --selector {name} --selector uniform",
    "task": "--task {name} --pool responses.jsonl --selector repexp --selector uniform",
    "embedder": "--task game24 --limit 10 --embedder {name} --selector repexp --selector uniform",
    "sampler": "--task game24 --limit 10 --sampler {name} --selector repexp --selector uniform",
}


def new_package(kind: str, name: str, into: Path) -> dict[str, Any]:
    """Write the package harness-NAME into the folder `into`; return its `folder`, its `files` and the next `commands`.

    kind   "selector", "task", "embedder" or "sampler"

    HarnessError if the kind has no template, the name is not valid or is taken, or the package's folder is not empty.
    """
    kind = kind.removesuffix("s")
    if kind not in _START:
        raise HarnessError(f"new: no template for kind {kind!r} (there are {', '.join(_START)}); see docs/plugins.md")
    _check_name(kind, name)
    texts = _texts(kind, name)
    folder = into / f"harness-{name}"
    try:
        _check_free(folder)
        for path, text in texts.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
    except OSError as failure:
        raise HarnessError(f"new {kind}: cannot write {folder}: {failure.strerror or failure}") from failure
    commands = [f"cd {shlex.quote(str(folder))}", *_commands(kind, name)]
    return {"folder": str(folder), "files": list(texts), "commands": commands}


def shown(made: dict[str, Any]) -> str:
    """Return what a person reads of a package just written (`new_package`): its files and what to type next."""
    return "\n".join([f"wrote {made['folder']}: {', '.join(made['files'])}", "next:", *made["commands"]])


def _check_name(kind: str, name: str) -> None:
    """Refuse a name that is none, or that Python, its library or a plugin has already."""
    if len(name) > LONGEST_NAME or not re.fullmatch("[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        raise HarnessError(
            f"new {kind}: a name is lower-case words joined by '-', such as my-{kind}, of at most {LONGEST_NAME} "
            f"characters, got {name!r}"
        )
    taken = _taken(kind, name)
    if taken:
        raise HarnessError(f"new {kind}: {name!r} is {taken}: choose another name")


def _taken(kind: str, name: str) -> str:
    """Who has the name already; "" where nobody has."""
    word, class_name, module = name.replace("-", "_"), _class_name(name), f"harness_{name.replace('-', '_')}"
    if keyword.iskeyword(word) or keyword.iskeyword(class_name):
        return "a Python keyword"
    if word in sys.stdlib_module_names:
        return "a module of Python's standard library"
    for registration in load_registry().of_kind(kind):
        if registration.name == name:
            return f"a {kind} of {registration.origin} already"
    if find_spec(module):
        return f"taken: the module {module} is installed already"
    if class_name in _names_used(kind):
        return f"taken: the {kind}'s file uses another {class_name}"
    return ""


def _check_free(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise HarnessError(f"new: {folder} exists and is not empty: choose another name or --into another folder")


def _texts(kind: str, name: str) -> dict[str, str]:
    """The package's files: path inside it -> content."""
    module = f"harness_{name.replace('-', '_')}"
    sources = {
        "pyproject.toml": "pyproject.toml",
        "README.md": "README.md",
        f"{module}.py": f"{kind}.py",
        f"tests/test_{module}.py": f"test_{kind}.py",
    }
    if kind == "task":
        sources["responses.jsonl"] = "task_responses.jsonl"
    filled = {
        "kind": kind,
        "name": name,
        "dist": f"harness-{name}",
        "module": module,
        "Class": _class_name(name),
        "version": __version__,
        "start": _START[kind],
        "commands": "\n".join(_commands(kind, name)),
    }
    return {path: Template(_template(source)).substitute(filled) for path, source in sources.items()}


def _commands(kind: str, name: str) -> list[str]:
    """From the package's folder: install, list, run, check, test."""
    return [
        "pip install -e '.[test]'",
        f"harness list {kind}s",
        f"harness run {_RACE[kind].format(name=name)}",
        f"harness check {kind} {name}",
        "python -m pytest",
    ]


def _template(name: str) -> str:
    return files(__package__).joinpath("templates", f"{name}.txt").read_text(encoding="utf-8")


def _class_name(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("-"))


def _names_used(kind: str) -> set[str]:
    """Every name that a kind's module and test use, beside its own class."""
    filled = dict.fromkeys(("name", "module", "Class"), "_own")
    trees = [ast.parse(Template(_template(source)).substitute(filled)) for source in (f"{kind}.py", f"test_{kind}.py")]
    return {node.id for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Name)}
