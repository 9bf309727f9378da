"""verl's Python environment: where it is looked for, and what must be in it."""

import sys
from pathlib import Path

from support.refusals import refusal_of

from harness_plugins.rl.verl_environment import VARIABLE, _require, find_python, installed


def test_an_environment_is_found_by_parameter_then_variable_then_beside(monkeypatch, tmp_path):
    monkeypatch.setenv(VARIABLE, sys.executable)
    assert find_python(None) == Path(sys.executable)
    assert "python=/nowhere" in refusal_of(find_python, "/nowhere")
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setattr("harness_plugins.rl.verl_environment.find_spec", lambda name: None)
    monkeypatch.chdir(tmp_path)
    assert "python -m venv .venv-verl" in refusal_of(find_python, None)
    beside = tmp_path / ".venv-verl" / "bin" / "python"
    beside.parent.mkdir(parents=True)
    beside.touch()
    assert find_python(None) == beside


def test_an_environment_is_asked_what_it_has(tmp_path):
    python = tmp_path / "python"
    whole = '{"verl": "0.9.1", "TransferQueue": "1", "vllm": null, "diversity-harness": "1"}'
    python.write_text(f"#!/bin/sh\necho '{whole}'\n")
    python.chmod(0o755)
    assert installed(python)["verl"] == "0.9.1"
    python.write_text("#!/bin/sh\nexit 3\n")
    assert "does not run" in refusal_of(installed, python)


def test_what_an_environment_lacks_is_named():
    whole = {"verl": "0.9.1", "TransferQueue": "1", "vllm": None, "diversity-harness": "1"}
    for lacking, message in (
        ({"verl": None}, "has no verl"),
        ({"verl": "0.8.0"}, "has verl 0.8.0, but this plugin is for 0.9.1"),
        ({"TransferQueue": None}, "has no TransferQueue"),
        ({"diversity-harness": None}, "has no diversity-harness"),
    ):
        assert message in refusal_of(_require, whole | lacking, Path("python"))
