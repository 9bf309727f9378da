"""Rows are processed in chunks that fit into memory."""

import pytest
from support.refusals import refusal_of

from harness_plugins.engines import row_chunks
from harness_plugins.engines.row_chunks import Chunks


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(row_chunks, "release", lambda: None)  # a full collection takes a second here


def fits(most):
    """Work on a chunk for which memory holds `most` rows."""

    def work(chunk):
        if len(chunk) > most:
            raise MemoryError
        return sum(chunk)

    return work


def test_a_chunk_that_does_not_fit_is_halved_and_later_ones_stay_small():
    chunks = Chunks(8)
    assert [(list(chunk), total) for chunk, total in chunks.over(range(10), fits(4))] == [
        ([0, 1, 2, 3], 6),
        ([4, 5, 6, 7], 22),
        ([8, 9], 17),
    ]
    assert chunks.size == 4
    assert [list(chunk) for chunk, _ in chunks.over(range(4), fits(4), most=3)] == [[0, 1, 2], [3]]


def test_a_single_row_that_does_not_fit_and_any_other_failure_end_it():
    line = refusal_of(lambda: list(Chunks(4, "esm3").over(range(4), fits(0))))
    assert line == "esm3: not even one response at a time fits into memory"
    with pytest.raises(RuntimeError, match="shapes"):
        list(Chunks(4).over(range(4), lambda chunk: (_ for _ in ()).throw(RuntimeError("shapes differ"))))
