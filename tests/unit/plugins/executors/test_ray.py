"""Executor `ray` without a cluster: addresses and room, work given out again, what a worker compares and sends back."""

import os
import pickle
from dataclasses import replace
from importlib.util import find_spec
from types import SimpleNamespace

import pytest
from support.processes import free_port
from support.refusals import refusal_of

from harness import HarnessError
from harness.columns.store import Damaged
from harness_plugins.executors import ray as executor
from harness_plugins.executors.ray import Crew, Place, Ray, Worker, engine_memory, environment_of, make_terms

needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="needs ray")
PLACE = Place(cpus=2, gpus=1)
NODE = {"Alive": True, "Resources": {"CPU": 7.0, "GPU": 2.0}}


def nodes(*resources, alive=True):
    return [{"Alive": alive, "Resources": each} for each in resources]


# Before work begins.


def test_an_address_that_cannot_be_is_refused_before_ray_is_imported():
    for address, reason in (
        (f"127.0.0.1:{free_port()}", "nothing answers at 127.0.0.1:"),
        ("head", "an address is host:port, auto or local, got 'head'"),
        (":6379", "an address is host:port, auto or local, got ':6379'"),
        ("ray://head:10001", "is an address of Ray Client"),
    ):
        assert reason in refusal_of(executor._require_address, address)
    for address in ("local", "auto"):
        executor._require_address(address)


@needs_ray
def test_a_negative_number_is_refused():
    for name in ("workers", "engines", "gpus_per_engine", "patience_s"):
        assert refusal_of(Ray, **{name: -1}) == f"ray: {name} must not be negative, got -1"


