"""Shards that can be trusted: damage is found at every read, listed, cleared; what older stores hold is adopted."""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from campaigns import bit_flips
from safetensors.numpy import load, save
from support.paths import TOY
from support.processes import run_to_end
from support.stores import contents

from harness import HarnessError, Problem, Responses
from harness.records import correct, wrong
from harness.store import shards as store
from harness.store.checksums import BadShard
from harness.store.json_files import write_json
from harness.store.stage import Store


def shards(root, kind):
    return sorted(
        path for path in (root / kind).glob("*/*") if path.name.partition(".")[0] not in ("manifest", "weights")
    )


def line(outcome, *words, code=2):
    """That the command ended with one line that holds these words; the line."""
    assert outcome.code == code, outcome
    assert "Traceback" not in outcome.err
    [text] = [text for text in outcome.err.splitlines() if text.startswith(("error: ", "failed: "))]
    for word in words:
        assert str(word) in text, text
    return text


def unsealed(root):
    """Make every shard what an older version wrote: the same without checksum."""
    for path in root.glob("*/*/*"):
        if path.suffix == ".parquet":
            table = pq.read_table(pa.BufferReader(path.read_bytes()))
            about = {name: value for name, value in table.schema.metadata.items() if name != b"checksum"}
            pq.write_table(table.replace_schema_metadata(about), path, compression="zstd")
        elif path.suffix == ".safetensors":
            path.write_bytes(save(load(path.read_bytes())))
        elif path.suffix == ".json" and path.parts[-3] in ("audit", "ranking", "stopped") and path.stem != "manifest":
            value = json.loads(path.read_bytes())
            write_json(path, {name: entry for name, entry in value.items() if name != "checksum"})


def other_toy(tmp_path, name, *changes):
    """The toy plugin with some of its text replaced, as a file of its own."""
    text = TOY.read_text()
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    path = tmp_path / f"{name}.py"
    path.write_text(text)
    return path


# Damage is found.


@pytest.mark.parametrize(("damage", "cases"), [(bit_flips.flip, 120), (bit_flips.cut, 30), (bit_flips.swap, 60)])
def test_no_damage_to_any_kind_of_file_changes_a_table_without_a_line(tmp_path, damage, cases):
    counts = bit_flips.outcomes(tmp_path, cases, seed=7, damage=damage)
    assert {outcome for _, outcome in counts} <= {"same", "one line"}, counts
    assert len({kind for kind, outcome in counts if outcome == "one line"}) >= 8


def test_every_bit_of_a_shard_is_covered(tmp_path):
    stage, problem = Store(tmp_path).stage("pool", {"n": 2}, ".parquet"), Problem("a/1", "shard-sha256=")
    texts = ["shard-sha256=" + "0" * 64 + " of pool/k/p;", "shard-sha256="]
    responses = Responses(texts, ["stop", "length"], np.array([1, 2]), np.array([0.5, -1.0]), missing={7: texts[0]})
    store.write_responses(stage.path(problem), problem, responses)
    assert store.read_responses(stage.path(problem)).texts == texts
    path = stage.path(problem)
    whole = path.read_bytes()
    for bit in random.Random(0).sample(range(8 * len(whole)), 600):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        with pytest.raises(BadShard):
            store.read_responses(stage.path(problem))


def test_a_bad_shard_is_one_line_that_names_it_and_what_to_do(toy, tmp_path):
    root = tmp_path / "runs"
    toy("--selector", "spread", "--selector", "shuffle")
    cells = {path.name: path.read_bytes() for path in (root / "cells").iterdir()}
    one, other = shards(root, "ranking")[:2]
    kept = one.read_bytes()
    one.write_bytes(other.read_bytes())
    line(toy("--selector", "spread", "--selector", "shuffle"), one, "written as ranking/", "doctor --store", "--repair")
    cut = json.loads(kept)
    one.write_text(json.dumps({**cut, "trials": [order[:1] for order in cut["trials"]]}))
    line(toy("--selector", "spread", "--selector", "shuffle"), one, "is damaged")
    assert {path.name: path.read_bytes() for path in (root / "cells").iterdir()} == cells


def test_a_line_of_a_bad_shard_comes_through_from_a_worker(tmp_path):
    failure = BadShard(tmp_path / "pool" / "k" / "p.parquet", "is damaged")
    cls, arguments = failure.__reduce__()
    assert str(cls(*arguments)) == str(failure)


