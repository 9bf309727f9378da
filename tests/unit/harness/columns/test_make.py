"""Only what is missing is made: what an edit changes, what a kill left, and what another process is sent."""

import json

import numpy as np
import pytest
from support.json_lines import write_json_lines
from support.paths import TOY
from support.stores import contents, files_of

LISTED = """
class Listed(Colours):
    n = 8
    def __init__(self, data=None):
        self.data = Path(data)
    def problems(self, split):
        return [Problem(*row) for row in json.loads(self.data.read_text())]
    def verify(self, problem, response):
        note("grade", problem.id)
        return correct() if response.endswith(problem.reference) else wrong()

class Noting(Parrot):
    def sample(self, request):
        note("sample", *(prompt[-1]["content"] for prompt in request.prompts))
        return super().sample(request)
"""


def test_an_edit_of_a_reference_a_prompt_or_the_grader_makes_anew_what_depends_on_it(toy, tmp_path, plugin, noted, new):
    rows = [["a", "Say red.", "red"], ["b", "Say green.", "green"], ["c", "Say blue.", "blue"]]
    data = tmp_path / "rows.json"

    def made(code=LISTED):
        data.write_text(json.dumps(rows))
        own = plugin(code, task=["Listed"], engine=["Noting"])
        outcome = toy(
            "--plugin", own, "--task", "listed", "--data", data, "--engine", "noting", "--selector", "uniform"
        )
        assert outcome.code == 0, outcome.err
        return sorted(set(noted())), new()

    every, graded = ("responses", "vectors", "verdicts", "orders", "choices"), ["grade a", "grade b", "grade c"]
    assert made()[0] == [*graded, "sample Say blue.", "sample Say red. Say green."]
    rows[1][2] = "grey"
    anew = {"verdicts": 1, "orders": 1, "choices": 1}  # the cell has the same name, and is written anew
    assert made() == (["grade b"], anew)
    rows[2][1] = "Say blue, please."
    assert made() == (["grade c", "sample Say blue, please."], dict.fromkeys(every, 1))
    rows[1][2], rows[2][1] = "green", "Say blue."
    assert made() == ([], {})
    assert made(LISTED + "# more") == (graded, {"verdicts": 3, "cells": 1})  # they are the same: nothing after them


TOGETHER = """
class Together(Parrot):
    '''Its states depend on who is sampled together. It breaks where a file beside this one says.'''
    def sample(self, request):
        around, ends = sum(seed % 1000 for seed in request.seeds), HERE / "ends"
        def done(j, responses):
            states = {"mean": responses.states["mean"] + np.float32(around / 1e6)}
            sampled.append(replace(responses, states=states))
            request.done(j, sampled[j])
            note("kept")
            if ends.exists() and len((HERE / "notes").read_text().splitlines()) == int(ends.read_text()):
                ends.unlink()
                raise MemoryError
        sampled = []
        super().sample(replace(request, done=done))
        return sampled
"""


def test_what_a_broken_call_or_a_lost_file_lacks_is_sampled_with_its_whole_call(harness, tmp_path, plugin, noted):
    own = plugin(TOGETHER, engine=["Together"])  # three of seven problems in a call
    fixed = ("run", "--task", "colours", "--data", "7", "--engine", "together:group=3", "--plugin", TOY)
    command = (*fixed, "--plugin", own, "--selector", "spread", "--store")
    assert harness(*command, tmp_path / "whole").code == 0
    whole = contents(tmp_path / "whole")
    noted()
    (tmp_path / "plugins" / "ends").write_text("5")
    with pytest.raises(MemoryError):
        harness(*command, tmp_path / "runs")
    assert len(files_of(tmp_path / "runs", "responses")) == 5
    assert harness(*command, tmp_path / "runs").code == 0
    assert contents(tmp_path / "runs") == whole
    noted()
    path = files_of(tmp_path / "runs", "responses")[4]
    others = {each: each.stat().st_ino for each in (tmp_path / "runs").rglob("*.*.*.*") if each != path}
    path.unlink()
    assert "pool: reused for 6 of 7 problems" in harness(*command, tmp_path / "runs").err
    assert (len(noted()), contents(tmp_path / "runs")) == (3, whole)
    changed = [each for each, inode in others.items() if each.stat().st_ino != inode]
    assert [each.parent.name.partition(".")[0] for each in changed] == ["vectors"]  # of the problem itself


SENT = """
class Heavy(Parrot):
    def sample(self, request):
        self.weights = np.zeros(1 << 20)
        return super().sample(request)

class Sending:
    '''Pickles each call, as Ray does, and makes it here.'''
    def map(self, function, items, uses_model):
        import pickle
        for item in items:
            sent = pickle.dumps((function, item))
            note(len(sent))
            made, its = pickle.loads(sent)
            yield made(its)
"""


def test_another_process_is_sent_specs_and_never_weights_pools_or_vectors(harness, tmp_path, plugin, noted):
    own = plugin(SENT, engine=["Heavy"], executor=["Sending"])
    lines = [{"problem_id": f"p{i}", "responses": ["a", "b", "c"], "correct": [i > 0, True, False]} for i in range(2)]
    pool = write_json_lines(tmp_path / "pool.jsonl", lines)
    np.savez(tmp_path / "own.npz", **{f"p{i}": np.eye(3, 4096) for i in range(2)})
    sampled = ("--task", "colours", "--data", 2, "--engine", "heavy")
    for place, options in enumerate([sampled, ("--pool", pool, "--embeddings", tmp_path / "own.npz")]):
        here, there = tmp_path / f"here{place}", tmp_path / f"there{place}"
        command = ("run", "--plugin", TOY, "--plugin", own, "--selector", "spread", "--json", *options)
        outcome = harness(*command, "--store", here)
        sent = harness(*command, "--store", there, "--executor", "sending")
        assert (sent.rows, contents(there)) == (outcome.rows, contents(here))
        assert max(map(int, noted())) < 20_000
