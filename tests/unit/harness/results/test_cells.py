"""Cells, results/ and leaderboards: what is kept, what is trusted, and the same bytes from the same cells."""

from __future__ import annotations

import copy
import json
import random
import re
import shutil

import pytest
from support.paths import ROOT, TOY
from support.processes import printed_by
from support.refusals import refusal_of
from support.stores import all_cells, cell_of

from harness import HarnessError
from harness.results import cells, inert_text, leaderboard, provenance


@pytest.fixture
def run(toy, tmp_path):
    """Run the toy task; the cells that the store then holds, by selector and embedder."""

    def call(*args):
        outcome = toy(*args)
        stored = all_cells(tmp_path / "runs")
        return outcome, {(cell["labels"]["selector"], cell["labels"]["embedder"]): cell for cell in stored}

    return call


@pytest.fixture
def cell_file(run, tmp_path):
    run("--selector", "spread")
    return next((tmp_path / "runs" / "cells").glob("*.json"))


def test_a_cell_holds_raw_figures_and_no_metric(run):
    outcome, found = run("--selector", "spread")
    cell = found["spread", "hidden-mean"]
    assert {"kind", "schema", "checksum", "labels", "inputs", "versions", "hardware", "conditions", "problems"} <= set(
        cell
    )
    assert set(cell["problems"][0]) == {"id", "n", "c", "errors", "disputed", "routes", "ranks", "orders"}
    for entry in cell["problems"]:
        assert [len(order) for order in entry["orders"]] == entry["ranks"]
    assert cell["versions"]["diversity-harness"]
    assert cell["grader"] == "colours 1"
    about = {"n", "problems", "errors", "conditions", "disputed", "cell", "grader", *cells.LABELS}
    figures = set(outcome.rows[0]) - about
    assert "improvement" in figures
    assert not figures & set(cell)


def test_a_cell_names_the_machine_and_imports_nothing_for_it(run):
    _, found = run("--selector", "spread")
    hardware = found["spread", "hidden-mean"]["hardware"]
    assert 1 <= hardware["cores_usable"] <= hardware["cores"]
    assert hardware["memory_gb"] > 0.1
    assert isinstance(hardware["cpu"], str)
    assert hardware["gpus"] == provenance._gpus()
    code = "import sys; from harness.results.provenance import _hardware"
    code += "; print(_hardware()['gpus'], 'torch' in sys.modules)"
    assert printed_by(code).split() == ["[]", "False"]


def test_disputed_grades_belong_to_their_problems_and_stand_in_the_row_as_a_sum(harness, tmp_path):
    options = ("--task", "keyed", "--engine", "toy", "--plugin", TOY, "--store", tmp_path / "runs", "--json")
    plain = harness("run", *options, "--selector", "shuffle").rows[0]
    audited = harness("run", *options, "--selector", "shuffle", "--audit").rows[0]
    again = harness("run", *options, "--selector", "shuffle").rows[0]
    (cell,) = all_cells(tmp_path / "runs")
    counts = [entry["disputed"] for entry in cell["problems"]]
    assert plain["disputed"] is None
    assert audited["disputed"] == again["disputed"] == sum(counts) > 0  # what was audited once stays so
    assert audited["grader"] == "keyed 1"
    (key,) = (path.name for path in (tmp_path / "runs" / "pool").iterdir())
    asked = ("--task", "keyed", "--plugin", TOY, "--store", tmp_path / "runs", "--json")
    summary = harness("pool", "audit", key, *asked)
    listed = [entry["problem_id"] for entry in summary.rows["listed"] if entry["why"] == "disputed"]
    assert counts == [listed.count(f"test/{i}") for i in range(6)]


def test_disputed_grades_of_a_part_of_a_pool_are_those_of_its_part(harness, tmp_path):
    pool = tmp_path / "pool.jsonl"
    pool.write_text(json.dumps({"problem_id": "test/1", "responses": ["say red", "say green", "say green"]}))
    args = ("run", "--task", "keyed", "--pool", pool, "--plugin", TOY, "--store", tmp_path / "runs", "--json")
    whole = harness(*args, "--selector", "shuffle", "--audit").rows[0]
    part = harness(*args, "--selector", "shuffle", "--n", 2).rows[0]
    assert (whole["disputed"], part["disputed"]) == (2, 1)


