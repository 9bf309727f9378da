"""`harness pool push` and `pull`: what a repository holds, that the same bytes come back, what is refused."""

import json
import shutil
import signal
import subprocess
import sys

import pytest
import yaml
from support.hub_fixtures import KINDS, REPO, first, of_kind, parquet_text, refused, refused_and_nothing_written
from support.hub_server import Repository
from support.processes import harness_command, wait_for
from support.stores import contents, files_of

from harness.columns.stored import StoredPool, pool_keys
from harness_plugins.hub.transfer import Hub

# huggingface_hub 2.4.0 hands a large file to its HTTP client in a way that the client calls old.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")


def kinds_in(files):
    return {path.split("/")[1].split(".")[0] for path in files if path.count("/") == 2}


def test_a_push_says_what_it_wrote_to_whom_it_is_shown_and_problem_texts_stay_at_home(push, hub, pool):
    outcome = push("--private", "--licence", "mit")
    begin = f"{REPO} (private): pool {pool}, 96 responses to 6 problems, 0.0 MB in responses.colours-"
    assert outcome.out.startswith(begin)
    assert "licence" not in outcome.err
    repository = hub.repositories[REPO]
    assert (repository.private, kinds_in(repository.files)) == (True, {"responses"})
    again = push("--vectors", "--verdicts", "--json")
    assert again.rows["private"] is True
    assert "no --licence: the card says 'unknown'" in again.err
    assert kinds_in(repository.files) == {"responses", "vectors", "verdicts"}
    assert "say green" in parquet_text(repository.files)
    assert "Say colour" not in parquet_text(repository.files) + "".join(map(str, repository.files.values()))
    repository.private = False
    refused(push("--private"), "the repository is public")


def test_a_card_that_somebody_edited_is_left_as_it_is(push, hub):
    push("--licence", "mit")
    repository = hub.repositories[REPO]
    assert "left as it is" not in push("--licence", "cc-by-4.0").err
    assert b"cc-by-4.0" in repository.files["README.md"]
    edited = repository.files["README.md"] + b"\nThanks to all.\n"
    repository.commit(repository.files | {"README.md": edited})
    assert "README.md of the repository is not ours: left as it is" in push("--licence", "mit").err
    assert repository.files["README.md"] == edited


def test_a_folder_gets_what_a_repository_gets_and_a_dry_run_nothing(push, hub, tmp_path, monkeypatch):
    options, copy = ("--verdicts", "--licence", "mit"), tmp_path / "copy"
    push(*options)
    repository = {path: each for path, each in hub.repositories[REPO].files.items() if path != ".gitattributes"}
    monkeypatch.setattr(Hub, "__init__", lambda *_: pytest.fail("the hub was asked"))
    assert push(*options, "--dry-run", "--json").rows["files"] == sorted(repository)
    assert push(*options, "--dry-run", repo=copy).out.startswith(f"{copy} (dry run, nothing is written: a folder)")
    assert not copy.exists()
    for _ in range(2):  # again: the same
        assert push(*options, repo=copy).code == 0
        written = contents(copy)
        assert b"harness pool pull OWNER/NAME" in written["README.md"]
        assert written | {"README.md": 0} == repository | {"README.md": 0}
    (copy / "notes.txt").write_text("mine")
    refused(push(*options, repo=copy), "other files (notes.txt)")
    refused(push(*options, "--dry-run", repo="nobody"), "a repository is OWNER/NAME, got 'nobody'")


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


def test_a_repository_holds_one_pool_whole_and_nothing_else(push, toy, hub, repository, pool, tmp_path):
    toy("--selector", "shuffle", "--seed", "1")
    [other] = set(pool_keys(tmp_path / "runs")) - {pool}
    refused(push(key=other), REPO, "holds pool colours-", pool)
    photos = hub.repositories["lab/photos"] = Repository(private=False)
    photos.commit({"cat.png": b"cat"})
    refused(push(repo="lab/photos"), "lab/photos", "files that are no pool")
    before = repository.head
    next(path for path in files_of(tmp_path / "runs", "responses") if pool in str(path)).unlink()
    refused(push(), "holds 1 problems that", "pull")
    assert (repository.head, photos.files) == (before, {"cat.png": b"cat"})


def test_pushes_that_cannot_be_are_one_line(push, hub, monkeypatch, tmp_path):
    refused(push(key="nothing"), "no such key")
    refused(push(repo="stranger/pool"), "may not do that (HTTP 403)")
    refused(push(repo="läb/pool"), "a repository is OWNER/NAME, got 'läb/pool'")
    refused(push("--licence", "My Own\n"), '"license" must be one of mit')
    refused(push("--prompts", ""), "--prompts wants the licence")
    monkeypatch.delenv("HF_TOKEN")
    refused(push(), "no token to write with", "HF_TOKEN")
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    refused(push(), "may not do that (HTTP 401)")
    root = tmp_path / "runs"
    for kind, words in (("verdicts", "no verdicts of it"), ("vectors", "no vectors of it")):
        shutil.rmtree(files_of(root, kind)[0].parent)
        refused(push(f"--{kind}"), words)
    path = files_of(root, "responses")[0]
    path.write_bytes(path.read_bytes()[:-20])
    refused(push(), path.name, "is damaged")
    shutil.rmtree(path.parent)
    refused(push(), "holds no responses yet")
    assert all(set(repository.files) == {".gitattributes"} for repository in hub.repositories.values())


