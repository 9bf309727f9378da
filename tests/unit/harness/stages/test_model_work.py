"""A worker builds the models that the plan built, once, and refuses others."""

from __future__ import annotations

import platform
from dataclasses import replace

import pytest
from support.models import PARROT, group_of, model_work
from support.refusals import refusal_of
from support.toy import Letters, Parrot
from support.works import work_in

from harness.stages.model_work import identity, in_worker
from harness.stages.work import forget_components


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


def test_what_is_not_needed_is_not_built(given, tmp_path):
    todo = model_work(work_in(tmp_path), engine=None, sampler=None)
    in_worker(lambda todo, built, group, report: given.append(built), todo, group_of([]), print)
    assert list(vars(given[0]).values()) == [None, None, None]


def test_another_model_than_the_planned_one_is_refused(given, tmp_path):
    planned = {"engine": {**PARROT, "model": "raven", "dtype": "bfloat16"}}
    todo = replace(model_work(work_in(tmp_path)), identities=planned)
    line = refusal_of(in_worker, lambda *_: None, todo, group_of([]), print)
    assert line.startswith(
        f"engine 'toy': on {platform.node()} it has model 'parrot' and not 'raven', dtype None and not 'bfloat16', as"
    )


def test_only_what_says_who_it_is_has_an_identity():
    assert identity(Parrot()) == PARROT
    assert identity(Letters()) == identity(None) == {}
