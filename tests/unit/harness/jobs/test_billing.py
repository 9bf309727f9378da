"""What sampling costs is told, come what may, and of an engine that costs nothing there is nothing to tell."""

import io
from types import SimpleNamespace

import pytest

from harness.running.billing import billed
from harness.system.progress import Progress


def test_the_bill_is_the_last_line_also_of_a_stage_that_breaks_off():
    out, engine = io.StringIO(), SimpleNamespace(is_charged=True, charge=print, quote=print)
    engine.spending, engine.bill = (lambda: "0.12 USD"), (lambda: "12 requests: 0.12 USD")
    with pytest.raises(KeyboardInterrupt), billed(engine, Progress(out)) as cost:  # noqa: PT012
        assert cost() == "0.12 USD"
        raise KeyboardInterrupt
    assert out.getvalue() == "12 requests: 0.12 USD\n"
    with billed(SimpleNamespace(), Progress(out)) as cost:
        assert cost() == ""
    assert out.getvalue().count("\n") == 1
