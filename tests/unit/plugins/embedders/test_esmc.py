"""Embedder esmc on the real class at tiny random size, saved and loaded as ESM C is."""

import shutil

import numpy as np
import pytest
from support.refusals import refusal_of
from support.tiny_proteins import sequences

from harness import Problem
from harness_plugins.embedders.esmc import EsmC
from harness_plugins.proteins.tiny import tiny_esmc

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
    assert batches == [[9, 9, 9, 40, 40]]  # each text once
    batches.clear()
    few = embedded(esmc, texts, tokens=33)
    assert batches == [[9, 9, 9], [40], [40]]
    alone = np.concatenate([embedded(esmc, [text]) for text in texts[:4]])
    assert together.shape == (6, 64)
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
