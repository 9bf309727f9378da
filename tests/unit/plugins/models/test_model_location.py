"""What a model's name means, and folders that lack a part: one line each."""

from __future__ import annotations

from support.refusals import refusal_of

from harness import HarnessError
from harness_plugins.engines.transformers.engine import Transformers
from harness_plugins.models.model_location import Location, locate, one_line_errors
from harness_plugins.models.tiny24 import folder as embedded


def test_a_name_means_an_embedded_model_a_folder_or_the_hub(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    own = embedded("tiny24")
    assert locate("tiny24") == Location("tiny24", own)
    assert locate(str(own)) == Location("tiny24", own)
    assert locate("org/name") == Location("org/name", None)
    (tmp_path / "mine").symlink_to(own)
    assert locate("mine").folder.samefile(own)
    assert locate("./mine").name == "tiny24"  # the folder's own name
    assert "unknown model 'tiny42' (did you mean 'tiny24'?" in refusal_of(locate, "tiny42")


def test_a_path_that_leads_to_no_model_is_refused_with_what_is_missing(tmp_path):
    (tmp_path / "file").touch()
    bare = tmp_path / "bare"
    bare.mkdir()
    assert "does not exist" in refusal_of(locate, "./nowhere/at/all")
    assert "does not exist" in refusal_of(locate, str(tmp_path / "nowhere"))
    assert "is a file" in refusal_of(locate, str(tmp_path / "file"))
    for missing, then in (("config.json", "config.json"), ("weights", "model.safetensors"), ("tokenizer", None)):
        assert f"bare has no {missing}" in refusal_of(locate, str(bare))
        if then:
            (bare / then).touch()


def test_a_hub_model_out_of_reach_is_one_line(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    line = refusal_of(Transformers("no-such-owner/no-such-model", device="cpu").identity)
    assert line == "model 'no-such-owner/no-such-model' cannot be fetched (offline?): give a local folder"


def test_a_failure_to_load_is_told_with_its_likely_reason(tmp_path):
    def line(failure, folder=None):
        try:
            with one_line_errors(Location("org/name", folder)):
                raise failure
        except HarnessError as error:
            return str(error)

    for failure, reason in (
        (OSError("org/name does not appear to have a file named config.json\nmore"), "has no config.json (an adapter"),
        (OSError("org/name is not a valid model identifier"), "is not embedded, not a folder here, and not on the hub"),
        (ValueError("Repo id must be in the form"), "is not embedded, not a folder here, and not on the hub"),
        (OSError("no route"), "cannot be fetched (offline?): give a local folder"),
        (ImportError("needs tiktoken\nmore"), "cannot be loaded: needs tiktoken"),
    ):
        assert line(failure).startswith(f"model 'org/name' {reason}")
        assert "\n" not in line(failure)
    assert line(OSError("no route"), tmp_path) == f"model folder {tmp_path} cannot be loaded: no route"
