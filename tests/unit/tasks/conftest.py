"""What the tests of the code tasks share: a cache of their own, and a small problem."""

import pytest
from support.evalplus_problems import ROW, written

from harness_tasks.evalplus_tasks import MbppPlus


@pytest.fixture(scope="module")
def ground_truth_cache(tmp_path_factory):
    """The folder of a cache of the tests' own: what they make, they also delete and damage."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cache")
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield folder / "diversity-harness" / "ground-truth"


@pytest.fixture
def mbpp(tmp_path, ground_truth_cache):
    """MBPP+ with one small problem."""
    return MbppPlus(written(tmp_path, ROW))


@pytest.fixture
def problem(mbpp):
    return mbpp.problems("test")[0]
