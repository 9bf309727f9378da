"""A run that is interrupted, killed, or whose disk is full: one line, what was finished is kept, nothing runs on."""

import contextlib
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from support.paths import SUPPORT, TOY
from support.processes import alive, descendants, harness_command, processes_with, wait_for

pytestmark = pytest.mark.slow


def test_ctrl_c_keeps_what_is_finished_and_says_so_after_plain_lines_of_progress(tmp_path):
    options = ("--task", "colours", "--engine", "toy:delay_s=2,group=1", "--plugin", TOY, "--selector", "shuffle")
    progress = re.compile(r"^sample: \d+/96 responses, [\d.]+/\w+, about \d:\d\d:\d\d left$", re.M)
    printed, store = tmp_path / "stderr", tmp_path / "runs"
    with printed.open("w") as file:
        process = subprocess.Popen(harness_command("run", *options, "--store", store), stdout=file, stderr=file)
    wait_for(lambda: progress.search(printed.read_text()) and list(store.rglob("*.parquet")), 60, "progress, a shard")
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    err = printed.read_text()
    assert "interrupted: what is finished is kept" in err
    assert "Traceback" not in err
    assert "\x1b" not in err


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="needs root to mount a small tmpfs")
def test_a_full_disk_is_one_clear_line_and_what_was_finished_is_kept(toy, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=80k", "tmpfs", str(small)], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"cannot mount a tmpfs here: {mounted.stderr.decode().strip()}")
    options = ("--selector", "shuffle", "--data", "30")
    try:
        refused = toy(*options, store=small)
        assert refused.code == 2
        assert "does not fit" in refused.err
        assert not list(small.iterdir())
        options = (*options, "--embedder", "tfidf")  # of unknown width: nothing is refused before
        outcome = toy(*options, store=small)
        assert outcome.code == 2
        assert "no space left" in outcome.err
        assert "Traceback" not in outcome.err
        assert list(small.rglob("*.parquet"))
        subprocess.run(["mount", "-o", "remount,size=30m", str(small)], check=True)
        outcome = toy(*options, store=small)
        assert outcome.code == 0
        assert "pool: reused for" in outcome.err
    finally:
        subprocess.run(["umount", str(small)], check=True)


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc, to see what is left")
@pytest.mark.parametrize(
    ("options", "signs", "least"),
    [
        # tracker, fork server, two workers, their checkers and sandboxes
        ("--task lingering --selector shuffle --unsafe-exec --executor local:workers=2", "spinning sandbox", 8),
        # tracker, fork server, the child that ranks
        ("--task colours --selector spinning --rank-timeout 600 --executor local:workers=1", "ranking", 3),
    ],
)
def test_a_killed_run_leaves_no_worker_sandbox_checker_or_ranking_behind(tmp_path, options, signs, least):
    """Its processes inherit a mark in their environment, but for those of a sandbox, which inherit nothing."""
    plugins = ["--plugin", TOY, "--plugin", SUPPORT / "never_ending.py", "--store", tmp_path / "runs"]
    environment = {**os.environ, "LINGERING": str(tmp_path), "MARK": tmp_path.name}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    command = harness_command("run", "--engine", "toy", *plugins, *options.split())
    process, started = subprocess.Popen(command, env=environment, start_new_session=True, **quiet), set()

    def family():
        return {*started, *processes_with(f"MARK={tmp_path.name}")}

    try:
        wait_for(
            lambda: all(list(tmp_path.glob(f"{sign}-*")) for sign in signs.split()) or process.poll() is not None,
            what="the work has begun",
        )
        assert process.poll() is None, "it ended too early"
        started.update(descendants(process.pid), family() - {process.pid})
        process.kill()
        process.wait()
        assert len(started) >= least
        wait_for(lambda: not any(map(alive, family())), 60, "all have ended")
    finally:
        for pid in {process.pid, *family()}:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()
