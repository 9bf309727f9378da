"""Executor `ray`: sampling, embedding, grading and ranking on a Ray cluster; it can start one on this machine.

The results are the same bytes as those of `local`: problems go to engines in the same groups, every row has its own
random stream, and an engine uses the number of threads set on this machine (`OMP_NUM_THREADS`). If a worker is lost,
the rest of its group is sampled in another batch, and the last bits of states may differ. Workers write shards
themselves, so all nodes must share the folder of --store; this is checked before sampling starts. See docs/cluster.md.
"""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from harness import HarnessError, hookimpl
from harness.system.files import temporary_name, write_atomically
from harness.system.progress import doing

from .crew import Crew, Place, run_tasks
from .worker import Terms, make_terms

T = TypeVar("T")
R = TypeVar("R")

GROWTH, LIBRARIES_BYTES = 1.3, 1.5e9  # of an engine on cores: weights with caches, and what torch and others take
ANSWERS_S = 10.0
JOINS_S = 120.0
OBJECTS_BYTES = 100 * 2**20  # results are None; shards go through the store's folder
PASSED_ON = ("OMP_", "GOMP_", "KMP_", "MKL_", "HARNESS_")  # variables of threads and of permissions (--unsafe-exec)
LONGEST_TEMPORARY = 24  # characters; Ray adds 80 for its sockets, whose paths have at most 107


@dataclass(eq=False)
class Ray:
    """Runs on a Ray cluster: models in actors, grading and ranking in tasks; work of a lost node is repeated elsewhere.

    address           of a cluster's head, host:port; "auto": this machine's cluster; "local": a new cluster on this
                      machine, stopped at the end. Default: RAY_ADDRESS, else "local"
    workers           maximum number of Ray tasks that grade or rank at once, and the cores of a new cluster; 0: all
    engines           maximum number of models at once; 0: as many as GPUs or, without GPUs, cores and memory allow
    cpus_per_engine   cores and threads of each engine; 0: OMP_NUM_THREADS if it is set, else 1
    gpus_per_engine   GPUs of each engine; none: 1 if the cluster has any GPU, else 0
    gpus_per_task     GPUs, or a part of one, for each Ray task that grades or ranks
    patience_s        seconds to wait for a node if no remaining one can do the work
    """

    libraries: ClassVar[Sequence[str]] = ("ray",)

    address: str = ""
    workers: int = 0
    engines: int = 0
    cpus_per_engine: int = 0
    gpus_per_engine: float | None = None
    gpus_per_task: float = 0
    patience_s: float = 300
    _folder: Path | None = field(default=None, init=False, repr=False)
    _plugin_files: Sequence[Path] = field(default=(), init=False, repr=False)
    _model_bytes: float = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("workers", "engines", "cpus_per_engine", "gpus_per_engine", "gpus_per_task", "patience_s"):
            if (getattr(self, name) or 0) < 0:
                raise HarnessError(f"ray: {name} must not be negative, got {getattr(self, name):g}")

    def begin(self, folder: Path, plugin_files: Sequence[Path]) -> None:
        """Remember the folder and the files that all workers must see; both are checked before the first work."""
        self._folder, self._plugin_files = folder, plugin_files

    def expect(self, model_bytes: float) -> None:
        """Remember how much memory a model takes, by which engines on cores are counted."""
        self._model_bytes = model_bytes

    def at_once(self) -> int:
        """Return how many tasks run at once; joins the cluster of `address` to count its cores."""
        if self.workers or self._address == "local":
            return self.workers or os.cpu_count() or 1
        ray, _ = self._cluster
        return max(1, Place(1, self.gpus_per_task, {}).fitting(ray.nodes()))

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Call function(item) for each item in Ray tasks, and yield the results in the items' order."""
        ray, terms = self._cluster
        place = Place(1, self.gpus_per_task, environment_of(1, self.gpus_per_task))
        _require_room(ray, place, f"each task that grades or ranks (gpus_per_task={self.gpus_per_task:g})")
        yield from run_tasks(ray, terms, place, self.workers, self.patience_s, function, list(items))

    def with_models(
        self, function: Callable[[T, Callable[[int], None]], Any], items: Iterable[T], report: Callable[[int], None]
    ) -> None:
        """Call function(item, report) for each item, in actors that keep the models that it loads.

        report   called in this process with the number of units just finished; with a negative number if they were lost
        """
        with doing("starting Ray"):
            ray, terms = self._cluster
        gpus, cpus = self._gpus(ray), self.cpus_per_engine or _threads()
        memory = 0.0 if gpus or self.engines else engine_memory(self._model_bytes, ray.nodes())
        place = Place(cpus, gpus, environment_of(cpus, gpus), memory)
        _require_room(ray, place, f"each engine (cpus_per_engine={cpus}, gpus_per_engine={gpus:g})")
        Crew(ray, terms, place, self.engines, self.patience_s).run(function, list(items), report)

    def _gpus(self, ray: Any) -> float:
        if self.gpus_per_engine is not None:
            return self.gpus_per_engine
        return float(any(node["Alive"] and node["Resources"].get("GPU") for node in ray.nodes()))

    @property
    def _address(self) -> str:
        return self.address or os.environ.get("RAY_ADDRESS") or "local"

    @cached_property
    def _cluster(self) -> tuple[Any, Terms]:
        """Return Ray, connected to the cluster, and the terms of the run, which all nodes fulfil."""
        address = self._address
        _require_address(address)
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        if address == "local":  # Ray reads it when it is imported, and then listens on loopback alone, on any system
            os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        import ray

        if not ray.is_initialized():
            _start(ray, self.workers) if address == "local" else _join(ray, address)
        # Ray prints messages about lost nodes on standard output, where --json goes. No public option turns this off.
        ray._private.worker._worker_logs_enabled = False
        run = uuid.uuid4().hex
        terms = make_terms(run, self._token(run), self._plugin_files)
        _require_agreement(ray, terms)
        return ray, terms

    def _token(self, run: str) -> Path | None:
        """Write a file that every node must see; it is removed when this process ends, or by the next run."""
        if self._folder is None:
            return None
        token = temporary_name(self._folder / "shared", os.getpid())
        write_atomically(token, run.encode())
        atexit.register(token.unlink, missing_ok=True)
        return token


