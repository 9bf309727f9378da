"""Only what is missing is made: what an edit changes, what a kill left, and what another process is sent."""

import json
import shutil
import signal

import numpy as np
import pytest
from support.json_lines import write_json_lines
from support.paths import TOY
from support.processes import harness_command, run_to_end
from support.stores import contents, files_of

EVERY = ("responses", "vectors", "verdicts", "orders", "choices")


def edited(path, before, after):
    text = path.read_text()
    assert text.count(before) == 1
    path.write_text(text.replace(before, after))


# What an edit changes.


def test_another_docstring_in_a_grader_makes_the_same_verdicts_again_and_nothing_after_them(harness, tmp_path, new):
    plugin = shutil.copy(TOY, tmp_path / "toy.py")
    run = ("run", "--task", "colours", "--engine", "toy", "--plugin", plugin, "--store", tmp_path / "runs", "--json")
    before = harness(*run, "--selector", "uniform").rows
    assert new() == dict.fromkeys(EVERY, 6) | {"cells": 1}
    edited(plugin, "Problem i is solved by saying", "One solves problem i by saying")
    after = harness(*run, "--selector", "uniform")
    assert new() == {"verdicts": 6, "cells": 1}  # a cell says by which code its verdicts were made
    assert [{**row, "cell": ""} for row in after.rows] == [{**row, "cell": ""} for row in before]
    edited(plugin, "correct() if self.answer(problem, response) == problem.reference", "correct() if response")
    assert harness(*run, "--selector", "uniform").rows != before
    assert new() == dict.fromkeys(("verdicts", "orders", "choices"), 6) | {"cells": 1}


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


def test_another_reference_grades_and_another_prompt_samples_that_problem_only(harness, tmp_path, plugin, noted, new):
    rows = [["a", "Say red.", "red"], ["b", "Say green.", "green"], ["c", "Say blue.", "blue"]]
    data, own = tmp_path / "rows.json", plugin(LISTED, task=["Listed"], engine=["Noting"])

    def run():
        data.write_text(json.dumps(rows))
        plugins = ("--plugin", TOY, "--plugin", own, "--store", tmp_path / "runs")
        outcome = harness(
            "run", "--task", "listed", "--data", data, "--engine", "noting", *plugins, "--selector", "uniform"
        )
        assert outcome.code == 0, outcome.err
        return sorted(set(noted()))

    assert run() == ["grade a", "grade b", "grade c", "sample Say blue.", "sample Say red. Say green."]
    new()
    rows[1][2] = "grey"
    assert run() == ["grade b"]
    assert new() == {"verdicts": 1, "orders": 1, "choices": 1}  # the cell has the same name, and is written anew
    rows[2][1] = "Say blue, please."
    assert run() == ["grade c", "sample Say blue, please."]
    assert new() == dict.fromkeys(EVERY, 1)
    rows[1][2], rows[2][1] = "green", "Say blue."
    assert run() == []
    assert new() == {}


def test_an_edited_line_of_own_problems_concerns_that_problem_only(harness, tmp_path, new):
    lines = [{"id": name, "prompt": f"Which {name}?", "reference": f"say {name}"} for name in ("red", "green", "blue")]
    path = tmp_path / "own.jsonl"

    def run():
        write_json_lines(path, lines)
        task = ("--task", f"own:file={path},grader=exact", "--engine", "toy", "--plugin", TOY, "--n", "8")
        outcome = harness("run", *task, "--store", tmp_path / "runs", "--selector", "uniform")
        assert outcome.code == 0, outcome.err
        return outcome.err

    run()
    new()
    lines[1]["reference"] = "say grey"
    shown = run()
    assert "pool: reused for 3 of 3 problems" in shown
    assert "verdicts: reused for 2 of 3 problems" in shown
    assert new() == {"verdicts": 1, "orders": 1, "choices": 1, "cells": 1}
    lines[0]["prompt"] = "Which colour?"
    assert "pool: reused for 2 of 3 problems" in run()
    assert new() == dict.fromkeys(EVERY, 1) | {"cells": 1}


