"""The protein task on the real classes at tiny random size, saved and loaded as ESM3, ESM C and ESMFold are."""

from __future__ import annotations

import copy
import importlib.util
import json
import math
import os
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from support.paths import ROOT
from support.processes import harness_command, kill_when, run_to_end
from support.stores import contents
from support.tiny_proteins import CHILD, tiny_esm3, tiny_esmc, tiny_esmfold

from harness import HarnessError, Problem, Sampler
from harness.plugin_system.component import parse_spec
from harness.records import SampleRequest
from harness.store import shards
from harness_tasks.proteins import Proteins, fault, lengths

LETTERS = "ACDEFGHIKLMNPQRSTVWY"

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def esm_python():
    """The environment that has esm: `make esm` makes it."""
    from harness_plugins.engines.esm3.environment import VARIABLE

    named = os.environ.get(VARIABLE, ROOT / ".venv-esm" / "bin" / "python")
    if not Path(named).is_file():
        pytest.skip("needs .venv-esm: make esm")
    return Path(named)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Folders with tiny models: `esmc`; ESMFold as `fold`, and with heads that say yes (`good`) and no (`bad`)."""
    folder = tmp_path_factory.mktemp("models")
    tiny_esmc(folder / "esmc")
    tiny_esmfold(folder / "fold")
    tiny_esmfold(folder / "good", plddt=0.99, ptm=0.99)
    tiny_esmfold(folder / "bad", plddt=0.01, ptm=0.01)
    tiny_esmfold(folder / "loose", plddt=0.99, ptm=0.01)
    return folder


@pytest.fixture(scope="module")
def esm3_folder(tmp_path_factory, esm_python):
    return tiny_esm3(tmp_path_factory.mktemp("esm3") / "tiny-esm3", esm_python)


@pytest.fixture(scope="module")
def engine(esm3_folder, esm_python):
    from harness_plugins.engines.esm3.engine import Esm3

    return Esm3(model=str(esm3_folder), python=str(esm_python), steps=4, device="cpu", test_weights=True)


def folding(models, name, **more):
    from harness_plugins.proteins.esmfold import EsmFold

    return EsmFold(str(models / name), device="cpu", test_weights=True, **more)


def embedder(models, **more):
    from harness_plugins.embedders.esmc import EsmC

    return EsmC(str(models / "esmc"), device="cpu", test_weights=True, **more)


def sequences(count, length, seed=0):
    rng = np.random.default_rng(seed)
    return ["".join(rng.choice(list(LETTERS), length)) for _ in range(count)]


def chat(prompt):
    return [{"role": "user", "content": prompt}]


def sample(engine, prompt, n, seed=7, **sampler):
    (responses,) = engine.sample(
        SampleRequest([chat(prompt)], n=n, sampler=Sampler(**sampler), max_tokens=100, seeds=[seed])
    )
    return responses


# The task


@pytest.mark.parametrize(
    ("text", "expected"),
    [("64", [64]), ("128+64", [64, 128]), ("64..256:64", [64, 128, 192, 256]), ("3..5", [3, 4, 5]), ("4..9:4", [4, 8])],
)
def test_lengths_are_named_singly_in_sums_and_in_ranges(text, expected):
    assert lengths(text) == expected


@pytest.mark.parametrize("text", ["", "64..", "0", "64..32", "64..2000", "64..128:0", "many", "-4"])
def test_lengths_that_are_none_are_one_clear_line(text):
    with pytest.raises(HarnessError, match="proteins: length") as caught:
        Proteins(length=text)
    assert "\n" not in str(caught.value)


def test_the_papers_lengths_are_its_214_and_the_presets_are_as_documented():
    paper = [problem.id for problem in Proteins().problems("paper")]
    assert (len(paper), paper[0], paper[1], paper[-1]) == (214, "length-64", "length-68", "length-916")
    assert {
        name: (len(Proteins().problems(preset["split"])), preset["n"]) for name, preset in Proteins.presets.items()
    } == {
        "quick": (4, 256),
        "small": (13, 512),
        "paper": (214, 2048),
    }


def test_both_figures_must_exceed_their_thresholds_and_stand_in_the_reason_alone():
    task, problem = Proteins(), Problem("length-4", "____")
    for plddt, ptm, status in [(0.81, 0.81, "correct"), (0.8, 0.9, "wrong"), (0.9, 0.8, "wrong"), (0.2, 0.1, "wrong")]:
        verdict = task.judge(problem, "MKTA", {"plddt": plddt, "ptm": ptm})
        assert (verdict.status, verdict.reason) == (status, f"plddt={plddt:.6f} ptm={ptm:.6f}")
    assert task.answer(problem, "MKTA") is None  # selectors see answers: a figure there would tell them the verdict
    assert task.judge(problem, "MKTA", {}).status == "error"
    assert task.judge(problem, "MKTA", {"plddt": math.nan, "ptm": 0.9}).status == "error"


@pytest.mark.parametrize(
    ("prompt", "response", "said"),
    [
        ("____", "MKT", "length 3, asked for 4"),
        ("____", "MKTAA", "length 5, asked for 4"),
        ("____", "MK-A", "no amino acid: '-' at 3"),
        ("____", "mkta", "no amino acid: 'm' at 1"),
        ("____", "", "length 0 is outside 1..1022"),
        ("_KT_", "MKAA", "the letter at 3 was given"),
        ("", "A" * 1023, "length 1023 is outside 1..1022"),
        ("_KT_", "MKTA", ""),
        ("", "MKTX", ""),
    ],
)
def test_what_cannot_be_an_answer_is_wrong_and_says_why(prompt, response, said):
    assert fault(Problem("one", prompt), response) == said
    verdict = Proteins().judge(Problem("one", prompt), response, {"plddt": 0.9, "ptm": 0.9})
    assert (verdict.status, verdict.reason if said else "") == ("wrong" if said else "correct", said)


def test_prompts_of_ones_own_are_read_and_their_given_letters_hold(tmp_path):
    data = tmp_path / "prompts.jsonl"
    data.write_text('{"id": "motif", "prompt": "__HEXXH_"}\n'.replace("X", "A") + '{"prompt": "____"}\n')
    assert [(one.id, one.prompt) for one in Proteins(data=str(data)).problems("test")] == [
        ("motif", "__HEAAH_"),
        ("prompt-2", "____"),
    ]
    data.write_text('{"prompt": "MKTA"}\n')
    with pytest.raises(HarnessError, match="line 1: prompt must be a sequence of _ and amino acids"):
        Proteins(data=str(data)).problems("test")


# ESM3's sampling: the parts that need no model


@pytest.fixture(scope="module")
def child():
    spec = importlib.util.spec_from_file_location("esm3_child", CHILD / "child.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("steps", "masked"), [(1, 9), (4, 24), (20, 64), (20, 916), (100, 7), (64, 64)])
def test_every_masked_position_is_filled_exactly_once(child, steps, masked):
    counts = child.schedule(steps, masked)
    assert sum(counts) == masked
    assert len(counts) == min(steps, masked)
    assert min(counts) >= 0


def test_letters_are_drawn_as_likely_as_the_logits_say(child):
    import torch
    from scipy.stats import chisquare

    logits = torch.tensor([2.0, 1.0, 0.0, -1.0, 3.0])
    uniform = torch.as_tensor(np.random.default_rng(1).random((1, 20_000)))
    valid = torch.tensor([0, 1, 3])
    tokens, logprobs = child.sampled_letters(logits.expand(1, 20_000, 5), 0.7, valid, 1.0, uniform)
    counts = Counter(tokens[0].tolist())
    assert set(counts) == {0, 1, 3}
    expected = (logits[valid].double() / 0.7).softmax(-1).numpy() * 20_000
    assert chisquare([counts[0], counts[1], counts[3]], expected).pvalue > 0.01
    assert logprobs[0, 0] == pytest.approx(float(logits.log_softmax(-1)[tokens[0, 0]]))


AGAINST_ESM = """
import sys, json, torch
sys.path.insert(0, sys.argv[1])
import child
from esm.sdk.api import ESMProtein, GenerationConfig
from esm.utils.generation import _get_annealed_temperature, _get_iterative_sampling_mask_for_prompt_and_step
from esm.utils.sampling import top_p_logits
from esm.utils.noise_schedules import NOISE_SCHEDULE_REGISTRY
torch.set_num_threads(1)
sampler = child.Sampler({"device": "cpu", "weights": sys.argv[2], "sizes": json.loads(sys.argv[3])})
model = sampler.model
counted = []
for steps, masked in [(4, 24), (20, 64), (20, 916), (50, 37)]:
    left, counts = masked, []
    n = min(steps, masked)
    for t in range(n):
        after = (NOISE_SCHEDULE_REGISTRY["cosine"](torch.tensor((t + 1) / n)) * torch.tensor(masked) + 0.1).int()
        counts.append(int(left - after)); left = int(after)
    counted.append(counts == child.schedule(steps, masked))
