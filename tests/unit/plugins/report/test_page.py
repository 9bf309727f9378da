"""The page: a file that nothing in its data can break, as large as its budget at most; text made safe to show."""

import base64
import hashlib
import json
import re
from importlib.resources import files

from support.report_page import HOSTILE, hostile_pool, parsed, policy

from harness_plugins.figures import looks
from harness_plugins.report.page import BUDGET_BYTES, SCRIPTS, cut, encoded, fitted, joined_script, page, visible


def test_no_data_can_end_its_element():
    for text in HOSTILE:
        written = encoded({"text": text, text[:50]: [text]}).decode()
        assert not set("<>&\u2028\u2029") & set(written)
        assert json.loads(written) == {"text": text, text[:50]: [text]}


def test_hostile_responses_leave_a_page_of_its_own_elements_only(harness, report, tmp_path):
    pool = hostile_pool(tmp_path / "pool.jsonl")
    options = ("--selector", "repexp", "--selector", "uniform", "--store", tmp_path / "runs")
    outcome = harness("run", "--pool", pool, *options)
    assert outcome.code == 0, outcome.err
    data = report(plugin=None)
    _, elements, tags = parsed(report.path)
    assert [attrs.get("type", tag) for tag, attrs, _ in elements] == ["style", "application/json", "script"]
    assert not {"img", "b"} & set(tags)
    easiest = {problem["id"]: problem for problem in data["problems"]}["<script>alert(0)</script>"]
    texts = [easiest["texts"][place] for place in easiest["text"]]
    assert texts[0] == HOSTILE[0]
    begin, length = texts[8]
    assert length == len(HOSTILE[8])
    assert HOSTILE[8].startswith(begin)
    assert report.path.stat().st_size < 300_000


def test_the_policy_allows_this_script_its_files_joined_this_style_and_nothing_else(shown):
    _, ((_, _, style), _, (_, _, script)), _ = parsed(shown.path)

    def hashed(text):
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    sources = f"script-src {hashed(script)}; style-src {hashed(style)}"
    assert policy(shown.path) == f"default-src 'none'; {sources}; base-uri 'none'; form-action 'none'"
    folder = files("harness_plugins.report")
    at = [script.index((folder / f"{name}.js").read_text()) for name in SCRIPTS]
    assert at == sorted(at)


def test_a_page_with_files_beside_it_also_allows_scripts_with_a_nonce_that_depends_on_all_its_data(tmp_path):
    nonces = []
    for text in ("a", "b"):
        (tmp_path / "page.html").write_bytes(page({"files": {"folder": "x-files"}, "text": text}))
        nonces += re.findall(r"script-src 'sha256-\S+' 'nonce-([0-9a-f]{32})'; style", policy(tmp_path / "page.html"))
        _, elements, _ = parsed(tmp_path / "page.html")
        assert [attrs.get("nonce") for _, attrs, _ in elements] == [None, None, nonces[-1]]
    assert len(set(nonces)) == 2


def test_selectors_have_the_colours_and_markers_of_the_plots():
    style, script = page({}).decode().split("<style>")[1].split("</style>")[0], joined_script()
    for colours in (looks.COLOURS, looks.DARK):
        assert " ".join(f"--c{place}: {colour};" for place, colour in enumerate(colours)) in style
    assert [name for name in looks.MARKERS if not re.search(rf"^  {name}: ", script, re.M)] == ["circle"]


def test_what_cannot_be_seen_is_spelled_out_and_a_long_text_is_its_beginning_and_its_length():
    table = {
        "a\x00b\x1b\u202e\u200b\ud800": "a⟨U+0000⟩b⟨U+001B⟩⟨U+202E⟩⟨U+200B⟩⟨U+D800⟩",
        "tab\tline\r\nend\rlone": "tab\tline\nend⟨U+000D⟩lone",
        "naïve \u05e9\u05dc\u05d5\u05dd \U0001f600 e\u0301": "naïve \u05e9\u05dc\u05d5\u05dd \U0001f600 e\u0301",
        "Z" + "\u0301" * 500: "Z" + "\u0301" * 4,
    }
    assert {text: visible(text) for text in table} == table
    assert cut("x\x00" * 5, 4) == ["x⟨U+0000⟩x⟨U+0000⟩", 10]
    assert cut("x" * 4, 4) == "xxxx"


def test_texts_are_cut_as_little_as_the_budget_asks_and_then_fewer_problems_are_shown():
    views = [{"id": place, "texts": ["x" * 5000] * 10} for place in range(40)]
    shown, cut_at = fitted(views, 130_000)
    assert (len(shown), cut_at) == (40, 250)
    assert shown[7]["texts"] == [["x" * 250, 5000]] * 10
    assert len(encoded(shown)) <= 130_000 < len(encoded(fitted(views, 10**6)[0]))
    shown, cut_at = fitted(views, 3000)
    assert len(encoded(shown)) <= 3000
    assert 2 <= len(shown) < 40
    assert (cut_at, shown[0]["id"]) == (40, 0)
    assert fitted(views[:1], 10) == ([], 40)
    assert len(page({})) + BUDGET_BYTES < 3_000_000
    assert fitted(views[:1], 10**6)[1] == 4000
    assert fitted([{"texts": ["short"]}], 10**6) == ([{"texts": ["short"]}], None)
