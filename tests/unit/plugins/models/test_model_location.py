"""What a model's name means; folders that lack a part or hold a format that no engine reads: one line each."""

import json
import shutil
from pathlib import Path

import pytest
from support.refusals import refusal_of

from harness import HarnessError
from harness_plugins.engines.transformers.engine import Transformers
from harness_plugins.engines.vllm.engine import Vllm
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


ENGINES = (Transformers, Vllm)


@pytest.fixture
def model(tmp_path):
    """A copy of the embedded model, to be changed."""
    return Path(shutil.copytree(embedded("tiny24"), tmp_path / "model"))


@pytest.mark.parametrize("engine", ENGINES)
def test_gguf_is_refused_as_a_file_and_as_a_folder_but_not_beside_safetensors(engine, model, tmp_path):
    file = tmp_path / "my-model" / "my-model.Q4_1.gguf"
    file.parent.mkdir()
    file.write_bytes(b"GGUF")
    for path in (file, file.parent):
        refusal = refusal_of(engine, model=str(path))
        assert refusal.startswith(f"model {path} is in GGUF format, which no engine here reads: give a ")
    shutil.copy(file, model)
    assert engine(model=str(model)).name == "model"


@pytest.mark.parametrize("engine", ENGINES)
def test_an_adapter_is_refused_with_its_base_alone_and_beside_a_model(engine, model, tmp_path):
    (tmp_path / "alone").mkdir()
    for folder in (model, tmp_path / "alone"):
        (folder / "adapter_config.json").write_text('{"peft_type": "LORA", "base_model_name_or_path": "org/base"}')
        refusal = refusal_of(engine, model=str(folder))
        assert refusal.startswith(f"model folder {folder} is an adapter of org/base, which no engine here applies: ")


def test_quantized_weights_are_refused_by_transformers_and_left_to_vllm(model):
    methods = {"bitsandbytes": {"load_in_4bit": True}, "fp8": {}}
    config = json.loads((model / "config.json").read_text())
    for method, settings in methods.items():
        config["quantization_config"] = {"quant_method": method, **settings}
        (model / "config.json").write_text(json.dumps(config))
        refusal = refusal_of(Transformers(model=str(model)).check, [], 1)
        assert refusal.startswith(f"model 'model' is quantized ({method}), which engine transformers does ")
        assert Vllm(model=str(model))._checkpoint.config.quantization_config  # for vLLM to read, or to refuse
