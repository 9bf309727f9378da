"""The lines that a program's process writes: it can claim nothing that it should not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_tasks.sandbox.transcript import Transcript, WorkerLost


def transcript(*parts):
    made = Transcript(2, None)
    for part in parts:
        made.read(part)
    return made


WRITTEN = [
    (b"+\n1 i1\n1 i2\n=ok \n", "ok"),
    (b"+\n1 i1\n=ok \n", "killed"),
    (b"+\n1 i1\n1 i2\n1 i3\n=ok \n", "killed"),
    (b"+\n=error \n", "killed"),
    (b"+\n=stalled \n", "killed"),
    (b"+\n=stopped a test raised\n", "killed"),
    (b"+\n1 i1\n=stopped a test raised\n", "killed"),
    (b"+\n1 EValueError\n=stopped a test raised\n", "stopped"),
    (b"+\n=memory \n1 i1\n1 i2\n=ok \n", "memory"),
    (b"+\n1 \xff\n", "killed"),
    (b"+\n-1 i1\n", "killed"),
    (b"+\n" + b"9" * 5000 + b" i1\n", "killed"),
    (b"+\n", "killed"),
]


def test_a_program_can_claim_nothing_that_it_should_not():
    faults = []
    for written, status in WRITTEN:
        for cut in range(len(written) if len(written) < 100 else 1):
            run = transcript(written[:cut], written[cut:]).run("exit", 0)
            faults += [(written, cut, run)] * (run.status != status)
    assert faults == []


def test_a_run_without_a_final_line_says_how_its_process_ended():
    endings = {
        ("exit", 3): ("killed", "exited with 3"),
        ("signal", 27): ("timeout", "SIGPROF"),
        ("signal", 24): ("timeout", "SIGXCPU"),
        ("signal", 14): ("stalled", "SIGALRM"),
        ("signal", 9): ("killed", "SIGKILL"),
        ("signal", 200): ("killed", "200"),
        ("stalled", 0): ("stalled", ""),
        ("output", 0): ("output", ""),
        ("timeout", 0): ("timeout", "its timers disarmed"),
        ("closed", 0): ("killed", "closed its output"),
        ("threads", 0): ("killed", "too many threads"),
    }
    runs = [transcript(b"+\n1500000000 i1\n").run(*ending) for ending in endings]
    assert [(run.status, run.detail) for run in runs] == list(endings.values())
    assert all((run.results, run.cpu_s) == (["i1"], [1.5]) for run in runs)


def test_a_process_that_was_never_confined_is_our_fault():
    for written, reason in (
        (b"", "exit 1"),
        (b"1 i1\n1 i2\n=ok \n", "ok "),
        (b"+", "exit 1"),
        (b"-no room\n", "no room"),
    ):
        with pytest.raises(WorkerLost, match=f"could not be set up: {reason}"):
            transcript(written).run("exit", 1)


@given(st.lists(st.binary(max_size=30) | st.sampled_from([b"+\n", b"1 i1\n", b"=ok \n", b"\n"]), max_size=8))
def test_any_bytes_make_a_run_or_none(parts):
    made = transcript(*parts)
    try:
        status = made.run("signal", 9).status
    except WorkerLost:
        assert not b"".join(parts).startswith(b"+\n")
    else:
        assert status in {"ok", "syntax", "raised", "missing", "memory", "output", "stopped", "killed"}
