"""One process writes into a store or deletes from it, never both at once; a killed process leaves no lock."""

import contextlib
import os
import subprocess
import sys

from support.refusals import refusal_of

from harness.store import in_use

HOLD = "import sys; from pathlib import Path; from harness.store.in_use import use; use(Path(sys.argv[1]))"
TELL = "; print('held', flush=True); sys.stdin.read()"


def descriptors(folder):
    """How many files in the folder this process has open."""
    opened = 0
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            opened += os.readlink(f"/proc/self/fd/{name}").startswith(str(folder))
    return opened


def test_another_process_that_uses_the_store_keeps_it_until_it_is_killed(tmp_path):
    code = [sys.executable, "-c", HOLD + TELL, tmp_path]
    with subprocess.Popen(code, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        line = refusal_of(in_use.alone(tmp_path, "store prune").__enter__)
        assert line.startswith(f"store prune: another process uses {tmp_path}: ")
        process.kill()
    with in_use.alone(tmp_path, "store prune"):
        assert "another process deletes from" in refusal_of(in_use.use, tmp_path)
    in_use.use(tmp_path)


def test_what_a_process_shares_itself_does_not_stop_it_from_deleting(tmp_path):
    in_use.use(tmp_path)
    with in_use.alone(tmp_path, "store prune"):
        pass


def test_a_store_is_released_when_the_function_ends_that_used_it(tmp_path):
    @in_use.until_done
    def run(root):
        in_use.use(tmp_path / "before")
        in_use.use(root)
        return descriptors(tmp_path)

    in_use.use(tmp_path / "before")
    before = descriptors(tmp_path)
    assert (run(tmp_path), descriptors(tmp_path)) == (before + 1, before)


def test_a_process_shares_a_store_once_and_only_the_last_few_stores(tmp_path):
    for number in range(2 * in_use.MOST):
        in_use.use(tmp_path / str(number))
    before = descriptors(tmp_path)
    for number in range(in_use.MOST, 3 * in_use.MOST):
        in_use.use(tmp_path / str(number))
        in_use.use(tmp_path / str(number))
    assert descriptors(tmp_path) == before


def test_a_store_that_was_deleted_and_made_again_is_shared_again(tmp_path):
    in_use.use(tmp_path)
    (tmp_path / in_use.NAME).unlink()
    in_use.use(tmp_path)
    code = (
        f"from harness.store import in_use; from pathlib import Path\nwith in_use.alone(Path({str(tmp_path)!r}), ''): 1"
    )
    assert b"another process uses" in subprocess.run([sys.executable, "-c", code], capture_output=True).stderr


def test_a_store_without_a_lock_is_used_but_nothing_is_deleted_from_it(tmp_path):
    (tmp_path / in_use.NAME).symlink_to(tmp_path / "elsewhere")
    in_use.use(tmp_path)
    assert "without it nothing is deleted" in refusal_of(in_use.alone(tmp_path, "store prune").__enter__)
    assert not (tmp_path / "elsewhere").exists()
