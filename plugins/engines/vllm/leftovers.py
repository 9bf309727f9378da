"""What runs of ours that died left behind, found by what they wrote down and ended by number, never by name.

The warden ends all when its owner dies; only where it was killed too is anything left. Each child has a folder with
the numbers and start times of its owner and of itself, the head of a session of its own.
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

LONGEST = 60  # bytes of the folder's path: those of a socket have 107 at most
KEPT_S = 7 * 24 * 3600.0  # the log of a child that died
RECORD = "processes.json"


def home() -> Path:
    """The folder of all runs of this user."""
    place = tempfile.gettempdir()
    folder = Path(place if len(place) <= LONGEST else "/tmp") / f"harness-vllm-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        return Path(tempfile.mkdtemp(prefix="harness-vllm-", dir=folder.parent))
    return folder


def write(folder: Path, **processes: int) -> None:
    """Write down the numbers of processes, and when they began."""
    known = {name: [pid, began(pid)] for name, pid in processes.items()}
    part = folder / f"{RECORD}.part"
    part.write_text(json.dumps(known), encoding="utf-8")
    part.replace(folder / RECORD)


def sweep(folder: Path) -> list[int]:
    """End what is left of runs whose owner is gone, and remove their folders and old logs; the processes ended."""
    for log in folder.glob("*.log"):
        with contextlib.suppress(OSError):
            if time.time() - log.stat().st_mtime > KEPT_S:
                log.unlink()
    ended = []
    for record in folder.glob(f"*/{RECORD}"):
        try:
            known = json.loads(record.read_text(encoding="utf-8"))
            owner, began_at = known["owner"]
            if began(owner) == began_at:
                continue
            child = known.get("child")
        except (OSError, ValueError, KeyError, TypeError):
            continue
        ended += end_session(*child) if child else []
        shutil.rmtree(record.parent, ignore_errors=True)
    return ended


def end_session(leader: int, began_at: int | None) -> list[int]:
    """Kill the processes of a session that its leader, who began then, has started; those killed."""
    now = began(leader)
    if began_at is None or (now is not None and now != began_at):  # the number is another's by now
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
    """When a process began, in ticks since the machine did; None where it is gone, a zombie, or nobody can say."""
    return _session_and_start(pid)[1]


def _session_and_start(pid: int) -> tuple[int | None, int | None]:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError):
        return None, None
    return (None, None) if fields[0] == "Z" else (int(fields[3]), int(fields[19]))
