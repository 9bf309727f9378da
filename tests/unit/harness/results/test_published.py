"""Published cells: many in one file, each as it was; what may be published; damage is one line; files merge."""

import json
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.cells import COUNTED, TO_THE_SECOND, cell, entry, failed_cell, keep, keyed, subset_entry
from support.paths import TOY
from support.refusals import error_line, refusal_of

from harness.plugin_system.component import build, described
from harness.plugin_system.registry import load_registry
from harness.results import leaderboard, published
from harness.results.published import Place, places, read

PROBLEMS = [entry("p0", [1, 3]), entry("p1", [2, 2])]
MADE = keyed(
    cell([entry("p0", [1, 3], best_of_k={"x": {str(k): 1 / 3 for k in (1, 2, 4, 8)}}), entry("p1", [9, 9], c=0)]),
    cell([entry("p0", [2, 2]), entry("p\u2028", [7, 1], disputed=0)], "shuffle", seed=1),
    cell([subset_entry("p0", [1, 4])], "head"),
    cell(TO_THE_SECOND, inputs={"ranking": COUNTED}),
    failed_cell("twice", "index 0 was picked twice"),
)


def content(*folders):
    return {place.key: read(place) for place in places(folders)}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "results" / "colours.parquet"
    published.write(path, MADE)
    return path


def test_every_cell_comes_back_to_the_digit_and_the_same_cells_are_the_same_bytes(file, tmp_path):
    kept = content(file)
    assert json.dumps(kept, sort_keys=True) == json.dumps(MADE, sort_keys=True)
    published.write(tmp_path / "again.parquet", dict(reversed(kept.items())))
    assert (tmp_path / "again.parquet").read_bytes() == file.read_bytes()
    assert list(file.parent.iterdir()) == [file]


def test_files_of_two_people_merge_by_being_copied_and_what_is_published_is_added(tmp_path):
    first, second = ({key: MADE[key] for key in some} for some in (list(MADE)[:2], list(MADE)[1:4]))
    published.write(tmp_path / "ours" / "colours.parquet", first)
    published.write(tmp_path / "ours" / "theirs" / "colours.parquet", second)
    assert content(tmp_path / "ours") == first | second
    for folder in (tmp_path / "ours", tmp_path / "ours" / "theirs"):
        leaderboard.publish([], folder, tmp_path / "one", [])
    assert content(tmp_path / "one" / "colours.parquet") == first | second
    assert leaderboard.validate([tmp_path / "one"]) == []


def test_a_cell_is_named_shown_and_deleted_by_its_key(harness, file):
    key, other, *rest = MADE
    where = ("--in", file.parent)
    assert json.loads(harness("results", "show", key[:9], *where).out) == MADE[key]
    assert "holds 5 cells: name one by its key (" in error_line(harness("results", "show", file))
    assert f"no cell whose key begins so in {file.parent}" in error_line(harness("results", "show", "feed", *where))
    outcome = harness("results", "delete", key, other[:8], "--from", file.parent)
    assert outcome.out.split() == ["deleted:", f"{file},", key, "deleted:", f"{file},", other]
    assert content(file) == {name: MADE[name] for name in rest}
    harness("results", "delete", *rest, "--from", file.parent)
    assert not file.exists()
    keep(file.parent, MADE[key])
    line = error_line(harness("results", "delete", key, "--from", file.parent))
    assert "is one cell's own file: delete the file" in line


def test_a_flipped_bit_or_a_cut_or_another_file_is_one_line_that_names_the_file(file):
    whole, lines, rng = file.read_bytes(), set(), random.Random(0)
    flips = [*range(40), *range(40, len(whole) - 40, 29), *range(len(whole) - 40, len(whole))]
    damaged = [bytes([*whole[:at], whole[at] ^ 1 << rng.randrange(8), *whole[at + 1 :]]) for at in flips]
    pq.write_table(pa.table({"a": [1]}), other := file.parent / "other.bytes")
    for text in [other.read_bytes(), *damaged, *(whole[:at] for at in range(0, len(whole), 397))]:
        file.write_bytes(text)
        gathered = leaderboard.gather([file.parent])
        assert not gathered.measured | gathered.failed
        lines.add(*gathered.faults)
    line = f"cells {file}: is damaged, or no file of cells; copy it anew, or move it elsewhere"
    assert lines == {line}
    assert refusal_of(published.named, "a1", [file.parent], "rerun") == line  # what is named may be in it