def test_workers_get_threads_as_cores_and_what_the_run_was_allowed_and_no_key(monkeypatch):
    monkeypatch.setenv("HARNESS_UNSAFE_EXEC", "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    passed_on = environment_of(threads=3, gpus=0)
    values = [passed_on[name] for name in ("HARNESS_UNSAFE_EXEC", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES")]
    assert values == ["1", "3", ""]
    assert "secret" not in passed_on.values()
    assert "CUDA_VISIBLE_DEVICES" not in environment_of(threads=3, gpus=0.5)


@needs_ray
def test_an_engine_takes_a_gpu_where_a_node_has_one_else_cores_and_memory(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert Ray()._engine_place(nodes({"CPU": 4.0}, {"CPU": 4.0, "GPU": 2.0}), 1e9) == Place(3, 1)
    assert Ray()._engine_place(nodes({"CPU": 4.0, "memory": 9e9}), 1e9) == Place(3, 0, 1.3e9 + 1.5e9)
    assert Ray()._engine_place(nodes({"GPU": 1.0}, alive=False), 0) == Place(3, 0)
    assert Ray(gpus_per_engine=0.5, cpus_per_engine=2)._engine_place(nodes({"CPU": 4.0}), 0) == Place(2, 0.5)


def test_engines_on_cores_are_as_many_as_memory_holds():
    there = nodes({"CPU": 8.0, "memory": 20e9}, {"CPU": 8.0, "memory": 5e9}, {"CPU": 2.0, "memory": 64e9})
    memory = engine_memory(4 * 0.5e9, there)
    assert memory == 1.3 * 2e9 + 1.5e9
    assert Place(1, 0, memory).fitting(there) == 4 + 1 + 2
    assert Place(1, 0, engine_memory(4 * 70e9, there)).fitting(there) == 1  # too large: it is tried
    assert engine_memory(0, there) == 0  # of unknown size: by cores alone
    assert Place(1, 0).fitting(there) == 18


@needs_ray
def test_items_at_once_are_those_asked_for_else_the_cores_of_the_cluster(monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr("os.cpu_count", lambda: 6)
    assert [Ray(workers=workers).at_once() for workers in (0, 3)] == [6, 3]
    joined = Ray(address="auto", gpus_per_task=0.5)
    joined.__dict__["_ray"] = SimpleNamespace(nodes=lambda: nodes({"CPU": 4.0, "GPU": 1.0}, {"CPU": 9.0}))
    assert joined.at_once() == 2


def test_workers_fit_on_living_nodes_and_resources_that_no_node_has_are_refused_with_what_there_is():
    assert PLACE.fitting([NODE, {**NODE, "Alive": False}, *nodes({"CPU": 64.0})]) == 2
    assert Place(2, 0).fitting([NODE, *nodes({"CPU": 64.0})]) == 3 + 32
    assert (str(PLACE), str(Place(1, 0)), str(Place(1, 0.5))) == ("2 CPUs and 1 GPU", "1 CPU", "1 CPU and 0.5 GPUs")
    executor._require_room(nodes({"CPU": 1.0, "GPU": 2.0}), Place(1, 2), "each engine")
    with pytest.raises(HarnessError) as refusal:
        executor._require_room(nodes({"CPU": 1.0}, {"CPU": 8.0, "GPU": 1.0}), Place(1, 2), "each engine")
    assert str(refusal.value) == (
        "executor ray: none of the 2 nodes has 1 CPU and 2 GPUs for each engine; no node has more than 8 CPUs and 1 "
        "GPUs: ask for less, or add such a node"
    )


# How work is given out again when a worker is lost. A list of answers stands in for Ray.


class WorkerCrashedError(Exception):
    """Ray's failure of a lost worker."""


class RayTaskError(WorkerCrashedError):
    """Ray's failure of a call that cannot be repeated."""


class FakeRay:
    """Workers that answer at once; `lost` counts for each item how often its worker is lost before."""

    exceptions = SimpleNamespace(RayError=WorkerCrashedError)

    def __init__(self, lost=(), fault=""):
        self.lost, self.fault, self.started, self.killed = dict(lost), fault, 0, 0

    def nodes(self):
        return [NODE]

    def put(self, function):
        return function

    def remote(self, **options):
        assert options["num_gpus"] == 1

        def start(terms):
            self.started += 1
            return SimpleNamespace(
                fault=SimpleNamespace(remote=lambda: lambda: self.fault),
                do=SimpleNamespace(remote=lambda function, item: lambda: self.answer(function, item)),
            )

        return lambda worker: SimpleNamespace(remote=start)

    def answer(self, function, item):
        if self.lost.get(item):
            self.lost[item] -= 1
            raise WorkerCrashedError
        return Worker.do(None, function, item)

    def wait(self, answers, num_returns, timeout):
        return answers[-1:], answers[:-1]  # the last one first

    def get(self, answer):
        return answer()

    def kill(self, worker):
        self.killed += 1


def crew(ray, most=0):
    return Crew(ray, None, PLACE, most, 60)


def results(ray, function, items, most=0):
    return crew(ray, most).results(function, list(items))


def test_results_come_in_order_from_as_many_workers_as_have_room_or_are_asked_for():
    ray = FakeRay()
    assert list(results(ray, lambda item: -item, range(9))) == [-item for item in range(9)]
    assert ray.started == 2  # two have room on the node
    ray = FakeRay()
    assert list(results(ray, abs, range(9), most=1)) == list(range(9))
    assert ray.started == 1
    assert list(results(FakeRay(), abs, [])) == []


def test_lost_work_is_done_again_until_its_third_loss_but_not_where_repeating_cannot_help(capsys, monkeypatch):
    assert list(results(FakeRay({1: 2, 3: 1}), abs, range(5))) == [0, 1, 2, 3, 4]
    assert capsys.readouterr().err.count("ray: a worker died: what it was doing is done again") == 3
    line = refusal_of(lambda: list(results(FakeRay({1: 3}), abs, range(5))))
    assert "the same work was lost with its worker 3 times (a worker died; out of memory?)" in line
    monkeypatch.setattr(FakeRay, "get", lambda self, answer: (_ for _ in ()).throw(RayTaskError("no\n such env")))
    assert refusal_of(lambda: list(results(FakeRay(), abs, [1]))) == "executor ray: RayTaskError: such env"


def test_workers_that_die_as_they_start_and_those_that_differ_are_one_line(monkeypatch):
    assert refusal_of(lambda: list(results(FakeRay(fault="node a: Python 2"), abs, [1]))) == (
        "executor ray: node a: Python 2"
    )
    monkeypatch.setattr(FakeRay, "get", lambda self, answer: (_ for _ in ()).throw(WorkerCrashedError("no module")))
    ray = FakeRay()
    line = refusal_of(lambda: list(results(ray, abs, range(5), most=1)))
    assert "workers die as they start (a worker died; no module)" in line
    assert ray.started == 3


def test_what_work_raises_is_raised_at_once_and_not_tried_again():
    calls = []
    work = crew(FakeRay(), most=1)
    received = work.results(lambda item: calls.append(item) or 6 / (item - 3), list(range(100)))
    assert [next(received) for _ in range(3)] == [-2, -3, -6]
    with pytest.raises(ZeroDivisionError):
        next(received)
    assert calls == [0, 1, 2, 3]
    work.dismiss()
    assert work.ray.killed == 1


def test_a_run_waits_for_nodes_only_so_long(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(executor.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(executor.time, "sleep", lambda seconds: clock.__setitem__(0, clock[0] + seconds))
    monkeypatch.setattr(FakeRay, "nodes", lambda self: [] if clock[0] < 150 else [NODE])
    assert list(results(FakeRay(), abs, [-1])) == [1]
    monkeypatch.setattr(FakeRay, "nodes", lambda self: [])
    line = refusal_of(lambda: list(results(FakeRay(), abs, [-1])))
    assert "for 60 s no node has had 2 CPUs and 1 GPU: what is finished is kept" in line


# What a worker compares before it works, and how its failures travel.


@pytest.fixture
def terms(tmp_path, monkeypatch):
    """Terms that this process fulfils, in a folder of their own."""
    monkeypatch.chdir(tmp_path)
    token, plugin = tmp_path / "token", tmp_path / "mine.py"
    token.write_text("run 1")
    plugin.write_text("x = 1")
    return make_terms("run 1", token, [plugin])


def test_a_worker_compares_python_versions_plugin_files_and_the_token_in_the_store(terms, tmp_path):
    assert terms.difference() == ""
    assert "diversity-harness" in terms.versions
    assert "Python 3." in replace(terms, python="2.7").difference()
    assert "a-plugin not installed there, 1.0 here" in replace(terms, versions={"a-plugin": "1.0"}).difference()
    assert f"it does not see the store's folder {tmp_path}" in replace(terms, run="run 2").difference()
    assert replace(terms, run="run 2", token="").difference() == ""
    (tmp_path / "mine.py").write_text("x = 2")
    assert f"--plugin {tmp_path / 'mine.py'} is not there, or another file" in terms.difference()
    (tmp_path / "token").unlink()
    assert "it does not see the store's folder" in terms.difference()


def test_work_is_done_in_the_runs_folder(terms, tmp_path):
    assert ": Python 3." in Worker(replace(terms, python="2.7")).fault()
    os.chdir("/")
    worker = Worker(terms)
    assert worker.fault() == ""
    assert worker.do(lambda item: os.getcwd(), 1) == (True, str(tmp_path))


def test_what_work_raises_arrives_as_it_is_or_as_a_text_where_it_cannot_be_sent(tmp_path):
    class Unsendable(Exception):
        def __init__(self, a, b):
            super().__init__("oh")

    def raising(failure):
        raise failure

    sent = (HarnessError("no ink"), Damaged(tmp_path), ZeroDivisionError("oh"), Unsendable(1, 2))
    arrived = [pickle.loads(pickle.dumps(Worker.do(None, raising, failure)[1])) for failure in sent]
    assert [type(failure) for failure in arrived] == [HarnessError, Damaged, ZeroDivisionError, RuntimeError]
    assert [str(arrived[at]).splitlines()[0] for at in (0, 2, 3)] == ["no ink", "oh", "Unsendable: oh"]
    assert arrived[1].path == tmp_path
    assert "in raising" in arrived[2].__notes__[0]
