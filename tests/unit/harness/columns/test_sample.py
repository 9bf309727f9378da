"""Sampling: a problem's responses are kept once they are finished, vectors before texts, and nothing is kept twice."""

from dataclasses import replace

import pytest
from support.models import States, group_of, model_work, models
from support.refusals import refusal_of
from support.toy import Parrot
from support.works import work_in

from harness import Problem
from harness.stages.sample import sample, sample_missing
from harness.stages.work import problem_seed
from harness.store import missing_rows, shards

PROBLEMS = [Problem(f"p{i}", f"Say {i}.") for i in range(3)]


class Told:
    """A report of rows and tokens."""

    def __init__(self):
        self.rows = self.count = 0

    def __call__(self, rows):
        self.rows += rows

    def tokens(self, count):
        self.count += count


class Recorded(Parrot):
    """A parrot that keeps its requests, and loses the rows of `lost` (prompt -> rows) of the first request."""

    def __init__(self, lost=None, **options):
        super().__init__(**options)
        self.requests, self.lost = [], lost or {}

    def sample(self, request):
        self.requests.append(request)
        sampled = super().sample(replace(request, done=lambda j, responses: None))
        given = [self._without(responses, j, request) for j, responses in enumerate(sampled)]
        for j, responses in enumerate(given):
            request.done(j, responses)
        return given

    def _without(self, responses, j, request):
        if request.rows is not None:
            return self._part(responses, request.rows[j], {})
        lost = self.lost.get(request.prompts[j][0]["content"], [])
        return self._part(responses, [row for row in range(request.n) if row not in lost], dict.fromkeys(lost, "busy"))

    def _part(self, responses, rows, missing):
        columns = {name: [getattr(responses, name)[row] for row in rows] for name in ("texts", "finish", "token_ids")}
        arrays = {name: getattr(responses, name)[rows] for name in ("lengths", "logprobs")}
        states = {"mean": responses.states["mean"][rows]}
        return replace(responses, **columns, **arrays, states=states, missing=missing)


@pytest.fixture
def work(tmp_path):
    work = work_in(tmp_path, seed=5)
    work.pool.begin()
    return work


def run(work, engine, problems=PROBLEMS, step=sample, embedder=None):
    """Call a step of sampling; the numbers of rows that it reported."""
    reported = []
    step(model_work(work), models(engine, embedder), group_of(problems), reported.append)
    return reported


def texts(work):
    return [shards.read_responses(work.pool.path(problem)).texts for problem in PROBLEMS]


class Telling(Recorded):
    """A parrot that counts its tokens."""

    def sample(self, request):
        request.tokens(3 * request.n * len(request.prompts))
        return super().sample(request)


def test_tokens_reach_a_report_that_counts_them_and_no_other(work, tmp_path):
    told = Told()
    sample(model_work(work), models(Telling(), None), group_of(PROBLEMS), told)
    assert (told.rows, told.count) == (9, 27)
    other = work_in(tmp_path / "other", seed=5)
    other.pool.begin()
    assert sum(run(other, Telling())) == 9


def test_each_problem_is_sampled_from_a_seed_of_its_own_and_kept(work):
    engine = Recorded()
    assert run(work, engine) == [0, 3, 3, 3]
    [request] = engine.requests
    assert request.seeds == [problem_seed("sample", 5, problem) for problem in PROBLEMS]
    assert [prompt[0]["content"] for prompt in request.prompts] == ["Say 0.", "Say 1.", "Say 2."]
    assert (request.n, request.max_tokens, request.rows, request.states) == (3, 8, None, [])
    alone = Parrot().sample(replace(request, done=lambda j, responses: None))
    assert texts(work) == [responses.texts for responses in alone]


