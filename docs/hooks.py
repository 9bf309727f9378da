"""What the site adds to docs/: files of the repository from elsewhere, generated reference pages, and their links.

mkdocs calls the functions named `on_*`. A link to a file of the repository becomes a link to its page, else its words
alone; a link to nothing is a warning, with which a strict build fails.
"""

from __future__ import annotations

import logging
import posixpath
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

from reference_pages import command_page, schema_page

ROOT = Path(__file__).resolve().parent.parent
COPIED = {  # page -> file of the repository
    "index.md": "README.md",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
    "leaderboard.md": "results/leaderboard.md",
    "results.md": "results/README.md",
    "tests.md": "tests/README.md",
}
log = logging.getLogger("mkdocs.hooks")


# What mkdocs calls.


def on_files(files: Any, config: Any) -> Any:
    pages = {page: (ROOT / source).read_text() for page, source in COPIED.items()}
    pages |= {"reference/cli.md": command_page(), "reference/schemas.md": schema_page()}
    for page, text in pages.items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    titles, blocks = dict(_titles(config.nav)), re.split(r"(^ *```.*?^ *```$)", markdown, flags=re.M | re.S)
    texts = [block if index % 2 else linked(block, page.file.src_uri, titles) for index, block in enumerate(blocks)]
    return "".join(texts)


def on_page_content(html: str, page: Any, **_: Any) -> None:
    """Warn of a list that was read as text: unlike on GitHub, an empty line stands before a list."""
    for paragraph in re.findall(r"<p>(.*?)</p>", html, re.S):
        if item := re.search(r"\n *((?:\d+\.|[-*]) .{0,40})", paragraph):
            log.warning("%s: put an empty line before the list at %r", page.file.src_uri, item[1])


# Links.


def linked(text: str, page: str, titles: Mapping[str, str]) -> str:
    """The text of a page with its links to files of the repository rewritten: to pages of the site, else their words.

    titles  page -> its title; it replaces a link's text that is only the file's name
    """
    source = COPIED.get(page, f"docs/{page}")

    def rewritten(link: re.Match[str]) -> str:
        words, file, anchor = link[1], link[2], link[3] or ""
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), file))
        target = _page_of(path)
        if target is None:
            if not (ROOT / path).exists():
                log.warning("%s: link to %s, which is no file of the repository", source, file)
            return words
        if posixpath.basename(words) == posixpath.basename(file):
            words = titles.get(target, words)
        return f"[{words}]({posixpath.relpath(target, posixpath.dirname(page) or '.')}{anchor})"

    return re.sub(r"\[([^]]*)\]\((?!https?:|#|mailto:)([^)#\s]+)(#[^)]*)?\)", rewritten, text)


def _page_of(file: str) -> str | None:
    """The page that shows a file of the repository; None if none does."""
    copied = {source: page for page, source in COPIED.items()}
    inside = file.startswith("docs/") and not (ROOT / file).is_dir()
    return copied.get(file) or (file.removeprefix("docs/") if inside else None)


def _titles(nav: Any) -> Iterator[tuple[str, str]]:
    """Page and title of the entries of `nav` that have a title."""
    for entry in nav:
        for title, below in entry.items() if isinstance(entry, dict) else ():
            yield from [(below, title)] if isinstance(below, str) else _titles(below)
