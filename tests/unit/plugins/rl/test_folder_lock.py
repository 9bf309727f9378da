"""A folder is used by a single process at a time."""

import fcntl
import os
import platform

from support.processes import run_to_end
from support.refusals import refusal_of

from harness_plugins.rl import folder_lock
from harness_plugins.rl.folder_lock import locked


def enter(folder) -> None:
    with locked(folder, "rl train"):
        pass


def test_a_folder_in_use_is_refused_with_the_process_that_has_it(tmp_path):
    folder = tmp_path / "new"
    with locked(folder, "rl train") as descriptor:
        line = refusal_of(enter, folder)
        assert os.fstat(descriptor).st_ino == (folder / "lock").stat().st_ino
    assert line.startswith(f"rl train: {folder} is in use by process {os.getpid()} on {platform.node()}: wait for it")
    enter(folder)


def test_the_children_of_a_dead_process_are_waited_for(tmp_path, monkeypatch):
    lock, waits = tmp_path / "lock", []
    dead = run_to_end(["sh", "-c", "echo $$"]).stdout.strip()
    lock.write_text(f"{dead} on {platform.node()}\n")

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            fcntl.flock(file, fcntl.LOCK_UN)

    monkeypatch.setattr(folder_lock.time, "sleep", sleep)
    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        enter(tmp_path)
        assert waits == [folder_lock.POLL_S] * 3
        lock.write_text(f"{dead} on elsewhere\n")  # which may run
        fcntl.flock(file, fcntl.LOCK_EX)
        assert f"in use by process {dead} on elsewhere" in refusal_of(enter, tmp_path)
        lock.write_text(f"{dead} on {platform.node()}\n")
        monkeypatch.setattr(folder_lock, "ENDING_S", 0.0)
        assert f"in use by process {dead}" in refusal_of(enter, tmp_path)
