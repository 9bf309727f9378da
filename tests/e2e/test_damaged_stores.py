"""Damage to any file of a store changes no table without a line; a store that can only be read is shown."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from campaigns import bit_flips
from support.paths import TOY
from support.processes import run_to_end
from support.stores import contents


@pytest.mark.slow
@pytest.mark.parametrize(("damage", "cases"), [(bit_flips.flip, 40), (bit_flips.cut, 25), (bit_flips.swap, 40)])
def test_no_damage_to_any_kind_of_file_changes_a_table_without_a_line(tmp_path, damage, cases):
    counts = bit_flips.outcomes(tmp_path, cases, seed=7, damage=damage)
    assert {outcome for _, outcome in counts} <= {"same", "one line"}, counts
    assert len({kind for kind, outcome in counts if outcome == "one line"}) >= 8


ONE_AFTER_ANOTHER = """
import json, sys
from harness.cli import main
for command in json.loads(sys.argv[1]):
    sys.argv = ["harness", *command]
    try:
        code = main() or 0
    except SystemExit as stop:
        code = stop.code or 0
    print(f"exit {command[0]} {code}", file=sys.stderr)
"""


def read_only(root: Path, *commands) -> subprocess.CompletedProcess:
    """Run commands where the store lies on a mount that can only be read, or else as a user who may not write."""
    texts = json.dumps([list(map(str, command)) for command in commands])
    line = [sys.executable, "-c", ONE_AFTER_ANOTHER, texts]
    if os.geteuid() == 0:
        script = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
        mounted = ["unshare", "--mount", "sh", "-c", script, str(root)]
        if subprocess.run([*mounted, "true"], capture_output=True).returncode:
            pytest.skip("needs a mount of its own, or a user other than root")
        return run_to_end([*mounted, *line])
    folders = [root, *(path for path in root.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    try:
        return run_to_end(line)
    finally:
        for folder in folders:
            folder.chmod(0o755)


@pytest.mark.slow
def test_a_complete_store_that_can_only_be_read_is_shown(harness, tmp_path):
    root = tmp_path / "runs"
    options = ("--task", "keyed", "--engine", "toy", "--plugin", TOY, "--store", root, "--json", "--audit")
    run = ("run", *options, "--selector", "spread", "--selector", "head")
    rows = harness(*run).out
    before = contents(root)
    shown = read_only(
        root,
        run,
        ("doctor", "--store", root, "--json"),
        ("leaderboard", root / "cells", "--out", tmp_path / "out", "--quiet"),
        ("report", "--store", root, "--plugin", TOY, "--out", tmp_path / "page.html"),
        ("plot", "passk", root / "cells", "--out", tmp_path / "plots"),
        (*run, "--seed", "1"),
    )
    codes = [line for line in shown.stderr.splitlines() if line.startswith("exit ")]
    assert codes == ["exit run 0", "exit doctor 0", "exit leaderboard 0", "exit report 0", "exit plot 0", "exit run 2"]
    assert shown.stdout.startswith(rows)
    assert "Traceback" not in shown.stderr
    assert "cannot write" in shown.stderr
    assert contents(root) == before
