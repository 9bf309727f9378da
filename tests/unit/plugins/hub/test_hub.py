"""Pools to the hub and back: over HTTP, through the hub's own client, to a hub on loopback."""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import shutil
import signal
import subprocess
import time
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from support.hub_server import TOKEN, HubServer, Repository
from support.json_lines import write_json_lines
from support.paths import TOY
from support.processes import harness_command, printed_by, wait_for
from support.stores import contents

from harness import Problem, Responses
from harness.store import shards
from harness.store.keys import digest
from harness.store.stage import Store
from harness_plugins.hub import tables as pool_tables

# huggingface_hub 2.4.0 hands a large file to its HTTP client in a way that the client calls old.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")

REPO = "lab/colours-pool"


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """A hub on loopback, to which the client in this process and its children speak, with a token in HF_TOKEN."""
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    with HubServer() as server:
        variables = {"HF_ENDPOINT": server.endpoint, "HF_HOME": str(tmp_path / "home"), "HF_TOKEN": TOKEN}
        for name, value in (variables | {"HF_HUB_DISABLE_XET": "1", "HF_HUB_OFFLINE": "0", "NO_PROXY": "*"}).items():
            monkeypatch.setenv(name, value)
        # The client reads the variables when it is imported, which in this process may have been long ago.
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", server.endpoint)
        template = server.endpoint + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
        yield server
        server.stopped.set()


@pytest.fixture
def pool(toy, tmp_path):
    """A store with a pool of 6 problems, their vectors and verdicts; its key."""
    assert toy("--selector", "spread").code == 0
    [folder] = (tmp_path / "runs" / "pool").iterdir()
    return folder.name


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


def of_kind(root, kind):
    return {name: content for name, content in contents(root).items() if name.startswith(f"{kind}/")}


def refused(outcome, *words):
    """That the command ended with one line that holds these words."""
    assert (outcome.code, outcome.out) == (2, ""), outcome
    [line] = [line for line in outcome.err.splitlines() if line.startswith("error: ")]
    for word in words:
        assert word in line, line
    assert "Traceback" not in outcome.err


def parquet_text(files):
    """All that the parquet files of a repository hold, as text, with their footers."""
    tables = [pq.read_table(pa.BufferReader(content)) for path, content in files.items() if path.endswith(".parquet")]
    return "".join(f"{table.to_pydict()} {table.schema.metadata}" for table in tables)


# There and back.


def test_a_pool_comes_back_as_the_same_bytes_and_a_run_samples_nothing(push, pull, hub, toy, tmp_path):
    assert push("--vectors", "--verdicts", "--prompts", "mit").code == 0
    pulled = pull("--json")
    assert pulled.rows["new"] == pulled.rows["problems"] == 6
    for kind in ("pool", "embedding", "verdict"):
        there = of_kind(tmp_path / "runs", kind)
        assert there
        assert of_kind(tmp_path / "other", kind) == there
    assert not list((tmp_path / "other" / "pull").iterdir())
    run = toy("--selector", "spread", store=tmp_path / "other")
    assert run.rows == toy("--selector", "spread").rows
    for stage in ("pool", "verdicts"):
        assert f"{stage}: reused for 6 of 6 problems" in run.err


def test_problem_texts_stay_at_home_and_the_pool_is_used_without_them(push, pull, hub, toy, pool, harness, tmp_path):
    assert push("--vectors", "--verdicts").code == 0
    files = hub.repositories[REPO].files
    assert "say green" in parquet_text(files)
    assert "Say colour" not in parquet_text(files) + "".join(map(str, files.values()))
    assert pull().code == 0
    run = toy("--selector", "spread", store=tmp_path / "other")
    assert "pool: reused for 6 of 6 problems" in run.err
    assert run.rows[0]["samples_to_correct"] == toy("--selector", "spread").rows[0]["samples_to_correct"]
    for name in (tmp_path / "runs" / "pool" / pool).glob("*.parquet"):
        mine, theirs = name, tmp_path / "other" / "pool" / pool / name.name
        assert shards.read_responses(theirs).texts == shards.read_responses(mine).texts
        assert shards.read_about(theirs) == shards.read_about(mine) | {"prompt": ""}


