"""Cells: what is kept of a run, the same bytes from the same cell, and what cannot be trusted is named.

Also the versions and the machine that a cell names.
"""

import json
import math
import os

import numpy as np
import pytest
from support.cells import cell, entry, failed_cell, keep, subset_entry
from support.refusals import refusal_of

from harness.results import cells
from harness.results.published import places
from harness.results.rows import row

PROBLEMS = [entry("p0", [1, 3], disputed=1), entry("p1", [9, 9], c=0, disputed=0), entry("p\u2028", [2, 2], errors=1)]


def forged(change):
    """A cell that was changed after it was made, with a checksum to match."""
    made = json.loads(json.dumps(cell(PROBLEMS)))
    change(made)
    return made | {"checksum": cells.checksum(made)}


def first(**changes):
    """The cell with these values in the entry of its first problem."""
    return forged(lambda made: made["problems"][0].update(changes))


def subsets(**hits):
    made = cell([subset_entry("p0", [1, 4])])
    made["problems"][0]["hits"].update(hits)
    return made | {"checksum": cells.checksum(made)}


COUNTED = {"correct": 2, "enrichment": True}  # to the second correct response, and at least to 5 %
TO_THE_SECOND = [
    {**entry("p0", [2, 5], c=3, n=40), "found": [[1, 2], [3, 5]]},
    {**entry("p1", [41, 41], c=1, n=40), "orders": [[0, 1], [2, 3]], "found": [[], [2]]},
    {**entry("p2", [41, 41], c=0, n=40), "found": [[], []]},
]


def second(**changes):
    """A cell that counts to the second correct response, with these values in the entry of its first problem."""
    made = cell([TO_THE_SECOND[0] | changes, *TO_THE_SECOND[1:]], inputs={"ranking": COUNTED})
    return made | {"checksum": cells.checksum(made)}


NEEDED = ("disputed", "routes", "best_of_k")
UNTRUSTED = [
    (cell(PROBLEMS) | {"grader": "another"}, "was edited or cut after it was measured; copy it anew"),
    (cell(PROBLEMS) | {"schema": 99}, "is of schema 99, and this version reads 3: run it again"),
    (cell(PROBLEMS) | {"kind": "another"}, "is no cell; move it elsewhere"),
    (cell(PROBLEMS) | {"problems": 5}, "'problems': expected a list, got 5"),
    (forged(lambda made: made.update(problems=[])), "(it has no problems)"),
    (forged(lambda made: made["labels"].pop("engine")), "'labels.engine': is missing"),
    (forged(lambda made: made.pop("inputs")), "'inputs': is missing"),
    (first(ranks=[1, True]), "'problems.0.ranks.1': expected a whole number, got True"),
    (forged(lambda made: made["labels"].update(trials=4)), "problem 'p0': trials)"),
    *((forged(lambda made, name=name: made["problems"][0].pop(name)), f"(KeyError: '{name}')") for name in NEEDED),
    (first(id="p1"), "(a problem occurs twice)"),
    *((first(**bad), "problem 'p0': n, c or errors)") for bad in ({"n": 0}, {"c": 9}, {"c": -1}, {"errors": 7})),
    (first(disputed=9), "problem 'p0': disputed grades)"),
    (first(routes={"-": 1}), "problem 'p0': routes)"),
    (first(chance=[3, 2]), "problem 'p0': chance)"),
    (first(maj_at_k={"1": 0.1, "2": 0.2}), "problem 'p0': budgets of maj@k or best-of-k)"),
    (first(maj_at_k={"1": 0.2, "2": 0.2, "4": 0.2, "8": 1.2}), "problem 'p0': maj@k or best-of-k)"),
    (first(ranks=[1, 8]), "problem 'p0': ranks)"),
    (first(ranks=[1, 2]), "problem 'p0': orders and ranks)"),
    *((second(found=bad), "problem 'p0': found)") for bad in ([[2, 1], [3, 5]], [[1, 2], [3, 6]])),
    *((second(found=bad), "problem 'p0': found and ranks)") for bad in ([[1], [3, 5]], [[1, 2], [3, 4]])),
    (second(found=[[1, 2]]), "problem 'p0': trials)"),
    (second(orders=[[0, 1], [0, 1]]), "problem 'p0': orders and ranks)"),
    (second(ranks=[1, 5]), "problem 'p0': ranks)"),
    (forged(lambda made: made["inputs"]["ranking"].update(correct=501)), "(it counts to correct response 501)"),
    (subsets(**{"3": [True, True]}), "problem 'p0': budgets)"),
    (subsets(**{"2": [True]}), "problem 'p0': trials)"),
    (
        forged(lambda made: made["problems"].append(subset_entry("q", [1, 4]))),
        "(some problems have ranks, others hits)",
    ),
]


