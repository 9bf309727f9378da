"""Make a model's text safe to show on a page: spell out invisible characters and cut long texts."""

from __future__ import annotations

import re

# Control characters, changes of writing direction, characters without width, lone surrogates and noncharacters.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ufdd0-\ufdef\ufffe\uffff\ud800-\udfff\U000e0000-\U000e0fff]"
)
_STACKED = re.compile(
    "([\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff]{4})[\u0300-\u036f\u0483-\u0489"
    "\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff]+"
)


def visible(text: str) -> str:
    """Return the text with invisible characters as `⟨U+202E⟩`; tabs and line ends stay, at most four accents stack."""
    text = text.replace("\r\n", "\n")
    return _STACKED.sub(r"\1", _UNSEEN.sub(lambda match: f"⟨U+{ord(match[0]):04X}⟩", text))


def cut(text: str, most: int) -> str | list[str | int]:
    """Return the text, made `visible`; if it has more than `most` characters, [its beginning, its length]."""
    return visible(text) if len(text) <= most else [visible(text[:most]), len(text)]
