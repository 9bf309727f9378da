"""Damage to any file of a store changes no table without a line; a store that can only be read is shown.

A run killed with SIGKILL at any moment and started again gives the tables of an unkilled one: the toy engine computes
a row in the same way whatever its batch is, so that all files are equal here, byte for byte.
"""

from __future__ import annotations

import functools
import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest
from support.json_lines import write_json_lines
from support.paths import TOY
from support.processes import harness_command, run_to_end
from support.stores import contents

from harness import HarnessError
from harness.columns.stored import StoredPool, pool_keys
from harness.jobs import plan, until_correct
from harness.jobs import run as pipeline
from harness.jobs.options import RunConfig
from harness.results import cells, stopping_times
from harness.system.progress import Progress

RESULTS = {"cells": cells.read, stopping_times.FOLDER: stopping_times.read}
FINE = ("same", "one line", "made again")
# Which columns are made from a file of a kind. A cell is made from all.
AFTER = {"responses": ("vectors", "verdicts", "audits", "chance", "orders", "choices")}
AFTER |= {"vectors": ("orders",), "verdicts": ("orders", "choices"), "memo": ("verdicts", "orders", "choices")}
DAMAGE = {  # to a file's content: one bit; an end that is too early; another file of the store in its place
    "flip": lambda rng, old, at, other: old[:at] + bytes([old[at] ^ 1 << rng.randrange(8)]) + old[at + 1 :],
    "cut": lambda rng, old, at, other: old[:at],
    "swap": lambda rng, old, at, other: other,
}


class Heard(Progress):
    """Notes whether something was made again."""

    again = False

    def say(self, line: str) -> None:
        self.again |= line.endswith("is damaged: it is made again")


def kind_of(path: Path) -> str:
    """The kind of a file, by its path in the store: of a column's rows the column's, of a memo's lines the memo's."""
    if len(path.parts) == 3 and path.name != "column.json":
        return path.parent.name.split(".")[0]
    return path.parts[0] if path.parts[0] in RESULTS else path.name.split(".")[0]


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGE)
def test_no_damage_to_any_kind_of_file_changes_a_table_without_a_line(tmp_path, damage, monkeypatch):
    """What is made from the damaged file is deleted before, so that the file is read."""
    monkeypatch.setattr(plan, "forget", lambda *_: None)  # what is installed is looked up once
    monkeypatch.setattr(cells, "version", functools.cache(cells.version))
    store, whole, rng = tmp_path / "runs", tmp_path / "whole", random.Random(7)
    answers = {"responses": ["aa", "bd", "ee"]}
    lines = [{"problem_id": f"p{i}", **answers, "correct": [i > 0, False, True]} for i in (0, 1)]
    pool = write_json_lines(tmp_path / "pool.jsonl", lines)
    plugins = {"plugin_files": (TOY,), "store": store}
    toy = {**plugins, "engine": "toy", "n": 8, "data": Path("3")}
    runs = [  # sampled and audited, measured, imported
        RunConfig(selectors=("spread", "head"), task="keyed", audit=True, **toy),
        RunConfig(selectors=("shuffle",), task="measured", **toy),
        RunConfig(selectors=("spread",), pool=pool, embedder="letters", **plugins),
    ]

    def made(progress):
        """All that is shown of the store, as one text; a HarnessError is raised, also that of a selector's row."""
        shown = [until_correct.run(RunConfig(task="colours", until_correct=True, **(toy | {"n": 40})), progress)]
        for config in runs:
            rows, failures = pipeline.run(config, progress)
            if failures:
                raise HarnessError(next(iter(failures.values())))
            shown += [row.to_json() for row in rows]
        for stored in map(StoredPool, pool_keys(store).values()):
            for name in sorted(stored.questions):
                shown += stored.rows("responses", stored.questions[name], {}).to_pylist()
        return json.dumps(shown, sort_keys=True)

    def outcome(path):
        try:
            if path.parts[0] in RESULTS:
                read = RESULTS[path.parts[0]]
                return "same" if read(store / path) == read(whole / path) else "SILENT"
            progress = Heard(quiet=True)
            same = made(progress) == tables
            if progress.again and (same or kind_of(path) == "vectors"):  # the toy's second pass gives other states
                return "made again"
            return "same" if same else "SILENT"
        except HarnessError as failure:
            return "one line" if "\n" not in str(failure) else "SEVERAL LINES"

    tables = made(Heard(quiet=True))
    shutil.copytree(store, whole)
    kinds: dict[str, list[Path]] = {}
    for path in sorted(whole.rglob("*")):
        if path.is_file() and path.stat().st_size:
            kinds.setdefault(kind_of(path.relative_to(whole)), []).append(path.relative_to(whole))
    every, counts = [path for paths in kinds.values() for path in paths], Counter()
    for _ in range(60):
        kind = rng.choice(sorted(kinds))
        path, other = rng.choice(kinds[kind]), rng.choice(every)
        for name in ("cells", *AFTER.get("memo" if path.parts[0] == "memo" else kind, ())):
            for each in kinds.get(name, ()) if name != kind else ():
                (store / each).unlink()
        old = (whole / path).read_bytes()
        at = rng.randrange(len(old))
        (store / path).write_bytes(DAMAGE[damage](rng, old, at, (whole / other).read_bytes()))
        counts[kind, outcome(path)] += 1
        shutil.rmtree(store)
        shutil.copytree(whole, store)
    assert {outcome for _, outcome in counts} <= set(FINE), counts
    assert len({kind for kind, outcome in counts if outcome != "same"}) >= 8


