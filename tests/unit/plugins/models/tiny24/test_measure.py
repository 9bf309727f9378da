"""How good an embedded model is: sampled by plain `generate`, graded by the task."""

from __future__ import annotations

import json
import sys

import pytest
import torch
from transformers import AutoModelForCausalLM

from harness_plugins.models import tiny24
from harness_plugins.models.tiny24 import measure as measuring
from harness_plugins.models.tiny24.measure import TASK, measure, pass_at_k, summary

pytestmark = pytest.mark.usefixtures("one_thread")


def test_tiny24_solves_dev_puzzles_by_sampling(tokenizer):
    model = AutoModelForCausalLM.from_pretrained(tiny24.folder("tiny24"), dtype=torch.float32)
    counts = measure(model, tokenizer, TASK.problems("dev")[::30], n=16, rows=64)
    assert sum(count > 0 for count in counts) >= 3, counts
    assert pass_at_k(counts, 16, 1) >= 0.05


def test_a_summary_is_exact_at_both_ends():
    assert summary([0, 4], 4) == {"problems": 2, "pass@1": 0.5, "pass@4": 0.5, "never_solved": 0.5, "above_0.9": 0.5}
    assert pass_at_k([1], 4, 2) == 0.5
    assert summary([9], 10)["above_0.9"] == 0


def test_the_command_prints_the_summary_and_the_counts(monkeypatch, capsys):
    monkeypatch.setattr(measuring, "measure", lambda model, tokenizer, problems, **options: [4] * len(problems))
    monkeypatch.setattr(sys, "argv", ["measure", str(tiny24.folder("tiny24-faint")), "--n", "4", "--counts"])
    measuring.main()
    printed = json.loads(capsys.readouterr().out)
    assert printed["pass@1"] == 1
    assert set(printed["counts"].values()) == {4}