def test_without_prompts_an_exported_pool_joins_by_its_ids(push, pull, hub, pool, harness, tmp_path):
    push()
    pull()
    out = tmp_path / "pool.jsonl"
    assert harness("pool", "export", pool, "--out", out, "--store", tmp_path / "other").code == 0
    run = (
        "run",
        "--task",
        "colours",
        "--plugin",
        TOY,
        "--pool",
        out,
        "--selector",
        "likely",
        "--store",
        tmp_path / "c",
    )
    assert harness(*run, "--json").rows[0]["problems"] == 6


def test_a_pull_without_verdicts_leaves_them_to_ones_own_grader(push, pull, hub, toy, tmp_path):
    push("--verdicts")
    assert pull("--no-verdicts").code == 0
    assert not of_kind(tmp_path / "other", "verdict")
    assert "verdicts: reused" not in toy("--selector", "spread", store=tmp_path / "other").err


@pytest.mark.parametrize("rows", [1, 40, 1000])
def test_many_files_and_groups_bring_the_same_pool(push, pull, hub, tmp_path, monkeypatch, rows):
    monkeypatch.setattr(pool_tables, "GROUP_ROWS", rows)
    monkeypatch.setattr(pool_tables, "PART_BYTES", 1)
    assert push("--vectors", "--verdicts", "--prompts", "mit").code == 0
    paths = [path for path in hub.repositories[REPO].files if path.startswith("responses/")]
    assert len(paths) == {1: 6, 40: 2, 1000: 1}[rows]
    assert pull().code == 0
    for kind in ("pool", "embedding", "verdict"):
        assert of_kind(tmp_path / "other", kind) == of_kind(tmp_path / "runs", kind)


def test_a_pool_from_a_file_goes_and_comes_with_odd_texts_and_without_tokens(push, pull, hub, harness, tmp_path):
    lines = [
        {
            "problem_id": "1/é |`",
            "prompt": "?",
            "responses": ["", "λ\n\u0000---", "x" * 5000],
            "correct": [True] + [False] * 2,
        },
        {"problem_id": "../../2", "prompt": "?", "responses": ["\ud800 lone", "b", "b"], "correct": [False] * 3},
    ]
    pool = write_json_lines(tmp_path / "odd.jsonl", lines)
    run = ("run", "--pool", pool, "--selector", "uniform", "--store", tmp_path / "odd", "--json")
    assert harness(*run).code == 0
    [key] = [path.name for path in (tmp_path / "odd" / "pool").iterdir()]
    assert push("--verdicts", "--prompts", "mit", key=key[:8], root=tmp_path / "odd").code == 0
    assert pull().code == 0
    there = of_kind(tmp_path / "odd", "pool")
    assert of_kind(tmp_path / "other", "pool").items() == {n: c for n, c in there.items() if "index" not in n}.items()
    assert of_kind(tmp_path / "other", "verdict") == of_kind(tmp_path / "odd", "verdict")
    about = [harness("pool", "inspect", key, "--store", tmp_path / name, "--json").rows for name in ("odd", "other")]
    assert about[0] == about[1]
    assert about[0]["responses"] == about[0]["graded"] == 6


def test_datasets_reads_what_was_pushed(push, hub, tmp_path):
    assert push("--vectors", "--verdicts", "--licence", "cc-by-4.0").code == 0
    configs = yaml.safe_load(hub.repositories[REPO].files["README.md"].decode().split("---")[1])["configs"]
    names = [config["config_name"] for config in configs]
    code = (
        "import datasets, json\n"
        f"first = datasets.load_dataset({REPO!r}, split='pool')\n"
        f"rest = [datasets.load_dataset({REPO!r}, name, split='pool') for name in {names[1:]!r}]\n"
        "print(json.dumps([[len(one), one.column_names, one[17]] for one in (first, *rest)]))"
    )
    responses, vectors, verdicts = json.loads(printed_by(code, timeout=120).splitlines()[-1])
    assert [one[0] for one in (responses, vectors, verdicts)] == [96] * 3
    assert [one[2]["problem_id"] for one in (responses, vectors, verdicts)] == ["test/1"] * 3
    assert responses[2]["index"] == 1
    assert responses[2]["text"].startswith("say ")
    assert len(vectors[2]["vector"]) == 8
    assert verdicts[2]["verdict"] in ("correct", "wrong")


# The card.


