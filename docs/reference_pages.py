"""The pages of the site that are generated: the commands and the schemas of files, as Markdown."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main

from docstrings import with_lists
from harness.cli import complete

DOCS = Path(__file__).resolve().parent
COMMANDS = """# The command line

`harness COMMAND --help` prints the same, with the commands of the plugins that you have installed. Exit codes: 0, 1
(something failed), 2 (wrong use).
"""
SCHEMAS = """# File schemas

Other programs may read these files. Each has a JSON Schema, made from the code's own types; fields are only ever added.

- `cell`: one file in `runs/cells/`, what one selector did on one set of problems: orders and counts, no metrics.
- `row`: one row of a table, as `harness run` and `harness leaderboard` print it with `--json`. What each key means is
  in [statistics.md](../statistics.md#what-each-key-of-a-row-means).
- `selected`: one line of `harness select --jsonl`.

In a cell `labels` name what was run together. `inputs` hold the key and the parameters of every stage; `versions`,
`hardware` and `weights` say what made it, `conditions` where it was graded. A problem has `n` responses, `c` of them
correct, and `errors` of the verifier. `ranks` has one number for each trial: the rank of the first correct response,
from 1, or n + 1 if there is none. `orders` are the indices up to that response. A subset method has `hits` in their
place: for each budget and trial, whether a correct response is among those selected.

Pool files, which you write, and the files of a store are in [pools.md](../pools.md).
"""

# The command line.


def command_page() -> str:
    """The reference of all commands, those of plugins included, with their arguments and options."""
    contexts = _contexts(typer.main.get_command(complete()), "harness")
    return COMMANDS + "".join(_command(context.command, context) for context in contexts)


def _contexts(command: Any, name: str, parent: Any = None) -> Iterator[Any]:
    """A command's context and those below it, which inherit its settings."""
    context = command.make_context(name, [], parent=parent, resilient_parsing=True)
    yield context
    for below, child in getattr(command, "commands", {}).items():
        yield from _contexts(child, below, context)


def _command(command: Any, context: Any) -> str:
    path = context.command_path
    records = [(option.param_type_name, option.get_help_record(context)) for option in command.get_params(context)]
    rows = [f"| `{name}` | {_cell(text)} |" for kind, record in records if record for name, text in [record]]
    usage = command.get_usage(context).removeprefix("Usage: ")
    table = "\n".join(["| argument or option | meaning |", "|---|---|", *rows])
    return f"\n## {path}\n\n{command.help}\n\n```\n{usage}\n```\n\n{table}\n"


def _cell(text: str) -> str:
    return re.sub(r"([|*_<])", r"\\\1", " ".join(text.split()))


# The files that the harness writes.


def schema_page() -> str:
    """The fields of each schema of docs/schemas/, as tables."""
    parts = [SCHEMAS]
    for path in sorted((DOCS / "schemas").glob("*.json")):
        schema = json.loads(path.read_text())
        link = f"[docs/schemas/{path.name}](../schemas/{path.name})"
        parts.append(f"\n## {path.stem}\n\nSchema: {link}\n{_fields(schema)}")
        parts += [f"\n### {name}\n{_fields(part)}" for name, part in schema.get("$defs", {}).items()]
    return "".join(parts)


def _fields(schema: dict[str, Any]) -> str:
    required = schema.get("required", ())
    rows = [
        f"| `{name}` | {_kind(value)} | {'yes' if name in required else ''} |"
        for name, value in schema["properties"].items()
    ]
    table = "\n".join(["| field | type | always there |", "|---|---|---|", *rows])
    return f"\n{with_lists(schema['description'])}\n\n{table}\n"


def _kind(schema: dict[str, Any]) -> str:
    """A JSON type in words: "list of integer", "number or null"."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(map(_kind, schema["anyOf"]))
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"object: name → {_kind(schema['additionalProperties'])}"
    return str(schema.get("type", "any"))