heat = all(_get_annealed_temperature(t, 20, 1.2) == child.annealed(t, 20, 1.2, True) for t in range(20))
logits = torch.randn(50, 64, generator=torch.Generator().manual_seed(0))
theirs = top_p_logits(logits.clone(), 0.6)
ours = child.nucleus(logits, 0.6)
kept = bool(((theirs > -1e30) == ours.isfinite()).all())
# One step at temperature 0 leaves nothing to chance: the very letters of esm's own generation.
L = 24
bad = [model.tokenizers.sequence.convert_tokens_to_ids(c) for c in "XBUZO.-|"]
config = GenerationConfig(track="sequence", num_steps=1, temperature=1e-4, temperature_annealing=False, invalid_ids=bad)
(out,) = model.batch_generate([model.encode(ESMProtein(sequence="_" * L))], [config])
esm = model.tokenizers.sequence.decode(out.sequence[1:-1]).replace(" ", "")
request = {"prompt": "_" * L, "rows": [[0, 0], [1, 5]], "steps": 1, "temperature": 1e-4, "top_p": 1.0,
           "annealing": False, "letters": "ACDEFGHIKLMNPQRSTVWY"}
same = sampler.sample(request)["sequences"].tolist() == [esm, esm]
# Over many sequences the same letters come as often.
many = 300
configs = [GenerationConfig(track="sequence", num_steps=3, temperature=1.0, invalid_ids=bad) for _ in range(many)]
torch.manual_seed(0)
outs = model.batch_generate([model.encode(ESMProtein(sequence="_" * 8)) for _ in range(many)], configs)
esm = [model.tokenizers.sequence.decode(o.sequence[1:-1]).replace(" ", "") for o in outs]
request |= {"prompt": "_" * 8, "rows": [[3, i] for i in range(many)], "steps": 3, "temperature": 1.0, "annealing": True}
ours = sampler.sample(request)["sequences"].tolist()
print(json.dumps({"counted": counted, "heat": heat, "kept": kept, "same": same, "esm": esm, "ours": ours}))
"""


@pytest.mark.slow
def test_sequences_come_as_from_esms_own_sampler(esm3_folder, esm_python):
    from scipy.stats import chi2_contingency
    from support.tiny_proteins import TINY_ESM3

    weights = esm3_folder / "data" / "weights" / "esm3_sm_open_v1.pth"
    command = [esm_python, "-c", AGAINST_ESM, CHILD, weights, json.dumps(TINY_ESM3)]
    quiet = os.environ | {"OMP_NUM_THREADS": "1", "DISABLE_ITERATIVE_SAMPLING_TQDM": "1"}
    done = run_to_end(list(map(str, command)), check=True, env=quiet)
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["counted"] == [True] * 4
    assert said["heat"]
    assert said["kept"]
    assert said["same"]
    counts = [Counter("".join(said[whose])) for whose in ("esm", "ours")]
    table = np.array([[count[letter] for letter in LETTERS] for count in counts])
    assert chi2_contingency(table[:, table.sum(0) > 20]).pvalue > 0.001


# Engine esm3


def test_a_row_depends_on_seed_and_row_alone(engine, monkeypatch):
    from harness_plugins.engines.row_chunks import Chunks

    six = sample(engine, "_" * 16, 6)
    assert len(set(six.texts)) == 6
    assert sample(engine, "_" * 16, 3).texts == six.texts[:3]
    assert sample(engine, "_" * 16, 3, seed=8).texts != six.texts[:3]
    monkeypatch.setattr(engine, "_chunks", Chunks(2))
    again = sample(engine, "_" * 16, 6)
    assert again.texts == six.texts
    assert again.logprobs == pytest.approx(six.logprobs, abs=1e-4)


def test_sequences_have_the_prompts_length_the_twenty_letters_and_the_letters_that_were_given(engine):
    responses = sample(engine, "MK____HE" * 2, 5)
    for text, ids, length in zip(responses.texts, responses.token_ids, responses.lengths, strict=True):
        assert len(text) == len(ids) == length == 16
        assert set(text) <= set(LETTERS)
        assert (text[:2], text[6:10], text[14:]) == ("MK", "HEMK", "HE")
    assert set(responses.finish) == {"stop"}
    assert np.isfinite(responses.logprobs).all()
    assert (responses.logprobs < 0).all()


def test_alphabet_annealing_and_steps_are_recorded_and_change_what_comes(engine, monkeypatch):
    plain = copy.copy(engine)  # with the same child
    usual = sample(engine, "_" * 40, 8, temperature=3.0).texts
    monkeypatch.setattr(plain, "annealing", False)
    hot = sample(plain, "_" * 40, 8, temperature=3.0).texts
    assert hot != usual
    monkeypatch.setattr(plain, "steps", 2)
    assert sample(plain, "_" * 40, 8, temperature=3.0).texts != hot
    monkeypatch.setattr(plain, "alphabet", "all")
    assert set("".join(sample(plain, "_" * 40, 8, temperature=3.0).texts)) - set(LETTERS)
    named = {"annealing", "steps", "alphabet", "esm", "revision", "dtype", "schedule", "strategy"}
    assert named <= set(plain.identity())
    assert plain.identity() != engine.identity()


@pytest.mark.parametrize(
    ("prompt", "sampler", "said"),
    [
        ("Say something.", {}, "a prompt is a sequence of _ and amino acids"),
        ("MKTA", {}, "has no _ to fill in"),
        ("_" * 101, {}, "a sequence of 101 is longer than --max-tokens 100"),
        ("____", {"top_k": 4}, "takes temperature and top_p"),
        ("____", {"min_p": 0.1}, "takes temperature and top_p"),
    ],
)
def test_what_esm3_cannot_do_is_one_clear_line(engine, prompt, sampler, said):
    with pytest.raises(HarnessError, match=said) as caught:
        sample(engine, prompt, 1, **sampler)
    assert "\n" not in str(caught.value)


def test_a_checkpoint_that_lacks_weights_is_refused(esm3_folder, esm_python, tmp_path):
    import torch

    from harness_plugins.engines.esm3.engine import WEIGHTS, Esm3

    part = tmp_path / "part"
    (part / WEIGHTS).parent.mkdir(parents=True)
    (part / "sizes.json").write_text((esm3_folder / "sizes.json").read_text())
    state = torch.load(esm3_folder / WEIGHTS, weights_only=True)
    torch.save({f"module.{name}": values for name, values in state.items()}, part / WEIGHTS)
    engine = Esm3(str(part), python=str(esm_python), device="cpu", test_weights=True)
    with pytest.raises(HarnessError, match="Missing key"):
        sample(engine, "____", 1)


def test_a_child_that_dies_is_one_clear_line(esm3_folder, esm_python):
    from harness_plugins.engines.esm3.engine import Esm3

    engine = Esm3(str(esm3_folder), python=str(esm_python), steps=1, device="cpu", test_weights=True)
    sample(engine, "____", 1)
    engine._child._process.kill()
    engine._child._process.wait()
    with pytest.raises(HarnessError, match="esm3: its process ended"):
        sample(engine, "____", 1)


def test_an_environment_without_esm_says_how_to_make_one(esm3_folder, monkeypatch, tmp_path):
    from harness_plugins.engines.esm3 import environment as esm3_environment
    from harness_plugins.engines.esm3.engine import Esm3

    engine = Esm3(str(esm3_folder), python=str(tmp_path / "nowhere"), test_weights=True)
    with pytest.raises(HarnessError, match=r"is not there: give the environment's bin/python, or make one: python -m"):
        engine.identity()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(esm3_environment.VARIABLE, raising=False)
    monkeypatch.setattr(esm3_environment, "find_spec", lambda name: None)
    with pytest.raises(HarnessError, match="no environment with esm"):
        esm3_environment.find_python(None)


# Embedder esmc


def test_the_mean_is_over_the_residues_alone_before_or_after_the_final_norm(models):
    import torch
    from transformers import EsmcModel, EsmcTokenizer

    text = sequences(1, 21)[0]
    model, ids = EsmcModel.from_pretrained(models / "esmc").eval(), EsmcTokenizer()(text, return_tensors="pt")
    with torch.no_grad():
        states = model(**ids).last_hidden_state[0]
        before = model(**ids, output_hidden_states=True).hidden_states[-2]
        before = model.layers[-1](before, None, position_embeddings=model.rotary_emb(before, torch.arange(23)[None]))[0]
    (post,) = embedder(models).embed(Problem("a", "b"), [text])
    (pre,) = embedder(models, layer_norm="pre").embed(Problem("a", "b"), [text])
    assert len(states) == 23
    assert post == pytest.approx(states[1:-1].mean(0).numpy(), abs=1e-5)
    assert np.abs(post - states.mean(0).numpy()).max() > 1e-3
    assert pre == pytest.approx(before[1:-1].mean(0).numpy(), abs=1e-5)


def test_padding_equal_sequences_and_batches_change_no_vector(models):
    texts = [*sequences(3, 9), *sequences(2, 40), *sequences(1, 9)]
    together = embedder(models).embed(Problem("a", "b"), texts)
    alone = np.concatenate([embedder(models).embed(Problem("a", "b"), [text]) for text in texts])
    few = embedder(models, tokens=30).embed(Problem("a", "b"), texts)
    assert together.shape == (6, 64)
    assert together == pytest.approx(alone, abs=2e-5)
    assert few == pytest.approx(alone, abs=2e-5)
    assert (together[0] == together[5]).all()


def test_a_mis_keyed_checkpoint_never_runs_on_random_weights(models, tmp_path):
    from safetensors.torch import load_file, save_file

    from harness_plugins.embedders.esmc import EsmC

    shutil.copytree(models / "esmc", tmp_path / "esmc")
    file = tmp_path / "esmc" / "model.safetensors"
    save_file({f"wrong.{name}": values for name, values in load_file(file).items()}, file, {"format": "pt"})
    with pytest.raises(HarnessError, match=r"does not hold .* of the model's weights") as caught:
        EsmC(str(tmp_path / "esmc"), device="cpu", test_weights=True).embed(Problem("a", "b"), ["MKTA"])
    assert "\n" not in str(caught.value)


def test_weights_that_are_not_finite_are_refused(models, tmp_path):
    from safetensors.torch import load_file, save_file

    from harness_plugins.embedders.esmc import EsmC

    shutil.copytree(models / "esmc", tmp_path / "esmc")
    file = tmp_path / "esmc" / "model.safetensors"
    state = load_file(file)
    next(value for name, value in state.items() if "norm" in name)[0] = float("nan")
    save_file(state, file, {"format": "pt"})
    with pytest.raises(HarnessError, match="is not finite"):
        EsmC(str(tmp_path / "esmc"), device="cpu", test_weights=True).embed(Problem("a", "b"), ["MKTA"])


def test_what_is_no_protein_is_not_embedded(models):
    for text, said in [("MKT4", "'4' at 4"), ("mkt", "'m' at 1"), ("", "an empty text")]:
        with pytest.raises(HarnessError, match=f"esmc: embeds proteins, one letter a residue, not {said}"):
            embedder(models).embed(Problem("a", "b"), [text])


def test_a_checkpoint_of_no_published_size_is_refused_before_anything_is_drawn(models, esm3_folder):
    from harness_plugins.embedders.esmc import EsmC
    from harness_plugins.engines.esm3.engine import Esm3

    for refused in (
        lambda: EsmC(str(models / "esmc")),
        lambda: Esm3(str(esm3_folder)),
        lambda: Proteins(verifier=str(models / "good")).check(),
    ):
        with pytest.raises(HarnessError, match="is it random"):
            refused()


# ESMFold


def test_ptm_is_each_rows_own_where_transformers_gives_one_for_the_batch(models):
    fold, texts = folding(models, "fold"), sequences(4, 30)
    alone = [fold.measure([text])[0] for text in texts]
    together = fold.measure(texts)
    assert len({round(one["ptm"], 6) for one in alone}) > 1
    for one, other in zip(together, alone, strict=True):
        assert one["ptm"] == pytest.approx(other["ptm"], abs=1e-6)
        assert one["plddt"] == pytest.approx(other["plddt"], abs=1e-6)
    batch = fold._model.infer(texts)  # the trap itself, as long as it is there
    assert float(batch["ptm"]) == pytest.approx(max(one["ptm"] for one in alone), abs=1e-6)


def test_one_foldable_sequence_makes_no_other_of_its_batch_plausible(models):
    import torch

    from harness_plugins.proteins.esmfold import row_ptm

    good, bad = torch.full((24, 24, 64), -30.0), torch.full((24, 24, 64), -30.0)
    good[..., 0], bad[..., -1] = 30.0, 30.0
    logits = torch.stack([bad, good, bad])
    ptm = [row_ptm(logits, row, 24, 64) for row in range(3)]
    assert ptm[1] > 0.8
    assert max(ptm[0], ptm[2]) < 0.2


def test_sequences_of_other_lengths_beside_it_change_no_figure(models):
    fold, texts = folding(models, "fold"), [*sequences(2, 12), *sequences(2, 33), *sequences(1, 140)]
    mixed = fold.measure(texts)
    for text, one in zip(texts, mixed, strict=True):
        (alone,) = fold.measure([text])
        assert one == pytest.approx(alone, abs=1e-6)


def test_figures_are_those_of_the_model_over_the_atoms_that_are_there(models):
    import torch

    (text,) = sequences(1, 18)
    fold = folding(models, "fold")
    with torch.no_grad():
        output = fold._model.infer(text)
    there = output["atom37_atom_exists"][0]
    (atoms,), (ca,) = fold.measure([text]), folding(models, "fold", plddt_mean="ca").measure([text])
    assert atoms["plddt"] == pytest.approx(float((output["plddt"][0] * there).sum() / there.sum()), abs=1e-6)
    assert ca["plddt"] == pytest.approx(float(output["plddt"][0, :, 1].mean()), abs=1e-6)
    assert atoms["ptm"] == pytest.approx(float(output["ptm"]), abs=1e-6)


@pytest.mark.parametrize(("head", "status"), [("good", "correct"), ("bad", "wrong"), ("loose", "wrong")])
def test_each_verdict_comes_through_the_real_heads(models, head, status):
    task = Proteins(verifier=str(models / head), device="cpu", test_weights=True)
    problem = Problem("length-24", "_" * 24)
    verdicts = task.verify_all(problem, sequences(3, 24))
    assert {verdict.status for verdict in verdicts} == {status}
    plddt, ptm = (float(part.partition("=")[2]) for part in verdicts[0].reason.split())
    assert (plddt > 0.8, ptm > 0.8) == (head in ("good", "loose"), head == "good")


def test_identical_sequences_are_folded_once_and_what_is_none_not_at_all(models, monkeypatch):
    fold, (one, other) = folding(models, "fold"), sequences(2, 15)
    infer, folded = fold._model.infer, []
    monkeypatch.setattr(fold._model, "infer", lambda batch: folded.extend(batch) or infer(batch))
    figures = fold.measure([one, other, one, "MK-A", ""])
    assert folded == [one, other]
    assert figures[0] == figures[2] != figures[1]
    assert figures[3:] == [{}, {}]


def test_out_of_memory_halves_the_batch_then_the_chunk_and_then_says_so(models, monkeypatch):
    fold, texts = folding(models, "fold"), sequences(4, 15)
    expected = fold.measure(texts)
    infer, tried = fold._model.infer, []

    def small(batch):
        chunk = fold._model.trunk.chunk_size
        tried.append((len(batch), chunk))
        if len(batch) > 1 or chunk is None or chunk > 32:
            raise RuntimeError("CUDA out of memory. Tried to allocate 11.5 GiB")
        return infer(batch)

    monkeypatch.setattr(fold._model, "infer", small)
    got = fold.measure(texts)
    assert tried[:6] == [(4, None), (2, None), (1, None), (1, 128), (1, 64), (1, 32)]
    assert tried[6:] == [(1, 32)] * 3  # what was found by halving is kept
    for one, other in zip(got, expected, strict=True):
        assert one == pytest.approx(other, abs=1e-6)
    monkeypatch.setattr(fold._model, "infer", _never_fits)
    with pytest.raises(HarnessError, match="one sequence of 15 residues does not fit into memory, in chunks of 16"):
        fold.measure(texts)


def _never_fits(batch):
    raise RuntimeError("CUDA out of memory. Tried to allocate 11.5 GiB")


def test_other_faults_of_the_model_are_not_taken_for_memory(models, monkeypatch):
    fold = folding(models, "fold")
    monkeypatch.setattr(fold._model, "infer", lambda batch: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        fold.measure(sequences(1, 8))


def test_long_sequences_are_folded_in_chunks():
    from harness_plugins.proteins.esmfold import chunk_for, operations

    assert [chunk_for(length) for length in (64, 384, 385, 640, 641, 916)] == [None, None, 128, 128, 64, 64]
    assert [operations(length) for length in (64, 256, 512, 916)] == pytest.approx([1.6, 20.7, 97, 403], rel=1e-3)


# End to end


@pytest.fixture
def options(models, esm3_folder, esm_python):
    """The options of a run on the tiny models, `task` parameters and the head as asked."""

    def call(head="fold", *more, n=8, length="24+26", **task):
        given = {"length": length, "verifier": models / head, "test_weights": "true", "device": "cpu", **task}
        spec = "proteins:" + ",".join(f"{name}={value}" for name, value in given.items())
        engine = f"esm3:steps=3,device=cpu,test_weights=true,python={esm_python}"
        embedder = f"esmc:model={models / 'esmc'},device=cpu,test_weights=true"
        fixed = ("--task", spec, "--engine", engine, "--model", esm3_folder, "--embedder", embedder)
        return [str(part) for part in ("run", *fixed, "--n", n, "--selector", "repexp", "--json", *more)]

    return call


@pytest.mark.slow
def test_the_protein_run_goes_from_masks_to_a_table_and_thresholds_are_moved_for_nothing(harness, options, tmp_path):
    where = ("--store", tmp_path / "runs", "--selector", "uniform")
    first = harness(*options("good", *where))
    assert first.code == 0, first.err
    for row in first.rows:
        assert (row["n"], row["problems"], row["solvable"], row["errors"]) == (8, 2, 2, 0)
        assert row["samples_to_correct"] == 1.0
        assert row["model"] == "random weights: tiny-esm3"
    assert "measure: 16 responses" in first.err
    stages = {path.parent.name: path for path in (tmp_path / "runs").glob("*/*") if path.is_dir()}
    shard = next(iter(stages["verdict"].glob("*.parquet")))
    verdicts, answers = shards.read_full_verdicts(shard)
    assert {verdict.status for verdict in verdicts} == {"correct"}
    assert all("plddt=0.99" in verdict.reason for verdict in verdicts)
    assert answers == [None] * 8

    stricter = harness(*options("good", *where, plddt_min=0.995))
    assert [row["solvable"] for row in stricter.rows] == [0, 0]
    assert "measure:" not in stricter.err
    assert "pool: reused for 2 of 2" in stricter.err
    assert "embeddings: reused for 2 of 2" in stricter.err
    shorter = harness(*options("good", *where, length="24"))
    assert "pool: reused for 1 of 1" in shorter.err
    assert "measure:" not in shorter.err

    # Random weights: shown, stored, and kept out of all that is published.
    assert first.err.count("weights: ESM3-open with RANDOM weights") == 1
    for kind, name in (("pool", "ESM3-open"), ("embedding", "ESM C"), ("verdict", "ESMFold v1")):
        (row,) = json.loads((stages[kind] / "weights.json").read_text())
        assert (row["name"], row["is_random"]) == (name, True)
    cell = json.loads(next((tmp_path / "runs" / "cells").glob("*.json")).read_text())
    assert [one["is_random"] for one in cell["weights"]] == [True] * 3
    refused = harness("results", "publish", "--store", tmp_path / "runs", "--to", tmp_path / "results")
    assert refused.code == 2
    assert "random weights: it is a test, no result" in refused.err
    table = harness("leaderboard", tmp_path / "runs" / "cells", "--json")
    assert "random weights" in table.err
    assert "tiny-esm3" not in table.out


@pytest.mark.slow
def test_a_run_killed_while_it_folds_goes_on_at_the_next_chunk_and_gives_the_same_bytes(harness, models, tmp_path):
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    pool = tmp_path / "pool.jsonl"
    pool.write_text(json.dumps({"problem_id": "length-60", "responses": sequences(70, 60)}) + "\n")
    task = f"proteins:length=60,verifier={models / 'fold'},test_weights=true,device=cpu,plddt_min=0.4,ptm_min=0.03"

    def command(store):
        options = ("--task", task, "--pool", pool, "--embedder", "tfidf", "--selector", "uniform", "--store", store)
        return ["run", *options, "--json"]

    def measured():
        return list(killed.glob("measure/*/length*.parquet"))

    whole, killed = tmp_path / "whole", tmp_path / "killed"
    table = harness(*command(whole)).out
    kill_when(measured, harness_command(*command(killed)), env=environment)
    (shard,) = measured()
    assert pq.read_metadata(shard).num_rows == 64
    again = harness(*command(killed))
    assert "measure: 6 responses" in again.err
    assert again.out == table
    assert [row["errors"] for row in again.rows] == [0]
    assert pq.read_metadata(shard).num_rows == 70
    assert contents(killed) == contents(whole)


@pytest.mark.slow
def test_models_in_the_hubs_cache_are_found_by_their_ids_and_pinned_by_their_commits(
    models, esm3_folder, esm_python, tmp_path
):
    commit = "0123456789abcdef0123456789abcdef01234567"
    for repo, folder in (
        ("biohub/esm3-sm-open-v1", esm3_folder),
        ("biohub/ESMC-600M", models / "esmc"),
        ("facebook/esmfold_v1", models / "good"),
    ):
        cached = tmp_path / "hf" / "hub" / f"models--{repo.replace('/', '--')}"
        shutil.copytree(folder, cached / "snapshots" / commit)
        (cached / "refs").mkdir()
        (cached / "refs" / "main").write_text(commit)
    task = "proteins:length=24,device=cpu,test_weights=true"
    engine = f"esm3:steps=2,device=cpu,test_weights=true,python={esm_python}"
    asked = ("--task", task, "--engine", engine, "--embedder", "esmc:device=cpu,test_weights=true", "--n", 3)
    command = harness_command("run", *asked, "--selector", "repexp", "--store", tmp_path / "runs", "--json")
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hf")}
    done = run_to_end(command, env=environment)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)
    assert (row["model"], row["samples_to_correct"]) == ("random weights: biohub/esm3-sm-open-v1", 1.0)
    manifests = {
        path.parent.parent.name: json.loads(path.read_text()) for path in tmp_path.glob("runs/*/*/manifest.json")
    }
    pinned = (manifests["pool"]["engine"]["revision"], manifests["embedding"]["model"]["weights"])
    assert (*pinned, manifests["measure"]["revision"]) == (commit, commit, commit)


@pytest.mark.slow
def test_a_dry_run_times_sampling_and_folding_and_keeps_nothing(harness, options, tmp_path):
    outcome = harness(*options("fold", "--store", tmp_path / "runs", "--dry-run", n=200))
    assert outcome.code == 0, outcome.err
    said = " ".join(outcome.err.split())
    assert "400 responses to sample" in said
    assert "sampling takes at most about" in said
    assert "verifying takes about" in said
    assert not (tmp_path / "runs").exists()


def test_the_estimate_follows_the_count_of_operations(models):
    fold = folding(models, "fold")
    once, twice = fold.seconds({16: 10, 32: 10}), fold.seconds({16: 1000, 32: 1000})
    assert once > 0
    assert twice > 20 * once


def test_folding_that_takes_days_is_not_begun_where_nobody_can_be_asked():
    from harness.running.preflight import Preflight, require_consent
    from harness.system.progress import Progress

    counts = {"cells": 1, "problems": 1, "responses": 1, "tokens": 1, "verdicts": 1, "store_bytes": 1, "free_bytes": 2}
    days = Preflight(**counts, seconds=None, measuring_s=11 * 3600.0)
    assert str(days).endswith("verifying takes about 11.0 h")
    require_consent("run", days.outlook, Progress(quiet=True, asks=False), "")  # --yes
    with pytest.raises(HarnessError, match=r"run: not begun, since it takes at most about 11.0 h"):
        require_consent("run", days.outlook, Progress(quiet=True, asks=True), "")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("--preset", "quick"), "4 lengths x 256 = 1,024 sequences to fold, 9,999 TFLOP: by arithmetic 0.1 to 0.8"),
        (("--preset", "quick", "--dry-run"), "4 lengths x 256 = 1,024 sequences"),
        (("--paper", "--selector", "uniform"), "214 lengths x 2,048 = 438,272 sequences"),
    ],
)
def test_missing_weights_are_one_line_with_source_and_licence_and_the_hours_are_said(
    harness, tmp_path, monkeypatch, asked, said
):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    from harness_plugins.proteins import published

    monkeypatch.setattr(published, "_snapshot", published._snapshot.__wrapped__)
    monkeypatch.setattr(published, "_out_of_reach", published._out_of_reach.__wrapped__)
    outcome = harness("run", "--task", "proteins", *asked, "--store", tmp_path / "runs")
    assert outcome.code == 2
    hours, line = outcome.err.strip().splitlines()
    assert said in hours
    for part in ("ESM3-open", "biohub/esm3-sm-open-v1", "biohub/ESMC-600M", "facebook/esmfold_v1", "hf download"):
        assert part in line
    assert line.count("MIT") == 3
    assert not (tmp_path / "runs").exists()


def test_a_preset_fills_in_what_was_not_given_and_is_refused_where_there_is_none(harness, tmp_path):
    from harness.plugin_system.presets import filled

    options = ("task", "preset", "engine", "sampler", "embedder", "embeddings", "selectors", "split", "n", "pool")
    none = dict.fromkeys(options) | {"plugin_files": ()}
    asked = none | {"task": "proteins:ptm_min=0.7", "preset": "small", "n": 32}
    got = filled(asked)
    assert {name: got[name] for name in ("engine", "sampler", "embedder", "selectors", "split", "n")} == {
        "engine": "esm3:annealing=false",  # with a constant 0.7: ESM3's unconditional protocol, the paper's
        "sampler": "vanilla:temperature=0.7",
        "embedder": "esmc",
        "selectors": ["repexp", "uniform"],
        "split": "small",
        "n": 32,
    }
    assert filled(none | {"task": "game24"})["engine"] == "transformers"
    assert filled(none | {"task": "proteins", "embeddings": Path("mine.npz")})["embedder"] is None
    for task, said in (("proteins", "no preset 'large'"), ("game24", "(the task has none)")):
        outcome = harness("run", "--task", task, "--preset", "large", "--selector", "uniform")
        assert outcome.code == 2
        assert said in outcome.err


def test_the_task_travels_to_a_worker_without_its_model(models):
    import pickle

    task = Proteins(verifier=str(models / "good"), device="cpu", test_weights=True)
    problem = Problem("length-8", "_" * 8)
    before = task.verify(problem, "MKTAYIAK")
    assert len(pickle.dumps(task)) < 2000
    assert pickle.loads(pickle.dumps(task)).verify(problem, "MKTAYIAK") == before
    assert parse_spec("proteins:length=64..916:4").params == {"length": "64..916:4"}
