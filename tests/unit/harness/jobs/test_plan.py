"""A plan: what a stage depends on, what cannot be carried out, all that a run lacks, its work by arithmetic."""

from pathlib import Path

import pytest
from support.paths import TOY
from support.refusals import error_line, refusal_of, wrongly_refused
from support.stores import contents

from harness.errors import Lacking, NotBegun
from harness.jobs import price
from harness.jobs import run as pipeline
from harness.jobs.options import RunConfig
from harness.jobs.plan import make_context, make_plan
from harness.jobs.price import Outlook
from harness.plugin_system.registry import load_registry
from harness.system.progress import Progress

PLUGIN = '''
from harness.records import Weights


class Paying(Parrot):
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


class Remote(Parrot):
    """An engine whose weights are elsewhere."""

    def to_fetch(self):
        return "the weights of lab/large"


class Distant(Colours):
    """Colours whose problems cannot be reached."""

    sizes = {"test": 6}

    def problems(self, split):
        raise Lacking("distant: no road leads there")


class Shapes(Colours):
    """Colours, of which there is a number."""

    sizes = {"test": 6}


class Costly:
    """A selector that needs a library."""

    needs = ()
    libraries = (os.environ.get("LIBRARY", "json"),)

    def rank(self, pool, rng):
        return iter(range(len(pool)))


class Far:
    """An embedder whose weights are elsewhere."""

    state = None
    model = Weights("far", "somewhere", "MIT", "fetch it")

    def weights(self):
        return [self.model]

    def identity(self):
        raise Lacking(f"far: {self.model} is not on this machine: {self.model.fetch}")

    def embed(self, problem, texts):
        raise AssertionError

'''


@pytest.fixture
def own(plugin):
    tasks, engines = ["Distant", "Shapes"], ["Paying", "Remote"]
    return plugin(PLUGIN, engine=engines, executor=["Workers"], task=tasks, selector=["Costly"], embedder=["Far"])


@pytest.fixture
def config(own, tmp_path):
    """The options of a run of the toy task, and these."""
    given = {"task": "colours", "engine": "toy", "selectors": ("spread",), "plugin_files": (TOY, own)}
    return lambda **options: RunConfig(**{**given, "store": tmp_path / "runs", **options})


@pytest.fixture
def plan(config):
    return lambda **options: make_plan(config(**options), Progress(quiet=True))


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


CONTROLS = ("rank length", "rank length:first=long", "rank norm")


@pytest.mark.slow
def test_a_stage_is_made_anew_by_what_it_depends_on_and_by_nothing_else(toy, tmp_path):
    toy("--selector", "spread")
    before, made_anew = contents(tmp_path / "runs"), []
    for change, _ in CHANGED:
        rows = toy("--selector", "spread", *change.split(), "--dry-run").rows
        stages = (row["stage"] for row in rows if row["to_make"])
        made_anew.append((change, tuple(stage for stage in stages if stage not in CONTROLS)))
    assert made_anew == CHANGED
    assert contents(tmp_path / "runs") == before


REFUSED = [
    ({"split": "tset"}, "task 'colours': no split 'tset' (did you mean 'test'?"),
    ({"data": Path("0")}, "task 'colours': split 'test' has no problems"),
    ({"engine": "stateless"}, "embedder 'hidden-mean' needs the model's hidden states, which engine 'stateless'"),
    ({"sampler": "repexp-guided:beta=0.5"}, "cannot follow sampler 'repexp-guided:beta=0.5', which steers decoding"),
    ({"max_tokens": 1001}, "toy: a parrot forgets after 1,000 tokens"),
    ({"selectors": ("unheard",)}, "unknown selector 'unheard'"),
    ({"max_cost": -1.0}, "--max-cost must be an amount > 0, got -1"),
    ({"max_tokens_total": 0}, "--max-tokens-total must be at least 1"),
    ({"max_tokens_total": 9}, "run: --max-tokens-total goes with an engine that pays for tokens (openai), not"),
    ({"max_tokens_total": 9, "pool": TOY}, "run: --max-tokens-total goes with sampling, and --pool brings"),
]


def test_what_cannot_be_carried_out_is_one_line(plan):
    assert wrongly_refused(REFUSED, lambda options: plan(**options)) == []


def test_what_is_spent_is_told_before_and_after_also_of_a_run_that_breaks_off_and_counted_in_one_process(toy, own):
    paying = ("--plugin", own, "--engine", "paying", "--selector", "shuffle")
    line = error_line(toy(*paying, "--executor", "workers"))
    assert line.startswith("error: run: money is counted in one process: leave out --executor, or --max-cost")
    stopped = toy(*paying, "--max-tokens-total", 9)
    assert (stopped.code, stopped.err.count("12 requests: 0.12 USD\n")) == (130, 1)
    whole = toy(*paying)
    assert "96 responses to sample (at most 768 tokens), at most 96 pence" in whole.err
    assert whole.err.count("12 requests: 0.12 USD\n") == 1
    assert "12 requests" not in toy(*paying).err


