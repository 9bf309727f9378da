"""`harness pool push`: what a repository holds after it, and when nothing is pushed; what the hub's client says."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support.hub_repositories import parquet_text, refused
from support.hub_server import Repository
from support.refusals import refusal_of
from support.stores import files_of

from harness.columns.stored import pool_keys
from harness_plugins.hub.transfer import Hub, message

# huggingface_hub 2.4.0 hands a large file to its HTTP client in a way that the client calls old.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")

REPO = "lab/colours-pool"


# What is in a repository.


def test_a_push_says_what_it_wrote_and_to_whom_it_is_shown(push, hub, pool):
    outcome = push("--private", "--licence", "mit")
    assert outcome.out.startswith(
        f"{REPO} (private): pool {pool}, 96 responses to 6 problems, 0.0 MB in responses.colours-"
    )
    assert "licence" not in outcome.err
    assert hub.repositories[REPO].private
    kinds = {path.split("/")[1].split(".")[0] for path in hub.repositories[REPO].files if path.count("/") == 2}
    assert kinds == {"responses"}
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
    assert "Say colour" in str(hub.repositories[REPO].files)


def test_a_card_that_somebody_edited_is_left_as_it_is(push, hub):
    push("--licence", "mit")
    repository = hub.repositories[REPO]
    assert "left as it is" not in push("--licence", "cc-by-4.0").err
    assert b"cc-by-4.0" in repository.files["README.md"]
    edited = repository.files["README.md"] + b"\nThanks to all.\n"
    repository.commit(repository.files | {"README.md": edited})
    assert "README.md of the repository is not ours: left as it is" in push("--verdicts", "--licence", "mit").err
    assert repository.files["README.md"] == edited


def test_a_folder_gets_what_a_repository_gets_and_a_dry_run_nothing(push, hub, harness, pool, tmp_path, monkeypatch):
    push("--verdicts", "--licence", "mit")
    repository = dict(hub.repositories[REPO].files)
    monkeypatch.setattr(Hub, "__init__", lambda *_: pytest.fail("the hub was asked"))
    monkeypatch.chdir(tmp_path)
    options = ("--store", tmp_path / "runs", "--verdicts", "--licence", "mit")
    planned = harness("pool", "push", pool, REPO, *options, "--dry-run", "--json").rows
    assert set(planned["files"]) == set(repository) - {".gitattributes"}
    dry = harness("pool", "push", pool, "./copy", *options, "--dry-run")
    assert dry.out.startswith(
        f"./copy (dry run, nothing is written: a folder): pool {pool}, 96 responses to 6 problems"
    )
    assert not Path("copy").exists()
    for _ in range(2):  # again: the same
        assert harness("pool", "push", pool, "./copy", *options).code == 0
        written = {
            str(path.relative_to("copy")): path.read_bytes() for path in Path("copy").rglob("*") if path.is_file()
        }
        assert sorted(written) == planned["files"]
        card = written.pop("README.md").decode()
        assert written == {path: repository[path] for path in written}
    assert "harness pool pull OWNER/NAME" in card
    (tmp_path / "copy" / "notes.txt").write_text("mine")
    refused(harness("pool", "push", pool, "./copy", *options), "other files (notes.txt)")
    refused(harness("pool", "push", pool, "nobody", *options, "--dry-run"), "a repository is OWNER/NAME, got 'nobody'")


# What is not pushed.


def test_a_repository_holds_one_pool_whole_and_nothing_else(push, toy, hub, repository, pool, tmp_path):
    toy("--selector", "shuffle", "--seed", "1")
    [other] = set(pool_keys(tmp_path / "runs")) - {pool}
    refused(push(key=other), REPO, "holds pool colours-", pool)
    photos = hub.repositories["lab/photos"] = Repository(private=False)
    photos.commit({"cat.png": b"cat"})
    refused(push(repo="lab/photos"), "lab/photos", "files that are no pool")
    assert photos.files == {"cat.png": b"cat"}
    before = repository.head
    next(path for path in files_of(tmp_path / "runs", "responses") if pool in str(path)).unlink()
    refused(push(), "holds 1 problems that", "pull")
    assert repository.head == before


def test_pushes_that_cannot_be_are_one_line(push, hub, monkeypatch):
    refused(push(key="nothing"), "no such key")
    refused(push(repo="stranger/pool"), "may not do that (HTTP 403)")
    refused(push("--licence", "My Own\n"), '"license" must be one of mit')
    refused(push("--prompts", ""), "--prompts wants the licence")
    monkeypatch.delenv("HF_TOKEN")
    refused(push(), "no token to write with", "HF_TOKEN")
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    refused(push(), "may not do that (HTTP 401)")
    assert all(set(repository.files) == {".gitattributes"} for repository in hub.repositories.values())


# Broken off.


def test_a_push_that_breaks_off_leaves_the_repository_as_it_was_and_goes_on(push, hub, tmp_path):
    hub.stop_after = 2
    refused(push("--vectors", "--verdicts"), "run the same command again to go on")
    assert set(hub.repositories[REPO].files) == {".gitattributes"}
    hub.stop_after = None
    hub.requests.clear()
    assert push("--vectors", "--verdicts").code == 0
    assert len([request for request in hub.requests if request.startswith("PUT")]) < 12


def test_a_repository_that_changes_under_a_push_is_not_overwritten(push, hub, repository):
    hub.before_commit = lambda: repository.commit(repository.files | {"note.txt": b"wait"})
    refused(push("--licence", "mit"), "somebody else has changed the repository")
    assert repository.files["note.txt"] == b"wait"


# The hub's client


def test_what_is_no_name_of_a_repository_is_refused(hub):
    for name in ("colours", "a/b/../c", "lab/", "lab/a b", "läb/pool"):
        assert refusal_of(Hub, name, "pool pull") == f"pool pull: a repository is OWNER/NAME, got {name!r}"
    assert "lab/a..b" in refusal_of(Hub("lab/a..b", "pool push").about)


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
    for failure, words in failures.items():
        assert message(failure).startswith(words)
        assert "\n" not in message(failure)


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
    (count, response), (graded, verdict) = json.loads(printed.splitlines()[-1])
    assert count == graded == 96
    assert response["text"].startswith("say ")
    assert verdict["status"] in ("correct", "wrong")


def test_vectors_and_verdicts_of_an_earlier_push_stay(push, hub):
    for options in (("--verdicts",), ("--vectors",), ()):
        assert push(*options).code == 0
    kinds = {path.split("/")[1].split(".")[0] for path in hub.repositories[REPO].files if path.count("/") == 2}
    assert kinds == {"responses", "vectors", "verdicts"}


def test_a_push_wants_what_it_is_to_push(push, hub, tmp_path):
    root = tmp_path / "runs"
    for kind, words in (("verdicts", "no verdicts of it"), ("vectors", "no vectors of it")):
        shutil.rmtree(files_of(root, kind)[0].parent)
        refused(push(f"--{kind}"), words)
    one = files_of(root, "responses")[0]
    kept = one.read_bytes()
    one.write_bytes(kept[:-20])
    refused(push(), one.name, "is damaged")
    one.write_bytes(kept)
    shutil.rmtree(one.parent)
    refused(push(), "holds no responses yet")
    assert not hub.repositories


def test_the_problems_of_others_and_paths_of_this_machine_are_not_passed_on_unsaid(
    push, hub, harness, written, tmp_path
):
    root = tmp_path / "more"
    pool = written([{"problem_id": "a", "prompt": "Find it.", "responses": ["42"], "correct": [True]}])
    key = harness("pool", "import", pool, "--store", root, "--json").rows["pool"]
    for task in ("aime24", "math:math500=file", "diversity-harness/math500"):
        [path] = root.glob("*/pool.json")
        made = {"kind": "responses", "task": task, "engine": {"model": "/home/me/secret"}}
        path.write_text(json.dumps(made))
        refused(push("--prompts", "apache-2.0", key=key, root=root), task, "belong to", "MAA", "leave --prompts away")
    assert not hub.repositories
    outcome = push(key=key, root=root)
    assert outcome.code == 0
    assert "the settings and the card say model = /home/me/secret" in outcome.err
    assert "Find it." not in str(hub.repositories[REPO].files) + parquet_text(hub.repositories[REPO].files)