def test_the_card_says_what_it_is_how_it_was_made_and_how_to_get_it(push, hub, pool):
    assert push("--licence", "cc-by-4.0").code == 0
    text = hub.repositories[REPO].files["README.md"].decode()
    front = yaml.safe_load(text.split("---")[1])
    assert front["license"] == "cc-by-4.0"
    assert "diversity-harness" in front["tags"]
    assert front["size_categories"] == ["n<1K"]
    assert front["configs"] == [
        {"config_name": "responses", "data_files": [{"split": "pool", "path": "responses/*.parquet"}], "default": True}
    ]
    for said in (f"harness pool pull {REPO}", pool, "96 responses", "6 problems", "| task.name | `colours` |"):
        assert said in text
    for said in ("| engine.model | `parrot` |", "| sampler.temperature | `1.0` |", "| n | `16` |", "| seed | `0` |"):
        assert said in text
    assert "problems' texts are not here" in text


def test_a_card_that_somebody_edited_is_left_as_it_is(push, hub):
    push("--licence", "mit")
    repository = hub.repositories[REPO]
    assert "left as it is" not in push("--licence", "cc-by-4.0").err
    assert b"cc-by-4.0" in repository.files["README.md"]
    edited = repository.files["README.md"] + b"\nThanks to all.\n"
    repository.commit(repository.files | {"README.md": edited})
    for _ in range(2):
        again = push("--verdicts", "--licence", "mit")
        assert again.code == 0
        assert "README.md of the repository is not ours: left as it is" in again.err
        assert repository.files["README.md"] == edited


# Push.


def test_what_is_beside_the_pool_is_added_by_a_later_push_and_kept_by_one_without_it(push, pull, hub, tmp_path):
    for options in ((), ("--verdicts",), ("--vectors",), ()):
        assert push(*options).code == 0
    kinds = {path.split("-")[0].split("/")[0] for path in hub.repositories[REPO].files if path.endswith(".parquet")}
    assert kinds == {"responses", "vectors", "verdicts"}
    assert pull().code == 0
    assert of_kind(tmp_path / "other", "verdict") == of_kind(tmp_path / "runs", "verdict")


def test_files_that_a_later_push_does_not_have_are_deleted(push, pull, hub, monkeypatch):
    with monkeypatch.context() as small:
        small.setattr(pool_tables, "GROUP_ROWS", 1)
        small.setattr(pool_tables, "PART_BYTES", 1)
        push()
    assert len(hub.repositories[REPO].files) == 9
    push()
    assert sorted(hub.repositories[REPO].files) == [
        ".gitattributes",
        "README.md",
        "manifest.json",
        "responses/00000.parquet",
    ]
    assert pull().code == 0


def test_a_repository_holds_one_pool_and_nothing_else(push, toy, hub, pool, tmp_path):
    push()
    toy("--selector", "shuffle", "--seed", "1")
    [other] = [path.name for path in (tmp_path / "runs" / "pool").iterdir() if path.name != pool]
    refused(push(key=other), REPO, f"holds pool {pool}")
    hub.repositories["lab/photos"] = type(hub.repositories[REPO])(private=False)
    hub.repositories["lab/photos"].commit({"cat.png": b"cat"})
    refused(push(repo="lab/photos"), "lab/photos", "files that are no pool")
    assert hub.repositories["lab/photos"].files == {"cat.png": b"cat"}


def test_a_store_with_fewer_problems_does_not_replace_the_pool(push, hub, pool, tmp_path):
    push()
    before = hub.repositories[REPO].head
    sorted((tmp_path / "runs" / "pool" / pool).glob("*.parquet"))[0].unlink()
    refused(push(), "holds 1 problems that", "pull")
    assert hub.repositories[REPO].head == before


def test_private_is_private_and_never_public_by_mistake(push, pull, hub, monkeypatch):
    made = push("--private", "--json")
    assert made.rows["private"] is True
    assert hub.repositories[REPO].private
    assert push("--json").rows["private"] is True
    monkeypatch.setenv("HF_TOKEN", "hf_another")
    refused(pull(), "no such dataset repository, or a private one")
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert pull().code == 0
    hub.repositories[REPO].private = False
    refused(push("--private"), "the repository is public")


