"""Fixtures: a hub on loopback, a store with a pool, and the repository that a push of it makes."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import warnings

import pytest

from harness.cli import main
from harness.columns.stored import pool_keys
from support.hub_server import TOKEN, HubServer, Repository
from support.paths import TOY

REPO = "lab/colours-pool"


def command(*args):
    """Run a command in this process; it must succeed."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of the hub's client, see test_push
        patch.setattr(sys, "argv", ["harness", *map(str, args)])
        with pytest.raises(SystemExit) as stop:
            main()
    assert not stop.value.code, args


@contextlib.contextmanager
def hub_on_loopback(home):
    """A hub to which the client in this process and its children speak, with a token in HF_TOKEN."""
    with HubServer() as server, pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
            patch.delenv(name)
        variables = {"HF_ENDPOINT": server.endpoint, "HF_HOME": str(home), "HF_TOKEN": TOKEN}
        for name, value in (variables | {"HF_HUB_DISABLE_XET": "1", "HF_HUB_OFFLINE": "0", "NO_PROXY": "*"}).items():
            patch.setenv(name, value)
        # The client reads the variables when it is imported, which in this process may have been long ago.
        template = server.endpoint + "/{repo_id}/resolve/{revision}/{filename}"
        for name, value in (
            ("ENDPOINT", server.endpoint),
            ("HUGGINGFACE_CO_URL_TEMPLATE", template),
            ("HF_HUB_CACHE", str(home / "hub")),
            ("HF_HUB_DISABLE_XET", True),
            ("HF_HUB_OFFLINE", False),
        ):
            patch.setattr(f"huggingface_hub.constants.{name}", value)
        yield server
        server.stopped.set()


@pytest.fixture
def hub(tmp_path):
    with hub_on_loopback(tmp_path / "home") as server:
        yield server


@pytest.fixture(scope="session")
def sampled(tmp_path_factory):
    """A store with a pool of 6 problems, 16 responses each, their vectors and verdicts: for tests to copy."""
    store = tmp_path_factory.mktemp("sampled") / "runs"
    fixed = ("--task", "colours", "--engine", "toy", "--plugin", TOY, "--selector", "spread", "--json")
    command("run", *fixed, "--store", store)
    return store


@pytest.fixture
def pool(sampled, tmp_path):
    """The key of the pool of which the test has a copy in its store `runs`."""
    shutil.copytree(sampled, tmp_path / "runs")
    [key] = pool_keys(tmp_path / "runs")
    return key


@pytest.fixture(scope="session")
def pushed(sampled, tmp_path_factory):
    """The files of a repository with that pool, its vectors and verdicts, without prompts."""
    [key] = pool_keys(sampled)
    with hub_on_loopback(tmp_path_factory.mktemp("home")) as server:
        command("pool", "push", key, REPO, "--store", sampled, "--vectors", "--verdicts")
        return dict(server.repositories[REPO].files)


@pytest.fixture
def repository(hub, pushed):
    """The repository REPO of the hub, with these files."""
    hub.repositories[REPO] = Repository(private=False)
    hub.repositories[REPO].commit(dict(pushed))
    return hub.repositories[REPO]


@pytest.fixture
def push(harness, pool, tmp_path):
    def call(*args, key=pool, repo=REPO, root=tmp_path / "runs"):
        return harness("pool", "push", key, repo, "--store", root, *args)

    return call


@pytest.fixture
def pull(harness, tmp_path):
    def call(*args, repo=REPO, root=tmp_path / "other"):
        return harness("pool", "pull", repo, "--store", root, *args)

    return call
