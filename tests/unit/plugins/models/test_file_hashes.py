"""A model's folder is known by every byte of it, each read once."""

from __future__ import annotations

import json
import os
import shutil
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from harness_plugins.models import file_hashes
from harness_plugins.models.checkpoint import Checkpoint
from harness_plugins.models.file_hashes import cache_file
from harness_plugins.models.file_hashes import file_hashes as hashes_of
from harness_plugins.models.model_location import content_hash, locate
from harness_plugins.models.tiny24 import folder as embedded
from harness_plugins.proteins.published import folder_hash

BIG = 70 * 2**20  # bytes


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(file_hashes, "SETTLED_NS", -(10**18))  # a file may be known at once
    return tmp_path / "cache" / "diversity-harness" / "file-hashes.json"


@pytest.fixture
def reads(monkeypatch):
    """The names of the files that are read."""
    names = []
    digest = file_hashes._Reader.digest
    monkeypatch.setattr(file_hashes._Reader, "digest", lambda self, path: names.append(path.name) or digest(self, path))
    return names


def big(path, middle=b"\0"):
    """A sparse file of 70 MB with something in its middle."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(BIG)
        file.seek(BIG // 2)
        file.write(middle)
    return path


def model(folder, middle=b"\0"):
    shutil.copytree(embedded("tiny24"), folder)
    big(folder / "model-00002-of-00002.safetensors", middle)
    return folder


def revision(folder):
    return Checkpoint(locate(str(folder)), "cpu", "auto", None).revision


def test_folders_of_one_name_that_differ_in_a_files_middle_are_two_models(tmp_path):
    first, same = model(tmp_path / "a" / "merged"), model(tmp_path / "b" / "merged")
    other = model(tmp_path / "c" / "merged", b"\1")
    assert revision(first) == revision(same) != revision(other)


def test_the_embedded_models_keep_their_keys():
    assert content_hash(embedded("tiny24")) == "702746cdc55d3119"


def test_a_large_file_is_read_once_and_a_changed_one_again(tmp_path, reads):
    path = big(tmp_path / "weights.bin")
    first = hashes_of([path], "model")
    assert hashes_of([path], "model") == first
    assert reads == ["weights.bin"]
    before = path.stat()
    with path.open("r+b") as file:
        file.seek(BIG // 2)
        file.write(b"\2")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # set back by whoever edited it
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert hashes_of([path], "model") != first
    assert reads == ["weights.bin"] * 2


def test_a_file_that_has_just_changed_is_not_remembered(tmp_path, monkeypatch, reads):
    monkeypatch.setattr(file_hashes, "SETTLED_NS", 10**18)
    path = big(tmp_path / "weights.bin")
    hashes_of([path], "model")
    hashes_of([path], "model")
    assert len(reads) == 2


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"1:2": 5}', b"\xff", b"[" * 100_000])
def test_a_broken_cache_is_made_anew(tmp_path, cache, content, reads):
    path = big(tmp_path / "weights.bin")
    cache.parent.mkdir(parents=True)
    cache.write_bytes(content)
    assert hashes_of([path], "model") == hashes_of([path], "model")
    assert len(reads) == 1
    assert list(json.loads(cache.read_text()).values()) == hashes_of([path], "model")


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path, cache, capfd):
    path = big(tmp_path / "weights.bin")
    cache.mkdir(parents=True)  # a folder in its place
    assert hashes_of([path], "model") == hashes_of([path], "model")
    cache.rmdir()
    cache.parent.rmdir()
    cache.parent.write_text("a file in the folder's place")
    assert len(hashes_of([path], "model")[0]) == 64
    assert capfd.readouterr().err == ""


def hash_one(path):
    return hashes_of([Path(path)], "model")


def test_processes_that_write_at_once_leave_a_whole_cache(tmp_path, cache):
    paths = [str(big(tmp_path / f"{name}.bin", bytes([name]))) for name in range(8)]
    with ProcessPoolExecutor(4) as workers:
        list(workers.map(hash_one, paths))
    kept = json.loads(cache.read_text())
    assert kept
    assert set(kept.values()) <= {hash_one(path)[0] for path in paths}


def test_one_line_says_that_reading_takes_long(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(file_hashes, "NOTICE_AFTER_S", -1.0)
    folder = model(tmp_path / "my-model")
    content_hash(folder)
    assert capfd.readouterr().err == "model folder my-model: reading 0.1 GB once, to know it again by its content\n"


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("tokenizer.json", True),
        ("chat_template.jinja", True),
        ("additional_chat_templates/tool_use.jinja", True),
        ("generation_config.json", True),
        ("adapter_config.json", True),
        ("adapter_model.safetensors", True),
        ("spiece.model", True),
        ("merges.txt", True),
        ("1_Pooling/config.json", True),
        ("unknown.dat", True),
        ("README.md", False),
        ("LICENSE.txt", False),
        (".gitattributes", False),
        ("model.onnx", False),
        ("optimizer.pt", False),
        ("training_args.bin", False),
        ("checkpoint-500/model.safetensors", False),
    ],
)
def test_all_that_can_change_the_output_counts_and_no_more(tmp_path, name, counts):
    folder = tmp_path / "model"
    shutil.copytree(embedded("tiny24"), folder)
    (folder / "modules.json").write_text('[{"path": ""}, {"path": "1_Pooling"}]')
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"one")
    before = content_hash(folder)
    path.write_bytes(b"two")
    assert (content_hash(folder) != before) == counts


def test_every_byte_of_a_protein_models_files_counts(tmp_path):
    big(tmp_path / "a" / "data" / "weights" / "esm3.pth")
    big(tmp_path / "b" / "data" / "weights" / "esm3.pth", b"\1")
    assert folder_hash(tmp_path / "a", [".pth"]) != folder_hash(tmp_path / "b", [".pth"])


def test_the_cache_lies_in_the_users_cache_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # not allowed by the specification: as if unset
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_file() == tmp_path / ".cache" / "diversity-harness" / "file-hashes.json"
