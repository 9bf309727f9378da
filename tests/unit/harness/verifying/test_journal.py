"""The journal keeps every whole line, belongs to one pool, selector and verifier, and is used by one process."""

import json
import subprocess
import sys

import pytest
from support.refusals import refusal_of
from support.searches import config_of, pool_in, verified

from harness.verifying.journal import Check, Journal

SIZES = {"a": 3, "b": 2}
CHECKS = [Check("a", 2, "wrong"), Check("b", 0, "measured", 3.25), Check("a", 0, "error", None, "exit code 2")]


@pytest.fixture
def path(tmp_path):
    """A journal with three outcomes and two picks that are out."""
    path = tmp_path / "verify.jsonl"
    with Journal(path, {"selector": "repexp"}, SIZES) as journal:
        journal.write({"asked": [("a", 1), ("b", 1)]})
        for check in CHECKS:
            journal.write(check.line)
    return path


def opened(path, **header):
    with Journal(path, {"selector": "repexp"} | header, SIZES) as journal:
        return journal


def test_what_is_written_is_read_again(path):
    journal = opened(path)
    assert journal.entries == [[("a", 1), ("b", 1)], *CHECKS]
    assert journal.remark == ""


def test_a_last_line_cut_at_any_byte_is_cut_away_and_the_rest_kept(path):
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    for cut in range(len(whole) - len(lines[-1]) + 1, len(whole)):
        path.write_bytes(whole[:cut])
        journal = opened(path)
        assert "cut away" in journal.remark
        assert journal.entries[1:] == CHECKS[:2]
        assert path.read_bytes() == b"".join(lines[:-1])
    path.write_bytes(lines[0][:10])
    assert opened(path).entries == []
    assert path.read_bytes() == lines[0]


def test_an_outcome_after_a_recovered_line_is_on_a_line_of_its_own(path):
    path.write_bytes(path.read_bytes()[:-5])
    with Journal(path, {"selector": "repexp"}, SIZES) as journal:
        journal.write(CHECKS[2].line)
    assert [json.loads(line) for line in path.read_text().splitlines()][-1] == CHECKS[2].line


def test_files_that_are_no_journal_of_this_loop_are_refused(path):
    lines = path.read_text().splitlines(keepends=True)
    cases = {
        "line 3: not JSON": [*lines[:2], "{]\n", *lines[3:]],
        "line 2: ['a', 3] is no response of the pool": [lines[0], '{"asked": [["a", 3]]}\n'],
        "line 2: ['c', 0] is no response": [lines[0], '{"problem_id": "c", "index": 0, "outcome": "wrong"}\n'],
        "line 2: 'outcome': Input should be 'correct', 'wrong', ": [
            lines[0],
            '{"problem_id": "a", "index": 0, "outcome": "perhaps"}\n',
        ],
        "is no journal": ['{"problem_id": "a", "responses": []}\n'],
        "is of another version (2, now 1)": [lines[0].replace('"version": 1', '"version": 2')],
    }
    for words, content in cases.items():
        path.write_text("".join(content))
        assert words in refusal_of(opened, path)
    path.write_text(lines[0])
    assert "is of another selector ('repexp', now 'uniform')" in refusal_of(opened, path, selector="uniform")


def test_another_pool_selector_verifier_or_seed_is_refused(tmp_path):
    pool_in(tmp_path, {"a": [False, True]})
    verified(config_of(tmp_path))
    for changed in ({"selector": "uniform"}, {"verifier": "another"}, {"seed": 1}):
        assert f"is of another {next(iter(changed))} (" in refusal_of(verified, config_of(tmp_path, **changed))
    pool_in(tmp_path, {"a": [False, False]})
    refusal = refusal_of(verified, config_of(tmp_path))
    assert "is of another pool (" in refusal
    assert ", now other responses)" in refusal


def test_a_changed_file_of_the_verifier_is_refused_unless_errors_are_checked_again(tmp_path):
    pool_in(tmp_path, {"a": [False, "error", True]})
    program, log = tmp_path / "v.py", tmp_path / "log"
    program.write_text("1")
    options = {"verifier": f"true {program} {log} {{index}}", "budget": 2}
    verified(config_of(tmp_path, **options))
    log.write_text("a file that the verifier writes is no part of it")
    verified(config_of(tmp_path, **options))
    program.write_text("2")
    line = refusal_of(verified, config_of(tmp_path, **options))
    assert f"{program} has changed since: --journal NEW starts anew; --retry-errors keeps" in line
    verified(config_of(tmp_path, **options, retry_errors=True))
    assert verified(config_of(tmp_path, **options)).calls == 2
    program.write_text("3")
    assert "has changed" in refusal_of(verified, config_of(tmp_path, **options))


def test_a_journal_of_an_older_version_has_no_files_and_opens(path):
    assert len(opened(path, verifier_files={"v.py": "sha256:0"}).entries) == 4


def test_a_second_process_on_the_journal_is_refused(path):
    code = (
        f"from harness.verifying.journal import Journal\nJournal(__import__('pathlib').Path({str(path)!r}), {{}}, {{}})"
    )
    with Journal(path, {"selector": "repexp"}, SIZES):
        ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "another process uses it" in ended.stderr
    opened(path)


def test_a_folder_that_does_not_exist_is_one_line(tmp_path):
    assert "cannot be opened (No such file or directory)" in refusal_of(opened, tmp_path / "no" / "verify.jsonl")
