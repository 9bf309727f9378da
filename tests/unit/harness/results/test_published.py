"""Published cells: many in one file, each as it was; damage is one line; files merge; a cell is shown and deleted."""

import json
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.cells import cell, entry, failed_cell, keep, keyed, subset_entry
from support.refusals import error_line, refusal_of

from harness.results import leaderboard, published
from harness.results.published import Place, places, read

HITS = {"correct": 2, "enrichment": True}  # to the second correct response, and at least to 5 %
MADE = keyed(
    cell([entry("p0", [1, 3], best_of_k={"x": {str(k): 1 / 3 for k in (1, 2, 4, 8)}}), entry("p1", [9, 9], c=0)]),
    cell([entry("p0", [2, 2]), entry("p\u2028", [7, 1], disputed=0)], "shuffle", seed=1),
    cell([subset_entry("p0", [1, 4])], "head"),
    cell(
        [
            {**entry("p0", [2, 5], c=3, n=40), "found": [[1, 2], [3, 5]]},
            {**entry("p1", [41, 41], c=1, n=40), "orders": [[0, 1], [2, 3]], "found": [[], [2]]},
            {**entry("p2", [41, 41], c=0, n=40), "found": [[], []]},
        ],
        inputs={"ranking": HITS},
    ),
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


def test_the_order_to_a_later_hit_and_equal_facts_are_stored_once(tmp_path):
    indices = random.Random(0).sample(range(20_000), 4_000)
    sizes = []
    for count in (1, 9):
        made = [
            cell([{**entry("p", [4_000 - at], c=1, n=20_000), "orders": [indices[: 4_000 - at]]}], pool="a", seed=at)
            for at in range(count)
        ]
        published.write(tmp_path / "made.parquet", keyed(*made))
        sizes.append((tmp_path / "made.parquet").stat().st_size)
    assert sizes[1] < 1.2 * sizes[0]


def test_files_of_two_people_merge_by_being_copied_and_what_is_published_is_added(tmp_path):
    first, second = ({key: MADE[key] for key in some} for some in (list(MADE)[:2], list(MADE)[1:4]))
    published.write(tmp_path / "ours" / "colours.parquet", first)
    published.write(tmp_path / "ours" / "theirs" / "colours.parquet", second)
    assert content(tmp_path / "ours") == first | second
    leaderboard.publish([], tmp_path / "ours", tmp_path / "one", [])
    leaderboard.publish([], tmp_path / "ours" / "theirs", tmp_path / "one", [])
    assert content(tmp_path / "one" / "colours.parquet") == first | second
    assert leaderboard.validate([tmp_path / "one"]) == []


def test_a_cell_is_named_shown_and_deleted_by_its_key(harness, file):
    key, other, *_ = MADE
    assert json.loads(harness("results", "show", key[:9], "--in", file.parent).out) == MADE[key]
    assert "holds 5 cells: name one by its key (" in error_line(harness("results", "show", file))
    assert f"no cell whose key begins so in {file.parent}" in error_line(
        harness("results", "show", "feed", "--in", file.parent)
    )
    outcome = harness("results", "delete", key, other[:8], "--from", file.parent)
    assert outcome.out.split() == ["deleted:", f"{file},", key, "deleted:", f"{file},", other]
    assert content(file) == {name: MADE[name] for name in list(MADE)[2:]}
    harness("results", "delete", *list(MADE)[2:], "--from", file.parent)
    assert not file.exists()
    [path] = keep(file.parent, MADE[key])
    assert "is one cell's own file: delete the file" in error_line(
        harness("results", "delete", key, "--from", path.parent)
    )


def test_a_flipped_bit_or_a_cut_is_one_line_that_names_the_file(file):
    whole, lines = file.read_bytes(), set()
    rng = random.Random(0)
    damaged = [bytes([*whole[:at], whole[at] ^ 1 << rng.randrange(8), *whole[at + 1 :]]) for at in range(len(whole))]
    for text in [*damaged, *(whole[:at] for at in range(0, len(whole), 97))]:
        file.write_bytes(text)
        gathered = leaderboard.gather([file.parent])
        assert not gathered.measured | gathered.failed
        lines.add(*gathered.faults)
    assert lines == {f"cells {file}: is damaged, or no file of cells; copy it anew, or move it elsewhere"}
    assert refusal_of(published.named, "a1", [file.parent], "rerun") in lines  # what is named may be in it


def test_the_files_of_a_stores_columns_are_no_cells(file):
    (file.parent / "column.json").write_text("{}")
    assert [place.key for place in places([file.parent])] == ["column"]


def test_a_cell_that_was_edited_is_named_and_no_other(file):
    key, *others = MADE
    published.write(file, MADE | {key: MADE[key] | {"grader": "another"}})
    assert refusal_of(read, Place(file, key)).startswith(f"cell {file}, {key}: was edited or cut after it was measured")
    assert [read(Place(file, other)) for other in others] == [MADE[other] for other in others]
    assert len(leaderboard.validate([file.parent])) == 1
    assert "was edited" in refusal_of(leaderboard.publish, [], file.parent, file.parent, [])
    published.delete([key], file.parent)
    assert sorted(content(file)) == sorted(others)


def test_a_file_of_something_else_is_named(tmp_path):
    pq.write_table(pa.table({"a": [1]}), tmp_path / "other.parquet")
    (tmp_path / "text.parquet").write_text("{}")
    published.write(tmp_path / "wrong.parquet", {"0123": next(iter(MADE.values()))})
    faults = leaderboard.validate([tmp_path])
    damaged = "is damaged, or no file of cells; copy it anew, or move it elsewhere"
    assert faults == [
        f"cell {tmp_path}/wrong.parquet, 0123: is named otherwise than its inputs ({next(iter(MADE))}); rename it",
        f"cells {tmp_path}/other.parquet: {damaged}",
        f"cells {tmp_path}/text.parquet: {damaged}",
    ]
    assert pq.read_table(tmp_path / "wrong.parquet").num_rows == 2  # with any reader
