"""The main job on the toy engine: stages, reuse, failures."""

from __future__ import annotations

import numpy as np
import pytest
from support.paths import TOY
from support.stores import cell_of

from harness.plugin_system.component import build
from harness.plugin_system.registry import load_registry
from harness.running import pipeline
from harness.running.config import RunConfig
from harness.store.shards import read_responses
from harness.system.progress import Progress

REQUIRED = [
    "task",
    "model",
    "sampler",
    "embedder",
    "selector",
    "n",
    "problems",
    "solvable",
    "errors",
    "samples_to_correct",
    "samples_to_correct_random",
    "improvement",
    "improvement_ci",
    "win",
    "tie",
    "loss",
    "pass_at_k",
    "pass_at_k_random",
]


def test_a_run_prints_a_row_a_selector_with_every_public_key(toy):
    outcome = toy("--selector", "shuffle", "--selector", "spread")
    assert outcome.code == 0, outcome.err
    assert [row["selector"] for row in outcome.rows] == ["shuffle", "spread"]
    for row in outcome.rows:
        assert not set(REQUIRED) - set(row)
    assert outcome.rows[0]["n"] == 16
    assert outcome.rows[0]["problems"] == 6


def test_the_random_baseline_is_the_closed_form_of_the_pool(toy, tmp_path):
    row = toy("--selector", "shuffle").rows[0]
    cell = cell_of(tmp_path / "runs", row)
    expected = np.mean([(entry["n"] + 1) / (entry["c"] + 1) for entry in cell["problems"]])
    assert row["samples_to_correct_random"] == pytest.approx(expected, rel=1e-12)


def test_a_cell_says_by_itself_what_made_it(toy, tmp_path):
    row = toy("--selector", "shuffle:offset=2", "--sampler", "nucleus:p=0.8").rows[0]
    inputs = cell_of(tmp_path / "runs", row)["inputs"]
    assert inputs["pool"]["engine"] == {"engine": "toy", "model": "parrot"}
    assert inputs["pool"]["sampler"]["top_p"] == 0.8
    assert inputs["ranking"]["selector"]["params"] == {"offset": 2}
    assert "embedding" not in inputs  # shuffle reads no vectors


def test_a_second_run_with_another_selector_reuses_everything_and_says_so(toy):
    toy("--selector", "shuffle")
    outcome = toy("--selector", "spread")
    for stage in ("pool", "embeddings", "verdicts"):
        assert f"{stage}: reused for 6 of 6 problems" in outcome.err
    assert "sample:" not in outcome.err
    assert "verify:" not in outcome.err


def test_another_seed_reuses_nothing(toy):
    first = toy("--selector", "shuffle").rows
    outcome = toy("--selector", "shuffle", "--seed", "1")
    assert "reused" not in outcome.err
    assert outcome.rows != first


def test_another_length_reuses_nothing(toy):
    toy("--selector", "shuffle")
    assert "reused" not in toy("--selector", "shuffle", "--max-tokens", "9").err


def test_selectors_get_vectors_centred_over_the_pool(toy):
    assert toy("--selector", "particular").code == 0


def test_problems_and_trials_draw_from_streams_of_their_own(toy, tmp_path):

    row = toy("--selector", "shuffle").rows[0]
    texts = [tuple(read_responses(path).texts) for path in (tmp_path / "runs" / "pool").rglob("*.parquet")]
    assert len(set(texts)) == len(texts) == 6
    cell = cell_of(tmp_path / "runs", row)
    assert any(len(set(entry["ranks"])) > 1 for entry in cell["problems"])


def test_a_larger_limit_keeps_the_problems_that_are_there(toy):
    toy("--selector", "shuffle", "--limit", "4")
    assert "pool: reused for 4 of 6 problems" in toy("--selector", "shuffle").err


def test_pool_seeds_do_not_depend_on_the_selector(toy, tmp_path):
    toy("--selector", "shuffle", store=tmp_path / "a")
    toy("--selector", "spread", store=tmp_path / "b")
    shards = [sorted((tmp_path / name / "pool").rglob("*.parquet")) for name in "ab"]
    assert [p.read_bytes() for p in shards[0]] == [p.read_bytes() for p in shards[1]]