SHARED = """
class Each(Parrot):
    '''Row i says a word and its number.'''

    def sample(self, request):
        silent = replace(request, done=lambda j, responses: None)
        return [
            replace(each, texts=[f"{row} {text}" for row, text in enumerate(each.texts)])
            for each in super().sample(silent)
        ]


class Keyed(Colours):
    def verify(self, problem, response):
        note(response.split()[0])
        return super().verify(problem, response)

    def verdict_key(self, problem, response, answer, *, finish):
        return response


class Runs(Colours):
    runs_answers = True

    def run_answers(self, problem, responses, *, finish):
        from harness.contracts import Ran

        for response in responses:
            note(response.split()[0])
        return [Ran(response.split()[-1], 0.5) for response in responses]


class Measures(Measured, Colours):
    pools_as = "measures"
    measured_together = 2

    def __init__(self, data=None, most: int = 10):
        super().__init__(data)
        self.most = most

    def measurer(self):
        return self

    def identity(self):
        return {"measurer": "letters"}

    def measurable(self, problem, responses):
        return responses

    def measure(self, texts):
        note(*(text.split()[0] for text in texts))
        return [{"letters": len(text)} for text in texts]

    def judge(self, problem, response, measurements):
        return correct() if measurements["letters"] < self.most else wrong()
"""


@pytest.fixture
def shares(harness, tmp_path, plugin, noted):
    """Run a task of `SHARED`; the outcome, and what its costly part was asked."""
    own = plugin(SHARED, task=["Keyed", "Runs", "Measures"], engine=["Each"])
    own.write_text(own.read_text().replace("'keyed'", "'own-keyed'"))

    def call(task, *options):
        fixed = ("--engine", "each", "--plugin", TOY, "--plugin", own, "--data", "2", "--store", tmp_path / "runs")
        outcome = harness("run", "--task", task, *fixed, "--selector", "uniform", "--json", *options)
        assert outcome.code == 0, outcome.err
        return outcome, noted()

    return call


@pytest.mark.parametrize(
    ("task", "first", "more"),
    [
        ("own-keyed", list("0123"), ["4", "5"]),
        ("runs", list("0123"), ["4", "5"]),
        ("measures", ["0 1", "2 3"], ["4 5"]),
    ],
)
def test_another_pool_with_the_same_responses_asks_for_what_is_new_alone(shares, task, first, more):
    assert shares(task, "--n", "4")[1] == first * 2  # two problems
    assert shares(task, "--n", "6")[1] == more * 2
    assert shares(task, "--n", "3")[1] == []


def test_another_threshold_measures_nothing_again(shares, new):
    (before, measured), _ = shares("measures", "--n", "4"), new()
    assert len(measured) == 4
    after, measured = shares("measures:most=11", "--n", "4")
    assert measured == []
    assert new()["verdicts"] == 2
    assert after.rows != before.rows


# What a kill left.

TOGETHER = """
class Together(Parrot):
    '''Its states depend on who is sampled together. It ends its process where a file beside this one says.'''

    def sample(self, request):
        around, ends = sum(seed % 1000 for seed in request.seeds), HERE / "ends"

        def done(j, responses):
            states = {"mean": responses.states["mean"] + np.float32(around / 1e6)}
            request.done(j, replace(responses, states=states))
            sampled[j] = replace(responses, states=states)
            note("kept")
            if ends.exists() and len((HERE / "notes").read_text().splitlines()) == int(ends.read_text()):
                ends.unlink()
                if hard:
                    os.kill(os.getpid(), signal.SIGKILL)
                raise MemoryError

        sampled, hard = {}, not (HERE / "softly").exists()
        super().sample(replace(request, done=done))
        return list(sampled.values())
"""


