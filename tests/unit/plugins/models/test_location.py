"""What a model's name means; folders that lack a part or hold a format that no engine reads: one line each."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from support.refusals import refusal_of

from harness import HarnessError, Sampler
from harness.records import SampleRequest
from harness_plugins.engines.transformers.engine import Transformers
from harness_plugins.engines.vllm.engine import Vllm
from harness_plugins.models import smollm2
from harness_plugins.models.location import Location, embedded, locate, one_line_errors


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
        (OSError("there is no file named config.json\nmore"), "cannot be loaded: there is no file named config.json"),
        (OSError("it is not a valid model identifier"), "cannot be loaded: it is not a valid model identifier"),
        (ValueError("Repo id must be in the form"), "cannot be loaded: Repo id must be in the form"),
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
def test_gguf_beside_safetensors_is_not_read(engine, model):
    (model / "my-model.Q4_1.gguf").write_bytes(b"GGUF")
    assert engine(model=str(model)).name == "model"


@pytest.mark.parametrize("engine", ENGINES)
def test_an_adapter_given_as_a_model_is_refused_with_its_base_alone_and_beside_a_model(engine, model, tmp_path):
    (tmp_path / "alone").mkdir()
    for folder in (model, tmp_path / "alone"):
        (folder / "adapter_config.json").write_text('{"peft_type": "LORA", "base_model_name_or_path": "org/base"}')
        line = refusal_of(engine, model=str(folder))
        assert line.startswith(f"model folder {folder} is an adapter of org/base: give that as --model, and the ")
        assert f"--engine transformers:adapter={folder}" in line


def test_the_fetched_model_is_named_with_the_command_that_fetches_it(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    line = refusal_of(locate, smollm2.NAME)
    assert line.startswith("model smollm2-135m is not on this machine: `python -m harness_plugins.models.smollm2` (in ")
    assert str(smollm2.folder()) in line
    shutil.copytree(embedded("tiny24"), smollm2.folder())
    assert locate(smollm2.NAME) == Location("smollm2-135m", smollm2.folder())
    assert [weights.licence[:10] for weights in Transformers(model=smollm2.NAME).weights()] == ["Apache-2.0"]
    assert Transformers(model="tiny24").weights() == []
    monkeypatch.chdir(tmp_path)
    shutil.copytree(embedded("tiny24"), tmp_path / smollm2.NAME)
    assert locate(smollm2.NAME).folder.samefile(tmp_path / smollm2.NAME)  # as before: a folder that is there


@pytest.mark.parametrize("engine", ENGINES)
def test_a_type_is_named_as_people_write_it(engine):
    for written, name in (("fp32", "float32"), ("bf16", "bfloat16"), ("fp16", "float16"), ("float16", "float16")):
        assert engine(model="tiny24", dtype=written).identity()["dtype"] == name


def quantized(folder, method, **settings):
    """The folder, with a config that says how its weights are quantized."""
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": method, **settings}
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)


def test_quantized_weights_whose_library_is_missing_are_one_line_that_names_it(model):
    path = quantized(model, "aqlm", in_group_size=8, out_group_size=1, num_codebooks=1, nbits_per_codebook=16)
    line = refusal_of(lambda: Transformers(model=path)._checkpoint.model)
    assert line.startswith(f"model folder {model} cannot be loaded: ")
    assert "aqlm" in line
    assert Vllm(model=path)._checkpoint.config.quantization_config  # for vLLM to read, or to refuse


def test_quantized_weights_are_read_where_transformers_can(model):
    prompt = [{"role": "user", "content": "4 4 10 10"}]
    plain = Transformers(model="tiny24")
    weights, packed = load_file(model / "model.safetensors"), {}
    for name, values in weights.items():
        if "_proj" not in name:
            packed[name] = values
            continue
        scale = values.float().abs().max() / 448  # the largest number of eight bits; a block is the whole matrix
        packed[name] = (values.float() / scale).to(torch.float8_e4m3fn)
        packed[f"{name}_scale_inv"] = scale.reshape(1, 1)
    save_file(packed, model / "model.safetensors", {"format": "pt"})
    engine = Transformers(model=quantized(model, "fp8", weight_block_size=[1024, 1024]))
    engine.check([prompt], 16)
    request = SampleRequest([prompt], n=4, sampler=Sampler(), max_tokens=16, seeds=(0,), states=("mean",))
    [responses] = engine.sample(request)
    assert np.corrcoef(plain.score(prompt, responses), responses.logprobs)[0, 1] > 0.9
    assert engine.identity()["revision"] != plain.identity()["revision"]
