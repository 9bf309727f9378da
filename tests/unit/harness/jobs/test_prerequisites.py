"""All that a run lacks is named together; a stored run lacks nothing."""

import pytest
from support.paths import TOY
from support.refusals import refusal_of

from harness.jobs import run as pipeline
from harness.jobs.options import RunConfig
from harness.system.progress import Progress

PLUGIN = '''
import os

from harness import hookimpl


class Costly:
    """A selector that needs a library."""

    needs = ()
    libraries = (os.environ["LIBRARY"],)

    def rank(self, pool, rng):
        return iter(range(len(pool)))


@hookimpl
def register_selectors(register):
    register("costly", Costly)
'''
LINE = "selector costly needs nolibrary: not installed: pip install nolibrary"


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run the toy task with `costly`, whose library has this name; options may replace others."""
    plugin = tmp_path / "costly.py"
    plugin.write_text(PLUGIN)

    def call(library, plugin_files=(TOY, plugin), **options):
        monkeypatch.setenv("LIBRARY", library)
        given = {"task": "colours", "engine": "toy", "selectors": ("costly",), "n": 4, "store": tmp_path / "runs"}
        return pipeline.run(RunConfig(**given | options, plugin_files=plugin_files), Progress(quiet=True))

    return call


def test_a_library_is_needed_where_something_is_to_be_ranked_and_not_to_show_what_is_stored(run):
    assert refusal_of(run, "nolibrary") == LINE
    rows, failures = run("json")
    assert (len(rows), failures) == (1, {})
    assert run("nolibrary")[0][0].cell == rows[0].cell
    assert refusal_of(run, "nolibrary", seed=1) == LINE


def test_what_else_is_missing_is_named_with_the_first_fault(run):
    line = refusal_of(run, "nolibrary", split="nowhere")
    assert line.startswith("2 things stand in the way: (1) task 'colours': no split 'nowhere'")
    assert line.endswith(f"; (2) {LINE}")


def test_data_and_a_model_that_the_hub_has_and_nobody_can_reach_are_named_together(run, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    line = refusal_of(run, "json", task="gsm8k", engine="transformers", model="nobody/nothing-7b")
    assert line.startswith("2 things stand in the way: (1) gsm8k: dataset openai/gsm8k")
    assert "give --data FILE" in line
    assert "(2) model 'nobody/nothing-7b' cannot be fetched (offline?): give a local folder" in line


def test_a_grader_that_does_not_work_is_named_with_what_is_missing(run):
    line = refusal_of(run, "json", task="keyed", data=13, split="nowhere")
    assert line.startswith("2 things stand in the way: (1) task 'keyed': no split 'nowhere'")
    assert "; (2) keyed: nothing here confines 13 colours" in line


WEIGHED = '''
from harness import hookimpl
from harness.errors import Lacking
from harness.records import Weights


class Far:
    """An embedder whose weights are elsewhere."""

    state = None
    model = Weights("far", "somewhere", "MIT", "fetch it")

    def weights(self):
        return [self.model]

    def identity(self):
        raise Lacking(f"far: {self.model} is not on this machine: {self.model.fetch}")

    def embed(self, problem, texts):
        raise AssertionError


@hookimpl
def register_embedders(register):
    register("far", Far)
'''


def test_weights_are_named_once(run, tmp_path):
    far = tmp_path / "far.py"
    far.write_text(WEIGHED)
    line = refusal_of(run, "json", selectors=("spread",), embedder="far", plugin_files=(TOY, far))
    assert line.count("fetch it") == 1
