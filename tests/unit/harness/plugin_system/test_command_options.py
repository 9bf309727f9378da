"""What the shell completes: names of components and kinds, from what is installed."""

import os
import subprocess
import sys

import pytest
from support.paths import ROOT

from harness.plugin_system import command_options


def completed(*words, cwd=ROOT, **environment):
    """What bash would be offered for the last of these words."""
    shell = {"_HARNESS_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    code = "import sys; sys.argv = ['harness']; from harness.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | shell | environment, capture_output=True, text=True, cwd=cwd
    )
    return done.stdout.split()


@pytest.mark.slow
def test_tasks_and_selectors_are_completed_on_the_command_line():
    assert {"game24", "gsm8k"} <= set(completed("harness", "run", "--task", "g"))
    assert completed("harness", "select", "--selector", "rep") == ["repexp"]
    assert completed("harness", "check", "sel") == ["selector"]
    assert completed("harness", "show", "selectors", "kc") == ["kcenter"]
    assert completed("harness", "show", "nonsense", "k") == []


@pytest.mark.parametrize("field", ["task", "selectors", "engine", "embedder", "sampler", "executor", "bonus"])
def test_each_option_that_names_a_component_is_completed(field):
    names = command_options.completer(field)("")
    assert names == sorted(names)
    assert names


def test_other_options_are_left_to_the_shell():
    assert [field for field in ("store", "n", "data", "plugin_files") if command_options.completer(field)] == []


def test_a_broken_registry_completes_nothing(monkeypatch):
    def broken():
        raise RuntimeError

    monkeypatch.setattr(command_options, "load_registry", broken)
    assert command_options.component_names("task", "") == []