def test_pushes_that_cannot_be_are_one_line(push, hub, pool, monkeypatch):
    refused(push(key="nothing"), "no such key")
    refused(push(repo="colours"), "OWNER/NAME", "'colours'")
    refused(push(repo="a/b/../c"), "OWNER/NAME")
    refused(push(repo="lab/a..b"), "no name that the hub takes")
    refused(push(repo="stranger/pool"), "may not do that (HTTP 403)")
    refused(push("--licence", "My Own\n"), "--licence is an id of the hub")
    refused(push("--licence", "gplish"), "license")
    refused(push("--prompts", ""), "--prompts wants the licence")
    monkeypatch.delenv("HF_TOKEN")
    refused(push(), "no token to write with", "HF_TOKEN")
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    refused(push(), "may not do that (HTTP 401)")
    assert all(set(one.files) == {".gitattributes"} for one in hub.repositories.values())


def test_a_hub_out_of_reach_is_one_line(push, pull, hub, monkeypatch):
    hub.shutdown()
    hub.server_close()
    for outcome in (push(), pull()):
        refused(outcome, "is out of reach", hub.endpoint)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    refused(pull(), "is out of reach")


def test_a_push_asks_for_what_the_store_does_not_have(toy, push, hub, tmp_path):
    shutil.rmtree(tmp_path / "runs" / "verdict")
    refused(push("--verdicts"), "no verdicts of it")
    shutil.rmtree(tmp_path / "runs" / "embedding")
    refused(push("--vectors"), "no embeddings of it")
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


def test_a_pool_with_unanswered_requests_is_not_pushed(push, hub, pool, tmp_path):
    shard = next((tmp_path / "runs" / "pool" / pool).glob("*.parquet"))
    shard.with_name(f"{shard.stem}.unanswered.json").write_text('{"3": "HTTP 500"}')
    refused(push(), "requests of 1 problems stayed unanswered")


@pytest.mark.parametrize("task", ["aime24", "aime25", "math", "math:math500=file", "diversity-harness/math500"])
def test_the_problems_of_aime_and_math_are_not_pushed(push, hub, task, tmp_path):
    inputs = {"task": {"name": task, "revision": "1"}, "n": 1}
    stage = Store(tmp_path / "runs").stage("pool", inputs, ".parquet")
    stage.begin()
    responses = Responses(["42"], ["stop"], np.array([1]), np.array([0.0]))
    shards.write_responses(
        stage.path(Problem("2024-I-1", "Find it.", "42")), Problem("2024-I-1", "Find it.", "42"), responses
    )
    refused(push("--prompts", "apache-2.0", key=stage.key), task, "belong to", "MAA", "leave --prompts away")
    assert push(key=stage.key).code == 0
    assert "Find it." not in str(hub.repositories[REPO].files) + parquet_text(hub.repositories[REPO].files)


def test_a_path_in_the_settings_is_pointed_out_before_it_is_public(push, hub, harness, tmp_path, toy):
    toy("--selector", "shuffle", "--model", "/home/me/secret-model")
    manifests = list((tmp_path / "runs" / "pool").glob("*/manifest.json"))
    [key] = [path.parent.name for path in manifests if "secret-model" in path.read_text()]
    assert "say engine.model = /home/me/secret-model" in push(key=key).err


def test_the_token_is_written_nowhere(push, pull, hub, tmp_path):
    outcomes = [push("--vectors", "--verdicts", "--prompts", "mit"), pull()]
    assert all(TOKEN not in outcome.out + outcome.err for outcome in outcomes)
    everything = [*contents(tmp_path).values(), *hub.repositories[REPO].files.values(), *hub.bodies]
    assert len(everything) > 20
    assert not [content for content in everything if TOKEN.encode() in content]


def test_a_push_that_breaks_off_leaves_the_repository_as_it_was_and_goes_on(push, pull, hub, tmp_path):
    hub.stop_after = 2
    refused(push("--vectors", "--verdicts"), "run the same command again to go on")
    assert set(hub.repositories[REPO].files) == {".gitattributes"}
    assert not list((tmp_path / "runs" / "push").iterdir())
    hub.stop_after = None
    hub.asked.clear()
    assert push("--vectors", "--verdicts").code == 0
    assert len([asked for asked in hub.asked if asked.startswith("PUT")]) == 1
    assert pull().code == 0


