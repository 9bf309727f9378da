"""What every worker uses: components built once, random streams of their own, batches."""

from __future__ import annotations

import pickle

import numpy as np
from support.paths import TOY
from support.works import work_in

from harness import Problem
from harness.stages.work import batches, component, forget_components, one_thread, over, problem_seed, ranking_rng

ONE, OTHER = Problem("a", "x"), Problem("b", "x")


def test_streams_depend_on_purpose_seed_problem_and_trial_and_are_those_of_today():
    assert problem_seed("rank", 0, ONE) == 4787588949377954668
    assert ranking_rng(0, ONE, 1).integers(2**32) == 3323727987
    seeds = {problem_seed(purpose, seed, each) for purpose in "xy" for seed in (0, 1) for each in (ONE, OTHER)}
    assert len(seeds) == 8
    assert all(0 <= seed < 2**64 for seed in seeds)
    first = {ranking_rng(seed, each, trial).random() for seed in (0, 1) for each in (ONE, OTHER) for trial in (0, 1)}
    assert len(first) == 8
    assert problem_seed("rank", 0, ONE) == problem_seed("rank", 0, Problem("a", "another prompt"))


def test_a_component_is_built_once_until_it_is_forgotten(tmp_path):
    work = work_in(tmp_path, data="3")
    first = work.build_task()
    assert first.size == 3
    assert work.build_task() is first
    assert component("selector", "shuffle:offset=2", (TOY,)).offset == 2
    forget_components()
    assert work.build_task() is not first


def test_work_is_sent_to_a_worker_with_its_function(tmp_path):
    bound = pickle.loads(pickle.dumps(over(work_in(tmp_path), np.array_equal)))
    assert bound.args == (work_in(tmp_path),)
    assert bound.func is np.array_equal


def test_batches_keep_the_order_and_the_last_may_be_smaller():
    assert [list(batch) for batch in batches(range(5), 2)] == [[0, 1], [2, 3], [4]]
    assert list(batches([], 2)) == []


def test_libraries_have_one_thread_while_they_rank():
    from threadpoolctl import threadpool_info

    with one_thread("x"):
        assert {pool["num_threads"] for pool in threadpool_info()} == {1}
