"""The puzzles of the Game of 24: all hands that make 24, or those of a local file."""

import gzip
import hashlib

import pytest
from corpora.game24 import BAD_CSV_FILES, BAD_JSON_FILES
from support.refusals import refusal_of, wrongly_refused

from harness_tasks.game24 import Game24, solvable_hands


def test_the_computed_puzzles_are_the_published_1362_in_the_order_of_their_numbers(shared_data):
    task = Game24(data=str(shared_data / "tasks" / "game24.csv"))
    published = sorted([int(number) for number in problem.prompt.split()] for problem in task.problems("test"))
    assert list(map(list, solvable_hands())) == published
    assert {problem.id for problem in task.problems("dev")} == {problem.id for problem in Game24().problems("dev")}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("24.csv", "Rank,Puzzles,AMT (s)\n1,10 4 6 5,4.4\n2,1 1 1 1,5.5\n"),
        ("24.csv", "\ufeffPuzzles\r\n10 4 6 5\r\n1 1 1 1\r\n"),
        ("24.jsonl", '{"numbers": [10, 4, 6, 5]}\n\n{"numbers": "1 1 1 1"}\n'),
        ("24.jsonl", gzip.compress(b'{"puzzle": "10 4 6 5"}\n{"prompt": "1, 1, 1, 1", "id": 7}\n', mtime=0)),
    ],
)
def test_a_local_file_is_read_in_its_order_solvable_or_not(written, name, content):
    problems = Game24(data=str(written(content, name))).problems("test")
    assert [(problem.id, problem.prompt) for problem in problems] == [("4-5-6-10", "4 5 6 10"), ("1-1-1-1", "1 1 1 1")]


def test_the_revision_names_the_files_bytes(written):
    task = Game24(data=str(written("Puzzles\n1 1 4 6\n", "24.csv")))
    assert Game24().revision == "1"
    assert task.revision == "sha256:" + hashlib.sha256(b"Puzzles\n1 1 4 6\n").hexdigest()[:16]


def test_a_bad_or_missing_file_is_refused_in_one_line(written, tmp_path):
    for name, faults in (("puzzles.csv", BAD_CSV_FILES), ("puzzles", BAD_JSON_FILES)):
        assert not wrongly_refused(faults, lambda text, name=name: Game24(str(written(text, name))).problems("test"))
    task = Game24(data=str(tmp_path / "none.jsonl"))
    for call in (lambda: task.problems("test"), lambda: task.revision):
        assert refusal_of(call) == f"game24: cannot read '{tmp_path}/none.jsonl': No such file or directory"
