"""The lines that a program's process writes: it can claim nothing that it should not."""

from __future__ import annotations

import pytest
from corpora.sandboxed_programs import WITHOUT_FINAL, WRITTEN

from harness_tasks.sandbox.transcript import Transcript, WorkerLost


def transcript(*parts):
    made = Transcript(2, None)
    for part in parts:
        made.read(part)
    return made


def test_a_program_can_claim_nothing_that_it_should_not():
    faults = []
    for written, status in WRITTEN:
        for cut in range(len(written) if len(written) < 100 else 1):
            run = transcript(written[:cut], written[cut:]).run("exit", 0)
            faults += [(written, cut, run)] * (run.status != status)
    assert faults == []


def test_a_run_without_a_final_line_says_how_its_process_ended():
    runs = [transcript(b"+\n1500000000 i1\n").run(*ending) for ending in WITHOUT_FINAL]
    assert [(run.status, run.detail) for run in runs] == list(WITHOUT_FINAL.values())
    assert all((run.results, run.cpu_s) == (["i1"], [1.5]) for run in runs)


def test_a_process_that_was_never_confined_is_our_fault():
    for written, reason in ((b"", "exit 1"), (b"1 i1\n=ok \n", "ok "), (b"+", "exit 1"), (b"-no room\n", "no room")):
        with pytest.raises(WorkerLost, match=f"could not be set up: {reason}"):
            transcript(written).run("exit", 1)
