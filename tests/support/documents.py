"""The blocks of code and the generated tables that a document shows."""

from __future__ import annotations

import re

from support.paths import ROOT


def code_blocks(name: str, language: str, section: str = "") -> list[str]:
    """The blocks of a document, or of its section of that heading."""
    text = (ROOT / name).read_text()
    if section:
        [text] = re.findall(rf"^## {section}$\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    return re.findall(rf"```{language}\n(.*?)```", text, re.S)


def table_rows(name: str, block: str) -> list[list[str]]:
    """The texts of the table that `make results` writes between `<!-- from results: BLOCK -->` and the end, by row."""
    [table] = re.findall(rf"<!-- from results: {block} -->\n(.*?)<!-- end -->", (ROOT / name).read_text(), re.S)
    rows = [[text.strip() for text in line.strip("|").split("|")] for line in table.splitlines()]
    return [row for row in rows if not row[0].startswith("---")]
