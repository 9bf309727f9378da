"""Rows that are kept as they arrive: read back as they were, also after a kill in the middle of a line."""

from dataclasses import astuple

from support.refusals import refusal_of

from harness_plugins.engines.openai import journal
from harness_plugins.engines.openai.wire import Choice

ROWS = {
    0: Choice("one\ntwo\u2028\x85 \udc80 \U0001f600", "stop", 4, -1.25, [1, 2, 3, 4]),
    7: Choice("", "length", None, float("nan"), None),
}


def as_texts(rows):
    return {row: repr(astuple(choice)) for row, choice in rows.items()}


def test_rows_come_back_as_they_were_and_an_unfinished_line_is_cut_off(tmp_path):
    path = tmp_path / "a.paid.jsonl"
    assert journal.read(path) == {}
    for row, choice in ROWS.items():
        journal.append(path, {row: choice}, durable=True)
    assert as_texts(journal.read(path)) == as_texts(ROWS)
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:20])
    assert as_texts(journal.read(path)) == as_texts(ROWS)
    assert path.read_bytes() == whole
    journal.append(path, {9: ROWS[0]}, durable=False)
    assert list(journal.read(path)) == [0, 7, 9]


def test_a_damaged_line_is_one_line_that_says_what_deleting_the_file_costs(tmp_path):
    path = tmp_path / "a.paid.jsonl"
    journal.append(path, ROWS, durable=False)
    path.write_bytes(path.read_bytes().replace(b"one", b"ome"))
    line = refusal_of(journal.read, path)
    assert line.startswith(f"openai: {path}, line 1, is damaged: delete the file; its responses are then asked for")
