"""`harness list`, `show` and `check`, as a user types them."""

from support.refusals import error_line


def test_a_component_is_shown_by_its_name_alone(harness):
    assert harness("show", "kmeans").out.startswith("selector kmeans, from diversity-harness")
    assert harness("show", "repexp").out == harness("show", "selector", "repexp").out  # a bonus has the name too
    assert error_line(harness("show", "kmeens")) == "error: show: nothing is named 'kmeens': did you mean 'kmeans'?"


def test_a_distribution_that_all_share_is_named_below_the_list(harness, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = harness("list", "embedders").out.splitlines()
    assert lines[-1].startswith("all from diversity-harness ")
    assert "from" not in lines[1].split()
