"""`--rank-timeout`: the process that ranks gives the same bytes, is kept, and is replaced if it is late or dies."""

import dataclasses
import multiprocessing

import pytest
from support.paths import TOY
from support.processes import descendants
from support.refusals import refusal_of
from support.works import keep_pool, keep_verdicts, work_in

from harness import Problem
from harness.stages import rank_process
from harness.stages.rank import rank_problems
from harness.stages.work import forget_components

HANGS = """
import os, time
from harness import hookimpl

class Hangs:
    needs = ()
    def rank(self, pool, rng):
        if pool.texts[0] == "die":
            os._exit(3)
        while pool.texts[0] == "hang":
            time.sleep(0.01)
        yield from range(len(pool))

class Unbuilt(Hangs):
    def __init__(self):
        os._exit(3)

@hookimpl
def register_selectors(register):
    register("hangs", Hangs)
    register("unbuilt", Unbuilt)
"""


TEXTS = {name: [name, "b", "c"] for name in ("a", "hang", "die")}
SOUND, HANGING, DYING = PROBLEMS = [Problem(name, f"Say {name}.", reference="red") for name in TEXTS]


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Three graded problems; processes start fast, since the server that they are forked from has all modules."""
    multiprocessing.set_forkserver_preload(["harness.stages.rank", "harness.scoring.metrics", "support.toy"])
    folder = tmp_path_factory.mktemp("ranked")
    plugin = folder / "hangs.py"
    plugin.write_text(HANGS)
    work = work_in(folder, trials=2, plugin_files=(TOY, plugin), embeddings=None, rank_timeout=100.0, selector="hangs")
    assert keep_pool(work, TEXTS) == PROBLEMS
    for problem in PROBLEMS:
        keep_verdicts(work, problem, "wcw")
    yield work
    forget_components()


def child(work):
    return rank_process._children[work.selector, work.plugin_files]


@pytest.mark.slow
def test_a_bounded_ranking_gives_the_bytes_of_an_unbounded_one_in_a_process_that_is_kept(work):
    contents, bounded = [], dataclasses.replace(work, selector="shuffle")
    for limit in (None, 100.0):
        for problem in PROBLEMS:
            rank_problems(dataclasses.replace(bounded, rank_timeout=limit), [problem])
        contents.append([work.rankings.path(problem).read_bytes() for problem in PROBLEMS])
    assert contents[0] == contents[1]
    kept = child(bounded)._process.pid
    rank_problems(bounded, [SOUND])
    assert child(bounded)._process.pid == kept
    forget_components()
    assert (kept in descendants(), rank_process._children) == (False, {})


@pytest.mark.slow
def test_a_late_ranking_is_ended_and_the_next_has_a_new_process(work):
    rank_problems(work, [SOUND])
    late = dataclasses.replace(work, rank_timeout=0.2)
    before, line = child(work), refusal_of(rank_problems, late, [HANGING, *[SOUND] * 3])
    assert line == (
        "selector 'hangs', problem 'hang', 'a', 'a', ...: ranking took longer than 0.8 s and was ended (--rank-timeout)"
    )
    assert not before.alive
    rank_problems(work, [SOUND])
    assert child(work).alive


@pytest.mark.slow
def test_a_process_that_dies_is_named_and_replaced(work):
    line = refusal_of(rank_problems, work, [DYING])
    assert line == "selector 'hangs', problem 'die': the process that ranked it died (out of memory?)"
    rank_problems(work, [SOUND])
    other = dataclasses.replace(work, selector="unbuilt")
    line = refusal_of(rank_problems, other, [SOUND])
    assert line == "selector 'unbuilt' ended the process that built it"
    assert len(rank_process._children) == 0  # one process at a time, and this one has ended


def test_what_a_selector_raises_there_is_shown_here(work):
    raising = dataclasses.replace(work, selector="raising")
    line = refusal_of(rank_problems, raising, [SOUND])
    assert line.startswith("selector 'raising', problem 'a', trial 0: raised ZeroDivisionError: oh (toy.py:")
