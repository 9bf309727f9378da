"""What a run says before it begins: what is to do, what it may cost, and a question where that is hours."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from support.paths import TOY
from support.refusals import refusal_of
from support.stores import files_of

from harness.jobs import price as preflight
from harness.jobs.options import RunConfig
from harness.jobs.plan import make_plan
from harness.jobs.price import Outlook
from harness.system.progress import Progress

KINDS = ("vectors", "responses", "verdicts")
MINUTES = ("--data", 400, "--engine", "toy:delay_s=0.2")  # 80 s


@pytest.fixture
def a_minute_is_long(monkeypatch):
    monkeypatch.setattr(preflight, "LONG_S", 60.0)


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


def test_a_large_plan_is_estimated_from_a_few_responses(plan):
    costs = preflight.preflight(plan(data=Path("3000"), engine="toy:delay_s=0.002"))
    assert costs.outlook.seconds >= 3000 * 0.002
    assert (costs.outlook.responses, costs.outlook.tokens) == (0, 0)
    sampled = "to do: 1 cell, 3,000 problems, 48,000 responses to sample (at most 384,000 tokens), sampling takes up to"
    assert costs.line.startswith(sampled)
    assert "48,000 responses to grade, disk: 13.8 MB of vectors, up to about 13.8 MB of texts, about 12" in costs.line


def test_what_cannot_fit_on_the_disk_is_refused_before_anything_is_sampled(toy, tmp_path):
    huge = ("--n", 10**9, "--max-tokens", 1000, "--yes", "--engine", "toy:width=4096", "--dim", 4096)
    dry = toy("--selector", "shuffle", *huge, "--dry-run").err
    assert "disk: 98.3 TB of vectors, up to about 15.1 TB of texts, about 12.0 GB of verdicts (" in dry
    assert "free: too little)" in dry
    for more in ((), ("--grid", "sampler=vanilla+low-temp")):
        refusal = toy("--selector", "shuffle", *huge, *more)
        needed = "196.6 TB" if more else "98.3 TB"
        assert f"does not fit into {tmp_path / 'runs'}: it takes {needed} of vectors" in refusal.err
        assert refusal.code == 2
        assert not (tmp_path / "runs").exists()


def test_a_run_writes_no_more_than_it_was_said_to_take_and_the_vectors_to_the_byte(toy, plan, tmp_path):
    needed = preflight.space(plan(n=64, max_tokens=8))
    toy("--selector", "shuffle", "--n", 64, "--max-tokens", 8)
    written = {kind: sum(path.stat().st_size for path in files_of(tmp_path / "runs", kind)) for kind in KINDS}
    assert needed.vectors == 6 * (64 * 8 * 4 + preflight.FILE)  # 6 problems
    assert written["vectors"] == 6 * (64 * 8 * 4 + 128)  # numpy's head
    assert written["responses"] <= needed.texts
    assert written["verdicts"] <= needed.verdicts


def test_vectors_of_an_unknown_width_refuse_nothing(plan):
    embedded = plan(embedder="letters", selectors=("spread",), n=10**9)
    assert str(preflight.space(embedded)).startswith("up to 12.3 TB of vectors")
    preflight.space(embedded).require_room(embedded.store.root)


def test_costs_are_told_in_the_units_that_fit():
    for size, text in ((999_999, "1,000 kB"), (10**6, "1.0 MB"), (10**9, "1.0 GB")):
        assert preflight._size(size) == text
    assert str(Outlook(3 * 86400.0)) == "up to about 72:00:00"


def test_long_is_an_hour_or_more_than_can_be_counted_on():
    for short in (Outlook(3599.0), Outlook(0, 20_000, 10_000_000)):
        assert not short.is_long
    for long in (Outlook(1800.0) + Outlook(1800.0), Outlook(0, 20_001, 1), Outlook(0, 1, 10_000_001)):
        assert long.is_long


ELSEWHERE = """
from harness import hookimpl

class Elsewhere:
    def map(self, function, items, uses_model):
        raise AssertionError("it was begun")

@hookimpl
def register_executors(register):
    register("elsewhere", Elsewhere)
