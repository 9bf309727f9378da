"""A plan names the stages of a run by all that makes them, and changes nothing on the disk."""

from pathlib import Path

import pytest
from support.json_lines import write_json_lines
from support.paths import TOY
from support.refusals import error_line, wrongly_refused
from support.stores import contents
from support.tiny_checkpoints import TEMPLATE, save_checkpoint

from harness.jobs.options import RunConfig
from harness.jobs.plan import make_plan
from harness.system.progress import Progress


@pytest.fixture
def plan(tmp_path):
    """The plan of a run of the toy task with these options."""

    def call(**options):
        fixed = {"selectors": ("spread",), "task": "colours", "engine": "toy", "plugin_files": (TOY,)}
        return make_plan(RunConfig(**{**fixed, "store": tmp_path, **options}), Progress(quiet=True))

    return call


CHANGED = [  # options, and the stages that they make anew
    ("--limit 3", ()),
    ("--engine toy:group=5", ()),
    ("--trials 4", ("rank spread",)),
    ("--embedder letters", ("embed", "rank spread")),
    ("--dim 4", ("embed", "rank spread")),
    *((change, ("sample", "embed", "verify", "rank spread")) for change in ("--n 15", "--max-tokens 9", "--seed 1")),
    *((change, ("sample", "embed", "verify", "rank spread")) for change in ("--model macaw", "--task keyed")),
    ("--sampler nucleus:p=0.8", ("sample", "embed", "verify", "rank spread")),
    ("--split broken", ("sample", "embed", "verify", "rank spread")),  # its prompts differ
]


@pytest.mark.slow
def test_a_stage_is_made_anew_by_what_it_depends_on_and_by_nothing_else(toy, tmp_path):
    toy("--selector", "spread")
    before, made_anew = contents(tmp_path / "runs"), []
    for change, _ in CHANGED:
        rows = toy("--selector", "spread", *change.split(), "--dry-run").rows
        made_anew.append((change, tuple(row["stage"] for row in rows if row["to_make"])))
    assert made_anew == CHANGED
    assert contents(tmp_path / "runs") == before


def test_only_a_selector_that_reads_vectors_is_ranked_from_them(plan):
    assert [plan(selectors=(name,)).orders[name].vectors is not None for name in ("shuffle", "spread")] == [False, True]


def test_a_pool_file_has_its_own_problems_and_vectors_only_where_they_are_read(plan, tmp_path):
    lines = [{"problem_id": "a", "responses": ["x", "y"], "correct": [True, False]}]
    given = {"task": None, "pool": write_json_lines(tmp_path / "pool.jsonl", lines)}
    plans = [plan(**given, selectors=("shuffle",)), plan(**given), plan(**given, embedder="letters")]
    assert [each.vectors and each.vectors.embedder.spec for each in plans] == [None, "tfidf", "letters"]
    assert [question.problem.id for question in plans[0].questions] == ["a"]


REFUSED = [
    ({"split": "tset"}, "task 'colours': no split 'tset' (did you mean 'test'?"),
    ({"data": Path("0")}, "task 'colours': split 'test' has no problems"),
    ({"engine": "stateless"}, "embedder 'hidden-mean' needs the model's hidden states, which engine 'stateless'"),
    ({"sampler": "repexp-guided:beta=0.5"}, "cannot follow sampler 'repexp-guided:beta=0.5', which steers decoding"),
    ({"max_tokens": 1001}, "toy: a parrot forgets after 1,000 tokens"),
    ({"selectors": ("unheard",)}, "unknown selector 'unheard'"),
]


def test_what_cannot_be_carried_out_is_one_line(plan):
    assert wrongly_refused(REFUSED, lambda options: plan(**options)) == []


def test_what_may_be_spent_goes_with_an_engine_that_pays_and_with_one_process(plan, tmp_path):
    wrong = wrongly_refused(
        [
            ({"max_cost": -1.0}, "--max-cost must be an amount > 0, got -1"),
            ({"max_tokens_total": 0}, "--max-tokens-total must be at least 1"),
            ({"max_tokens_total": 9}, "run: --max-tokens-total goes with an engine that pays for tokens (openai), not"),
            (
                {"max_tokens_total": 9, "pool": tmp_path},
                "run: --max-tokens-total goes with sampling, and --pool brings",
            ),
            ({"max_cost": 1.0}, "run: --max-cost goes with an engine that pays for tokens"),
        ],
        lambda options: plan(**options),
    )
    assert wrong == []


PAYING = """
from harness import hookimpl
from support import toy


class Paying(toy.Parrot):
    is_charged = True

    def charge(self, limits):
        self.stops = limits.max_tokens == 9

    def quote(self, prompts, counts, max_tokens):
        return f"at most {sum(counts)} pence"

    def spending(self):
        return "0.12 USD"

    def bill(self):
        return "12 requests: 0.12 USD"

    def sample(self, request):
        if self.stops:
            raise KeyboardInterrupt
        return super().sample(request)


class Workers:
    def map(self, function, items, uses_model):
        return map(function, items)


@hookimpl
def register_engines(register):
    register("paying", Paying)


@hookimpl
def register_executors(register):
    register("workers", Workers)
"""


def test_what_is_spent_is_told_before_and_after_also_of_a_run_that_breaks_off_and_counted_in_one_process(toy, written):
    paying = ("--plugin", written(PAYING, "paying.py"), "--engine", "paying", "--selector", "shuffle")
    line = error_line(toy(*paying, "--executor", "workers"))
    assert line.startswith("error: run: money is counted in one process: leave out --executor, or --max-cost")
    stopped = toy(*paying, "--max-tokens-total", 9)
    assert (stopped.code, stopped.err.count("12 requests: 0.12 USD\n")) == (130, 1)
    whole = toy(*paying)
    assert "96 responses to sample (at most 768 tokens), at most 96 pence" in whole.err
    assert whole.err.count("12 requests: 0.12 USD\n") == 1
    assert "12 requests" not in toy(*paying).err


@pytest.mark.parametrize(("template", "stop"), [(TEMPLATE, None), (None, ("\nQuestion:",))])
def test_a_base_models_responses_end_before_the_next_question(plan, tmp_path, template, stop):
    model = save_checkpoint(tmp_path / "model", "llama", template)
    config = (
        (model / "config.json").read_text().replace('"max_position_embeddings": 128', '"max_position_embeddings": 2048')
    )
    (model / "config.json").write_text(config)
    data = write_json_lines(tmp_path / "rows.jsonl", [{"question": "1 + 1?", "answer": "#### 2"}])
    options = {"task": "gsm8k", "data": str(data), "engine": "transformers", "model": str(model)}
    assert plan(**options, selectors=("uniform",)).responses.stop == stop
