"""The conformance kit catches each broken plugin by the check that should, and none by another."""

import pytest
from support.broken import BY_KIND, Sound, SoundOnVectors
from support.broken_engines import SoundEngine
from support.broken_plugins import MODULES
from support.broken_tasks import Ending, Lamps
from support.toy import Letters

from harness import Sampler
from harness.testing import KINDS, ConformanceError, checks, findings, selector_checks

SOUND = {"selector": [Sound, SoundOnVectors], "task": [Lamps, Ending], "sampler": [Sampler], "embedder": [Letters]}
SOUND["engine"] = [SoundEngine]


def test_there_are_enough_broken_plugins_for_every_check():
    assert len(MODULES) == 3
    for kind in KINDS:
        caught, every = set().union(*(factory.CAUGHT_BY for factory in BY_KIND[kind])), {c.name for c in checks(kind)}
        assert every - caught <= (set() if kind == "selector" else {"parameters-round-trip"})


@pytest.mark.parametrize("kind", KINDS)
def test_each_broken_plugin_is_caught_in_one_line_by_the_checks_that_should(kind, monkeypatch):
    monkeypatch.setattr(selector_checks, "TIME_S", 0.5)  # the one that is too slow sleeps for longer
    faults = []
    for factory in BY_KIND[kind]:
        for check in checks(kind):
            if check.name in factory.CAUGHT_BY:
                try:
                    check(factory())
                    faults.append(f"{check} does not catch {factory.__name__}")
                except ConformanceError as failure:
                    line = str(failure)
                    form = line.startswith(f"{check}: {factory.__name__}") and line.endswith(f"; {check.remedy}")
                    if not form or "\n" in line or len(line) >= 500:
                        faults.append(f"{check} says of {factory.__name__}: {line}")
    assert faults == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_no_other_check_fails_a_broken_plugin_and_none_what_it_is_made_from(kind, monkeypatch):
    wrong = {}
    for factory in [*BY_KIND[kind], *SOUND[kind]]:
        monkeypatch.setattr(selector_checks, "TIME_S", 0.5 if factory.__name__ == "Sleepy" else 30.0)
        failed = {row["check"] for row in findings(kind, factory()) if row["outcome"] == "failed"}
        if differ := failed ^ getattr(factory, "CAUGHT_BY", set()):
            wrong[factory.__name__] = differ
    assert wrong == {}
