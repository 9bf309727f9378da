"""A run that is interrupted, or whose disk is full, is one clear line and keeps what was finished."""

import os
import re
import signal
import subprocess

import pytest
from support.paths import TOY
from support.processes import harness_command, wait_for


@pytest.mark.slow
def test_ctrl_c_keeps_what_is_finished_and_says_so_after_plain_lines_of_progress(tmp_path):
    options = ("--task", "colours", "--engine", "toy:delay_s=2,group=1", "--plugin", TOY, "--selector", "shuffle")
    progress = re.compile(r"^sample: \d+/96 responses, [\d.]+/\w+, about \d:\d\d:\d\d left$", re.M)
    printed, store = tmp_path / "stderr", tmp_path / "runs"
    with printed.open("w") as file:
        process = subprocess.Popen(harness_command("run", *options, "--store", store), stdout=file, stderr=file)
    wait_for(lambda: progress.search(printed.read_text()), 60, "a line of progress")
    wait_for(lambda: list(store.rglob("*.parquet")), 60, "a shard")
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    err = printed.read_text()
    assert "interrupted: what is finished is kept" in err
    assert "Traceback" not in err
    assert "\x1b" not in err


@pytest.mark.slow
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
