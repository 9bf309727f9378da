"""The conformance kit: how a check ends, what the kit leaves, by which time, and `harness check`."""

import io
import random
from collections import Counter
from unittest import SkipTest

import numpy as np
import pytest
from support.broken import Sound
from support.broken_selectors import AllButOne, OffByOne, Reseeding, WithReplacement
from support.documents import code_blocks
from support.paths import ROOT, SUPPORT
from support.processes import printed_by
from support.refusals import error_line

from harness.system.progress import Progress
from harness.testing import ConformanceError, Inapplicable, check_registered, checks, findings

SELECTORS = {check.name: check for check in checks("selector")}


def test_a_failure_is_an_assertion_that_shows_what_is_wrong_and_what_presumes_it_says_where_to_begin():
    assert issubclass(Inapplicable, SkipTest)  # pytest shows it as a skip
    with pytest.raises(AssertionError, match="complete: AllButOne: 23 picks from a pool of 24, where 24 are wanted; "):
        SELECTORS["complete"](AllButOne())
    with pytest.raises(ConformanceError, match=r"contract: OffByOne: raised IndexError: .* \(broken_selectors.py:\d+"):
        SELECTORS["contract"](OffByOne())
    rows = list(findings("selector", WithReplacement()))
    waiting = [row["what"] for row in rows if row["outcome"] == "not applicable"]
    assert waiting == ["first fix what complete finds"] * 10


def test_the_kit_leaves_the_global_generators_as_they_were_and_loads_no_test_framework_torch_or_plugin():
    random.seed(5)
    np.random.seed(5)
    before = random.getstate(), np.random.get_state()[2]
    SELECTORS["same-rng-same-order"](Sound())
    finding = SELECTORS["same-rng-same-order"].finding(Reseeding())
    assert "it draws from or seeds the global generator of numpy.random; " in finding["what"]
    assert (random.getstate(), np.random.get_state()[2]) == before
    modules = ", ".join(f"harness.testing.{path.stem}" for path in (ROOT / "harness" / "testing").glob("[!_]*.py"))
    heavy = r"pytest$|hypothesis$|torch$|transformers$|sklearn$|harness_"
    assert printed_by(f"import re, sys, {modules}; print([*filter(re.compile({heavy!r}).match, sys.modules)])") == "[]"


class Biased(Sound):
    bias = 0.35

    def rank(self, pool, rng):
        first = rng.random() < self.bias
        yield from sorted(rng.permutation(len(pool)).tolist(), key=lambda index: first and index != 0)


class ByCluster(Sound):
    """Clusters of answers by size, ties to the first to come; within one as they come."""

    def rank(self, pool, rng):
        size = Counter(pool.answers)
        yield from sorted(range(len(pool)), key=lambda i: (-size[pool.answers[i]], i))


def test_a_random_ranker_is_judged_by_the_distribution_of_its_picks_and_a_deterministic_one_may_break_ties_by_index(
    monkeypatch,
):
    is_equivariant = SELECTORS["permutation-equivariant"]
    with pytest.raises(ConformanceError, match="changes the distribution of the pick number 1"):
        is_equivariant(Biased())
    monkeypatch.setattr(Biased, "bias", 0.0)
    is_equivariant(Biased())
    is_equivariant(ByCluster())


# In a process of its own: a check that does not end is ended, says so, and stops no other.

OWN = """
import os, time
from harness import hookimpl

class Stops:
    def rank(self, pool, rng):
        if len(pool) == 1:
            os._exit(3)
        if len(pool) > 300:
            time.sleep(1000)
        yield from range(len(pool))

@hookimpl
def register_selectors(register):
    register("stops", Stops)
"""


@pytest.mark.slow
def test_a_check_that_does_not_end_or_ends_its_process_is_a_named_failure_and_the_others_run(written, monkeypatch):
    monkeypatch.setattr("harness.system.progress.LOOK_EVERY_S", 0.05)
    plugin, out = written(OWN, "own.py"), io.StringIO()
    with Progress(out).waiting("checking"):
        rows = list(check_registered("selector", "stops", plugin_files=[plugin], limit_s=10.0))
    assert "selector stops, check budget ..." in out.getvalue()
    assert [row["check"] for row in rows] == list(SELECTORS)
    failed = {row["check"]: row["what"] for row in rows if row["outcome"] == "failed"}
    assert list(failed) == ["unusual-pools", "budget", "permutation-equivariant"]
    assert "it ended the process that ran it" in failed["unusual-pools"]
    assert "took longer than 10 s and was ended" in failed["budget"]


def test_the_command_shows_every_check_exits_1_where_one_failed_and_2_where_nothing_can_be_tried(harness):
    outcome = harness("check", "selector", "in-order", "--json")
    outcomes = {row["check"]: row["outcome"] for row in outcome.rows}
    assert (outcome.code, list(outcomes)) == (0, list(SELECTORS))
    assert set(outcomes.values()) == {"passed", "not applicable"}
    assert outcomes["permutation-equivariant"] == "not applicable"  # it says that it goes by the order
    table = harness("check", "samplers", "vanilla")
    assert (table.code, "out-of-range-refused" in table.out, " 0 failed, " in table.out) == (0, True, True)
    outcome = harness("check", "selector", "hashed", "--plugin", SUPPORT / "broken_plugins.py", "--json")
    [failed] = [row for row in outcome.rows if row["outcome"] == "failed"]
    assert (outcome.code, failed["check"]) == (1, "same-in-another-process")
    assert failed["what"].startswith("same-in-another-process: Hashed: another process gives [")
    for arguments, fault in (
        (("selector", "repex"), "unknown selector 'repex' (did you mean 'repexp'?"),
        (("executor", "local"), "no checks for kind 'executor'"),
        (("task", "game24", "--data", "no-such-file.csv"), "game24: cannot read 'no-such-file.csv'"),
    ):
        assert fault in error_line(harness("check", *arguments))


def test_the_selector_of_the_readme_passes_untouched(written):
    plugin = written(code_blocks("README.md", "python")[0], "farthest.py")
    outcomes = [row["outcome"] for row in check_registered("selector", "farthest", plugin_files=[plugin])]
    assert Counter(outcomes) == {"passed": len(SELECTORS) - 1, "not applicable": 1}