def test_a_repository_that_changes_under_a_push_is_not_overwritten(push, hub):
    push()
    repository = hub.repositories[REPO]
    hub.before_commit = lambda: repository.commit(repository.files | {"note.txt": b"wait"})
    refused(push("--licence", "mit"), "somebody else has changed the repository")
    assert repository.files["note.txt"] == b"wait"


# Pull: what is wrong with a repository is one line, and nothing of it comes into the store.


def rewritten(repository, change):
    """Put a manifest of valid hash in place of the one that is there, changed by hand."""
    value = json.loads(repository.files["manifest.json"])
    del value["sha256"]
    change(value)
    value["sha256"] = digest(value, 64)
    repository.commit(repository.files | {"manifest.json": json.dumps(value).encode()})


def refused_and_nothing_written(outcome, root, *words):
    refused(outcome, REPO, *words)
    assert not [name for kind in ("pool", "embedding", "verdict") for name in of_kind(root, kind)]


def test_a_repository_without_a_pool_is_refused(pull, hub, tmp_path):
    refused(pull(), "no such dataset repository")
    hub.repositories[REPO] = Repository(private=False)
    hub.repositories[REPO].commit({"README.md": b"# Photos"})
    refused_and_nothing_written(pull(), tmp_path / "other", "no pool")
    for content in (b"[]", b"{}", b"\xff", b"[" * 100_000, b'{"format": "photos"}'):
        hub.repositories[REPO].commit({"manifest.json": content})
        refused_and_nothing_written(pull(), tmp_path / "other", "manifest.json is not that of a pool")


def test_a_revision_is_pulled_as_it_was(push, pull, hub, tmp_path):
    push()
    first = hub.repositories[REPO].head
    push("--verdicts")
    refused(pull("--revision", "v7"), "no such revision")
    assert pull("--revision", first, "--json").rows["commit"] == first
    assert not of_kind(tmp_path / "other", "verdict")
    assert pull().code == 0
    assert of_kind(tmp_path / "other", "verdict")


def test_a_newer_schema_asks_for_an_upgrade(push, pull, hub, tmp_path):
    push()
    rewritten(hub.repositories[REPO], lambda value: value.update(schema=2, harness="9.9", stages="unknown here"))
    refused_and_nothing_written(
        pull(), tmp_path / "other", "newer harness (9.9, schema 2; this one reads 1)", "upgrade"
    )


def test_every_byte_of_the_manifest_counts(push, pull, hub, tmp_path):
    push("--verdicts")
    repository = hub.repositories[REPO]
    whole = repository.files["manifest.json"]
    for at in np.random.default_rng(0).choice(len(whole), 30, replace=False):
        changed = whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
        if json.loads(whole) == _loaded(changed):
            continue  # a blank
        repository.commit(repository.files | {"manifest.json": changed})
        refused_and_nothing_written(pull(), tmp_path / "other", "manifest.json")


def _loaded(content):
    try:
        return json.loads(content)
    except ValueError:
        return None


