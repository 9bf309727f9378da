"""Sandboxes for the tests of this folder: the best one here, and one of each tier."""

import pytest

from harness import HarnessError
from harness_tasks.sandbox import Sandbox, tiers


@pytest.fixture(scope="session")
def sandbox():
    """A sandbox with two workers, in the best tier that this machine has."""
    with Sandbox(2, unsafe_exec=True) as made:
        yield made


@pytest.fixture(scope="session", params=tiers.TIERS)
def each_tier(request):
    """A sandbox with one worker, in each tier that this machine has."""
    try:
        made = Sandbox(1, tier=request.param, unsafe_exec=True)
    except HarnessError as refusal:
        pytest.skip(str(refusal))
    with made:
        yield made
