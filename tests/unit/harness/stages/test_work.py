"""What every worker uses: components built once, streams of their own, batches; `model_work`: a plan's models."""

import pickle
import platform
from dataclasses import replace

import numpy as np
import pytest
from support.models import PARROT, group_of, model_work
from support.paths import TOY
from support.refusals import refusal_of
from support.toy import Letters, Parrot
from support.works import work_in

from harness import Problem
from harness.stages.model_work import identity, in_worker
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


def test_batches_keep_the_order_and_libraries_have_one_thread_while_they_rank():
    assert [list(batch) for batch in batches(range(5), 2)] == [[0, 1], [2, 3], [4]]
    assert list(batches([], 2)) == []
    from threadpoolctl import threadpool_info

    with one_thread("x"):
        assert {pool["num_threads"] for pool in threadpool_info()} == {1}


@pytest.fixture
def given():
    """What a step was given, a line a call."""
    forget_components()
    yield []
    forget_components()


def test_a_worker_builds_its_models_once(given, tmp_path):
    todo = model_work(work_in(tmp_path), embedder="letters", model="macaw")
    todo = replace(todo, identities={"engine": {**PARROT, "model": "macaw"}})
    group = group_of([])
    for _ in range(2):
        in_worker(lambda *arguments: given.append(arguments), todo, group, print)
    first, second = given
    assert (first[0], first[2], first[3]) == (todo, group, print)
    built = first[1]
    assert built.engine.name == "macaw"
    assert [type(part).__name__ for part in (built.embedder, built.sampler)] == ["Letters", "Vanilla"]
    assert all(first is other for first, other in zip(vars(built).values(), vars(second[1]).values(), strict=True))
    todo = model_work(work_in(tmp_path), engine=None, sampler=None)  # what is not needed is not built
    in_worker(lambda todo, built, group, report: given.append(built), todo, group_of([]), print)
    assert list(vars(given[2]).values()) == [None] * 4


def test_another_model_than_the_planned_one_is_refused(given, tmp_path):
    planned = {"engine": {**PARROT, "model": "raven", "dtype": "bfloat16"}}
    todo = replace(model_work(work_in(tmp_path)), identities=planned)
    line = refusal_of(in_worker, lambda *_: None, todo, group_of([]), print)
    assert line.startswith(
        f"engine 'toy': on {platform.node()} it has model 'parrot' and not 'raven', dtype None and not 'bfloat16', as"
    )
    assert identity(Parrot()) == PARROT
    assert identity(Letters()) == identity(None) == {}
