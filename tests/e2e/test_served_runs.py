"""Runs on a server of which some requests fail: the run goes on with a smaller N, and the next one asks again."""

import json
import re

import pytest
from support.openai_client import colour, of_first_row, run_colours, sample, short_pauses  # noqa: F401
from support.openai_server import none, serving, status
from support.stores import cell_of, contents

from harness.columns import column

pytestmark = pytest.mark.usefixtures("short_pauses")
SEVENTH_FAILS = [none] * 6 + [status(500)]  # the check, five rows, and the sixth row


@pytest.fixture(scope="module")
def server():
    """A server for the toy task."""
    with serving(generate=colour, context=None) as served:
        yield served


@pytest.fixture
def run(server, harness, tmp_path):
    """Run the toy task on a server in order: `run(store)` is the outcome and the requests that it took."""
    url, behaviour = server
    behaviour.faults, behaviour.fault = [], None

    def call(store="runs", **options):
        behaviour.bodies.clear()
        outcome = run_colours(harness, tmp_path / store, url, **options)
        return outcome, len(behaviour.bodies)

    return call


@pytest.fixture
def faults(server):
    return server[1].faults


def kept(folder):
    """All complete files of responses, and the cells."""
    names = re.compile(r"/responses\.[^/]*/.*|cells/.*")
    return {name: content for name, content in contents(folder).items() if names.search(name) and ".part." not in name}


@pytest.mark.slow
def test_a_failed_request_is_not_in_n_and_the_next_run_asks_for_it_again(run, faults, tmp_path):
    whole, _ = run("whole")
    faults += SEVENTH_FAILS
    partial, _ = run("partial")
    assert (whole.code, partial.code) == (0, 0), partial.err
    assert "1 of 40 responses did not come (500: overloaded (1 try)): 1 problem has a smaller N" in partial.err
    assert sorted(problem["n"] for problem in cell_of(tmp_path / "partial", partial.rows[0])["problems"]) == [19, 20]
    assert [row["errors"] for row in partial.rows] == [0, 0]
    assert len(list((tmp_path / "partial").rglob("*.part.parquet"))) == 1
    for expected in (2, 0):  # the check, and the row; then nothing
        again, requests = run("partial")
        assert requests == expected
        assert again.rows == whole.rows
    assert kept(tmp_path / "partial") == kept(tmp_path / "whole")


@pytest.mark.slow
def test_a_run_killed_while_it_fills_in_what_came_late_goes_on(run, faults, tmp_path, monkeypatch):
    def killed(*args, **options):
        raise KeyboardInterrupt

    faults += SEVENTH_FAILS
    assert run("late")[0].code == 0
    write = column.write_parts
    for kind in ("responses", "verdicts"):
        with monkeypatch.context() as patched:

            def fails(path, *rest, kind=kind, **more):
                return (killed if kind in path.parent.name else write)(path, *rest, **more)

            patched.setattr(column, "write_parts", fails)
            assert run("late")[0].code != 0
    late, whole = run("late")[0], run("whole")[0]
    assert late.rows == whole.rows
    assert kept(tmp_path / "late") == kept(tmp_path / "whole")


def test_a_run_takes_the_model_that_is_served_says_what_it_lacks_and_exports_its_kind_of_log_probabilities(
    harness, tmp_path
):
    with serving(model="another", context=None, owner="someone", refuses=("seed",)) as (url, behaviour):
        command = ("--task", "game24", "--engine", f"openai:url={url}", "--limit", 1, "--n", 2, "--embedder", "tfidf")
        outcome = harness("run", *command, "--selector", "repexp", "--store", tmp_path, "--json")
    assert outcome.code == 0, outcome.err
    (row,) = outcome.rows
    assert (row["engine"], row["model"], row["embedder"], row["n"]) == ("openai", "another", "tfidf", 2)
    assert {body["model"] for body in behaviour.bodies} == {"another"}  # not the task's own
    line = "openai: the server takes no seeds (this pool cannot be sampled again)"
    assert outcome.err.splitlines().count(line) == 1
    (pool,) = tmp_path.glob("*/pool.json")
    harness("pool", "export", pool.parent.name.rpartition(".")[2], "--out", tmp_path / "out.jsonl", "--store", tmp_path)
    exported = json.loads((tmp_path / "out.jsonl").read_text().splitlines()[0])
    assert exported["logprob_kind"] == "sum, as the server gives them"
