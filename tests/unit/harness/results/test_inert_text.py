"""Names of plugins and users stay text: in Markdown, in a spreadsheet, as a folder."""

from __future__ import annotations

import re

from support.refusals import refusal_of

from harness.results import inert_text

FORMULAS = [*(f"{start}1" for start in "=+-@\uff1d\uff0b\uff0d\uff20"), "\t=1", "\r=1", "\n=1", "'=1", " =1"]
HARMLESS = ["", "repexp:lam=1", "k-dpp", "a,b", 'a"b', -1.5, 3, None]


def test_a_text_that_a_spreadsheet_would_run_is_marked_and_comes_back():
    assert [inert_text.csv_cell(text) for text in FORMULAS] == [f"'{text}" for text in FORMULAS]
    assert [inert_text.csv_text(inert_text.csv_cell(text)) for text in [*FORMULAS, "'", "''"]] == [*FORMULAS, "'", "''"]
    assert [inert_text.csv_cell(value) for value in HARMLESS] == HARMLESS


def test_a_csv_table_has_all_names_in_order_of_appearance():
    rows = [{"a": 1, "b": "x,y"}, {"a": "=1", "c": None}, {"b": 'q"'}, {"c": "r\rs"}]
    assert inert_text.csv_table(rows) == 'a,b,c\n1,"x,y",\n\'=1,,\n,"q""",\n,,"r\rs"\n'


def test_markdown_starts_no_link_image_table_or_html():
    assert inert_text.markdown("a|b <script>`x`\n") == "a\\|b &lt;script&gt;'x' "
    hostile = "![x](http://evil/p.png) [=cmd|' /C calc'!A0](javascript:1) www.evil.org $x$ \\ *b* ~s~ & \u202e"
    shown = inert_text.markdown(hostile)
    assert shown.startswith(
        "\\!\\[x\\]\\(http:\\//evil/p.png\\) \\[=cmd\\|' /C calc'\\!A0\\]\\(javascript:1\\) www\\.evil"
    )
    assert re.search(r"(?<!\\)[\[\]()!|$*~<>]", shown) is None
    assert shown.endswith("&amp;  ")
    assert inert_text.markdown("repexp:lam=0.1,k=2 (x") == "repexp:lam=0.1,k=2 \\(x"


def test_a_name_is_one_folder_or_refused():
    assert inert_text.folder_name("../../gone/x y") == ".._.._gone_x_y"
    assert inert_text.folder_name("gsm8k:a=b,c+d-1_é" + "x" * 99) == "gsm8k:a=b,c+d-1_é" + "x" * 63
    assert inert_text.folder_name("a._:=,+-b") == "a._:=,+-b"
    for text in ("", "..", "..."):
        assert refusal_of(inert_text.folder_name, text) == f"{text!r} cannot name a folder"