"""


def refused(outcome, store) -> str:
    """The one line of a command that was not begun."""
    assert outcome.code == 2, outcome.err
    assert not list(store.rglob("*.parquet"))
    (line,) = [line for line in outcome.err.splitlines() if line.startswith("error: ")]
    assert "add --yes to begin it unasked" in line
    return line


GRID = "--selector shuffle --grid sampler=vanilla+low-temp --data 160"  # half a minute each


@pytest.mark.parametrize("way", ["--selector shuffle", "--until-correct", GRID])
@pytest.mark.usefixtures("a_minute_is_long")
def test_a_long_run_is_not_begun_where_nobody_can_be_asked(toy, tmp_path, way):
    line = refused(toy(*MINUTES, *way.split()), tmp_path)
    assert "not begun, since it takes up to about " in line
    assert "--preset quick, --limit, --n and --max-tokens make it shorter" in line


def test_what_nobody_can_estimate_is_counted(toy, tmp_path):
    plugin = tmp_path / "elsewhere.py"
    plugin.write_text(ELSEWHERE)
    away = ("--selector", "shuffle", "--executor", "elsewhere", "--plugin", plugin)
    line = refused(toy(*away, "--data", 1251), tmp_path)  # 16 to each
    assert "since it takes 20,016 responses of up to 160,128 tokens in all, whose time is not known here" in line
    refused(toy(*away, "--data", 1000, "--n", 11, "--max-tokens", 910), tmp_path)
    with pytest.raises(AssertionError, match="it was begun"):
        toy(*away, "--data", 1250)


@pytest.mark.slow
def test_states_of_a_pool_made_elsewhere_are_counted_too(toy, tmp_path):
    toy("--selector", "shuffle", "--data", 24)
    for vectors in files_of(tmp_path / "runs", "vectors"):
        vectors.unlink()
    again = toy("--selector", "spread", "--data", 24)
    assert "to do: 4 cells, 24 problems, 384 responses to embed, embedding takes up to about 0:00:00" in again.err
    assert again.code == 0


class Timed:
    """Responses that take `start_s` for the prompt and `token_s` for each token, by a clock of its own."""

    def __init__(self, start_s: float, token_s: float) -> None:
        self.start_s, self.token_s, self.calls = start_s, token_s, []

    def __call__(self, tokens: int) -> None:
        self.calls.append(tokens)

    @property
    def spent_s(self) -> float:
        return sum(self.start_s + self.token_s * tokens for tokens in self.calls)


@pytest.fixture
def timed(monkeypatch):
    def call(start_s, token_s):
        each = Timed(start_s, token_s)
        monkeypatch.setattr(preflight.time, "perf_counter", lambda: each.spent_s)
        return each

    return call


@pytest.mark.parametrize(
    ("start_s", "token_s"), [(0.0, 0.0), (0.01, 0.001), (1.0, 0.05), (0.1, 0.5), (0.0, 3.0), (4.0, 0.01)]
)
def test_a_probe_takes_seconds_and_tells_what_whole_responses_would_take(timed, start_s, token_s):
    call = timed(start_s, token_s)
    seconds = preflight._probed(call, 1000)
    assert call.spent_s <= 2 * preflight.PROBE_S
    assert seconds == pytest.approx(start_s + 1000 * token_s)


def test_a_probe_of_one_token_that_takes_all_the_time_is_the_last(timed):
    call = timed(15.0, 0.1)
    assert preflight._probed(call, 1000) >= 15 + 1000 * 0.1  # at most
    assert call.calls == [1]


def test_a_probe_loads_the_model_first_and_samples_longer_and_longer_responses(plan, monkeypatch):
    long = plan(data=Path("100"), max_tokens=100)
    engine, seen = long.responses.engine.built, []
    sample = engine.sample

    def watched(request):
        seen.append((request.n, request.max_tokens))
        return sample(request)

    monkeypatch.setattr(engine, "sample", watched)
    assert preflight.preflight(long).outlook.seconds > 0
    assert seen == [(1, 1), (16, 1), (16, 4), (16, 16), (16, 64), (16, 100)]


@pytest.mark.parametrize(("answer", "begun"), [(" YES ", True), ("y", True), ("n", False), ("", False)])
def test_at_a_terminal_long_work_is_asked_about_once(monkeypatch, answer, begun):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    progress, long = Progress(Terminal(), asks=True), Outlook(3600.0)
    monkeypatch.setattr("sys.stdin", Terminal(f"{answer}\n"))
    if begun:
        for _ in range(2):
            preflight.require_consent("run", long, progress, "--n helps")
    else:
        line = refusal_of(preflight.require_consent, "run", long, progress, "--n helps")
        assert line.startswith("run: not begun, since it takes up to about 1:00:00: add --yes")
    assert progress.console.file.getvalue().count("begin? [y/N]") == 1
