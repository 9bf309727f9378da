"""What all figures share: looks that differ, axes that hold what they were given."""

from __future__ import annotations

import pytest

from harness_plugins.figures import style


def test_twelve_series_differ_in_marker_and_the_colours_in_line():
    looks = [style.look(place) for place in range(24)]
    assert len({look["marker"] for look in looks[:12]}) == 12
    assert len({(look["color"], look["linestyle"]) for look in looks}) == 24


@pytest.mark.parametrize(("low", "high"), [(1, 17), (3.9, 4.1), (1, 6401), (0.5, 0.6), (1, 1)])
def test_a_log_axis_has_ticks_and_holds_what_it_was_given(low, high):
    pytest.importorskip("matplotlib")
    for base in (2, 10):
        _, (axes,) = style.panels("ticks", 1)
        style.log_axis(axes.xaxis, low, high, base=base)
        left, right = axes.get_xlim()
        assert left < low <= high < right
        assert 2 <= sum(left <= tick <= right for tick in axes.xaxis.get_majorticklocs()) <= 9
