"""Runs on a server of which some requests fail: the run goes on with a smaller N, and the next one asks again."""

import json
import re

import pytest
from support.openai_server import colour, none, run_colours, serving, short_pauses, status  # noqa: F401
from support.stores import cell_of, contents

from harness.columns import column

pytestmark = pytest.mark.usefixtures("short_pauses")


def kept(folder):
    """All complete files of responses, and the cells."""
    names = re.compile(r"/responses\.[^/]*/.*|cells/.*")
    return {name: content for name, content in contents(folder).items() if names.search(name) and ".part." not in name}


@pytest.mark.slow
def test_a_failed_request_is_not_in_n_and_the_next_run_asks_for_it_again_also_if_it_was_killed_meanwhile(
    harness, tmp_path, monkeypatch
):
    def killed(*args, **options):
        raise KeyboardInterrupt

    with serving(generate=colour, context=None) as (url, behaviour):

        def run(store):
            behaviour.bodies.clear()
            return run_colours(harness, tmp_path / store, url)

        whole = run("whole")
        behaviour.faults = [none] * 6 + [status(500)]  # the check, five rows, and the sixth row
        partial = run("partial")
        assert (whole.code, partial.code) == (0, 0), partial.err
        assert "1 of 40 responses did not come (500: overloaded (1 try)): 1 problem has a smaller N" in partial.err
        cell = cell_of(tmp_path / "partial", partial.rows[0])
        assert sorted(problem["n"] for problem in cell["problems"]) == [19, 20]
        assert [row["errors"] for row in partial.rows] == [0, 0]
        assert len(list((tmp_path / "partial").rglob("*.part.parquet"))) == 1
        write = column.write_parts
        for kind in ("responses", "verdicts"):  # killed while it fills in what came late
            with monkeypatch.context() as patched:

                def fails(path, *rest, kind=kind, **more):
                    return (killed if kind in path.parent.name else write)(path, *rest, **more)

                patched.setattr(column, "write_parts", fails)
                assert run("partial").code != 0
        again = run("partial")
        assert again.rows == whole.rows
        assert run("partial").rows == whole.rows
        assert behaviour.bodies == []
    assert kept(tmp_path / "partial") == kept(tmp_path / "whole")


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
    assert outcome.err.count("openai: the server takes no seeds (this pool cannot be sampled again)") == 1
    (pool,) = tmp_path.glob("*/pool.json")
    harness("pool", "export", pool.parent.name.rpartition(".")[2], "--out", tmp_path / "out.jsonl", "--store", tmp_path)
    exported = json.loads((tmp_path / "out.jsonl").read_text().splitlines()[0])
    assert exported["logprob_kind"] == "sum, as the server gives them"
