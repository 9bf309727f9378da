"""The hub, which runs on loopback here: the pinned commit, what is kept of it, and a hub that is out of reach."""

import os
import socket
from dataclasses import replace

import pytest
from support.hub_server import HubServer, Repository
from support.refusals import refusal_of
from support.task_files import DEBT, HUBS, clone_of_gsm8k, jsonl, of_math, references

from harness_tasks import gsm8k
from harness_tasks.competition_math import Math
from harness_tasks.gsm8k import Gsm8k

NOBODY = "http://127.0.0.1:9"  # nobody listens there
OTHER = "1" * 40


@pytest.fixture
def endpoint(tmp_path, monkeypatch):
    """Set the hub's address: on a machine that has fetched nothing, with no proxy before the hub."""
    from huggingface_hub import HfFileSystem

    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "datasets")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    for library in ("datasets.config", "huggingface_hub.constants"):
        monkeypatch.setattr(f"{library}.HF_HUB_OFFLINE", False)
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)

    def use(address):
        HfFileSystem.clear_instance_cache()  # each keeps the address it began with
        monkeypatch.setattr("datasets.config.HF_ENDPOINT", address)
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
        template = address + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)

    yield use
    HfFileSystem.clear_instance_cache()


@pytest.fixture
def hub(endpoint):
    """A hub with datasets: `hub.repositories`, and `hub.requests` for what was asked of it."""
    with HubServer() as server:
        endpoint(server.endpoint)
        yield server


def test_the_rows_are_those_of_the_pinned_commit_and_are_kept_and_no_others_are_taken_for_them(
    hub, endpoint, tmp_path, monkeypatch
):
    def files_of(folder):
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    def pinned(commit):
        monkeypatch.setattr(gsm8k, "HUB", replace(gsm8k.HUB, revision=commit))

    commit = gsm8k.HUB.revision
    commits = {commit: files_of(clone_of_gsm8k(tmp_path / "a"))}
    commits[OTHER] = files_of(clone_of_gsm8k(tmp_path / "b", [DEBT]))
    hub.repositories["openai/gsm8k"] = Repository(private=False, commits=commits)
    assert references(Gsm8k().problems("test")) == ["5", "15000", "-3"]
    of_dataset = [request for request in hub.requests if "openai/gsm8k" in request]
    assert of_dataset
    assert all(commit in request for request in of_dataset)

    hub.requests.clear()
    assert references(Gsm8k().problems("test")) == ["5", "15000", "-3"]
    assert hub.requests == []  # a commit does not change: what is here is not asked for again

    pinned(OTHER)
    assert references(Gsm8k().problems("test")) == ["-3"]
    endpoint(NOBODY)
    assert references(Gsm8k().problems("test")) == ["-3"]
    pinned(commit)
    assert references(Gsm8k().problems("test")) == ["5", "15000", "-3"]
    pinned("2" * 40)
    line = refusal_of(Gsm8k().problems, "test")
    assert line.startswith(f"gsm8k: dataset openai/gsm8k (revision {'2' * 40}) is not on this machine, and the hub can")
    endpoint(hub.endpoint)
    line = refusal_of(Gsm8k().problems, "test")
    assert f"(revision {'2' * 40}) is not on this machine, and the hub did not give it (" in line
    assert line.endswith(f"give {gsm8k.HUB.instead}")
    hub.repositories = None  # each request fails; then `datasets` takes any commit that it has
    assert "is cached, but is another)" in refusal_of(Gsm8k().problems, "test")


def test_without_the_hub_the_line_names_dataset_revision_and_file(endpoint, tmp_path):
    endpoint(NOBODY)
    out_of_reach = "is not on this machine, and the hub cannot be reached from here: give"
    for task, hub in HUBS.items():
        line = refusal_of(task().problems, task().default_split("")[0])
        assert line == f"{hub.task}: dataset {hub.repo} (revision {hub.revision}) {out_of_reach} {hub.instead}"
    line = refusal_of(Math(jsonl(tmp_path / "f.jsonl", [of_math(1)])).problems, "dev")
    assert line.startswith("math: dataset HuggingFaceH4/MATH-500 (revision 6e4ed1a2a79af7d8630a6b768ec859cb5af4d3be)")
    assert line.endswith("give --task math:math500=FILE, the dataset's test.jsonl")


def test_a_hub_that_does_not_answer_a_name_without_a_server_and_a_switch_are_out_of_reach(hub, endpoint, monkeypatch):
    monkeypatch.setattr("harness.system.extras.HUB_ANSWER_S", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for address in (f"http://127.0.0.1:{silent.getsockname()[1]}", "https://hub.invalid"):
            endpoint(address)
            assert "the hub cannot be reached from here" in refusal_of(Gsm8k().problems, "test")
    endpoint(hub.endpoint)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert "the hub cannot be reached from here" in refusal_of(Gsm8k().problems, "test")
    assert hub.requests == []
