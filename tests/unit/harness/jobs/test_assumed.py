"""The work of a run by arithmetic: before weights are downloaded, and for a dry run that cannot be planned here."""

import pytest
from support.paths import TOY
from support.refusals import refusal_of

from harness.errors import Lacking, NotBegun
from harness.jobs import grid, price
from harness.jobs import run as pipeline
from harness.jobs.options import RunConfig
from harness.jobs.plan import make_context
from harness.jobs.price import Outlook
from harness.plugin_system.registry import load_registry
from harness.system.progress import Progress

A_CORE = 1e10  # parameters x tokens a second: SmolLM2-135M on a CPU, a core (docs/cluster.md)

PLUGIN = '''
from harness import hookimpl
from harness.errors import Lacking
from support import toy


class Remote(toy.Parrot):
    """An engine whose weights are elsewhere."""

    def to_fetch(self):
        return "the weights of lab/large"


class Distant(toy.Colours):
    """Colours whose problems cannot be reached."""

    sizes = {"test": 6}

    def problems(self, split):
        raise Lacking("distant: no road leads there")


class Shapes(toy.Colours):
    """Colours, of which there is a number."""

    sizes = {"test": 6}


@hookimpl
def register_engines(register):
    register("remote", Remote)


@hookimpl
def register_tasks(register):
    register("distant", Distant)
    register("shapes", Shapes)
'''


class Heard(Progress):
    """Progress whose lines are kept; as without a terminal, nobody answers."""

    def __init__(self):
        super().__init__(quiet=True, asks=True)
        self.lines = []

    def say(self, line):
        self.lines.append(line)


@pytest.fixture
def config(tmp_path):
    plugin = tmp_path / "remote.py"
    plugin.write_text(PLUGIN)
    given = {"engine": "remote", "selectors": ("uniform",), "n": 5, "max_tokens": 7, "store": tmp_path / "runs"}
    return lambda **options: RunConfig(**given | options, plugin_files=(TOY, plugin))


def test_the_work_is_problems_by_responses_by_tokens(config):
    heard = Heard()
    assert price.say_at_most(make_context(config(task="shapes"), heard))[:2] == (6, Outlook(0, 30, 210))
    assert heard.lines[0] == "at most 6 problems x 5 = 30 responses x 7 = 210 tokens"
    assert heard.lines[1].startswith("disk: up to 86 kB of vectors, up to about 25 kB of texts, about 25 kB of")
    assert price.say_at_most(make_context(config(task="shapes", limit=2), Heard()))[0] == 2
    assert price.say_at_most(make_context(config(task="colours"), Heard())) is None  # its number is not known
    assert price.say_at_most(make_context(config(task="colours", limit=4), Heard()))[0] == 4


def test_a_long_run_says_so_before_weights_are_downloaded_and_a_short_one_goes_on(config, tmp_path):
    heard = Heard()
    line = refusal_of(pipeline.run, config(task="shapes", n=1_000_000, max_tokens=1_000), heard)
    assert line.startswith("run: not begun, since it takes 6,000,000 responses of up to 6,000,000,000 tokens in all")
    assert heard.lines[0] == "to download: the weights of lab/large"
    assert not (tmp_path / "runs").exists()
    with pytest.raises(NotBegun):
        pipeline.run(config(task="shapes", n=1_000_000, max_tokens=1_000), Heard())
    rows, _ = pipeline.run(config(task="shapes"), Heard())
    assert rows[0].problems == 6


def test_a_dry_run_that_lacks_something_is_priced_all_the_same(config):
    heard = Heard()
    rows = pipeline.dry_run(config(task="distant"), heard)
    assert rows[0] == {"stage": "sample", "there": None, "to_make": 6, "key": None}
    assert [row["stage"] for row in rows] == ["sample", "embed", "verify", "rank uniform"]
    assert "6 problems x 5 = 30 responses" in heard.lines[0]
    assert heard.lines[2] == "not planned yet: distant: no road leads there"


def test_a_grid_that_lacks_something_shows_each_run_and_counts_what_they_share_once(config):
    heard = Heard()
    axes = "sampler=vanilla+low-temp,embedder=hidden-mean+letters"
    rows = grid.dry_run(config(task="distant", selectors=("spread", "shuffle"), grid=axes), heard)
    first, second, third, last = dict.fromkeys(row["run"] for row in rows)
    assert [row["stage"] for row in rows if row["run"] == first] == [
        *("sample", "embed", "verify", "rank spread", "rank shuffle")
    ]
    assert [row["stage"] for row in rows if row["run"] == second] == ["embed", "rank spread"]
    assert (third, last) == ("sampler=low-temp, embedder=hidden-mean", "sampler=low-temp, embedder=letters")
    assert heard.lines[-1].startswith("all runs: 60 responses of up to 420 tokens in all, whose time is not known here")
    assert "up to 344 kB of vectors, up to about 51 kB of texts" in heard.lines[-1]  # four of the one, two of the other
    assert sum("no road leads there" in line for line in heard.lines) == 1


def test_a_dry_run_of_a_wrong_config_is_refused_also_if_something_is_lacking(config):
    line = refusal_of(pipeline.dry_run, config(task="distant", split="nowhere"), Heard())
    assert "no split 'nowhere'" in line
    with pytest.raises(Lacking):
        pipeline.dry_run(config(task="distant", split="broken"), Heard())  # of no known number


@pytest.mark.slow
def test_the_numbers_of_problems_are_those_of_the_data(shared_data):
    files = {"mbppplus": "MbppPlus-v0.2.0.jsonl.gz", "humanevalplus": "HumanEvalPlus-v0.1.10.jsonl.gz"}
    files |= {"gsm8k": "gsm8k_test.jsonl", "game24": None}
    registry, differing = load_registry(), []
    for name, file in files.items():
        factory = registry.find("task", name).load()
        task = factory(str(shared_data / "tasks" / file) if file else None)
        if len(list(task.problems("test"))) != task.sizes["test"]:
            differing.append(name)
    assert differing == []


def test_every_tasks_quick_preset_takes_at_most_twenty_minutes_on_two_cores():
    long = []
    for registration in load_registry().of_kind("task"):
        factory = registration.load()
        quick = factory.presets["quick"]
        if "limit" not in quick:  # proteins are priced by arithmetic of their own
            continue
        tokens = quick["limit"] * quick["n"] * quick.get("max_tokens", factory.max_tokens)
        parameters = 3e6 if factory.defaults.get("model") == "tiny24" else 5e8
        if tokens * parameters / A_CORE / 2 > 1_200:
            long.append(registration.name)
    assert long == []
