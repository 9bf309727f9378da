"""Which libraries are missing, the command that installs them, and the hub, which is switched off and on again."""

from pathlib import Path

from support.refusals import refusal_of

from harness.system import extras


def test_all_missing_libraries_are_named_in_one_line_with_one_command(monkeypatch):
    absent = {"torch", "transformers", "kmedoids", "thirdparty"}
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name in absent else type("Spec", (), {"origin": ""}))
    needed = {"engine e": ["torch", "numpy", "transformers"], "selector s": ["kmedoids"], "selector t": ["numpy"]}
    assert refusal_of(extras.require_all, needed) == (
        "engine e needs torch, transformers; selector s needs kmedoids: not installed: "
        "pip install 'diversity-harness[hf,kmedoids]'"
    )
    line = "task x needs thirdparty: not installed: pip install thirdparty"
    assert refusal_of(extras.require, "task x", "thirdparty") == line
    extras.require_all({"selector t": ["numpy"], "selector u": []})


def test_a_folder_of_a_librarys_name_is_no_library(tmp_path, monkeypatch):
    (tmp_path / "runs_of_earlier_days").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert extras.missing(["json", "runs_of_earlier_days", "no_such_library"]) == [
        "runs_of_earlier_days",
        "no_such_library",
    ]


def test_every_extra_that_is_named_exists_and_brings_its_library():
    import tomllib

    from support.paths import ROOT

    declared = tomllib.loads(Path(ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    lacking = []
    for library, extra in extras.EXTRA.items():
        distribution = library.replace("_", "-")
        texts = " ".join(declared[extra]).replace("_", "-")
        if distribution not in texts and library != "huggingface_hub":  # transformers brings it
            lacking.append((extra, library))
    assert lacking == []