BY_HAND = [
    (lambda v: v["stages"][0]["files"][0].update(path="../../../../etc/passwd"), "must be responses/00000.parquet"),
    (lambda v: v["stages"][0]["files"][0].update(path="/etc/passwd"), "must be responses/00000.parquet"),
    (lambda v: v["stages"][0]["files"][0].update(sha256="../" + "a" * 61), "no SHA-256"),
    (lambda v: v["stages"][0]["files"][0].update(size=-1), "bytes"),
    (lambda v: v["stages"][0]["files"][0].update(mode="exec"), "malformed"),
    (lambda v: v["stages"][0].update(key="../../../evil"), "not their key's"),
    (lambda v: v["stages"][0]["inputs"].update(n=17), "not their key's"),
    (lambda v: v["stages"][0].update(kind="cells"), "malformed"),
    (lambda v: v["stages"][0].update(shards=[]), "empty"),
    (lambda v: v["stages"][0]["shards"][0].__setitem__(1, "/../../../x"), "12 hex digits"),
    (lambda v: v["stages"][0]["shards"][0].__setitem__(2, True), "has True responses"),
    (lambda v: v["stages"][0]["shards"][0].__setitem__(0, 7), "id must be text"),
    (lambda v: v["stages"][0]["shards"].append(v["stages"][0]["shards"][0]), "a problem twice"),
    (lambda v: v["stages"][0]["shards"][0].append(1), "malformed"),
    (
        lambda v: (v["stages"].pop(), v["stages"][0]["shards"][0].__setitem__(2, 15)),
        "rows of problem 'test/1' are not the 16",
    ),
    (lambda v: (v["stages"].pop(), v["stages"][0]["shards"].pop()), "more problems than the manifest says"),
    (lambda v: v["stages"][0]["shards"].append(["test/9", "0" * 12, 16]), "end before problem 'test/9'"),
    (lambda v: v["stages"].pop(0), "one pool is wanted"),
    (lambda v: v["stages"].append(v["stages"][1]), "there twice"),
    (lambda v: v.update(key="0" * 20), "two keys"),
    (lambda v: v["stages"][1]["shards"][0].__setitem__(1, "0" * 12), "problems that the pool has not"),
    (lambda v: v["stages"][1]["shards"][0].__setitem__(2, 15), "has 15 rows for the 16 responses to problem 'test/"),
    (lambda v: v["stages"][1]["shards"][0].__setitem__(2, 17), "has 17 rows for the 16 responses to problem 'test/"),
    (lambda v: v["stages"][0]["shards"].append(["test/1", "0" * 12, 16]), "a problem's id twice"),
    (lambda v: v.update(prompts="mit"), "has other columns"),
    (lambda v: v.update(prompts=["mit"]), "malformed"),
    (lambda v: v.pop("stages"), "malformed"),
]


def test_responses_to_what_is_no_problem_of_an_installed_task_are_refused(harness, toy, push, pull, hub, tmp_path):
    args = ("--task", "game24", "--engine", "toy", "--plugin", TOY, "--selector", "shuffle", "--limit", 2, "--n", 2)
    assert harness("run", *args, "--store", tmp_path / "puzzles").code == 0
    [folder] = (tmp_path / "puzzles" / "pool").iterdir()
    assert push(key=folder.name, root=tmp_path / "puzzles").code == 0
    assert pull().code == 0
    shutil.rmtree(tmp_path / "other")

    def invented(value):
        value["stages"][0]["shards"][1][1] = "0123456789ab"

    rewritten(hub.repositories[REPO], invented)
    words = "responses to 1 problems that task 'game24' of the same revision does not have, first '"
    refused_and_nothing_written(pull(), tmp_path / "other", words)


def test_a_manifest_made_by_hand_is_refused(push, pull, hub, tmp_path):
    push("--verdicts")
    repository = hub.repositories[REPO]
    honest = repository.files
    for change, words in BY_HAND:
        repository.commit(honest)
        rewritten(repository, change)
        refused_and_nothing_written(pull(), tmp_path / "other", words)
    assert not list(tmp_path.parent.glob("**/evil*"))


@pytest.mark.parametrize("says_hashes", [True, False])
@pytest.mark.parametrize("damage", ["flipped", "short", "gone", "link", "empty"])
def test_a_damaged_or_missing_file_is_refused(push, pull, hub, tmp_path, damage, says_hashes):
    push("--verdicts")
    hub.says_hashes = says_hashes
    repository = hub.repositories[REPO]
    files = dict(repository.files)
    content = files.pop("responses/00000.parquet")
    new = {
        "flipped": content[:99] + bytes([content[99] ^ 1]) + content[100:],
        "short": content[:-1],
        "gone": None,
        "link": b"../../../../../etc/passwd",
        "empty": b"",
    }[damage]
    repository.commit(files | ({} if new is None else {"responses/00000.parquet": new}))
    words = {"gone": "half of a pool: 1 of its 2 files are missing"}.get(damage, "responses/00000.parquet is")
    refused_and_nothing_written(pull(), tmp_path / "other", words)
    repository.commit(files | {"responses/00000.parquet": content})
    assert pull().code == 0


def test_a_file_damaged_on_its_way_is_fetched_again_by_the_next_pull(push, pull, hub, tmp_path):
    push()
    repository = hub.repositories[REPO]
    content = repository.files["responses/00000.parquet"]
    hub.says_hashes = False
    repository.files["responses/00000.parquet"] = bytes(len(content))
    refused_and_nothing_written(pull(), tmp_path / "other", "does not have the manifest's SHA-256")
    repository.files["responses/00000.parquet"] = content
    assert pull().code == 0