@pytest.mark.slow
def test_a_complete_store_that_can_only_be_read_is_shown(harness, tmp_path):
    root = tmp_path / "runs"
    options = ("--task", "keyed", "--engine", "toy", "--plugin", TOY, "--store", root, "--json", "--audit")
    run = ("run", *options, "--selector", "spread", "--selector", "head")
    rows, before = harness(*run).out, contents(root)
    commands = [
        run,
        ("doctor", "--store", root, "--json"),
        ("leaderboard", root / "cells", "--out", tmp_path / "out", "--quiet"),
        ("report", "--store", root, "--plugin", TOY, "--out", tmp_path / "page.html"),
        ("plot", "passk", root / "cells", "--out", tmp_path / "plots"),
        (*run, "--seed", "1"),
    ]
    mount = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0"'
    shell = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"]), "sh", "-c"]
    if run_to_end([*shell, mount, root]).returncode:
        pytest.skip("needs a mount of its own")
    lines = [f"{shlex.join(map(str, harness_command(*each)))}; echo exit {each[0]} $? >&2" for each in commands]
    shown = run_to_end([*shell, "\n".join([mount, *lines]), root])
    codes = [line for line in shown.stderr.splitlines() if line.startswith("exit ")]
    assert codes == ["exit run 0", "exit doctor 0", "exit leaderboard 0", "exit report 0", "exit plot 0", "exit run 2"]
    assert shown.stdout.startswith(rows)
    assert "Traceback" not in shown.stderr
    assert "cannot write" in shown.stderr
    assert contents(root) == before


KILLS = 4


@pytest.mark.slow
def test_a_run_killed_at_any_moment_and_started_again_gives_the_bytes_of_an_unkilled_one(tmp_path):
    def command(store: Path) -> list[str]:
        fixed = ("--task", "colours", "--data", 12, "--engine", "toy:delay_s=0.01,group=2", "--plugin", TOY, "--json")
        return harness_command("run", *fixed, "--store", store, "--selector", "spread", "--selector", "shuffle")

    def killed_after(store: Path, count: int, delay_s: float) -> bool:
        """Start a run and SIGKILL it `delay_s` after the store holds `count` files; whether it was killed."""
        process = subprocess.Popen(command(store), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None:
            if sum(len(names) for _, _, names in os.walk(store)) >= count:
                time.sleep(delay_s)
                process.send_signal(signal.SIGKILL)
                return process.wait() == -signal.SIGKILL
            time.sleep(0.0005)
        return False

    table = run_to_end(command(tmp_path / "whole"), check=True).stdout
    whole, killed = contents(tmp_path / "whole"), []
    for kill in range(KILLS):
        store = tmp_path / str(kill)
        killed.append(killed_after(store, round(kill * len(whole) / KILLS), delay_s=0.0007 * (kill % 3)))
        if kill == KILLS // 2:  # again
            killed_after(store, round(0.8 * len(whole)), 0)
        assert run_to_end(command(store), check=True).stdout == table
        kept = {name: content for name, content in contents(store).items() if not name.endswith(".tmp")}
        assert kept == whole, f"kill {kill}"  # beside what a killed writer had begun, which `store prune` removes
    assert sum(killed) >= KILLS - 2  # the last moments may be past the end
