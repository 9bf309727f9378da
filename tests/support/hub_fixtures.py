"""A hub on loopback, a store with a pool, the repository that a push of it makes; how both are changed and refused."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import warnings
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.cli import main
from harness.columns.store import filed
from harness.columns.stored import pool_keys
from support.hub_server import TOKEN, HubServer, Repository
from support.paths import TOY
from support.stores import contents

REPO = "lab/colours-pool"
KINDS = ("responses.", "vectors.", "verdicts.")


def command(*args):
    """Run a command in this process; it must succeed."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of the hub's client, see test_hub
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
        variables = {"HF_ENDPOINT": server.endpoint, "HF_HOME": str(home), "HF_TOKEN": TOKEN, "NO_PROXY": "*"}
        for name, value in (variables | {"HF_HUB_DISABLE_XET": "1", "HF_HUB_OFFLINE": "0"}).items():
            patch.setenv(name, value)
        # The client reads the variables when it is imported, which in this process may have been long ago.
        template = server.endpoint + "/{repo_id}/resolve/{revision}/{filename}"
        constants = {"ENDPOINT": server.endpoint, "HUGGINGFACE_CO_URL_TEMPLATE": template}
        constants |= {"HF_HUB_CACHE": str(home / "hub"), "HF_HUB_DISABLE_XET": True, "HF_HUB_OFFLINE": False}
        for name, value in constants.items():
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
    return lambda *args: harness("pool", "pull", REPO, "--store", tmp_path / "other", *args)


def of_kind(root, *kinds):
    """The files of a store's columns of these kinds, by path, but for what is fetched; of no store none."""
    paths = ((name, name.split("/")) for name in contents(root))
    kept = {name for name, parts in paths if len(parts) == 3 and parts[1].startswith(kinds)}
    return {name: content for name, content in contents(root).items() if name in kept}


def refused(outcome, *words):
    """AssertionError unless the command ended with one line that holds these words."""
    assert (outcome.code, outcome.out) == (2, ""), outcome
    [line] = [line for line in outcome.err.splitlines() if line.startswith("error: ")]
    assert [word for word in words if word not in line] == [], line
    assert "Traceback" not in outcome.err


def refused_and_nothing_written(outcome, root, *words):
    """... and that nothing came into the store at `root`."""
    refused(outcome, *words)
    assert not of_kind(root, *KINDS)


def first(repository, kind):
    """The path of the first problem's rows of a kind."""
    names = [path for path in sorted(repository.files) if f"/{kind}." in path and "column.json" not in path]
    return next(path for path in names if path.rpartition("/")[2].startswith("test_0."))


def put_rows(repository, kind, change):
    """Put `change` of the first problem's rows in their place, under the name that their hash gives them."""
    path = first(repository, kind)
    rows = change(pq.read_table(pa.BufferReader(repository.files[path])) if path.endswith("parquet") else None)
    changed, parts = filed(Path(path).parent, ".".join(Path(path).name.split(".")[:2]), rows)
    files = {other: content for other, content in repository.files.items() if other != path}
    repository.commit(files | {changed.as_posix(): b"".join(map(bytes, parts))})


def parquet_text(files):
    """All that the parquet files of a repository hold, as text, with their footers."""
    tables = [pq.read_table(pa.BufferReader(content)) for path, content in files.items() if path.endswith(".parquet")]
    return "".join(f"{table.to_pydict()} {table.schema.metadata}" for table in tables)
