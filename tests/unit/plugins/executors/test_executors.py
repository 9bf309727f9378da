"""The executors: which process does the work, how failures travel; of `ray`, what needs no cluster."""

import os
import pickle
from dataclasses import replace
from importlib.util import find_spec

import pytest
from support.processes import free_port
from support.refusals import refusal_of

from harness import HarnessError
from harness.columns.store import Damaged
from harness_plugins.executors import local
from harness_plugins.executors import ray as executor
from harness_plugins.executors.local import Local
from harness_plugins.executors.ray import Place, Ray, do, environment_of, make_terms

# Functions of the standard library: the other processes cannot import this file.
WHO = ["/proc/self"] * 12  # as a link: the number of the process that reads it


def test_only_long_work_goes_to_processes_after_its_first_item_and_comes_back_in_order(monkeypatch):
    assert {*Local(workers=2).map(os.readlink, WHO, False)} == {str(os.getpid())}
    monkeypatch.setattr(local, "ALONE_S", -1.0)
    monkeypatch.setattr(local, "START_S", -1.0)
    assert {*Local(workers=2).map(os.readlink, WHO, True)} == {str(os.getpid())}  # models stay
    first, *others = Local(workers=2).map(os.readlink, WHO, False)
    assert first == str(os.getpid())
    assert first not in others
    results = Local(workers=2).map(int, ["0", "1", "2", "x", "4"], False)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="invalid literal"):  # where its result would be
        next(results)
    with pytest.raises(HarnessError, match="executor local: a worker process died"):
        list(local._in_processes(os._exit, [1, 2], 2))
    assert refusal_of(Local, workers=-1) == "local: workers must be at least 0 (0: one a core), got -1"


def test_an_address_that_cannot_be_is_refused_before_ray_is_imported():
    for address, reason in (
        (f"127.0.0.1:{free_port()}", "nothing answers at 127.0.0.1:"),
        ("head", "auto or local, got 'head'"),
        ("ray://head:10001", "not ray://, of Ray Client"),
    ):
        assert reason in refusal_of(executor._require_address, address)


def test_workers_get_threads_as_cores_and_what_the_run_was_allowed_and_no_key(monkeypatch):
    for name, value in (("HARNESS_UNSAFE_EXEC", "1"), ("OMP_NUM_THREADS", "7"), ("OPENAI_API_KEY", "secret")):
        monkeypatch.setenv(name, value)
    passed_on = environment_of(threads=3, gpus=0)
    values = [passed_on[name] for name in ("HARNESS_UNSAFE_EXEC", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES")]
    assert values == ["1", "3", ""]
    assert "secret" not in passed_on.values()
    assert "CUDA_VISIBLE_DEVICES" not in environment_of(threads=3, gpus=0.5)


def nodes(*resources, alive=True):
    return [{"Alive": alive, "Resources": each} for each in resources]


@pytest.mark.skipif(find_spec("ray") is None, reason="needs ray")
def test_an_engine_takes_a_gpu_where_a_node_has_one_else_cores(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert Ray()._engine_place(nodes({"CPU": 4.0}, {"CPU": 4.0, "GPU": 2.0})) == Place(3, 1)
    assert Ray()._engine_place(nodes({"GPU": 1.0}, alive=False)) == Place(3, 0)
    assert Ray(gpus_per_engine=0.5)._engine_place(nodes({"CPU": 4.0})) == Place(3, 0.5)


def test_workers_fit_on_living_nodes_and_resources_that_no_node_has_are_refused_with_what_there_is():
    there = nodes({"CPU": 7.0, "GPU": 2.0}, {"CPU": 64.0})
    assert Place(2, 1).rooms([*there, *nodes({"CPU": 7.0, "GPU": 2.0}, alive=False)]) == [2, 0]
    assert Place(2, 0).rooms(there) == [3, 32]
    executor._require_room(nodes({"CPU": 1.0, "GPU": 2.0}), Place(1, 2), uses_model=True)
    few = nodes({"CPU": 1.0}, {"CPU": 8.0, "GPU": 1.0})
    assert refusal_of(executor._require_room, few, Place(1, 2), uses_model=True) == (
        "executor ray: none of the 2 nodes has 1 CPUs and 2 GPUs for each engine (OMP_NUM_THREADS, gpus_per_engine); "
        "no node has more than 8 CPUs and 1 GPUs: ask for less, or add such a node"
    )


# What a worker compares before it works, and how its failures travel.


@pytest.fixture
def terms(tmp_path, monkeypatch):
    """Terms that this process fulfils, in a folder of their own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "token").write_text("run 1")
    (tmp_path / "mine.py").write_text("x = 1")
    return make_terms("run 1", [tmp_path / "mine.py", tmp_path / "token"])


def test_a_worker_compares_python_versions_plugin_files_and_the_token_in_the_store(terms, tmp_path):
    assert terms.difference() == ""
    assert "diversity-harness" in terms.versions
    failure, _ = do(replace(terms, run="another", versions={"Python": "2.7"}), abs, 1)
    assert ": Python 3." in str(failure)
    assert "a-plugin not installed there, 1.0 here" in replace(terms, versions={"a-plugin": "1.0"}).difference()
    (tmp_path / "token").write_text("run 2")
    assert f"it does not see {tmp_path / 'token'}, or another file: --store and --plugin must be" in terms.difference()
    (tmp_path / "mine.py").unlink()
    assert f"it does not see {tmp_path / 'mine.py'}" in terms.difference()


def test_work_is_done_in_the_runs_folder_and_what_it_raises_arrives_as_it_is_or_as_a_text(terms, tmp_path):
    class Unsendable(Exception):
        def __init__(self, a, b):
            super().__init__("oh")

    def raising(failure):
        raise failure

    os.chdir("/")
    assert do(replace(terms, run="a third"), lambda item: os.getcwd(), 1) == (None, str(tmp_path))
    sent = (HarnessError("no ink"), Damaged(tmp_path), ZeroDivisionError("oh"), Unsendable(1, 2))
    arrived = [pickle.loads(pickle.dumps(do(terms, raising, failure)[0])) for failure in sent]
    assert [type(failure) for failure in arrived] == [HarnessError, Damaged, ZeroDivisionError, RuntimeError]
    assert [str(arrived[at]).splitlines()[0] for at in (0, 2, 3)] == ["no ink", "oh", "Unsendable: oh"]
    assert arrived[1].path == tmp_path
    assert "in raising" in arrived[2].__notes__[0]
