"""The hub is switched off where nothing may be fetched, and left as it was."""

from __future__ import annotations

import os

from harness.system.hub_access import hub_is_out_of_reach, hub_offline


def test_while_the_hub_is_off_nothing_is_fetched_and_afterwards_all_is_as_before(monkeypatch):
    from huggingface_hub import constants

    for before in (None, "0"):
        monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
        if before:
            monkeypatch.setenv("HF_HUB_OFFLINE", before)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        with hub_offline():
            assert constants.HF_HUB_OFFLINE
            assert hub_is_out_of_reach()
            assert os.environ["HF_HUB_OFFLINE"] == "1"
        assert not constants.HF_HUB_OFFLINE
        assert os.environ.get("HF_HUB_OFFLINE") == before
