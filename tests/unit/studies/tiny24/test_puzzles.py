"""Puzzles and their worked solutions: correct, distinct, none held out; the tokenizer that writes them (vocabulary)."""

import json

from hypothesis import given
from hypothesis import strategies as st
from support.paths import ROOT

from harness import Problem
from harness_plugins.models.location import embedded, embedded_names
from harness_tasks.game24 import PROMPT, puzzle_id
from studies.tiny24.measure import TASK
from studies.tiny24.puzzles import LARGEST_VALUE, PAD, build_tokenizer, solve
from studies.tiny24.train import pack, render

NUMBERS = [(1, 1, 4, 6), (2, 3, 4, 4), (3, 3, 8, 8), (4, 5, 6, 10), (1, 3, 4, 6), (2, 2, 11, 11), (1, 5, 5, 5)]


def test_every_worked_solution_is_distinct_and_correct_and_reads_as_documented(puzzle):
    assert puzzle.responses[0] == "5 * 4 = 20, left 6 10 20\n10 - 6 = 4, left 4 20\n20 + 4 = 24\nAnswer: 5 * 4 + 10 - 6"
    for numbers in NUMBERS:
        responses = solve(numbers, [24])[24]
        assert len(set(responses)) == len(responses) > 0
        problem = Problem(puzzle_id(numbers), " ".join(map(str, numbers)))
        assert {TASK.verify(problem, response).status for response in responses} == {"correct"}, numbers
    assert solve((1, 1, 1, 1), [24]) == {}


def test_the_recorded_split_is_the_tasks():
    split = json.loads((ROOT / "studies" / "tiny24" / "split.json").read_text())
    assert split == {name: [problem.id for problem in TASK.problems(name)] for name in ("train", "dev", "heldout")}


@given(text=st.text())
def test_any_text_round_trips(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text), skip_special_tokens="<" not in text) == text


def test_the_shipped_tokenizers_are_the_built_one_in_which_every_whole_number_is_one_token(tokenizer):
    built = json.loads(build_tokenizer().backend_tokenizer.to_str())
    for name in embedded_names():
        assert json.loads((embedded(name) / "tokenizer.json").read_text()) == built
    assert (tokenizer.padding_side, tokenizer.pad_token) == ("left", PAD)
    for number in range(LARGEST_VALUE + 1):
        assert len(tokenizer.encode(f"{number}")) == len(tokenizer.encode(f" {number}")) == 1


def test_the_chat_template_gives_what_training_saw(tokenizer, puzzle):
    messages = [{"role": "user", "content": PROMPT.format(numbers="4, 5, 6, 10")}]
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True)["input_ids"]
    assert prompt == render(tokenizer, puzzle)
    assert prompt.count(tokenizer.bos_token_id) == 1
    chat = [*messages, {"role": "assistant", "content": puzzle.responses[0]}]
    whole = tokenizer.apply_chat_template(chat)["input_ids"]
    assert pack(build_tokenizer(), [puzzle], [puzzle.responses[:1]]).tokens[0].tolist() == whole
    assert whole[: len(prompt)] == prompt
