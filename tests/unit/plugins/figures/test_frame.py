"""The files of a figure, what its drawing holds, its style, and the command that writes them."""

from __future__ import annotations

import os
import re
from collections import defaultdict

import pytest
from support.figure_cells import NAMES, NARROW, rows_of
from support.paths import ROOT, TOY
from support.processes import printed_by
from support.refusals import error_line

from harness.plugin_system.registry import load_registry
from harness.results.inert_text import csv_table
from harness_plugins.figures import frame
from harness_plugins.figures.calls import Scatter
from harness_plugins.figures.curves import PassK


@pytest.fixture(scope="module")
def tables(cells, figure_store):
    """The table of each figure, by its name."""
    return {name: rows_of(name, cells, store=figure_store, **NARROW.get(name, {})) for name in NAMES}


@pytest.mark.slow
def test_a_figure_is_a_pdf_a_png_and_the_table_it_was_drawn_from(harness, tables, cells, figure_store, tmp_path):
    pytest.importorskip("matplotlib")
    from PIL import Image

    options = ("--selector", "spread", "--sampler", "vanilla", "--store", figure_store, "--plugin", TOY)
    outcome = harness("plot", "likelihoods", cells, *options, "--out", tmp_path / "out")
    assert outcome.code == 0, outcome.err
    pdf, png, table = (tmp_path / "out" / f"likelihoods.{kind}" for kind in ("pdf", "png", "csv"))
    assert outcome.out.splitlines() == [str(pdf), str(png), str(table)]
    assert pdf.read_bytes().startswith(b"%PDF-")
    assert b"/CreationDate" not in pdf.read_bytes()
    assert b"atplotlib" not in png.read_bytes()  # nor its version
    with Image.open(png) as image:
        assert image.format == "PNG"
        assert image.info["dpi"] == pytest.approx((200, 200), abs=0.1)
        assert len(image.convert("RGB").getcolors(1 << 24)) > 20  # no empty sheet
    assert table.read_text() == csv_table(tables["likelihoods"])


def test_a_table_has_six_digits_and_a_csv_leaves_missing_values_empty(tables):
    rows = [row for table in tables.values() for row in table]
    assert all(value == float(f"{value:.6g}") for row in rows for value in row.values() if type(value) is float)
    assert csv_table([{"a": 0.5, "b": None}, {"c": "x"}]) == "a,b,c\n0.5,,\n,,x\n"


def test_every_figure_can_be_drawn_and_has_its_title_axes_and_units(tables):
    pytest.importorskip("matplotlib")
    with frame.styled():
        for name, rows in tables.items():
            figure = load_registry().find("plot", name).load()().draw(rows)
            figure.draw_without_rendering()  # warns, and so fails, where the layout does not fit
            assert figure.get_suptitle(), name
            assert figure.legends, name
            for axes in figure.axes:
                assert axes.get_xlabel(), name
                assert axes.get_ylabel() or axes.get_yticklabels(), name


def test_the_page_names_every_figure_with_its_columns(tables):
    page = (ROOT / "docs" / "report.md").read_text()
    labels = {"task", "model", "sampler", "embedder", "selector", "n", "problems", "cell"}
    missing = []
    for name, rows in tables.items():
        described = re.findall(rf"^\| `{name}` \|(.*)\|$", page, re.M)[-1]
        missing += [(name, column) for column in {*rows[0]} - labels if not re.search(rf"\b{column}\b", described)]
    assert missing == []


@pytest.mark.slow
def test_the_same_table_gives_the_same_bytes_in_another_process_with_other_settings(tables, tmp_path):
    pytest.importorskip("matplotlib")
    code = "import hashlib; from harness_plugins.figures import curves, frame\n"
    code += f"with frame.styled():\n    figure = curves.PassK().draw({tables['passk']!r})\n"
    code += "    hashes = [hashlib.sha256(frame.encoded(figure, kind)).hexdigest() for kind in ('pdf', 'png')]\n"
    here: dict[str, list[str]] = {}
    exec(code, here)
    settings = tmp_path / "matplotlibrc"
    settings.write_text("font.size: 20\naxes.facecolor: yellow\nsavefig.dpi: 50\n")
    env = {"MATPLOTLIBRC": str(settings), "PYTHONHASHSEED": "77", "SOURCE_DATE_EPOCH": "1000000000"}
    assert printed_by(f"{code}print(hashes)", env=os.environ | env) == str(here["hashes"])


