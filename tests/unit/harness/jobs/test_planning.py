"""A plan names the stages of a run by all that makes them, and changes nothing on the disk."""

from dataclasses import replace
from pathlib import Path

import pytest
from support.json_lines import write_json_lines
from support.paths import TOY
from support.refusals import wrongly_refused

from harness import HarnessError
from harness.jobs.options import RunConfig
from harness.jobs.plan import charge, make_plan
from harness.system.progress import Progress


@pytest.fixture
def plan(tmp_path):
    """The plan of a run of the toy task with these options."""

    def call(**options):
        fixed = {"selectors": ("spread",), "task": "colours", "engine": "toy", "plugin_files": (TOY,)}
        return make_plan(RunConfig(**{**fixed, "store": tmp_path, **options}), Progress(quiet=True))

    return call


def keys(plan):
    """The key of each stage of a plan with one selector."""
    [spec] = plan.selectors
    work = plan.for_selector(spec)
    stages = {"pool": work.pool, "embedding": plan.work.embeddings, "verdict": work.verdicts, "graded": work.graded}
    stages |= {"audit": work.audits, "ranking": work.rankings}
    return {name: stage.key for name, stage in stages.items() if stage}


EVERY = {"pool", "embedding", "verdict", "audit", "ranking"}
CHANGED = [  # options, and the stages that they make anew
    ({"limit": 3}, set()),
    ({"engine": "toy:group=5"}, set()),
    ({"selectors": ("likely",)}, {"ranking"}),
    ({"trials": 4}, {"ranking"}),
    ({"embedder": "letters"}, {"embedding", "ranking"}),
    ({"dim": 4}, {"embedding", "ranking"}),
    *(({name: value}, EVERY) for name, value in (("n", 15), ("max_tokens", 9), ("seed", 1), ("model", "macaw"))),
    ({"sampler": "nucleus:p=0.8"}, EVERY),
    ({"split": "broken"}, EVERY),  # its prompts differ
    ({"task": "keyed"}, EVERY | {"graded"}),
]


@pytest.mark.slow
def test_a_stage_is_made_anew_by_what_it_depends_on_and_by_nothing_else(plan, tmp_path):
    before = keys(plan())
    made_anew = []
    for options, _ in CHANGED:
        after = keys(plan(**options))
        made_anew.append((options, {name for name in before if after[name] != before[name]}))
    assert made_anew == CHANGED
    assert list(tmp_path.iterdir()) == []


def test_only_a_selector_that_reads_vectors_is_ranked_under_their_key(plan):
    for selector, reads in (("shuffle", False), ("spread", True)):
        work = plan(selectors=(selector,)).for_selector(selector)
        assert (work.embeddings is not None, work.rankings.inputs["embedding"] is not None) == (reads, reads)
    parts = plan(selectors=("shuffle:offset=2",)).for_selector("shuffle:offset=2").rankings.inputs["selector"]
    assert (parts["name"], parts["params"], parts["dist"]) == ("shuffle", {"offset": 2}, "toy")


def test_a_pool_file_has_its_own_problems_and_vectors_only_where_they_are_read(plan, tmp_path):
    lines = [{"problem_id": "a", "responses": ["x", "y"], "correct": [True, False]}]
    given = {"task": None, "pool": write_json_lines(tmp_path / "pool.jsonl", lines)}
    plans = [plan(**given, selectors=("shuffle",)), plan(**given), plan(**given, embedder="letters")]
    assert [(each.embedder, each.engine) for each in plans] == [("none", None), ("tfidf", None), ("letters", None)]
    assert [problem.id for problem in plans[0].problems] == ["a"]


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
            ({"max_cost": 5.0}, "run: --max-cost needs --prices"),
            ({"max_cost": -1.0}, "--max-cost must be an amount > 0, got -1"),
            ({"max_tokens_total": 0}, "--max-tokens-total must be at least 1"),
            ({"max_tokens_total": 9}, "run: --max-tokens-total goes with an engine that pays for tokens (openai), not"),
            (
                {"max_tokens_total": 9, "pool": tmp_path},
                "run: --max-tokens-total goes with sampling, and --pool brings",
            ),
            ({"prices": tmp_path, "max_cost": 1.0}, "run: --max-cost goes with an engine that pays for tokens"),
        ],
        lambda options: plan(**options),
    )
    assert wrong == []
    context = plan().context
    paying = type("Paying", (), {"charge": lambda self, limits: None, "is_charged": True})
    paying.quote = paying.spending = paying.bill = lambda self: ""
    workers = replace(context, executor=type("Workers", (), {"map": map, "with_models": print})())
    with pytest.raises(HarnessError, match="run: money is counted in one process: leave out --executor, or --prices"):
        charge(workers, paying(), plan().work.pool)
    charge(context, paying(), plan().work.pool)