def test_lengths_of_pool_vectors_and_verdicts_are_compared(toy, tmp_path):
    root = tmp_path / "runs"
    toy("--selector", "spread", "--limit", "1")
    [vectors], [verdicts], [ranking] = (shards(root, kind) for kind in ("embedding", "verdict", "ranking"))
    whole = {path: path.read_bytes() for path in (vectors, verdicts, ranking)}
    ranking.unlink()
    store.write_vectors(vectors, store.read_vectors(vectors)[:-1])
    line(toy("--selector", "spread", "--limit", "1"), vectors, "holds 15 rows and not 16")
    vectors.write_bytes(whole[vectors])
    store.write_verdicts(verdicts, [correct()] + [wrong("")] * 14, [None] * 15, {})
    line(toy("--selector", "spread", "--limit", "1"), verdicts, "holds 15 rows and not 16")
    ranking.write_bytes(whole[ranking])
    line(toy("--selector", "spread", "--limit", "1"), ranking, "holds 16 rows and not 15")


@pytest.mark.parametrize(
    ("kind", "what"),
    [("pool", "fifo"), ("embedding", "folder"), ("verdict", "socket"), ("ranking", "loop"), ("ranking", "fifo")],
)
def test_what_is_no_file_in_a_shards_place_is_one_line(toy, tmp_path, monkeypatch, kind, what):
    root = tmp_path / "runs"
    toy("--selector", "spread", "--limit", "2")
    if kind != "ranking":
        for path in shards(root, "ranking"):
            path.unlink()
    path = shards(root, kind)[0]
    path.unlink()
    monkeypatch.chdir(path.parent)  # a socket's path must be short
    with socket.socket(socket.AF_UNIX) as listening:
        make = {
            "fifo": os.mkfifo,
            "folder": os.mkdir,
            "socket": listening.bind,
            "loop": lambda name: os.symlink(name, name),
        }
        make[what](path.name)
        line(toy("--selector", "spread", "--limit", "2"), path)


def test_a_cell_that_is_a_fifo_is_one_line_and_waits_for_nobody(harness, tmp_path):
    os.mkfifo(tmp_path / "cell.json")
    outcome = harness("leaderboard", tmp_path, "--out", tmp_path / "out")
    assert "is a FIFO and not a file" in outcome.err


# `harness doctor --store`.


def test_a_doctor_finds_nothing_in_a_sound_store_and_refuses_what_is_none(toy, harness, tmp_path):
    toy("--selector", "spread", "--selector", "head")
    outcome = harness("doctor", "--store", tmp_path / "runs")
    assert (outcome.code, outcome.out.splitlines()[-1].endswith("0 faults")) == (0, True)
    line(harness("doctor", "--store", tmp_path), "is no store")
    line(harness("doctor", "--repair"), "--repair goes with --store DIR")


def test_a_doctor_lists_all_damage_and_repairs_what_can_be_made_again(toy, harness, tmp_path):
    root = tmp_path / "runs"
    rows = toy("--selector", "spread", "--embedder", "letters").rows
    whole = contents(root)
    for kind in ("embedding", "verdict", "ranking"):
        path = shards(root, kind)[1]
        path.write_bytes(path.read_bytes()[:-2] + b"zz")
    listed = harness("doctor", "--store", root, "--json")
    assert listed.code == 1
    assert [fault["kind"] for fault in listed.rows["faults"]] == ["verdict", "embedding", "ranking"]
    assert harness("doctor", "--store", root, "--repair").code == 0
    assert harness("doctor", "--store", root).code == 0
    assert toy("--selector", "spread", "--embedder", "letters").rows == rows
    assert contents(root) == whole


def test_damaged_responses_are_set_aside_and_never_deleted(toy, harness, tmp_path):
    root = tmp_path / "runs"
    rows = toy("--selector", "spread").rows
    path = shards(root, "pool")[2]
    damaged = path.read_bytes()[:-1]
    path.write_bytes(damaged)
    outcome = harness("doctor", "--store", root, "--repair")
    assert (outcome.code, "sets it aside; its problem is then sampled again" in outcome.out) == (0, True)
    assert path.with_name(f"{path.name}.damaged").read_bytes() == damaged
    left = [shard.stem for kind in ("embedding", "verdict", "ranking") for shard in shards(root, kind)]
    assert len(left) == 15
    assert path.stem not in left
    assert toy("--selector", "spread").rows == rows
    assert "1 set aside" in harness("doctor", "--store", root).out


def test_an_imported_pool_is_imported_again_after_a_repair(harness, tmp_path):
    pool = tmp_path / "pool.jsonl"
    lines = [{"problem_id": str(i), "responses": ["a", "b"], "correct": [i == 0, True]} for i in range(3)]
    pool.write_text("\n".join(map(json.dumps, lines)))
    run = ("run", "--pool", pool, "--selector", "uniform", "--store", tmp_path / "runs", "--json")
    rows = harness(*run).rows
    path = shards(tmp_path / "runs", "pool")[0]
    path.write_bytes(b"")
    assert "imported again" in harness("doctor", "--store", tmp_path / "runs", "--repair").out
    assert harness(*run).rows == rows


