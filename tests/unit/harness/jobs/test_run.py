"""The main job on the toy engine: what is made, what is reused, what a failure leaves."""

import io
import json

import pytest
from support.paths import TOY
from support.stores import all_cells, cell_of, contents, files_of

from harness.columns.store import read
from harness.jobs import run as pipeline
from harness.jobs.options import RunConfig
from harness.results.rows import row
from harness.system.progress import Progress


def test_a_run_makes_a_row_a_selector_from_one_pool_and_a_cell_that_says_what_made_it(toy, tmp_path):
    outcome = toy("--selector", "shuffle:offset=2", "--selector", "spread", "--dim", "3", "--sampler", "nucleus:p=0.8")
    assert outcome.code == 0, outcome.err
    assert [row["selector"] for row in outcome.rows] == ["shuffle:offset=2", "spread"]
    assert [row["embedder"] for row in outcome.rows] == ["none", "hidden-mean"]
    assert {(row["n"], row["problems"], row["task"], row["model"]) for row in outcome.rows} == {
        (16, 6, "colours", "parrot")
    }
    made = [cell_of(tmp_path / "runs", row) for row in outcome.rows]
    beside = [{name: value for name, value in row.items() if name != "controls"} for row in outcome.rows]
    assert [json.loads(json.dumps(row(cell).to_json())) for cell in made] == beside
    inputs = made[0]["inputs"]
    assert inputs["pool"]["engine"] == {"engine": "toy", "model": "parrot"}
    assert inputs["pool"]["sampler"]["top_p"] == 0.8
    assert inputs["ranking"]["selector"]["params"] == {"offset": 2}
    assert made[1]["inputs"]["embedding"]["dim"] == 3
    assert any(len(set(entry["ranks"])) > 1 for entry in made[0]["problems"])
    pools = [read(path)["text"].to_pylist() for path in files_of(tmp_path / "runs", "responses")]
    assert len(set(map(tuple, pools))) == len(pools) == 6  # each problem has a stream of its own
    assert {read(path).shape for path in files_of(tmp_path / "runs", "vectors")} == {(16, 3)}


@pytest.mark.slow
def test_what_is_in_the_store_is_not_made_again(toy):
    toy("--selector", "shuffle", "--limit", "4")
    outcome = toy("--selector", "spread")
    for stage in ("pool", "embeddings", "verdicts"):
        assert f"{stage}: reused for 4 of 6 problems" in outcome.err
    assert "sample: 32 responses in" in outcome.err
    again = toy("--selector", "spread")
    assert "rankings of spread: reused for 6 of 6 problems" in again.err
    assert [word for word in ("sample:", "embed:", "verify:", "rank spread:") if word in again.err] == []
    assert again.rows == outcome.rows


@pytest.mark.slow
def test_a_broken_selector_fails_alone_and_its_cell_says_why_until_a_run_succeeds(toy, tmp_path):
    plugin = tmp_path / "fickle.py"
    code = "from harness import hookimpl\nclass Fickle:\n    needs = ()\n    def rank(self, pool, rng):\n{}"
    code += "\n@hookimpl\ndef register_selectors(register):\n    register('fickle', Fickle)\n"
    plugin.write_text(code.format("        raise ValueError('not today')"))
    both = ("--selector", "fickle", "--selector", "shuffle", "--plugin", plugin)
    outcome = toy(*both)
    assert (outcome.code, [row["selector"] for row in outcome.rows]) == (1, ["shuffle"])
    [line] = [line for line in outcome.err.splitlines() if line.startswith("failed: ")]
    assert "selector 'fickle', problem 'test/0', trial 0: raised ValueError: not today (fickle.py:" in line
    reasons = [cell.get("failed") for cell in all_cells(tmp_path / "runs")]
    assert sorted(reason is None for reason in reasons) == [False, True]
    plugin.write_text(code.format("        yield from range(len(pool))"))  # and an edited plugin is loaded anew
    outcome = toy(*both)
    assert (outcome.code, len(outcome.rows)) == (0, 2)
    first = cell_of(tmp_path / "runs", outcome.rows[0])
    plugin.write_text(code.format("        yield from range(len(pool))[::-1]"))
    assert cell_of(tmp_path / "runs", toy(*both).rows[0])["problems"] != first["problems"]


