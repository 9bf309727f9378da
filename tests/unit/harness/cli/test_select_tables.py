"""What `harness select` prints for a person."""

from __future__ import annotations

from harness.cli import select_tables
from harness.running.selection import Chosen


def test_a_row_for_each_chosen_response_with_its_rank_name_and_the_beginning_of_its_text(capsys):
    chosen = [
        Chosen("p1", [2, 0], ordered=True, texts=["first", "second", "third\nline"], names=["a", "b", "c"]),
        Chosen("p2", [1], ordered=False, texts=["x", "\x1b[31mred " * 100]),
    ]
    select_tables.selection(chosen)
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith(" p")]
    assert rows[0] == ["problem", "rank", "index", "name", "response"]
    assert rows[1][:4] == ["p1", "1", "2", "c"]
    assert rows[2] == ["p1", "2", "0", "a", "first"]
    assert rows[3][:3] == ["p2", "-", "1"]
    select_tables.selection(chosen[1:])
    out = capsys.readouterr().out
    assert "name" not in out
    assert "\x1b" not in out
