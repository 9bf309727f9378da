"""What becomes of one program: how it ends, what it finds in its process, what comes back of its results."""

import itertools

import pytest
from corpora.sandboxed_programs import BUSY, ENDINGS, NORMAL_FORMS, NOTHING_OF_OURS, NUMPY, OWN_MODULE, RAISES
from support.sandboxes import NINE_SIXTEEN, SQUARES, results

from harness_tasks.sandbox import Suite, digest, encode, tiers


def test_a_run_says_how_it_ended(sandbox):
    suite = Suite("square", [[3], [4]], [0.2, 0.2])
    runs = sandbox.run_all(suite, [program for program, *_ in ENDINGS])
    assert [(run.status, run.detail) for run in runs] == [(status, detail) for _, status, detail in ENDINGS]
    assert runs[0].results == NINE_SIXTEEN
    assert {len(run.results) for run in runs[1:] if run.status != "output"} == {0}
    assert all(len(run.cpu_s) == len(run.results) for run in runs)


def test_a_test_that_raises_ends_the_run_unless_told_otherwise(sandbox):
    for (_, raised), run in zip(RAISES, sandbox.run_all(SQUARES, [program for program, _ in RAISES]), strict=True):
        assert (run.status, run.detail, run.results) == ("stopped", "a test raised", [raised])
    run = sandbox.run_all(SQUARES, ["def square(x): return 1 // (x - 3)"], stop_at_raise=False)[0]
    assert (run.status, run.results) == ("ok", ["EZeroDivisionError", "i1"])


def test_limits_are_on_cpu_time_not_on_the_wall_clock(sandbox):
    program = "import time\ndef solve(x):\n    time.sleep(0.5)\n    return x"
    assert results(sandbox, program, 1, cpu_limits_s=[0.1]).results == ["i1"]


@pytest.mark.slow
def test_each_test_has_its_own_limit_and_the_run_has_another(sandbox):
    run = results(sandbox, BUSY, *[0.2] * 3, cpu_limits_s=[0.4] * 3)
    assert run.status == "ok"
    assert all(0.15 < cpu_s < 0.4 for cpu_s in run.cpu_s)
    run = results(sandbox, BUSY, 0.01, 1.5, cpu_limits_s=[5.0, 0.2])
    assert (run.status, run.results) == ("timeout", [encode(0.01)])
    run = results(sandbox, BUSY, *[0.3] * 8, total_cpu_s=0.5)  # the kernel counts whole seconds
    assert (run.status, run.detail) == ("timeout", "SIGXCPU")
    assert 1 <= len(run.results) <= 3


def test_a_result_can_come_back_as_a_digest(sandbox):
    program = "import itertools\ndef solve(x): return list(itertools.permutations('abcdef')) if x == 'long' else x"
    values = ["long", None, True, 2, 2.0, "x", [], (1.0, [2]), {1}, "long"]
    run = results(sandbox, program, *values, digest=[True] * 9 + [False], output_bytes=1000)
    expected = [digest(value) for value in [list(itertools.permutations("abcdef")), *values[1:9]]]
    assert (run.status, run.results) == ("output", expected)


def test_a_program_cannot_grow_files_dump_core_or_open_many_files(sandbox):
    program = "import resource as r\ndef solve(x): return [r.getrlimit(k) for k in (r.RLIMIT_FSIZE, r.RLIMIT_CORE, "
    program += "r.RLIMIT_NOFILE, r.RLIMIT_CPU)]"
    assert results(sandbox, program, 1, total_cpu_s=5.0).results == [encode([(0, 0), (0, 0), (32, 32), (6, 7)])]


def test_a_result_is_gone_before_the_next_test(sandbox):
    program = "class Large:\n    def __init__(self): self.bytes = bytes(150 << 20)\ndef solve(x): return Large()"
    assert results(sandbox, program, 1, 2, 3, memory_bytes=200 << 20).results == ["X"] * 3


def test_inputs_are_fresh_for_every_test_and_program(sandbox):
    shared = [1]
    suite = Suite("solve", [[shared], [shared]], [1.0, 1.0])
    runs = sandbox.run_all(suite, ["def solve(x):\n    x.append(2)\n    return x"] * 3)
    assert [run.results for run in runs] == [["[i1,i2]", "[i1,i2]"]] * 3


def test_programs_live_in_a_module_of_their_own(sandbox):
    assert results(sandbox, OWN_MODULE, 5).results == ["(i5,N)"]


def test_a_program_has_nothing_of_ours(each_tier):
    (text,) = results(each_tier, NOTHING_OF_OURS, 7).results
    assert text == encode(([0, 1, 2, 3], 7, [], set(tiers.ENVIRONMENT), "/"))


def test_the_same_program_gives_the_same_results(sandbox):
    program = "import random\ndef solve(x): return [random.random(), hash('x'), list({'a', 'b', 'c', 'd'})]"
    runs = sandbox.run_all(Suite("solve", [[1]], [1.0]), [program] * 4)
    assert len({run.results[0] for run in runs}) == 1


def test_memory_is_counted_from_the_bare_interpreter(sandbox):
    program = "def solve(x): return len(bytearray(x << 20))"
    for extra in ("", "import numpy\n"):
        statuses = [results(sandbox, extra + program, mb, memory_bytes=256 << 20).status for mb in (200, 300)]
        assert statuses == ["ok", "memory"], extra


def test_programs_that_import_numpy_find_it_with_a_fixed_seed(sandbox):
    pytest.importorskip("numpy")
    first, second = results(sandbox, NUMPY, 3), results(sandbox, NUMPY, 3)
    assert first.results[0].startswith("(nfloat64:f1.0;,nint64:i3;,")
    assert second.results == first.results


def test_a_normal_form_forgets_spelling_and_keeps_what_a_program_can_see(sandbox):
    assert sandbox.normalised(list(NORMAL_FORMS)) == list(NORMAL_FORMS.values())
    assert sandbox.normalised([]) == []