# All that a run lacks is named together; a stored run lacks nothing.

LINE = "selector costly needs nolibrary: not installed: pip install nolibrary"


def test_a_library_is_needed_where_something_is_to_be_ranked_and_not_to_show_what_is_stored(config, monkeypatch):
    def run(library, **options):
        monkeypatch.setenv("LIBRARY", library)
        return pipeline.run(config(selectors=("costly",), n=4, **options), Progress(quiet=True))

    assert refusal_of(run, "nolibrary") == LINE
    rows, failures = run("json")
    assert (len(rows), failures) == (1, {})
    assert run("nolibrary")[0][0].cell == rows[0].cell
    line = refusal_of(run, "nolibrary", split="nowhere")
    assert line.startswith("2 things stand in the way: (1) task 'colours': no split 'nowhere'")
    assert line.endswith(f"; (2) {LINE}")


def test_data_weights_and_a_grader_that_are_missing_are_named_together_and_once(config, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)

    def line_of(**options):
        return refusal_of(pipeline.run, config(**options), Progress(quiet=True))

    line = line_of(task="gsm8k", engine="transformers", model="nobody/nothing-7b")
    assert line.startswith("2 things stand in the way: (1) gsm8k: dataset openai/gsm8k")
    assert "give --data FILE" in line
    assert "(2) model 'nobody/nothing-7b' cannot be fetched (offline?): give a local folder" in line
    line = line_of(task="keyed", data=13, split="nowhere")
    assert line.startswith("2 things stand in the way: (1) task 'keyed': no split 'nowhere'")
    assert "; (2) keyed: nothing here confines 13 colours" in line
    assert line_of(embedder="far").count("fetch it") == 1


# The work of a run by arithmetic: before weights are downloaded, and for a dry run that cannot be planned here.


class Heard(Progress):
    """Progress whose lines are kept; as without a terminal, nobody answers."""

    def __init__(self):
        super().__init__(quiet=True, asks=True)
        self.lines = []

    def say(self, line):
        self.lines.append(line)


SMALL = {"engine": "remote", "selectors": ("uniform",), "n": 5, "max_tokens": 7}


def test_the_work_is_problems_by_responses_by_tokens_also_where_the_data_is_lacking(config):
    heard = Heard()
    assert price.say_at_most(make_context(config(**SMALL, task="shapes"), heard))[:2] == (6, Outlook(0, 30, 210))
    assert heard.lines[0] == "at most 6 problems x 5 = 30 responses x 7 = 210 tokens"
    assert heard.lines[1].startswith("disk: up to 86 kB of vectors, up to about 25 kB of texts, about 25 kB of")
    assert price.say_at_most(make_context(config(**SMALL), Heard())) is None  # its number is not known
    assert price.say_at_most(make_context(config(**SMALL, limit=4), Heard()))[0] == 4
    heard = Heard()
    rows = pipeline.dry_run(config(**SMALL, task="distant"), heard)
    assert rows[0] == {"stage": "sample", "there": None, "to_make": 6, "key": None}
    assert [row["stage"] for row in rows] == ["sample", "embed", "verify", "rank uniform"]
    assert heard.lines[2] == "not planned yet: distant: no road leads there"
    line = refusal_of(pipeline.dry_run, config(**SMALL, task="distant", split="nowhere"), Heard())
    assert "no split 'nowhere'" in line
    with pytest.raises(Lacking):
        pipeline.dry_run(config(**SMALL, task="distant", split="broken"), Heard())  # of no known number


def test_a_long_run_says_so_before_weights_are_downloaded_and_a_short_one_goes_on(config, tmp_path):
    heard = Heard()
    with pytest.raises(NotBegun) as refused:
        pipeline.run(config(**SMALL | {"task": "shapes", "n": 1_000_000, "max_tokens": 1_000}), heard)
    words = "run: not begun, since it takes 6,000,000 responses of up to 6,000,000,000 tokens in all"
    assert str(refused.value).startswith(words)
    assert heard.lines[0] == "to download: the weights of lab/large"
    assert not (tmp_path / "runs").exists()
    rows, _ = pipeline.run(config(**SMALL, task="shapes"), Heard())
    assert rows[0].problems == 6


def test_every_tasks_quick_preset_takes_at_most_twenty_minutes_on_two_cores():
    a_core = 1e10  # parameters x tokens a second: SmolLM2-135M on a CPU, a core
    for registration in load_registry().of_kind("task"):
        factory = registration.load()
        quick = factory.presets["quick"]
        if "limit" in quick:  # proteins are priced by arithmetic of their own
            tokens = quick["limit"] * quick["n"] * quick.get("max_tokens", factory.max_tokens)
            parameters = 3e6 if factory.defaults.get("model") == "tiny24" else 5e8
            assert tokens * parameters / a_core / 2 <= 1_200, registration.name
