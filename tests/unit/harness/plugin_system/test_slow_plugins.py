"""What takes long is named, and an import that hangs is ended where a limit was given."""

import io
import os
import sys

from support.distributions import write_distribution
from support.processes import wait_for

from harness.plugin_system.registry import load_registry
from harness.plugin_system.slow_plugins import IMPORT_LIMIT, named


def test_what_takes_long_is_named_on_stderr_and_what_does_not_is_not(monkeypatch):
    stderr = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    with named("importing plugin 'x' from y 1.0", 0.0):
        wait_for(lambda: stderr.getvalue().endswith("\n"), 60)
    with named("something quick", 3600):
        pass
    assert stderr.getvalue() == "waiting: importing plugin 'x' from y 1.0 has taken 0 s so far\n"


def test_a_plugin_whose_import_hangs_is_left_out_and_named_where_a_limit_was_given(harness, tmp_path, monkeypatch):
    source = "import time\ntry:\n    time.sleep(600)\nexcept Exception:\n    pass\n"
    load_registry()  # so that the others are imported already
    write_distribution(tmp_path, "harness-slow", "1.0", source, entry="slow")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv(IMPORT_LIMIT, "")
    listed = harness("--import-timeout", 2, "list", "samplers", "--json")
    assert "vanilla" in [row["name"] for row in listed.rows]
    assert os.environ[IMPORT_LIMIT] == "2.0"
    [fault] = load_registry().faults
    line = "plugin 'slow' from harness-slow 1.0 failed to import: Late: its import took longer than 2 s"
    assert str(fault).startswith(line)
