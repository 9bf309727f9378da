"""How a check ends: what a failure says, what waits for it, what the kit leaves; and orders by content."""

import random
from collections import Counter
from unittest import SkipTest

import numpy as np
import pytest
from support.broken import Sound
from support.broken_selectors import AllButOne, OffByOne, Reseeding, WithReplacement
from support.paths import ROOT
from support.processes import printed_by

from harness.testing import ConformanceError, Inapplicable, checks, findings
from harness.testing.checking import Violation, global_rngs
from harness.testing.selector_checks import require_equivariant


def check_named(name, kind="selector"):
    return next(check for check in checks(kind) if check.name == name)


def test_a_failure_is_an_assertion_that_shows_what_is_wrong_and_the_components_line():
    assert issubclass(Inapplicable, SkipTest)  # pytest shows it as a skip
    with pytest.raises(AssertionError, match="complete: AllButOne: 23 picks from a pool of 24, where 24 are wanted; "):
        check_named("complete")(AllButOne())
    with pytest.raises(ConformanceError, match=r"contract: OffByOne: raised IndexError: .* \(broken_selectors.py:\d+"):
        check_named("contract")(OffByOne())


def test_one_mistake_is_reported_once_and_the_checks_that_presume_it_say_where_to_begin():
    rows = list(findings("selector", WithReplacement()))
    waiting = [row["what"] for row in rows if row["outcome"] == "not applicable"]
    assert len(waiting) > 15
    assert set(waiting) == {"first fix what valid-indices finds"}


def test_the_kit_leaves_the_global_generators_as_they_were():
    random.seed(5)
    np.random.seed(5)
    before = global_rngs()
    for name in ("own-rng-only", "global-rngs-untouched"):
        check_named(name)(Sound())
    with pytest.raises(ConformanceError):
        check_named("global-rngs-untouched")(Reseeding())
    assert global_rngs() == before


def test_the_kit_loads_neither_a_test_framework_nor_torch_nor_a_plugin():
    modules = [f"harness.testing.{path.stem}" for path in (ROOT / "harness" / "testing").glob("*.py")]
    code = f"import sys, importlib\nfor name in {modules!r}: importlib.import_module(name.removesuffix('.__init__'))\n"
    code += "print(sorted({'pytest', 'hypothesis', 'torch', 'transformers', 'sklearn'} & set(sys.modules)))"
    code += "\nprint(any(name.startswith('harness_') for name in sys.modules))"
    assert printed_by(code).split("\n")[:2] == ["[]", "False"]


def test_a_random_ranker_is_judged_by_the_distribution_of_its_picks():
    class Biased(Sound):
        bias = 0.35

        def rank(self, pool, rng):
            order = rng.permutation(len(pool))
            at = int(np.flatnonzero(order == 0)[0])
            if rng.random() < self.bias:
                order[[0, at]] = order[[at, 0]]
            yield from order.tolist()

    with pytest.raises(Violation, match="changes the distribution of the pick number 1"):
        require_equivariant(Biased())
    Biased.bias = 0.0
    require_equivariant(Biased())


def test_a_deterministic_ranker_may_break_ties_by_the_lowest_index():
    class ByCluster(Sound):
        """Clusters of answers by size, ties to the first to come; within one as they come."""

        def rank(self, pool, rng):
            size = Counter(pool.answers)
            yield from sorted(range(len(pool)), key=lambda i: (-size[pool.answers[i]], i))

    require_equivariant(ByCluster())
