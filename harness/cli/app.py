"""Define the command groups, add the commands of plugins, run a command, and turn its errors into one line.

Each command parses its options, builds one config, calls one function and prints one table. Nothing heavy is imported
before a command runs, so that `harness --help` answers at once.
"""

from __future__ import annotations

import functools
import io
import os
import sys
import traceback
from typing import Annotated

import typer
from typer.models import CommandInfo

from harness import __version__
from harness.errors import Escaped, HarnessError, error_text, one_line
from harness.plugin_system.registry import COMMANDS, load_registry
from harness.system import console

app = typer.Typer(
    help="Which of many cheap responses to verify first: a benchmark harness for diversity selectors.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},  # commands and groups inherit them
)
results_app = typer.Typer(help="Published cells: copy them out, check them.", no_args_is_help=True)
app.add_typer(results_app, name="results")
# The order in `harness --help`; other commands stand after these.
ORDER = ("run", "select", "verify", "report", "list", "show", "check", "new", "doctor", "leaderboard", "plot")


@functools.cache
def complete() -> typer.Typer:
    """The command line with the commands of all plugins named in the entry-point group "harness.commands".

    A command that cannot be added is left out; `harness doctor` says why.
    """
    groups = {"": app, "results": results_app}
    commands = load_registry(groups=(COMMANDS,)).of_kind("command")
    for registration in sorted(commands, key=lambda command: command.name.count(" ")):  # groups before their commands
        group, _, name = registration.name.rpartition(" ")
        try:
            command = registration.load()
            if group not in groups:
                raise HarnessError(f"command {registration.name!r} from {registration.origin}: no group {group!r}")
        except HarnessError as failure:
            print(f"left out: {failure}", file=sys.stderr)
            continue
        if isinstance(command, typer.Typer):
            groups[group].add_typer(command, name=name)
            groups[registration.name] = command
        else:
            groups[group].command(name)(command)

    def place(command: CommandInfo) -> int:
        name = command.name or getattr(command.callback, "__name__", "")
        return [*ORDER, name].index(name)

    app.registered_commands.sort(key=place)
    return app


def main() -> None:
    """Run the command line; a HarnessError is one line on stderr and exit code 2."""
    if not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & set(os.environ):
        # How long a thread of torch spins while it waits for another. With the default, threads that share their cores
        # with other work keep each other from it. OpenMP reads this once, when torch is loaded, in workers too.
        os.environ["GOMP_SPINCOUNT"] = "1000"
    for stream in (sys.stdout, sys.stderr):  # print lone surrogates in texts as escapes
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        complete()()
    except HarnessError as failure:
        fault = str(failure)
    except OSError as failure:  # a path that cannot be used, in any module
        if failure.filename is None:
            raise
        fault = one_line(f"{failure.strerror}: {failure.filename}")
    except KeyboardInterrupt:
        sys.exit(130)
    except (Escaped, SystemExit) as failure:
        if isinstance(failure, SystemExit) and _is_ours(failure):
            # typer says "Aborted!" after Ctrl-C
            is_aborted = isinstance(getattr(failure.__context__, "__cause__", None), KeyboardInterrupt)
            raise SystemExit(130 if is_aborted else failure.code) from None
        fault = f"a plugin ended the command: it {error_text(failure)}"
    finally:
        console.end()
    print(f"error: {fault}", file=sys.stderr)
    sys.exit(2)


def _is_ours(stop: SystemExit) -> bool:
    """Whether the command line itself ended the process, as typer does when a command has returned, and not a plugin.

    rich ends the process where the reader of a pipe went away (`harness list | head`).
    """
    _, *deeper = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(stop.__traceback__)]
    return deeper[-1:] == ["rich.console"] or not any(name.partition(".")[0] == "harness" for name in deeper)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        print(f"diversity-harness {__version__}")
        raise typer.Exit
