"""The price of ranking: from parts of a pool to all pools, trials and workers; nothing where it is little."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from support.paths import TOY
from support.toy import WORDS

from harness.plugin_system.component import build
from harness.plugin_system.registry import load_registry
from harness.running import preflight, ranking_price
from harness.running.config import RunConfig
from harness.running.planning import make_plan
from harness.system.progress import Progress

REGISTRY = load_registry()


@dataclass
class Clock:
    """A clock that only the rankers below move on."""

    now: float = 0.0
    sizes: list[int] = field(default_factory=list)

    def process_time(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(ranking_price, "time", clock)
    return clock


@dataclass
class Cubic:
    """Takes `unit_s` n^power seconds of the clock."""

    clock: Clock
    unit_s: float
    power: float
    random: bool = False
    needs = ()

    def rank(self, pool, rng):
        self.clock.now += self.unit_s * len(pool) ** self.power
        self.clock.sizes.append(len(pool))
        if self.random:
            rng.random()
        yield from range(len(pool))


@pytest.fixture
def plan(tmp_path):
    def call(size=6, **options):
        fixed = {"selectors": ("shuffle",), "task": "colours", "engine": "toy", "plugin_files": (TOY,), "data": size}
        return make_plan(RunConfig(**{**fixed, "store": tmp_path / "runs", **options}), Progress(quiet=True))

    return call


def pool_of(plan, n):
    work = plan.for_selector("shuffle")
    return ranking_price._pool(work, plan.problems[0], n, 4)


@pytest.mark.parametrize("power", [1.0, 2.0])
def test_the_time_grows_with_n_as_it_did_and_a_little_more(clock, plan, power):
    pool = pool_of(plan(), 4096)
    seconds = ranking_price._extrapolated(Cubic(clock, 1e-9, power), 5, pool)
    assert clock.sizes == [64, 128, 256, 512, 1024, 2048]
    assert seconds == pytest.approx(1e-9 * 4096**power * 2**ranking_price.STEEPER)


def test_a_part_that_would_take_long_is_not_ranked(clock, plan):
    seconds = ranking_price._extrapolated(Cubic(clock, 2e-7, 3.0), 5, pool_of(plan(), 4096))
    assert max(clock.sizes) == 128
    assert clock.now < ranking_price.PROBE_S
    assert seconds == pytest.approx(2e-7 * 4096**3)


def test_random_trials_count_each_and_equal_ones_once(clock, plan):
    pool = pool_of(plan(), 1024)
    once, each = (ranking_price._extrapolated(Cubic(clock, 1e-6, 1.0, random), 5, pool) for random in (False, True))
    assert each == pytest.approx(5 * once)


def test_all_problems_are_priced_and_workers_divide_it(plan, monkeypatch):
    monkeypatch.setattr(ranking_price, "WORTH", 1.0)
    monkeypatch.setattr(ranking_price, "_timed", lambda selector, work, pool: 7.0)
    prices = {}
    for workers in (1, 4, 100):
        ranking_price._pool_s.clear()
        prices[workers] = ranking_price.ranking_s(
            plan(executor=f"local:workers={workers}", selectors=("shuffle", "spread"))
        )
    assert prices == {1: 2 * 42.0, 4: 2 * 10.5, 100: 2 * 7.0}
    ranking_price._pool_s.clear()
    costs = preflight.preflight(plan(executor="local:workers=1"))
    assert costs.ranking_s == costs.outlook.seconds == 42.0
    assert "ranking takes up to about 0:00:42" in str(costs)


def test_little_work_is_not_timed_and_a_selector_that_fails_has_no_price(plan, monkeypatch):
    assert ranking_price.ranking_s(plan()) is None
    monkeypatch.setattr(ranking_price, "WORTH", 1.0)
    monkeypatch.setattr(ranking_price, "rank_whole", lambda *arguments: 1 / 0)
    ranking_price._pool_s.clear()
    assert ranking_price.ranking_s(plan()) is None


def test_the_first_problems_pool_is_taken_where_it_is_in_the_store(toy, plan):
    assert toy("--selector", "shuffle").code == 0
    run = plan(selectors=("spread",))
    stored = ranking_price._pool(run.for_selector("spread"), run.problems[0], 16, 4)
    assert all(text.split()[-1] in WORDS for text in stored.texts)
    made_up = ranking_price._pool(plan(selectors=("spread",), n=9).for_selector("spread"), run.problems[0], 9, 4)
    assert (len(made_up), made_up.embeddings.shape) == (9, (9, 4))


def test_every_built_in_selector_can_be_timed_on_a_made_up_pool(plan):
    work = plan(selectors=("spread",)).for_selector("spread")
    pool = ranking_price._pool(work, plan().problems[0], 256, 8)
    names = {registration.name for registration in REGISTRY.of_kind("selector")} - {"kmedoids", "rnd"}
    times = {name: ranking_price._timed(build(REGISTRY, "selector", name), work, pool) for name in names}
    assert [name for name, seconds in times.items() if seconds is None or not np.isfinite(seconds)] == []
