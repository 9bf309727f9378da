"""From text on a command line to a built component and back; and `calls.py`."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Literal

import numpy as np
import pytest
from support.refusals import refusal_of

from harness.plugin_system.calls import needs, picked, require_selector, subset_of
from harness.plugin_system.component import build, parameters, parse_spec
from harness.plugin_system.registry import Origin, Registration, Registry


@dataclass(frozen=True)
class Knobs:
    """A component with one parameter of each type."""

    lam: float = 1.0
    count: int = 3
    first: Literal["random", "max"] = "random"
    flag: bool = False
    most: int | None = None


def failing():
    raise ValueError("no knobs")


@pytest.fixture
def registry():
    origin = Origin("dist", "1", "entry")
    return Registry(
        [Registration("selector", "knobs", Knobs, origin), Registration("selector", "none", failing, origin)]
    )


def test_text_is_converted_to_the_declared_types_and_back(registry):
    built = build(registry, "selector", "knobs:lam=0.1,count=7,first=max,flag=true,most=none")
    assert built == Knobs(0.1, 7, "max", True, None)
    assert parameters(built) == {"lam": 0.1, "count": 7, "first": "max", "flag": True, "most": None}
    assert [str(parse_spec(text)) for text in ("knobs:lam=0.1,first=max", "knobs")] == [
        "knobs:lam=0.1,first=max",
        "knobs",
    ]


def test_a_wrong_spec_is_one_clear_line(registry):
    table = {
        "knobs:lam=abc": "knobs: lam must be a valid number",
        "knobs:count=1.5": "knobs: count must be a valid integer",
        "knobs:count=none": "knobs: count must be a valid integer",
        "knobs:first=last": "knobs: first must be 'random' or 'max', got 'last'",
        "knobs:lamda=1": "knobs: no parameter 'lamda' (did you mean 'lam'? it takes lam, count, first, flag, most)",
        "knobs:lam": "parameters are written name:key=value",
        "knobs:lam=1,lam=2": "parameters are written name:key=value",
        "knobs:=1": "parameters are written name:key=value",
        ":lam=1": "a name is missing",
        "knob": "unknown selector 'knob' (did you mean 'knobs'?",
        "none:x=1": "none: no parameter 'x' (it takes none)",
        "none": "selector 'none' from dist 1 cannot be built: raised ValueError: no knobs (test_component.py:",
    }
    lines = {spec: refusal_of(build, registry, "selector", spec) for spec in table}
    assert [line for spec, line in lines.items() if table[spec] not in line] == []


def test_a_selector_has_one_of_two_methods_and_needs_columns_that_exist():
    ranker, subset = SimpleNamespace(rank=min), SimpleNamespace(select=min, needs=())
    assert (require_selector("x", ranker), require_selector("x", subset)) == (ranker, subset)
    assert (needs(ranker), needs(subset)) == (("embeddings",), ())
    assert refusal_of(require_selector, "x", 3) == "selector 'x': has neither rank(pool, rng) nor select(pool, k, rng)"
    line = refusal_of(require_selector, "x", SimpleNamespace(rank=min, needs=("logprobs", "verdicts")))
    assert line == "selector 'x': needs ['verdicts']; it can need 'embeddings', 'logprobs', 'scores'"


def test_a_pick_that_is_no_new_index_of_the_pool_is_refused_when_it_arrives():
    for second, fault in (
        (1.0, "an index must be an integer, got 1.0"),
        (True, "an index must be an integer, got True"),
        (3, "index 3 is outside the pool of 3"),
        (-1, "index -1 is outside the pool of 3"),
        (0, "index 0 was picked twice"),
    ):
        arrived = picked([0, second], 3)
        assert next(arrived) == 0
        assert refusal_of(list, arrived) == fault
    whole = list(picked(np.array([2, 0, 1]), 3))
    assert (whole, {type(index) for index in whole}) == ([2, 0, 1], {int})
    greedy = SimpleNamespace(select=lambda pool, k, rng: range(k + 1))
    assert refusal_of(subset_of, greedy, [None] * 9, 2, None) == "select gave 3 indices for k = 2"


def test_a_value_in_quotes_may_have_commas():
    specs = {
        "own:command='f(1, 2) \"x\"',n=3": {"command": 'f(1, 2) "x"', "n": "3"},
        'own:pattern="it\'s, (a=b)"': {"pattern": "it's, (a=b)"},
        "own:pattern=it's,n=1": {"pattern": "it's", "n": "1"},
        "own:command=python check.py --tolerance=0.1": {"command": "python check.py --tolerance=0.1"},
    }
    assert {text: dict(parse_spec(text).params) for text in specs} == specs
    assert {text: dict(parse_spec(str(parse_spec(text))).params) for text in specs} == specs
    for wrong in ("own:", "own:a=1,", "own:a='x'y,b", "own:,a=1"):
        assert "parameters are written name:key=value" in refusal_of(parse_spec, wrong)
