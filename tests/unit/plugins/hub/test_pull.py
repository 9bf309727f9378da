"""`harness pool pull`: the same bytes come into the store; what is wrong with a repository is refused in one line."""

import json
import platform
import signal
import subprocess
from dataclasses import replace

import pytest
from support.hub_repositories import KINDS, changed_manifest, of_kind, refused, refused_and_nothing_written
from support.hub_server import Repository
from support.paths import TOY
from support.processes import harness_command, wait_for
from support.stores import contents

from harness import Problem
from harness.store import shards
from harness_plugins.hub import tables

# huggingface_hub 2.4.0 hands a large file to its HTTP client in a way that the client calls old.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")

REPO = "lab/colours-pool"


@pytest.fixture
def other(tmp_path):
    """The store that is pulled into."""
    return tmp_path / "other"


def test_a_pool_comes_back_as_the_same_bytes_and_a_run_samples_nothing(push, pull, hub, toy, tmp_path, other):
    assert push("--vectors", "--verdicts", "--prompts", "mit").code == 0
    pulled = pull("--json")
    assert pulled.rows["new"] == pulled.rows["problems"] == 6
    for kind in KINDS:
        assert of_kind(other, kind) == of_kind(tmp_path / "runs", kind) != {}
    assert not list((other / "pull").iterdir())
    run = toy("--selector", "spread", store=other)
    assert run.rows == toy("--selector", "spread").rows
    for stage in ("pool", "verdicts"):
        assert f"{stage}: reused for 6 of 6 problems" in run.err


def test_scores_come_back_as_the_same_bytes_also_where_problems_have_different_ones(
    harness, hub, pull, push, written, tmp_path, other
):
    lines = [{"problem_id": name, "responses": ["x", "y"]} for name in "abc"]
    lines[0]["scores"], lines[1]["scores"] = {"rm": [0.25, None]}, {"rm": [1, 2], "judge": [None, None]}
    key = harness("pool", "import", written(lines), "--store", tmp_path / "runs", "--json").rows["pool"]
    for prompts in ((), ("--prompts", "mit")):
        pushed = push(*prompts, key=key)
        assert pushed.code == 0, pushed.err
        assert json.loads(hub.repositories[REPO].files["manifest.json"])["scores"] == ["rm", "judge"]
        root = other / "with" if prompts else other
        assert pull(root=root).code == 0
    assert of_kind(other / "with", "pool") == {
        name: content for name, content in of_kind(tmp_path / "runs", f"pool/{key}").items() if "index" not in name
    }
    assert "`score:rm`, `score:judge`, numbers of reward models" in hub.repositories[REPO].files["README.md"].decode()


def test_a_pool_without_problem_texts_is_used_and_its_export_joins_by_ids(
    pull, repository, toy, harness, pool, tmp_path, other
):
    pulled = pull()
    assert pulled.out.startswith(f"pool {pool}: 96 responses to 6 problems, 6 of them new here; responses, vectors-")
    run = toy("--selector", "spread", store=other)
    assert "pool: reused for 6 of 6 problems" in run.err
    assert run.rows[0]["samples_to_correct"] == toy("--selector", "spread").rows[0]["samples_to_correct"]
    for mine in (tmp_path / "runs" / "pool" / pool).glob("*.parquet"):
        theirs = other / "pool" / pool / mine.name
        assert shards.read_responses(theirs).texts == shards.read_responses(mine).texts
        assert shards.read_about(theirs) == shards.read_about(mine) | {"prompt": ""}
    out = tmp_path / "pool.jsonl"
    assert harness("pool", "export", pool, "--out", out, "--store", other).code == 0
    fixed = ("--task", "colours", "--plugin", TOY, "--store", tmp_path / "third", "--json")
    assert harness("pool", "import", out, *fixed).rows["problems"] == 6


def test_verdicts_are_left_to_ones_own_grader_where_asked(pull, repository, toy, other):
    assert pull("--no-verdicts").code == 0
    assert not of_kind(other, "verdict")
    assert of_kind(other, "embedding")
    assert "verdicts: reused" not in toy("--selector", "spread", store=other).err


def test_a_revision_is_pulled_as_it_was(push, pull, hub, other):
    push()
    first = hub.repositories[REPO].head
    push("--verdicts")
    refused(pull("--revision", "v7"), "no such revision")
    assert pull("--revision", first, "--json").rows["commit"] == first
    assert not of_kind(other, "verdict")
    assert pull().code == 0
    assert of_kind(other, "verdict")


# What is wrong with a repository is one line, and nothing of it comes into the store.


def test_a_repository_without_a_pool_or_that_is_private_is_refused(pull, hub, other, monkeypatch):
    refused(pull(), "no such dataset repository")
    repository = hub.repositories[REPO] = Repository(private=False)
    repository.commit({"README.md": b"# Photos"})
    refused_and_nothing_written(pull(), other, REPO, "no pool: the repository has no manifest.json")
    repository.private = True
    monkeypatch.setenv("HF_TOKEN", "hf_another")
    refused(pull(), "no such dataset repository, or a private one")