def test_a_file_that_cannot_be_trusted_is_named_in_one_line(tmp_path):
    path, wrong = tmp_path / "cell.json", []
    for content, fault in UNTRUSTED:
        path.write_text(json.dumps(content))
        line = refusal_of(cells.read, path)
        if not (line.startswith(f"cell {path}: ") and fault in line):
            wrong.append((fault, line))
    assert wrong == []


def test_what_cannot_be_read_or_is_named_otherwise_is_one_line(tmp_path):
    [path] = keep(tmp_path, cell(PROBLEMS))
    (tmp_path / "half.json").write_bytes(path.read_bytes()[:300])
    os.mkfifo(tmp_path / "fifo.json")  # it waits for nobody
    for name, fault in (
        ("half", "not JSON (Unterminated"),
        ("fifo", "is a FIFO and not a file"),
        ("none", "No such file"),
    ):
        line = refusal_of(cells.read, tmp_path / f"{name}.json")
        assert fault in line
    path.rename(tmp_path / "mine.json")
    line = refusal_of(cells.read, tmp_path / "mine.json")
    assert f"is named otherwise than its inputs ({path.stem}); rename it" in line


def test_a_cell_comes_back_and_is_the_same_file_when_it_is_written_again(tmp_path):
    for made in (cell(PROBLEMS), cell([subset_entry("p0", [1, 4])]), failed_cell("twice", "index 0 was picked twice")):
        [path] = keep(tmp_path, made)
        assert path.stem == cells.key_of(made)
        assert cells.read(path) == made
        assert keep(tmp_path / "again", cells.read(path))[0].read_bytes() == path.read_bytes()
        assert [line for line in path.read_text().split("\n") if line.startswith('  {"id"')] != []
    assert not list(tmp_path.glob(".*"))


def test_the_key_depends_on_inputs_and_problems_and_not_on_what_was_measured():
    made = cell(PROBLEMS)
    assert cells.key_of(cell([*PROBLEMS[:2], entry("p\u2028", [1, 1])])) == cells.key_of(made)
    assert cells.key_of(cell(PROBLEMS[:2])) != cells.key_of(made) != cells.key_of(cell(PROBLEMS, seed=1))


def test_hits_are_counted_as_far_as_all_orders_go_and_enrichment_where_there_is_a_correct_response(tmp_path):
    kept = cells.read(keep(tmp_path, second())[0])
    counts = cells.outcomes(kept).counts
    assert {k: hits.tolist() for k, hits in counts.items()} == {
        **{1: [[1, 0], [0, 0], [0, 0]], 2: [[2, 0], [0, 1], [0, 0]]},
        **{0.01: [[1, 0], [0, 0], [0, 0]], 0.05: [[2, 0], [0, 1], [0, 0]]},
    }
    shown = row(kept)
    assert (shown.correct, shown.solvable) == (2, 1)
    assert shown.samples_to_correct_random == pytest.approx((2 * 41 / 4 + 41 + 41) / 3)
    assert shown.hits_at_k == pytest.approx({"1": 0.5 / 3, "2": (1 + 0.5) / 3})
    assert shown.hits_at_k_random == pytest.approx({"1": 4 / 40 / 3, "2": 8 / 40 / 3})
    assert shown.enrichment_factor == pytest.approx(
        {"1": (0.5 / (3 / 40) + 0) / 2, "5": (0.5 / (3 / 40) + 0.25 * 40) / 2}
    )
    assert shown.to_json()["correct"] == 2
    assert not {"correct", "hits_at_k", "enrichment_factor"} & set(row(cell(PROBLEMS)).to_json())


def test_enrichment_factors_are_those_of_rdkit(tmp_path):
    scoring = pytest.importorskip("rdkit.ML.Scoring.Scoring")
    rng = np.random.default_rng(0)
    for n in (30, 99, 100, 101, 700, 998):  # 0.01 * 700 is above 7 in floats, and RDKit rounds up
        is_correct = rng.random(n) < 0.1
        hits = (np.flatnonzero(is_correct) + 1).tolist()
        at = max(hits[0], math.ceil(0.05 * n))
        problem = entry("p", [hits[0]], c=len(hits), n=n)
        problem |= {"orders": [list(range(at))], "found": [[hit for hit in hits if hit <= at]]}
        made = cell([problem], inputs={"ranking": {"enrichment": True}})
        shown = row(cells.read(keep(tmp_path, made)[0])).enrichment_factor
        theirs = [scoring.CalcEnrichment([[flag] for flag in is_correct], 0, [share])[0] for share in (0.01, 0.05)]
        assert list(shown.values()) == pytest.approx(theirs, rel=1e-12)


def test_badges_and_tables_are_no_cells(tmp_path):
    for name in (
        "b/conformance.json",
        "b/rl-eval.json",
        "sequences/y.json",
        "b/a.json",
        "a.json",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
    assert [place.path for place in places([tmp_path])] == [tmp_path / "a.json", tmp_path / "b" / "a.json"]
