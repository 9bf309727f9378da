"""A run that is killed while it folds goes on at the next chunk."""

from __future__ import annotations

import os

import pyarrow.parquet as pq
import pytest
from support.processes import harness_command, kill_when
from support.stores import contents
from support.tiny_proteins import sequences, tiny_esmfold


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_a_run_killed_while_it_folds_goes_on_at_the_next_chunk_and_gives_the_same_bytes(harness, written, tmp_path):
    pool = written([{"problem_id": "length-20", "responses": sequences(124, 20)}])
    task = f"proteins:length=20,verifier={tiny_esmfold(tmp_path / 'fold')},test_weights=true,device=cpu,plddt_min=0.4"
    options = ("run", "--task", task, "--pool", pool, "--embedder", "tfidf", "--selector", "uniform", "--json")
    whole, killed = (*options, "--store", tmp_path / "whole"), (*options, "--store", tmp_path / "killed")

    def measured():
        return list((tmp_path / "killed").glob("measure/*/length*.parquet"))

    table = harness(*whole).out
    kill_when(measured, harness_command(*killed), env=os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"})
    (shard,) = measured()
    assert pq.read_metadata(shard).num_rows == 64
    again = harness(*killed)
    assert "measure: 60 responses" in again.err
    assert again.out == table
    assert [row["errors"] for row in again.rows] == [0]
    assert pq.read_metadata(shard).num_rows == 124
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")
