"""The map of a problem's responses, their clusters, and which problems and how much of them can be browsed."""

import shutil

import numpy as np
import pytest
from support.paths import TOY
from support.report_page import pool_file
from support.stores import files_of

from harness import Pool
from harness_plugins.report import writing
from harness_plugins.report.browsing import NONE, OTHER, clusters, flat
from harness_plugins.report.writing import hardest_first, sampled


def test_points_in_a_plane_keep_their_distances_on_the_map():
    plane = np.random.default_rng(2).normal(size=(30, 2)) * [3, 1]
    turned = plane @ np.linalg.qr(np.random.default_rng(3).normal(size=(40, 2)))[0].T
    for vectors in (turned, np.repeat(turned, 2, axis=0)):
        centred = vectors - vectors.mean(axis=0)
        shown = flat(centred)
        points = np.column_stack([shown["x"], shown["y"]])
        assert shown["variance"] == 1.0
        assert np.ptp(points[:, 0]) == 1000
        ours = np.linalg.norm(points[:, None] - points, axis=2)
        theirs = np.linalg.norm(centred[:, None] - centred, axis=2)
        assert ours == pytest.approx(theirs * ours.max() / theirs.max(), abs=2)


def test_vectors_that_do_not_differ_lie_at_one_place():
    for vectors in (np.zeros((5, 3)), np.zeros((5, 0)), np.zeros((1, 3))):
        shown = flat(vectors)
        assert set(shown["x"]) == set(shown["y"]) == {500}
        assert shown["variance"] is None
    line = flat(np.array([[-1.0], [0.0], [1.0]]))
    assert (line["x"], line["y"]) == ([1000, 500, 0], [500] * 3)  # the first of the largest is made positive


def pool_of(answers, texts=None):
    n = len(answers)
    return Pool(texts or ["x"] * n, np.zeros((n, 0), np.float32), np.zeros(n), np.zeros(n, np.int64), answers)


def test_the_seven_largest_clusters_have_colours_the_rest_and_no_answer_have_theirs():
    answers = [letter for letter, size in zip("abcdefghi", range(10, 1, -1), strict=True) for _ in range(size)]
    labels, members, by = clusters(pool_of([*answers, None]))
    assert labels == [[letter, size] for letter, size in zip("abcdefg", range(10, 3, -1), strict=True)]
    assert (members.count(OTHER), members[-1], by) == (3 + 2, NONE, "answer")
    labels, members, by = clusters(pool_of([None] * 3, ["x ", "y", "x"]))
    assert (labels, members, by) == ([["x", 2], ["y", 1]], [0, 1, 0], "text")


def test_the_problems_of_a_large_run_are_a_seeded_sample_even_over_hardness():
    entries = hardest_first([{"id": f"p{i}", "c": i % 50, "n": 64} for i in range(500)])
    chosen = sampled(entries, 100, "seed")
    assert len({entry["id"] for entry in chosen}) == 100
    assert [entry["c"] for entry in chosen] == sorted(entry["c"] for entry in chosen)
    assert np.bincount([entry["c"] for entry in chosen]).tolist() == [2] * 50
    assert hardest_first(entries[::-1]) == entries
    assert sampled(entries, 100, "other") != chosen
    assert len(sampled(entries[:7], 100, "seed")) == 7
    (other,) = [entry for entry in entries[250:255] if entry not in chosen][:1]
    assert [entry for entry in sampled(entries, 100, "seed", {other["id"]}) if entry not in chosen] == [other]


def test_a_problem_that_lost_a_file_is_left_out_and_without_the_responses_the_table_alone_is_shown(report, copied):
    for name, kind in (("2", "verdicts"), ("4", "orders")):
        next(path for path in files_of(copied, kind) if path.name.startswith(f"test_{name}")).unlink()
    data = report()
    assert sorted(problem["id"] for problem in data["problems"]) == [f"test/{i}" for i in (0, 1, 3, 5)]
    assert data["browsing"]["note"] == "2 problems have no responses in the store."
    shutil.rmtree(files_of(copied, "responses")[0].parents[1])
    data = report()
    assert data["problems"] == []
    assert "not in the store" in data["browsing"]["note"]
    assert len(data["rows"]) == 3 + 3 + 4  # references, controls, selectors


def test_of_many_problems_of_long_texts_a_part_is_shown_and_texts_are_cut(harness, report, tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "BUDGET_BYTES", 60_000)
    monkeypatch.setattr(writing, "MOST_PROBLEMS", 10)
    texts = {f"p{i:02}": [(f"{i} {j} " * 500, j < i % 9) for j in range(12)] for i in range(13)}
    pool = pool_file(tmp_path / "pool.jsonl", texts)
    assert harness("run", "--pool", pool, "--selector", "length", "--store", tmp_path / "runs").code == 0
    data = report(plugin=None)
    assert report.path.stat().st_size < 60_000 + 200_000
    assert (data["browsing"]["shown"], data["browsing"]["total"], data["browsing"]["cut_at"]) == (10, 13, 250)
    problem = data["problems"][0]
    begin, length = problem["texts"][0]
    assert (len(begin), length) == (250, len(texts[problem["id"]][0][0]))
    assert problem["map"]["of"] == "tfidf"  # a run without vectors has a map of its words
    assert len(set(problem["map"]["x"])) > 2


def test_a_selector_by_score_ranks_again_with_the_scores_that_it_had_beside_one_that_reads_none(
    harness, report, written, tmp_path
):
    pool = written([{"problem_id": "p", "prompt": "Say it.", "responses": ["aa", "b", "a"], "correct": [0, 1, 0]}])
    fixed = ("--store", tmp_path / "runs", "--plugin", TOY, "--selector", "length", "--selector", "score")
    assert harness("run", "--pool", pool, "--scorer", "vowels", *fixed).code == 0
    [problem] = report()["problems"]
    assert sorted((pick["order"], pick["note"]) for pick in problem["picks"]) == [([0, 2, 1], ""), ([1, 2, 0], "")]
