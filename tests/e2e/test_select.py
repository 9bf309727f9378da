"""`harness select` as a user runs it: the documents' commands, JSON from a process, and what it loads."""

import re
import shlex

import numpy as np
import pytest
from support.choosing import LINES, of_duplicates, written
from support.documents import code_blocks
from support.processes import printed_by


@pytest.mark.slow
def test_given_vectors_load_nothing_that_they_do_not_need(tmp_path):
    vectors = written(tmp_path / "E.npz", {"a": of_duplicates(30, 4, 0)})
    heavy = {"torch", "transformers", "sklearn", "datasets", "scipy.stats", "scipy.optimize", "matplotlib"}
    code = (
        "import sys; from harness.cli import main\n"
        f"sys.argv = {['harness', 'select', '--embeddings', str(vectors), '--selector', 'repexp', '-k', '3']!r}\n"
        f"main_failed = False\ntry: main()\nexcept SystemExit as stop: main_failed = bool(stop.code)\n"
        f"print('heavy:', main_failed, sorted({heavy!r} & set(sys.modules)))"
    )
    assert printed_by(code, cwd=tmp_path).endswith("heavy: False []")


def test_the_pages_commands_run(harness, monkeypatch, tmp_path):
    rng = np.random.default_rng(0)
    puzzle = {"problem_id": "4-5-6-10", "responses": ["Answer: (10 - 6) * 5 + 4", "24", "Answer: 6 * 4"]}
    files = {
        "responses.jsonl": [line | {"problem_id": f"lead-{i}"} for i, line in enumerate(LINES)],
        "vectors.npz": {f"lead-{i}": rng.normal(size=(5, 3)) for i in range(3)},
        "plates.npz": {f"plate-{i}": rng.normal(size=(50, 30)) for i in range(2)},
        "done.jsonl": [{"problem_id": "lead-0", "indices": [1]}],
        "24.jsonl": [puzzle],
    }
    for file, content in files.items():
        written(tmp_path / file, content)
    monkeypatch.chdir(tmp_path)
    shown = [line for block in code_blocks("docs/select.md", "sh") for line in re.sub(r"\\\n", " ", block).splitlines()]
    commands = [shlex.split(line, comments=True) for line in shown if line.startswith("harness select")]
    assert len(commands) >= 2
    for command in commands:
        outcome = harness(*command[1:])
        assert outcome.code == 0, (command, outcome.err)
        assert outcome.out