def test_only_problems_without_a_shard_are_sampled(work):
    run(work, Recorded(), PROBLEMS[1:2])
    engine = Recorded()
    assert run(work, engine) == [3, 3, 3]  # what is there is reported first
    assert [prompt[0]["content"] for prompt in engine.requests[0].prompts] == ["Say 0.", "Say 2."]
    assert run(work, engine) == [9]
    assert len(engine.requests) == 1


def test_problems_that_were_finished_before_the_engine_failed_are_kept(work):
    class Failing(Recorded):
        def sample(self, request):
            super().sample(replace(request, prompts=request.prompts[:2], seeds=request.seeds[:2]))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(work, Failing())
    assert work.pool.missing(PROBLEMS) == PROBLEMS[2:]


def test_vectors_come_with_the_responses_and_are_written_first(work, monkeypatch):
    written = []
    for name in ("write_vectors", "write_responses"):
        write = getattr(shards, name)

        def recorded(path, *arguments, write=write):
            written.append(path.suffix)
            write(path, *arguments)

        monkeypatch.setattr(shards, name, recorded)
    engine = Recorded()
    run(work, engine, embedder=States())
    assert engine.requests[0].states == ["mean"]
    assert written == [".safetensors", ".parquet"] * 3
    vectors = shards.read_vectors(work.embeddings.path(PROBLEMS[0]))
    assert vectors.shape == (3, 8)


def test_states_for_other_runs_are_kept_from_the_same_pass_each_in_its_own_stage(work):
    class TwoStates(Recorded):
        def _part(self, responses, rows, missing):
            made = super()._part(responses, rows, missing)
            return replace(made, states=made.states | {"last": -made.states["mean"]})

    last, engine = replace(work.embeddings, folder=work.embeddings.folder.with_name("last")), TwoStates()
    todo = replace(model_work(work), more_states=[("last", last)])
    sample(todo, models(engine, States()), group_of(PROBLEMS), lambda rows: None)
    assert [request.states for request in engine.requests] == [["mean", "last"]]
    for problem in PROBLEMS:
        mean = shards.read_vectors(work.embeddings.path(problem))
        assert (shards.read_vectors(last.path(problem)) == -mean).all()


def test_vectors_that_come_after_the_responses_are_kept_too(work):
    class Late(Recorded):
        """Reports responses without their states."""

        def sample(self, request):
            return super().sample(replace(request, done=lambda j, given: request.done(j, replace(given, states={}))))

    run(work, Late(), embedder=States())
    assert work.embeddings.missing(PROBLEMS) == []
    before = [work.embeddings.path(problem).stat().st_mtime_ns for problem in PROBLEMS]
    run(work, Recorded(), embedder=States())
    assert [work.embeddings.path(problem).stat().st_mtime_ns for problem in PROBLEMS] == before


def test_rows_that_did_not_come_are_marked_and_asked_for_again(work):
    engine = Recorded(lost={"Say 1.": [0, 2]})
    run(work, engine)
    whole = texts(work)
    assert missing_rows.waiting(work.pool, PROBLEMS) == {"p1": {0: "busy", 2: "busy"}}
    run(work, engine, [PROBLEMS[1]], step=sample_missing)
    assert engine.requests[1].rows == [[0, 2]]
    assert missing_rows.waiting(work.pool, PROBLEMS) == {}
    assert texts(work)[1][1:2] == whole[1]
    alone = work_in(work.pool.folder.parents[2] / "alone", seed=5)
    alone.pool.begin()
    run(alone, Recorded())
    assert texts(work) == texts(alone)


def test_a_call_that_loses_more_than_half_is_an_error_after_what_came_is_kept_and_what_did_not_is_marked(work):
    lost = {"Say 0.": [0, 1, 2], "Say 1.": [0, 1]}
    assert "sample: 5 of 9 responses asked for did not come (busy)" in refusal_of(run, work, Recorded(lost))
    assert work.pool.missing(PROBLEMS) == PROBLEMS[:1]
    assert len(list(work.pool.folder.glob("*.unanswered.json"))) == 2
