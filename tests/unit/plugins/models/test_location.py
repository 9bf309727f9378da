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
from transformers import AutoTokenizer

from harness import Sampler
from harness.records import SampleRequest
from harness_plugins.engines.transformers.engine import Transformers
from harness_plugins.engines.vllm.engine import Vllm
from harness_plugins.models import location, smollm2
from harness_plugins.models.checkpoint import Checkpoint
from harness_plugins.models.location import Location, content_hash, embedded, locate
from harness_plugins.models.location import file_hashes as hashes_of
from harness_plugins.proteins.published import folder_hash


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


ENGINES = (Transformers, Vllm)


@pytest.fixture
def model(tmp_path):
    """A copy of the embedded model, to be changed."""
    return Path(shutil.copytree(embedded("tiny24"), tmp_path / "model"))


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


def quantized(folder, method, **settings):
    """The folder, with a config that says how its weights are quantized."""
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": method, **settings}
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)


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


def opened(folder):
    return Checkpoint(locate(str(folder)), "cpu", "auto", None)


@pytest.mark.parametrize("form", ["config", "named", "jinja"])
def test_a_template_may_stand_in_the_tokenizers_config_or_in_a_file(tmp_path, form):
    folder = save_checkpoint(tmp_path / "model", "gpt2", None)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    if form == "jinja":
        (folder / "chat_template.jinja").write_text(TEMPLATE)
    else:
        settings["chat_template"] = TEMPLATE if form == "config" else [{"name": "default", "template": TEMPLATE}]
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    assert AutoTokenizer.from_pretrained(folder).chat_template
    assert opened(folder).has_template


def test_a_model_of_the_hub_is_read_from_its_cache(tmp_path, monkeypatch):
    folder = save_checkpoint(tmp_path / "model", "gpt2", None)
    repo, commit = tmp_path / "hub" / "models--lab--small", "a" * 40
    (repo / "refs").mkdir(parents=True)
    (repo / "refs" / "main").write_text(commit)
    shutil.copytree(folder, repo / "snapshots" / commit)
    for module in ("huggingface_hub.constants.HF_HUB_CACHE", "huggingface_hub.file_download.HF_HUB_CACHE"):
        monkeypatch.setattr(module, str(tmp_path / "hub"), raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    part = Checkpoint(locate("lab/small"), "cpu", "auto", None)
    assert part.revision == commit
    assert not part.has_template


BIG = 9 * 2**20  # bytes: a little over what is read each time


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(location, "SETTLED_NS", -(10**18))  # a file may be known at once
    return tmp_path / "cache" / "diversity-harness" / "file-hashes.json"


@pytest.fixture
def reads(monkeypatch):
    """The names of the files that are read."""
    names = []
    digest = location._digest
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


def large_model(folder, middle=b"\0"):
    shutil.copytree(embedded("tiny24"), folder)
    big(folder / "model-00002-of-00002.safetensors", middle)
    return folder


def test_folders_of_one_name_that_differ_in_a_files_middle_are_two_models(tmp_path):
    def revision(folder):
        return Checkpoint(locate(str(folder)), "cpu", "auto", None).revision

    first, same = large_model(tmp_path / "a" / "merged"), large_model(tmp_path / "b" / "merged")
    assert revision(first) == revision(same) != revision(large_model(tmp_path / "c" / "merged", b"\1"))
    proteins = [big(tmp_path / name / "data" / "esm3.pth", name.encode()).parents[1] for name in "pq"]
    assert folder_hash(proteins[0], [".pth"]) != folder_hash(proteins[1], [".pth"])


def test_the_embedded_models_keep_their_keys():
    assert content_hash(embedded("tiny24")) == "702746cdc55d3119"


def test_a_large_file_is_read_once_and_a_changed_one_again(tmp_path, reads):
    path = big(tmp_path / "weights.bin")
    first = hashes_of([path], "model")
    assert hashes_of([path], "model") == first
    assert reads == ["weights.bin"]
    before = path.stat()
    with path.open("r+b") as file:
        file.seek(BIG // 2)
        file.write(b"\2")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # set back by whoever edited it
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert hashes_of([path], "model") != first
    assert reads == ["weights.bin"] * 2


def test_a_broken_cache_is_made_anew_and_one_that_cannot_be_written_done_without(tmp_path, cache, reads, capfd):
    path = big(tmp_path / "weights.bin")
    cache.parent.mkdir(parents=True)
    expected = hashes_of([path], "model")
    for content in (b"{", b"[]", b'{"1:2": "short"}', b"\xff", b"[" * 100_000):
        cache.write_bytes(content)
        reads.clear()
        assert hashes_of([path], "model") == hashes_of([path], "model") == expected, content
        assert len(reads) == 1, content
    cache.unlink()
    cache.mkdir(parents=True)  # a folder in its place
    assert hashes_of([path], "model") == expected
    cache.rmdir()
    cache.parent.rmdir()
    cache.parent.write_text("a file in the folder's place")
    assert hashes_of([path], "model") == expected
    assert capfd.readouterr().err == ""


def test_all_that_can_change_the_output_counts_and_no_more(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "modules.json").write_text('[{"path": ""}, {"path": "1_Pooling"}]')
    counts = "tokenizer.json chat_template.jinja additional_chat_templates/tool_use.jinja generation_config.json "
    counts += "adapter_config.json adapter_model.safetensors spiece.model merges.txt 1_Pooling/config.json unknown.dat"
    ignored = "README.md LICENSE.txt .gitattributes model.onnx optimizer.pt training_args.bin "
    ignored += "checkpoint-500/model.safetensors"
    for name in (counts + " " + ignored).split():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"before")
        before = content_hash(folder)
        path.write_bytes(b"after.")
        assert (content_hash(folder) != before) == (name in counts.split()), name