def forged(repository, folder, change):
    """Put another table in place of the one of a stage, with the manifest's blessing."""
    [path] = [path for path in repository.files if path.startswith(folder)]
    sink = pa.BufferOutputStream()
    table = change(pq.read_table(pa.BufferReader(repository.files[path])))
    pq.write_table(table, sink, compression="zstd", store_schema=False)  # as any other writer's file
    content = sink.getvalue().to_pybytes()

    def bless(value):
        [file] = [file for stage in value["stages"] for file in stage["files"] if file["path"] == path]
        file.update(size=len(content), sha256=hashlib.sha256(content).hexdigest())

    repository.commit(repository.files | {path: content})
    rewritten(repository, bless)


def with_column(name, values):
    def change(table):
        at = table.schema.get_field_index(name)
        column = pa.array(values(table[name].to_pylist()), table.schema.field(name).type)
        return table.set_column(at, table.schema.field(name), column)

    return change


NO_POOLS = [
    ("responses", with_column("problem_id", lambda v: ["test/0"] * len(v)), "rows of problem 'test/1'"),
    ("responses", with_column("index", lambda v: v[::-1]), "rows of problem 'test/0'"),
    ("responses", with_column("text", lambda v: [None, *v[1:]]), "a row without text"),
    ("responses", with_column("finish", lambda v: ["\u001b[2J", *v[1:]]), "finish must be one of"),
    ("responses", with_column("token_ids", lambda v: [[None], *v[1:]]), "a token id is missing"),
    ("responses", with_column("token_ids", lambda v: [[-1, 0, 0], *v[1:]]), "a token id is -1"),
    ("responses", with_column("token_ids", lambda v: [None, *v[1:]]), "1 of its 16 responses have no token ids"),
    (
        "responses",
        with_column("token_ids", lambda v: [*v[:2], [1, 2], *v[3:]]),
        "response 2 is 3 tokens long and has 2",
    ),
    ("responses", with_column("length", lambda v: [-3, *v[1:]]), "a response is -3 tokens long"),
    ("responses", with_column("length", lambda v: [*v[:1], 4, *v[2:]]), "response 1 is 4 tokens long and has 3"),
    ("responses", with_column("logprob", lambda v: [-math.inf, *v[1:]]), "a log-probability is -inf"),
    ("responses", with_column("logprob", lambda v: [math.inf, *v[1:]]), "a log-probability is inf"),
    ("vectors", with_column("vector", lambda v: [[math.nan] * len(v[0]), *v[1:]]), "hold NaN or infinity"),
    ("vectors", with_column("vector", lambda v: [[math.inf] * len(v[0]), *v[1:]]), "hold NaN or infinity"),
    ("responses", lambda table: table.slice(0, 90), "rows of problem 'test/5'"),
    ("responses", lambda table: table.drop_columns(["logprob"]), "has other columns"),
    ("responses", lambda table: table.append_column("__class__", [["x"] * len(table)]), "has other columns"),
    ("verdicts", with_column("verdict", lambda v: ["correct!", *v[1:]]), "verdict must be one of"),
    ("verdicts", with_column("conditions", lambda v: ["[" * 99_999, *v[1:]]), "conditions"),
    ("vectors", with_column("vector", lambda v: [[1.0], *v[1:]]), "not equally wide"),
]


def test_a_table_that_is_no_pools_is_refused(push, pull, hub, tmp_path):
    push("--vectors", "--verdicts")
    repository = hub.repositories[REPO]
    honest = repository.files
    for folder, change, words in NO_POOLS:
        repository.commit(honest)
        forged(repository, folder, change)
        refused_and_nothing_written(pull(), tmp_path / "other", folder, words)


def test_a_file_that_is_no_parquet_is_refused(push, pull, hub, tmp_path):
    push()
    repository = hub.repositories[REPO]
    content = b"PAR1" + os.urandom(500) + b"PAR1"
    repository.commit(repository.files | {"responses/00000.parquet": content})
    shown = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    rewritten(repository, lambda value: value["stages"][0]["files"][0].update(shown))
    refused_and_nothing_written(pull(), tmp_path / "other", "no table of a pool")


