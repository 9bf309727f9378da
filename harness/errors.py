"""The exception that users see as one line, and how the exceptions of plugins become such a line."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path


class HarnessError(Exception):
    """A mistake that the user can fix: who, what, got, and what to do, in one line whatever it quotes."""

    def __str__(self) -> str:
        return one_line(super().__str__())

    def _render_traceback_(self) -> list[str]:
        """What IPython and notebooks print in place of a traceback."""
        return [f"{type(self).__name__}: {self}"]


def one_line(text: str) -> str:
    """The text as one printable line: line ends become blanks, characters that a terminal would obey are escaped.

    The middle of a text of more than 4,000 characters is left out.
    """
    joined = " ".join(line.strip() for line in text.splitlines())
    if len(joined) > 4_000:
        joined = f"{joined[:3_000]} ... {joined[-900:]}"
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in joined)


class Lacking(HarnessError):
    """Something that a run needs is not on this machine: a library, data, weights, a sandbox."""


class NotBegun(HarnessError):
    """Long work (an hour or more, or much of unknown time) that nobody confirmed: it ends the whole command."""


class Escaped(Exception):
    """A plugin raised an exception that would end the process (SystemExit, its own BaseException): the `__cause__`."""


@contextmanager
def contained() -> Iterator[None]:
    """Turn what a plugin raises inside, if it is no `Exception`, into `Escaped`: only a row fails, the run goes on.

    Ctrl-C stays KeyboardInterrupt. Put no `yield` inside: the GeneratorExit that ends a generator would be turned too.
    """
    try:
        yield
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as failure:
        raise Escaped(f"{type(failure).__name__}: {failure}".rstrip(": ")) from failure


def error_text(failure: BaseException) -> str:
    """A HarnessError's own line, or for any other exception `raised TYPE: MESSAGE (FILE.py:LINE)`.

    The line is the innermost one outside the harness and installed libraries, where there is one: the plugin's own.
    """
    if isinstance(failure, HarnessError):
        return str(failure)
    if isinstance(failure, Escaped) and failure.__cause__:
        failure = failure.__cause__
    frames = traceback.extract_tb(failure.__traceback__)
    libraries = (f"{Path(__file__).parent}{os.sep}", f"{os.path.dirname(os.__file__)}{os.sep}", "<")
    own = [frame for frame in frames if not (frame.filename.startswith(libraries) or "site-packages" in frame.filename)]
    frame = (own or frames)[-1]
    try:
        text = " ".join(str(failure).split())
    except Exception:  # a plugin's exception may not be able to say what it is
        text = ""
    return f"raised {type(failure).__name__}: {text:.500} ({Path(frame.filename).name}:{frame.lineno})"


def did_you_mean(name: str, known: Iterable[str], what: str = "installed") -> str:
    """`(did you mean 'repexp'? installed: repexp, uniform)`, without the guess if no name is similar.

    what  what the known names are; "": the guess alone is returned, `did you mean 'repexp'?`
    """
    names = sorted(set(known))
    close = get_close_matches(name, names, n=1, cutoff=0.5)
    guess = f"did you mean {close[0]!r}?" if close else ""
    return f"({guess}{' ' * bool(guess)}{what}: {', '.join(names) or 'none'})" if what else guess
