"""Cells: what is kept of a run, the same bytes from the same cell, and what cannot be trusted is named."""

import json
import math
import os

import numpy as np
import pytest
from support.cells import COUNTED, TO_THE_SECOND, cell, entry, failed_cell, keep, subset_entry
from support.refusals import refusal_of

from harness.results import cells
from harness.results.published import places
from harness.results.rows import row

PROBLEMS = [entry("p0", [1, 3], disputed=1), entry("p1", [9, 9], c=0, disputed=0), entry("p\u2028", [2, 2], errors=1)]
MADE = cell(PROBLEMS)
SUBSETS = cell([subset_entry("p0", [1, 4])])
COUNTING = cell(TO_THE_SECOND, inputs={"ranking": COUNTED})


def forged(change, made=MADE):
    """A cell that was changed after it was made, with a checksum to match."""
    made = json.loads(json.dumps(made))
    change(made)
    return made | {"checksum": cells.checksum(made)}


def first(made=MADE, **changes):
    """The cell with these values in the entry of its first problem."""
    return forged(lambda made: made["problems"][0].update(changes), made)


UNTRUSTED = [
    (MADE | {"grader": "another"}, "was edited or cut after it was measured; copy it anew"),
    (MADE | {"schema": 99}, "is of schema 99, and this version reads 3: run it again"),
    (forged(lambda made: made.update(problems=[])), "(it has no problems)"),
    (forged(lambda made: made["labels"].pop("engine")), "'labels.engine': is missing"),
    (first(ranks=[1, True]), "'problems.0.ranks.1': expected a whole number, got True"),
    (forged(lambda made: made["labels"].update(trials=4)), "problem 'p0': trials)"),
    (forged(lambda made: made["problems"][0].pop("routes")), "(KeyError: 'routes')"),
    (first(id="p1"), "(a problem occurs twice)"),
    *((first(**bad), "problem 'p0': n, c or errors)") for bad in ({"n": 0}, {"c": 9}, {"errors": 7})),
    (first(routes={"-": 1}), "problem 'p0': routes)"),
    (first(chance=[3, 2]), "problem 'p0': chance)"),
    (first(maj_at_k={"1": 0.2, "2": 0.2, "4": 0.2, "8": 1.2}), "problem 'p0': maj@k or best-of-k)"),
    (first(ranks=[1, 8]), "problem 'p0': ranks)"),
    (first(ranks=[1, 2]), "problem 'p0': orders and ranks)"),
    (first(COUNTING, found=[[2, 1], [3, 5]]), "problem 'p0': found)"),
    (first(COUNTING, found=[[1], [3, 5]]), "problem 'p0': found and ranks)"),
    (forged(lambda made: made["inputs"]["ranking"].update(correct=501)), "(it counts to correct response 501)"),
    (first(SUBSETS, hits={"3": [True, True]}), "problem 'p0': budgets)"),
    (
        forged(lambda made: made["problems"].append(subset_entry("q", [1, 4]))),
        "(some problems have ranks, others hits)",
    ),
]


def test_a_file_that_cannot_be_trusted_or_read_is_named_in_one_line(tmp_path):
    path, wrong = tmp_path / "cell.json", []
    for content, fault in UNTRUSTED:
        path.write_text(json.dumps(content))
        line = refusal_of(cells.read, path)
        if not (line.startswith(f"cell {path}: ") and fault in line):
            wrong.append((fault, line))
    assert wrong == []
    [kept] = keep(tmp_path, MADE)
    path.write_bytes(kept.read_bytes()[:300])
    os.mkfifo(tmp_path / "fifo.json")  # it waits for nobody
    kept.rename(tmp_path / "mine.json")
    for name, fault in (
        ("cell", "not JSON (Unterminated"),
        ("fifo", "is a FIFO and not a file"),
        ("mine", f"is named otherwise than its inputs ({kept.stem}); rename it"),
    ):
        assert fault in refusal_of(cells.read, tmp_path / f"{name}.json")


def test_a_cell_comes_back_and_is_the_same_file_when_it_is_written_again(tmp_path):
    for made in (MADE, SUBSETS, failed_cell("twice", "index 0 was picked twice")):
        [path] = keep(tmp_path, made)
        assert path.stem == cells.key_of(made)
        assert cells.read(path) == made
        assert keep(tmp_path / "again", cells.read(path))[0].read_bytes() == path.read_bytes()
        assert [line for line in path.read_text().split("\n") if line.startswith('  {"id"')] != []
    assert not list(tmp_path.glob(".*"))


def test_the_key_depends_on_inputs_and_problems_and_not_on_what_was_measured():
    assert cells.key_of(cell([*PROBLEMS[:2], entry("p\u2028", [1, 1])])) == cells.key_of(MADE)
    assert cells.key_of(cell(PROBLEMS[:2])) != cells.key_of(MADE) != cells.key_of(cell(PROBLEMS, seed=1))


def test_hits_are_counted_as_far_as_all_orders_go(tmp_path):
    kept = cells.read(keep(tmp_path, COUNTING)[0])
    few, more = [[1, 0], [0, 0], [0, 0]], [[2, 0], [0, 1], [0, 0]]
    counts = cells.outcomes(kept).counts
    assert {k: hits.tolist() for k, hits in counts.items()} == {1: few, 2: more, 0.01: few, 0.05: more}
    shown = row(kept)
    assert (shown.correct, shown.solvable, list(shown.hits_at_k)) == (2, 1, ["1", "2"])
    assert shown.samples_to_correct_random == pytest.approx((2 * 41 / 4 + 41 + 41) / 3)
    assert not {"correct", "hits_at_k", "enrichment_factor"} & set(row(MADE).to_json())


def test_enrichment_factors_are_those_of_rdkit(tmp_path):
    scoring = pytest.importorskip("rdkit.ML.Scoring.Scoring")
    rng = np.random.default_rng(0)
    for n in (30, 100, 101, 700):  # 0.01 * 700 is above 7 in floats, and RDKit rounds up
        is_correct = rng.random(n) < 0.1
        hits = (np.flatnonzero(is_correct) + 1).tolist()
        at = max(hits[0], math.ceil(0.05 * n))
        problem = entry("p", [hits[0]], c=len(hits), n=n)
        problem |= {"orders": [list(range(at))], "found": [[hit for hit in hits if hit <= at]]}
        [path] = keep(tmp_path, cell([problem], inputs={"ranking": {"enrichment": True}}))
        theirs = [scoring.CalcEnrichment([[flag] for flag in is_correct], 0, [share])[0] for share in (0.01, 0.05)]
        assert list(row(cells.read(path)).enrichment_factor.values()) == pytest.approx(theirs, rel=1e-12)


def test_badges_and_tables_are_no_cells(written, tmp_path):
    kept = [written("{}", name) for name in ("a.json", "b/a.json")]
    for name in ("b/conformance.json", "b/rl-eval.json", "sequences/y.json"):
        written("{}", name)
    assert [place.path for place in places([tmp_path])] == kept
