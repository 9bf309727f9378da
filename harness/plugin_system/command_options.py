"""Define a command's options once, as fields of the dataclass that they fill; for plugins' commands too.

    @dataclass(frozen=True)
    class Request:
        task: Annotated[str | None, Help("What is solved, e.g. game24.")] = None

    @app.command()
    @takes(Request)
    def solve(given: dict[str, Any], as_json: Json = False) -> None:
        show(solved(Request(**given)), as_json, print_table)

gives `solve` the option `--task`; all other options of a command stay parameters of its function.
"""

from __future__ import annotations

import dataclasses
import functools
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

from harness.system import console

Command: TypeAlias = Callable[..., None]


@dataclass(frozen=True)
class Help:
    """The help text of a field that is an option.

    flags    the option's names, if not `--field-name`
    metavar  what the help shows in place of the value; None is typer's choice
    filled   the option is None if the user does not give it; something else then fills it (a task's defaults)
    """

    text: str
    flags: Sequence[str] = ()
    metavar: str | None = None
    filled: bool = False


def takes(record: Any, *only: str, without: Sequence[str] = ()) -> Callable[[Command], Command]:
    """Return a decorator for a command: the record's fields become options, passed as a dict in the first argument.

    record   a dataclass; its fields with a `Help` become options: all, or `only` these, `without` those

    The dict has an entry for each of these options. The function's other parameters stay parameters of the command.
    """
    fields = {name: of for name, of in _helped(record).items() if (not only or name in only) and name not in without}

    def decorate(function: Command) -> Command:
        keyword = inspect.Parameter.KEYWORD_ONLY
        others = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
        options = [_parameter(record, name) for name in fields] + [other.replace(kind=keyword) for other in others]

        def command(**values: Any) -> None:
            given = {name: values.pop(name) for name in fields}
            for name in (name for name, (hint, _) in fields.items() if _items(hint)):  # typer's lists
                given[name] = tuple(given[name] or ()) or record.__dataclass_fields__[name].default
            function(given, **values)

        command.__name__, command.__doc__ = function.__name__, function.__doc__
        command.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
        command.__annotations__ = {option.name: option.annotation for option in options}
        return command

    return decorate


def option_names(record: type) -> dict[str, str]:
    """Field -> its option without dashes: "selectors" -> "selector", "max_tokens" -> "max_tokens"."""
    helped = _helped(record).items()
    return {name: (help_.flags or [name])[0].lstrip("-").replace("-", "_") for name, (_, help_) in helped}


@functools.cache
def _helped(record: type) -> dict[str, tuple[Any, Help]]:
    """Field -> its type and help, for the fields that are options; those of the class before inherited ones."""
    hints = typing.get_type_hints(record, include_extras=True)
    names = dict.fromkeys(name for base in record.__mro__ for name in vars(base).get("__annotations__", ()))
    annotated = {name: hints[name] for name in names if isinstance(getattr(hints[name], "__metadata__", (0,))[0], Help)}
    return {name: (hint.__origin__, hint.__metadata__[0]) for name, hint in annotated.items()}


def _parameter(record: Any, name: str) -> inspect.Parameter:
    hint, help_ = _helped(record)[name]
    default = record.__dataclass_fields__[name].default
    if items := _items(hint):
        hint, default = list[items] | None, None  # type: ignore[valid-type]
    if help_.filled:
        hint, default = hint | None, None
    flags = help_.flags or ([f"--{name.replace('_', '-')}"] if hint is bool and not default else ())
    option = typer.Option(*flags, help=help_.text, metavar=help_.metavar)
    default = inspect.Parameter.empty if default is dataclasses.MISSING else default
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[hint, option])


def _items(hint: Any) -> Any:
    """The type of the items of a field that is a Sequence, or one or None; None for any other field."""
    choices = (hint, *typing.get_args(hint))
    return next((typing.get_args(choice)[0] for choice in choices if typing.get_origin(choice) is Sequence), None)


# Options that are parameters of command functions.


def reserve_stdout(context: typer.Context, value: bool) -> bool:
    """Send to stderr whatever plugins print until the command ends, if `value` (--json) is true; return `value`."""
    if value:
        context.with_resource(console.reserved())
    return value


Json = Annotated[
    bool, typer.Option("--json", help="Print JSON instead of a table.", callback=reserve_stdout, is_eager=True)
]
Explain = Annotated[bool, typer.Option("--explain", help="Say below the table what each column and mark means.")]
Plugin = Annotated[
    list[Path] | None, typer.Option("--plugin", help="A plugin in a single file, e.g. ./my_selector.py; repeatable.")
]
StoreDir = Annotated[Path, typer.Option("--store", help="Where pools, vectors, verdicts, rankings and cells are kept.")]
Data = Annotated[Path | None, typer.Option("--data", help="A local file with the task's problems.")]
Yes = Annotated[bool, typer.Option("--yes", help="Begin what takes an hour or more without asking.")]
StoredKey = Annotated[str, typer.Argument(help="The key of a pool in the store (its beginning will do).")]
Cells = Annotated[list[Path] | None, typer.Argument(help="Where cells are, and below; default results/, else runs/.")]


def default_cells() -> tuple[Path, ...]:
    """The folders whose cells are read where none is given: results/ if it exists, else the default store."""
    return (Path("results") if Path("results").is_dir() else Path("runs"),)


# What commands print.


def show(value: Any, as_json: bool, table: Callable[[Any], object]) -> None:
    """Print a command's result: as JSON on stdout, or by the function that prints its table."""
    if as_json:
        console.write(json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    else:
        table(value)


@contextmanager
def resumable(line: str = "what is finished is kept; run the same command again to go on") -> Iterator[None]:
    """End the command on Ctrl-C with exit code 130 and one line, which says how to resume."""
    try:
        yield
    except KeyboardInterrupt:
        print(f"interrupted: {line}", file=sys.stderr)
        raise typer.Exit(130) from None


def fields_of(record: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of `given` whose names are fields of the dataclass `record`."""
    return {name: value for name, value in given.items() if name in record.__dataclass_fields__}  # type: ignore[attr-defined]
