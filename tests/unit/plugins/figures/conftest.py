"""One store with cells enough for every figure, made once: tests that change cells get copies."""

import shutil
from pathlib import Path

import pytest
from support.paths import TOY

from harness.jobs import grid
from harness.jobs import run as pipeline
from harness.jobs.options import RunConfig
from harness.system.progress import Progress


@pytest.fixture(scope="session")
def figure_store(tmp_path_factory):
    """The store: two samplers, two embedders, three models, four selectors, 23 problems. Not to be changed."""
    root = tmp_path_factory.mktemp("figures")
    fixed = {"task": "colours", "engine": "toy", "data": Path("23"), "plugin_files": (TOY,), "store": root}
    kinds = "selector=spread+shuffle+head+likely,embedder=hidden-mean+letters"
    grid.run(RunConfig(selectors=(), grid=kinds, **fixed), Progress())
    for other in ({"sampler": "low-temp"}, {"model": "crow", "seed": 1}, {"model": "jay", "seed": 2}):
        pipeline.run(RunConfig(selectors=("spread",), **fixed, **other), Progress())
    return root


@pytest.fixture(scope="session")
def cells(figure_store):
    """The folder of its cells. Not to be changed."""
    return figure_store / "cells"


@pytest.fixture
def copied_cells(cells, tmp_path):
    """A copy of the folder."""
    return Path(shutil.copytree(cells, tmp_path / "runs" / "cells"))
