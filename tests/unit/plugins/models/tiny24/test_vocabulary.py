"""The tokenizer of the embedded models: any text comes back, numbers are single tokens."""

from __future__ import annotations

import json
import string

from hypothesis import given
from hypothesis import strategies as st

from harness_plugins.models import tiny24
from harness_plugins.models.tiny24.puzzles import LARGEST_VALUE
from harness_plugins.models.tiny24.train import pack, render
from harness_plugins.models.tiny24.vocabulary import PAD, build_tokenizer
from harness_tasks.game24 import PROMPT

PRINTABLE = string.digits + string.ascii_letters + string.punctuation + " \n\t\r"
HARD = ["  \n\n   a", "<pad><s>", "a , b . c n't", "éß漢😀"]


@given(text=st.text())
def test_any_text_round_trips(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_printable_characters_and_hard_texts_hold_no_special_token(tokenizer):
    texts = [*PRINTABLE, PRINTABLE, *HARD]
    assert [tokenizer.decode(tokenizer.encode(text), skip_special_tokens=True) for text in texts] == texts


def test_every_whole_number_is_one_token_with_and_without_the_space_before_it(tokenizer):
    for number in range(LARGEST_VALUE + 1):
        assert len(tokenizer.encode(f"{number}")) == len(tokenizer.encode(f" {number}")) == 1


def test_the_shipped_tokenizers_are_the_built_one(tokenizer):
    built = json.loads(build_tokenizer().backend_tokenizer.to_str())
    for name in tiny24.names():
        assert json.loads((tiny24.folder(name) / "tokenizer.json").read_text()) == built
    assert (tokenizer.padding_side, tokenizer.pad_token) == ("left", PAD)


def test_the_chat_template_gives_what_training_saw(tokenizer, puzzle):
    messages = [{"role": "user", "content": PROMPT.format(numbers="4, 5, 6, 10")}]
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True)["input_ids"]
    assert prompt == render(tokenizer, puzzle)
    assert prompt.count(tokenizer.bos_token_id) == 1
    chat = [*messages, {"role": "assistant", "content": puzzle.responses[0]}]
    whole = tokenizer.apply_chat_template(chat)["input_ids"]
    assert pack(build_tokenizer(), [puzzle], [puzzle.responses[:1]]).tokens[0].tolist() == whole
    assert whole[: len(prompt)] == prompt
    assert len(prompt) <= 50
    assert max(len(tokenizer.encode(response)) for response in puzzle.responses) < 45