def test_a_wrong_length_is_listed_too(toy, harness, tmp_path):
    toy("--selector", "spread")
    path = shards(tmp_path / "runs", "embedding")[0]
    store.write_vectors(path, store.read_vectors(path)[:3])
    [fault] = harness("doctor", "--store", tmp_path / "runs", "--json").rows["faults"]
    assert (fault["path"], fault["fault"]) == (str(path), "holds 3 rows, and its pool 16")


# Older stores.


def test_an_older_store_is_refused_by_name_and_adopted_as_the_bytes_of_a_new_one(harness, tmp_path):
    root = tmp_path / "runs"
    fixed = ("run", "--plugin", TOY, "--engine", "toy", "--store", root, "--json")
    runs = [
        (*fixed, "--task", "keyed", "--selector", "spread", "--selector", "head", "--audit"),
        (*fixed, "--task", "measured", "--selector", "shuffle"),
        (*fixed, "--task", "colours", "--until-correct"),
    ]
    rows = [harness(*run).rows for run in runs]
    whole = contents(root)
    unsealed(root)
    assert contents(root) != whole
    for run in runs:
        line(harness(*run), "has no checksum", f"doctor --store {root} --rekey")
    adopted = harness("doctor", "--store", root, "--rekey", "--json")
    assert (adopted.code, adopted.rows["faults"]) == (0, [])
    assert {name: content for name, content in contents(root).items() if not name.endswith("older.json")} == whole
    assert [harness(*run).rows for run in runs] == rows


def test_what_is_damaged_in_an_older_store_is_not_adopted(toy, harness, tmp_path):
    root = tmp_path / "runs"
    toy("--selector", "spread")
    unsealed(root)
    pool, vectors, ranking = (shards(root, kind) for kind in ("pool", "embedding", "ranking"))
    pool[0].write_bytes(pool[1].read_bytes())
    vectors[2].write_bytes(save({"vectors": np.full((16, 8), np.nan, np.float32)}))
    ranking[3].write_text('{"kind":"order","n":16,"trials":[[1,1]]}\n')
    outcome = harness("doctor", "--store", root, "--rekey", "--json")
    assert outcome.code == 1
    assert [fault["path"] for fault in outcome.rows["faults"]] == [str(pool[0]), str(vectors[2]), str(ranking[3])]


@pytest.fixture
def revised(harness, tmp_path):
    """A run of the toy whose engine says this revision of its model; further options as arguments."""

    def call(revision, *args, **named):
        identity = '"model": self.name'
        plugin = other_toy(tmp_path, f"toy_{revision}", (identity, f'{identity}, "revision": "{revision}"'))
        fixed = ("--task", "colours", "--engine", "toy", "--plugin", plugin, "--store", tmp_path / "runs", "--json")
        return harness("run", *fixed, "--selector", "spread", *args)

    return call


def test_a_pool_under_an_older_key_is_never_sampled_again_unasked(revised, harness, tmp_path):
    root = tmp_path / "runs"
    rows = revised("a").rows
    [key] = [folder.name for folder in (root / "pool").iterdir()]
    unsealed(root)
    line(revised("b"), f"pool {key} of an older version", "6 of 6 problems", f"doctor --store {root} --rekey")
    assert harness("doctor", "--store", root, "--rekey").code == 0
    line(revised("b", "--adopt", "zz"), "no such pool")
    line(revised("b"), f"pool {key}", "differs in engine.revision alone", f"--adopt {key}", "--adopt none")
    assert len(list((root / "pool").iterdir())) == 1
    adopted = revised("b", "--adopt", key[:8])
    assert "6 problems' responses taken over" in adopted.err
    assert "pool: reused for 6 of 6" in adopted.err
    assert "embeddings: reused for 6 of 6" in adopted.err
    assert [row["samples_to_correct"] for row in adopted.rows] == [row["samples_to_correct"] for row in rows]
    assert revised("b").rows == adopted.rows


def test_a_run_that_is_told_so_samples_anew_beside_an_older_pool(revised, harness, tmp_path):
    revised("a")
    unsealed(tmp_path / "runs")
    harness("doctor", "--store", tmp_path / "runs", "--rekey")
    outcome = revised("b", "--adopt", "none")
    assert outcome.code == 0
    assert "sample: 96 responses" in outcome.err


def test_another_model_of_this_version_is_sampled_without_a_question(revised):
    revised("a")
    assert "sample: 96 responses" in revised("b").err


def test_an_older_pool_of_other_settings_is_in_nobodys_way(revised, harness, tmp_path):
    revised("a")
    unsealed(tmp_path / "runs")
    assert "sample: 54 responses" in revised("b", "--n", "9").err


