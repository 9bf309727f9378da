"""`harness new KIND NAME`: write a small package, a plugin that passes its own tests.

Each kind starts from an algorithm that works, so that every step from there changes something that runs. The texts
are in templates/, as `string.Template`s.
"""

from __future__ import annotations

import keyword
import re
import shlex
import sys
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import Annotated, Any

import typer

from harness import __version__, hookimpl
from harness.errors import HarnessError
from harness.hookspecs import Register
from harness.plugin_system.command_options import Json, show
from harness.plugin_system.registry import load_registry

LONGEST_NAME = 32  # the templates' lines stay within 120 columns up to here

# Kind -> what its template does, and how it is raced where it stands, without network.
KINDS = {
    "selector": ("farthest-first traversal", "--task game24 --limit 10 --selector {name}"),
    "task": ("sums of two numbers", "--task {name} --pool responses.jsonl --selector repexp"),
    "embedder": ("hashed runs of characters", "--task game24 --limit 10 --embedder {name} --selector repexp"),
    "sampler": ("temperature and nucleus", "--task game24 --limit 10 --sampler {name} --selector repexp"),
    "engine": ("bigrams of characters", "--task game24 --limit 10 --engine {name} --selector repexp"),
}


@hookimpl
def register_commands(register: Register) -> None:
    """Register `harness new`."""
    register("new", "harness_plugins.scaffold.commands:new")


def new(
    kind: Annotated[str, typer.Argument(help="selector, task, embedder, sampler or engine")],
    name: Annotated[str, typer.Argument(help="lower-case words joined by '-', e.g. my-novelty")],
    into: Annotated[Path, typer.Option(help="The folder in which harness-NAME/ is made.")] = Path(),
    as_json: Json = False,
) -> None:
    """Start a plugin of your own: a small package that installs, runs and passes its own tests."""

    def shown(made: dict[str, Any]) -> None:
        print("\n".join([f"wrote {made['folder']}: {', '.join(made['files'])}", "next:", *made["commands"]]))

    show(new_package(kind, name, into), as_json, shown)


def new_package(kind: str, name: str, into: Path) -> dict[str, Any]:
    """Write the package harness-NAME into the folder `into`; return its `folder`, its `files` and the next `commands`.

    kind   "selector", "task", "embedder", "sampler" or "engine"

    HarnessError if the kind has no template, the name is not valid or is taken, or the package's folder is not empty.
    """
    kind = kind.removesuffix("s")
    if kind not in KINDS:
        raise HarnessError(f"new: no template for kind {kind!r} (there are {', '.join(KINDS)}); see docs/plugins.md")
    if len(name) > LONGEST_NAME or not re.fullmatch("[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        raise HarnessError(
            f"new {kind}: a name is lower-case words joined by '-', such as my-{kind}, of at most {LONGEST_NAME} "
            f"characters, got {name!r}"
        )
    module, class_name = f"harness_{name.replace('-', '_')}", "".join(word.capitalize() for word in name.split("-"))
    if taken := _taken(kind, name, module, class_name):
        raise HarnessError(f"new {kind}: {name!r} is {taken}: choose another name")
    start, race = KINDS[kind]
    commands = [
        "pip install -e '.[test]'",
        f"harness list {kind}s",
        f"harness run {race.format(name=name)} --selector uniform",
        f"harness check {kind} {name}",
        "python -m pytest",
    ]
    sources = {
        "pyproject.toml": "pyproject.toml",
        "README.md": "README.md",
        f"{module}.py": f"{kind}.py",
        f"tests/test_{module}.py": f"test_{kind}.py",
        **({"responses.jsonl": "task_responses.jsonl"} if kind == "task" else {}),
    }
    filled = {"kind": kind, "name": name, "dist": f"harness-{name}", "module": module, "Class": class_name}
    filled |= {"version": __version__, "start": start, "commands": "\n".join(commands)}
    folder, templates = into / f"harness-{name}", files(__package__).joinpath("templates")
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise HarnessError(f"new: {folder} exists and is not empty: choose another name or --into another folder")
        for path, source in sources.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            text = templates.joinpath(f"{source}.txt").read_text(encoding="utf-8")
            (folder / path).write_text(Template(text).substitute(filled), encoding="utf-8")
    except OSError as failure:
        raise HarnessError(f"new {kind}: cannot write {folder}: {failure.strerror or failure}") from failure
    return {"folder": str(folder), "files": list(sources), "commands": [f"cd {shlex.quote(str(folder))}", *commands]}


def _taken(kind: str, name: str, module: str, class_name: str) -> str:
    """Who has the name already: Python, its library, a plugin, an installed module; "" where nobody has."""
    if keyword.iskeyword(name) or keyword.iskeyword(class_name):
        return "a Python keyword"
    if name.replace("-", "_") in sys.stdlib_module_names:
        return "a module of Python's standard library"
    for registration in load_registry().of_kind(kind):
        if registration.name == name:
            return f"a {kind} of {registration.origin} already"
    return f"taken: the module {module} is installed already" if find_spec(module) else ""