def test_the_group_size_of_the_engine_changes_no_byte(toy, tmp_path):
    tables = [
        toy("--selector", "spread", "--engine", f"toy:group={group}", store=tmp_path / str(group)).out
        for group in (1, 2, 5)
    ]
    assert tables[0] == tables[1] == tables[2]


def test_a_subset_method_has_pass_at_k_but_no_samples_to_correct(toy):
    row = toy("--selector", "head").rows[0]
    assert row["samples_to_correct"] is None
    assert row["improvement"] is None
    assert row["win"] is None
    assert set(row["pass_at_k"]) == {"1", "2", "4", "8", "16"}
    assert row["pass_at_k"]["16"] == row["solvable"] / row["problems"]


@pytest.mark.parametrize(
    ("selector", "fault"),
    [
        ("twice", "index 0 was picked twice"),
        ("raising", "raised ZeroDivisionError: oh (toy.py:"),
        ("short", "the ranking ended after 0 of 16 responses"),
    ],
)
def test_a_broken_selector_fails_in_one_line_and_the_others_still_count(toy, selector, fault):
    outcome = toy("--selector", selector, "--selector", "shuffle")
    assert outcome.code == 1
    assert [row["selector"] for row in outcome.rows] == ["shuffle"]
    (line,) = [line for line in outcome.err.splitlines() if line.startswith("failed: ")]
    assert selector in line
    assert fault in line


def test_a_raising_verifier_gives_errors_that_are_counted_and_flagged(toy):
    row = toy("--selector", "shuffle", "--split", "broken", "--n", "64").rows[0]
    assert row["errors"] > 0
    assert row["flagged"]
    assert row["n"] == 64


def test_an_embedder_of_texts_works_on_a_sampled_pool(toy):
    assert toy("--selector", "spread", "--embedder", "letters").rows[0]["embedder"] == "letters"


def test_selectors_that_need_no_vectors_run_on_an_engine_that_gives_none(toy):
    assert toy("--selector", "shuffle", "--engine", "stateless").rows[0]["embedder"] == "none"
    outcome = toy("--selector", "spread", "--engine", "stateless")
    assert outcome.code == 2
    assert "choose another --embedder" in outcome.err
    assert toy("--selector", "spread", "--engine", "stateless", "--embedder", "letters").code == 0


def test_wide_vectors_are_projected_to_dim(toy, tmp_path):
    from safetensors.numpy import load_file

    toy("--selector", "spread", "--dim", "3")
    (shard, *_) = (tmp_path / "runs" / "embedding").rglob("*.safetensors")
    assert load_file(shard)["vectors"].shape == (16, 3)


def test_dry_run_makes_no_shard_and_says_what_it_would_make(toy, tmp_path):
    outcome = toy("--selector", "shuffle", "--dry-run")
    assert [row["to_make"] for row in outcome.rows] == [6, 6, 6, 6]
    assert not (tmp_path / "runs").exists()
    toy("--selector", "shuffle")
    assert [row["to_make"] for row in toy("--selector", "shuffle", "--dry-run").rows] == [0, 0, 0, 0]


def test_verdicts_are_regraded_when_the_grader_changes_and_nothing_else_is_remade(toy, tmp_path):
    toy("--selector", "shuffle")
    changed = tmp_path / "toy.py"
    changed.write_text(TOY.read_text().replace('wrong("colour")', 'wrong("another colour")'))
    outcome = toy("--selector", "shuffle", "--plugin", changed)
    assert outcome.code == 2  # two plugins of one name: ambiguous
    config = RunConfig(
        selectors=["shuffle"], task="colours", engine="toy", store=tmp_path / "runs", plugin_files=(changed,)
    )
    import io

    said = io.StringIO()
    pipeline.run(config, Progress(said))
    assert "pool: reused for 6 of 6 problems" in said.getvalue()
    assert "verdicts: reused" not in said.getvalue()


def test_selectors_get_read_only_centred_columns(tmp_path):
    from harness import Pool

    vectors = np.ones((3, 2), np.float32)
    pool = Pool(["a", "b", "c"], vectors, np.zeros(3), np.ones(3, int), [None] * 3)
    with pytest.raises(ValueError, match="read-only"):
        pool.embeddings[0, 0] = 2
    assert vectors.flags.writeable


