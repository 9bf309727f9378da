"""How a check ends: what a failure says, what waits for it, what the kit leaves, by which time; orders by content."""

import io
import random
from collections import Counter
from unittest import SkipTest

import numpy as np
import pytest
from support.broken import Sound
from support.broken_selectors import AllButOne, OffByOne, Reseeding, WithReplacement
from support.paths import ROOT
from support.processes import printed_by

from harness.system.progress import Progress
from harness.testing import ConformanceError, Inapplicable, check_registered, checks, findings


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
    assert len(waiting) == 10
    assert set(waiting) == {"first fix what complete finds"}


def test_the_kit_leaves_the_global_generators_as_they_were():
    random.seed(5)
    np.random.seed(5)
    before = random.getstate(), np.random.get_state()[2]
    check_named("same-rng-same-order")(Sound())
    finding = check_named("same-rng-same-order").finding(Reseeding())
    assert "it draws from or seeds the global generator of numpy.random; " in finding["what"]
    assert (random.getstate(), np.random.get_state()[2]) == before


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

    is_equivariant = check_named("permutation-equivariant")
    with pytest.raises(ConformanceError, match="changes the distribution of the pick number 1"):
        is_equivariant(Biased())
    Biased.bias = 0.0
    is_equivariant(Biased())


def test_a_deterministic_ranker_may_break_ties_by_the_lowest_index():
    class ByCluster(Sound):
        """Clusters of answers by size, ties to the first to come; within one as they come."""

        def rank(self, pool, rng):
            size = Counter(pool.answers)
            yield from sorted(range(len(pool)), key=lambda i: (-size[pool.answers[i]], i))

    check_named("permutation-equivariant")(ByCluster())


# In a process of its own: a check that does not end is ended, says so, and stops no other.

SELECTORS = """
import os, time
from harness import hookimpl

class Endless:
    def rank(self, pool, rng):
        while len(pool) > 300:
            pass
        yield from range(len(pool))

class Dies:
    def rank(self, pool, rng):
        if len(pool) == 1:
            os._exit(3)
        yield from range(len(pool))

class Hangs:
    def rank(self, pool, rng):
        while True:
            pass

@hookimpl
def register_selectors(register):
    for factory in (Endless, Dies, Hangs):
        register(factory.__name__.lower(), factory)
"""


@pytest.fixture
def checked(tmp_path):
    plugin = tmp_path / "selectors.py"
    plugin.write_text(SELECTORS)
    return lambda name, limit_s: check_registered("selector", name, plugin_files=[plugin], limit_s=limit_s)


@pytest.mark.slow
def test_a_check_that_does_not_end_is_a_failure_and_the_others_run(checked):
    rows = {row["check"]: row for row in checked("endless", 3.0)}
    assert list(rows) == [check.name for check in checks("selector")]
    late = [name for name, row in rows.items() if "took longer than 3 s and was ended" in row["what"]]
    assert late == ["budget"]
    assert {rows[name]["outcome"] for name in late} == {"failed"}
    assert rows["same-in-another-process"]["outcome"] == "passed"
    assert {(row["kind"], row["name"]) for row in rows.values()} == {("selector", "endless")}


@pytest.mark.slow
def test_a_check_that_ends_its_process_is_a_failure_too(checked):
    rows = {row["check"]: row for row in checked("dies", 100.0)}
    assert "it ended the process that ran it" in rows["unusual-pools"]["what"]
    assert rows["parameters-round-trip"]["outcome"] == "passed"


@pytest.mark.slow
def test_what_presumes_a_check_that_did_not_end_is_not_tried(checked):
    rows = []
    for row in checked("hangs", 2.0):  # each as it ends
        rows.append(row)
        if row["outcome"] == "not applicable":
            break
    assert rows[0]["outcome"] == "failed"
    assert rows[-1]["what"].startswith("first fix what ")


@pytest.mark.slow
def test_the_check_that_takes_long_is_named(checked, monkeypatch):
    monkeypatch.setattr("harness.system.progress.LOOK_EVERY_S", 0.05)
    out = io.StringIO()
    with Progress(out).waiting("checking"):
        found = next(row for row in checked("endless", 4.0) if row["outcome"] == "failed" and "took" in row["what"])
    assert "selector endless, check budget ..." in out.getvalue()
    assert found["check"] == "budget"
