"""The processes of vLLM: what starts them and ends them. A script stands in for vLLM."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from support.processes import wait_for, wait_until_ended

from harness_plugins.engines.vllm.child_process import ChildProcess, Died, Refusal, Refused

HANGS_S = 60.0
STAND_IN = """
import json, os, signal, socket, struct, subprocess, sys, time
grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print("pids", os.getpid(), grandchild.pid, flush=True)
{then}
"""
ANSWERS = """
import numpy as np
from harness_vllm.protocol import receive, send
link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
link.connect(sys.argv[-1])
send(link, {"pid": os.getpid()})
while (message := receive(link)) is not None:
    do = message[0]["do"]
    if do == "load":
        send(link, {"ready": True, "fault": "no states", "vllm": "vllm 0", "runner": "V2"})
    elif do in ("refused", "failed"):
        send(link, {do: message[0]["why"]})
    elif do == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    else:
        send(link, {"n": 1}, message[1])
        send(link, {"end": True})
"""


def stand_in(tmp_path: Path, then: str) -> Path:
    """An interpreter that runs something else than vLLM."""
    script = tmp_path / "script.py"
    script.write_text(STAND_IN.replace("{then}", then))
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} {script} "$@"\n')
    python.chmod(0o755)
    return python


def printed_pids(path: Path) -> list[int]:
    """The numbers of its processes that a stand-in printed."""

    def lines():
        return [line for line in path.read_text().splitlines() if line.startswith("pids")] if path.is_file() else []

    return [int(pid) for pid in wait_for(lines, HANGS_S, "the stand-in's start")[0].split()[1:]]


def kept_log(failure) -> Path:
    return Path(str(failure.value).rpartition("its log is ")[2])


def test_a_child_answers_and_is_ended_with_all_its_processes_and_files(tmp_path):
    child = ChildProcess(stand_in(tmp_path, ANSWERS), {}, {})
    pids = printed_pids(child.folder / "log.txt")
    assert (child.pid, child.fault, child.version, child.runner) == (pids[0], "no states", "vllm 0", "V2")
    arrays = {"x": np.arange(3)}
    [(head, answered)] = child.ask({"do": "echo"}, arrays)
    assert head == {"n": 1}
    assert np.array_equal(answered["x"], arrays["x"])
    with pytest.raises(Refused, match=r"^too long$"):
        list(child.ask({"do": "refused", "why": "too long"}, {}))
    assert not child.ended  # it can take other requests
    next(child.ask({"do": "echo"}, arrays))  # whoever stops early ends it
    assert child.ended
    wait_until_ended(pids, HANGS_S)
    assert not child.folder.exists()


def test_a_child_that_fails_is_ended_and_its_log_kept(tmp_path):
    for request, failure, line in (
        ({"do": "die"}, Died, "the process was ended by SIGKILL"),
        ({"do": "failed", "why": "RuntimeError: EngineDeadError"}, Died, "RuntimeError: EngineDeadError"),
        ({"do": "failed", "why": "KeyError: 'x'"}, Refusal, "KeyError: 'x'"),
    ):
        child = ChildProcess(stand_in(tmp_path, ANSWERS), {}, {})
        pids = printed_pids(child.folder / "log.txt")
        with pytest.raises(failure, match=line) as caught:
            list(child.ask(request, {}))
        assert child.ended
        assert kept_log(caught).read_text().startswith("pids")
        kept_log(caught).unlink()
        wait_until_ended(pids, HANGS_S)
