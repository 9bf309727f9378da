"""What a run says before it begins: what is to do, what it may cost, and a question where that is hours."""

import io

import pytest
from support.refusals import error_line, refusal_of
from support.stores import files_of

from harness.jobs import price
from harness.jobs.price import Outlook
from harness.system.progress import Progress

PLUGIN = """
class Remote(Parrot):
    def to_fetch(self):
        return "the weights of lab/large"

class Distant(Colours):
    sizes = {"test": 6}
    def problems(self, split):
        raise Lacking("distant: no road leads there")

class Elsewhere:
    def map(self, function, items, uses_model):
        raise AssertionError("it was begun")
"""


@pytest.fixture
def shuffled(toy, plugin):
    """Run the toy task with `shuffle` and the plugins above, with the options of a text."""
    own = plugin(PLUGIN, engine=["Remote"], task=["Distant"], executor=["Elsewhere"])
    return lambda options: toy("--selector", "shuffle", "--plugin", own, *options.split())


def test_a_run_says_what_is_to_do_before_it_begins(toy, tmp_path):
    lines = toy("--selector", "shuffle", "--selector", "spread", "--limit", 4).err.splitlines()
    # 64 vectors of 8 numbers, 64 x (12 + 2.5 x 8) bytes of texts, 64 x 2 of verdicts; four files of each
    disk = "disk: 18 kB of vectors, up to about 18 kB of texts, about 17 kB of verdicts ("
    responses = "64 responses to sample (at most 512 tokens), 64 responses to grade"  # two, and three controls
    assert lines[0].startswith(f"to do: 5 cells, 4 problems, {responses}, {disk}")
    assert lines[1].startswith("sample: ")
    again = toy("--selector", "spread", "--data", 24).err
    assert "24 problems, 320 responses to sample (at most 2,560 tokens), sampling takes up to about 0:00:00, " in again
    assert "to do" not in toy("--selector", "spread", "--data", 24).err
    for vectors in files_of(tmp_path / "runs", "vectors"):
        vectors.unlink()
    again = toy("--selector", "spread", "--data", 24).err
    assert "24 problems, 384 responses to embed, embedding takes up to about 0:00:00" in again


def test_what_cannot_fit_on_the_disk_is_refused_before_anything_is_sampled(shuffled, tmp_path):
    huge = "--n 1000000000 --max-tokens 1000 --yes --engine toy:width=4096 --dim 4096"
    dry = shuffled(f"{huge} --dry-run").err
    assert "disk: 98.3 TB of vectors, up to about 15.1 TB of texts, about 12.0 GB of verdicts (" in dry
    assert "free: too little)" in dry
    for needed, more in (("98.3 TB", ""), ("196.6 TB", " --grid sampler=vanilla+low-temp")):
        refusal = shuffled(huge + more)
        assert f"does not fit into {tmp_path / 'runs'}: it takes {needed} of vectors" in refusal.err
        assert (refusal.code, (tmp_path / "runs").exists()) == (2, False)
    unknown = "--n 1000000000 --embedder letters --selector spread --dry-run"  # of unknown width
    assert "up to 12.3 TB of vectors" in shuffled(unknown).err


MINUTES = "--data 400 --engine toy:delay_s=0.2"  # 80 s
COUNTED = "--executor elsewhere --data 1251"  # problems of 16 responses
LARGE = "--engine remote --n 1000000 --max-tokens 1000"


@pytest.mark.parametrize(
    ("way", "words"),
    [
        (MINUTES, "up to about 0:01:"),
        (f"{MINUTES} --grid sampler=vanilla+low-temp", "up to about 0:0"),
        (COUNTED, "20,016 responses of up to 160,128 tokens in all, whose time is not known here"),
        (f"{LARGE} --task distant", "6,000,000 responses of up to 6,000,000,000 tokens in all"),
    ],
)
def test_a_long_run_is_not_begun_where_nobody_can_be_asked(shuffled, tmp_path, monkeypatch, way, words):
    monkeypatch.setattr(price, "LONG_S", 60.0)
    refused = shuffled(way)
    line = refused.err.splitlines()[-1]
    assert line.startswith(f"error: run: not begun, since it takes {words}")
    assert "add --yes to begin it unasked; --preset quick, --limit, --n and --max-tokens make it shorter" in line
    assert (refused.code, list(tmp_path.glob("runs/**/*.parquet"))) == (2, [])


def test_the_work_is_problems_by_responses_by_tokens_where_the_data_is_lacking(shuffled):
    remote = "--engine remote --n 5 --max-tokens 7 --task distant --dry-run"
    dry = shuffled(remote)
    said = iter(dry.err.splitlines())
    for line in (
        "at most 6 problems x 5 = 30 responses x 7 = 210 tokens",
        "disk: up to 86 kB of vectors, up to about 25 kB of texts, about 25 kB of",
        "not planned yet: distant: no road leads there",
    ):
        assert any(each.startswith(line) for each in said), line
    assert dry.rows[0] == {"stage": "sample", "there": None, "to_make": 6, "key": None}
    assert [row["stage"] for row in dry.rows] == ["sample", "embed", "verify", "rank shuffle"]
    assert shuffled(f"{remote} --limit 4").rows[0]["to_make"] == 4
    assert "no road leads there" in error_line(shuffled(f"{remote} --split broken"))  # of no known number


@pytest.mark.parametrize("answer", [" YES ", "n", ""])
def test_at_a_terminal_long_work_is_asked_about_once(monkeypatch, answer):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    progress, long = Progress(Terminal(), asks=True), Outlook(3600.0)
    monkeypatch.setattr("sys.stdin", Terminal(f"{answer}\n"))
    if answer == " YES ":
        price.require_consent("run", long, progress, "--n helps")
        price.require_consent("run", long, progress, "--n helps")
    else:
        line = refusal_of(price.require_consent, "run", long, progress, "--n helps")
        assert line.startswith("run: not begun, since it takes up to about 1:00:00: add --yes")
    assert progress.console.file.getvalue().count("begin? [y/N]") == 1
