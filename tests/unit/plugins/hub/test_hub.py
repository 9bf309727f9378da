"""`harness pool push` and `pull`: what a repository holds, that the same bytes come back, what is refused."""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support.hub_repositories import KINDS, first, of_kind, parquet_text, refused, refused_and_nothing_written
from support.hub_server import Repository
from support.processes import harness_command, wait_for
from support.stores import files_of

from harness.columns.stored import StoredPool, pool_keys
from harness_plugins.hub.transfer import Hub

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
    kinds = {path.split("/")[1].split(".")[0] for path in files if path.count("/") == 2}
    assert kinds == {"responses", "vectors", "verdicts"}


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
    refused(push(repo="läb/pool"), "a repository is OWNER/NAME, got 'läb/pool'")
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


@pytest.fixture
def other(tmp_path):
    """The store that is pulled into."""
    return tmp_path / "other"


def test_a_pool_comes_back_as_the_same_bytes_and_a_run_samples_nothing(push, pull, hub, harness, toy, tmp_path, other):
    assert push("--vectors", "--verdicts", "--prompts", "mit").code == 0
    assert "Say colour" in str(hub.repositories[REPO].files)
    pulled = pull("--json")
    assert pulled.rows["new"] == pulled.rows["problems"] == 6
    for kind in KINDS:
        assert of_kind(other, kind) == of_kind(tmp_path / "runs", kind) != {}
    assert not list((other / "pull").iterdir())
    run = toy("--selector", "spread", store=other)
    assert run.rows == toy("--selector", "spread").rows
    for stage in ("pool", "verdicts"):
        assert f"{stage}: reused for 6 of 6 problems" in run.err


def test_a_revision_is_pulled_as_it_was(push, pull, hub, other):
    push()
    first = hub.repositories[REPO].head
    push("--verdicts")
    refused(pull("--revision", "v7"), "no such revision")
    assert pull("--revision", first, "--json").rows["commit"] == first
    assert not of_kind(other, "verdicts.")
    assert pull().code == 0
    assert of_kind(other, "verdicts.")


# What is wrong with a repository is one line, and nothing of it comes into the store.


def test_a_repository_without_a_pool_or_that_is_private_is_refused(pull, hub, other, monkeypatch):
    refused(pull(), "no such dataset repository")
    repository = hub.repositories[REPO] = Repository(private=False)
    repository.commit({"README.md": b"# Photos"})
    refused_and_nothing_written(pull(), other, REPO, "no pool: the repository has no pool.json")
    repository.private = True
    monkeypatch.setenv("HF_TOKEN", "hf_another")
    refused(pull(), "no such dataset repository, or a private one")


def test_scores_names_and_odd_texts_of_no_task_come_back_as_the_same_bytes(
    harness, pull, push, hub, written, tmp_path, other
):
    lines = [
        {
            "problem_id": "1/é |`",
            "responses": ["", "λ\n\0---"],
            "correct": [True, False],
            "scores": {"rm": [0.25, None]},
            "names": ["CHEMBL25", ""],
        },
        {"problem_id": "../../2", "prompt": "?", "responses": ["\ud800 lone", "b"], "correct": [False] * 2},
    ]
    key = harness("pool", "import", written(lines), "--store", tmp_path / "odd", "--json").rows["pool"]
    pushed = push("--verdicts", "--prompts", "mit", key=key[:8], root=tmp_path / "odd")
    assert pushed.code == 0, pushed.err
    assert pull().code == 0
    assert of_kind(other, *KINDS) == of_kind(tmp_path / "odd", *KINDS) != {}
    about = [harness("pool", "inspect", key, "--store", store, "--json").rows for store in (tmp_path / "odd", other)]
    assert about[0] == about[1]
    assert about[0]["graded"] == 4


def test_a_damaged_file_is_refused_and_the_whole_one_is_taken_then(pull, hub, repository, other):
    path = first(repository, "responses")
    content = repository.files[path]
    repository.commit(repository.files | {path: content[:99] + bytes([content[99] ^ 1]) + content[100:]})
    refused_and_nothing_written(pull(), other, REPO, "is damaged: it is not what its name says")
    repository.files[path] = content  # of the same commit: what was damaged on its way is fetched again
    assert pull().code == 0


def test_other_responses_under_the_same_key_are_not_mixed_and_what_is_missing_is_filled(pull, repository, pool, other):
    assert pull("--no-verdicts").code == 0
    before = of_kind(other, *KINDS)
    [folder] = StoredPool(next(other.glob("colours-*"))).columns("responses")
    one, two, *_ = sorted(path for path in folder.iterdir() if path.suffix == ".parquet")
    two.unlink()
    assert pull("--no-verdicts", "--json").rows["new"] == 1
    assert of_kind(other, *KINDS) == before
    one.rename(one.with_name(".".join([*one.name.split(".")[:2], "0" * 16, "parquet"])))
    refused(pull("--no-verdicts"), "has other responses", "another --store")


@pytest.mark.slow
def test_a_pull_that_is_killed_goes_on_where_it_stopped(push, pull, hub, tmp_path, other):
    push("--vectors", "--verdicts", "--prompts", "mit")
    hub.stop_after = 7  # of 12 tables
    child = subprocess.Popen(harness_command("pool", "pull", REPO, "--store", other), stderr=subprocess.PIPE)
    wait_for(lambda: hub.stop_after < 0, 240, "the hub has given seven files")
    child.send_signal(signal.SIGKILL)
    child.communicate()
    assert not of_kind(other, *KINDS)
    hub.stop_after = None
    hub.requests.clear()
    assert pull().code == 0
    assert len([path for path in hub.requests if path.startswith("GET /datasets") and "parquet" in path]) < 12
    for kind in KINDS:
        assert of_kind(other, kind) == of_kind(tmp_path / "runs", kind)
    assert not list((other / "pull").iterdir())


def test_a_hub_out_of_reach_is_one_line(push, pull, hub):
    hub.shutdown()
    hub.server_close()
    for outcome in (push(), pull()):
        refused(outcome, "is out of reach", hub.endpoint)
