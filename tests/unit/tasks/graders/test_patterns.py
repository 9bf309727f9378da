"""A search by a regular expression, which is ended if it takes too long."""

import pytest

from harness_tasks.graders import stated


def test_the_last_match_or_its_first_group_is_found():
    cases = [
        (r"x=(\d+)", "x=1, x=22", "22"),
        (r"\d+", "1 and 22", "22"),
        (r"x(\d)?", "x", ""),
        (r"y", "x", None),
    ]
    assert [stated.last_match(pattern, text) for pattern, text, _ in cases] == [match for _, _, match in cases]


def test_a_search_without_end_is_ended_and_the_next_one_goes_on(monkeypatch):
    monkeypatch.setattr(stated, "LIMIT_S", 0.5)
    with pytest.raises(TimeoutError):
        stated.last_match(r"(a+)+$", "a" * 40 + "b")
    monkeypatch.setattr(stated, "LIMIT_S", 60.0)
    assert stated.last_match("b", "ab") == "b"
