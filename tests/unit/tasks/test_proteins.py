"""The task proteins: its problems, what cannot be an answer, its thresholds, presets, and what a run needs."""

import math
import pickle

import pytest
from corpora.proteins import PROTEIN_ANSWERS
from support.refusals import refusal_of, wrongly_refused

from harness import Problem
from harness.plugin_system.component import parse_spec
from harness_plugins.proteins import published
from harness_plugins.proteins.tiny import tiny_esmfold
from harness_tasks.proteins import Proteins, fault, lengths

FOUR = Problem("length-4", "____")
LENGTHS = {"64": [64], "128+64": [64, 128], "64..256:64": [64, 128, 192, 256], "3..5": [3, 4, 5], "4..9:4": [4, 8]}


def test_lengths_are_named_singly_in_sums_and_in_ranges_and_wrong_parameters_are_refused():
    assert {text: lengths(text) for text in LENGTHS} == LENGTHS
    assert parse_spec("proteins:length=64..916:4").params == {"length": "64..916:4"}
    wrong = ["", "64..", "0", "64..32", "1..1023", "64..128:0", "many", "-4"]
    assert not wrongly_refused([(text, "proteins: length") for text in wrong], lambda text: Proteins(length=text))
    assert refusal_of(Proteins, plddt_min=1) == "proteins: plddt_min must be in [0, 1), got 1"
    assert refusal_of(Proteins, ptm_min=-0.1) == "proteins: ptm_min must be in [0, 1), got -0.1"
    assert refusal_of(Proteins, plddt_mean="all") == "proteins: plddt_mean must be atoms or ca, got 'all'"


def test_the_splits_and_presets_are_as_documented():
    paper = [problem.id for problem in Proteins().problems("paper")]
    assert all(len(Proteins().problems(split)) == size for split, size in Proteins.sizes.items())
    assert (len(paper), paper[0], paper[1], paper[-1]) == (214, "length-64", "length-68", "length-916")
    presets = Proteins.presets.items()
    sizes = {name: (len(Proteins().problems(preset["split"])), preset["n"]) for name, preset in presets}
    assert sizes == {"quick": (4, 256), "small": (13, 512), "paper": (214, 2048)}
    assert Proteins().problems("any") == [Problem("any", "")]
    assert "proteins: no split 'tset'" in refusal_of(Proteins().problems, "tset")


def test_both_figures_must_exceed_their_thresholds_and_stand_in_the_reason_alone_and_a_fault_is_wrong():
    task = Proteins()
    for plddt, ptm, status in [(0.81, 0.81, "correct"), (0.8, 0.9, "wrong"), (0.9, 0.8, "wrong")]:
        verdict = task.judge(FOUR, "MKTA", {"plddt": plddt, "ptm": ptm})
        assert (verdict.status, verdict.reason) == (status, f"plddt={plddt:.6f} ptm={ptm:.6f}")
    assert task.answer(FOUR, "MKTA") is None  # selectors see answers: a figure there would tell them the verdict
    for figures in ({}, {"plddt": math.nan, "ptm": 0.9}):
        assert task.judge(FOUR, "MKTA", figures).status == "error"
    for prompt, response, reason in PROTEIN_ANSWERS:
        assert fault(Problem("p", prompt), response) == reason
        verdict = task.judge(Problem("p", prompt), response, {"plddt": 0.9, "ptm": 0.9})
        assert (verdict.status, verdict.reason if reason else "") == ("wrong" if reason else "correct", reason)


def test_prompts_of_ones_own_are_read_and_their_given_letters_hold(written):
    def problems(lines):
        return Proteins(data=str(written(lines))).problems("test")

    motif, other = problems([{"id": "motif", "prompt": "__HEAAH_"}, {"prompt": "____"}])
    assert (motif, other) == (Problem("motif", "__HEAAH_"), Problem("prompt-2", "____"))
    no_prompt = "line 1: prompt must be a sequence of _ and amino acids"
    wrong = [([{"prompt": prompt}], no_prompt) for prompt in ("MKTA", "_Z", 4)]
    wrong.append(([{"id": "a", "prompt": "_"}, {"id": "a", "prompt": "__"}], "problem 'a' is there already (line 1)"))
    assert not wrongly_refused(wrong, problems)
    assert Proteins(data=str(written([{"prompt": "_"}]))).revision.startswith("sha256:")


@pytest.mark.usefixtures("one_thread")
def test_the_task_travels_to_a_worker_without_its_model_and_folds_only_published_weights(tmp_path):
    folder = tiny_esmfold(tmp_path / "fold")
    task = Proteins(verifier=str(folder), device="cpu", test_weights=True)
    before = task.verify(Problem("length-8", "_" * 8), "MKTAYIAK")
    assert len(pickle.dumps(task)) < 2000
    assert pickle.loads(pickle.dumps(task)).verify(Problem("length-8", "_" * 8), "MKTAYIAK") == before
    assert task.conditions() == {"verifier": "random weights: fold"}
    assert task.grader == f"1 {task.measurer().copy.commit()}"
    assert task.measurer().identity()["plddt_mean"] == "atoms"
    assert task.seconds([(Problem("any", ""), 4)]) is None
    assert "is it random" in refusal_of(Proteins(verifier=str(folder)).check)


def test_missing_weights_are_one_line_with_source_and_licence(harness, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    for name in ("_snapshot", "_out_of_reach"):
        monkeypatch.setattr(published, name, getattr(published, name).__wrapped__)
    command = "run", "--task", "proteins", "--preset", "quick", "--store", tmp_path / "runs"
    priced = harness(*command, "--dry-run")
    assert (priced.code, "at most 4 problems x 256 = 1,024 responses" in priced.err) == (0, True)
    outcome = harness(*command)
    line = outcome.err.strip().splitlines()[-1]
    for part in ("ESM3-open", "biohub/esm3-sm-open-v1", "biohub/ESMC-600M", "facebook/esmfold_v1", "hf download"):
        assert part in line
    assert (outcome.code, line.count("MIT")) == (2, 3)
    assert line in priced.err.replace("not planned yet: ", "error: ")
    assert not (tmp_path / "runs").exists()