def test_a_cell_of_schema_2_is_still_read_with_its_one_total(cell_file):
    now = json.loads(cell_file.read_text())
    before = {name: value for name, value in copy.deepcopy(now).items() if name not in ("grader", "checksum")}
    before |= {"schema": 2, "disputed": 7, "hardware": {"machine": "x86_64", "system": "Linux", "cores": 2}}
    for entry in before["problems"]:
        del entry["disputed"]
    cell_file.write_text(json.dumps(before | {"checksum": cells.checksum(before)}))
    old = cells.row(cells.read(cell_file)).to_json()
    assert (old["disputed"], old["grader"]) == (7, "colours 1")
    new = cells.row(now).to_json()
    assert {name: old[name] for name in old if name != "disputed"} == {n: new[n] for n in new if n != "disputed"}


def test_a_row_comes_from_the_cells_file_alone(run, cell_file):
    outcome, _ = run("--selector", "spread")
    assert cells.row(cells.read(cell_file)).to_json() == outcome.rows[0]


def test_a_cell_written_again_is_the_same_file(cell_file, tmp_path):
    key = cells.write(tmp_path, cells.read(cell_file))
    assert (tmp_path / f"{key}.json").read_bytes() == cell_file.read_bytes()


def test_a_selector_that_failed_leaves_a_cell_with_its_reason_until_a_run_succeeds(run, tmp_path):
    fickle = tmp_path / "fickle.py"
    code = "from harness import hookimpl\nclass Fickle:\n    needs = ()\n    def rank(self, pool, rng):\n{}"
    code += "\n@hookimpl\ndef register_selectors(register):\n    register('fickle', Fickle)\n"
    fickle.write_text(code.format("        raise ValueError('not today')"))
    outcome, found = run("--selector", "fickle", "--plugin", fickle)
    cell = found["fickle", "none"]
    assert (outcome.code, outcome.rows) == (1, [])
    assert "raised ValueError: not today" in cell["failed"]
    assert cells.read(tmp_path / "runs" / "cells" / f"{cells.key_of(cell)}.json")["failed"] == cell["failed"]
    fickle.write_text(code.format("        yield from range(len(pool))"))
    outcome, _ = run("--selector", "fickle", "--plugin", fickle)
    assert outcome.code == 0
    assert "failed" not in cell_of(tmp_path / "runs", outcome.rows[0])


def edited(cell):
    cell["problems"][0]["ranks"][0] = 1
    return cell


def older(cell):
    return cell | {"schema": 1}


def newer(cell):
    return cell | {"schema": 99}


def forged(**changes):
    """An edit with a checksum to match."""

    def forge(cell):
        cell["problems"][0] |= changes
        return cell | {"checksum": cells.checksum(cell)}

    return forge


def of_another_trial_count(cell):
    cell["labels"]["trials"] = 4
    return cell | {"checksum": cells.checksum(cell)}


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (edited, "was edited or cut after it was measured"),
        (older, "of an older schema: run it again (1; this version reads 2 and 3)"),
        (newer, "of a newer schema: update diversity-harness (99; this version reads 2 and 3)"),
        (lambda cell: {"a": 1}, "is no cell"),
        (lambda cell: [cell], "is no cell"),
        (forged(c=99), "does not add up (ValueError: problem 'test/0': n, c or errors)"),
        (forged(ranks=[99] * 5), "does not add up (ValueError: problem 'test/0': ranks)"),
        (forged(ranks=[1] * 5, orders=[[0, 1]] * 5), "problem 'test/0': orders and ranks"),
        (forged(id="test/1"), "a problem occurs twice"),
        (forged(disputed=17), "problem 'test/0': disputed grades"),
        (lambda cell: without_disputed(cell), "problem 'test/0': disputed grades"),
        (of_another_trial_count, "problem 'test/0': trials"),
        (lambda cell: cells_without(cell, "inputs"), "does not add up (KeyError: 'inputs')"),
    ],
)
def test_a_file_that_cannot_be_trusted_is_named_in_one_line(cell_file, change, fault):
    cell_file.write_text(json.dumps(change(json.loads(cell_file.read_text()))))
    line = refusal_of(cells.read, cell_file)
    assert line.startswith(f"cell {cell_file}: ")
    assert fault in line


def without_disputed(cell):
    del cell["problems"][0]["disputed"]
    return cell | {"checksum": cells.checksum(cell)}


def cells_without(cell, name):
    del cell[name]
    return cell | {"checksum": cells.checksum(cell)}


def test_a_half_written_cell_and_a_renamed_one_are_named(cell_file, tmp_path):
    (tmp_path / "half.json").write_bytes(cell_file.read_bytes()[:300])
    with pytest.raises(HarnessError, match="cannot be read"):
        cells.read(tmp_path / "half.json")
    renamed = cell_file.rename(tmp_path / "mine.json")
    with pytest.raises(HarnessError, match="is named otherwise than its inputs"):
        cells.read(renamed)


