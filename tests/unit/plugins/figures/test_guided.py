"""The figure `guided`, from records of runs that stopped at the first correct response."""

import numpy as np
import pytest
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


def record(sampler: str, seed: int, times: tuple[int, ...]) -> stopping_times.Record:
    entries = [
        {"id": f"test/{i}", "time": min(time, BUDGET), "solved": time <= BUDGET, "tokens": 3, "errors": 0}
        for i, time in enumerate(times)
    ]
    inputs = {"sampler": {"beta": 0.5} if sampler == "repexp-guided" else {}, "seed": seed, "name": sampler}
    labels = {"task": "colours", "model": "parrot", "sampler": sampler, "seed": seed}
    about = {"kind": stopping_times.KIND, "schema": stopping_times.SCHEMA, "budget": BUDGET}
    return about | {"inputs": inputs, "labels": labels, "problems": entries}


@pytest.fixture
def sequences(tmp_path):
    """Two samplers, two seeds each; the folder of their records."""
    for (sampler, seed), times in TIMES.items():
        stopping_times.write(tmp_path / "runs", record(sampler, seed, times))
    return tmp_path / "runs" / "sequences"


def test_the_curves_are_kaplan_meiers_over_all_seeds(sequences):
    (sequences / "broken.json").write_text("{")
    messages = []
    request = Request("guided", folders=[sequences], say=messages.append)
    rows = frame.table(request)
    assert [line.partition(":")[0] for line in messages] == ["not counted", "no panel by hardness"]
    assert [row["series"] for row in rows] == ["vanilla"] * 6 + ["repexp-guided"] * 6
    assert [row["k"] for row in rows] == [1, 2, 3, 4, 5, 6] * 2
    for row in rows:
        times = np.array([TIMES[row["series"], seed] for seed in (0, 1)])
        assert row["solved"] == pytest.approx((times <= row["k"]).mean(), rel=1e-5)
        assert (row["n"], row["problems"], row["seeds"], row["panel"]) == (BUDGET, PROBLEMS, 2, "budget")


@pytest.mark.slow
def test_the_gain_by_hardness_is_paired_with_the_first_sampler(sequences, toy, tmp_path):
    toy("--data", PROBLEMS, "--n", BUDGET, "--selector", "head", store=tmp_path / "reference")
    request = Request("guided", folders=[sequences], reference=tmp_path / "reference" / "cells")
    rows = [row for row in frame.table(request) if row["panel"] == "hardness"]
    assert [row["k"] for row in rows] == [k for k in (1, 4, BUDGET) for _ in range(2 * 4)]
    for k in (1, 4, BUDGET):
        of_budget = [row for row in rows if row["k"] == k]
        baseline, other = ([row for row in of_budget if bool(row.get("over")) == has] for has in (False, True))
        assert {row["series"] for row in baseline} == {"vanilla"}
        assert [int(row["questions"]) for row in other] == [3, 3, 3, 3]
        for row, own in zip(other, baseline, strict=True):
            assert row["gain"] == pytest.approx(row["solved"] - own["solved"], abs=1e-5)
            assert row["gain_low"] <= row["gain"] <= row["gain_high"]
        shares = {name: np.mean([np.array(TIMES[name, seed]) <= k for seed in (0, 1)]) for name, _ in TIMES}
        gain = shares["repexp-guided"] - shares["vanilla"]
        assert np.mean([row["gain"] for row in other]) == pytest.approx(gain, abs=1e-5)
        assert [row["hardness_low"] for row in other] == sorted(row["hardness_low"] for row in other)


def test_a_panel_by_hardness_is_drawn_for_each_budget_within_which_something_differs(sequences):
    pytest.importorskip("matplotlib")
    rows = frame.table(Request("guided", folders=[sequences]))
    gains = {1: (0.5, 0.0), 4: (0.0, 0.0), 6: (-0.25, 0.0)}
    about = {**rows[0], "panel": "hardness", "over": "vanilla", "judged_by": "parrot", "series": "repexp-guided"}
    rows += [
        {**about, "k": k, "bin": place, "gain": gain, "gain_low": None, "gain_high": None}
        for k, each in gains.items()
        for place, gain in enumerate(each, 1)
    ]

    def drawn(rows):
        with frame.styled():
            figure = Guided().draw(rows)
        titles = [axes.get_title(loc="left").partition(",")[0] for axes in figure.axes]
        return titles[1:], [text.get_text() for text in figure.legends[0].get_texts()]

    titles, legend = drawn(rows)
    assert titles == ["within 1 calls", "within 6 calls"]
    assert "no difference within 4 calls" in legend
    titles, legend = drawn([row | ({"gain": 0.0} if "gain" in row else {}) for row in rows])
    assert titles == ["within 6 calls"]
    assert "no difference within 1, 4, 6 calls" in legend


def test_there_are_ten_bins_from_a_hundred_questions_on_four_below_and_as_many_as_asked_for():
    def bins(questions: int, requested: int | None = None) -> int:
        return bin_count(Request("guided", bins=requested), questions)

    assert [bins(questions) for questions in (3, 99, 100, 200)] == [3, 4, 10, 10]
    assert (bins(12, 10), bins(200, 5)) == (10, 5)
    assert "--bins 13: there are only 12 questions" in refusal_of(bins, 12, 13)
    assert "--bins must be at least 1, got 0" in refusal_of(bins, 12, 0)
    assert "--bins goes with `harness plot guided` only" in refusal_of(Request, "hardness", bins=5)


def test_what_cannot_be_drawn_is_one_line(sequences, toy, tmp_path):
    request = Request("guided", folders=[sequences])
    assert "no sequences in" in refusal_of(frame.table, Request("guided", folders=[tmp_path / "empty"]))
    assert "--reference" in refusal_of(frame.table, Request("guided", [sequences], reference=tmp_path / "nowhere"))
    stopping_times.write(tmp_path / "runs", record("vanilla", 2, (1, 2)))
    assert "not of the same problems" in refusal_of(frame.table, request)
    other = record("vanilla", 3, (1, 2))
    other["labels"]["model"] = other["inputs"]["model"] = "macaw"
    stopping_times.write(tmp_path / "runs", other)
    line = refusal_of(frame.table, request)
    assert "there are sequences of colours · macaw; colours · parrot: name one by --task and --model" in line
