"""Find a problem's text and id in a data set's document, as evaluation tools log it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

PROMPTS = ("question", "problem", "prompt")  # names under which data sets keep a problem's text
IDS = ("unique_id", "task_id")  # names under which data sets keep ids that are not mere row numbers


def first_texts(document: Any, names: Sequence[str]) -> tuple[str, ...]:
    """Return the non-blank texts under these names, in the order of the names; () if the document is no mapping.

    names   in lower case; the document's keys may be in upper or lower case
    """
    if not isinstance(document, Mapping):
        return ()
    texts = {str(key).lower(): text for key, text in document.items() if isinstance(text, str) and text.strip()}
    return tuple(texts[name] for name in names if name in texts)
