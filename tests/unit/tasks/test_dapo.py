"""DAPO-Math-17k: copies, the seeded training set, texts without the instruction around them, AIME beside it."""

import hashlib

import pytest
from support.refusals import refusal_of
from support.task_files import ids, jsonl, of_aime, of_dapo, parquet

from harness_tasks.dapo import DapoAime, DapoMath


@pytest.fixture(scope="module")
def copies(tmp_path_factory):
    """5,000 problems, each three times: the whole set thrice, as the hub has it."""
    return parquet(tmp_path_factory.mktemp("dapo") / "f.parquet", [of_dapo(i) for i in range(5000)] * 3)


def test_copies_are_left_out_and_the_ids_ascend(copies, tmp_path):
    problems = DapoMath(copies).problems("all")
    assert ids(problems) == sorted(of_dapo(i)["extra_info"]["index"] for i in range(5000))
    [seventh] = [problem for problem in problems if problem.id == of_dapo(7)["extra_info"]["index"]]
    assert (seventh.prompt, seventh.reference) == ("What is $7 + 1$?", "8")
    rows = [of_dapo(1), of_dapo(2), of_dapo(1)]
    assert len(DapoMath(jsonl(tmp_path / "f.jsonl", rows)).problems("all")) == 2


def test_the_seed_and_nothing_else_chooses_the_training_set(copies, tmp_path):
    chosen = ids(DapoMath(copies).problems("train"))
    assert len(set(chosen)) == 4096
    assert chosen == sorted(chosen) == ids(DapoAime(copies).problems("train"))
    backwards = parquet(tmp_path / "b.parquet", [of_dapo(i) for i in reversed(range(5000))])
    assert chosen == ids(DapoMath(backwards, seed=0).problems("train"))
    assert chosen != ids(DapoMath(copies, seed=1).problems("train"))
    # NumPy may change what a seed draws; then the training set of every run is another, and should say so.
    assert hashlib.sha256(" ".join(chosen).encode()).hexdigest()[:16] == "6d408e8818a3c6af"


def test_the_training_set_is_the_default_split_and_wants_enough_problems(tmp_path):
    assert DapoMath().default_split("any model") == ("train", "")
    task = DapoMath(jsonl(tmp_path / "f.jsonl", map(of_dapo, range(3))))
    line = refusal_of(task.problems, "train")
    assert line.endswith("3 problems, too few to choose 4,096: use --split all")
    assert len(task.problems("all")) == 3


def test_a_flat_file_is_read_too(tmp_path):
    rows = [{"prompt": "What is 1 + 1?", "answer": "2"}, {"problem": "What is 2 + 1?", "answer": 3, "id": "b"}]
    problems = DapoMath(jsonl(tmp_path / "f.jsonl", rows)).problems("all")
    assert [(p.id, p.prompt, p.reference) for p in problems] == [
        ("b", "What is 2 + 1?", "3"),
        ("train-0", "What is 1 + 1?", "2"),
    ]
    for extra_info in ("text", {"split": "x"}):  # no index: no copies either
        data = parquet(tmp_path / "f.parquet", [rows[0] | {"extra_info": extra_info}] * 2)
        assert ids(DapoMath(data).problems("all")) == ["train-0", "train-1"]


REFUSED = {
    "column 'extra_info.index' or 'id' must be text, got list": [{"extra_info": {"index": ["a"]}}],
    "column 'prompt' must be text, or a chat with one message of the user": [
        {"prompt": []},
        {"prompt": [{"role": "system", "content": "x"}]},
        {"prompt": [{"role": "user", "content": 1}]},
        {"prompt": [{"role": "user", "content": "x"}] * 2},
        {"prompt": ["x"]},
    ],
}


def test_a_row_without_a_text_index_or_one_message_of_the_user_is_refused(tmp_path):
    for message, rows in REFUSED.items():
        for row in rows:
            data = jsonl(tmp_path / "f.jsonl", [of_dapo(1), of_dapo(2) | row])
            assert f"line 2: {message}" in refusal_of(DapoMath(data).problems, "all")


def test_dapo_aime_trains_on_the_one_and_is_chosen_and_reported_by_the_others(tmp_path):
    data = jsonl(tmp_path / "f.jsonl", of_aime(3))
    task = DapoAime(data)
    assert ids(task.problems("dev")) == ["2024-I-1", "2024-I-2", "2024-I-3"]
    assert ids(task.problems("test")) == ["2025-I-1", "2025-I-2", "2025-I-3"]
    assert task.default_split("any model") == ("test", "")
    assert {split: DapoAime().rl[split] for split in task.splits} == {"train": "train", "dev": "dev", "test": "test"}
    assert DapoAime().revision == "65877096c24f+2fe88a2f1091+563bb8404243"
    assert task.revision == DapoMath(data).revision


def test_the_published_problems_are_free_of_copies_and_of_the_instruction_around_them(shared_data):
    problems = DapoMath(str(shared_data / "tasks/dapo-math-17k.parquet")).problems("all")
    assert (len(problems), len(set(ids(problems)))) == (17_917, 17_917)
    first, last = "000ac986-0fa5-491b-ae1e-2c9fb2b0f1a6", "ffffecb7-706a-4a94-ad1c-a5e60f8cd5de"
    assert (problems[0].id, problems[-1].id) == (first, last)
    assert len({problem.prompt for problem in problems}) == 17_255
    assert not any("Solve the following math problem" in problem.prompt for problem in problems)
    assert not any(problem.prompt.endswith('after "Answer:".') for problem in problems)
    assert all(problem.reference == problem.reference.strip() != "" for problem in problems)
