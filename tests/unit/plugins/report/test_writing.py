"""The file that `harness report` writes."""

from __future__ import annotations

from support.report_page import pool_file

from harness_plugins.report import browsing, writing


def test_the_report_is_one_file_in_the_store_and_the_same_store_gives_the_same_bytes(report, shown, copied):
    assert shown.path == shown.store / "report.html"
    (copied / "report.html").unlink()
    report()
    assert report.path == copied / "report.html"
    assert report.path.read_bytes() == shown.path.read_bytes()


def test_of_many_problems_of_long_texts_a_part_is_shown_and_texts_are_cut(harness, report, tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "BUDGET_BYTES", 60_000)
    monkeypatch.setattr(browsing, "MOST_PROBLEMS", 10)
    texts = {f"p{i:02}": [(f"{i} {j} " * 500, j < i % 9) for j in range(12)] for i in range(13)}
    pool = pool_file(tmp_path / "pool.jsonl", texts)
    assert harness("run", "--pool", pool, "--selector", "length", "--store", tmp_path / "runs").code == 0
    data = report(plugin=None)
    assert report.path.stat().st_size < 60_000 + 200_000
    assert (data["browsing"]["shown"], data["browsing"]["total"], data["browsing"]["cut_at"]) == (10, 13, 250)
    problem = data["problems"][0]
    begin, length = problem["texts"][0]
    assert (len(begin), length) == (250, len(texts[problem["id"]][0][0]))
