"""A model's text is made safe to show."""

from __future__ import annotations

from harness_plugins.report.visible import cut, visible


def test_what_cannot_be_seen_is_spelled_out_and_what_can_be_is_left():
    table = {
        "a\x00b\x1b\u202e\u200b\ud800": "a⟨U+0000⟩b⟨U+001B⟩⟨U+202E⟩⟨U+200B⟩⟨U+D800⟩",
        "tab\tline\r\nend\rlone": "tab\tline\nend⟨U+000D⟩lone",
        "naïve \u05e9\u05dc\u05d5\u05dd \U0001f600 e\u0301": "naïve \u05e9\u05dc\u05d5\u05dd \U0001f600 e\u0301",
        "Z" + "\u0301" * 500: "Z" + "\u0301" * 4,
    }
    assert {text: visible(text) for text in table} == table


def test_a_long_text_is_its_beginning_and_its_length():
    assert cut("x\x00" * 5, 4) == ["x⟨U+0000⟩x⟨U+0000⟩", 10]
    assert cut("x" * 4, 4) == "xxxx"
