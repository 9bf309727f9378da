"""The text tasks' data: real files, every layout, splits, ids, golds, prompts, the hub and its absence, faults."""

from __future__ import annotations

import gzip
import hashlib
import importlib
import json
import os
import re
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import perf_counter
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.json_lines import read_json_lines, write_json_lines
from support.processes import run_to_end
from support.refusals import refusal_of

from harness import HarnessError, Problem
from harness_tasks import aime, competition_math, dapo, gsm8k
from harness_tasks.aime import Aime24, Aime25
from harness_tasks.competition_math import Math, Math500
from harness_tasks.dapo import DapoAime, DapoMath
from harness_tasks.data import aime_rows
from harness_tasks.data.aime_rows import without_instruction
from harness_tasks.data.math_rows import boxed
from harness_tasks.gsm8k import Gsm8k

TASKS = (Gsm8k, Math, Math500, Aime24, Aime25, DapoMath)
HUBS = (gsm8k.HUB, competition_math.MATH, competition_math.MATH_500, *aime.HUBS.values(), dapo.HUB)


# Invented data

SUM = {"question": "What is 2 + 3?", "answer": "2 + 3 = <<2+3=5>>5\n#### 5"}
PRICE = {"question": "A car costs 3 times $5,000. How much is that?", "answer": "It is 3 * 5000 = 15000.\n#### 15,000"}
DEBT = {"question": "Ana has $4 and spends $7. What is her balance?", "answer": "4 - 7 = -3\n#### -3"}
SUMS = [SUM, PRICE, DEBT]


def solved(number: int) -> dict[str, str]:
    return {
        "problem": f"What is ${number} +\n  1$?",
        "level": "Level 1",
        "type": "Algebra",
        "solution": rf"We have \boxed{{{number}}} and one more: $\boxed{{{number + 1}}}$.",
    }


def asked(number: int) -> dict[str, Any]:
    """A row of MATH-500."""
    answer = str(number + 1)
    return {"problem": f"What is ${number} + 1$?", "answer": answer, "unique_id": f"test/algebra/{number}.json"}


def exam(count: int = 30, **more: Callable[[int], Any]) -> list[dict[str, Any]]:
    rows = [{"problem": f"What is ${i} + 1$?", "answer": f"{i + 1:03}"} for i in range(count)]
    return [row | {name: value(i) for name, value in more.items()} for i, row in enumerate(rows)]


def trained(number: int) -> dict[str, Any]:
    text = f"{dapo.BEFORE}\n\nWhat is ${number} + 1$?\n\n{dapo.AFTER}"
    return {
        "data_source": "math_dapo",
        "prompt": [{"content": text, "role": "user"}],
        "ability": "MATH",
        "reward_model": {"ground_truth": str(number + 1), "style": "rule"},
        "extra_info": {"index": f"{hashlib.md5(str(number).encode()).hexdigest()}"},
    }


# Writing it down


def jsonl(path: Path, rows: Sequence[object]) -> str:
    return str(write_json_lines(path, rows))


def parquet(path: Path, rows: list[dict[str, Any]]) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=1000)
    return str(path)


def write_jsonl_gz(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))


def write_jsonl_with_bom_and_blank_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("\ufeff" + "\r\n\n".join(json.dumps(row, ensure_ascii=False) for row in rows), encoding="utf-8")


LAYOUTS: dict[str, Callable[[Path, list[dict[str, Any]]], object]] = {
    "jsonl": jsonl,
    "jsonl.gz": write_jsonl_gz,
    "odd.jsonl": write_jsonl_with_bom_and_blank_lines,
    "json": lambda path, rows: path.write_text(json.dumps(rows, indent=1)),
    "json.gz": lambda path, rows: path.write_bytes(gzip.compress(json.dumps(rows).encode())),
    "parquet": parquet,
    "parquet-by-another-name": parquet,
}


def card(folder: Path, files: dict[str, dict[str, str]]) -> None:
    """A dataset card that names each config's files, as the hub's have it."""
    lines = ["---", "configs:"]
    for config, split_files in files.items():
        lines += [f"- config_name: {config}", "  data_files:"]
        lines += [line for split, path in split_files.items() for line in (f"  - split: {split}", f"    path: {path}")]
    (folder / "README.md").write_text("\n".join([*lines, "---", ""]))


def clone_of_gsm8k(folder: Path, rows: list[dict[str, Any]] = SUMS) -> Path:
    for split in ("test", "train"):
        parquet(folder / f"main/{split}-00000-of-00001.parquet", rows if split == "test" else rows[::-1])
    card(folder, {"main": {split: f"main/{split}-*" for split in ("test", "train")}})
    return folder


def clone_of_math(folder: Path) -> Path:
    """Seven configs, config c with c + 1 test problems and one training problem; listed in another order."""
    for c, config in enumerate(competition_math.MATH.configs):
        parquet(folder / f"{config}/test-00000-of-00001.parquet", [solved(10 * c + i) for i in range(c + 1)])
        parquet(folder / f"{config}/train-00000-of-00001.parquet", [solved(1000 + c)])
    configs = reversed(competition_math.MATH.configs)
    card(folder, {config: {split: f"{config}/{split}-*" for split in ("test", "train")} for config in configs})
    return folder


def message(task: Any, split: str = "test") -> str:
    return refusal_of(task.problems, split)


def ids(problems: Sequence[Problem]) -> list[str]:
    return [problem.id for problem in problems]


# The real files


def real(task: type, file: str) -> Callable[[Path], Any]:
    return lambda data: task(str(data / "tasks" / file))