def test_twelve_series_differ_in_marker_and_the_colours_in_line():
    looks = list(frame.of_others(range(24)).values())
    assert len({look["marker"] for look in looks[:12]}) == 12
    assert len({(look["color"], look["linestyle"]) for look in looks}) == 24


def test_a_log_axis_has_ticks_and_holds_what_it_was_given():
    pytest.importorskip("matplotlib")
    ((axes, _),) = frame.Frame("ticks", [{}])
    for low, high in ((1, 17), (3.9, 4.1), (1, 6401), (0.5, 0.6), (1, 1)):
        for base in (2, 10):
            frame.Frame.log_axis(axes.xaxis, low, high, base=base)
            left, right = axes.get_xlim()
            assert left < low <= high < right, (low, high, base)
            assert 2 <= sum(left <= tick <= right for tick in axes.xaxis.get_majorticklocs()) <= 9, (low, high, base)


def test_a_drawing_holds_the_tables_values(tables):
    pytest.importorskip("matplotlib")
    with frame.styled():
        rows = tables["scatter"]
        (axes,) = Scatter().draw(rows).axes
        points = {tuple(map(float, line.get_xydata()[0])) for line in axes.get_lines()}
        assert {(row["random"], row["selected"]) for row in rows} <= points
        wanted = defaultdict(list)
        for row in tables["passk"]:
            wanted[row["series"]].append((row["k"], 100 * row["passed"]))
        (axes,) = PassK().draw(tables["passk"]).axes
        points = [list(zip(*map(list, line.get_data()), strict=True)) for line in axes.get_lines()]
        assert points == list(wanted.values())


def test_figures_are_listed_without_matplotlib_and_what_is_missing_is_one_line(harness, cells, monkeypatch):
    monkeypatch.setattr("harness.system.extras.find_spec", lambda name: None)
    listed = [row["name"] for row in harness("plot", "--list", "--json").rows]
    assert listed[: len(NAMES)] == list(NAMES)  # those of trained models, which are not made of cells, follow
    line = error_line(harness("plot", "passk", cells))
    assert line == "error: plot needs matplotlib: not installed: pip install 'diversity-harness[plots]'"
    line = error_line(harness("plot", "scater"))
    assert line.startswith("error: plot: no figure 'scater' (did you mean 'scatter'? figures: gains, guided,")


def test_names_lose_their_parameters_where_they_stay_apart():
    alike = ["plus:tests=base,by=use, crow", "plus:by=use, crow"]
    assert frame.short([*alike, "mbpp:by=use, jay, n = 64"]) == {
        **{name: name for name in alike},
        "mbpp:by=use, jay, n = 64": "mbpp, jay, n = 64",
    }


@pytest.mark.parametrize(
    ("name", "column"), [("questions", "series"), ("samplers", "panel"), ("samplers", "series"), ("models", "model")]
)
def test_no_title_and_no_label_is_cut_however_long_the_names_are(tables, name, column):
    pytest.importorskip("matplotlib")
    from matplotlib.text import Text

    long = " · WWWW:answer_by=behaviour,tests=base · MMMM/an-organisation's-model-of-7B-Instruct · low-temp · n = 64"
    long = "/a-model-of-7B-Instruct-2024-10" if name == "models" else long
    rows = [{**row, column: str(row[column]) + long} for row in tables[name]]
    with frame.styled():
        figure = load_registry().find("plot", name).load()().draw(rows)
        figure.set_dpi(frame.DPI)
        figure.draw_without_rendering()
        texts = [*figure.findobj(Text)]
        cut = [text.get_text() for text in texts if not figure.bbox.padded(2).contains(*text.get_window_extent().max)]
    assert len(texts) > 10
    assert cut == []
    assert not [text for text in texts if re.search(r"^·", text.get_text(), re.M)]
