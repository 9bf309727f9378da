"""A repository of the hub as its client gives it: every error of name, token and network is one line."""

from __future__ import annotations

import pytest
from support.hub_repositories import refused
from support.refusals import refusal_of

from harness_plugins.hub.dataset import HubDataset, _message


def test_what_is_no_name_of_a_repository_is_refused(hub):
    for name in ("colours", "a/b/../c", "lab/", "lab/a b", "läb/pool"):
        assert refusal_of(HubDataset, name, "pool pull") == f"pool pull: a repository is OWNER/NAME, got {name!r}"
    assert "no name that the hub takes" in refusal_of(HubDataset("lab/a..b", "pool push").snapshot_if_there)


def test_a_hub_out_of_reach_is_one_line(push, pull, hub, monkeypatch):
    hub.shutdown()
    hub.server_close()
    for outcome in (push(), pull()):
        refused(outcome, "is out of reach", hub.endpoint)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    refused(pull(), "is out of reach")


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (OSError("no route to https://hub/x?sig=1\nsecond line"), "OSError: no route to (address); run the same"),
        (ValueError('"license" must be\none of mit'), '"license" must be one of mit'),
        (OSError(""), "OSError: ; run the same command again to go on"),
    ],
)
def test_a_failure_is_told_by_its_first_line_without_addresses(failure, message):
    assert _message(failure).startswith(message)
    assert "\n" not in _message(failure)
