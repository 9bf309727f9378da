"""GGUF files: a header read without a library, a model like its dequantized folder, and one line for other files."""

import json
import struct
import subprocess
import sys

import numpy as np
import pytest
import torch
from support.gguf_models import write_gguf
from support.refusals import refusal_of
from support.tiny_checkpoints import SHORT

from harness import Sampler
from harness.records import SampleRequest
from harness.system import extras
from harness_plugins.engines.transformers.engine import Transformers
from harness_plugins.engines.vllm.engine import Vllm
from harness_plugins.models.dequantize import dequantize
from harness_plugins.models.location import locate


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A GGUF file, and the model that was written into it."""
    path = tmp_path_factory.mktemp("gguf") / "small.Q8_0.gguf"
    return path, write_gguf(path)


@pytest.fixture(scope="module")
def folder(written, tmp_path_factory):
    """The file's dequantized folder."""
    folder = tmp_path_factory.mktemp("made") / "small"
    dequantize(written[0], folder)
    return folder


def test_a_file_says_whether_it_has_a_template(written, tmp_path):
    engine = Transformers(model=str(written[0]))
    assert (engine.name, engine.chats) == ("small.Q8_0", True)
    write_gguf(tmp_path / "bare.gguf", template=None)
    assert not Transformers(model=str(tmp_path / "bare.gguf")).chats


def greedy(model):
    request = SampleRequest([SHORT], n=1, sampler=Sampler(top_k=1), max_tokens=32, seeds=(0,), states=("mean",))
    [responses] = Transformers(model=str(model)).sample(request)
    return responses


def test_a_file_and_its_dequantized_folder_give_the_same_greedy_texts_under_other_keys(written, folder):
    path, model = written
    ours, made = greedy(path), greedy(folder)
    assert ours.texts == made.texts
    assert ours.token_ids == made.token_ids
    assert len(set(ours.token_ids[0])) > 5
    np.testing.assert_allclose(ours.states["mean"], made.states["mean"], atol=1e-5)
    read = Transformers(model=str(path))._checkpoint
    ids = torch.tensor([read.prompt_ids(SHORT)])
    with torch.no_grad():  # it is the model that was written, up to eight bits
        logits = [each(ids).logits.flatten().numpy() for each in (read.model, model)]
    assert np.corrcoef(logits)[0, 1] > 0.998
    identities = [Transformers(model=str(each)).identity() for each in (path, folder)]
    assert len({identity["revision"] for identity in identities}) == 2
    config = json.loads((folder / "config.json").read_text())
    assert "quantization_config" not in config
    assert Vllm(model=str(folder)).name == "small"


def test_what_lies_beside_a_file_counts_for_nothing(written, tmp_path):
    beside = tmp_path / written[0].name
    beside.write_bytes(written[0].read_bytes())
    before = Transformers(model=str(beside)).identity()
    for name, content in (
        ("tokenizer_config.json", {"chat_template": "other", "tokenizer_class": "NoSuch"}),
        ("generation_config.json", {"eos_token_id": [7]}),
        ("tokenizer.json", {"broken": True}),
    ):
        (tmp_path / name).write_text(json.dumps(content))
    part = Transformers(model=str(beside))._checkpoint
    assert part.eos == [1]
    assert part.text(part.prompt_ids(SHORT)).startswith("user: 1 2 3 4")
    assert Transformers(model=str(beside)).identity() == before
    beside.write_bytes(written[0].read_bytes()[:-1] + b"x")
    assert Transformers(model=str(beside)).identity()["revision"] != before["revision"]


def test_a_broken_file_is_one_line(written, tmp_path):
    whole = written[0].read_bytes()
    faults = {
        "text": b"not a model",
        "short": whole[:50],
        "old": b"GGUF" + struct.pack("<I", 1) + whole[8:],
        "many": whole[:16] + struct.pack("<Q", 2**62) + whole[24:],
        "long": whole[:24] + struct.pack("<Q", 2**40) + whole[32:],
    }
    for name, content in faults.items():
        path = tmp_path / f"{name}.gguf"
        path.write_bytes(content)
        line = refusal_of(lambda path=path: Transformers(model=str(path)).chats)
        assert line.startswith(f"model {path} cannot be loaded: ")
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(whole[:-5000])
    assert refusal_of(lambda: Transformers(model=str(cut))._checkpoint.model).startswith(
        f"model {cut} cannot be loaded"
    )


def test_one_part_of_several_is_refused(written, tmp_path):
    import gguf

    reader = gguf.GGUFReader(written[0])
    writer = gguf.GGUFWriter(tmp_path / "part.gguf", "llama")
    for field in reader.fields.values():
        if not field.name.startswith("GGUF.") and field.name != "general.architecture":
            kind = field.types[0]
            writer.add_key_value(field.name, field.contents(), kind, field.types[-1] if len(field.types) > 1 else None)
    writer.add_uint16("split.count", 3)
    for tensor in reader.tensors[:4]:
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    for step in ("write_header_to_file", "write_kv_data_to_file", "write_tensors_to_file", "close"):
        getattr(writer, step)()
    part = Transformers(model=str(tmp_path / "part.gguf"))._checkpoint
    assert "not a whole causal language model" in refusal_of(lambda: part.model)


def test_a_file_is_refused_where_only_folders_are_read_and_a_folder_of_files_names_one(written):
    path = written[0]
    for refuse in (lambda: Vllm(model=str(path)), lambda: locate(str(path))):
        line = refusal_of(refuse)
        assert line.startswith(f"model {path} is in GGUF format, which only engine transformers reads: `python -m ")
        assert f"harness_plugins.models.dequantize {path} FOLDER`" in line
    assert refusal_of(Transformers, model=str(path.parent)).endswith(f"give the file, e.g. --model {path}")
    assert "is a file, which has no revision 'x'" in refusal_of(Transformers, model=str(path), revision="x")


def test_the_libraries_that_read_it_are_named_before_a_run(written, harness, monkeypatch, tmp_path):
    missing = extras.missing
    monkeypatch.setattr(extras, "missing", lambda names: [name for name in names if name == "gguf"] or missing(names))
    run = ("run", "--task", "game24", "--model", written[0], "--selector", "uniform", "--store", tmp_path)
    outcome = harness(*run)
    assert outcome.code == 2
    assert "engine transformers needs gguf: not installed: pip install 'diversity-harness[gguf]'" in outcome.err


def test_dequantizing_leaves_a_folder_that_exists_alone(written, folder, tmp_path):
    assert f"folder {folder} exists already" in refusal_of(dequantize, written[0], folder)
    command = [sys.executable, "-m", "harness_plugins.models.dequantize", "nowhere.gguf", str(tmp_path / "x")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("error: model folder ")
    assert done.stderr.rstrip().endswith("nowhere.gguf does not exist")
