"""What a worker of the cluster compares before it works, and how its failures travel. No Ray is started."""

import os
import pickle
from dataclasses import replace

import pytest
from support.paths import TOY

from harness import HarnessError
from harness.jobs.options import RunConfig
from harness.jobs.plan import make_plan
from harness.stages.model_work import in_worker
from harness.stages.sample import sample
from harness.system.progress import Progress
from harness_plugins.executors.ray import worker
from harness_plugins.executors.ray.worker import Worker, difference, done, make_terms


@pytest.fixture
def terms(tmp_path, monkeypatch):
    """Terms that this process fulfils, in a folder of their own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(worker, "_agreed", "")
    token, plugin = tmp_path / "token", tmp_path / "mine.py"
    token.write_text("run 1")
    plugin.write_text("x = 1")
    return make_terms("run 1", token, [plugin])


def test_a_worker_compares_python_versions_plugin_files_and_the_token_in_the_store(terms, tmp_path):
    assert difference(terms) == ""
    assert "diversity-harness" in terms["versions"]
    assert "Python 3." in difference({**terms, "python": "2.7"})
    assert "a-plugin not installed there, 1.0 here" in difference({**terms, "versions": {"a-plugin": "1.0"}})
    assert f"it does not see the store's folder {tmp_path}" in difference({**terms, "run": "run 2"})
    assert difference({**terms, "run": "run 2", "token": ""}) == ""
    (tmp_path / "mine.py").write_text("x = 2")
    assert f"--plugin {tmp_path / 'mine.py'} is not there, or another file" in difference(terms)
    (tmp_path / "token").unlink()
    assert "it does not see the store's folder" in difference(terms)


def test_work_is_done_in_the_runs_folder_once_the_terms_are_met(terms, tmp_path):
    assert done({**terms, "python": "2.7"}, os.getcwd)[0] is False
    os.chdir("/")
    assert done(terms, os.getcwd) == (True, str(tmp_path))
    assert done({**terms, "python": "2.7"}, abs, -3) == (True, 3)  # of the same run: agreed before


def test_a_worker_counts_units_and_tokens_of_each_item(terms):
    worker = Worker()

    def work(tokens, report):
        report(2)
        assert worker.at() == (len(tokens), (2, None))  # no token before the model is loaded
        for count in tokens:
            report.tokens(count)
        report(-1)

    assert worker.do(terms, 3, work, [0, 5, 7]) == (True, None, (1, 12))
    assert worker.at() == (3, (1, 12))
    assert worker.do(terms, 1, work, [0]) == (True, None, (1, 0))


def test_what_work_raises_arrives_as_it_is_or_as_a_text_where_it_cannot_be_sent(terms):
    class Unsendable(Exception):
        def __init__(self, a, b):
            super().__init__("oh")

    def raising(failure):
        raise failure

    arrived = [
        pickle.loads(pickle.dumps(done(terms, raising, failure)[1]))
        for failure in (HarnessError("no ink"), ZeroDivisionError("oh"), Unsendable(1, 2))
    ]
    assert [type(failure) for failure in arrived] == [HarnessError, ZeroDivisionError, RuntimeError]
    assert [str(failure).splitlines()[0] for failure in arrived] == ["no ink", "oh", "Unsendable: oh"]
    assert "in raising" in arrived[1].__notes__[0]


def test_an_engine_that_is_another_one_where_it_is_to_draw_is_one_line(tmp_path):
    config = RunConfig(selectors=["shuffle"], task="colours", engine="toy", store=tmp_path, plugin_files=(TOY,))
    plan = make_plan(config, Progress(quiet=True))
    group = plan.group(plan.problems[:1])
    elsewhere = replace(plan.model_work, identities={"engine": {"engine": "toy", "model": "raven"}, "embedder": {}})
    with pytest.raises(HarnessError, match=r"engine 'toy': on .* it has model 'parrot' and not 'raven', as where"):
        in_worker(sample, elsewhere, group, lambda rows: None)
    assert not list(tmp_path.glob("pool/*/*.parquet"))
    plan.begin()
    in_worker(sample, plan.model_work, group, lambda rows: None)
    assert len(list(tmp_path.glob("pool/*/*.parquet"))) == 1