@pytest.fixture
def together(harness, tmp_path, plugin):
    """The options of a run that samples three of seven problems in a call, and what an unkilled run leaves."""
    own = plugin(TOGETHER, engine=["Together"])
    fixed = ("run", "--task", "colours", "--data", "7", "--engine", "together:group=3", "--plugin", TOY)
    run = (*fixed, "--plugin", own, "--selector", "spread", "--store")
    assert harness(*run, tmp_path / "whole").code == 0
    (tmp_path / "plugins" / "notes").unlink()
    return run, contents(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.parametrize("kept", [2, 4, 5])
def test_a_run_killed_between_two_problems_of_a_call_continues_to_the_same_files(harness, tmp_path, together, kept):
    run, whole = together
    (tmp_path / "plugins" / "ends").write_text(str(kept))
    assert run_to_end(harness_command(*run, tmp_path / "runs")).returncode == -signal.SIGKILL
    assert [len(files_of(tmp_path / "runs", kind)) for kind in ("responses", "vectors")] == [kept, kept]
    assert harness(*run, tmp_path / "runs").code == 0
    assert contents(tmp_path / "runs") == whole


def test_an_engine_that_raises_between_two_problems_of_a_call_leaves_what_a_kill_leaves(harness, tmp_path, together):
    run, whole = together
    (tmp_path / "plugins" / "softly").touch()
    (tmp_path / "plugins" / "ends").write_text("5")
    with pytest.raises(MemoryError):
        harness(*run, tmp_path / "runs")
    assert len(files_of(tmp_path / "runs", "responses")) == 5
    assert harness(*run, tmp_path / "runs").code == 0
    assert contents(tmp_path / "runs") == whole


def test_a_call_that_lacks_a_problem_is_sampled_whole_and_what_it_has_is_not_written_again(harness, tmp_path, together):
    run, whole = together
    path = files_of(tmp_path / "whole", "responses")[4]
    others = [each for each in (tmp_path / "whole").rglob("*.*.*.*") if each != path]
    before = {each: each.stat().st_ino for each in others}
    path.unlink()
    outcome = harness(*run, tmp_path / "whole")
    assert "pool: reused for 6 of 7 problems" in outcome.err
    assert len((tmp_path / "plugins" / "notes").read_text().splitlines()) == 3
    assert contents(tmp_path / "whole") == whole
    changed = [each for each in others if each.stat().st_ino != before[each]]
    assert [each.parent.name.partition(".")[0] for each in changed] == ["vectors"]  # of the problem itself


# What another process is sent.

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
            for _ in range(2):
                sent = pickle.dumps((function, item))
            note(len(sent))
            made, its = pickle.loads(sent)
            yield made(its)


class Elsewhere:
    '''Makes models' columns in a process of its own.'''

    def map(self, function, items, uses_model):
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor

        if not uses_model:
            return map(function, items)
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            return list(pool.map(function, items))


class Placed(Parrot):
    def identity(self):
        import multiprocessing

        return {"engine": "placed", "device": "cpu" if multiprocessing.parent_process() else "cuda"}
"""


def test_components_are_sent_by_their_specs_and_never_with_what_they_have_loaded(toy, tmp_path, plugin, noted):
    own = plugin(SENT, engine=["Heavy"], executor=["Sending"])
    options = ("--engine", "heavy", "--selector", "spread", "--selector", "shuffle", "--trials", "2")
    here = toy(*options, "--plugin", own, store=tmp_path / "here")
    there = toy(*options, "--plugin", own, "--executor", "sending")
    assert there.rows == here.rows
    assert contents(tmp_path / "runs") == contents(tmp_path / "here")
    sizes = list(map(int, noted()))
    assert len(sizes) == 3 + (4 + 3) * 6  # with the orders of three controls
    assert max(sizes) < 20_000


def test_of_a_pool_file_and_own_vectors_no_other_process_is_sent_a_line(harness, tmp_path, plugin, noted):
    own = plugin(SENT, executor=["Sending"])
    lines = [{"problem_id": f"p{i}", "responses": ["a", "b", "c"], "correct": [i > 0, True, False]} for i in range(2)]
    pool = write_json_lines(tmp_path / "pool.jsonl", lines)
    np.savez(tmp_path / "own.npz", **{f"p{i}": np.eye(3, 4096) for i in range(2)})
    fixed = ("run", "--pool", pool, "--embeddings", tmp_path / "own.npz", "--plugin", TOY, "--plugin", own, "--json")
    run = (*fixed, "--selector", "spread")
    here = harness(*run, "--store", tmp_path / "here")
    there = harness(*run, "--store", tmp_path / "runs", "--executor", "sending")
    assert (here.code, there.rows) == (0, here.rows)
    assert contents(tmp_path / "runs") == contents(tmp_path / "here")
    assert max(map(int, noted())) < 20_000


@pytest.mark.slow
def test_a_worker_that_builds_another_model_than_planned_says_so(toy, plugin):
    own = plugin(SENT, engine=["Placed"], executor=["Elsewhere"])
    outcome = toy("--engine", "placed", "--selector", "uniform", "--plugin", own, "--executor", "elsewhere")
    assert (outcome.code, outcome.out) == (2, "")
    [line] = [line for line in outcome.err.splitlines() if line.startswith("error: ")]
    assert "it would be another than where the run was started: name what differs" in line
