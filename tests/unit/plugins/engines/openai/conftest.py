"""Short pauses for every test of this folder."""

import pytest
from support.openai_client import short_pauses  # noqa: F401


@pytest.fixture(autouse=True)
def _quick(short_pauses):  # noqa: F811
    """No test waits for a server that is busy."""
