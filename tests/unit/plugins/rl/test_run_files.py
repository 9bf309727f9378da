"""What a run's folder holds: the run, its problems, its metrics; and who uses it, one at a time (folder_lock.py)."""

import fcntl
import os
import platform
from dataclasses import replace

from support.processes import run_to_end
from support.refusals import refusal_of
from support.training_runs import game24_run

from harness_plugins.rl import folder_lock
from harness_plugins.rl.folder_lock import locked
from harness_plugins.rl.run_files import read_metrics, read_problems, read_run
from harness_plugins.rl.training import Settings
from harness_tasks.game24 import Game24


def test_a_run_and_its_problems_are_read_back_as_they_were_written(tmp_path):
    fields = {"model": "tiny24", "bonus": "none", "trainer": "trl", "settings": Settings(steps=2), "overrides": ["a=1"]}
    run = game24_run(tmp_path, 5, 3, **fields, plugin_files=(tmp_path / "plugin.py",))
    again = read_run(tmp_path)
    assert replace(again, plugin_files=tuple(again.plugin_files)) == run
    task = Game24()
    chats = [(problem, task.messages(problem)) for problem in task.problems("train")[:5]]
    assert read_problems(run.problems["train"]) == chats


def test_a_folder_without_a_run_is_one_line(tmp_path):
    assert refusal_of(read_run, tmp_path).startswith(f"rl: {tmp_path} holds no run.json: it is not the folder of")
    for text in ("{", "[]", "{}"):
        (tmp_path / "run.json").write_text(text)
        assert refusal_of(read_run, tmp_path).startswith(f"rl: {tmp_path / 'run.json'}: ")


def test_a_half_line_of_a_killed_run_is_no_step(tmp_path):
    path = tmp_path / "metrics.jsonl"
    assert read_metrics(path) == []
    path.write_text('{"step": 1, "reward": 0.5}\n{"step": 2, "rew')
    assert read_metrics(path) == [{"step": 1, "reward": 0.5}]


# The lock of the folder


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
