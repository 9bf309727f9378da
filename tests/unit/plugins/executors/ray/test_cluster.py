"""Executor `ray` before it joins a cluster: addresses, numbers, and what its workers inherit. No Ray is started."""

from importlib.util import find_spec

import pytest
from support.processes import free_port
from support.refusals import refusal_of

from harness import HarnessError
from harness_plugins.executors.ray import cluster
from harness_plugins.executors.ray.cluster import Ray, environment_of

needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="needs ray")


class Nodes:
    """The part of the module `ray` that tells of the nodes."""

    def __init__(self, *resources, alive=True):
        self.listed = [{"Alive": alive, "Resources": each} for each in resources]

    def nodes(self):
        return self.listed


def test_an_address_that_cannot_be_is_refused_before_ray_is_imported():
    for address, reason in (
        (f"127.0.0.1:{free_port()}", "nothing answers at 127.0.0.1:"),
        ("head", "an address is host:port, auto or local, got 'head'"),
        (":6379", "an address is host:port, auto or local, got ':6379'"),
        ("ray://head:10001", "is an address of Ray Client"),
    ):
        assert reason in refusal_of(cluster._require_address, address)
    for address in ("local", "auto"):
        cluster._require_address(address)


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
def test_an_engine_takes_a_gpu_where_a_node_has_one():
    assert Ray()._gpus(Nodes({"CPU": 4.0}, {"CPU": 4.0, "GPU": 2.0})) == 1
    assert Ray()._gpus(Nodes({"CPU": 4.0})) == 0
    assert Ray()._gpus(Nodes({"GPU": 1.0}, alive=False)) == 0
    assert Ray(gpus_per_engine=0.5)._gpus(Nodes({"CPU": 4.0})) == 0.5


def test_engines_on_cores_are_as_many_as_memory_holds():
    nodes = Nodes({"CPU": 8.0, "memory": 20e9}, {"CPU": 8.0, "memory": 5e9}, {"CPU": 2.0, "memory": 64e9}).nodes()
    memory = cluster.engine_memory(4 * 0.5e9, nodes)
    assert memory == 1.3 * 2e9 + 1.5e9
    assert cluster.Place(1, 0, {}, memory).fitting(nodes) == 4 + 1 + 2
    assert cluster.Place(1, 0, {}, memory).options["memory"] == int(memory)
    too_large = cluster.engine_memory(4 * 70e9, nodes)
    assert cluster.Place(1, 0, {}, too_large).fitting(nodes) == 1  # it is tried
    assert cluster.engine_memory(0, nodes) == 0  # of unknown size: by cores alone
    assert cluster.Place(1, 0, {}).fitting(nodes) == 18
    assert "memory" not in cluster.Place(1, 0, {}).options


@needs_ray
def test_tasks_at_once_are_those_asked_for_else_the_cores_of_the_cluster(monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr("os.cpu_count", lambda: 6)
    assert [Ray(workers=workers).at_once() for workers in (0, 3)] == [6, 3]
    joined = Ray(address="auto", gpus_per_task=0.5)
    joined.__dict__["_cluster"] = (Nodes({"CPU": 4.0, "GPU": 1.0}, {"CPU": 9.0}), None)
    assert joined.at_once() == 2


def test_resources_that_no_node_has_are_refused_with_what_there_is():
    place = cluster.Place(1, 2, {})
    cluster._require_room(Nodes({"CPU": 1.0, "GPU": 2.0}), place, "each engine")
    with pytest.raises(HarnessError) as refusal:
        cluster._require_room(Nodes({"CPU": 1.0}, {"CPU": 8.0, "GPU": 1.0}), place, "each engine")
    assert str(refusal.value) == (
        "executor ray: none of the 2 nodes has 1 CPU and 2 GPUs for each engine; no node has more than 8 CPUs and 1 "
        "GPUs: ask for less, or add such a node"
    )
