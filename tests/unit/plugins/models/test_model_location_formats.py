"""Models in formats that no engine here reads are refused in one line, by every engine alike."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from support.refusals import refusal_of

from harness_plugins.engines.transformers.engine import Transformers
from harness_plugins.engines.vllm.engine import Vllm
from harness_plugins.models.tiny24 import folder as embedded

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
        refusal = refusal_of(Transformers(model=str(model)).identity)
        assert refusal.startswith(f"model 'model' is quantized ({method}), which engine transformers does ")
        assert Vllm(model=str(model))._checkpoint.config.quantization_config  # for vLLM to read, or to refuse
