"""Rows are processed in chunks that fit into memory."""

import pytest
from support.refusals import refusal_of

from harness_plugins.engines.row_chunks import Chunks


def fits(most):
    """Work on a chunk for which memory holds `most` rows."""

    def work(chunk):
        if len(chunk) > most:
            raise MemoryError
        return sum(chunk)

    return work


def test_a_chunk_that_does_not_fit_is_halved_for_good_and_any_other_failure_ends_it(monkeypatch):
    monkeypatch.setattr("harness_plugins.engines.row_chunks.release", lambda: None)  # a full collection takes a second
    chunks = Chunks(8)
    assert list(chunks.over(range(10), fits(4))) == [(range(4), 6), (range(4, 8), 22), (range(8, 10), 17)]
    assert [list(chunk) for chunk, _ in chunks.over(range(4), fits(4), most=3)] == [[0, 1, 2], [3]]
    line = refusal_of(lambda: list(Chunks(4, "esm3").over(range(4), fits(0))))
    assert line == "esm3: not even one response at a time fits into memory"
    with pytest.raises(RuntimeError, match="shapes"):
        list(Chunks(4).over(range(4), lambda chunk: (_ for _ in ()).throw(RuntimeError("shapes differ"))))