REAL = {
    "gsm8k test": (real(Gsm8k, "gsm8k_test.jsonl"), "test", 1319, "test-0", "test-1318"),
    "gsm8k train": (real(Gsm8k, "gsm8k_train.jsonl"), "train", 7473, "train-0", "train-7472"),
    "gsm8k dev": (real(Gsm8k, "gsm8k_test.jsonl"), "dev", 512, "test-0", "test-511"),
    "gsm8k rl-test": (real(Gsm8k, "gsm8k_test.jsonl"), "rl-test", 807, "test-512", "test-1318"),
    "math500": (real(Math500, "math500.jsonl"), "test", 500, "test/precalculus/807.json", "test/geometry/615.json"),
    "aime24": (real(Aime24, "aime24_qwq.jsonl"), "test", 30, "2024-I-1", "2024-II-9"),
    "aime25": (real(Aime25, "aime25_qwq.jsonl"), "test", 30, "2025-I-1", "2025-II-15"),
    "dapo all": (
        real(DapoMath, "dapo-math-17k.parquet"),
        "all",
        17917,
        "000ac986-0fa5-491b-ae1e-2c9fb2b0f1a6",
        "ffffecb7-706a-4a94-ad1c-a5e60f8cd5de",
    ),
    "dapo train": (
        real(DapoMath, "dapo-math-17k.parquet"),
        "train",
        4096,
        "00127334-005b-4f03-beaf-d10f4dcb244e",
        "ffff90a0-75d8-4ead-b8fe-15ad6579b729",
    ),
}


@pytest.mark.parametrize("name", REAL)
def test_a_real_file_gives_all_its_problems_with_their_official_ids_and_golds(shared_data, name):
    make, split, count, first, last = REAL[name]
    problems = make(shared_data).problems(split)
    assert (len(problems), problems[0].id, problems[-1].id) == (count, first, last)
    assert len(set(ids(problems))) == count
    assert all(isinstance(p.reference, str) and p.reference == p.reference.strip() != "" for p in problems)
    assert all(p.prompt.strip() for p in problems)
    assert problems == make(shared_data).problems(split)


def test_the_golds_of_a_real_file_are_the_published_ones(shared_data):
    gsm = Gsm8k(str(shared_data / "tasks/gsm8k_test.jsonl")).problems("test")
    assert all(re.fullmatch(r"-?[0-9]+", problem.reference) for problem in gsm)
    assert [problem.reference for problem in gsm[:3]] == ["18", "3", "70000"]
    for line in (shared_data / "tasks/math500.jsonl").read_text().splitlines():
        row = json.loads(line)
        assert boxed(row["solution"]) == row["answer"]


def test_dev_and_rl_test_part_the_test_set(shared_data):
    task = Gsm8k(str(shared_data / "tasks/gsm8k_test.jsonl"))
    assert task.problems("dev") + task.problems("rl-test") == task.problems("test")


@pytest.mark.parametrize(("task", "file"), [(Aime24, "aime24_qwq.jsonl"), (Aime25, "aime25_qwq.jsonl")])
def test_a_years_problems_are_found_in_their_places_without_the_files_instruction(shared_data, task, file):
    problems = task(str(shared_data / "tasks" / file)).problems("test")
    assert {problem.id.split("-", 1)[1] for problem in problems} == set(aime_rows.PLACES)
    answers = {problem.id[5:]: problem.reference for problem in problems}
    listed = " ".join(answers[place] for place in aime_rows.PLACES)
    assert aime_rows.ANSWERS[hashlib.sha256(listed.encode()).hexdigest()[:16]] == task.year
    assert not any("step by step" in problem.prompt or r"\boxed" in problem.prompt for problem in problems)


def test_the_places_of_well_known_answers(shared_data):
    known = {"2024-I-1": "204", "2024-I-2": "25", "2024-I-15": "721", "2024-II-1": "73", "2024-II-15": "315"}
    known |= {"2025-I-1": "70", "2025-I-2": "588", "2025-II-1": "468", "2025-II-15": "240"}
    found = {}
    for task, file in ((Aime24, "aime24_qwq.jsonl"), (Aime25, "aime25_qwq.jsonl")):
        found |= {problem.id: problem.reference for problem in task(str(shared_data / "tasks" / file)).problems("test")}
    assert {name: found[name] for name in known} == known


def test_one_years_file_is_refused_by_the_other_years_task(shared_data):
    assert "is of 2025, expected problems of 2024" in message(Aime24(str(shared_data / "tasks/aime25_qwq.jsonl")))


def test_dapo_aime_trains_on_the_one_and_is_chosen_and_reported_by_the_others(shared_data):
    files = {"train": "dapo-math-17k.parquet", "dev": "aime24_qwq.jsonl", "test": "aime25_qwq.jsonl"}
    found = {split: DapoAime(str(shared_data / "tasks" / name)).problems(split) for split, name in files.items()}
    assert {split: len(problems) for split, problems in found.items()} == {"train": 4096, "dev": 30, "test": 30}
    assert found["train"] == DapoMath(str(shared_data / "tasks/dapo-math-17k.parquet")).problems("train")
    assert (found["dev"][0].id, found["test"][0].id) == ("2024-I-1", "2025-I-1")
    assert set(DapoAime().rl) >= {"train", "dev", "test"}
    assert DapoAime().revision.count("+") == 2


def test_the_real_dapo_problems_are_free_of_the_instruction_around_them(shared_data):
    problems = DapoMath(str(shared_data / "tasks/dapo-math-17k.parquet")).problems("all")
    assert not any("Solve the following math problem" in problem.prompt for problem in problems)
    assert not any(problem.prompt.endswith('after "Answer:".') for problem in problems)
    assert len({problem.prompt for problem in problems}) == 17_255


def test_gsm8ks_other_file_is_refused(shared_data):
    train, test = (str(shared_data / f"tasks/gsm8k_{split}.jsonl") for split in ("train", "test"))
    assert "7,473 rows, as split 'train' has" in message(Gsm8k(train), "dev")
    assert "1,319 rows, as split 'test' has" in message(Gsm8k(test), "train")