def test_a_small_file_that_would_unpack_to_gigabytes_is_refused(push, pull, hub, tmp_path):
    push()
    text = "x" * (64 << 20)

    def bomb(table):
        column = pa.DictionaryArray.from_arrays(pa.array([0] * len(table), pa.int32()), pa.array([text]))
        return table.set_column(2, "text", column)

    forged(hub.repositories[REPO], "responses", bomb)
    [size] = [len(content) for path, content in hub.repositories[REPO].files.items() if path.endswith(".parquet")]
    assert size < 1 << 16
    refused_and_nothing_written(pull(), tmp_path / "other", "responses/00000.parquet", "unpacks to more than 4 GiB")


def test_a_pool_larger_than_the_disk_is_refused_before_it_is_fetched(push, pull, hub, tmp_path):
    push()
    hub.says_hashes = False
    hub.claimed_sizes["responses/00000.parquet"] = 1 << 60
    rewritten(hub.repositories[REPO], lambda value: value["stages"][0]["files"][0].update(size=1 << 60))
    hub.asked.clear()
    refused_and_nothing_written(pull(), tmp_path / "other", "GB free", "another --store")
    hub.claimed_sizes["manifest.json"] = 1 << 40
    refused_and_nothing_written(pull(), tmp_path / "other", "too many to be one")
    assert not [asked for asked in hub.asked if "resolve" in asked and "parquet" in asked]


def test_other_responses_under_the_same_key_are_not_mixed(push, pull, hub, pool, tmp_path):
    push()
    assert pull().code == 0
    path = sorted((tmp_path / "other" / "pool" / pool).glob("*.parquet"))[0]
    responses = shards.read_responses(path)
    shards.write_responses(path, Problem("test/0", ""), replace(responses, texts=["say nothing", *responses.texts[1:]]))
    before = contents(tmp_path / "other" / "pool")
    refused(pull(), "has other responses to problem 'test/0'", "another --store")
    assert contents(tmp_path / "other" / "pool") == before


# Killed.


def test_a_pull_that_is_killed_goes_on_where_it_stopped(push, pull, hub, tmp_path, monkeypatch):
    monkeypatch.setattr(pool_tables, "GROUP_ROWS", 1)
    monkeypatch.setattr(pool_tables, "PART_BYTES", 1)
    push("--vectors", "--verdicts", "--prompts", "mit")
    hub.stop_after = 7  # of 18 files
    command = harness_command("pool", "pull", REPO, "--store", tmp_path / "other")
    child = subprocess.Popen(command, stderr=subprocess.PIPE)
    wait_for(lambda: hub.stop_after < 0, 60, "the hub has given seven files")
    time.sleep(0.2)  # half of a file is there
    child.send_signal(signal.SIGKILL)
    child.communicate()
    fetched = {path.name for path in (tmp_path / "other" / "pull").rglob("*.parquet")}
    assert fetched
    assert not of_kind(tmp_path / "other", "pool")
    hub.stop_after = None
    hub.asked.clear()
    assert pull().code == 0
    assert len([asked for asked in hub.asked if asked.startswith("GET /datasets") and "parquet" in asked]) == 18 - 7
    for kind in ("pool", "embedding", "verdict"):
        assert of_kind(tmp_path / "other", kind) == of_kind(tmp_path / "runs", kind)
    assert not list((tmp_path / "other" / "pull").iterdir())


def test_a_pull_killed_while_writing_writes_only_what_is_missing(push, pull, hub, pool, tmp_path):
    push("--prompts", "mit")
    assert pull().code == 0
    folder = tmp_path / "other" / "pool" / pool
    kept, *gone = sorted(folder.glob("*.parquet"))
    for path in gone:
        path.unlink()
    (folder / f".{platform.node()}-999999999.x.parquet.tmp").write_bytes(b"half")
    stamp = kept.stat().st_mtime_ns
    assert pull("--json").rows["new"] == 5
    assert kept.stat().st_mtime_ns == stamp
    assert of_kind(tmp_path / "other", "pool") == of_kind(tmp_path / "runs", "pool")


def test_a_folder_that_cannot_be_written_is_one_line(push, pull, hub, tmp_path):
    push()
    (tmp_path / "other").write_text("a file")
    refused(pull(), "cannot write", "another --store")