def test_parameters_are_part_of_the_ranking_key(toy):
    toy("--selector", "shuffle")
    assert "rankings of shuffle:offset=3: reused" not in toy("--selector", "shuffle:offset=3").err
    assert "rankings of shuffle:offset=3: reused" in toy("--selector", "shuffle:offset=3").err


def test_an_edited_selector_is_run_again_in_the_same_process(toy, tmp_path):
    plugin = tmp_path / "mine.py"
    source = """from harness import hookimpl

class Mine:
    needs = ()
    def rank(self, pool, rng):
        yield from range(len(pool))

@hookimpl
def register_selectors(register):
    register("mine", Mine)
"""
    plugin.write_text(source)
    first = toy("--selector", "mine", "--plugin", plugin).rows[0]
    plugin.write_text(source.replace("range(len(pool))", "range(len(pool))[::-1]"))
    second = toy("--selector", "mine", "--plugin", plugin).rows[0]
    cells = [cell_of(tmp_path / "runs", row) for row in (first, second)]
    assert cells[0]["problems"] != cells[1]["problems"]


def test_work_sent_to_processes_gives_the_same_bytes(toy, monkeypatch, tmp_path):
    from harness_plugins.executors import local as local_processes

    here = toy("--selector", "spread", "--selector", "shuffle", store=tmp_path / "here")
    monkeypatch.setattr(local_processes, "ALONE_S", -1)
    monkeypatch.setattr(local_processes, "START_S", -1)
    options = ("--selector", "spread", "--selector", "shuffle", "--executor", "local:workers=2")
    there = toy(*options, store=tmp_path / "there")
    assert there.code == 0, there.err
    assert there.out == here.out


def test_local_executor_gives_the_same_results_in_processes(tmp_path):
    local = build(load_registry(), "executor", "local:workers=2")
    from harness_plugins.executors import local as local_processes

    assert list(local.map(abs, range(-3, 3))) == [3, 2, 1, 0, 1, 2]
    assert list(local_processes._in_processes(abs, list(range(-40, 0)), 2)) == list(range(40, 0, -1))


def test_a_ranker_that_draws_nothing_is_asked_once_for_all_trials(toy, tmp_path):
    counting = tmp_path / "counting.py"
    counting.write_text(
        "from dataclasses import dataclass\n"
        "from harness import hookimpl\n"
        "@dataclass\n"
        "class Counting:\n"
        "    draws: bool = False\n"
        "    needs = ()\n"
        "    def rank(self, pool, rng):\n"
        "        with open(__file__ + '.calls', 'a') as calls:\n"
        "            calls.write('x')\n"
        "        yield from rng.permutation(len(pool)) if self.draws else range(len(pool))\n"
        "@hookimpl\n"
        "def register_selectors(register):\n"
        "    register('counting', Counting)\n"
    )
    calls = tmp_path / "counting.py.calls"
    row = toy("--selector", "counting", "--plugin", counting, "--trials", "4").rows[0]
    assert len(calls.read_text()) == row["solvable"] == 6
    cell = cell_of(tmp_path / "runs", row)
    assert all(len(entry["ranks"]) == 4 for entry in cell["problems"])
    toy("--selector", "counting:draws=true", "--plugin", counting, "--trials", "4")
    assert len(calls.read_text()) == 6 + 4 * 6


def test_a_selector_that_ranks_many_pools_at_once_gives_the_rows_of_one_after_the_other(toy, tmp_path, monkeypatch):
    from harness_selectors.repexp import RepExp

    sizes = []
    rank_many = RepExp.rank_many
    monkeypatch.setattr("harness_selectors.repexp.MANY", 4)
    monkeypatch.setattr(
        RepExp, "rank_many", lambda self, pools, rngs: (sizes.append(len(pools)), rank_many(self, pools, rngs))[1]
    )
    alone, together = toy("--selector", "repexp", "--selector", "repexp:device=cpu").rows
    assert sizes == [4, 2]
    cells = [cell_of(tmp_path / "runs", row) for row in (alone, together)]
    assert cells[0]["problems"] == cells[1]["problems"]
