"""The HTML file: data in a JSON script element that no text can close, and a policy that blocks other scripts.

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
from importlib.resources import files
from typing import Any

import numpy as np

from ..figures.looks import COLOURS, DARK

BUDGET_BYTES = 2_800_000  # of JSON; with style and script the page stays under 3 MB
CUTS = (4000, 2000, 1000, 500, 250, 120, 40)
SCRIPTS = ("elements", "results", "questions", "panels", "browser")  # each after those it needs at load

# Characters that could close the element, start a comment in it, or cannot be encoded in UTF-8.
_UNSAFE = re.compile("[<>&\u2028\u2029\ud800-\udfff\x7f-\x9f\ufeff\ufffe\uffff]")
# Control characters, changes of writing direction, characters without width, lone surrogates and noncharacters.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ufdd0-\ufdef\ufffe\uffff\ud800-\udfff\U000e0000-\U000e0fff]"
)
_ACCENT = "[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff]"
_STACKED = re.compile(f"({_ACCENT}{{4}}){_ACCENT}+")


def page(data: Mapping[str, Any], name: str = "report", scripts: Sequence[str] = SCRIPTS) -> bytes:
    """Return an HTML page as UTF-8: NAME.html in its frame, with `data` as JSON; the same data gives the same bytes."""
    light, dark = (" ".join(f"--c{i}: {colour};" for i, colour in enumerate(each)) for each in (COLOURS, DARK))
    style = f":root {{ {light} }}\n@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n"
    style, script, content = style + _part("page.css"), joined_script(scripts), encoded(data)
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (script, style)]
    nonce = hashlib.sha256(content).hexdigest()[:32] if data.get("files") else ""
    allowed = f"'sha256-{hashes[0]}'" + (f" 'nonce-{nonce}'" if nonce else "")
    policy = f"default-src 'none'; script-src {allowed}; style-src 'sha256-{hashes[1]}'; "
    policy += "base-uri 'none'; form-action 'none'"
    parts = {"policy": policy, "style": style, "script": script, "data": content.decode(), "name": name}
    parts["body"] = _part(f"{name}.html")
    parts["nonce"] = f' nonce="{nonce}"' if nonce else ""
    return re.sub(r"\{\{(\w+)\}\}", lambda slot: parts[slot[1]], _part("frame.html")).encode()


def side_file(report: str, view: Mapping[str, Any]) -> bytes:
    """Return a script that hands one problem's view to the page: one statement, with one string literal, of JSON.

    report   the name of the report for which it was made; a page shows no pools of another
    """
    literal = json.dumps(encoded({"report": report, "view": view}).decode(), ensure_ascii=False)
    return f"document.currentScript.dataset.pool = {literal};\n".encode()


def joined_script(scripts: Sequence[str] = SCRIPTS) -> str:
    """Return the page's script, in one strict block: no name is global, and a name declared twice is an error."""
    parts = "\n".join(_part(f"{name}.js") for name in scripts)
    return f'"use strict";\n{{\n{parts}}}\n'


def _part(name: str) -> str:
    return (files("harness_plugins.report") / name).read_text(encoding="utf-8")


def encoded(data: Any) -> bytes:
    """Return the data as JSON that is safe in a script element: what could end the element or a comment is escaped."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text).encode()


def visible(text: str) -> str:
    """Return the text with invisible characters as `⟨U+202E⟩`; tabs and line ends stay, at most four accents stack."""
    text = text.replace("\r\n", "\n")
    return _STACKED.sub(r"\1", _UNSEEN.sub(lambda match: f"⟨U+{ord(match[0]):04X}⟩", text))


def cut(text: str, most: int) -> str | list[str | int]:
    """Return the text, made `visible`; if it has more than `most` characters, [its beginning, its length]."""
    return visible(text) if len(text) <= most else [visible(text[:most]), len(text)]


def fitted(views: Sequence[dict[str, Any]], budget: int) -> tuple[list[dict[str, Any]], int | None]:
    """Shorten texts until all views fit the budget (bytes of JSON); return the views and the length cut to, or None.

    If the shortest cut is not enough, every second problem in the order of hardness is removed until the rest fits.
    """

    def shortened(text: Any) -> Any:
        begin, length = (text, len(text)) if isinstance(text, str) else text
        return text if len(begin) <= most else [begin[:most], length]

    shown = list(views)
    for most in CUTS:
        shown = [{**view, "texts": list(map(shortened, view["texts"]))} for view in views]
        if len(encoded(shown)) <= budget:
            return shown, most if any(isinstance(text, list) for view in shown for text in view["texts"]) else None
    while shown and len(encoded(shown)) > budget:
        shown = [shown[place] for place in np.linspace(0, len(shown) - 1, len(shown) // 2).round().astype(int)]
    return shown, CUTS[-1]
