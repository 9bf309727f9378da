"""A problem's text and id in a data set's document, a prompt and its responses, as evaluation tools log them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness import HarnessError

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


def generated(value: Any, where: str) -> list[str]:
    """Return logged responses: a text, or texts in a list or in lists of lists; HarnessError if there is none."""
    texts: list[Any] = []
    for entry in value if isinstance(value, list) else [value]:
        texts += entry if isinstance(entry, list) else [entry]
    if not texts or not all(isinstance(text, str) for text in texts):
        raise HarnessError(
            f"{where}: holds no responses (those of a multiple-choice task are log-likelihoods): only tasks that "
            "generate make a pool"
        )
    return texts


def messages_text(prompt: Any) -> str:
    """Return a prompt as text: itself, or the contents of its chat messages; "" if it is neither."""
    if isinstance(prompt, list) and all(isinstance(message, Mapping) and "content" in message for message in prompt):
        return "\n".join(str(message["content"]) for message in prompt)
    return prompt if isinstance(prompt, str) else ""