def test_responses_to_what_is_no_problem_of_an_installed_task_are_refused(harness, push, pull, hub, tmp_path, other):
    args = ("--task", "game24", "--engine", "toy", "--plugin", TOY, "--selector", "shuffle", "--limit", 2, "--n", 2)
    assert harness("run", *args, "--store", tmp_path / "puzzles").code == 0
    [folder] = (tmp_path / "puzzles" / "pool").iterdir()
    assert push(key=folder.name, root=tmp_path / "puzzles").code == 0
    assert pull(root=tmp_path / "third").code == 0

    def invented(value):
        value["stages"][0]["shards"][1][1] = "0123456789ab"

    repository = hub.repositories[REPO]
    manifest = changed_manifest(repository.files["manifest.json"], invented)
    repository.commit(repository.files | {"manifest.json": manifest})
    words = "responses to 1 problems that task 'game24' of the same revision does not have, first '"
    refused_and_nothing_written(pull(), other, REPO, words)


def test_a_damaged_or_missing_file_is_refused_and_the_whole_one_is_taken_then(pull, hub, repository, other):
    path = "responses/00000.parquet"
    content = repository.files[path]
    flipped = content[:99] + bytes([content[99] ^ 1]) + content[100:]
    for hub.says_hashes, damaged, words in (
        (True, flipped, "is not the file that the manifest names"),
        (False, content[:-1], "is not the file that the manifest names"),
        (False, flipped, "is damaged: it does not have the manifest's SHA-256"),
    ):
        repository.commit(repository.files | {path: damaged})
        refused_and_nothing_written(pull(), other, REPO, f"{path} {words}")
    repository.commit({name: file for name, file in repository.files.items() if name != path})
    refused_and_nothing_written(pull(), other, REPO, f"half of a pool: 1 of its 3 files are missing, first {path}")
    repository.commit(repository.files | {path: flipped})
    refused(pull(), f"{path} is damaged")
    repository.files[path] = content  # of the same commit: what was damaged on its way is fetched again
    assert pull().code == 0


def test_other_responses_under_the_same_key_are_not_mixed(pull, repository, pool, other):
    assert pull("--no-verdicts").code == 0
    path = sorted((other / "pool" / pool).glob("*.parquet"))[0]
    responses = shards.read_responses(path)
    changes = {
        "texts": ["say nothing", *responses.texts[1:]],
        "finish": ["length", *responses.finish[1:]],
        "logprobs": responses.logprobs + 1,
        "lengths": responses.lengths + 1,
        "token_ids": None,
    }
    for field, value in changes.items():
        shards.write_responses(path, Problem("test/0", ""), replace(responses, **{field: value}))
        before = contents(other / "pool")
        refused(pull("--no-verdicts"), "has other responses to problem 'test/0'", "another --store")
        assert contents(other / "pool") == before


def test_a_folder_that_cannot_be_written_is_one_line(pull, repository, other):
    other.write_text("a file")
    refused(pull(), "cannot write", "another --store")


# Killed.


def test_a_pull_that_ended_while_writing_writes_only_what_is_missing(push, pull, hub, pool, tmp_path, other):
    push("--prompts", "mit")
    assert pull().code == 0
    folder = other / "pool" / pool
    kept, *gone = sorted(folder.glob("*.parquet"))
    for path in gone:
        path.unlink()
    (folder / f".{platform.node()}-999999999.x.parquet.tmp").write_bytes(b"half")
    stamp = kept.stat().st_mtime_ns
    assert pull("--json").rows["new"] == 5
    assert kept.stat().st_mtime_ns == stamp
    assert of_kind(other, "pool") == of_kind(tmp_path / "runs", "pool")


@pytest.mark.slow
def test_a_pull_that_is_killed_goes_on_where_it_stopped(push, pull, hub, tmp_path, monkeypatch, other):
    monkeypatch.setattr(tables, "GROUP_ROWS", 1)
    monkeypatch.setattr(tables, "PART_BYTES", 1)
    push("--vectors", "--verdicts", "--prompts", "mit")
    hub.stop_after = 7  # of 18 files
    child = subprocess.Popen(harness_command("pool", "pull", REPO, "--store", other), stderr=subprocess.PIPE)
    wait_for(lambda: hub.stop_after < 0, 240, "the hub has given seven files")
    wait_for(lambda: list((other / "pull").rglob("*.incomplete")), 240, "the eighth is begun")
    child.send_signal(signal.SIGKILL)
    child.communicate()
    assert not of_kind(other, *KINDS)
    hub.stop_after = None
    hub.requests.clear()
    assert pull().code == 0
    assert len([path for path in hub.requests if path.startswith("GET /datasets") and "parquet" in path]) == 18 - 7
    for kind in KINDS:
        assert of_kind(other, kind) == of_kind(tmp_path / "runs", kind)
    assert not list((other / "pull").iterdir())
