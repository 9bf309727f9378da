"""The figures `rl-passk` and `rl-likelihoods`, from an evaluation's file."""

import json

import numpy as np
import pytest
from support.figure_cells import close
from support.refusals import refusal_of

from harness_plugins.figures import frame
from harness_plugins.figures.request import Request
from harness_plugins.rl import evaluation as rl_eval
from harness_plugins.rl import figures

COUNTS = {"base": [[2, 0, 0, 0]], "none": [[16, 1, 0, 0], [16, 1, 0, 0]], "repexp:dim=4": [[16, 4, 2, 0]] * 2}
LIKELIHOODS = {"base": [-1.0, -0.5, -2.0, None], "none": [-0.25, -0.5, -0.5, -1.0], "repexp:dim=4": [-3.0] * 4}


@pytest.fixture
def folder(tmp_path):
    """An evaluation of three methods: the initial model, and two of two seeds each."""
    policies = [
        {"bonus": bonus, "c": c, "likelihoods": LIKELIHOODS[bonus]} for bonus, each in COUNTS.items() for c in each
    ]
    about = {
        "kind": rl_eval.KIND,
        "schema": rl_eval.SCHEMA,
        "task": "game24",
        "split": "test",
        "model": "m",
        "n": 16,
    }
    (tmp_path / "rl-eval.json").write_text(json.dumps(about | {"problems": list("abcd"), "policies": policies}))
    return tmp_path


def test_an_arrow_says_where_repexp_reaches_another_methods_last_pass_at_k(folder):
    request = Request("rl-passk", folders=[folder])
    rows = frame.table(request)
    assert [row["k"] for row in rows] == [1, 2, 4, 8, 16] * 3
    reached = {row["bonus"]: row["reached_at"] for row in rows if row["k"] == 16}
    repexp = rl_eval.curves(rl_eval.read(folder))[2].mean
    assert reached["repexp:dim=4"] is None
    for bonus, height in (("none", 0.5), ("base", 0.25)):
        assert reached[bonus] == close(max(1, np.interp(height, repexp, range(1, 17))))
    times = {row["bonus"]: row["times_fewer"] for row in rows if row["k"] == 16}
    # base is as high with 15 of its samples: each question has two correct ones or none
    assert times == {"none": close(16 / reached["none"]), "base": close(15 / reached["base"]), "repexp:dim=4": None}
    assert all(row["reached_at"] is None for row in rows if row["k"] < 16)
    assert [(row["seeds"], row["standard_error"]) for row in rows if row["k"] == 16] == [(1, None), (2, 0), (2, 0)]
    written(request, folder)


def test_the_linear_figure_has_more_budgets_and_a_linear_axis(folder):
    request = Request("rl-passk-linear", folders=[folder])
    rows = frame.table(request)
    assert [row["k"] for row in rows] == list(range(1, 17)) * 3
    assert [row for row in rows if row["k"] in (1, 2, 4, 8, 16)] == frame.table(Request("rl-passk", [folder]))
    pytest.importorskip("matplotlib")
    with frame.styled():
        scales = [figure.draw(rows).axes[0].get_xscale() for figure in (figures.RlPassKLinear(), figures.RlPassK())]
    assert scales == ["linear", "log"]


def test_evaluations_have_a_panel_each_methods_their_colour_everywhere_and_arrows_numbers_that_can_be_read(folder):
    pytest.importorskip("matplotlib")
    other = folder / "other"
    other.mkdir()
    text = (folder / "rl-eval.json").read_text()
    (other / "rl-eval.json").write_text(text.replace("dim=4", "dim=8").replace("[16, 1, 0, 0]", "[16, 0, 0, 0]"))
    rows = frame.table(Request("rl-passk", [folder, other]))
    assert list(dict.fromkeys(row["evaluation"] for row in rows)) == [folder.name, "other"]
    with frame.styled():
        figure = figures.RlPassK().draw(rows)
        figure.draw_without_rendering()
    for axes, name, dim in zip(figure.axes, (folder.name, "other"), (4, 8), strict=True):
        assert axes.get_title(loc="left").splitlines()[:2] == ["game24, test", name]
        numbers = [text.get_window_extent() for text in axes.texts if text.get_text().endswith("x")]
        assert len(numbers) == len({row["bonus"] for row in rows if row["evaluation"] == name and row["times_fewer"]})
        assert not numbers[0].overlaps(numbers[-1]) or len(numbers) == 1
        assert min(box.x0 for box in numbers) > axes.get_window_extent().x1
        colours = {line.get_color() for line in axes.get_lines()}
        bonus = f"repexp:dim={dim}"
        assert frame.of_selectors([bonus])[bonus]["color"] == frame.of_selectors(["repexp"])["repexp"]["color"]
        assert colours == {frame.GREY, frame.INK, frame.of_selectors(["repexp"])["repexp"]["color"]}


def test_task_and_seed_choose_and_what_an_evaluation_has_not_is_refused(folder):
    other = folder / "other"
    other.mkdir()
    content = json.loads((folder / "rl-eval.json").read_text())
    policies = [
        {"bonus": bonus, "seed": seed, "c": c}
        for bonus, seed, c in (("base", None, [2, 0, 0, 0]), ("none", 1, [16, 1, 0, 0]), ("none", 2, [0, 0, 0, 0]))
    ]
    (other / "rl-eval.json").write_text(json.dumps(content | {"task": "gsm8k:fallback=no", "policies": policies}))
    both = [folder, other]
    rows = frame.table(Request("rl-passk", both, task="gsm8k", seed=1))
    assert {row["evaluation"] for row in rows} == {"other"}
    assert {row["bonus"]: (row["seeds"], row["pass_at_k"]) for row in rows if row["k"] == 16} == {
        "base": (1, 0.25),
        "none": (1, 0.5),
    }
    for options, reason in (
        ({"task": "math"}, "math"),
        ({"task": "gsm8k", "seed": 3}, "no policy of other has seed 3 (it has 1, 2)"),
        ({"seed": 1}, "has seed 1 (it has none)"),
        ({"sampler": "vanilla"}, "sampler"),
    ):
        assert reason in refusal_of(frame.table, Request("rl-passk", both, **options))


def written(request: Request, folder) -> None:
    """Draw it; a picture is not empty."""
    frame.write(request, folder)
    assert (folder / f"{request.name}.png").stat().st_size > 10_000
    assert (folder / f"{request.name}.pdf").read_bytes().startswith(b"%PDF")
    assert (folder / f"{request.name}.csv").read_text().count("\n") > 10


def test_the_bins_of_likelihoods_hold_every_response_of_a_method_and_without_them_it_is_refused(folder):
    request = Request("rl-likelihoods", folders=[folder])
    rows = frame.table(request)
    for bonus, responses in (("base", 3), ("none", 8), ("repexp:dim=4", 8)):
        bins = [row for row in rows if row["bonus"] == bonus]
        assert len(bins) == 30
        assert sum(row["count"] for row in bins) == bins[0]["responses"] == responses
        assert sum(row["share"] for row in bins) == pytest.approx(1, abs=1e-5)
    assert rows[0]["mean"] == pytest.approx(-3.5 / 3, abs=1e-5)
    assert (rows[0]["from"], rows[29]["to"]) == (-3, -0.25)
    written(request, folder)
    file = folder / "rl-eval.json"
    file.write_text(file.read_text().replace("likelihoods", "others"))
    line = refusal_of(frame.table, request)
    assert "game24: the evaluation has no likelihoods: run `harness rl eval` with them" in line
