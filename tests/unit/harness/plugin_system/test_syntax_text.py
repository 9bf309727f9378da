"""The text of a source file that counts in a key, the same in every version of Python."""

import json
import sys

import pytest
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
    files = [ROOT / folder for folder in ("selectors", "tasks", "plugins", "tests")]
    paths = [str(path) for folder in files for path in sorted(folder.rglob("*.py"))[:3]]
    (tmp_path / "source.py").write_text(SOURCE)
    program = (
        "import hashlib, json, runpy, sys; text = runpy.run_path(sys.argv[1])['syntax_text'];"
        "texts = [text(open(path, 'rb').read()) for path in sys.argv[2:]];"
        "print(json.dumps([list(sys.version_info[:2]), texts[0].digest,"
        " hashlib.sha256(repr([(t.digest, t.imports) for t in texts]).encode()).hexdigest()]))"
    )
    arguments = [
        "-I",
        "-c",
        program,
        str(ROOT / "harness" / "plugin_system" / "syntax_text.py"),
        str(tmp_path / "source.py"),
        *paths,
    ]
    results = {}
    for python in {sys.executable, *(path for minor in (11, 12, 13, 14) for path in pythons(minor))}:
        done = run_to_end([python, *arguments])
        if done.returncode == 0:  # a pyenv shim may stand for a version that is not chosen
            version, *digests = json.loads(done.stdout)
            results[tuple(version)] = digests
    assert {digests[0] for digests in results.values()} == {GOLDEN}
    assert len({digests[1] for digests in results.values()}) == 1
    if len(results) == 1:
        pytest.skip(f"only Python {sys.version_info[0]}.{sys.version_info[1]} is here; the golden hash holds")
