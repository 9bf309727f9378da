"""Make the HTML file: data in a JSON script element that no text can close, and a policy that blocks other scripts.

The Content-Security-Policy allows one script and one style by their hashes and forbids everything else. The script
inserts text as text only, never as HTML. Its source is several files, joined in this module, with shared names.

A page opened from disk can fetch nothing, but it can load scripts. So the pools that have no room in it are script
files beside it (`side_file`). The policy then also allows scripts with a nonce, which the page's own script gives them:
it is a hash of the data, so that no text in the data can name it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.resources import files
from typing import Any

import numpy as np

from ..figures.looks import COLOURS, DARK

BUDGET_BYTES = 2_800_000  # of JSON; with style and script the page stays under 3 MB
CUTS = (4000, 2000, 1000, 500, 250, 120, 40)
# Each after those it needs at load.
SCRIPTS = ("elements", "sorting", "table", "curves", "questions", "map", "panel", "playing", "loading", "problems")

# Characters that could close the element, start a comment in it, or cannot be encoded in UTF-8.
_UNSAFE = re.compile("[<>&\u2028\u2029\ud800-\udfff\x7f-\x9f\ufeff\ufffe\uffff]")


def page(data: Mapping[str, Any]) -> bytes:
    """Return the report's HTML page as UTF-8, with `data` as JSON in it; the same data gives the same bytes."""
    style, script, content = _colours() + _part("page.css"), joined_script(), encoded(data)
    nonce = hashlib.sha256(content).hexdigest()[:32] if data.get("files") else ""
    allowed = f"{_source(script)} 'nonce-{nonce}'" if nonce else _source(script)
    policy = f"default-src 'none'; script-src {allowed}; style-src {_source(style)}; "
    policy += "base-uri 'none'; form-action 'none'"
    parts = {"policy": policy, "style": style, "script": script, "data": content.decode()}
    parts["nonce"] = f' nonce="{nonce}"' if nonce else ""
    return re.sub(r"\{\{(\w+)\}\}", lambda slot: parts[slot[1]], _part("page.html")).encode()


def side_file(report: str, view: Mapping[str, Any]) -> bytes:
    """Return a script that hands one problem's view to the page: one statement, with one string literal, of JSON.

    report   the name of the report for which it was made; a page shows no pools of another
    """
    literal = json.dumps(encoded({"report": report, "view": view}).decode(), ensure_ascii=False)
    return f"document.currentScript.dataset.pool = {literal};\n".encode()


def _colours() -> str:
    """The colours of `looks` as variables, `--c0` and so on, for a light and a dark page."""
    light, dark = (" ".join(f"--c{i}: {colour};" for i, colour in enumerate(each)) for each in (COLOURS, DARK))
    return f":root {{ {light} }}\n@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n"


def joined_script() -> str:
    """Return the page's script, in one strict block: no name is global, and a name declared twice is an error."""
    parts = "\n".join(_part(f"{name}.js") for name in SCRIPTS)
    return f'"use strict";\n{{\n{parts}}}\n'


def encoded(data: Any) -> bytes:
    """Return the data as JSON that is safe in a script element: what could end the element or a comment is escaped.

    Escaped are `<`, `>`, `&`, U+2028, U+2029, U+007F to U+009F, U+FEFF, U+FFFE, U+FFFF and surrogates.
    """
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text).encode()


def fitted(views: Sequence[dict[str, Any]], budget: int) -> tuple[list[dict[str, Any]], int | None]:
    """Shorten texts until all views fit the budget (bytes of JSON); return the views and the length cut to, or None.

    If the shortest cut is not enough, every second problem in the order of hardness is removed until the rest fits.
    """
    shown = list(views)
    for most in CUTS:
        shown = list(map(partial(_shortened, most=most), views))
        if len(encoded(shown)) <= budget:
            return shown, most if any(isinstance(text, list) for view in shown for text in view["texts"]) else None
    while shown and len(encoded(shown)) > budget:
        keep = np.linspace(0, len(shown) - 1, len(shown) // 2).round().astype(int)
        shown = [shown[place] for place in keep]
    return shown, CUTS[-1]


def _shortened(view: Mapping[str, Any], most: int) -> dict[str, Any]:
    return {**view, "texts": [_cut_again(text, most) for text in view["texts"]]}


def _cut_again(text: str | Sequence[Any], most: int) -> Any:
    begin, length = (text, len(text)) if isinstance(text, str) else (text[0], text[1])
    return text if len(begin) <= most else [begin[:most], length]


def _part(name: str) -> str:
    return (files("harness_plugins.report") / name).read_text(encoding="utf-8")


def _source(text: str) -> str:
    """The name of an inline script or style in a policy: the hash of its text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
