"""The options of commands, a plugin's commands too: written once, as fields of the dataclass that they fill.

    @dataclass(frozen=True)
    class Request:
        task: Annotated[str | None, Help("What is solved, e.g. game24.")] = None

    @app.command()
    @takes(Request)
    def solve(given: dict[str, Any], as_json: Json = False) -> None:
        show(solved(Request(**given)), as_json, print_table)

gives `solve` the option `--task`; what a command has beside the record's fields stays a parameter of its own.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import sys
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from harness.system import output

Command: TypeAlias = Callable[..., None]


@dataclass(frozen=True)
class Help:
    """What `--help` says of a field. flags: what the option is called, where that is not `--field-name`.

    filled  it is None unless it was given: something else fills it then (a task's own defaults)
    """

    text: str
    flags: Sequence[str] = ()
    metavar: str | None = None
    filled: bool = False


def takes(record: type, *only: str, without: Sequence[str] = ()) -> Callable[[Command], Command]:
    """Decorate a command: its first parameter is then a dict of the record's fields, which become its options.

    only, without: names of fields that are the options, or are not. A field without `Help` is none.
    """

    def decorate(function: Command) -> Command:
        fields = [name for name in _helped(record) if (not only or name in only) and name not in without]
        own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
        keyword = inspect.Parameter.KEYWORD_ONLY
        options = [*(_parameter(record, name) for name in fields), *(one.replace(kind=keyword) for one in own)]

        def command(**values: Any) -> None:
            given = {name: _value(record, name, values.pop(name)) for name in fields}
            function(given, **values)

        command.__name__, command.__doc__ = function.__name__, function.__doc__
        command.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
        command.__annotations__ = {one.name: one.annotation for one in options}
        return command

    return decorate


def _helped(record: type) -> dict[str, tuple[Any, Help]]:
    """The fields that are options, the record's own before those that it inherits: their types and their help."""
    hints = typing.get_type_hints(record, include_extras=True)
    names = dict.fromkeys(name for base in record.__mro__ for name in vars(base).get("__annotations__", ()))
    annotated = {name: hints[name] for name in names if isinstance(getattr(hints[name], "__metadata__", (0,))[0], Help)}
    return {name: (hint.__origin__, hint.__metadata__[0]) for name, hint in annotated.items()}


def _parameter(record: type, name: str) -> inspect.Parameter:
    hint, about = _helped(record)[name]
    default = {field.name: field.default for field in dataclasses.fields(record)}[name]
    repeated = _is_repeated(hint)
    if repeated:
        [item] = typing.get_args(repeated)
        hint, default = list[item] | None, None  # type: ignore[valid-type]
    if about.filled:
        hint, default = hint | None, None
    flags = about.flags or ([f"--{name.replace('_', '-')}"] if hint is bool and not default else ())
    option = typer.Option(*flags, help=about.text, metavar=about.metavar)
    given = inspect.Parameter.empty if default is dataclasses.MISSING else default
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=given, annotation=Annotated[hint, option])


def _is_repeated(hint: Any) -> Any:
    """`Sequence[...]` where the field is one, or may be one; None for any other."""
    choices = typing.get_args(hint) if type(None) in typing.get_args(hint) else (hint,)
    return next((one for one in choices if typing.get_origin(one) is Sequence), None)


def _value(record: type, name: str, value: Any) -> Any:
    """The value as the record has it: several as a tuple, none of them as its default."""
    if not _is_repeated(_helped(record)[name][0]):
        return value
    default = {field.name: field.default for field in dataclasses.fields(record)}[name]
    return tuple(value) if value else default


# Options that are no field of a record.


def reserve_stdout(context: typer.Context, value: bool) -> bool:
    """With --json nothing but the JSON reaches stdout, whatever plugins print until the command ends."""
    if value:
        context.with_resource(output.reserved())
    return value


Json = Annotated[
    bool, typer.Option("--json", help="Print JSON instead of a table.", callback=reserve_stdout, is_eager=True)
]
Plugin = Annotated[
    list[Path] | None, typer.Option("--plugin", help="A plugin in a single file, e.g. ./my_selector.py; repeatable.")
]
StoreDir = Annotated[Path, typer.Option("--store", help="Where pools, vectors, verdicts, rankings and cells are kept.")]
Data = Annotated[Path | None, typer.Option("--data", help="A local file with the task's problems.")]
Yes = Annotated[bool, typer.Option("--yes", help="Begin what takes an hour or more without asking.")]
StoredKey = Annotated[str, typer.Argument(help="The key of a pool in the store (its beginning will do).")]
Cells = Annotated[list[Path] | None, typer.Argument(help="Where cells are, and below; default results/.")]


# What commands print.


def show(value: Any, as_json: bool, table: Callable[[Any], object]) -> None:
    """Print a command's result: as JSON on stdout, or by the function that prints its table."""
    if as_json:
        output.write(json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    else:
        table(value)


@contextmanager
def resumable(line: str = "what is finished is kept; run the same command again to go on") -> Iterator[None]:
    """Ctrl-C inside ends the command with one line, which says how it goes on, and exit code 130."""
    try:
        yield
    except KeyboardInterrupt:
        print(f"interrupted: {line}", file=sys.stderr)
        raise typer.Exit(130) from None


def fields_of(record: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the values that are fields of the record."""
    return {name: value for name, value in given.items() if name in record.__dataclass_fields__}  # type: ignore[attr-defined]
