"""Find processes of vLLM that outlived a killed run, by recorded process ids, and end them; never by name.

The warden ends all processes when its owner dies; some are left only if it was killed too. Each child has a folder with
the process ids and start times of its owner and of itself; it leads its own session.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import tempfile
import time
from pathlib import Path

from harness.errors import HarnessError
from harness.system.json_text import read

LONGEST = 60  # bytes of the temporary folder's path: a socket's has at most 107
KEPT_S = 7 * 24 * 3600.0  # age at which the log of a dead child is deleted
RECORD = "processes.json"


def home() -> Path:
    """Return the folder in which all runs of this user note their vLLM processes; create it if needed."""
    place = tempfile.gettempdir()
    folder = Path(place if len(place) <= LONGEST else "/tmp") / f"harness-vllm-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        return Path(tempfile.mkdtemp(prefix="harness-vllm-", dir=folder.parent))
    return folder


def write(folder: Path, **processes: int) -> None:
    """Record process ids and their start times in the folder."""
    record = {name: [pid, began(pid)] for name, pid in processes.items()}
    part = folder / f"{RECORD}.part"
    part.write_text(json.dumps(record), encoding="utf-8")
    part.replace(folder / RECORD)


def sweep(folder: Path) -> list[int]:
    """End processes of runs whose owner is gone, delete their folders and old logs; return the ended process ids."""
    for log in folder.glob("*.log"):
        with contextlib.suppress(OSError):
            if time.time() - log.stat().st_mtime > KEPT_S:
                log.unlink()
    ended = []
    for path in folder.glob(f"*/{RECORD}"):
        try:
            record = read(path, "vllm")
            owner, began_at = record["owner"]
            if began(owner) == began_at:
                continue
            child = record.get("child")
        except (HarnessError, KeyError, TypeError, ValueError):
            continue
        ended += end_session(*child) if child else []
        shutil.rmtree(path.parent, ignore_errors=True)
    return ended


def end_session(leader: int, began_at: int | None) -> list[int]:
    """Kill the processes of the session of `leader`; return the killed process ids.

    `began_at`: when the leader started, in clock ticks. Nothing is killed if that is not known, or if another process
    has the leader's id by now.
    """
    now = began(leader)
    if began_at is None or (now is not None and now != began_at):  # another process has this id now
        return []
    killed = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        pid = int(stat.parent.name)
        session, start = _session_and_start(pid)
        if session == leader and start is not None and start >= began_at:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
    return killed


def began(pid: int) -> int | None:
    """Return a process's start time in clock ticks since boot; None if it has ended, is a zombie, or cannot be read."""
    return _session_and_start(pid)[1]


def _session_and_start(pid: int) -> tuple[int | None, int | None]:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError):
        return None, None
    return (None, None) if fields[0] == "Z" else (int(fields[3]), int(fields[19]))
