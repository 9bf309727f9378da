"""Take out of a message what tells of its machine and user: paths, addresses, and the names of both."""

from __future__ import annotations

import getpass
import os
import platform
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

LONGEST = 400  # characters of a message

URL = r"\b\w+://\S+"
ADDRESS = r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b"
QUOTED = r"(?<=')~?/[^']*(?=')|(?<=\")~?/[^\"]*(?=\")"  # a path between quotes, blanks and all
PATH = r"(?<![\w.])(?:~[\w.-]*)?(?:/[^\s/'\",:;()\[\]{}]+)+/?"
LIBRARY = re.compile(r"/([\w.-]+\.(?:py|so[\d.]*))$")  # the name of a file that tells only of a library


def anonymous(line: str) -> str:
    """Return the line, in which PATH, URL, ADDRESS, HOST and USER stand for what they name; cut to `LONGEST`."""
    for folder in sorted(_folders(), key=len, reverse=True):  # first, since a folder's name may hold blanks
        line = line.replace(folder, "/folder")
    line = re.sub(ADDRESS, "ADDRESS", re.sub(URL, "URL", line))
    line = re.sub(f"{QUOTED}|{PATH}", _without_folder, line)
    for name, word in _names():
        line = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", word, line)
    line = " ".join(line.split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 3]}..."


def _without_folder(path: re.Match[str]) -> str:
    library = LIBRARY.search(path[0])
    return f"PATH/{library[1]}" if library else "PATH"


def _folders() -> Iterator[str]:
    """Yield the folders of this user and process that messages can begin a path with."""
    for folder in (Path.cwd(), Path(os.path.expanduser("~")), Path(tempfile.gettempdir())):
        if len(folder.parts) > 1:
            yield str(folder)


def _names() -> Iterator[tuple[str, str]]:
    """Yield this machine's names, and the user's, each with the word that stands for it."""
    host = platform.node()
    for name in filter(None, (host, host.partition(".")[0])):
        yield name, "HOST"
    try:
        yield getpass.getuser(), "USER"
    except (KeyError, OSError):  # a container may run under a number without a name
        return
