"""Hostile programs against the sandbox, in every tier that this machine has, also as an unprivileged user."""

import json
import os
import sys
from dataclasses import replace

import pytest
from support import hostile_code as hostile
from support.paths import SUPPORT
from support.processes import run_to_end

from harness_tasks.programs import behaviour
from harness_tasks.programs.program_text import Program
from harness_tasks.sandbox import Sandbox, find_tier
from harness_tasks.sandbox import sandbox as module

HERE, NOBODY = os.getuid(), 65534
ONLY_ROOT = pytest.mark.skipif(HERE != 0, reason="only root can become another user")
SYSTEM_PYTHON = "/usr/bin/python3"


@pytest.mark.parametrize(
    ("tier", "uid", "which"),
    [
        (None, HERE, "some"),  # every third, in the tier that is used here
        *(pytest.param(tier, HERE, "quick", marks=pytest.mark.slow) for tier in ("bwrap", "landlock", "none")),
        *(pytest.param(tier, NOBODY, "quick", marks=[pytest.mark.slow, ONLY_ROOT]) for tier in ("bwrap", "landlock")),
        pytest.param(None, HERE, "long", marks=pytest.mark.slow),
    ],
)
def test_no_attack_succeeds_also_when_the_harness_runs_unprivileged(tier, uid, which):
    environment = dict(os.environ)
    if uid != HERE and os.path.exists(SYSTEM_PYTHON):
        environment["HARNESS_SANDBOX_PYTHON"] = SYSTEM_PYTHON  # ours may lie where that user cannot read
    command = [sys.executable, "-m", "support.hostile_code", tier or find_tier(unsafe_exec=True)[0], uid, which]
    done = run_to_end(command, env=environment, cwd=SUPPORT.parent, timeout=900)
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    if "refused" in outcome:
        pytest.skip(f"as uid {uid}: {outcome['refused']}")
    assert outcome["attacks"] >= 5
    assert outcome["complaints"] == []


def test_of_a_program_that_has_run_nothing_is_left_in_memory_for_the_next():
    attack = next(attack.program for attack in hostile.QUICK if attack.name.endswith("in memory"))
    there = f"{attack}kept = b'return x * {hostile.FACTOR} + {hostile.SUMMAND}'"
    with Sandbox(1, unsafe_exec=True) as sandbox:
        if sandbox.tier == "landlock":
            pytest.skip("programs cannot look at their own memory map in this tier")
        runs = sandbox.run_all(hostile.SUITE, [hostile.HONEST, attack, there])
    assert [run.results for run in runs] == [hostile.EXPECTED, ['s"nothing"'] * 3, hostile.EXPECTED]


def test_hostile_sources_neither_stop_nor_change_the_normal_forms_of_their_neighbours(monkeypatch):
    monkeypatch.setattr(module, "FORMS", replace(module.FORMS, cpu_limits_s=[0.5] * module.BATCH))
    honest = [f"def f( x ):\n    return x+{n}  # comment" for n in range(len(hostile.SOURCES))]
    programs = [text for pair in zip(honest, hostile.SOURCES, strict=True) for text in (pair[0], pair[1].program)]
    with Sandbox(1, unsafe_exec=True) as sandbox:
        forms = sandbox.normalised(programs)
    assert forms[::2] == [f"def f(x):\n    return x + {n}" for n in range(len(honest))]
    parsed = {attack.name for attack, form in zip(hostile.SOURCES, forms[1::2], strict=True) if form is not None}
    assert {"no function", "decorators", "spaces"} <= parsed
    assert not {"NUL", "lone surrogate", "parentheses", "brackets", "a sum of 2 MB", "no text"} & parsed


# Programs whose results are kept as digests (programs/behaviour.py)
ODD = {
    "prints gigabytes": "def solve(x):\n    for _ in range(10**6): print('a' * 10**4)\n    return x",
    "nests deeply": "def solve(x):\n    for _ in range(10**5): x = [x]\n    return x",
    "has a repr that raises": "class C:\n    def __repr__(self): raise SystemExit\ndef solve(x): return [C()]",
    "has a huge repr": "class C:\n    def __repr__(self): return 'a' * 10**9\ndef solve(x): return C()",
    "forks": "import os\ndef solve(x): return [os.fork() for _ in range(100)]",
    "reads its own memory": "def solve(x): return open('/proc/self/mem', 'rb').read(10)",
}


def test_hostile_programs_have_a_bounded_behaviour_the_same_one_again_and_change_nothing(monkeypatch):
    monkeypatch.setattr(behaviour, "TEST_S", 0.2)
    attacks = [hostile.Attack(name, program) for name, program in ODD.items()]
    honest = "def solve(x): return x + 1"
    with hostile.surroundings() as around, Sandbox(1, unsafe_exec=True) as sandbox:
        programs = [Program(text) for attack in attacks for text in (around.program(attack), honest)]
        first, again = (behaviour.behaviours(sandbox, "solve", hostile.INPUTS, programs) for _ in range(2))
        assert list(around.damage()) == []
    assert None not in first + again
    assert len({each.answer for each in first[1::2]}) == 1
    assert {each.answer and len(each.answer) for each in first} == {None, 32}
    assert all(each.cpu_s < hostile.MOST_CPU_S for each in first)
    assert [each.answer for each in first] == [each.answer for each in again]
