"""`harness select`: every fault of options, files and selectors is one clear line."""

from functools import cache

import numpy as np
import pytest
from corpora.selection_faults import OPTIONS, VECTORS, VECTORS_ALONE, VERIFIED
from support.choosing import LINES, choose, written
from support.paths import TOY
from support.refusals import refusal_of

from harness.plugin_system.registry import load_registry


@pytest.fixture
def pool(tmp_path):
    return written(tmp_path / "pool.jsonl", LINES)


@pytest.fixture
def wrong_lines(tmp_path, monkeypatch):
    """Of rows (options, part of the line), those that are not refused with it, and with what they are refused."""
    monkeypatch.setattr("harness.running.context.load_registry", cache(load_registry))

    def call(rows, **fixed):
        given = {"selector": "repexp", "k": 2} | fixed
        lines = [(options, fault, refusal_of(choose, tmp_path, **given | options)) for options, fault in rows]
        return [(options, line) for options, fault, line in lines if fault not in line]

    return call


def test_a_wrong_option_is_one_clear_line(wrong_lines, pool, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "E.npz", {"test/0": np.eye(5)})
    assert wrong_lines(OPTIONS, pool=pool) == []
    assert wrong_lines(VECTORS_ALONE, embeddings=tmp_path / "E.npz") == []


def test_a_wrong_file_of_what_was_verified_is_one_clear_line(wrong_lines, pool, tmp_path):
    for text, fault in VERIFIED:
        options = {"verified": written(tmp_path / "v.jsonl", text)}
        assert wrong_lines([(options, fault)], pool=pool) == [], text


def test_wrong_vectors_are_one_clear_line(wrong_lines, pool, tmp_path):
    for arrays, with_pool, fault in VECTORS:
        options = {"embeddings": written(tmp_path / "E.npz", arrays)} | ({"pool": pool} if with_pool else {})
        assert wrong_lines([(options, fault)]) == [], fault


def test_problems_that_a_model_cannot_encode_are_named_before_any_work(wrong_lines, tmp_path):
    bare = written(tmp_path / "bare.jsonl", [LINES[0], {"problem_id": "bare", "responses": ["a", "b"]}])
    small = written(tmp_path / "s.jsonl", [*LINES, {"problem_id": "small", "prompt": "x", "responses": ["a"]}])
    rows = [({"pool": bare}, "problem 'bare' has none: add `prompt`")]
    rows += [({"pool": small}, "problem 'small' has 1 responses: -k 2 is more than the 1 left")]
    assert wrong_lines(rows, model="tiny24") == []
    assert not (tmp_path / "runs").exists()


def test_a_pool_that_joins_to_no_problem_of_the_task_is_refused(wrong_lines, tmp_path):
    pool = written(tmp_path / "p.jsonl", [line | {"prompt": ""} for line in LINES])
    rows = [({"task": "colours", "split": "broken"}, "none of its 3 problems is the task's")]
    assert wrong_lines(rows, pool=pool) == []


def test_a_selector_that_offers_what_was_verified_or_too_much_is_caught(wrong_lines, pool, tmp_path):
    plugin = written(
        tmp_path / "again.py",
        "from harness import hookimpl\n\n\nclass Again:\n    needs = ()\n\n"
        "    def rank(self, pool, rng):\n        yield from range(len(pool))\n\n"
        "    def rank_after(self, pool, verified, rng):\n        yield from range(len(pool))\n\n\n"
        "class Many:\n    needs = ()\n\n    def select(self, pool, k, rng):\n        return range(k + 1)\n\n\n"
        "@hookimpl\ndef register_selectors(register):\n    register('again', Again)\n    register('many', Many)\n",
    )
    rows = [({"selector": "again"}, "rank_after gave index 1, which is verified already")]
    rows += [({"selector": "many"}, "select gave 3 indices for k = 2")]
    verified = written(tmp_path / "v.jsonl", [{"problem_id": "test/0", "indices": [1]}])
    assert wrong_lines(rows, pool=pool, verified=verified, plugin_files=(TOY, plugin)) == []
