"""The embedded models: puzzles and their worked solutions, the tokenizer, the training, and the models as shipped."""

import json
import os
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from support.json_lines import read_json_lines
from support.paths import ROOT
from support.refusals import refusal_of
from transformers import AutoModelForCausalLM, AutoTokenizer

from harness import Problem
from harness_plugins.models.location import embedded, embedded_names
from harness_tasks.game24 import PROMPT, puzzle_id, split_of
from studies.tiny24.measure import TASK, measure, pass_at_k, summary
from studies.tiny24.puzzles import LARGEST_VALUE, PAD, Puzzle, all_numbers, build_tokenizer, solve
from studies.tiny24.train import Curriculum, TrainConfig, build_model, learning_rate, loss_of, pack, render, train

TINY = TrainConfig(
    steps=6, prompts=4, responses=2, hidden_size=64, intermediate_size=64, layers=1, keep=2, dev_problems=0
)
QUADRUPLES = [(1, 1, 4, 6), (2, 3, 4, 4), (3, 3, 8, 8), (4, 5, 6, 10)]
LADDER = ["tiny24", "tiny24-faint", "tiny24-medium", "tiny24-weak"]

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(embedded("tiny24"))


@pytest.fixture(scope="module")
def puzzle():
    return Puzzle((4, 5, 6, 10), 24, tuple(solve((4, 5, 6, 10), [24])[24]))


def test_every_worked_solution_is_distinct_and_correct_and_reads_as_documented_and_the_split_is_the_tasks(puzzle):
    assert puzzle.responses[0] == "5 * 4 = 20, left 6 10 20\n10 - 6 = 4, left 4 20\n20 + 4 = 24\nAnswer: 5 * 4 + 10 - 6"
    for numbers in (*QUADRUPLES, (2, 2, 11, 11), (1, 5, 5, 5)):
        responses = solve(numbers, [24])[24]
        assert len(set(responses)) == len(responses) > 0
        problem = Problem(puzzle_id(numbers), " ".join(map(str, numbers)))
        assert {TASK.verify(problem, response).status for response in responses} == {"correct"}, numbers
    assert solve((1, 1, 1, 1), [24]) == {}
    split = json.loads((ROOT / "studies" / "tiny24" / "split.json").read_text())
    assert split == {name: [problem.id for problem in TASK.problems(name)] for name in ("train", "dev", "heldout")}


@settings(max_examples=30)
@given(text=st.text())
def test_any_text_round_trips(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text), skip_special_tokens="<" not in text) == text


def test_the_chat_template_gives_what_training_saw(tokenizer, puzzle):
    messages = [{"role": "user", "content": PROMPT.format(numbers="4, 5, 6, 10")}]
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True)["input_ids"]
    assert prompt == render(tokenizer, puzzle)
    assert prompt.count(tokenizer.bos_token_id) == 1
    chat = [*messages, {"role": "assistant", "content": puzzle.responses[0]}]
    whole = tokenizer.apply_chat_template(chat)["input_ids"]
    assert pack(build_tokenizer(), [puzzle], [puzzle.responses[:1]]).tokens[0].tolist() == whole
    assert whole[: len(prompt)] == prompt


def test_batches_name_the_split_train_only_beside_24(tokenizer):
    curriculum = Curriculum(replace(TINY, share_24=1.0), tokenizer, all_numbers()[::300])
    assert {split_of(puzzle_id(puzzle.numbers)) for puzzle in curriculum.for_24} == {"train"}
    assert all("make 24" not in puzzle.prompt for puzzle in curriculum.for_others)
    prompts = tokenizer.batch_decode(curriculum.batch(0).tokens)
    assert all(any(puzzle.prompt in prompt for puzzle in curriculum.for_24) for prompt in prompts)


def test_responses_in_one_row_do_not_see_one_another(tokenizer, puzzle):
    model, responses = build_model(TINY, tokenizer), puzzle.responses[:3]
    together = loss_of(model, pack(tokenizer, [puzzle], [responses]), bfloat16=False)
    prompt, tokens, total = render(tokenizer, puzzle), 0, 0.0
    for response in responses:
        own = [*tokenizer.encode(response), tokenizer.eos_token_id]
        ids, labels = torch.tensor([[*prompt, *own]]), torch.tensor([[-100] * len(prompt) + own])
        total += len(own) * model(input_ids=ids, labels=labels).loss.item()
        tokens += len(own)
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


def test_each_model_of_the_ladder_is_a_stock_model_with_the_built_tokenizer_in_which_a_number_is_one_token(tokenizer):
    assert (embedded_names(), embedded("Qwen/Qwen2.5-0.5B-Instruct"), embedded("")) == (LADDER, None, None)
    built = json.loads(build_tokenizer().backend_tokenizer.to_str())
    for name in LADDER:
        assert json.loads((embedded(name) / "tokenizer.json").read_text()) == built
        model = AutoModelForCausalLM.from_pretrained(embedded(name), dtype=torch.float32)
        assert (type(model).__name__, model.config.head_dim) == ("LlamaForCausalLM", 64)
        assert model.config.vocab_size == len(tokenizer)
        for token in ("eos_token_id", "pad_token_id"):
            assert getattr(model.generation_config, token) == getattr(tokenizer, token)
        with safe_open(embedded(name) / "model.safetensors", "pt") as weights:
            assert {weights.get_slice(key).get_dtype() for key in weights.keys()} == {"F16"}  # noqa: SIM118
    assert (tokenizer.padding_side, tokenizer.pad_token) == ("left", PAD)
    for number in range(LARGEST_VALUE + 1):
        assert len(tokenizer.encode(f"{number}")) == len(tokenizer.encode(f" {number}")) == 1
