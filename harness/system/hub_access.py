"""Test whether the Hugging Face hub is reachable (its client would retry for half a minute), or do without it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from . import extras

ANSWER_S = 5.0


def hub_is_out_of_reach() -> bool:
    """Whether the hub is switched off or does not answer within `ANSWER_S`; then only caches can be used.

    On a machine without network this takes less than a second.
    """
    extras.require("the Hugging Face hub", "huggingface_hub")
    from huggingface_hub import constants
    from huggingface_hub.utils import get_session  # type: ignore[attr-defined]

    if constants.HF_HUB_OFFLINE:
        return True
    try:
        get_session().head(constants.ENDPOINT, timeout=ANSWER_S)
    except Exception:  # the client is httpx or, of older versions, requests: they have no error in common
        return True
    return False


@contextmanager
def hub_offline() -> Iterator[None]:
    """Let the hub's client, and child processes started inside, use only their caches and fetch nothing."""
    from huggingface_hub import constants

    before, variable = constants.HF_HUB_OFFLINE, os.environ.get("HF_HUB_OFFLINE")
    constants.HF_HUB_OFFLINE = True
    os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before
        if variable is None:
            del os.environ["HF_HUB_OFFLINE"]
        else:
            os.environ["HF_HUB_OFFLINE"] = variable
