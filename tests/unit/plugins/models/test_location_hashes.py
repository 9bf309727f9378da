"""The hashes of a model's large files: every byte counts, and each file is read once."""

import json
import os
import shutil

import pytest

from harness_plugins.models import location
from harness_plugins.models.checkpoint import Checkpoint
from harness_plugins.models.location import content_hash, embedded, locate
from harness_plugins.models.location import file_hashes as hashes_of
from harness_plugins.proteins.published import folder_hash

BIG = 9 * 2**20  # bytes: a little over what is read each time


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(location, "SETTLED_NS", -(10**18))  # a file may be known at once
    return tmp_path / "cache" / "diversity-harness" / "file-hashes.json"


@pytest.fixture
def reads(monkeypatch):
    """The names of the files that are read."""
    names = []
    digest = location._digest
    monkeypatch.setattr(location, "_digest", lambda path: names.append(path.name) or digest(path))
    return names


def big(path, middle=b"\0"):
    """A sparse file with something in its middle."""
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


def test_folders_of_one_name_that_differ_in_a_files_middle_are_two_models(tmp_path):
    def revision(folder):
        return Checkpoint(locate(str(folder)), "cpu", "auto", None).revision

    first, same = model(tmp_path / "a" / "merged"), model(tmp_path / "b" / "merged")
    assert revision(first) == revision(same) != revision(model(tmp_path / "c" / "merged", b"\1"))
    proteins = [big(tmp_path / name / "data" / "esm3.pth", name.encode()).parents[1] for name in "pq"]
    assert folder_hash(proteins[0], [".pth"]) != folder_hash(proteins[1], [".pth"])


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


def test_a_file_that_is_small_or_has_just_changed_is_not_remembered(tmp_path, monkeypatch, reads, cache):
    small = tmp_path / "config.json"
    small.write_text("{}")
    hashes_of([small], "model")
    assert not cache.exists()
    monkeypatch.setattr(location, "SETTLED_NS", 10**18)
    path = big(tmp_path / "weights.bin")
    hashes_of([path], "model")
    hashes_of([path], "model")
    assert reads == ["config.json", "weights.bin", "weights.bin"]


def test_a_broken_cache_is_made_anew_and_one_that_cannot_be_written_done_without(tmp_path, cache, reads, capfd):
    path = big(tmp_path / "weights.bin")
    cache.parent.mkdir(parents=True)
    expected = hashes_of([path], "model")
    for content in (b"{", b"[]", b'{"1:2": 5}', b'{"1:2": "short"}', b"\xff", b"[" * 100_000):
        cache.write_bytes(content)
        reads.clear()
        assert hashes_of([path], "model") == hashes_of([path], "model") == expected, content
        assert len(reads) == 1, content
        assert list(json.loads(cache.read_text()).values()) == expected, content
    cache.unlink()
    cache.mkdir(parents=True)  # a folder in its place
    assert hashes_of([path], "model") == hashes_of([path], "model")
    cache.rmdir()
    cache.parent.rmdir()
    cache.parent.write_text("a file in the folder's place")
    assert len(hashes_of([path], "model")[0]) == 64
    assert capfd.readouterr().err == ""


def test_a_line_says_once_that_reading_takes_long(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(location, "NOTICE_FROM", 0)
    content_hash(model(tmp_path / "my-model"))
    assert capfd.readouterr().err == "model folder my-model: reading 0.0 GB once, to know it again by its content\n"


def test_all_that_can_change_the_output_counts_and_no_more(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "modules.json").write_text('[{"path": ""}, {"path": "1_Pooling"}]')
    counts = "tokenizer.json chat_template.jinja additional_chat_templates/tool_use.jinja generation_config.json "
    counts += "adapter_config.json adapter_model.safetensors spiece.model merges.txt 1_Pooling/config.json unknown.dat"
    ignored = "README.md LICENSE.txt .gitattributes model.onnx optimizer.pt training_args.bin "
    ignored += "checkpoint-500/model.safetensors"
    for name in (counts + " " + ignored).split():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"before")
        before = content_hash(folder)
        path.write_bytes(b"after.")
        assert (content_hash(folder) != before) == (name in counts.split()), name