def test_responses_to_another_prompt_are_not_taken_for_those_to_this_one(revised, harness, tmp_path):
    revised("a")
    unsealed(tmp_path / "runs")
    harness("doctor", "--store", tmp_path / "runs", "--rekey")
    plugin = other_toy(tmp_path, "asked", ("Say colour", "Tell me colour"), ('"toy", "model"', '"toy", "model"'))
    fixed = ("--task", "colours", "--engine", "toy", "--plugin", plugin, "--store", tmp_path / "runs", "--json")
    [key] = [folder.name for folder in (tmp_path / "runs" / "pool").iterdir()]
    for more in ((), ("--adopt", key)):
        line(harness("run", *fixed, "--selector", "spread", *more), "to other prompts", "pool export", "--adopt none")


def test_an_older_run_until_correct_is_not_sampled_again_unasked(harness, tmp_path):
    root = tmp_path / "runs"
    graded = other_toy(
        tmp_path, "graded", ("return correct() if self.answer", "assert problem; return correct() if self.answer")
    )
    run = ("run", "--task", "colours", "--engine", "toy", "--store", root, "--json", "--until-correct")
    harness(*run, "--plugin", TOY)
    [key] = [folder.name for folder in (root / "sequence").iterdir()]
    unsealed(root)
    assert harness("doctor", "--store", root, "--rekey").code == 0
    line(harness(*run, "--plugin", graded), f"sequences {key}", "differ in verified", "--adopt none")
    assert harness(*run, "--plugin", graded, "--adopt", "none").code == 0


def test_a_problem_whose_reference_changed_keeps_its_responses(harness, toy, tmp_path):
    toy("--selector", "spread")
    plugin = other_toy(tmp_path, "corrected", ("reference=WORDS[i % 7]", 'reference=WORDS[i % 7] if i % 2 else "red"'))
    outcome = harness(
        *("run", "--task", "colours", "--engine", "toy", "--plugin", plugin, "--store", tmp_path / "runs", "--json"),
        *("--selector", "spread"),
    )
    assert outcome.code == 0
    assert "2 problems' responses taken over" in outcome.err  # 2 and 4; problem 0 was red before
    assert "sample:" not in outcome.err


# Stores that can only be read.


ONE_AFTER_ANOTHER = """
import json, sys
from harness.cli import main
for command in json.loads(sys.argv[1]):
    sys.argv = ["harness", *command]
    try:
        code = main() or 0
    except SystemExit as stop:
        code = stop.code or 0
    print(f"exit {command[0]} {code}", file=sys.stderr)
"""


def read_only(root: Path, *commands) -> subprocess.CompletedProcess:
    """Run commands where the store lies on a mount that can only be read, or else as a user who may not write."""
    texts = json.dumps([list(map(str, command)) for command in commands])
    line = [sys.executable, "-c", ONE_AFTER_ANOTHER, texts]
    if os.geteuid() == 0:
        script = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
        mounted = ["unshare", "--mount", "sh", "-c", script, str(root)]
        if subprocess.run([*mounted, "true"], capture_output=True).returncode:
            pytest.skip("needs a mount of its own, or a user other than root")
        return run_to_end([*mounted, *line])
    folders = [root, *(path for path in root.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    try:
        return run_to_end(line)
    finally:
        for folder in folders:
            folder.chmod(0o755)


def test_a_complete_store_that_can_only_be_read_is_shown(harness, tmp_path):
    root = tmp_path / "runs"
    options = ("--task", "keyed", "--engine", "toy", "--plugin", TOY, "--store", root, "--json", "--audit")
    run = ("run", *options, "--selector", "spread", "--selector", "head")
    rows = harness(*run).out
    before = contents(root)
    shown = read_only(
        root,
        run,
        ("doctor", "--store", root, "--json"),
        ("leaderboard", root / "cells", "--out", tmp_path / "out", "--quiet"),
        ("report", "--store", root, "--plugin", TOY, "--out", tmp_path / "page.html"),
        ("plot", "passk", root / "cells", "--out", tmp_path / "plots"),
        (*run, "--seed", "1"),
    )
    codes = [line for line in shown.stderr.splitlines() if line.startswith("exit ")]
    assert codes == ["exit run 0", "exit doctor 0", "exit leaderboard 0", "exit report 0", "exit plot 0", "exit run 2"]
    assert shown.stdout.startswith(rows)
    assert "Traceback" not in shown.stderr
    assert "cannot write" in shown.stderr
    assert contents(root) == before


def test_what_is_missing_from_the_place_of_a_shard_is_a_line(tmp_path):
    stage = Store(tmp_path).stage("pool", {}, ".parquet")
    with pytest.raises(HarnessError, match="is not there"):
        store.read_responses(stage.path(Problem("a", "b")))
