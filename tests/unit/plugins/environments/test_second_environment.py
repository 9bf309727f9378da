"""Where a second Python environment is looked for, and what it is asked."""

import sys
from pathlib import Path

import pytest
from support.refusals import refusal_of

from harness_plugins.environments.second_environment import SecondEnvironment


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.delenv("HERE_PYTHON", raising=False)
    return SecondEnvironment("here", "a_library", "HERE_PYTHON", tmp_path / "beside", "make here")


def program(path, lines):
    """A program in the place of an interpreter."""
    path.write_text(f"#!/bin/sh\n{lines}\n")
    path.chmod(0o755)
    return path


def test_an_interpreter_is_the_requested_or_the_variables_or_this_or_the_one_beside(place, tmp_path, monkeypatch):
    def absent(name):
        return None

    unset = f"(HERE_PYTHON is not set and {place.beside} is not there): make here"
    assert refusal_of(place.find, None, absent) == f"here: no environment with a_library {unset}"
    assert place.find(None, lambda name: name == "a_library" or None) == Path(sys.executable)
    program(place.beside, "exit")
    assert place.find(None, absent) == place.beside
    monkeypatch.setenv("HERE_PYTHON", str(program(tmp_path / "variable", "exit")))
    assert place.find(None, absent) == tmp_path / "variable"
    assert place.find(str(program(tmp_path / "requested", "exit")), absent) == tmp_path / "requested"
    assert "here: python=/nowhere is not there: " in refusal_of(place.find, "/nowhere", absent)
    monkeypatch.setenv("HERE_PYTHON", "/nowhere")
    assert "here: HERE_PYTHON=/nowhere is not there: " in refusal_of(place.find, None, absent)


def test_an_interpreter_that_fails_or_answers_no_json_is_one_line(place, tmp_path):
    for lines, reason in (
        ("echo loading >&2; echo 'ImportError: libfoo' >&2; exit 3", "does not run: ImportError: libfoo"),
        ("exit 3", "does not run: Command"),
        ("echo no json", "does not run: its answer: not JSON (Expecting value"),
    ):
        python = program(tmp_path / "python", lines)
        assert refusal_of(place.answer, python, "print(1)").startswith(f"here: {python} {reason}")
    assert "does not run: [Errno 2] No such file" in refusal_of(place.answer, tmp_path / "none", "print(1)")
