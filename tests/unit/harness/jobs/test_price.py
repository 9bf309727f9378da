"""What a run says before it begins: what is to do, what it may cost, and a question where that is hours."""

from __future__ import annotations

import io

import pytest
from support.paths import TOY
from support.refusals import refusal_of
from support.stores import files_of

from harness.jobs import price
from harness.jobs.options import RunConfig
from harness.jobs.plan import make_plan
from harness.jobs.price import Outlook
from harness.system.progress import Progress


@pytest.fixture
def plan(tmp_path):
    """The plan of a run of the toy task with these options."""

    def call(**options):
        fixed = {"selectors": ("shuffle",), "task": "colours", "engine": "toy", "plugin_files": (TOY,)}
        return make_plan(RunConfig(**{**fixed, "store": tmp_path / "runs", **options}), Progress(quiet=True))

    return call


def test_a_run_says_what_is_to_do_before_it_begins(toy):
    lines = toy("--selector", "shuffle", "--selector", "spread", "--limit", 4).err.splitlines()
    # 64 vectors of 8 numbers, 64 x (12 + 2.5 x 8) bytes of texts, 64 x 2 of verdicts; four files of each
    disk = "disk: 18 kB of vectors, up to about 18 kB of texts, about 17 kB of verdicts ("
    responses = "64 responses to sample (at most 512 tokens), 64 responses to grade"  # two, and three controls
    assert lines[0].startswith(f"to do: 5 cells, 4 problems, {responses}, {disk}")
    assert "sampling takes" not in lines[0]  # short runs are not probed
    assert lines[1].startswith("sample: ")
    again = toy("--selector", "spread").err
    assert "6 problems, 32 responses to sample (at most 256 tokens), 32 responses to grade" in again
    assert "to do" not in toy("--selector", "spread").err


def test_what_cannot_fit_on_the_disk_is_refused_before_anything_is_sampled(toy, tmp_path, plan):
    huge = ("--n", 10**9, "--max-tokens", 1000, "--yes", "--engine", "toy:width=4096", "--dim", 4096)
    dry = toy("--selector", "shuffle", *huge, "--dry-run").err
    assert "disk: 98.3 TB of vectors, up to about 15.1 TB of texts, about 12.0 GB of verdicts (" in dry
    assert "free: too little)" in dry
    for needed, more in (("98.3 TB", ()), ("196.6 TB", ("--grid", "sampler=vanilla+low-temp"))):
        refusal = toy("--selector", "shuffle", *huge, *more)
        assert f"does not fit into {tmp_path / 'runs'}: it takes {needed} of vectors" in refusal.err
        assert refusal.code == 2
        assert not (tmp_path / "runs").exists()
    unknown = price.space(plan(embedder="letters", selectors=("spread",), n=10**9))
    assert str(unknown).startswith("up to 12.3 TB of vectors")
    unknown.require_room(tmp_path / "runs")  # of unknown width: they refuse nothing


ELSEWHERE = """
class Elsewhere:
    def map(self, function, items, uses_model):
        raise AssertionError("it was begun")
"""
MINUTES = "--data 400 --engine toy:delay_s=0.2 --selector shuffle"  # 80 s
GRID = "--engine toy:delay_s=0.2 --selector shuffle --grid sampler=vanilla+low-temp --data 160"  # 32 s each


def not_begun(outcome, store):
    """The one line of a command that was not begun."""
    assert outcome.code == 2, outcome.err
    assert not list(store.rglob("*.parquet"))
    (line,) = [line for line in outcome.err.splitlines() if line.startswith("error: ")]
    assert "add --yes to begin it unasked" in line
    return line


@pytest.mark.parametrize("way", [MINUTES, MINUTES.replace("--selector shuffle", "--until-correct"), GRID])
def test_a_long_run_is_not_begun_where_nobody_can_be_asked(toy, tmp_path, monkeypatch, way):
    monkeypatch.setattr(price, "LONG_S", 60.0)
    line = not_begun(toy(*way.split()), tmp_path)
    assert "not begun, since it takes up to about " in line
    assert "--preset quick, --limit, --n and --max-tokens make it shorter" in line


def test_what_nobody_can_estimate_is_counted(toy, tmp_path, plugin):
    own = plugin(ELSEWHERE, executor=["Elsewhere"])
    away = ("--selector", "shuffle", "--executor", "elsewhere", "--plugin", own)
    line = not_begun(toy(*away, "--data", 1251), tmp_path)  # 16 to each
    assert "since it takes 20,016 responses of up to 160,128 tokens in all, whose time is not known here" in line
    with pytest.raises(AssertionError, match="it was begun"):
        toy(*away, "--data", 1250)


def test_states_of_a_pool_made_elsewhere_are_counted_and_computed_too(toy, tmp_path):
    toy("--selector", "shuffle", "--data", 24)
    for vectors in files_of(tmp_path / "runs", "vectors"):
        vectors.unlink()
    again = toy("--selector", "spread", "--data", 24)
    assert "to do: 4 cells, 24 problems, 384 responses to embed, embedding takes up to about 0:00:00" in again.err
    assert again.code == 0


@pytest.mark.parametrize(("answer", "begun"), [(" YES ", True), ("n", False), ("", False)])
def test_at_a_terminal_long_work_is_asked_about_once(monkeypatch, answer, begun):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    progress, long = Progress(Terminal(), asks=True), Outlook(3600.0)
    monkeypatch.setattr("sys.stdin", Terminal(f"{answer}\n"))
    if begun:
        for _ in range(2):
            price.require_consent("run", long, progress, "--n helps")
    else:
        line = refusal_of(price.require_consent, "run", long, progress, "--n helps")
        assert line.startswith("run: not begun, since it takes up to about 1:00:00: add --yes")
    assert progress.console.file.getvalue().count("begin? [y/N]") == 1
