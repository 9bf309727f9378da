"""The blocks of code that a document shows."""

from __future__ import annotations

import re

from support.paths import ROOT


def code_blocks(name: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / name).read_text(), re.S)
