"""DAPO-Math-17k: copies, the seeded training set, texts without the instruction around them, AIME beside it."""

import hashlib

from support.refusals import refusal_of
from support.task_files import ids, jsonl, of_aime, of_dapo, parquet

from harness_tasks.dapo import DapoAime, DapoMath


def test_copies_are_left_out_the_ids_ascend_and_the_seed_and_nothing_else_chooses_the_training_set(tmp_path):
    rows = [of_dapo(i) for i in range(4200)]
    copies = parquet(tmp_path / "f.parquet", rows + rows[:50])  # the hub has the whole set many times
    problems = DapoMath(copies).problems("all")
    assert ids(problems) == sorted(row["extra_info"]["index"] for row in rows)
    [seventh] = [problem for problem in problems if problem.id == rows[7]["extra_info"]["index"]]
    assert (seventh.prompt, seventh.reference) == ("What is $7 + 1$?", "8")
    chosen = ids(DapoMath(copies).problems("train"))
    assert len(set(chosen)) == 4096
    assert chosen == sorted(chosen)
    backwards = parquet(tmp_path / "b.parquet", rows[::-1])
    assert chosen == ids(DapoAime(backwards, seed=0).problems("train"))
    assert chosen != ids(DapoMath(copies, seed=1).problems("train"))
    # NumPy may change what a seed draws; then the training set of every run is another, and should say so.
    assert hashlib.sha256(" ".join(chosen).encode()).hexdigest()[:16] == "08d7ad5073676596"


def test_a_flat_file_is_read_too_and_one_too_small_to_train_on_says_so(tmp_path):
    assert DapoMath().default_split("any model") == ("train", "")
    rows = [{"prompt": "What is 1 + 1?", "answer": "2"}, {"problem": "What is 2 + 1?", "answer": 3, "id": "b"}]
    task = DapoMath(jsonl(tmp_path / "f.jsonl", rows))
    problems = [(p.id, p.prompt, p.reference) for p in task.problems("all")]
    assert problems == [("b", "What is 2 + 1?", "3"), ("train-0", "What is 1 + 1?", "2")]
    assert refusal_of(task.problems, "train").endswith("2 problems, too few to choose 4,096: use --split all")
    for extra_info in ("text", {"split": "x"}):  # no index: no copies either
        data = parquet(tmp_path / "f.parquet", [rows[0] | {"extra_info": extra_info}] * 2)
        assert ids(DapoMath(data).problems("all")) == ["train-0", "train-1"]


def test_a_row_without_a_text_index_or_one_message_of_the_user_is_refused(tmp_path):
    user, system = {"role": "user", "content": "x"}, {"role": "system", "content": "x"}
    prompts = [{"prompt": prompt} for prompt in ([], [system], [user | {"content": 1}], [user] * 2, ["x"])]
    for row in ({"extra_info": {"index": ["a"]}}, *prompts):
        message = "prompt' must be text, or a chat with one message of the user"
        message = message if "prompt" in row else "extra_info.index' or 'id' must be text, got list"
        data = jsonl(tmp_path / "f.jsonl", [of_dapo(1), of_dapo(2) | row])
        assert f"line 2: column '{message}" in refusal_of(DapoMath(data).problems, "all")


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
    assert len({problem.prompt for problem in problems}) == 17_255
    assert not any("Solve the following math problem" in problem.prompt for problem in problems)
    assert not any(problem.prompt.endswith('after "Answer:".') for problem in problems)
    assert all(problem.reference == problem.reference.strip() != "" for problem in problems)
