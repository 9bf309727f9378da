"""The private parts of verl that the plugin leans on, checked on a stand-in for verl."""

import sys
from importlib.metadata import PackageNotFoundError
from types import ModuleType

import pytest
from support.refusals import refusal_of

from harness_plugins.rl.verl_child import contract


class Stable:
    """A stand-in for a class of verl."""

    def kept(self, batch, metrics):
        """As it was read."""


@pytest.fixture(autouse=True)
def stand_in(monkeypatch):
    """A module with that class."""
    module = ModuleType("stand_in")
    module.Stable = Stable
    monkeypatch.setitem(sys.modules, "stand_in", module)


def test_what_is_as_it_was_read_passes():
    contract.require({"stand_in:Stable.kept": ("self", "batch", "metrics"), "stand_in:Stable": None})


def test_all_that_differs_is_named_in_one_line():
    line = refusal_of(
        contract.require,
        {
            "stand_in:Stable.gone": None,
            "stand_in:Stable.kept": ("self", "batch"),
            "no_such_module:x": None,
            "stand_in:Stable": None,
        },
    )
    reason = line.removeprefix("verl: this installation is not the 0.9.1 that the plugin leans on: ").split("; ")
    assert reason[0] == "stand_in has no Stable.gone"
    assert reason[1] == "stand_in:Stable.kept takes (self, batch, metrics), not (self, batch)"
    assert reason[2].startswith("no_such_module cannot be imported (No module named 'no_such_module')")
    assert len(reason) == 3


def test_another_version_and_no_verl_at_all_are_one_line_each():
    contract.require_version(lambda name: contract.VERSION)
    assert "0.9.2 is installed" in refusal_of(contract.require_version, lambda name: "0.9.2")

    def absent(name: str) -> str:
        raise PackageNotFoundError(name)

    assert "not installed" in refusal_of(contract.require_version, absent)