def test_a_damaged_file_is_made_again_with_a_line_and_a_costly_one_ends_the_run(toy, tmp_path):
    rows, before = toy("--selector", "spread").rows, contents(tmp_path / "runs")
    for kind, ends in (("orders", False), ("verdicts", False), ("responses", True)):
        for path in (tmp_path / "runs" / "cells").iterdir():  # or nothing would be read
            path.unlink()
        one, other, *_ = files_of(tmp_path / "runs", kind)
        one.write_bytes(other.read_bytes())
        outcome = toy("--selector", "spread", *(["--embedder", "letters"] if ends else []))
        if ends:
            assert outcome.err.splitlines()[-1].endswith(
                f"{one} is damaged: delete it, and the same command makes it again"
            )
        else:
            assert f"{one} is damaged: it is made again\n" in outcome.err
            assert (outcome.rows, contents(tmp_path / "runs")) == (rows, before)


def test_a_dry_run_counts_what_it_would_make_and_makes_nothing(toy, tmp_path):
    outcome = toy("--selector", "shuffle", "--dry-run")
    assert "to do: 1 cell, 6 problems, 96 responses to sample" in outcome.err
    stages = outcome.rows
    assert [(row["stage"], row["there"], row["to_make"]) for row in stages] == [
        (name, 0, 6) for name in ("sample", "embed", "verify", "rank shuffle")
    ]
    assert not (tmp_path / "runs").exists()
    toy("--selector", "shuffle", "--limit", "4")
    assert [(row["there"], row["to_make"]) for row in toy("--selector", "shuffle", "--dry-run").rows] == [(4, 2)] * 4
    stages = [row["stage"] for row in toy("--selector", "spread", "--dry-run").rows]
    assert stages[-4:] == ["rank spread", "rank length", "rank length:first=long", "rank norm"]  # controls are counted


def run_with(plugin, store, **options):
    """What a run shows whose plugin is this file."""
    shown = io.StringIO()
    config = RunConfig(selectors=("shuffle",), store=store, plugin_files=(plugin,), **{"engine": "toy", **options})
    pipeline.run(config, Progress(shown))
    return shown.getvalue()


@pytest.mark.parametrize(
    ("before", "after", "reused"),
    [('wrong("colour")', 'wrong("another colour")', True), ("Say colour", "Name colour", False)],
)
def test_another_grader_grades_the_same_pool_and_another_prompt_makes_another(tmp_path, before, after, reused):
    run_with(TOY, tmp_path / "runs", task="colours")
    changed = tmp_path / "toy.py"
    changed.write_text(TOY.read_text().replace(before, after))
    shown = run_with(changed, tmp_path / "runs", task="colours")
    assert ("pool: reused for 6 of 6 problems" in shown) == reused
    assert "verdicts: reused" not in shown
    assert len(files_of(tmp_path / "runs", "responses")) == (6 if reused else 12)


def test_a_model_without_a_chat_template_is_given_plain_text(tmp_path):
    run_with(TOY, tmp_path, task="keyed", engine="base", n=2, limit=1)
    [path] = files_of(tmp_path, "responses")
    assert set(read(path)["text"].to_pylist()) == {"Say colour 0 (test). I say"}


@pytest.fixture
def keyed(harness, tmp_path):
    """Run the keyed toy task, which has conditions of grading and a second grader."""

    def call(*args):
        fixed = ("--task", "keyed", "--selector", "shuffle", "--plugin", TOY, "--store", tmp_path / "runs", "--json")
        return harness("run", *fixed, *(() if "--pool" in args else ("--engine", "toy")), *args)

    return call


@pytest.mark.slow
def test_a_machine_that_cannot_grade_is_refused_before_the_first_response(keyed, tmp_path):
    outcome = keyed("--data", "13")
    assert outcome.code == 2
    assert "nothing here confines 13 colours" in outcome.err
    assert not list(tmp_path.rglob("*.parquet"))
    graded = keyed("--data", "13", "--unsafe-exec")
    assert graded.rows[0]["conditions"] == {"room": ["1"]}
    assert "keyed: grading in room 0" in graded.err
    assert "room" not in keyed("--data", "13").err  # nothing to grade: nothing to check


@pytest.mark.slow
def test_what_was_audited_stays_in_the_row(keyed, tmp_path):
    plain, audited, again = keyed().rows[0], keyed("--audit"), keyed().rows[0]
    [cell] = all_cells(tmp_path / "runs")
    counts = [entry["disputed"] for entry in cell["problems"]]
    assert plain["disputed"] is None
    assert audited.rows[0]["disputed"] == again["disputed"] == sum(counts) > 0
    key = cell["inputs"]["pool"]["key"]
    total = sum(entry["n"] for entry in cell["problems"])
    assert f"audit: {sum(counts)} of {total} verdicts disputed; `harness pool audit {key}` lists them" in audited.err
    assert "audits: reused for 6 of 6 problems" in keyed("--audit").err
