"""ESMFold of the real class at tiny random size, each row by itself; and copies of published models."""

import json

import pytest
from support.refusals import refusal_of
from support.tiny_proteins import sequences

from harness import Problem
from harness_plugins.proteins import esmfold, published
from harness_plugins.proteins.esmfold import EsmFold, chunk_for, operations
from harness_plugins.proteins.published import ESMC, Copy
from harness_plugins.proteins.tiny import tiny_esmfold
from harness_tasks.proteins import Proteins

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """An ESMFold with its model, loaded once; tests take it by `fold`."""
    fold = EsmFold(str(tiny_esmfold(tmp_path_factory.mktemp("models") / "fold")), device="cpu", test_weights=True)
    return fold.model, fold._model


@pytest.fixture
def fold(loaded):
    """An ESMFold of its own around the model."""

    def call(**options):
        made = EsmFold(loaded[0], device="cpu", test_weights=True, **options)
        made.__dict__["_model"] = loaded[1]
        return made

    return call


def test_figures_are_each_rows_own_over_the_atoms_that_are_there_whatever_stands_beside_it(fold):
    """The transformers library gives one pTM for a batch, the largest."""
    import torch

    texts = [*sequences(2, 12), *sequences(3, 33)]
    together, ca = fold().measure(texts), fold(plddt_mean="ca").measure(texts)
    assert len({round(figures["ptm"], 6) for figures in together[2:]}) > 1
    for text, figures, of_ca in zip(texts, together, ca, strict=True):
        with torch.no_grad():
            output = fold()._model.infer(text)
        present = output["atom37_atom_exists"][0]
        assert figures["plddt"] == pytest.approx(float((output["plddt"][0] * present).sum() / present.sum()), abs=1e-6)
        assert of_ca["plddt"] == pytest.approx(float(output["plddt"][0, :, 1].mean()), abs=1e-6)
        assert figures["ptm"] == pytest.approx(float(output["ptm"]), abs=1e-6)
    assert "plddt_mean must be atoms or ca, got 'all'" in refusal_of(fold, plddt_mean="all")


def test_identical_sequences_are_folded_once_in_batches_and_what_is_none_not_at_all(fold, monkeypatch):
    short, long, folded = sequences(9, 128), sequences(2, 129), []
    monkeypatch.setattr(
        EsmFold, "_folded", lambda self, batch: folded.append(batch) or [{"at": text} for text in batch]
    )
    figures = fold().measure(["MK-A", "", *short, short[0], *long, "A" * 1023])
    assert folded == [short[:8], short[8:], long[:1], long[1:]]  # up to 1,024 residues of short sequences at once
    assert figures == [{}, {}, *({"at": text} for text in (*short, short[0], *long)), {}]


def test_plddt_and_ptm_come_from_their_own_heads(tmp_path):
    folder = tiny_esmfold(tmp_path / "fold", plddt=0.99, ptm=0.01)
    task = Proteins(verifier=str(folder), device="cpu", test_weights=True)
    (verdict,) = task.verify_all(Problem("length-12", "_" * 12), sequences(1, 12))
    plddt, ptm = (float(part.partition("=")[2]) for part in verdict.reason.split())
    assert (verdict.status, plddt > 0.9, ptm < 0.1) == ("wrong", True, True)


def test_out_of_memory_halves_the_batch_then_the_chunk_and_then_says_so(fold, loaded, monkeypatch):
    texts, measured, model = sequences(2, 6), fold(), loaded[1]
    expected = measured.measure(texts)
    infer, tried, smallest = model.infer, [], 32

    def small(batch):
        chunk = model.trunk.chunk_size
        tried.append((len(batch), chunk))
        if len(batch) > 1 or chunk is None or chunk > smallest:
            raise RuntimeError("CUDA out of memory. Tried to allocate 11.5 GiB")
        return infer(batch)

    monkeypatch.setattr(esmfold, "release", lambda: None)
    monkeypatch.setattr(model, "infer", small)
    figures = measured.measure(texts)
    assert tried == [(2, None), (1, None), (1, 128), (1, 64), (1, 32), (1, 32)]  # what was learnt by halving is kept
    for short, other in zip(figures, expected, strict=True):
        assert short == pytest.approx(other, abs=1e-6)
    smallest = 0
    line = refusal_of(measured.measure, texts)
    assert "one sequence of 6 residues does not fit into memory, in chunks of 16" in line
    monkeypatch.setattr(model, "infer", lambda batch: 1 / 0)
    with pytest.raises(ZeroDivisionError):  # another fault is not taken for memory
        measured.measure(texts)


