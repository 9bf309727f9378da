"""What a model's name means, what is read of its small files, and the hashes by which it is known again."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from support.refusals import refusal_of
from support.tiny_checkpoints import TEMPLATE, save_checkpoint

from harness import Sampler
from harness.records import SampleRequest
from harness_plugins.engines.transformers.engine import Transformers
from harness_plugins.models import location, smollm2
from harness_plugins.models.checkpoint import Checkpoint
from harness_plugins.models.location import Location, content_hash, embedded, file_hashes, locate
from harness_plugins.proteins.published import folder_hash


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(location, "SETTLED_NS", -(10**18))  # a file may be known at once
    return tmp_path / "cache" / "diversity-harness" / "file-hashes.json"


@pytest.fixture
def model(tmp_path):
    """A copy of the embedded model, to be changed."""
    return Path(shutil.copytree(embedded("tiny24"), tmp_path / "model"))


def opened(name):
    return Checkpoint(locate(str(name)), "cpu", "auto", None)


def test_a_name_means_an_embedded_model_a_folder_or_the_hub(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    own = embedded("tiny24")
    assert locate("tiny24") == locate(str(own)) == Location("tiny24", own)
    assert locate("org/name") == Location("org/name", None)
    (tmp_path / "mine").symlink_to(own)
    assert locate("mine").folder.samefile(own)
    assert locate("./mine").name == "tiny24"  # the folder's own name
    assert "unknown model 'tiny42' (did you mean 'tiny24'?" in refusal_of(locate, "tiny42")


def test_a_path_that_leads_to_no_model_is_refused_with_what_is_missing(tmp_path):
    (tmp_path / "file").touch()
    (bare := tmp_path / "bare").mkdir()
    assert "does not exist" in refusal_of(locate, "./nowhere/at/all")
    assert "is a file" in refusal_of(locate, str(tmp_path / "file"))
    for missing, then in (("config.json", "config.json"), ("weights", "model.safetensors"), ("tokenizer", "x")):
        assert f"bare has no {missing}" in refusal_of(locate, str(bare))
        (bare / then).touch()


def test_an_adapter_given_as_a_model_is_refused_with_its_base(model):
    (model / "adapter_config.json").write_text('{"peft_type": "LORA", "base_model_name_or_path": "org/base"}')
    line = refusal_of(Transformers, model=str(model))
    assert line.startswith(f"model folder {model} is an adapter of org/base: give that as --model, and the ")
    assert f"--engine transformers:adapter={model}" in line


def test_the_fetched_model_is_named_with_the_command_that_fetches_it(tmp_path, monkeypatch):
    line = refusal_of(locate, smollm2.NAME)
    assert line.startswith("model smollm2-135m is not on this machine: `python -m harness_plugins.models.smollm2` (in ")
    assert str(smollm2.folder()) in line
    shutil.copytree(embedded("tiny24"), smollm2.folder())
    assert locate(smollm2.NAME) == Location("smollm2-135m", smollm2.folder())
    assert [weights.licence[:10] for weights in Transformers(model=smollm2.NAME).weights()] == ["Apache-2.0"]
    assert Transformers(model="tiny24").weights() == []
    monkeypatch.chdir(tmp_path)
    shutil.copytree(embedded("tiny24"), smollm2.NAME)
    assert locate(smollm2.NAME).folder.samefile(smollm2.NAME)  # as before: a folder that is there


def test_quantized_weights_are_read_where_transformers_can(model):
    prompt = [{"role": "user", "content": "4 4 10 10"}]
    weights, packed = load_file(model / "model.safetensors"), {}
    for name, values in weights.items():
        packed[name] = values
        if "_proj" in name:
            scale = values.float().abs().max() / 448  # the largest number of eight bits; a block is the whole matrix
            packed |= {name: (values.float() / scale).to(torch.float8_e4m3fn), f"{name}_scale_inv": scale.reshape(1, 1)}
    save_file(packed, model / "model.safetensors", {"format": "pt"})
    config = json.loads((model / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "fp8", "weight_block_size": [1024, 1024]}
    (model / "config.json").write_text(json.dumps(config))
    plain, engine = Transformers(model="tiny24"), Transformers(model=str(model))
    [responses] = engine.sample(SampleRequest([prompt], n=4, sampler=Sampler(), max_tokens=16, seeds=(0,)))
    assert np.corrcoef(plain.score(prompt, responses), responses.logprobs)[0, 1] > 0.9
    assert engine.identity()["revision"] != plain.identity()["revision"]


def test_a_template_may_stand_in_the_tokenizers_config_or_in_a_file(tmp_path):
    folder = save_checkpoint(tmp_path / "model", "gpt2", None)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    for template in (None, TEMPLATE, [{"name": "default", "template": TEMPLATE}]):
        (folder / "tokenizer_config.json").write_text(json.dumps(settings | {"chat_template": template}))
        assert opened(folder).has_template == bool(template)
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    assert opened(folder).has_template


def test_a_model_of_the_hub_is_read_from_its_cache(tmp_path, monkeypatch):
    repo, commit = tmp_path / "hub" / "models--lab--small", "a" * 40
    save_checkpoint(repo / "snapshots" / commit, "gpt2", None)
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text(commit)
    for module in ("huggingface_hub.constants.HF_HUB_CACHE", "huggingface_hub.file_download.HF_HUB_CACHE"):
        monkeypatch.setattr(module, str(tmp_path / "hub"), raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert (opened("lab/small").revision, opened("lab/small").has_template) == (commit, False)


# Hashes.

BIG = 9 * 2**20  # bytes: a little over what is read each time


@pytest.fixture
def reads(monkeypatch):
    """The names of the files that are read."""
    names, digest = [], location._digest
    monkeypatch.setattr(location, "_digest", lambda path: names.append(path.name) or digest(path))
    return names


def big(path, middle=b"\0"):
    """A sparse file with something in its middle."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(BIG)
        file.seek(BIG // 2)
        file.write(middle)
    return path


def test_the_embedded_model_keeps_its_key_and_folders_that_differ_in_a_files_middle_are_two_models(model):
    assert content_hash(embedded("tiny24")) == "702746cdc55d3119"
    revisions = []
    for middle in (b"\0", b"\0", b"\1"):
        big(model / "model-00002-of-00002.safetensors", middle)
        big(model / "data" / "esm3.pth", middle)
        revisions.append((opened(model).revision, folder_hash(model, [".pth"])))
    assert revisions[0] == revisions[1]
    assert not {*revisions[0]} & {*revisions[2]}


def test_a_large_file_is_read_once_a_changed_one_again_and_without_a_cache_each_time(tmp_path, cache, reads, capfd):
    path = big(tmp_path / "weights.bin")
    first, before = file_hashes([path], "model"), path.stat()
    big(path, b"\2")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # set back by whoever edited it
    assert (changed := file_hashes([path], "model")) != first
    for content in (b"{", b"[]", b'{"1:2": "short"}'):
        cache.write_bytes(content)
        reads.clear()
        assert file_hashes([path], "model") == file_hashes([path], "model") == changed, content
        assert reads == ["weights.bin"], content
    shutil.rmtree(cache.parent)
    cache.parent.write_text("a file in the folder's place")
    assert file_hashes([path], "model") == changed
    assert capfd.readouterr().err == ""


def test_all_that_can_change_the_output_counts_and_no_more(tmp_path):
    (tmp_path / "modules.json").write_text('[{"path": ""}, {"path": "1_Pooling"}]')
    counts = "tokenizer.json chat_template.jinja additional_chat_templates/tool_use.jinja generation_config.json "
    counts += "adapter_model.safetensors spiece.model merges.txt 1_Pooling/config.json unknown.dat"
    ignored = "README.md LICENSE.txt .gitattributes model.onnx optimizer.pt checkpoint-500/model.safetensors"
    for name in (counts + " " + ignored).split():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"before")
        before = content_hash(tmp_path)
        path.write_bytes(b"after.")
        assert (content_hash(tmp_path) != before) == (name in counts.split()), name
