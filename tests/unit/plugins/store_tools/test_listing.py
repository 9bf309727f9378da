"""`harness store list`: every byte of a store counts once, by task, model and stage."""

import io
import os

import pytest
from rich.console import Console
from support.stores import contents

from harness.system import console as printing
from harness_plugins.store_tools import tables

ROWS = {
    "task": "mbppplus",
    "model": "Qwen/Qwen2.5-Math-7B-Instruct",
    "files": 1,
    "last_used": "2026-01-01T00:00:00+00:00",
}


@pytest.fixture
def store(toy, harness, tmp_path):
    """A store with a cell, a pool without one, a sequence, an RL run and files of others."""
    small = ("--n", "4", "--limit", "3")
    toy("--selector", "spread", *small)
    toy("--selector", "shuffle", "--model", "macaw", *small)
    toy("--until-correct", *small)
    run = tmp_path / "runs" / "rl" / "colours-macaw" / "checkpoints" / "1"
    run.mkdir(parents=True)
    (run / "weights").write_bytes(bytes(1000))
    (run.parents[1] / "run.json").write_text('{"task": "colours", "model": "macaw"}')
    (tmp_path / "runs" / "plots").mkdir()
    (tmp_path / "runs" / "plots" / "a.pdf").write_bytes(bytes(100))
    (tmp_path / "runs" / "cells" / "notes.txt").write_bytes(bytes(10))
    return tmp_path / "runs"


@pytest.fixture
def listed(harness, store):
    return lambda: harness("store", "list", "--store", store, "--json").rows


@pytest.fixture
def shown(monkeypatch):
    """What `print_(value)` prints in a terminal of 80 columns."""

    def call(print_, value):
        out = io.StringIO()
        monkeypatch.setattr(printing, "console", lambda *_: Console(file=out, width=80, highlight=False))
        print_(value)
        return out.getvalue()

    return call


def test_every_byte_counts_once_by_task_model_and_stage(listed, store):
    report = listed()
    sizes = {(row["model"], row["stage"]): (row["folders"], row["bytes"]) for row in report["rows"]}
    files = {name: len(content) for name, content in contents(store).items() if name != ".lock"}
    assert sum(size for _, size in sizes.values()) + sum(other["bytes"] for other in report["others"]) == sum(
        files.values()
    )
    assert {row["task"] for row in report["rows"]} == {"colours"}
    stages = {"pool", "embedding", "verdict", "ranking", "cells"}
    assert {stage for model, stage in sizes if model == "parrot"} == stages | {"sequence", "stopped", "sequences"}
    assert {stage for model, stage in sizes if model == "macaw"} == stages | {"rl"}
    assert sizes["all", "graded"][0] == 1
    assert {os.path.relpath(other["path"], store): other["bytes"] for other in report["others"]} == {
        "plots": 100,
        os.path.join("cells", "notes.txt"): 10,
    }


def test_what_no_cell_uses_is_counted_apart_by_what_it_costs(listed, store):
    assert {(row["made_again"], row["costly"]) for row in listed()["rows"]} == {(0, 0)}
    for cell in (store / "cells").glob("*.json"):
        cell.unlink()
    rows = {(row["model"], row["stage"]): row for row in listed()["rows"]}
    for stage, name in (
        ("pool", "costly"),
        ("embedding", "costly"),
        ("verdict", "made_again"),
        ("ranking", "made_again"),
    ):
        assert rows["macaw", stage][name] == rows["macaw", stage]["bytes"], stage
    assert rows["parrot", "sequence"]["costly"] == 0


def test_a_link_to_a_store_shows_what_the_store_does(harness, store, tmp_path):
    (tmp_path / "link").symlink_to(store)
    texts = [harness("store", "list", "--store", path, "--json").out for path in (store, tmp_path / "link")]
    assert texts[1].replace(str(tmp_path / "link"), str(store)) == texts[0]


def test_a_stage_was_last_used_when_a_shard_was_last_read_or_written(listed, store):
    for path in store.glob("pool/*/*"):
        os.utime(path, (1_600_000_000, 1_500_000_000))
    assert {row["last_used"] for row in listed()["rows"] if row["stage"] == "pool"} == {"2020-09-13T12:26:40+00:00"}


def test_a_damaged_cell_does_not_stop_the_list_but_nothing_is_called_unused(harness, store, listed):
    damaged = min((store / "cells").glob("*.json"))
    damaged.write_text("{")
    report = listed()
    assert str(damaged) in report["fault"]
    assert {(row["made_again"], row["costly"]) for row in report["rows"]} == {(0, 0)}
    assert "what is unused is not known" in harness("store", "list", "--store", store).out


def test_no_line_is_wider_than_80_columns_and_no_word_is_cut(shown):
    stages = ("embedding", "pool", "sequences")
    rows = [ROWS | {"stage": stage, "bytes": 10**9 * 999, "made_again": 10**8, "costly": 10**11} for stage in stages]
    keys = {"key": "0123456789abcdef0123", "costly": False, "goes": True}
    value = {"store": "runs", "rows": rows, "others": [], "fault": ""}
    texts = [
        shown(tables.listing, value),
        shown(tables.pruned, {**value, "deleted": False, "rows": [r | keys for r in rows]}),
    ]
    for text in texts:
        assert max(map(len, text.splitlines())) <= 80
        assert text.count("mbppplus, Qwen/Qwen2.5-Math-7B-Instruct") == 1


def test_sizes_and_ages_are_in_units_that_people_read():
    assert [tables.size_text(count) for count in (0, 999, 1000, 1_250_000, 3 * 10**9, 4 * 10**12)] == [
        "0 B",
        "999 B",
        "1 kB",
        "1.2 MB",
        "3.0 GB",
        "4.0 TB",
    ]
