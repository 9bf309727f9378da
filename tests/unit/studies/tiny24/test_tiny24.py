"""The training of an embedded model, how good one is (measure), and the models as they are shipped."""

import os
from dataclasses import replace

import pytest
import torch
from safetensors import safe_open
from support.json_lines import read_json_lines
from support.refusals import refusal_of
from transformers import AutoModelForCausalLM, AutoTokenizer

from harness_plugins.models.location import embedded, embedded_names
from harness_tasks.game24 import puzzle_id, split_of
from studies.tiny24.measure import TASK, measure, pass_at_k, summary
from studies.tiny24.puzzles import all_numbers
from studies.tiny24.train import (
    Curriculum,
    TrainConfig,
    build_model,
    learning_rate,
    loss_of,
    pack,
    render,
    train,
)

TINY = TrainConfig(
    steps=6, prompts=4, responses=2, hidden_size=64, intermediate_size=64, layers=1, keep=2, dev_problems=0
)
QUADRUPLES = [(1, 1, 4, 6), (2, 3, 4, 4), (3, 3, 8, 8), (4, 5, 6, 10)]

pytestmark = pytest.mark.usefixtures("one_thread")


def test_batches_name_the_split_train_only_beside_24(tokenizer):
    curriculum = Curriculum(replace(TINY, share_24=1.0), tokenizer, all_numbers()[::300])
    assert {split_of(puzzle_id(puzzle.numbers)) for puzzle in curriculum.for_24} == {"train"}
    assert all("make 24" not in puzzle.prompt for puzzle in curriculum.for_others)
    prompts = tokenizer.batch_decode(curriculum.batch(0).tokens)
    assert all(any(puzzle.prompt in prompt for puzzle in curriculum.for_24) for prompt in prompts)


def test_responses_in_one_row_do_not_see_one_another(tokenizer, puzzle):
    model = build_model(TINY, tokenizer)
    responses = puzzle.responses[:3]
    together = loss_of(model, pack(tokenizer, [puzzle], [responses]), bfloat16=False)
    tokens, total = 0, 0.0
    for response in responses:
        ids = [*render(tokenizer, puzzle), *tokenizer.encode(response), tokenizer.eos_token_id]
        labels = [-100] * len(render(tokenizer, puzzle)) + ids[len(render(tokenizer, puzzle)) :]
        count = len(tokenizer.encode(response)) + 1
        total += count * model(input_ids=torch.tensor([ids]), labels=torch.tensor([labels])).loss.item()
        tokens += count
    assert together.item() == pytest.approx(total / tokens, rel=1e-4)


def test_a_killed_and_resumed_run_ends_in_the_same_weights(tmp_path, monkeypatch):
    calls, replace_file = [], os.replace

    def killed(*arguments):
        calls.append(arguments)
        if len(calls) == 2:  # while the second state is saved
            raise KeyboardInterrupt
        return replace_file(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path / "killed", TINY, QUADRUPLES)
    assert (tmp_path / "killed" / "state.part").exists()
    runs = [train(tmp_path / name, TINY, QUADRUPLES).model.parameters() for name in ("killed", "straight")]
    assert all(torch.equal(a, b) for a, b in zip(*runs, strict=True))
    for name in ("killed", "straight"):
        assert [line["step"] for line in read_json_lines(tmp_path / name / "log.jsonl")] == [2, 4, 6]
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "killed" / "step-6").dtype == torch.float16
    line = refusal_of(train, tmp_path / "killed", replace(TINY, seed=1, learning_rate=1.0), QUADRUPLES)
    assert line.endswith("holds a run with another learning_rate, seed; choose another --out")
    rates = [learning_rate(TrainConfig(steps=1000, warmup=100, learning_rate=2.0), step) for step in (0, 99, 500, 1000)]
    assert rates == pytest.approx([0.02, 2.0, 1.0, 0.04], rel=0.03)


def test_tiny24_solves_dev_puzzles_by_sampling_and_a_summary_is_exact_at_both_ends(tokenizer):
    model = AutoModelForCausalLM.from_pretrained(embedded("tiny24"), dtype=torch.float32)
    counts = measure(model, tokenizer, TASK.problems("dev")[::30], n=16, rows=64)
    assert sum(count > 0 for count in counts) >= 3, counts
    assert pass_at_k(counts, 16, 1) >= 0.05
    assert summary([0, 4], 4) == {"problems": 2, "pass@1": 0.5, "pass@4": 0.5, "never_solved": 0.5, "above_0.9": 0.5}


LADDER = ["tiny24", "tiny24-faint", "tiny24-medium", "tiny24-weak"]


def test_each_model_of_the_ladder_loads_as_a_stock_model_and_nothing_else_is_embedded():
    assert (embedded_names(), embedded("Qwen/Qwen2.5-0.5B-Instruct"), embedded("")) == (LADDER, None, None)
    for name in LADDER:
        model = AutoModelForCausalLM.from_pretrained(embedded(name), dtype=torch.float32)
        assert (type(model).__name__, model.config.head_dim) == ("LlamaForCausalLM", 64)
        tokenizer = AutoTokenizer.from_pretrained(embedded(name))
        assert model.config.vocab_size == len(tokenizer)
        assert model.generation_config.eos_token_id == tokenizer.eos_token_id
        assert model.generation_config.pad_token_id == tokenizer.pad_token_id
        with safe_open(embedded(name) / "model.safetensors", "pt") as weights:
            assert {weights.get_slice(key).get_dtype() for key in weights.keys()} == {"F16"}  # noqa: SIM118
