"""Whether the Hugging Face hub answers here: asked before its client is, which would try for half a minute."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

ANSWER_S = 5.0


def hub_is_out_of_reach() -> bool:
    """Whether the hub is switched off, or gives its own client no answer within `ANSWER_S`: then caches serve alone.

    A machine without network hears so within a second.
    """
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
def only_what_is_here() -> Iterator[None]:
    """Nothing is fetched inside: the hub's client, and children that are started, serve from their caches alone."""
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
