"""`harness pool pull`: the same bytes come into the store; what is wrong with a repository is refused in one line."""

import signal
import subprocess

import pytest
from support.hub_repositories import KINDS, first, of_kind, refused, refused_and_nothing_written
from support.hub_server import Repository
from support.paths import TOY
from support.processes import harness_command, wait_for

from harness.columns.stored import StoredPool, stored_pool

# huggingface_hub 2.4.0 hands a large file to its HTTP client in a way that the client calls old.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")

REPO = "lab/colours-pool"


@pytest.fixture
def other(tmp_path):
    """The store that is pulled into."""
    return tmp_path / "other"


def test_a_pool_comes_back_as_the_same_bytes_and_a_run_samples_nothing(
    push, pull, hub, harness, toy, pool, tmp_path, other
):
    assert push("--vectors", "--verdicts", "--prompts", "mit").code == 0
    pulled = pull("--json")
    assert pulled.rows["new"] == pulled.rows["problems"] == 6
    for kind in KINDS:
        assert of_kind(other, kind) == of_kind(tmp_path / "runs", kind) != {}
    shown = [harness("pool", "show", pool, "--store", store, "--full").out for store in (tmp_path / "runs", other)]
    assert shown[0] == shown[1] != ""
    assert not list((other / "pull").iterdir())
    run = toy("--selector", "spread", store=other)
    assert run.rows == toy("--selector", "spread").rows
    for stage in ("pool", "verdicts"):
        assert f"{stage}: reused for 6 of 6 problems" in run.err


def test_verdicts_are_left_to_ones_own_grader_where_asked(pull, repository, toy, other):
    assert pull("--no-verdicts").code == 0
    assert not of_kind(other, "verdicts.")
    assert of_kind(other, "vectors.")
    assert "verdicts: reused" not in toy("--selector", "spread", store=other).err


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


def test_a_folder_that_cannot_be_written_is_one_line(pull, repository, other):
    other.write_text("a file")
    refused(pull(), "cannot write", "another --store")


def test_a_pool_without_problem_texts_is_used_and_its_export_joins_by_ids(
    pull, repository, toy, harness, pool, tmp_path, other
):
    pulled = pull()
    assert pulled.out.startswith(f"pool {pool}: 96 responses to 6 problems, 6 of them new here; responses.colours-")
    assert {each.problem.prompt for each in stored_pool(other, pool).questions.values()} == {""}
    fixed = ("--plugin", TOY, "--store")
    assert harness("pool", "audit", pool, *fixed, other, "--json").rows["problems"] == 6
    run = toy("--selector", "spread", store=other)
    assert "pool: reused for 6 of 6 problems" in run.err
    assert run.rows[0]["samples_to_correct"] == toy("--selector", "spread").rows[0]["samples_to_correct"]
    out = tmp_path / "pool.jsonl"
    assert harness("pool", "export", pool, "--out", out, "--store", other).code == 0
    imported = harness("pool", "import", out, "--task", "colours", *fixed, tmp_path / "third", "--json")
    assert imported.rows["problems"] == 6


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
