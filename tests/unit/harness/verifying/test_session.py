"""`harness.search`: candidates are asked for and told by name, from Python and by the command line, on one journal."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from support.json_lines import read_json_lines, write_json_lines
from support.refusals import refusal_of

import harness as package

H = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
NAMES = [f"CHEMBL{row}" for row in range(20)]
JOURNAL = Path("plate.jsonl")


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("plate.npz", plate=H, names=NAMES)


def search(source=H, **options):
    return package.search(source, quiet=True, **{"names": NAMES, "journal": "plate.jsonl"} | options)


def test_each_ask_gives_other_names_in_the_selectors_order_and_tell_takes_them():
    mine = search()
    first, second = mine.ask(3), mine.ask(3)
    assert mine.open == first + second == [NAMES[index] for index in package.select({"problem": H}, k=6)["problem"]]
    for candidate, outcome in (
        *((first[1], True), (first[0], np.False_), (second[2], None), (NAMES.index(first[2]), "error")),
    ):
        mine.tell(candidate, outcome)
    assert mine.found == [{"problem_id": "problem", "index": NAMES.index(first[1]), "call": 2, "name": first[1]}]
    again = search()  # it goes on where the last session ended, and names are in the journal
    assert mine.open == again.open == second[:2]
    assert (again.calls, len(again.ask(99)), again.ask()) == (3, 14, [])
    lines = read_json_lines(JOURNAL)
    assert (lines[1]["names"], lines[3]["name"]) == (first, first[1])
    assert refusal_of(search, names=NAMES[::-1]).endswith("give the same names as before")


def test_what_is_told_twice_is_nothing_and_what_is_told_differently_is_one_line():
    mine = search()
    name, other = mine.ask(2)
    mine.tell(name, False)
    before = JOURNAL.read_text()
    mine.tell(name, False)
    for candidate, outcome, words in (
        (name, True, f"of 'problem' ('{name}') is recorded already, as wrong: correct=True"),
        ("CHEMBL99", True, "search: 'CHEMBL99' is the name of no response"),
        (20, True, "search: 20 is no candidate: give a name, an index"),
        (other, float("nan"), "an outcome is y, n, skip, error, got 'nan'"),
    ):
        assert words in refusal_of(mine.tell, candidate, outcome)
    assert JOURNAL.read_text() == before
    mine.tell(name, True, correct=True)
    assert [row["name"] for row in mine.found] == [name]


def test_the_command_goes_on_where_python_stopped_and_back(harness):
    def command(k, *options):
        fixed = ("--embeddings", "plate.npz", "--selector", "repexp", "--journal", JOURNAL, "--until", 99, "--json")
        rows = harness("verify", "--ask", *fixed, "-k", k, *options).rows
        return [row["name"] for row in rows["ask"]], rows

    mine = search()
    asked = mine.ask(4)
    mine.tell(asked[0], True)
    out, rest = command(5, "--sheet", "sheet.csv")
    assert Path("sheet.csv").read_text().startswith("problem_id,index,name,response,outcome\n")
    assert (out[:3], len(out), rest["calls"], rest["found"][0]["name"]) == (asked[1:], 5, 1, asked[0])
    assert mine.open == out  # the session that is still open sees what the command gave out
    Path("answers.csv").write_text(f"name,outcome\n{out[4]},y\n{asked[1]},n\n")
    assert command(3, "--answers", "answers.csv")[0] == out[1:4]
    assert (mine.calls, [row["name"] for row in mine.found]) == (3, [asked[0], out[4]])
    assert not {*mine.ask(5)} & {*asked, *out}


def test_the_journal_belongs_to_the_values_wherever_they_are():
    np.save("other.npy", H.astype(np.float64))
    rows = [f"{name}," + ",".join(map(repr, row)) for name, row in zip(NAMES, H.tolist(), strict=True)]
    Path("table.csv").write_text("\n".join(["name,a,b,c,d", *rows]) + "\n")
    asked = search().ask(2)
    for source in (sparse.coo_array(H), H.tolist(), {"lead": H}, "other.npy", "table.csv"):
        assert search(source).open == asked, source
    changed = H.copy()
    changed[3, 1] += 1
    assert "is of another embeddings" in refusal_of(search, changed)
    assert "is of another selector" in refusal_of(search, selector="kcenter")
    texts = [f"text {'abcdefgh'[i % 8] * i}" for i in range(9)]
    write_json_lines(Path("pool.jsonl"), [{"problem_id": "a", "responses": texts, "names": NAMES[:9]}])
    asked = search("pool.jsonl", names=None, journal="texts.jsonl").ask(3)
    assert search(texts, names=NAMES[:9], journal="texts.jsonl").open == asked


def test_several_problems_take_turns_and_a_candidate_is_a_pair():
    mine = search({7: H[:3], "b": H[3:5]}, names={7: ["x", "y", ""], "b": ["x", "z"]}, until=1)
    asked = mine.ask(4)
    assert [problem for problem, _ in asked] == [7, "b", 7, "b"]
    mine.tell(("b", "x"), True)
    assert [(row["problem_id"], row["name"]) for row in mine.found] == [("b", "x")]
    assert "'x' is the name of 2 responses (" in refusal_of(mine.tell, "x", False)
    assert mine.ask(9) == [pair for pair in [(7, "x"), (7, "y"), (7, 2)] if pair not in asked]
    for names, words in (
        (NAMES[:-1], "verify: problem 'problem' has 20 responses, and 19 names"),
        ([*NAMES[:-1], "CHEMBL3"], "search: 'CHEMBL3' is the name of two candidates, 3 and 19: names must be unique"),
        ([*NAMES[:-1], 3], "verify: names must be texts, got 3"),
    ):
        assert words in refusal_of(search, names=names, journal="other.jsonl")


ASKS = """
import json, harness, numpy
with numpy.load("plate.npz") as file:
    search = harness.search(file["plate"], names=file["names"].tolist(), journal="plate.jsonl", quiet=True)
print(json.dumps([name for _ in range(3) for name in search.ask(2)]))
"""


def test_processes_that_ask_at_once_get_different_names_and_a_journal_that_was_replaced_is_refused():
    running = [subprocess.Popen([sys.executable, "-c", ASKS], stdout=subprocess.PIPE) for _ in range(2)]
    names = [name for each in running for name in json.loads(each.communicate(timeout=120)[0])]
    assert len(names) == len({*names}) == 12
    mine = search()
    assert sorted(mine.open) == sorted(names)
    Path("new.jsonl").write_bytes(JOURNAL.read_bytes())
    os.replace("new.jsonl", JOURNAL)
    assert "was replaced while it was in use" in refusal_of(mine.ask)


def test_select_and_verify_take_names_too():
    first = package.select(H, k=3, names=NAMES)
    assert first == [NAMES[index] for index in package.select(H, k=3)]
    more = package.select(H, k=3, names=NAMES, verified=first)
    assert more == [NAMES[index] for index in package.select(H, k=3, verified=package.select(H, k=3))]
    assert "'x' is the name of 0 responses" in refusal_of(package.select, H, k=1, names=NAMES, verified=["x"])
    ended = package.verify(H, lambda problem, index, text: index == 3, "in-order", budget=9, names=NAMES, quiet=True)
    assert ended["found"] == [{"problem_id": "problem", "index": 3, "call": 4, "name": "CHEMBL3"}]
