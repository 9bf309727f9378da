"""`--grid`: what is crossed, what is shared, what is left out."""

import pytest
from support.paths import TOY
from support.refusals import wrongly_refused
from support.stores import cell_of

from harness.jobs import grid
from harness.jobs.grid import parse_grid
from harness.jobs.options import RunConfig
from harness.jobs.price import Costs, Outlook
from harness.plugin_system.registry import Registry
from harness.system.progress import Progress

WRONG = [
    ("", "--grid: no axis ''"),
    ("selectors=a", "no axis 'selectors' (did you mean 'selector'?"),
    ("selector", "no axis 'selector'"),
    ("selector=a,selector=b", "axis 'selector' is given twice"),
    ("selector=a++b", "selector: a value is empty or given twice in 'a++b'"),
    ("embedder=a+a", "embedder: a value is empty or given twice"),
    ("selector=*+repexp", "selector: '*' is all of them: give it alone"),
]


def test_the_text_of_a_grid_is_taken_apart_or_refused():
    assert parse_grid("selector=*,embedder=a+b:x=1,y=2 + c") == {"selector": ["*"], "embedder": ["a", "b:x=1,y=2", "c"]}
    assert wrongly_refused(WRONG, parse_grid) == []


@pytest.fixture
def toy_config(tmp_path):
    """The options of a run of the toy task, and these."""
    fixed = {"task": "colours", "engine": "toy", "plugin_files": (TOY,), "store": tmp_path}
    return lambda **options: RunConfig(**{**fixed, **options})


@pytest.fixture
def grid_points():
    return lambda config: list(grid.points(config, Progress(quiet=True)))


def test_a_grid_may_name_all_tasks_and_each_has_its_own_defaults(toy_config, grid_points):
    alone = toy_config(task=None, engine="transformers", selectors=("uniform",), grid="task=game24+proteins")
    runs = {point.name: point.config for point in grid_points(alone)}
    assert [run.task for run in runs.values()] == ["game24", "proteins"]
    assert [run.engine for run in runs.values()] == ["transformers", "esm3:annealing=false"]
    other = toy_config(task=None, engine="toy", selectors=("uniform",), grid="task=game24+proteins")
    assert {point.config.engine for point in grid_points(other)} == {"toy"}


@pytest.mark.slow
def test_selectors_are_crossed_with_embedders_over_one_pool(toy, tmp_path):
    axes = "selector=spread+shuffle+repexp,embedder=hidden-mean+letters"
    outcome = toy("--selector", "likely", "--limit", "2", "--grid", axes)
    assert outcome.code == 0, outcome.err
    assert [(row["selector"], row["embedder"]) for row in outcome.rows] == [
        *(("likely", "none"), ("spread", "hidden-mean"), ("shuffle", "none"), ("repexp", "hidden-mean")),
        *(("spread", "letters"), ("repexp", "letters")),
    ]
    for stage in ("pool", "verdict"):
        assert len({cell_of(tmp_path / "runs", row)["inputs"][stage]["key"] for row in outcome.rows}) == 1
    assert outcome.err.count("sample: ") == 1
    assert f"grid: {len(outcome.rows)} cells in 2 runs, which share what they can: 4 for embedder=hidden" in outcome.err
    alone = toy("--selector", "spread", "--embedder", "letters", "--limit", "2", store=tmp_path / "alone").rows
    assert alone == outcome.rows[4:5]  # a point of a grid is the run of the same options


def test_a_star_leaves_out_what_cannot_run_here_unless_it_is_named_too(toy, toy_config, grid_points, monkeypatch):
    of_kind = Registry.of_kind

    def toys(registry, kind):
        return [each for each in of_kind(registry, kind) if kind != "selector" or each.origin.dist == "toy"]

    monkeypatch.setattr(Registry, "of_kind", toys)
    outcome = toy("--grid", "selector=*", "--limit", "2")
    assert outcome.code == 0, outcome.err
    assert {row["selector"] for row in outcome.rows} == {"shuffle", "spread", "particular", "likely", "head"}
    assert "left out: selector 'twice', problem" in outcome.err
    named = grid_points(toy_config(selectors=("twice",), grid="selector=*"))
    assert {"twice", "short"} - named[0].optional == {"twice"}


def test_runs_that_share_a_pool_cost_its_sampling_once(toy_config, grid_points, monkeypatch):
    costs = Costs("", Outlook(10.0), is_work=True)
    monkeypatch.setattr(grid, "preflight", lambda plan: costs)
    axes = ("embedder=hidden-mean+letters", "sampler=vanilla+low-temp", "sampler=vanilla", "embedder=x+letters")
    outlooks = [grid._outlook(grid_points(toy_config(selectors=("spread",), grid=axis))) for axis in axes]
    assert [outlook.seconds for outlook in outlooks] == [10, 20, 0, 10]  # one run asks by itself; x cannot be planned


@pytest.mark.slow
def test_a_selector_or_a_point_that_fails_is_named_and_the_others_still_count(toy):
    outcome = toy("--limit", "2", "--grid", "selector=twice+spread,embedder=hidden-mean+letters+nonsense")
    assert outcome.code == 1
    assert [(row["selector"], row["embedder"]) for row in outcome.rows] == [
        *(("spread", "hidden-mean"), ("spread", "letters"))
    ]
    assert outcome.err.count("failed: selector 'twice'") == 1  # it reads no vectors: run once
    assert "failed: embedder=nonsense: unknown embedder 'nonsense'" in outcome.err


@pytest.mark.slow
def test_states_for_any_embedder_of_a_grid_come_from_the_one_sampling_pass(toy):
    outcome = toy("--limit", "2", "--grid", "selector=spread,embedder=letters+hidden-mean+hidden-last")
    assert [row["embedder"] for row in outcome.rows] == ["letters", "hidden-mean"]
    assert outcome.err.count("embed: ") == 1  # the letters; a second pass for states would be a second line
    assert "embedder=hidden-last: embedder 'hidden-last' needs the model's hidden states" in outcome.err
    alone = toy("--limit", "2", "--selector", "spread", "--embedder", "hidden-mean")
    assert "pool: reused for 2 of 2" in alone.err  # what else was kept is in no key of the pool


def test_a_grid_can_be_looked_at_before_it_is_run(toy, tmp_path):
    stages = toy("--grid", "selector=spread+shuffle,embedder=hidden-mean+letters", "--dry-run").rows
    assert [stage["stage"] for stage in stages] == [
        *("sample", "embed", "verify", "rank spread", "rank shuffle"),
        *("embed", "rank spread"),
    ]
    assert not list((tmp_path / "runs").rglob("*.parquet"))
    plan = toy("--grid", "selector=spread+shuffle,embedder=hidden-mean+letters,sampler=vanilla+low-temp", "--dry-run")
    assert plan.err.startswith(
        "grid: 6 cells in 4 runs, which share what they can: 2 for sampler=vanilla, embedder=hid"
    )
    outcome = toy("--grid", "selector=spread,model=*")
    assert (outcome.code, outcome.err) == (2, "error: --grid: model=*: models are named, not installed\n")


def test_a_grid_without_a_selector_is_one_line(harness):
    for axes in ("embedder=tfidf", "task=nosuch"):
        refused = harness("run", *(("--task", "game24") if "task" not in axes else ()), "--grid", axes, "--dry-run")
        assert (refused.code, refused.out) == (2, "")
        assert "no selector is named" in refused.err
