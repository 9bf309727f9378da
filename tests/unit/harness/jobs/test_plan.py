"""A plan: what a stage depends on, what cannot be carried out, all that a run lacks."""

from pathlib import Path

import pytest
from support.paths import TOY
from support.refusals import error_line, refusal_of, wrongly_refused

from harness.jobs import run as pipeline
from harness.jobs.options import RunConfig
from harness.jobs.plan import make_plan
from harness.plugin_system.registry import load_registry
from harness.system.progress import Progress

PLUGIN = """
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

class Distant(Colours):
    def problems(self, split):
        raise Lacking("distant: no road leads there")

class Costly:
    needs = ()
    libraries = (os.environ.get("LIBRARY", "json"),)
    def rank(self, pool, rng):
        return iter(range(len(pool)))

class Far:
    state = None
    model = Weights("far", "somewhere", "MIT", "fetch it")
    def weights(self):
        return [self.model]
    def identity(self):
        raise Lacking(f"far: {self.model} is not on this machine: {self.model.fetch}")
    def embed(self, problem, texts):
        raise AssertionError
"""


@pytest.fixture
def own(plugin):
    classes = {"executor": ["Workers"], "task": ["Distant"], "selector": ["Costly"], "embedder": ["Far"]}
    return plugin(PLUGIN, engine=["Paying"], **classes)


@pytest.fixture
def config(own, tmp_path):
    """The options of a run of the toy task, and these."""
    given = {"task": "colours", "engine": "toy", "selectors": ("spread",), "plugin_files": (TOY, own)}
    return lambda **options: RunConfig(**{**given, "store": tmp_path / "runs", **options})


ALL = ["sample", "embed", "verify", "rank spread"]
CHANGED = {  # options, and the stages that they make anew
    **{"--limit 3": [], "--engine toy:group=5": [], "--trials 4": ALL[3:], "--dim 4": [ALL[1], ALL[3]]},
    **dict.fromkeys(["--n 15", "--task keyed", "--split broken"], ALL),
}


def test_a_stage_is_made_anew_by_what_it_depends_on_and_by_nothing_else(toy):
    toy("--selector", "spread")
    for change, stages in CHANGED.items():
        rows = toy("--selector", "spread", *change.split(), "--dry-run").rows
        assert [row["stage"] for row in rows if row["to_make"] and row["stage"] in ALL] == stages, change


REFUSED = [
    ({"split": "tset"}, "task 'colours': no split 'tset' (did you mean 'test'?"),
    ({"data": Path("0")}, "task 'colours': split 'test' has no problems"),
    ({"engine": "stateless"}, "embedder 'hidden-mean' needs the model's hidden states, which engine 'stateless'"),
    ({"sampler": "repexp-guided:beta=0.5"}, "cannot follow sampler 'repexp-guided:beta=0.5', which steers decoding"),
    ({"max_tokens": 1001}, "toy: a parrot forgets after 1,000 tokens"),
    ({"max_cost": -1.0}, "--max-cost must be an amount > 0, got -1"),
    ({"max_tokens_total": 9}, "run: --max-tokens-total goes with an engine that pays for tokens (openai), not"),
    ({"max_tokens_total": 9, "pool": TOY}, "run: --max-tokens-total goes with sampling, and --pool brings"),
    ({"task": "distant", "embedder": "far"}, "far (somewhere; MIT): fetch it; (2) distant: no road leads there"),
    ({"task": "keyed", "data": 13, "split": "x"}, "2 things stand in the way: (1) task 'keyed': no split 'x'"),
    ({"task": "keyed", "data": 13, "split": "x"}, "; (2) keyed: nothing here confines 13 colours"),
]


def test_what_cannot_be_carried_out_is_one_line_that_names_all_that_is_lacking(config):
    assert wrongly_refused(REFUSED, lambda options: make_plan(config(**options), Progress(quiet=True))) == []


def test_data_and_a_model_that_are_out_of_reach_are_named_together(toy, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    model = ("--engine", "transformers", "--model", "nobody/nothing-7b")
    line = error_line(toy("--task", "gsm8k", *model, "--selector", "spread"))
    assert line.startswith("error: 2 things stand in the way: (1) gsm8k: dataset openai/gsm8k")
    assert "(2) model 'nobody/nothing-7b' cannot be fetched (offline?): give a local folder" in line


def test_a_library_is_needed_where_something_is_to_be_ranked_and_not_to_show_what_is_stored(config, monkeypatch):
    def run(library, **options):
        monkeypatch.setenv("LIBRARY", library)
        return pipeline.run(config(selectors=("costly",), n=4, **options), Progress(quiet=True))

    line = "selector costly needs nolibrary: not installed: pip install nolibrary"
    assert refusal_of(run, "nolibrary") == line
    rows, failures = run("json")
    assert (len(rows), failures) == (1, {})
    assert run("nolibrary")[0][0].cell == rows[0].cell
    assert refusal_of(run, "nolibrary", split="nowhere").endswith(f"; (2) {line}")


def test_what_is_spent_is_told_before_and_after_also_of_a_run_that_breaks_off_and_counted_in_one_process(toy, own):
    paying = ("--plugin", own, "--engine", "paying", "--selector", "shuffle")
    line = error_line(toy(*paying, "--executor", "workers"))
    assert line.startswith("error: run: money is counted in one process: leave out --executor, or --max-cost")
    stopped = toy(*paying, "--max-tokens-total", 9)
    assert (stopped.code, stopped.err.count("12 requests: 0.12 USD\n")) == (130, 1)
    whole = toy(*paying).err
    assert "96 responses to sample (at most 768 tokens), at most 96 pence" in whole
    assert whole.count("12 requests: 0.12 USD\n") == 1
    assert "12 requests" not in toy(*paying).err


def test_every_tasks_quick_preset_takes_at_most_twenty_minutes_on_two_cores():
    a_core = 1e10  # parameters x tokens a second: SmolLM2-135M on a CPU
    for registration in load_registry().of_kind("task"):
        factory = registration.load()
        quick = factory.presets["quick"]
        if "limit" in quick:  # proteins are priced by arithmetic of their own
            tokens = quick["limit"] * quick["n"] * quick.get("max_tokens", factory.max_tokens)
            parameters = 3e6 if factory.defaults.get("model") == "tiny24" else 5e8
            assert tokens * parameters / a_core / 2 <= 1_200, registration.name
