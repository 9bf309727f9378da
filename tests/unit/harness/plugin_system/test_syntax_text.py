"""The text of a source file that counts in a key, the same in every version of Python."""

import sys

from corpora.source_edits import CHANGE, GOLDEN, NO_CHANGE, SOURCE
from support.environments import pythons
from support.paths import ROOT
from support.processes import run_to_end

from harness.plugin_system.syntax_text import syntax_text


def edited(source, old, new):
    assert old in source
    return syntax_text(source.replace(old, new, 1).encode())


def test_what_changes_no_result_changes_no_text_and_what_may_change_one_does():
    text = syntax_text(SOURCE.encode())
    assert [(old, new) for old, new in NO_CHANGE if edited(SOURCE, old, new) != text] == []
    assert [(old, new) for old, new in CHANGE if edited(SOURCE, old, new) == text] == []


def test_docstrings_count_in_a_file_that_reads_them():
    source = 'def prompt():\n    "Solve this."\nPROMPT = prompt.__doc__\n'
    assert edited(source, "Solve this.", "Solve that.") != syntax_text(source.encode())


def test_every_version_of_python_writes_the_same_text(tmp_path):
    program = (
        "import runpy, sys; print(runpy.run_path(sys.argv[1])['syntax_text'](open(sys.argv[2], 'rb').read()).digest)"
    )
    (tmp_path / "source.py").write_text(SOURCE)
    files = [ROOT / "harness" / "plugin_system" / "syntax_text.py", tmp_path / "source.py"]
    others = {path for minor in (11, 12, 13, 14) for path in pythons(minor)}
    runs = [run_to_end([python, "-I", "-c", program, *files]) for python in {sys.executable, *others}]
    written = [done.stdout.strip() for done in runs if done.returncode == 0]  # a pyenv shim may stand for none
    assert written
    assert set(written) == {GOLDEN}
