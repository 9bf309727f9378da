"""The private parts of verl that the plugin leans on, checked on a stand-in for verl; and its whole checkpoints.

The latter: resuming.py.
"""

import sys
from importlib.metadata import PackageNotFoundError
from types import ModuleType

from support.refusals import refusal_of

from harness_plugins.rl.verl_child import contract, resuming


class Stable:
    """A stand-in for a class of verl."""

    def kept(self, batch, metrics):
        """As it was read."""


def test_all_that_differs_from_what_was_read_is_named_in_one_line(monkeypatch):
    module = ModuleType("stand_in")
    module.Stable = Stable
    monkeypatch.setitem(sys.modules, "stand_in", module)
    contract.require({"stand_in:Stable.kept": ("self", "batch", "metrics"), "stand_in:Stable": None})
    changed = {"stand_in:Stable.gone": None, "stand_in:Stable.kept": ("self", "batch"), "no_such_module:x": None}
    line = refusal_of(contract.require, changed | {"stand_in:Stable": None})
    reasons = line.removeprefix("verl: this installation is not the 0.9.1 that the plugin leans on: ").split("; ")
    assert reasons[:2] == [
        "stand_in has no Stable.gone",
        "stand_in:Stable.kept takes (self, batch, metrics), not (self, batch)",
    ]
    assert reasons[2].startswith("no_such_module cannot be imported (No module named 'no_such_module')")
    assert len(reasons) == 3


def test_another_version_and_no_verl_at_all_are_one_line_each():
    contract.require_version(lambda name: contract.VERSION)
    assert "0.9.2 is installed" in refusal_of(contract.require_version, lambda name: "0.9.2")

    def absent(name: str) -> str:
        raise PackageNotFoundError(name)

    assert "not installed" in refusal_of(contract.require_version, absent)


def test_only_marked_checkpoints_count_and_verl_is_pointed_at_the_last_or_begins_anew(tmp_path):
    tracker, folders = tmp_path / resuming.TRACKER, {n: tmp_path / f"global_step_{n}" for n in (2, 4, 10, 12)}
    folders[2].mkdir()
    tracker.write_text("2")
    assert resuming.tidy(tmp_path) == 0
    assert list(tmp_path.iterdir()) == []
    for step, folder in folders.items():
        folder.mkdir()
        if step < 12:
            resuming.mark_complete(folder)
    tracker.write_text("")  # as a kill between opening and writing leaves it
    assert list(resuming.complete(tmp_path)) == [2, 4, 10]
    assert resuming.tidy(tmp_path) == 10
    assert tracker.read_text() == "10"
    assert not folders[12].exists()


def test_a_step_is_logged_when_its_whole_line_is_there(tmp_path):
    metrics = tmp_path / "metrics.jsonl"
    assert not resuming.logged(metrics, 2)
    metrics.write_text('{"step": 20, "reward": 1.0}\n{"step": 2, "rew')
    assert not resuming.logged(metrics, 2)
    assert resuming.logged(metrics, 20)
