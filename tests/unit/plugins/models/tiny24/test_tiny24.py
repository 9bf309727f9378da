"""The embedded models: their tokenizer, their training, and the shipped checkpoints."""

import json
import string
import subprocess
import sys
import time
from dataclasses import replace
from fractions import Fraction
from importlib.resources import files

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from support.json_lines import read_json_lines
from transformers import AutoModelForCausalLM, AutoTokenizer

from harness import HarnessError, Problem
from harness_plugins.models import tiny24
from harness_plugins.models.tiny24.measure import TASK, measure, pass_at_k, summary
from harness_plugins.models.tiny24.puzzles import LARGEST_VALUE, Puzzle, all_numbers, solve, training_puzzles
from harness_plugins.models.tiny24.train import (
    Curriculum,
    TrainConfig,
    build_model,
    loss_of,
    pack,
    record,
    render,
    train,
)
from harness_plugins.models.tiny24.vocabulary import PAD, build_tokenizer
from harness_tasks.game24 import PROMPT, puzzle_id, split_of

PRINTABLE = string.digits + string.ascii_letters + string.punctuation + " \n\t\r"
TINY = TrainConfig(
    steps=6, prompts=4, responses=2, hidden_size=64, intermediate_size=64, layers=1, keep=2, dev_problems=0
)
QUADRUPLES = [(1, 1, 4, 6), (2, 3, 4, 4), (3, 3, 8, 8), (4, 5, 6, 10)]
LADDER = ["tiny24", "tiny24-faint", "tiny24-medium", "tiny24-weak"]


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(tiny24.folder("tiny24"))


@pytest.fixture(scope="module")
def puzzle():
    return Puzzle((4, 5, 6, 10), 24, tuple(solve((4, 5, 6, 10), [24])[24]))


# Tokenizer


@given(text=st.text(alphabet=PRINTABLE))
def test_any_printable_ascii_round_trips(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text), skip_special_tokens=True) == text


@given(text=st.text())
def test_any_text_round_trips(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize("text", [*PRINTABLE, "  \n\n   a", "<pad><s>", "a , b . c n't", "éß漢😀"])
def test_each_character_and_some_hard_texts_round_trip(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text), skip_special_tokens=True) == text


def test_every_whole_number_is_one_token_with_and_without_the_space_before_it(tokenizer):
    for number in range(LARGEST_VALUE + 1):
        assert len(tokenizer.encode(f"{number}")) == len(tokenizer.encode(f" {number}")) == 1


def test_prompt_and_solution_are_short(tokenizer, puzzle):
    assert len(render(tokenizer, puzzle)) <= 50
    assert max(len(tokenizer.encode(response)) for response in puzzle.responses) < 45


def test_the_shipped_tokenizers_are_the_built_one(tokenizer):
    built = json.loads(build_tokenizer().backend_tokenizer.to_str())
    for name in tiny24.names():
        assert json.loads((tiny24.folder(name) / "tokenizer.json").read_text()) == built
    assert (tokenizer.padding_side, tokenizer.pad_token) == ("left", PAD)


def test_the_chat_template_gives_what_training_saw(tokenizer, puzzle):
    messages = [{"role": "user", "content": PROMPT.format(numbers="4, 5, 6, 10")}]
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True)["input_ids"]
    assert prompt.count(tokenizer.bos_token_id) == 1
    chat = [*messages, {"role": "assistant", "content": puzzle.responses[0]}]
    whole = tokenizer.apply_chat_template(chat)["input_ids"]
    batch = pack(build_tokenizer(), [puzzle], [puzzle.responses[:1]])
    assert batch.tokens[0].tolist() == whole
    assert whole[: len(prompt)] == prompt


# Puzzles


def test_a_worked_solution_reads_as_documented(puzzle):
    assert puzzle.responses[0] == "5 * 4 = 20, left 6 10 20\n10 - 6 = 4, left 4 20\n20 + 4 = 24\nAnswer: 5 * 4 + 10 - 6"


@pytest.mark.parametrize("numbers", [*QUADRUPLES, (1, 3, 4, 6), (2, 2, 11, 11), (1, 5, 5, 5), (1, 1, 1, 8)])
def test_every_worked_solution_is_distinct_and_correct(numbers):
    responses = solve(numbers, [24])[24]
    assert len(set(responses)) == len(responses) > 0
    problem = Problem(puzzle_id(numbers), " ".join(map(str, numbers)))
    assert {TASK.verify(problem, response).status for response in responses} == {"correct"}


def test_every_step_of_a_worked_solution_holds():
    for responses in solve((3, 3, 8, 8), range(1, 49)).values():
        for line in (line for response in responses for line in response.split("\n")[:-1]):
            left, sign, right, _, value = line.split(",")[0].split()
            a, b = Fraction(left), Fraction(right)
            assert {"+": a + b, "-": a - b, "*": a * b, "/": a / (b or 1)}[sign] == Fraction(value)


