"""Copies of published models: what is said of a copy's weights, and which copy is refused."""

import json

import pytest
from support.refusals import refusal_of

from harness_plugins.proteins import published
from harness_plugins.proteins.published import ESMC, Copy


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").write_text('{"hidden_size": 64, "num_hidden_layers": 2}')
    return tmp_path / "mine"


def copy(model=None, revision=None, test_weights=False):
    return Copy("esmc", ESMC, None if model is None else str(model), revision, test_weights)


def sizes(config):
    return {name: config[name] for name in ("hidden_size", "num_hidden_layers")}


def test_a_copy_in_a_folder_is_named_by_it_and_pinned_by_its_content(folder, monkeypatch):
    mine, tested = copy(folder), copy(folder, test_weights=True)
    assert (mine.name, mine.source, tested.name) == ("mine", str(folder), "random weights: mine")
    assert mine.licence == f"your copy; as published: {ESMC.licence}"
    assert tested.licence == "none: random weights, for tests"
    assert mine.pinned == {"local_files_only": True}
    assert (mine.weights().fetch, tested.weights().is_random) == ("", True)
    before = mine.commit(), mine.commit([".pth"])
    (folder / "more.pth").write_bytes(b"1")
    assert mine.commit() == before[0]
    assert mine.commit([".pth"]) != before[1]
    monkeypatch.chdir(folder.parent)
    assert copy("mine").folder is not None  # by a relative name


def test_a_folder_that_is_absent_or_given_with_a_revision_is_refused(folder):
    absent = folder / "absent"
    assert refusal_of(copy, absent) == f"esmc: model folder {absent} does not exist"
    assert refusal_of(copy, "./absent").startswith("esmc: model folder absent does not exist")
    assert refusal_of(copy, folder, "main").endswith("is a folder, which has no revision 'main'")


def test_only_published_sizes_are_taken_unless_weights_are_tests(folder):
    line = refusal_of(copy(folder).check_folder, sizes)
    assert "has hidden_size 64, num_hidden_layers 2, as no published ESM C has: is it random?" in line
    copy(folder, test_weights=True).check_folder(sizes)
    config = folder / "config.json"
    for size in ESMC.sizes:
        config.write_text(json.dumps(size))
        copy(folder).check_folder(sizes)
    for content in ("{}", "no json", "[]"):
        config.write_text(content)
        assert f"{config} is none of ESM C" in refusal_of(copy(folder).check_folder, sizes)


def test_a_hub_model_is_pinned_by_its_commit_and_where_it_is_not_here_the_command_that_fetches_it_is_said(monkeypatch):
    monkeypatch.setattr(published, "_out_of_reach", lambda: True)
    monkeypatch.setattr(published, "_snapshot", lambda repo, revision: "c0ffee" if revision is None else None)
    theirs, other = copy(), copy(revision="v2")
    assert (theirs.name, theirs.licence, theirs.weights().fetch) == (ESMC.repo, ESMC.licence, "")
    assert theirs.pinned == {"revision": "c0ffee", "local_files_only": True}
    assert copy("lab/esmc").licence.startswith("your copy")
    assert other.weights().fetch.startswith(f"`hf download {ESMC.repo} --revision v2` (2.3 GB)")
    assert "is not on this machine: `hf download" in refusal_of(other.commit)