def test_the_problems_of_others_and_paths_of_this_machine_are_not_passed_on_unsaid(push, hub, harness, written):
    pool = written([{"problem_id": "a", "prompt": "Find it.", "responses": ["42"], "correct": [True]}])
    root = pool.with_name("more")
    key = harness("pool", "import", pool, "--store", root, "--json").rows["pool"]
    [path] = root.glob("*/pool.json")
    for task in ("aime24", "math:math500=file", "diversity-harness/math500"):
        path.write_text(json.dumps({"kind": "responses", "task": task, "engine": {"model": "/home/me/secret"}}))
        refused(push("--prompts", "apache-2.0", key=key, root=root), task, "belong to", "MAA", "leave --prompts away")
    assert not hub.repositories
    outcome = push(key=key, root=root)
    assert outcome.code == 0
    assert "the settings and the card say model = /home/me/secret" in outcome.err
    assert "Find it." not in str(hub.repositories[REPO].files) + parquet_text(hub.repositories[REPO].files)


def test_a_push_that_breaks_off_goes_on_and_what_somebody_else_changes_under_it_is_not_overwritten(push, hub):
    hub.stop_after = 2
    refused(push("--vectors", "--verdicts"), "run the same command again to go on")
    repository = hub.repositories[REPO]
    assert set(repository.files) == {".gitattributes"}
    hub.stop_after = None
    hub.requests.clear()
    assert push("--vectors", "--verdicts").code == 0
    assert len([request for request in hub.requests if request.startswith("PUT")]) < 12
    hub.before_commit = lambda: repository.commit(repository.files | {"note.txt": b"wait"})
    refused(push("--licence", "mit"), "somebody else has changed the repository")
    assert repository.files["note.txt"] == b"wait"


@pytest.fixture
def other(tmp_path):
    """The store that is pulled into."""
    return tmp_path / "other"


def test_a_pool_comes_back_as_the_same_bytes_and_a_run_samples_nothing(push, pull, hub, toy, tmp_path, other):
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


@pytest.mark.usefixtures("hub")
def test_scores_names_and_odd_texts_of_no_task_come_back_as_the_same_bytes(harness, pull, push, written, other):
    given = {"problem_id": "1/é |`", "responses": ["", "λ\n\0---"], "correct": [True, False]}
    given |= {"scores": {"rm": [0.25, None]}, "names": ["CHEMBL25", ""]}
    odd = {"problem_id": "../../2", "prompt": "?", "responses": ["\ud800 lone", "b"], "correct": [False] * 2}
    pool, root = written([given, odd]), other.with_name("odd")
    key = harness("pool", "import", pool, "--store", root, "--json").rows["pool"]
    assert push("--verdicts", "--prompts", "mit", key=key[:8], root=root).code == 0
    assert pull().code == 0
    assert of_kind(other, *KINDS) == of_kind(root, *KINDS) != {}
    about = [harness("pool", "inspect", key, "--store", store, "--json").rows for store in (root, other)]
    assert about[0] == about[1]
    assert about[0]["graded"] == 4


def test_a_revision_is_pulled_as_it_was(pull, repository, other):
    whole, whole_commit = repository.files, repository.head
    bare = repository.commit({path: content for path, content in whole.items() if "/verdicts." not in path})
    refused(pull("--revision", "v7"), "no such revision")
    assert pull("--json").rows["commit"] == bare
    assert not of_kind(other, "verdicts.")
    assert pull("--revision", whole_commit).code == 0
    assert of_kind(other, "verdicts.")


def test_a_repository_that_is_absent_private_or_without_a_pool_is_refused(pull, hub, other, monkeypatch):
    refused(pull(), "no such dataset repository")
    repository = hub.repositories[REPO] = Repository(private=False)
    repository.commit({"README.md": b"# Photos"})
    refused_and_nothing_written(pull(), other, REPO, "no pool: the repository has no pool.json")
    repository.private = True
    monkeypatch.setenv("HF_TOKEN", "hf_another")
    refused(pull(), "no such dataset repository, or a private one")


def test_a_hub_out_of_reach_is_one_line(push, pull, hub):
    hub.shutdown()
    hub.server_close()
    for outcome in (push(), pull()):
        refused(outcome, "is out of reach", hub.endpoint)


def test_a_damaged_file_is_refused_other_responses_are_not_mixed_and_what_is_missing_is_filled(pull, repository, other):
    path = first(repository, "responses")
    content = repository.files[path]
    repository.commit(repository.files | {path: content[:99] + bytes([content[99] ^ 1]) + content[100:]})
    refused_and_nothing_written(pull(), other, REPO, "is damaged: it is not what its name says")
    repository.files[path] = content  # of the same commit: what was damaged on its way is fetched again
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
def test_a_pull_that_is_killed_goes_on_where_it_stopped(repository, sampled, pull, hub, other):
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
        assert of_kind(other, kind) == of_kind(sampled, kind)
    assert not list((other / "pull").iterdir())