# results/ and leaderboards.


@pytest.fixture
def results(toy, harness, tmp_path, monkeypatch):
    """results/ with six cells of two pools and one that failed, published by the command."""
    toy("--grid", "selector=spread+shuffle+head,embedder=hidden-mean+letters")
    toy("--selector", "spread", "--sampler", "nucleus:p=0.8")
    toy("--selector", "twice")
    outcome = harness(
        *("results", "publish", "--store", tmp_path / "runs", "--to", tmp_path / "results", "--plugin", TOY, "--json")
    )
    assert outcome.code == 0, outcome.err
    return tmp_path / "results"


def tables(harness, *folders, out):
    outcome = harness("leaderboard", *folders, "--out", out)
    assert outcome.code == 0, outcome.err
    return {name: (out / name).read_bytes() for name in leaderboard.NAMES}, outcome


def test_the_leaderboard_comes_back_byte_for_byte_however_the_cells_lie(harness, results, tmp_path):
    first, _ = tables(harness, results, out=results)
    for name in leaderboard.NAMES:
        (results / name).unlink()
    assert tables(harness, results, out=results)[0] == first
    paths = [path for path in results.rglob("*.json") if path.parent.name == "colours"]
    random.Random(0).shuffle(paths)
    for i, path in enumerate(paths):
        folder = tmp_path / "split" / str(i % 2) / f"deep{i}"
        folder.mkdir(parents=True)
        shutil.copy(path, folder)
    shutil.copytree(results / "conformance", tmp_path / "split" / "1" / "conformance")
    split = tables(harness, tmp_path / "split" / "1", tmp_path / "split" / "0", out=tmp_path / "out")[0]
    assert split == first


def test_the_published_tables_are_those_of_the_published_cells():
    found = leaderboard.gather([ROOT / "results"])
    assert found.faults == []
    assert len(found.measured) >= 20
    made = leaderboard.boards(found)
    assert (ROOT / "results" / "leaderboard.md").read_text() == leaderboard.markdown(made, [])
    assert (ROOT / "results" / "leaderboard.csv").read_text() == leaderboard.as_csv(made)
    assert (ROOT / "results" / "leaderboard.json").read_text() == leaderboard.as_json(made)


def test_each_pool_has_a_table_with_the_fewest_calls_first(harness, results):
    tables(harness, results, out=results)
    boards = json.loads((results / "leaderboard.json").read_text())
    assert [board["about"]["sampler"] for board in boards] == ["nucleus:p=0.8", "vanilla"]
    ranked = [row["samples_to_correct"] for row in boards[1]["rows"] if row["samples_to_correct"] is not None]
    assert ranked == sorted(ranked)
    assert boards[1]["rows"][-1]["selector"] == "head"  # a subset method has no samples-to-correct
    text = (results / "leaderboard.md").read_text()
    assert "| random (exact) |" in text
    assert "| anti-oracle |" in text


def test_figures_have_four_significant_digits(harness, results):
    tables(harness, results, out=results)
    for board in json.loads((results / "leaderboard.json").read_text()):
        for row in board["rows"]:
            for value in row.values():
                if isinstance(value, float):
                    assert value == float(f"{value:.4g}")


def test_the_badge_is_what_the_kit_says_of_the_selector(harness, results):
    def badges():
        tables(harness, results, out=results)
        boards = json.loads((results / "leaderboard.json").read_text())
        return {row["selector"]: row["conformance"] for board in boards for row in board["rows"]}

    found = badges()
    assert found["shuffle"].startswith("passes ")
    assert found["spread"].startswith("passes ")
    path = next(path for path in (results / "conformance").glob("*.json") if '"spread"' in path.read_text())
    path.write_text(json.dumps(json.loads(path.read_text()) | {"failed": ["permutation"]}))
    assert badges() == found | {"spread": "fails 1"}


def test_a_badge_of_another_kit_is_made_anew_where_the_selector_is_installed(harness, results, tmp_path):
    paths = sorted((results / "conformance").glob("*.json"))
    fresh = {path.name: path.read_text() for path in paths}
    for path in paths:
        path.write_text(json.dumps(json.loads(path.read_text()) | {"kit": "an older one", "passed": 1, "failed": []}))
    stale = ("results", "publish", "--store", tmp_path / "runs", "--to", results, "--json")
    assert {row["conformance"] for row in harness(*stale).rows} == {"passes 1"}  # nobody here can try them
    harness(*stale, "--plugin", TOY)
    assert {path.name: path.read_text() for path in paths} == fresh