def test_a_cell_that_was_edited_or_has_another_name_is_named_and_no_other(file):
    key, renamed, *others = MADE
    changed = {key: MADE[key] | {"grader": "another"}, "0123": MADE[renamed]}
    published.write(file, changed | {other: MADE[other] for other in others})
    assert refusal_of(read, Place(file, key)).startswith(f"cell {file}, {key}: was edited or cut after it was measured")
    line = f"cell {file}, 0123: is named otherwise than its inputs ({renamed}); rename it"
    assert refusal_of(read, Place(file, "0123")) == line
    assert [read(Place(file, other)) for other in others] == [MADE[other] for other in others]
    assert len(leaderboard.validate([file.parent])) == 2
    assert pq.read_table(file).num_rows == 9  # with any reader
    published.delete([key, "0123"], file.parent)
    assert sorted(content(file)) == sorted(others)


def publish_from(folder, *keys, plugins=()):
    return leaderboard.publish(keys, folder, folder / "results", plugins)


def test_cells_are_copied_with_what_the_kit_says_of_their_selectors(tmp_path):
    registry, inputs = load_registry((TOY,)), {}
    for name in ("shuffle", "twice"):
        selector = described(registry.find("selector", name), build(registry, "selector", name))
        inputs[name] = {"ranking": {"selector": selector}}
    several = [cell(PROBLEMS, name, inputs=inputs[name]) | {"from": "0f3a"} for name in inputs]
    paths = keep(tmp_path / "cells", *several, cell(PROBLEMS, "shuffle"), failed_cell("short", "it ended"))
    rows = publish_from(tmp_path, plugins=[TOY])
    assert [row["file"] for row in rows] == [str(tmp_path / "results" / "colours.parquet")] * 3
    kept, shown = content(tmp_path / "results"), {row["cell"]: row["conformance"] for row in rows}
    assert sorted(kept) == sorted(path.stem for path in paths[:3])
    first, broken, older = (shown[path.stem] for path in paths[:3])
    assert (first[:7], broken[:6]) == ("passes ", "fails ")
    assert older == "not tried: another version of it is installed here"
    assert len(json.loads((tmp_path / "results" / "conformance.json").read_text())) == 2
    assert leaderboard.validate([tmp_path / "results"]) == []
    assert ('"from"' in paths[0].read_text(), "from" in kept[paths[0].stem]) == (True, False)


def test_cells_are_named_by_the_beginning_of_their_keys_and_a_publish_that_meets_a_bad_one_leaves_nothing(tmp_path):
    line = f"results publish: {tmp_path} holds no cells: `harness run` makes them"
    assert refusal_of(publish_from, tmp_path) == line
    line = f"results {tmp_path}: holds no cells; `harness results publish` copies them there"
    assert leaderboard.validate([tmp_path]) == [line]
    folder = tmp_path / "cells"
    paths = keep(folder, cell(PROBLEMS), cell(PROBLEMS, "shuffle"), failed_cell("twice", "it broke"))
    [untrained] = keep(folder, cell(PROBLEMS, "other") | {"weights": [{"is_random": True}]})
    paths[0].write_text(paths[0].read_text().replace('"errors":0', '"errors":1', 1))
    for key, fault in (
        ("zzz", f"no cell 'zzz' in {tmp_path} (4 are there)"),
        (paths[2].stem, "failed (it broke)"),
        (paths[0].stem, "was edited or cut"),
        (untrained.stem, "was made with random weights: it is a test, no result"),
    ):
        assert fault in refusal_of(publish_from, tmp_path, paths[1].stem, key)
        assert not (tmp_path / "results").exists()
    [row] = publish_from(tmp_path, paths[1].stem[:8])
    assert row["cell"] == paths[1].stem


def test_no_task_publishes_outside_of_the_folder(tmp_path):
    keep(tmp_path / "cells", cell(PROBLEMS, task="../../gone/x"))
    [row] = publish_from(tmp_path)
    assert row["file"] == str(tmp_path / "results" / ".._.._gone_x.parquet")