# Layouts


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_problems(tmp_path, layout):
    path = tmp_path / f"data.{layout}"
    LAYOUTS[layout](path, SUMS)
    problems = Gsm8k(str(path)).problems("test")
    assert ids(problems) == ["test-0", "test-1", "test-2"]
    assert [problem.prompt for problem in problems] == [row["question"] for row in SUMS]
    assert [problem.reference for problem in problems] == ["5", "15000", "-3"]


def test_a_line_separator_inside_a_text_does_not_end_the_row(tmp_path):
    row = SUM | {"question": "one\u2028two\x0bthree"}
    path = tmp_path / "f.jsonl"
    path.write_text(json.dumps(row, ensure_ascii=False), encoding="utf-8")
    assert Gsm8k(str(path)).problems("test")[0].prompt == row["question"]


def test_the_revision_is_the_hash_of_the_files_bytes(tmp_path):
    path = Path(jsonl(tmp_path / "f.jsonl", SUMS))
    assert Gsm8k(str(path)).revision == f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()[:16]}"
    before = Gsm8k(str(path)).revision
    jsonl(path, SUMS[:2])
    assert Gsm8k(str(path)).revision != before


def test_the_revision_of_the_hubs_data_is_a_whole_commit_and_asks_nobody():
    for task, commit in zip(TASKS, (*[hub.revision for hub in HUBS],), strict=True):
        assert task().revision == commit
        assert re.fullmatch("[0-9a-f]{40}", commit)