def test_what_cannot_be_counted_is_named_and_the_rest_still_counts(harness, results):
    whole, _ = tables(harness, results, out=results)
    (results / "colours" / "broken.json").write_text('{"kind": "diversity-harness cell", "schema"')
    path = next((results / "colours").glob("[0-9a-f]*.json"))
    path.write_text(path.read_text().replace('"errors":0', '"errors":1', 1))
    after, outcome = tables(harness, results, out=results)
    assert outcome.err.count("not counted: cell ") == 2
    lines = [
        len(json.loads(text["leaderboard.json"])) and text["leaderboard.csv"].count(b"\n") for text in (whole, after)
    ]
    assert lines[1] == lines[0] - 1
    assert harness("results", "validate", results).code == 1
    path.unlink()
    (results / "colours" / "broken.json").unlink()
    assert harness("results", "validate", results).code == 0


def test_a_failed_cell_is_shown_with_its_reason_and_never_as_a_figure(harness, toy, results, tmp_path):
    failed = [path for path in (tmp_path / "runs" / "cells").glob("*.json") if '"failed"' in path.read_text()]
    assert len(failed) == 1
    assert not (results / "colours" / failed[0].name).exists()
    shutil.copy(failed[0], results)
    tables(harness, results, out=results)
    text = (results / "leaderboard.md").read_text()
    assert re.search(
        r"^- failed: twice: selector 'twice', problem 'test/\d', trial 0: index 0 was picked twice$", text, re.M
    )
    assert "| twice |" not in text


def test_publishing_what_is_not_there_or_failed_is_one_clear_line(harness, toy, tmp_path):
    store = tmp_path / "runs"
    outcome = harness("results", "publish", "--store", store)
    assert (outcome.code, outcome.err) == (
        2,
        f"error: results publish: {store}/cells holds no cells: `harness run` makes them\n",
    )
    toy("--selector", "twice")
    key = next((store / "cells").glob("*.json")).stem
    assert "no cell 'zzz' in" in harness("results", "publish", "zzz", "--store", store).err
    assert f"cell {key} failed (selector 'twice'" in harness("results", "publish", key[:6], "--store", store).err


def test_a_folder_that_is_not_there_is_one_clear_line(harness, tmp_path):
    outcome = harness("leaderboard", tmp_path / "nowhere")
    assert outcome.code == 2
    assert outcome.err.startswith(f"error: results {tmp_path}/nowhere: no such folder")


def test_names_in_a_table_stay_text():
    assert inert_text.markdown("a|b <script>`x`\n") == "a\\|b &lt;script&gt;'x' "
    hostile = "![x](http://evil/p.png) [=cmd|' /C calc'!A0](javascript:1) www.evil.org $x$ \\"
    shown = inert_text.markdown(hostile)
    assert shown.startswith(
        "\\!\\[x\\]\\(http:\\//evil/p.png\\) \\[=cmd\\|' /C calc'\\!A0\\]\\(javascript:1\\) www\\.evil"
    )
    assert re.search(r"(?<!\\)[\[\]()!|$]", shown) is None
    assert inert_text.markdown("repexp:lam=0.1,k=2 (x") == "repexp:lam=0.1,k=2 \\(x"


# Two cells.


def test_two_cells_are_compared_on_the_problems_that_they_share(harness, toy, tmp_path):
    first = toy("--selector", "spread").rows[0]
    second = toy("--selector", "shuffle", "--limit", 5).rows[0]
    value = harness("compare", first["cell"], second["cell"][:8], "--store", tmp_path / "runs", "--json").rows
    assert (value["problems"], value["left_out"]) == (5, 1)
    files = [cell_of(tmp_path / "runs", row) for row in (first, second)]
    ours, theirs = ({entry["id"]: sum(entry["ranks"]) / 5 for entry in file["problems"]} for file in files)
    differences = [ours[problem] - theirs[problem] for problem in theirs]
    assert value["difference"] == pytest.approx(sum(differences) / 5)
    assert {one["id"] for one in value["fewer"]} == {problem for problem in theirs if ours[problem] < theirs[problem]}
    assert {one["id"] for one in value["more"]} == {problem for problem in theirs if ours[problem] > theirs[problem]}
    shown = harness("compare", first["cell"], second["cell"], "--store", tmp_path / "runs").out
    assert "the first needs fewer on" in shown
    assert "1 that only one has left out" in shown


