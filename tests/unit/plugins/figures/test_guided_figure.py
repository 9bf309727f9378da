"""`harness plot guided`: from runs that stopped at the first correct response."""

import csv
import json

import numpy as np
import pytest

from harness.results import cells, stopping_times


@pytest.fixture
def sequences(toy, tmp_path):
    """Two samplers, two seeds each, of 12 problems with at most 6 responses; the folder of their records."""
    for sampler in ("vanilla", "low-temp"):
        for seed in (0, 1):
            done = toy("--until-correct", "--data", "12", "--n", "6", "--sampler", sampler, "--seed", seed)
            assert done.code == 0, done.err
    return tmp_path / "runs" / "sequences"


def lucky(folder) -> None:
    """Make low-temp solve at once what it solved at all: another record, as another sampler would leave it."""
    for path in folder.glob("*.json"):
        record = json.loads(path.read_text())
        if record["labels"]["sampler"] == "low-temp":
            for entry in record["problems"]:
                entry["time"], entry["solved"] = 1, True
            record["checksum"] = cells.checksum(record)
            path.write_text(json.dumps(record))


def table(folder) -> list[dict[str, str]]:
    with open(folder / "guided.csv", newline="") as file:
        return list(csv.DictReader(file))


def test_the_curves_are_kaplan_meiers_over_all_seeds(harness, sequences, tmp_path):
    drawn = harness("plot", "guided", sequences, "--out", tmp_path / "out")
    assert drawn.code == 0, drawn.err
    assert "no panel by hardness: --reference CELL says which questions are hard" in drawn.err
    records = [stopping_times.read(path) for path in sequences.glob("*.json")]
    for name in ("vanilla", "low-temp"):
        own = [record for record in records if record["labels"]["sampler"] == name]
        times = np.array([e["time"] if e["solved"] else 99 for record in own for e in record["problems"]])
        for row in table(tmp_path / "out"):
            if row["series"] == name:
                assert float(row["solved"]) == pytest.approx((times <= int(row["k"])).mean(), rel=1e-5)
                assert row["seeds"] == "2"
    assert (tmp_path / "out" / "guided.pdf").read_bytes().startswith(b"%PDF")


def test_the_gain_by_hardness_is_paired_with_the_first_sampler(harness, toy, sequences, tmp_path):
    lucky(sequences)
    toy("--data", "12", "--n", "6", "--selector", "head", store=tmp_path / "reference")
    reference = tmp_path / "reference" / "cells"
    drawn = harness("plot", "guided", sequences, "--reference", reference, "--out", tmp_path / "out")
    assert drawn.code == 0, drawn.err
    rows = [row for row in table(tmp_path / "out") if row["panel"] == "hardness"]
    baseline, other = ([row for row in rows if bool(row["over"]) == has] for has in (False, True))
    assert {row["series"] for row in other} == ({"vanilla", "low-temp"} - {baseline[0]["series"]})
    assert [int(row["questions"]) for row in other] == [3, 3, 3, 3]
    for row, own in zip(other, baseline, strict=True):
        assert float(row["gain"]) == pytest.approx(float(row["solved"]) - float(own["solved"]), abs=1e-5)
    assert [float(row["hardness_low"]) for row in other] == sorted(float(row["hardness_low"]) for row in other)


def test_what_cannot_be_drawn_is_one_line(harness, toy, sequences, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "no sequences in" in harness("plot", "guided", empty).err
    other = harness("plot", "guided", sequences, "--reference", tmp_path / "nowhere")
    assert "--reference" in other.err
    assert other.code == 2
    toy("--until-correct", "--data", "5", "--n", "6")
    assert "not of the same problems" in harness("plot", "guided", sequences).err
