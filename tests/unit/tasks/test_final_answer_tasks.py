"""What all tasks with final answers share: prompts, the paper's settings, revisions, unknown splits."""

from __future__ import annotations

import pytest
from support.refusals import refusal_of
from support.task_files import HUBS

from harness import Problem
from harness_tasks.aime import Aime24, Aime25
from harness_tasks.competition_math import INSTRUCTION, Math, Math500
from harness_tasks.dapo import DapoAime, DapoMath
from harness_tasks.gsm8k import Gsm8k

COIN = Problem("x", "A coin {odd} is thrown. What is $\\frac{1}{2}$?", "1")


def test_a_problem_is_asked_for_in_the_papers_words():
    words = dict.fromkeys(HUBS, r"Let's think step by step and output the final answer within \boxed{}.")
    words[Gsm8k] = 'Let\'s think step by step and output the final answer after "####".'
    messages = {task: task().messages(COIN) for task in HUBS}
    assert messages == {task: [{"role": "user", "content": f"{COIN.prompt} {words[task]}"}] for task in HUBS}


def test_a_base_model_sees_a_competition_problem_alone():
    for task in (Aime24, Aime25, DapoMath, DapoAime):
        assert task().plain(COIN) == f"Problem: {COIN.prompt}\n{INSTRUCTION}\nSolution:"


def test_the_papers_settings_are_recorded():
    for task, n, max_tokens in ((Gsm8k, 6400, 512), (Math, 6400, 512), (Math500, 6400, 512), (Aime25, 8192, 8192)):
        assert task.paper == {"n": n, "max_tokens": max_tokens, "sampler": {}, "task": {"fallback": "no"}}
    for task in (Gsm8k, Math, DapoAime):
        assert task().rl["reward"] == "strict"
        assert {task().rl[part] for part in ("train", "dev", "test")} <= set(task.splits)


def test_the_revision_of_the_hubs_data_is_a_whole_commit():
    assert {task: task().revision for task in HUBS} == {task: hub.revision for task, hub in HUBS.items()}
    assert {len(hub.revision) for hub in HUBS.values()} == {40}


@pytest.mark.parametrize("task", [*HUBS, DapoAime])
def test_an_unknown_split_is_refused_with_those_there_are(task):
    line = refusal_of(task().problems, "validation")
    assert line.endswith(f"unknown split 'validation' (choose from {', '.join(task.splits)})")