def test_a_cell_compared_with_itself_differs_nowhere(harness, toy, tmp_path):
    key = toy("--selector", "spread").rows[0]["cell"]
    value = harness("compare", key, key, "--store", tmp_path / "runs", "--json").rows
    assert (value["difference"], value["p"], value["fewer"], value["more"]) == (0, 1, [], [])


def test_a_subset_method_is_compared_by_its_hits_at_a_budget(harness, toy, tmp_path):
    spread, head = toy("--selector", "spread", "--selector", "head").rows
    value = harness("compare", spread["cell"], head["cell"], "--store", tmp_path / "runs", "--json").rows
    k = value["budget"]
    assert k == head["budget"] == spread["budget"]
    assert value["pass_at_budget"] == [pytest.approx(row["pass_at_k"][str(k)]) for row in (spread, head)]
    assert value["difference"] == pytest.approx(head["pass_at_k"][str(k)] - spread["pass_at_k"][str(k)])
    assert (value["samples_to_correct"], value["ratio"], value["ratio_ci"]) == (None, None, None)
    assert all(one["first"] > one["second"] for one in value["fewer"])  # shares of trials that hit
    shown = harness("compare", spread["cell"], head["cell"], "--store", tmp_path / "runs").out
    assert f"head (none): pass@{k} " in shown
    assert f"difference {-100 * value['difference']:+.2f} [" in shown
    assert "points; above 0 the first hits more" in shown


def test_what_cannot_be_compared_is_one_clear_line(harness, toy, tmp_path):
    def refusal(a, b):
        outcome = harness("compare", a, b, "--store", tmp_path / "runs")
        assert outcome.code == 2
        return outcome.err

    spread = toy("--selector", "spread").rows[0]["cell"]
    other = toy("--selector", "spread", "--split", "broken").rows[0]["cell"]
    few = toy("--selector", "spread", "--trials", 2).rows[0]["cell"]
    toy("--selector", "twice")
    failed = next(path for path in (tmp_path / "runs" / "cells").glob("*.json") if '"failed"' in path.read_text()).stem
    assert "have no problem in common" in refusal(spread, other)
    assert "the cells have 5 and 2 trials" in refusal(spread, few)
    assert f"cell {failed!r} failed (selector 'twice'" in refusal(failed, spread)
    assert "no file 'zzz', and no cell whose key begins so in results, " in refusal(spread, "zzz")
    assert "begins the keys of" in refusal(spread, "")


def test_a_key_is_looked_for_among_cells_alone(harness, toy, tmp_path):
    keys = [toy("--selector", name).rows[0]["cell"] for name in ("spread", "uniform")]
    badges = tmp_path / "runs" / "cells" / "conformance"
    badges.mkdir()
    (badges / f"{keys[0][:6]}0.json").write_text("{}")
    outcome = harness("compare", keys[0][:6], keys[1], "--store", tmp_path / "runs")
    assert outcome.code == 0, outcome.err


def test_an_id_that_no_utf_8_can_hold_is_kept_as_what_can(harness, tmp_path):
    line = '{"problem_id": "a\\ud83d", "responses": ["x", "y"], "correct": [true, false]}\n'
    (tmp_path / "pool.jsonl").write_text(line)
    outcome = harness("run", "--pool", tmp_path / "pool.jsonl", "--selector", "uniform", "--store", tmp_path / "runs")
    assert outcome.code == 0, outcome.err
    [path] = (tmp_path / "runs" / "cells").glob("*.json")
    assert json.loads(path.read_text())["problems"][0]["id"] == "a\ufffd"


def test_a_cell_written_entry_by_entry_has_the_bytes_and_the_row_of_one_written_whole(toy, tmp_path):
    rows = toy("--selector", "spread", "--selector", "head", "--split", "broken").rows
    for row in rows:
        path = tmp_path / "runs" / "cells" / f"{row['cell']}.json"
        whole = cells.read(path)
        assert cells.write(tmp_path / "again", whole) == row["cell"]
        assert (tmp_path / "again" / path.name).read_bytes() == path.read_bytes()
        assert json.loads(json.dumps(cells.row(whole).to_json())) == row
    assert not list((tmp_path / "runs" / "cells").glob(".*"))


def test_a_cell_that_cannot_be_finished_leaves_nothing(tmp_path, toy):
    [row] = toy("--selector", "spread").rows
    whole = cell_of(tmp_path / "runs", row)

    def entries():
        yield whole["problems"][0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cells.write(tmp_path / "cut", {**whole, "problems": entries()})
    assert list((tmp_path / "cut").iterdir()) == []