def test_no_puzzle_held_out_is_trained_on_with_target_24():
    others = [numbers for numbers in all_numbers() if split_of(puzzle_id(numbers)) != "train"]
    assert len(others) > 500
    assert {puzzle.target for puzzle in training_puzzles(others[::3], 25, keep=1, seed=0)} == {*range(1, 26)} - {24}


def test_batches_name_the_split_train_only_beside_24(tokenizer):
    curriculum = Curriculum(replace(TINY, share_24=1.0), tokenizer, all_numbers()[::60])
    assert {split_of(puzzle_id(puzzle.numbers)) for puzzle in curriculum.for_24} == {"train"}
    assert all("make 24" not in puzzle.prompt for puzzle in curriculum.for_others)
    prompts = tokenizer.batch_decode(curriculum.batch(0).tokens)
    assert all(any(puzzle.prompt in prompt for puzzle in curriculum.for_24) for prompt in prompts)


def test_the_recorded_split_is_the_tasks():
    split = json.loads((files(tiny24) / "split.json").read_text())
    assert split == {name: [problem.id for problem in TASK.problems(name)] for name in ("train", "dev", "heldout")}
    assert sum(map(len, split.values())) == 1362


# Training


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


def test_a_killed_and_resumed_run_ends_in_the_same_weights(tmp_path):
    config = replace(TINY, steps=120, keep=20)
    straight = train(tmp_path / "straight", config, QUADRUPLES)
    train_until_killed(tmp_path / "killed", config)
    assert not (tmp_path / "killed" / "step-120").exists()
    resumed = train(tmp_path / "killed", config, QUADRUPLES)
    for ours, theirs in zip(straight.model.parameters(), resumed.model.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    for run in ("straight", "killed"):
        lines = read_json_lines(tmp_path / run / "log.jsonl")
        assert [line["step"] for line in lines] == [20, 40, 60, 80, 100, 120]
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "killed" / "step-120").dtype == torch.float16


def train_until_killed(out, config):
    """Train in a process of its own and kill it between its first saved state and its end."""
    code = (
        "from pathlib import Path\n"
        "from harness_plugins.models.tiny24.train import TrainConfig, train\n"
        f"train(Path({str(out)!r}), {config!r}, {QUADRUPLES!r})"
    )
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL) as process:
        while not (out / "state.pt").exists() and process.poll() is None:
            time.sleep(0.005)
        process.kill()


def test_a_run_is_not_resumed_with_other_settings(tmp_path):
    record(tmp_path / "config.json", TINY)
    with pytest.raises(HarnessError, match="another learning_rate, seed; choose another --out"):
        train(tmp_path, replace(TINY, seed=1, learning_rate=1.0), QUADRUPLES)


# The shipped models


def test_the_ladder_is_there_and_nothing_else_is_embedded():
    assert tiny24.names() == LADDER
    assert tiny24.folder("Qwen/Qwen2.5-0.5B-Instruct") is None
    assert tiny24.folder("") is None


def test_asking_for_a_folder_does_not_import_torch():
    code = "import sys; from harness_plugins.models import tiny24; tiny24.folder('tiny24')"
    code += "; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_all_weights_together_stay_below_eight_megabytes():
    assert (
        sum(path.stat().st_size for name in LADDER for path in tiny24.folder(name).glob("*.safetensors")) <= 8_000_000
    )


@pytest.mark.parametrize("name", LADDER)
def test_a_shipped_folder_loads_as_a_stock_model(name):
    model = AutoModelForCausalLM.from_pretrained(tiny24.folder(name), dtype=torch.float32)
    assert (type(model).__name__, model.config.head_dim) == ("LlamaForCausalLM", 64)
    assert model.config.max_position_embeddings >= 512
    tokenizer = AutoTokenizer.from_pretrained(tiny24.folder(name))
    assert model.config.vocab_size == len(tokenizer)
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id
    assert model.generation_config.pad_token_id == tokenizer.pad_token_id
    with safe_open(tiny24.folder(name) / "model.safetensors", "pt") as weights:
        assert {weights.get_slice(key).get_dtype() for key in weights.keys()} == {"F16"}  # noqa: SIM118


def test_tiny24_solves_dev_puzzles_by_sampling(tokenizer):
    model = AutoModelForCausalLM.from_pretrained(tiny24.folder("tiny24"), dtype=torch.float32)
    counts = measure(model, tokenizer, TASK.problems("dev")[::18], n=32)
    assert sum(count > 0 for count in counts) >= 4
    assert pass_at_k(counts, 32, 1) >= 0.05


def test_a_summary_is_exact_at_both_ends():
    figures = summary([0, 4], 4)
    assert (figures["pass@1"], figures["pass@4"], figures["never_solved"], figures["above_0.9"]) == (0.5,) * 4
