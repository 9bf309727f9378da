"""Every way in which a plugin can be broken or slow is found, named with its distribution, and stops nothing else."""

import sys
from functools import partial
from textwrap import dedent

import pytest
from corpora.broken_distributions import BROKEN, LAZY
from support.distributions import write_distribution
from support.refusals import refusal_of

from harness.plugin_system.catalogue import details
from harness.plugin_system.registry import load_registry

GOOD = """
    from harness import hookimpl
    class Good:
        "Reversed order."
        def rank(self, pool, rng):
            yield from range(len(pool))[::-1]
    @hookimpl
    def register_selectors(register):
        register("good", Good)
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install a throw-away distribution: `install("harness-foo", "1.0", source, entry="foo")`."""
    monkeypatch.syspath_prepend(tmp_path)

    yield partial(write_distribution, tmp_path)
    for name in [name for name in sys.modules if name.startswith("harness_throwaway")]:
        del sys.modules[name]


def test_a_broken_plugin_is_named_with_its_version_and_stops_nothing_else(install):
    for i, (source, _) in enumerate(BROKEN):
        install(f"harness-throwaway-{i}", "0.2", source, entry="thrown")
    hook = "\n    @hookimpl\n    def register_tasks(register):\n        raise OSError('disk')\n"
    install("harness-throwaway-half", "1", GOOD + hook)
    registry = load_registry()
    faults = {fault.origin.dist: fault for fault in registry.faults}
    assert "harness_throwaway_half.py" in faults.pop("harness-throwaway-half").trace
    for i, (_, text) in enumerate(BROKEN):
        fault = str(faults.pop(f"harness-throwaway-{i}"))
        assert (f"plugin 'thrown' from harness-throwaway-{i} 0.2" in fault, text in fault) == (True, True)
    assert not faults
    assert registry.find("selector", "good")  # the other hook of that plugin
    line = refusal_of(registry.find, "selector", "repex")
    assert (line.startswith("unknown selector 'repex' (did you mean 'repexp'?"), "'thrown' of" in line) == (True, True)


def test_a_factory_that_cannot_be_imported_is_an_error_only_where_it_is_used_and_doctor_shows_every_fault(
    install, harness
):
    install("harness-throwaway", "0.2", LAZY)
    assert not load_registry().faults
    line = refusal_of(details, "selector", "lazy", [])
    assert line == "selector 'lazy' from harness-throwaway 0.2 failed to import: No module named 'no_such_package'"
    install("harness-throwaway-too", "0.2", "import no_such_module_anywhere", entry="thrown")
    outcome = harness("doctor")
    assert outcome.code == 1
    for part in ("No module named 'no_such_module_anywhere'", "Traceback (most recent call last)", "'no_such_package'"):
        assert part in outcome.out


def test_a_name_of_two_distributions_is_ambiguous_until_the_distribution_is_written(install):
    install("harness-throwaway", "1", GOOD, entry="same")
    install("harness-throwaway-too", "2", GOOD.replace('("good"', '("uniform", Good); register("good"'), entry="same")
    registry = load_registry()
    line = refusal_of(registry.find, "selector", "good")
    assert [
        part for part in ("-throwaway 1 ", "-throwaway-too 2 ", "'harness-throwaway-too/good'") if part not in line
    ] == []
    line = refusal_of(registry.find, "selector", "uniform")
    assert line.endswith("write 'diversity-harness/uniform' or 'harness-throwaway-too/uniform'")
    assert registry.find("selector", "harness-throwaway-too/good").origin.version == "2"
    assert registry.find("selector", "diversity-harness/uniform").load().__name__ == "Uniform"


def test_a_plugin_file_is_loaded_and_a_broken_one_is_an_error(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(dedent(GOOD))
    assert load_registry([file]).find("selector", "mine/good")
    for source, text in (("1 / 0", "ZeroDivisionError"), ("def (", "SyntaxError"), ("x = 1", "has no hook")):
        file.write_text(source)
        assert text in refusal_of(load_registry, [file])
    assert "no such file" in refusal_of(load_registry, [tmp_path / "absent.py"])