def test_a_home_folder_is_written_as_a_tilde(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    jsonl(tmp_path / "f.jsonl", SUMS)
    assert len(Gsm8k("~/f.jsonl").problems("test")) == 3
    assert Gsm8k("~/f.jsonl").revision == Gsm8k(str(tmp_path / "f.jsonl")).revision


# GSM8K


def test_a_file_is_the_split_it_is_asked_for(tmp_path):
    data = jsonl(tmp_path / "f.jsonl", SUMS)
    assert ids(Gsm8k(data).problems("train")) == ["train-0", "train-1", "train-2"]


def test_dev_is_the_first_512_and_rl_test_the_rest(tmp_path):
    data = jsonl(tmp_path / "f.jsonl", [{"question": f"{i}?", "answer": f"#### {i}"} for i in range(600)])
    assert ids(Gsm8k(data).problems("dev")) == [f"test-{i}" for i in range(512)]
    assert ids(Gsm8k(data).problems("rl-test")) == [f"test-{i}" for i in range(512, 600)]


def test_a_solution_without_its_mark_is_refused(tmp_path):
    data = jsonl(tmp_path / "f.jsonl", [SUM, {"question": "q", "answer": "It is 5."}])
    assert message(Gsm8k(data)).endswith("line 2: column 'answer' must end in '#### ' and a number, got 'It is 5.'")


# MATH


@pytest.mark.parametrize(
    ("solution", "gold"),
    [
        (r"so $\boxed{\frac{1}{2}}$.", r"\frac{1}{2}"),
        (r"first $\boxed{1}$, then $\boxed{ 2 }$", "2"),
        (r"a set $\boxed{\{1,2\}}$", r"\{1,2\}"),
        (r"old style $\boxed 5$ it was", "5"),
        (r"old style $\boxed\frac59$.", r"\frac59"),
        (r"open $\boxed{5", None),
        (r"empty $\boxed{}$", ""),
        ("none", None),
    ],
)
def test_the_gold_is_what_the_last_box_holds(solution, gold):
    assert boxed(solution) == gold


def test_a_solution_without_an_answer_is_refused(tmp_path):
    for solution in ("It is 5.", r"$\boxed{}$", r"$\boxed{5$"):
        data = jsonl(tmp_path / "f.jsonl", [{"problem": "p", "solution": solution}])
        assert r"line 1: column 'solution' has no \boxed{...}" in message(Math(data))


@pytest.fixture(scope="module")
def math_clone(tmp_path_factory) -> Path:
    return clone_of_math(tmp_path_factory.mktemp("hendrycks_math"))


def test_a_clones_configs_come_in_alphabetical_order_with_ids_of_their_own(math_clone):
    test = Math(str(math_clone)).problems("test")
    assert len(test) == 28
    assert ids(test)[:4] == [
        "algebra/test-0",
        "counting_and_probability/test-0",
        "counting_and_probability/test-1",
        "geometry/test-0",
    ]
    assert (test[-1].id, test[-1].reference) == ("precalculus/test-6", "67")
    train = Math(str(math_clone)).problems("train")
    assert ids(train) == [f"{config}/train-0" for config in sorted(competition_math.MATH.configs)]


def test_a_local_file_has_ids_without_a_config(tmp_path):
    data = jsonl(tmp_path / "f.jsonl", [solved(1), solved(2)])
    assert ids(Math(data).problems("test")) == ["test-0", "test-1"]
    assert ids(Math(data).problems("train")) == ["train-0", "train-1"]


def test_maths_other_file_is_refused(tmp_path):
    train = jsonl(tmp_path / "train.jsonl", [solved(i) for i in range(7500)])
    assert "7,500 rows, as split 'train' has, not 'test'" in message(Math(train))
    assert len(Math(train).problems("train")) == 7500


def test_dev_is_math_500_by_text_and_rl_test_the_rest(tmp_path, math_clone):
    chosen = [60, 20, 10]
    task = Math(str(math_clone), math500=jsonl(tmp_path / "m.jsonl", [asked(number) for number in chosen]))
    test, dev, rest = (task.problems(split) for split in ("test", "dev", "rl-test"))
    assert ids(dev) == ["counting_and_probability/test-0", "geometry/test-0", "precalculus/test-0"]
    assert sorted(ids(dev) + ids(rest)) == sorted(ids(test))
    assert [problem for problem in test if problem not in dev] == rest


def test_a_text_that_is_twice_in_math_is_once_in_dev(tmp_path):
    data = jsonl(tmp_path / "f.jsonl", [solved(1), solved(1), solved(2)])
    task = Math(data, math500=jsonl(tmp_path / "m.jsonl", [asked(1)]))
    assert (ids(task.problems("dev")), ids(task.problems("rl-test"))) == (["test-0"], ["test-1", "test-2"])


def test_an_edition_that_lacks_problems_of_math_500_says_how_many(tmp_path):
    data = jsonl(tmp_path / "f.jsonl", [solved(1), solved(2)])
    task = Math(data, math500=jsonl(tmp_path / "m.jsonl", [asked(2), asked(7), asked(8)]))
    for split in ("dev", "rl-test"):
        assert "only 1 of the 3 problems of MATH-500 are among the 2 of split 'test'" in message(task, split)
    assert len(task.problems("test")) == 2


def test_the_test_split_needs_no_math_500(tmp_path):
    data = jsonl(tmp_path / "f.jsonl", [solved(1)])
    task = Math(data, math500=str(tmp_path / "absent.jsonl"))
    assert len(task.problems("test")) == len(task.problems("train")) == 1
    assert "math: cannot read" in message(task, "dev")


def test_math_500_is_known_by_its_unique_id_or_else_its_row(tmp_path):
    rows = [asked(3), {"problem": "p", "answer": " x "}]
    problems = Math500(jsonl(tmp_path / "m.jsonl", rows)).problems("test")
    assert [(p.id, p.reference) for p in problems] == [("test/algebra/3.json", "4"), ("test-1", "x")]


# AIME


def test_rows_without_a_name_are_known_by_their_order(tmp_path):
    problems = Aime25(jsonl(tmp_path / "f.jsonl", exam())).problems("test")
    assert ids(problems) == [f"2025-{place}" for place in aime_rows.PLACES]
    assert [problem.reference for problem in problems[:2]] == ["1", "2"]
    assert ids(Aime25(jsonl(tmp_path / "f.jsonl", exam(3))).problems("test")) == ["2025-I-1", "2025-I-2", "2025-I-3"]


@pytest.mark.parametrize("column", ["id", "ID", "url", "problem_id"])
def test_a_rows_own_name_says_which_problem_it_is(tmp_path, column):
    shapes = {"url": "https://wiki.example/index.php/2024_AIME_{}_Problems/Problem_{}"}
    places = [("II", 4), ("I", 15), ("II", 1)]
    names = {column: lambda i: shapes.get(column, "2024-{}-{}").format(*places[i])}
    problems = Aime24(jsonl(tmp_path / "f.jsonl", exam(3, **names))).problems("test")
    assert ids(problems) == ["2024-II-4", "2024-I-15", "2024-II-1"]


def test_an_id_that_names_no_problem_leaves_it_to_the_order(tmp_path):
    data = jsonl(tmp_path / "f.jsonl", exam(2, id=lambda i: 60 + i))
    assert ids(Aime24(data).problems("test")) == ["2024-I-1", "2024-I-2"]


def test_problems_of_another_year_or_of_none_are_refused(tmp_path):
    rows = exam(2, id=lambda i: f"{2023 + i}-I-7")
    assert "is of 2023, 2024, expected problems of 2024" in message(Aime24(jsonl(tmp_path / "f.jsonl", rows)))
    rows[0]["id"] = "first"
    assert "line 1: no id such as 2025-II-7" in message(Aime24(jsonl(tmp_path / "f.jsonl", rows)))
    assert "line 31: no id such as 2025-II-7" in message(Aime25(jsonl(tmp_path / "g.jsonl", exam(32))))


@pytest.mark.parametrize("columns", [("problem", "answer"), ("question", "answer"), ("prompt", "Answer")])
def test_the_columns_have_other_names_elsewhere(tmp_path, columns):
    data = jsonl(tmp_path / "f.jsonl", [dict(zip(columns, ("What?", 70), strict=True))])
    assert [(p.prompt, p.reference) for p in Aime25(data).problems("test")] == [("What?", "70")]


def test_an_answer_may_stand_boxed_in_a_solution(tmp_path):
    data = jsonl(tmp_path / "f.jsonl", [{"problem": "What?", "solution": r"\boxed{070}"}])
    assert Aime24(data).problems("test")[0].reference == "70"


@pytest.mark.parametrize("answer", [1000, -1, "x", "7.0", 7.5, None, True, ""])
def test_an_answer_that_is_none_of_the_exams_is_refused(tmp_path, answer):
    assert "line 1: " in message(Aime24(jsonl(tmp_path / "f.jsonl", [{"problem": "What?", "answer": answer}])))


@pytest.mark.parametrize(
    "instruction",
    [
        "\nPlease reason step by step, and put your final answer within \\boxed{}.",
        " Let's think step by step and output the final answer within \\boxed{}.",
        "\n\nPlease think step by step. Put the answer in \\boxed{}.\n",
        " Reason step by step.  Write it as \\boxed{}",
    ],
)
@pytest.mark.parametrize("text", ["Find $m + n$.", "What is\n\\[x^2\\]", "Is it so? Find $x$", "Find it. $x$ is one."])
def test_the_instruction_after_a_problem_is_taken_off(text, instruction):
    assert without_instruction(text + instruction) == text


@pytest.mark.parametrize(
    "text",
    ["Think step by step about $x$.", r"Which of \boxed{1} and \boxed{2} is it?", "a\n\nb", "Fill " * 50 + r"\boxed{}"],
)
def test_a_text_that_asks_for_no_box_stays_whole(text):
    assert without_instruction(text) == text


# DAPO


@pytest.fixture(scope="module")
def copies(tmp_path_factory) -> str:
    """5,000 problems, each three times: the whole set thrice, as the hub has it."""
    return parquet(tmp_path_factory.mktemp("dapo") / "f.parquet", [trained(i) for i in range(5000)] * 3)


def test_copies_are_left_out_and_the_ids_ascend(copies):
    problems = DapoMath(copies).problems("all")
    assert len(problems) == 5000
    assert ids(problems) == sorted(trained(i)["extra_info"]["index"] for i in range(5000))
    by_id = {problem.id: problem for problem in problems}
    of_seven = by_id[trained(7)["extra_info"]["index"]]
    assert (of_seven.prompt, of_seven.reference) == ("What is $7 + 1$?", "8")


def test_the_seed_and_nothing_else_draws_the_training_set(copies, tmp_path):
    drawn = ids(DapoMath(copies).problems("train"))
    assert len(set(drawn)) == 4096
    assert drawn == sorted(drawn)
    backwards = parquet(tmp_path / "b.parquet", [trained(i) for i in reversed(range(5000))])
    assert drawn == ids(DapoMath(backwards, seed=0).problems("train"))
    assert drawn != ids(DapoMath(copies, seed=1).problems("train"))
    # NumPy may change what a seed draws; then the training set of every run is another, and should say so.
    assert hashlib.sha256(" ".join(drawn).encode()).hexdigest()[:16] == "6d408e8818a3c6af"


def test_the_training_set_is_the_default_split():
    assert DapoMath().default_split("any model") == ("train", "")


def test_too_few_problems_to_draw_from_are_refused(tmp_path):
    data = jsonl(tmp_path / "f.jsonl", [trained(i) for i in range(3)])
    assert "3 problems, too few to choose 4,096: use --split all" in message(DapoMath(data), "train")
    assert len(DapoMath(data).problems("all")) == 3


def test_copies_in_jsonl_are_left_out_too(tmp_path):
    assert len(DapoMath(jsonl(tmp_path / "f.jsonl", [trained(1), trained(2), trained(1)])).problems("all")) == 2


def test_an_index_that_is_no_text_is_refused(tmp_path):
    data = jsonl(tmp_path / "f.jsonl", [trained(1), trained(2) | {"extra_info": {"index": ["a"]}}])
    assert "line 2: column 'extra_info.index' or 'id' must be text, got list" in message(DapoMath(data), "all")


def test_a_flat_file_is_read_too(tmp_path):
    rows = [{"prompt": "What is 1 + 1?", "answer": "2"}, {"problem": "What is 2 + 1?", "answer": 3, "id": "b"}]
    problems = DapoMath(jsonl(tmp_path / "f.jsonl", rows)).problems("all")
    assert [(p.id, p.prompt, p.reference) for p in problems] == [
        ("b", "What is 2 + 1?", "3"),
        ("train-0", "What is 1 + 1?", "2"),
    ]


@pytest.mark.parametrize("chat", [[], [{"role": "system", "content": "x"}], [{"role": "user", "content": 1}], ["x"]])
def test_a_chat_without_one_message_of_the_user_is_refused(tmp_path, chat):
    data = jsonl(tmp_path / "f.jsonl", [trained(1) | {"prompt": chat}])
    assert "line 1: column 'prompt' must be text, or a chat" in message(DapoMath(data), "all")


# Prompts

COIN = Problem("x", "A coin {odd} is thrown. What is $\\frac{1}{2}$?", "1")


@pytest.mark.parametrize("task", [Math, Math500, Aime24, Aime25, DapoMath])
def test_a_problem_is_asked_for_in_the_papers_words(task):
    (only,) = task().messages(COIN)
    asked_for = r" Let's think step by step and output the final answer within \boxed{}."
    assert only == {"role": "user", "content": COIN.prompt + asked_for}


def test_a_question_is_asked_for_in_the_papers_words():
    (only,) = Gsm8k().messages(COIN)
    assert only["content"] == COIN.prompt + ' Let\'s think step by step and output the final answer after "####".'
    assert only["role"] == "user"


def test_a_base_model_sees_four_worked_examples():
    plain = Gsm8k().plain(COIN)
    assert plain.endswith(f"\n\nQuestion: {COIN.prompt}\nAnswer:")
    assert len(re.findall(r"^Question: .+\nAnswer: .+ #### \d+\n\n", plain, re.M)) == 4
    for task in (Math, Math500):
        plain = task().plain(COIN)
        assert plain.endswith(f"\n\nProblem: {COIN.prompt}\nSolution:")
        assert (
            len(re.findall(r"^Problem: .+\nSolution: [^\0]+?The answer is \$\\boxed\{.+\}\$\.\n\n", plain, re.M)) == 4
        )


def test_a_base_model_sees_a_competition_problem_alone():
    for task in (Aime24, Aime25, DapoMath):
        assert task().plain(COIN) == f"Problem: {COIN.prompt}\n{competition_math.INSTRUCTION}\nSolution:"


def test_the_papers_settings_are_recorded():
    for task, n, max_tokens in ((Gsm8k, 6400, 512), (Math, 6400, 512), (Math500, 6400, 512), (Aime25, 8192, 8192)):
        pool = {"n": n, "max_tokens": max_tokens, "sampler": {}}
        assert task.paper == pool | {"task": {"fallback": "no"}}


# Grading: that the golds and the prompts are what the grader takes


def test_the_real_solutions_of_gsm8k_are_right_by_both_rules(shared_data):
    task = Gsm8k(str(shared_data / "tasks/gsm8k_test.jsonl"))
    rows = read_json_lines(shared_data / "tasks/gsm8k_test.jsonl")
    for problem, row in zip(task.problems("test"), rows, strict=True):
        assert task.verify(problem, row["answer"]).status == "correct"
        assert task.audit(problem, row["answer"]).status == "correct"


def test_answers_are_compared_as_numbers(tmp_path):
    task = Aime24(jsonl(tmp_path / "f.jsonl", [{"problem": "What?", "answer": "0070"}]))
    (problem,) = task.problems("test")
    said = {r"\boxed{70}": "correct", r"\boxed{070}": "correct", r"\boxed{700}": "wrong", "#### 7": "wrong"}
    assert problem.reference == "70"
    assert {response: task.verify(problem, response).status for response in said} == said
    task = Gsm8k(jsonl(tmp_path / "g.jsonl", [PRICE]))
    (problem,) = task.problems("test")
    said = {"#### 15000": "correct", "#### $15,000": "correct", "#### 15": "wrong", r"\boxed{3} #### 15000": "correct"}
    assert {response: task.verify(problem, response).status for response in said} == said


@pytest.mark.parametrize(("task", "start"), [(Gsm8k(), "Answer: "), (Math500(), "Solution: ")])
def test_each_worked_example_ends_in_an_answer_that_the_grader_reads(task, start):
    golds = {"Answer: ": ["52", "60", "22", "16"], "Solution: ": ["4", r"\frac{5}{12}", r"18\pi", "9"]}[start]
    for example, gold in zip(task.plain(COIN).split("\n\n"), golds, strict=False):
        solution = example.partition(start)[2]
        assert task.verify(Problem("x", "", gold), solution).status == "correct"
        assert task.audit(Problem("x", "", gold), solution).status == "correct"
        assert task.verify(Problem("x", "", gold), f"{solution}\n\n{task.plain(COIN)} 1").status == "correct"


# Faults


@pytest.mark.parametrize("task", TASKS)
def test_an_unknown_split_is_refused_with_those_there_are(task):
    text = message(task(), "validation")
    assert "unknown split 'validation' (choose from " in text
    assert all(split in text for split in task.splits)


def parquet_without_its_end(path: Path) -> None:
    parquet(path, SUMS)
    path.write_bytes(path.read_bytes()[:-30])


FAULTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing column": (
        lambda path: jsonl(path, [SUM, {"q": 1, "answer": "#### 1"}]),
        r"data [^ ]+, line 2: no value in column 'question' \(columns: q, answer\)",
    ),
    "null": (lambda path: jsonl(path, [SUM | {"question": None}]), "line 1: no value in column 'question'"),
    "wrong type": (
        lambda path: jsonl(path, [SUM, SUM | {"question": ["a"]}]),
        "line 2: column 'question' must be text, got list",
    ),
    "truth for text": (lambda path: jsonl(path, [SUM | {"answer": True}]), "column 'answer' must be text, got bool"),
    "wrong type in parquet": (
        lambda path: parquet(path, [SUM | {"question": 1.5}]),
        "row 0: column 'question' must be text, got float",
    ),
    "blank": (lambda path: jsonl(path, [SUM | {"question": " \n"}]), "line 1: column 'question' is blank"),
    "empty": (lambda path: path.write_text(""), "'[^']+' has no rows"),
    "blank lines only": (lambda path: path.write_text("\n\n"), "'[^']+' has no rows"),
    "empty array": (lambda path: path.write_text("[]"), "'[^']+' has no rows"),
    "parquet without rows": (lambda path: pq.write_table(pa.table({"question": []}), path), "'[^']+' has no rows"),
    "not objects": (
        lambda path: jsonl(path, [SUM, [1]]),
        "line 2: expected JSON objects, one a line or all in one array",
    ),
    "array of texts": (lambda path: path.write_text('["a"]'), "entry 1: expected JSON objects"),
    "not JSON": (lambda path: path.write_text("question,answer\n1,2"), r"line 1: not JSON \(Expecting value"),
    "cut JSON": (lambda path: path.write_text(json.dumps(SUMS)[:-9]), "line 1: not JSON"),
    "nested too deep": (lambda path: path.write_text("[" * 100_000), "line 1: not JSON"),
    "not text": (lambda path: path.write_bytes(b"\xff\xfe\x00\x01"), "not UTF-8 text, plain or gzipped"),
    "cut gzip": (
        lambda path: path.write_bytes(gzip.compress(b'{"a": 1}' * 99)[:-9]),
        r"not UTF-8 text, plain or gzipped \(Compressed",
    ),
    "bad gzip": (lambda path: path.write_bytes(b"\x1f\x8b\x08" + b"x" * 50), "not UTF-8 text, plain or gzipped"),
    "bad gzip body": (
        lambda path: path.write_bytes(gzip.compress(b"x")[:10] + b"\xff" * 30),
        "not UTF-8 text, plain or gzipped",
    ),
    "cut parquet": (parquet_without_its_end, "cannot read '[^']+': Parquet magic bytes not found"),
    "absent": (lambda path: None, "cannot read '[^']+': No such file or directory"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_faulty_file_is_one_line_that_says_where(tmp_path, name):
    write, expected = FAULTS[name]
    path = tmp_path / "given.data"
    write(path)
    text = message(Gsm8k(str(path)))
    assert text.startswith("gsm8k: ")
    assert str(path) in text
    assert re.search(expected, text), text
    assert len(text) < 400


def test_a_file_that_is_parquet_by_name_only_is_refused(tmp_path):
    assert "Parquet" in message(Gsm8k(jsonl(tmp_path / "f.parquet", SUMS * 5)))


def test_a_file_without_permission_and_a_missing_folder_are_refused(tmp_path):
    assert "cannot read" in message(Gsm8k(str(tmp_path / "no/such/folder.jsonl")))
    with pytest.raises(HarnessError, match=r"gsm8k: cannot read .*: No such file"):
        _ = Gsm8k(str(tmp_path / "absent.jsonl")).revision


def test_an_id_that_is_there_twice_is_refused_with_both_places(tmp_path):
    data = jsonl(tmp_path / "f.jsonl", [asked(1), asked(2), asked(1)])
    assert message(Math500(data)).endswith("line 3: problem 'test/algebra/1.json' is there already (line 1)")


# A clone of a dataset


def test_a_clone_is_read_by_the_splits_of_its_card(tmp_path):
    task = Gsm8k(str(clone_of_gsm8k(tmp_path)))
    assert [(p.id, p.reference) for p in task.problems("test")] == [
        ("test-0", "5"),
        ("test-1", "15000"),
        ("test-2", "-3"),
    ]
    last = task.problems("train")[-1]
    assert (last.id, last.reference) == ("train-2", "5")


def test_a_clone_whose_file_changed_is_read_anew_under_another_revision(tmp_path):
    task = Gsm8k(str(clone_of_gsm8k(tmp_path)))
    before = task.revision, task.problems("test")
    (tmp_path / ".cache").mkdir()
    (tmp_path / ".cache/lock").write_text("x")
    assert task.revision == before[0]
    file = tmp_path / "main/test-00000-of-00001.parquet"
    stat = file.stat()
    parquet(file, [DEBT, DEBT])
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # as an unpacked archive's
    assert task.revision != before[0]
    assert [problem.reference for problem in task.problems("test")] == ["-3", "-3"]


def test_rows_are_numbered_through_a_clones_batches(tmp_path):
    task = Gsm8k(str(clone_of_gsm8k(tmp_path, [{"question": f"{i}?", "answer": f"#### {i}"} for i in range(2500)])))
    assert [(p.id, p.reference) for p in task.problems("test")] == [(f"test-{i}", str(i)) for i in range(2500)]


def test_one_who_insists_on_progress_bars_is_not_warned_that_they_stay(tmp_path, monkeypatch):
    module = importlib.import_module("datasets.utils.tqdm")
    monkeypatch.setattr(module, "HF_DATASETS_DISABLE_PROGRESS_BARS", False)
    assert len(Gsm8k(str(clone_of_gsm8k(tmp_path))).problems("test")) == 3


def test_aimes_own_split_name_is_not_asked_of_the_user(tmp_path):
    parquet(tmp_path / "data/train-00000-of-00001.parquet", exam(2, id=lambda i: 60 + i))
    assert ids(Aime24(str(tmp_path)).problems("test")) == ["2024-I-1", "2024-I-2"]


def test_dapos_copies_are_left_out_of_a_clone(tmp_path):
    parquet(tmp_path / "data/dapo-math-17k.parquet", [trained(i) for i in range(2500)] * 2)
    assert len(DapoMath(str(tmp_path)).problems("all")) == 2500


def test_a_folder_that_is_no_clone_is_refused(tmp_path):
    (tmp_path / "README.md").write_text("nothing\n")
    assert re.search(r"gsm8k: folder '[^']+' is no clone of openai/gsm8k: ", message(Gsm8k(str(tmp_path))))
    parquet(tmp_path / "test.parquet", SUMS)
    assert "BuilderConfig 'main' not found" in message(Gsm8k(str(tmp_path)))


def test_a_clone_without_the_split_is_refused(tmp_path):
    parquet(tmp_path / "main/test-0.parquet", SUMS)
    card(tmp_path, {"main": {"test": "main/test-*"}})
    assert 'Unknown split "train"' in message(Gsm8k(str(tmp_path)), "train")


def test_a_fault_in_a_clone_names_its_row(tmp_path):
    clone_of_gsm8k(tmp_path, [SUM, SUM | {"answer": "?"}, SUM])
    assert f"gsm8k: '{tmp_path}' main/test, row 1: column 'answer'" in message(Gsm8k(str(tmp_path)))


# The hub and its absence


@pytest.fixture
def no_cache(tmp_path, monkeypatch):
    """A machine that has fetched nothing, with no proxy between it and the hub."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    return monkeypatch


@pytest.mark.parametrize(("task", "hub"), list(zip(TASKS, HUBS, strict=True)))
def test_without_the_hub_the_line_names_dataset_revision_and_file(no_cache, task, hub):
    no_cache.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")  # nobody listens there
    text = message(task(), task().default_split("")[0])
    assert text == (
        f"{hub.task}: dataset {hub.repo} (revision {hub.revision}) is not on this machine, and the hub cannot be "
        f"reached from here: give {hub.instead}"
    )


def test_without_the_hub_maths_dev_split_asks_for_a_file_of_math_500(no_cache, tmp_path):
    no_cache.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    text = message(Math(jsonl(tmp_path / "f.jsonl", [solved(1)])), "dev")
    assert text.startswith("math: dataset HuggingFaceH4/MATH-500 (revision 6e4ed1a2a79af7d8630a6b768ec859cb5af4d3be)")
    assert text.endswith("give --task math:math500=FILE, the dataset's test.jsonl")


def test_a_hub_that_takes_a_connection_but_does_not_answer_is_given_up_soon(no_cache):
    no_cache.setattr("harness.system.hub_access.ANSWER_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as server:
        no_cache.setattr("huggingface_hub.constants.ENDPOINT", f"http://127.0.0.1:{server.getsockname()[1]}")
        began = perf_counter()
        assert "the hub cannot be reached from here" in message(Gsm8k())
        assert perf_counter() - began < 20


def test_a_name_that_no_server_has_is_out_of_reach(no_cache):
    no_cache.setattr("huggingface_hub.constants.ENDPOINT", "https://hub.invalid")
    assert "the hub cannot be reached from here" in message(Math500())


def test_a_machine_that_is_switched_offline_asks_nobody(no_cache):
    no_cache.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    asked = []
    no_cache.setattr("huggingface_hub.utils.get_session", lambda: asked.append("the hub"))
    assert "the hub cannot be reached from here" in message(Gsm8k())
    assert not asked


class OneDataset(BaseHTTPRequestHandler):
    """As much of the hub as serves the folder `server.root` at every commit, on loopback; it notes what is asked."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        server: Any = self.server
        server.asked.append(self.path)
        path = self.path.partition("?")[0]
        if match := re.fullmatch(r"/datasets/[^/]+/[^/]+/resolve/(\w+)/(.+)", path):
            self.send_file(server.root / match[2], match[1])
        elif match := re.fullmatch(r"/api/datasets/[^/]+/[^/]+/tree/\w+/?(.*)", path):
            self.send_list(server.root, server.root / match[1])
        elif match := re.fullmatch(r"/api/datasets/([^/]+/[^/]+)/revision/(\w+)", path):
            self.send({"id": match[1], "sha": match[2], "siblings": [], "tags": [], "private": False})
        else:
            self.send(None)

    def send_file(self, path: Path, commit: str) -> None:
        content = path.read_bytes() if path.is_file() else None
        tag = hashlib.sha1(content or b"").hexdigest()
        self.send(content, {"X-Repo-Commit": commit, "ETag": f'"{tag}"'})

    def send_list(self, root: Path, folder: Path) -> None:
        if not folder.is_dir():
            return self.send(None)
        kinds = {True: "directory", False: "file"}
        listed = [
            {
                "type": kinds[each.is_dir()],
                "path": str(each.relative_to(root)),
                "oid": "0" * 40,
                "size": each.stat().st_size,
            }
            for each in sorted(folder.iterdir())
        ]
        self.send(listed)

    def send(self, content: Any, headers: dict[str, str] | None = None) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content or {}).encode()
        self.send_response(404 if content is None else 200)
        missing = {"X-Error-Code": "EntryNotFound"} if content is None else {}
        for name, value in {"Content-Length": str(len(body)), **missing, **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


class Machine:
    """A machine with a cache of its own, and a hub on loopback that can be switched off."""

    def __init__(self, home: Path) -> None:
        self.home, self.root = home / "home", home / "dataset"
        self.server: Any = ThreadingHTTPServer(("127.0.0.1", 0), OneDataset)
        self.server.root, self.server.asked = self.root, []
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def switch_off(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def load(self, code: str, revision: str | None = None) -> Any:
        """What `code` leaves in `found`, in a process of its own; with another commit pinned where one is given."""
        pin = f"gsm8k.HUB = dataclasses.replace(gsm8k.HUB, revision={revision!r})\n" if revision else ""
        script = (
            "import dataclasses, json\nfrom harness import HarnessError\n"
            f"from harness_tasks import aime, competition_math, gsm8k\n{pin}"
            f"try:\n    found = {code}\nexcept HarnessError as refusal:\n    found = str(refusal)\n"
            "print(json.dumps(found))"
        )
        proxies = {name: "" for name in os.environ if name.lower().endswith("_proxy")}
        variables = {"HF_ENDPOINT": self.endpoint, "HF_HOME": str(self.home), "HF_HUB_OFFLINE": "0", "NO_PROXY": "*"}
        command = [sys.executable, "-W", "error", "-c", script]
        done = run_to_end(command, env=os.environ | proxies | variables, timeout=100)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def machine(tmp_path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    yield made
    made.switch_off()


REFERENCES = "[problem.reference for problem in gsm8k.Gsm8k().problems('test')]"
OTHER = "1" * 40


@pytest.mark.slow
def test_the_hubs_rows_are_those_of_the_pinned_commit_and_are_kept(machine):
    clone_of_gsm8k(machine.root)
    assert machine.load(REFERENCES) == ["5", "15000", "-3"]
    of_dataset = [path for path in machine.server.asked if "openai/gsm8k" in path]
    assert of_dataset
    assert all(gsm8k.HUB.revision in path for path in of_dataset)

    machine.server.asked.clear()
    assert machine.load(REFERENCES) == ["5", "15000", "-3"]
    assert not machine.server.asked  # a commit does not change: what is here is not asked for again

    clone_of_gsm8k(machine.root, [DEBT])
    assert machine.load(REFERENCES, OTHER) == ["-3"]
    machine.switch_off()
    assert machine.load(REFERENCES, "2" * 40).startswith(f"gsm8k: dataset openai/gsm8k (revision {'2' * 40}) is not on")
    assert machine.load(REFERENCES) == ["5", "15000", "-3"]
    assert machine.load(REFERENCES, OTHER) == ["-3"]


def test_a_hub_that_fails_does_not_bring_another_commit_out_of_the_cache(machine):
    clone_of_gsm8k(machine.root)
    machine.load(REFERENCES)
    for file in machine.root.rglob("*"):
        file.is_file() and file.unlink()
    text = machine.load(REFERENCES, OTHER)
    assert "the hub did not give it" in text
    assert "--data FILE" in text


@pytest.mark.slow
def test_datasets_without_configs_are_fetched_and_kept_too(machine):
    machine.root.mkdir()
    jsonl(machine.root / "test.jsonl", [asked(1), asked(2)])
    code = "[problem.id for problem in competition_math.Math500().problems('test')]"
    assert machine.load(code) == ["test/algebra/1.json", "test/algebra/2.json"]
    machine.server.asked.clear()
    assert machine.load(code) == ["test/algebra/1.json", "test/algebra/2.json"]
    assert not machine.server.asked
    (machine.root / "test.jsonl").unlink()
    parquet(machine.root / "data/train-00000-of-00001.parquet", exam(2))
    assert machine.load("[p.id for p in aime.Aime24().problems('test')]") == ["2024-I-1", "2024-I-2"]
