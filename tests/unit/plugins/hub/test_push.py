"""`harness pool push`: what a repository holds after it, and when nothing is pushed; what the hub's client says."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import yaml
from support.hub_repositories import parquet_text, refused
from support.hub_server import Repository
from support.refusals import refusal_of

from harness import Problem, Responses
from harness.store import shards
from harness.store.stage import Store
from harness_plugins.hub import tables
from harness_plugins.hub.dataset import HubDataset, _message

# huggingface_hub 2.4.0 hands a large file to its HTTP client in a way that the client calls old.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")

REPO = "lab/colours-pool"


# What is in a repository.


def test_a_push_says_what_it_wrote_and_to_whom_it_is_shown(push, hub, pool):
    outcome = push("--private", "--licence", "mit")
    assert outcome.out.startswith(f"{REPO} (private): pool {pool}, 96 responses to 6 problems, 0.0 MB in responses\n")
    assert "licence" not in outcome.err
    assert hub.repositories[REPO].private
    assert {*hub.repositories[REPO].files} == {
        ".gitattributes",
        "README.md",
        "manifest.json",
        "responses/00000.parquet",
    }
    again = push("--json")
    assert again.rows["private"] is True
    assert "no --licence: the card says 'unknown'" in again.err
    hub.repositories[REPO].private = False
    refused(push("--private"), "the repository is public")


def test_problem_texts_stay_at_home_unless_their_licence_is_given(push, hub):
    assert push("--vectors", "--verdicts").code == 0
    files = hub.repositories[REPO].files
    assert "say green" in parquet_text(files)
    assert "Say colour" not in parquet_text(files) + "".join(map(str, files.values()))
    assert push("--prompts", "mit").code == 0
    assert "Say colour" in parquet_text(hub.repositories[REPO].files)


def test_a_card_that_somebody_edited_is_left_as_it_is(push, hub):
    push("--licence", "mit")
    repository = hub.repositories[REPO]
    assert "left as it is" not in push("--licence", "cc-by-4.0").err
    assert b"cc-by-4.0" in repository.files["README.md"]
    edited = repository.files["README.md"] + b"\nThanks to all.\n"
    repository.commit(repository.files | {"README.md": edited})
    assert "README.md of the repository is not ours: left as it is" in push("--verdicts", "--licence", "mit").err
    assert repository.files["README.md"] == edited


def test_what_is_beside_the_pool_is_added_or_kept_by_a_later_push_and_files_that_it_does_not_have_are_deleted(
    push, hub, monkeypatch
):
    with monkeypatch.context() as small:
        small.setattr(tables, "GROUP_ROWS", 1)
        small.setattr(tables, "PART_BYTES", 1)
        push()
    assert len(hub.repositories[REPO].files) == 9
    for options in (("--verdicts",), ("--vectors",), ()):
        assert push(*options).code == 0
    kinds = [path.split("-")[0].split("/")[0] for path in hub.repositories[REPO].files if path.endswith(".parquet")]
    assert sorted(kinds) == ["responses", "vectors", "verdicts"]
    stages = json.loads(hub.repositories[REPO].files["manifest.json"])["stages"]
    assert [stage["kind"] for stage in stages] == ["pool", "embedding", "verdict"]


def test_a_path_in_the_settings_is_pointed_out_before_it_is_public(push, hub, tmp_path):
    stage = Store(tmp_path / "runs").stage("pool", {"engine": {"model": "/home/me/secret"}, "n": 1}, ".parquet")
    stage.begin()
    shards.write_responses(
        stage.path(Problem("a", "?")), Problem("a", "?"), Responses(["x"], ["stop"], np.ones(1), np.zeros(1))
    )
    assert "the manifest and the card say engine.model = /home/me/secret" in push(key=stage.key).err


@pytest.mark.slow  # it loads `datasets`
def test_datasets_reads_what_was_pushed(repository):
    configs = yaml.safe_load(repository.files["README.md"].decode().split("---")[1])["configs"]
    names = [config["config_name"] for config in configs]
    code = (
        "import datasets, json\n"
        f"first = datasets.load_dataset({REPO!r}, split='pool')\n"
        f"rest = [datasets.load_dataset({REPO!r}, name, split='pool') for name in {names[1:]!r}]\n"
        "print(json.dumps([[len(rows), rows[17]] for rows in (first, *rest)]))"
    )
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    rows = json.loads(printed.splitlines()[-1])
    assert [(count, row["problem_id"], row["index"]) for count, row in rows] == [(96, "test/1", 1)] * 3
    (_, response), (_, vector), (_, verdict) = rows
    assert response["text"].startswith("say ")
    assert len(vector["vector"]) == 8
    assert verdict["verdict"] in ("correct", "wrong")


# What is not pushed.


def test_a_repository_holds_one_pool_whole_and_nothing_else(push, toy, hub, repository, pool, tmp_path):
    toy("--selector", "shuffle", "--seed", "1")
    [other] = [path.name for path in (tmp_path / "runs" / "pool").iterdir() if path.name != pool]
    refused(push(key=other), REPO, f"holds pool {pool}")
    photos = hub.repositories["lab/photos"] = Repository(private=False)
    photos.commit({"cat.png": b"cat"})
    refused(push(repo="lab/photos"), "lab/photos", "files that are no pool")
    assert photos.files == {"cat.png": b"cat"}
    before = repository.head
    sorted((tmp_path / "runs" / "pool" / pool).glob("*.parquet"))[0].unlink()
    refused(push(), "holds 1 problems that", "pull")
    assert repository.head == before


def test_pushes_that_cannot_be_are_one_line(push, hub, monkeypatch):
    refused(push(key="nothing"), "no such key")
    refused(push(repo="stranger/pool"), "may not do that (HTTP 403)")
    refused(push("--licence", "My Own\n"), "--licence is an id of the hub")
    refused(push("--licence", "gplish"), "license")
    refused(push("--prompts", ""), "--prompts wants the licence")
    monkeypatch.delenv("HF_TOKEN")
    refused(push(), "no token to write with", "HF_TOKEN")
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    refused(push(), "may not do that (HTTP 401)")
    assert all(set(repository.files) == {".gitattributes"} for repository in hub.repositories.values())


def test_a_push_wants_what_it_is_to_push(push, hub, pool, tmp_path):
    shutil.rmtree(tmp_path / "runs" / "verdict")
    refused(push("--verdicts"), "no verdicts of it")
    shutil.rmtree(tmp_path / "runs" / "embedding")
    refused(push("--vectors"), "no embeddings of it")
    folder = tmp_path / "runs" / "pool" / pool
    first = sorted(folder.glob("*.parquet"))[0]
    first.with_name(f"{first.stem}.unanswered.json").write_text('{"3": "HTTP 500"}')
    refused(push(), "requests of 1 problems stayed unanswered")
    for path in folder.glob("*.parquet"):
        path.unlink()
    refused(push(), "holds no responses yet")
    assert not hub.repositories


def test_a_store_that_is_damaged_is_not_pushed(push, hub, pool, tmp_path):
    folder = tmp_path / "runs" / "pool" / pool
    first, second = sorted(folder.glob("*.parquet"))[:2]
    kept = first.read_bytes()
    first.write_bytes(kept[:-20])
    refused(push(), first.name, "is damaged")
    first.write_bytes(second.read_bytes())
    refused(push(), first.name, "is not what its name says")
    first.write_bytes(kept)
    manifest = folder / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"n": 16', '"n": 17'))
    refused(push(), "does not say what made")
    assert not hub.repositories


def test_the_problems_of_aime_and_math_are_not_pushed(push, hub, tmp_path):
    problem, responses = Problem("2024-I-1", "Find it.", "42"), Responses(["42"], ["stop"], np.ones(1), np.zeros(1))
    for task in ("aime24", "math:math500=file", "diversity-harness/math500"):
        stage = Store(tmp_path / "runs").stage("pool", {"task": {"name": task, "revision": "1"}, "n": 1}, ".parquet")
        stage.begin()
        shards.write_responses(stage.path(problem), problem, responses)
        refused(push("--prompts", "apache-2.0", key=stage.key), task, "belong to", "MAA", "leave --prompts away")
    assert not hub.repositories
    assert push(key=stage.key).code == 0
    assert "Find it." not in str(hub.repositories[REPO].files) + parquet_text(hub.repositories[REPO].files)


# Broken off.


def test_a_push_that_breaks_off_leaves_the_repository_as_it_was_and_goes_on(push, hub, tmp_path):
    hub.stop_after = 2
    refused(push("--vectors", "--verdicts"), "run the same command again to go on")
    assert set(hub.repositories[REPO].files) == {".gitattributes"}
    assert not list((tmp_path / "runs" / "push").iterdir())
    hub.stop_after = None
    hub.requests.clear()
    assert push("--vectors", "--verdicts").code == 0
    assert len([request for request in hub.requests if request.startswith("PUT")]) == 1
    assert len(hub.repositories[REPO].files) == 6


def test_a_repository_that_changes_under_a_push_is_not_overwritten(push, hub, repository):
    hub.before_commit = lambda: repository.commit(repository.files | {"note.txt": b"wait"})
    refused(push("--licence", "mit"), "somebody else has changed the repository")
    assert repository.files["note.txt"] == b"wait"


def test_responses_of_no_task_go_with_odd_texts_and_without_tokens(push, pull, hub, harness, written, tmp_path):
    lines = [
        {"problem_id": "1/é |`", "responses": ["", "λ\n\0---", "x" * 5000], "correct": [True, False, False]},
        {"problem_id": "../../2", "prompt": "?", "responses": ["\ud800 lone", "b", "b"], "correct": [False] * 3},
    ]
    odd = tmp_path / "odd"
    key = harness("pool", "import", written(lines), "--store", odd, "--json").rows["pool"]
    assert harness("run", "--pool", written(lines), "--selector", "uniform", "--store", odd).code == 0
    assert push("--verdicts", "--prompts", "mit", key=key[:8], root=odd).code == 0
    assert pull().code == 0
    remote = {
        path.relative_to(odd): path.read_bytes() for path in odd.rglob("*") if path.parts[-3] in ("pool", "verdict")
    }
    here = tmp_path / "other"
    assert {path for path in remote if not (here / path).exists()} == {path for path in remote if "index" in path.name}
    assert all((here / path).read_bytes() == content for path, content in remote.items() if "index" not in path.name)
    about = [harness("pool", "inspect", key, "--store", store, "--json").rows for store in (odd, here)]
    assert about[0] == about[1]
    assert about[0]["responses"] == about[0]["graded"] == 6


# The hub's client


def test_what_is_no_name_of_a_repository_is_refused(hub):
    for name in ("colours", "a/b/../c", "lab/", "lab/a b", "läb/pool"):
        assert refusal_of(HubDataset, name, "pool pull") == f"pool pull: a repository is OWNER/NAME, got {name!r}"
    assert "no name that the hub takes" in refusal_of(HubDataset("lab/a..b", "pool push").snapshot_if_there)


def test_a_hub_out_of_reach_is_one_line(push, pull, hub, monkeypatch):
    hub.shutdown()
    hub.server_close()
    for outcome in (push(), pull()):
        refused(outcome, "is out of reach", hub.endpoint)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    refused(pull(), "is out of reach")


def test_a_failure_is_told_by_its_first_line_without_addresses():
    failures = {
        OSError("no route to https://hub/x?sig=1\nsecond line"): "OSError: no route to (address); run the same",
        ValueError('"license" must be\none of mit'): '"license" must be one of mit',
        OSError(""): "OSError: ; run the same command again to go on",
    }
    for failure, message in failures.items():
        assert _message(failure).startswith(message)
        assert "\n" not in _message(failure)