def engine_memory(model_bytes: float, nodes: Sequence[Mapping[str, Any]]) -> float:
    """Return the bytes that an engine on cores is given: its model's and more, or all of the largest node; 0: unknown.

    The sum is an estimate, so that one engine is tried where the node seems too small.
    """
    largest = max((node["Resources"].get("memory", 0.0) for node in nodes if node["Alive"]), default=0.0)
    return min(GROWTH * model_bytes + LIBRARIES_BYTES, largest) if model_bytes else 0.0


def _start(ray: Any, workers: int) -> None:
    """Start a cluster on this machine, on loopback, which ends with this process."""
    temporary = tempfile.gettempdir() if len(tempfile.gettempdir()) <= LONGEST_TEMPORARY else "/tmp"
    folder = tempfile.mkdtemp(prefix="ray-", dir=temporary)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(ray.shutdown)
    ray.init(
        address="local",
        num_cpus=workers or os.cpu_count(),
        object_store_memory=OBJECTS_BYTES,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
        _temp_dir=folder,
    )


def _join(ray: Any, address: str) -> None:
    atexit.register(ray.shutdown)
    os.environ.setdefault("RAY_gcs_server_port_wait_time_s", "1")  # tries of half a minute each, instead of twenty
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, RuntimeError, ValueError, OSError) as failure:
        lines = [line.strip() for line in str(failure).splitlines() if line.strip()]
        if "ersion mismatch" in str(failure):
            raise HarnessError(f"executor ray: {address}: {' '.join(lines)}: install the same") from failure
        raise HarnessError(
            f"executor ray: cannot join the cluster at {address} ({lines[0] if lines else type(failure).__name__}): "
            "this machine must be one of its nodes (`ray start --address=...`), and RAY_AUTH_MODE what the head has"
        ) from failure


