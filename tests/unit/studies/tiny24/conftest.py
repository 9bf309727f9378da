"""The shipped tokenizer, and a puzzle with all its worked solutions."""

import pytest
from transformers import AutoTokenizer

from harness_plugins.models.location import embedded
from studies.tiny24.puzzles import Puzzle, solve


@pytest.fixture(scope="session")
def tokenizer():
    return AutoTokenizer.from_pretrained(embedded("tiny24"))


@pytest.fixture(scope="session")
def puzzle():
    return Puzzle((4, 5, 6, 10), 24, tuple(solve((4, 5, 6, 10), [24])[24]))