def test_long_sequences_are_folded_in_chunks_and_the_estimate_follows_their_operations(fold, monkeypatch):
    assert [chunk_for(length) for length in (384, 385, 640, 641, 916)] == [None, 128, 128, 64, 64]
    assert [operations(length) for length in (64, 256, 512, 916)] == pytest.approx([1.6, 20.7, 97, 403], rel=1e-3)
    monkeypatch.setattr(EsmFold, "_folded", lambda self, batch: [{}] * len(batch))
    clock = iter(range(1000))
    monkeypatch.setattr(esmfold.time, "perf_counter", lambda: float(next(clock)))
    assert fold().seconds({16: 640}) == pytest.approx(10)  # 64 at once, in a second
    assert fold().seconds({16: 640, 256: 3}) == pytest.approx(10 + 3)


# Copies.


@pytest.fixture
def mine(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").write_text('{"hidden_size": 64, "num_hidden_layers": 2}')
    return tmp_path / "mine"


def copy(model=None, revision=None, test_weights=False):
    return Copy("esmc", ESMC, model and str(model), revision, test_weights)


def sizes(config):
    return {name: config[name] for name in ("hidden_size", "num_hidden_layers")}


def test_a_copy_in_a_folder_is_named_by_it_and_pinned_by_its_content_and_has_a_published_size(mine, monkeypatch):
    own, tested = copy(mine), copy(mine, test_weights=True)
    assert (own.name, own.source, tested.name) == ("mine", str(mine), "random weights: mine")
    assert own.licence == f"your copy; as published: {ESMC.licence}"
    assert (own.weights().fetch, tested.weights().is_random) == ("", True)
    before = own.commit(), own.commit([".pth"])
    (mine / "more.pth").write_bytes(b"1")
    assert (own.commit() == before[0], own.commit([".pth"]) == before[1]) == (True, False)
    monkeypatch.chdir(mine.parent)
    assert copy("mine").folder is not None  # by a relative name
    assert refusal_of(copy, "./absent").startswith("esmc: model folder absent does not exist")
    assert refusal_of(copy, mine, "main").endswith("is a folder, which has no revision 'main'")
    line = refusal_of(own.check_folder, sizes)
    assert "has hidden_size 64, num_hidden_layers 2, as no published ESM C has: is it random?" in line
    tested.check_folder(sizes)
    (mine / "config.json").write_text(json.dumps(ESMC.sizes[0]))
    own.check_folder(sizes)
    for content in ("{}", "no json", "[]"):
        (mine / "config.json").write_text(content)
        assert f"{mine / 'config.json'} is none of ESM C" in refusal_of(own.check_folder, sizes)


def test_a_hub_model_is_pinned_by_its_commit_and_where_it_is_not_here_the_command_that_fetches_it_is_said(
    tmp_path, monkeypatch
):
    commit, repo = "c" * 40, tmp_path / f"models--{ESMC.repo.replace('/', '--')}"
    (repo / "snapshots" / commit).mkdir(parents=True)
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text(commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(published, "_out_of_reach", lambda: True)
    published._snapshot.cache_clear()
    theirs, other = copy(), copy(revision="v2")
    assert (theirs.name, theirs.licence, theirs.weights().fetch) == (ESMC.repo, ESMC.licence, "")
    assert theirs.pinned == {"revision": commit, "local_files_only": True}
    assert copy("lab/esmc").licence.startswith("your copy")
    assert other.weights().fetch.startswith(f"`hf download {ESMC.repo} --revision v2` (2.3 GB)")
    assert "is not on this machine: `hf download" in refusal_of(other.commit)
    published._snapshot.cache_clear()
