"""Every way in which a plugin can be broken is found, named with its distribution, and stops nothing else.

The distributions are installed as pip installs them: a module and a .dist-info on `sys.path`.
"""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from textwrap import dedent

import pytest
from support.distributions import write_distribution
from support.processes import harness_command, run_to_end

from harness import HarnessError
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


def only_fault(dist: str = "harness-throwaway") -> str:
    (fault,) = [fault for fault in load_registry().faults if fault.origin.dist == dist]
    return str(fault)


def test_a_good_third_party_plugin_is_listed_with_its_origin(install):
    install("harness-throwaway", "1.2", GOOD)
    found = load_registry().find("selector", "good")
    assert str(found.origin) == "harness-throwaway 1.2"
    assert found.summary() == "Reversed order."


def test_builtins_come_in_through_the_same_group_without_faults():
    registry = load_registry()
    assert not registry.faults
    assert {r.name for r in registry.of_kind("selector")} >= {"repexp", "uniform"}
    samplers = {"vanilla", "low-temp", "high-temp", "min-p", "nucleus", "repexp-guided"}
    assert {r.name for r in registry.of_kind("sampler")} == samplers


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("import no_such_module_anywhere", "failed to import: No module named 'no_such_module_anywhere'"),
        ("raise SystemExit('bye')", "failed to import: SystemExit: bye"),
        ("def register_selectors(register): ...", "register_selectors is there but not marked with @hookimpl"),
        ("x = 1", "has no hook: mark a register_* function with @hookimpl"),
        (
            "from harness import hookimpl\n@hookimpl\ndef register_selektors(register): ...",
            "unknown hook 'register_selektors' (did you mean 'register_selectors'?",
        ),
        (
            "from harness import hookimpl\n@hookimpl\ndef register_selectors(registry, extra): ...",
            "has a hook of the wrong signature",
        ),
        (
            "from harness import hookimpl\n@hookimpl\ndef register_selectors(): ...",
            "registers nothing in register_selectors",
        ),
        (
            "from harness import hookimpl\n@hookimpl\ndef register_selectors(register): 1 / 0",
            "raised in register_selectors: ZeroDivisionError: division by zero",
        ),
        (
            "from harness import hookimpl\n@hookimpl\ndef register_selectors(register): register('a b', print)",
            "raised in register_selectors: TypeError: register: a name is a word",
        ),
        (
            "from harness import hookimpl\n@hookimpl\ndef register_selectors(register): register('ab', 3)",
            "the factory is a callable",
        ),
    ],
)
def test_a_broken_plugin_is_named_with_its_version_and_stops_nothing_else(install, source, said):
    install("harness-throwaway", "0.2", source, entry="thrown")
    fault = only_fault()
    assert said in fault
    assert "plugin 'thrown' from harness-throwaway 0.2" in fault
    assert load_registry().find("selector", "uniform")


def test_a_raising_hook_keeps_its_traceback_and_the_plugins_other_hooks(install):
    source = GOOD + "\n    @hookimpl\n    def register_tasks(register):\n        raise OSError('disk')\n"
    install("harness-throwaway", "1", source)
    registry = load_registry()
    (fault,) = registry.faults
    assert "harness_throwaway.py" in fault.trace
    assert registry.find("selector", "good")


def test_a_factory_that_cannot_be_imported_is_an_error_only_where_it_is_used(install, harness):
    source = """
        from harness import hookimpl
        @hookimpl
        def register_selectors(register):
            register("lazy", "no_such_package.module:Lazy")
    """
    install("harness-throwaway", "0.2", source)
    assert harness("list", "samplers").code == 0
    outcome = harness("show", "selector", "lazy")
    assert outcome.code == 2
    expected = "selector 'lazy' from harness-throwaway 0.2 failed to import: No module named 'no_such_package'"
    assert expected in outcome.err
    assert any(expected in fault["fault"] for fault in json.loads(harness("doctor", "--json").out)["faults"])


def test_a_name_registered_by_two_distributions_is_ambiguous_until_the_distribution_is_written(install):
    install("harness-throwaway", "1", GOOD)
    install("harness-throwaway-too", "2", GOOD)
    registry = load_registry()
    with pytest.raises(HarnessError) as caught:
        registry.find("selector", "good")
    for part in ("harness-throwaway 1 ", "harness-throwaway-too 2 ", "'harness-throwaway-too/good'"):
        assert part in str(caught.value)
    assert registry.find("selector", "harness-throwaway-too/good").origin.version == "2"
    assert len([fault for fault in registry.faults if "registers selector 'good'" in str(fault)]) == 1


def test_shadowing_a_builtin_changes_nothing_silently(install, toy):
    install("harness-throwaway", "1", GOOD.replace('"good"', '"uniform"'))
    outcome = toy("--selector", "uniform")
    assert outcome.code == 2
    assert "write 'diversity-harness/uniform' or 'harness-throwaway/uniform'" in outcome.err
    assert toy("--selector", "diversity-harness/uniform").code == 0
    assert toy("--selector", "harness-throwaway/uniform").code == 0


def test_two_distributions_may_use_one_entry_point_name(install):
    install("harness-throwaway", "1", GOOD, entry="same")
    install("harness-throwaway-too", "2", GOOD.replace('"good"', '"better"'), entry="same")
    registry = load_registry()
    assert not registry.faults
    assert registry.find("selector", "good").origin.dist == "harness-throwaway"
    assert registry.find("selector", "better").origin.dist == "harness-throwaway-too"


def test_one_distribution_registering_a_name_twice_is_told_so(install):
    twice = GOOD.replace('register("good", Good)', 'register("good", Good); register("good", Good)')
    install("harness-throwaway", "1", twice)
    with pytest.raises(HarnessError, match="registered twice by harness-throwaway"):
        load_registry().find("selector", "good")


def test_a_name_that_is_nearly_right_is_guessed_and_broken_plugins_are_hinted_at(install):
    install("harness-throwaway", "3", "import nothing_of_the_kind")
    with pytest.raises(
        HarnessError, match=r"unknown selector 'repex' \(did you mean 'repexp'\?.*'harness_throwaway' of"
    ):
        load_registry().find("selector", "repex")


def test_a_plugin_file_is_loaded_and_a_broken_one_is_an_error(tmp_path):
    good = tmp_path / "mine.py"
    good.write_text(dedent(GOOD))
    assert load_registry([good]).find("selector", "mine/good")
    bad = tmp_path / "bad.py"
    for source, said in (("1 / 0", "ZeroDivisionError"), ("def (", "SyntaxError"), ("x = 1", "has no hook")):
        bad.write_text(source)
        with pytest.raises(HarnessError, match=said):
            load_registry([bad])
    with pytest.raises(HarnessError, match="no such file"):
        load_registry([tmp_path / "absent.py"])


def test_doctor_reports_every_fault_in_a_process_of_its_own_and_exits_1(install, tmp_path):
    install("harness-throwaway", "0.2", "import no_such_module_anywhere", entry="thrown")
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = run_to_end(harness_command("doctor"), env=environment)
    assert done.returncode == 1
    assert "No module named 'no_such_module_anywhere'" in done.stdout
    assert "Traceback (most recent call last)" in done.stdout
    clean = run_to_end(harness_command("doctor"), cwd="/")
    assert clean.returncode == 0, clean.stdout
