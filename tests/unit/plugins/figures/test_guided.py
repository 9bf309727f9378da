"""The figure `guided`, from records of runs that stopped at the first correct response."""

import numpy as np
import pytest
from support.cells import cell, entry, keep
from support.refusals import refusal_of

from harness.results import stopping_times
from harness_plugins.figures import frame
from harness_plugins.figures.guided import Guided, bin_count
from harness_plugins.figures.request import Request

PROBLEMS, BUDGET = 12, 6
TIMES = {  # by sampler and seed: when each problem was solved; 9: never within the budget
    ("vanilla", 0): (1, 2, 3, 4, 5, 6, 9, 9, 1, 1, 2, 9),
    ("vanilla", 1): (2, 2, 9, 4, 1, 9, 9, 9, 1, 3, 2, 5),
    ("repexp-guided", 0): (1, 1, 1, 2, 1, 1, 9, 1, 1, 1, 2, 9),
    ("repexp-guided", 1): (1, 9, 1, 1, 2, 1, 1, 9, 2, 1, 1, 1),
}


def write(folder, sampler, seed, times, model="parrot"):
    entries = [
        {"id": f"test/{i}", "time": min(time, BUDGET), "solved": time <= BUDGET, "tokens": 3, "errors": 0}
        for i, time in enumerate(times)
    ]
    settings = {"beta": 0.5} if sampler == "repexp-guided" else {}
    inputs = {"sampler": settings, "seed": seed, "name": sampler, "model": model}
    labels = {"task": "colours", "model": model, "sampler": sampler, "seed": seed}
    about = {"kind": stopping_times.KIND, "schema": stopping_times.SCHEMA, "budget": BUDGET}
    stopping_times.write(folder, about | {"inputs": inputs, "labels": labels, "problems": entries})


@pytest.fixture
def sequences(tmp_path):
    """Two samplers, two seeds each; the folder of their records."""
    for (sampler, seed), times in TIMES.items():
        write(tmp_path / "runs", sampler, seed, times)
    return tmp_path / "runs" / "sequences"


def test_the_curves_are_kaplan_meiers_over_all_seeds(sequences):
    (sequences / "broken.json").write_text("{")
    messages = []
    rows = frame.table(Request("guided", folders=[sequences], say=messages.append))
    assert [line.partition(":")[0] for line in messages] == ["not counted", "no panel by hardness"]
    assert [row["series"] for row in rows] == ["vanilla"] * 6 + ["repexp-guided"] * 6
    assert [row["k"] for row in rows] == [1, 2, 3, 4, 5, 6] * 2
    for row in rows:
        times = np.array([TIMES[row["series"], seed] for seed in (0, 1)])
        assert row["solved"] == pytest.approx((times <= row["k"]).mean(), rel=1e-5)
        assert (row["n"], row["problems"], row["seeds"], row["panel"]) == (BUDGET, PROBLEMS, 2, "budget")


def test_the_gain_by_hardness_is_paired_with_the_first_sampler_and_drawn_where_something_differs(sequences, tmp_path):
    pytest.importorskip("matplotlib")
    keep(tmp_path / "reference", cell([entry(f"test/{i}", [1], c=1 + i % 5, n=BUDGET) for i in range(PROBLEMS)]))
    table = frame.table(Request("guided", folders=[sequences], reference=tmp_path / "reference"))
    rows = [row for row in table if row["panel"] == "hardness"]
    assert [row["k"] for row in rows] == [k for k in (1, 4, BUDGET) for _ in range(2 * 4)]
    for k in (1, 4, BUDGET):
        baseline, other = ([row for row in rows if row["k"] == k and ("over" in row) == has] for has in (False, True))
        assert {row["series"] for row in baseline} == {"vanilla"}
        assert [row["questions"] for row in other] == [3, 3, 3, 3]
        for row, own in zip(other, baseline, strict=True):
            assert row["gain"] == pytest.approx(row["solved"] - own["solved"], abs=1e-5)
            assert row["gain_low"] <= row["gain"] <= row["gain_high"]
        shares = {name: np.mean([np.array(TIMES[name, seed]) <= k for seed in (0, 1)]) for name, _ in TIMES}
        gain = shares["repexp-guided"] - shares["vanilla"]
        assert np.mean([row["gain"] for row in other]) == pytest.approx(gain, abs=1e-5)
        assert [row["hardness_low"] for row in other] == sorted(row["hardness_low"] for row in other)
    for without, shown in (({4}, [1, 6]), ({1, 4, 6}, [6])):
        alike = {"gain": 0.0, "gain_low": None, "gain_high": None}
        with frame.styled():
            figure = Guided().draw([row | (alike if row["k"] in without and "gain" in row else {}) for row in table])
        titles = [axes.get_title(loc="left").partition(",")[0] for axes in figure.axes]
        assert titles[1:] == [f"within {k} calls" for k in shown]
        said = f"no difference within {', '.join(map(str, sorted(without)))} calls"
        assert said in [text.get_text() for text in figure.legends[0].get_texts()]


def test_there_are_ten_bins_from_a_hundred_questions_on_four_below_and_as_many_as_asked_for():
    def bins(questions: int, requested: int | None = None) -> int:
        return bin_count(Request("guided", bins=requested), questions)

    assert [bins(questions) for questions in (3, 99, 100)] == [3, 4, 10]
    assert (bins(12, 10), bins(200, 5)) == (10, 5)
    assert "--bins 13: there are only 12 questions" in refusal_of(bins, 12, 13)
    assert "--bins must be at least 1, got 0" in refusal_of(bins, 12, 0)
    assert "--bins goes with `harness plot guided` only" in refusal_of(Request, "hardness", bins=5)


def test_what_cannot_be_drawn_is_one_line(sequences, tmp_path):
    request = Request("guided", folders=[sequences])
    assert "no sequences in" in refusal_of(frame.table, Request("guided", folders=[tmp_path / "empty"]))
    assert "--reference" in refusal_of(frame.table, Request("guided", [sequences], reference=tmp_path / "nowhere"))
    write(tmp_path / "runs", "vanilla", 2, (1, 2))
    assert "not of the same problems" in refusal_of(frame.table, request)
    write(tmp_path / "runs", "vanilla", 3, (1, 2), model="macaw")
    line = refusal_of(frame.table, request)
    assert "there are sequences of colours · macaw; colours · parrot: name one by --task and --model" in line