def _require_address(address: str) -> None:
    """Raise HarnessError if the address is not valid or nothing listens at it; Ray itself would try for minutes."""
    if address in ("local", "auto"):
        return
    if "://" in address:
        raise HarnessError(
            f"executor ray: {address} is an address of Ray Client: start the run on a node of the cluster, with its "
            "host:port or address=auto"
        )
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise HarnessError(f"executor ray: an address is host:port, auto or local, got {address!r}")
    try:
        socket.create_connection((host.strip("[]"), int(port)), ANSWERS_S).close()
    except (OSError, OverflowError) as failure:
        raise HarnessError(
            f"executor ray: nothing answers at {address} ({failure}): is the head running (`ray start --head`), and is "
            "this its address?"
        ) from failure


def _require_agreement(ray: Any, terms: Terms) -> None:
    """Raise HarnessError, one line, if a node does not fulfil the terms of the run; all are checked at once."""
    nodes = [node for node in ray.nodes() if node["Alive"]]
    probe = ray.remote(num_cpus=0, max_retries=2)(_probe())
    on_node = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
    answers = {
        probe.options(scheduling_strategy=on_node(node["NodeID"], soft=True)).remote(terms): node for node in nodes
    }
    ready, late = ray.wait(list(answers), num_returns=len(answers), timeout=JOINS_S)
    results = [(answers[answer]["NodeManagerHostname"], _fault(ray, answer)) for answer in ready]
    faults = [(name, fault) for name, fault in results if fault]
    if faults:
        name, fault = faults[0]
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise HarnessError(f"executor ray: node {name}{more}: {fault}")
    for answer in late:
        print(f"ray: node {answers[answer]['NodeManagerHostname']} does not answer yet", file=sys.stderr)


def _fault(ray: Any, answer: Any) -> str:
    """Return why a node does not fulfil the terms; "" if it does."""
    try:
        return str(ray.get(answer))
    except ray.exceptions.RayError as failure:
        return f"a first task failed there: {str(failure).strip().splitlines()[-1]}"


def _probe() -> Callable[[Terms], str]:
    """Return a function that is sent as a whole, not by name: the node may have no harness to import it from."""

    def probe(terms: dict[str, Any]) -> str:
        import contextlib
        import os
        import sys

        try:
            from .worker import difference
        except ImportError as failure:
            return f"diversity-harness cannot be imported by {sys.executable} there ({failure}): install it"
        with contextlib.suppress(OSError):
            os.chdir(terms["folder"])
        return difference(terms)

    return probe


def _require_room(ray: Any, place: Place, user: str) -> None:
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if place.fitting(ray.nodes()):
        return
    most = " and ".join(f"{max(int(node.get(name, 0)) for node in nodes)} {name}s" for name in ("CPU", "GPU"))
    raise HarnessError(
        f"executor ray: none of the {len(nodes)} nodes has {place} for {user}; no node has more than {most}: ask for "
        "less, or add such a node"
    )


def _threads() -> int:
    """Return the number of threads set on this machine, else 1: results may depend on it in the last bits."""
    value = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    return int(value) if value.isdigit() and int(value) else 1


def environment_of(threads: float, gpus: float) -> Mapping[str, str]:
    """Return a worker's environment variables: those of this process that are passed on, and OMP_NUM_THREADS = threads.

    Passed on are those whose names begin as in `PASSED_ON`. With gpus 0 the worker sees no GPU (Ray would show all).
    """
    passed_on = {name: value for name, value in os.environ.items() if name.startswith(PASSED_ON)}
    hidden = {} if gpus else {"CUDA_VISIBLE_DEVICES": ""}
    return passed_on | {"OMP_NUM_THREADS": str(max(1, int(threads)))} | hidden


@hookimpl
def register_executors(register: Callable[..., None]) -> None:
    """Register `ray`."""
    register("ray", "harness_plugins.executors.ray.cluster:Ray")
