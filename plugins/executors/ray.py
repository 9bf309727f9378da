"""Executor `ray`: sampling, embedding, grading and ranking on a Ray cluster; it can start one on this machine.

Models work in Ray's actors, all else in its tasks.

The files are the same bytes as those of `local`: problems go to engines in the same groups, every row has its own
random stream, and an engine uses the number of threads set on this machine (`OMP_NUM_THREADS`); the batch of a lost
worker is sampled again whole. Workers write files themselves, so all nodes must share the folder of --store; each
worker checks this before it works. See docs/cluster.md.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import pickle
import platform
import shutil
import socket
import sys
import tempfile
import time
import traceback
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import PackageNotFoundError, distributions, version
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from harness import HarnessError, hookimpl
from harness.plugin_system.registry import GROUP
from harness.system.files import temporary_name, write_atomically
from harness.system.progress import doing

T = TypeVar("T")
R = TypeVar("R")

TRIES = 3  # work that is lost with its worker so often is taken to kill it
POLL_S, PATIENCE_S = 1.0, 300.0  # the latter for a node if no remaining one can do the work
ANSWERS_S = 10.0
OBJECTS_BYTES = 100 * 2**20  # results are None: what is made goes through the store's folder
MORE_GROUPS = "there are no more groups of problems (a smaller batch of the engine makes more: docs/cluster.md)"
PASSED_ON = ("OMP_", "GOMP_", "KMP_", "MKL_", "HARNESS_")  # variables of threads and of permissions (--unsafe-exec)
LONGEST_TEMPORARY = 24  # characters; Ray adds 80 for its sockets, whose paths have at most 107


@dataclass(eq=False)
class Ray:
    """Runs on a Ray cluster, in workers that keep what they load; work of a lost worker or node is repeated elsewhere.

    address           of a cluster's head, host:port; "auto": this machine's cluster; "local": a new cluster on this
                      machine, stopped at the end. Default: RAY_ADDRESS, else "local"
    workers           maximum number of workers that grade or rank at once, and the cores of a new cluster; 0: all
    engines           maximum number of models at once; 0: as many as GPUs or, without GPUs, one a node
    gpus_per_engine   GPUs of each engine, which gets OMP_NUM_THREADS cores; none: 1 if the cluster has any GPU, else 0
    gpus_per_task     GPUs, or a part of one, for each worker that grades or ranks
    """

    libraries: ClassVar[Sequence[str]] = ("ray",)

    address: str = ""
    workers: int = 0
    engines: int = 0
    gpus_per_engine: float | None = None
    gpus_per_task: float = 0
    _terms: dict[tuple[Path | None, tuple[Path, ...]], Terms] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("workers", "engines", "gpus_per_engine", "gpus_per_task"):
            if (getattr(self, name) or 0) < 0:
                raise HarnessError(f"ray: {name} must not be negative, got {getattr(self, name):g}")

    def map(self, function: Callable[[T], R], items: Iterable[T], uses_model: bool) -> Iterator[R]:
        """Call function(item) for each item in workers, and yield the results in the items' order.

        What the function raises is raised at once, and not tried again. HarnessError if the work of a lost worker is
        lost three times, or if no node can do it for PATIENCE_S seconds.

        uses_model   a worker is given the cores and GPUs of an engine, and ends with the call, with what it has loaded
        """
        with doing("starting Ray"):
            ray = self._ray
        items, nodes = list(items), ray.nodes()
        place = self._engine_place(nodes) if uses_model else Place(1, self.gpus_per_task)
        _require_room(nodes, place, uses_model)
        terms = ray.put(self._terms_of(getattr(function, "folder", None), getattr(function, "plugin_files", ())))
        shared = ray.put(function)
        options = {"num_cpus": place.cpus, "num_gpus": place.gpus, "scheduling_strategy": "SPREAD"}
        options["runtime_env"] = {"env_vars": environment_of(place.cpus, place.gpus)}
        free: list[Any] = []  # Ray's handles of workers; of tasks it is the same one, as often as they may run
        rooms = place.rooms(nodes)
        if uses_model:
            most = self.engines or (sum(rooms) if place.gpus else sum(map(bool, rooms)))
            start = ray.remote(**options)(Worker).remote
            free = [start() for _ in range(min(most, sum(rooms), len(items)))]
            if len(free) < most and (self.engines or place.gpus):
                few = f"there is room for {sum(rooms)}, of {place} each" if sum(rooms) == len(free) else MORE_GROUPS
                print(f"ray: {len(free)} of {most} engines are started: {few}", file=sys.stderr, flush=True)
        else:
            task = ray.remote(max_retries=0, **options)(do)
            free = [task] * (self.workers or 2 * sum(rooms))
        waiting, running = deque(enumerate(items)), dict[Any, tuple[int, Any]]()  # by the reference to what is returned
        lost: Counter[int] = Counter()
        finished, following, possible_at = dict[int, Any](), 0, time.monotonic()
        try:
            while following < len(items):
                while waiting and free:
                    index, item = waiting.popleft()
                    worker = free.pop()
                    begun = (worker.do if uses_model else worker).remote(terms, shared, item)
                    running[begun] = index, worker
                while uses_model and free:
                    ray.kill(free.pop())  # makes room for the successor of a worker that was lost
                ready, _ = ray.wait(list(running), timeout=POLL_S)
                if ready or any(place.rooms(ray.nodes())):
                    possible_at = time.monotonic()
                elif time.monotonic() - possible_at > PATIENCE_S:
                    raise HarnessError(
                        f"executor ray: for {PATIENCE_S:g} s no node has had {place}: what is finished is kept; "
                        "add nodes and run the same command again"
                    )
                for done in ready:
                    index, worker = running.pop(done)
                    try:
                        failure, finished[index] = ray.get(done)
                    except ray.exceptions.RayError as loss:
                        lost[index] += 1
                        _tell(loss, isinstance(loss, ray.exceptions.RayTaskError), lost[index])
                        waiting.appendleft((index, items[index]))
                        if uses_model:
                            ray.kill(worker)
                            worker = start()
                        failure = None
                    free.append(worker)
                    if failure:
                        raise failure
                while following in finished:
                    yield finished.pop(following)
                    following += 1
        finally:
            for begun, (_, worker) in running.items():
                ray.kill(worker) if uses_model else ray.cancel(begun, force=True)
            for worker in free if uses_model else ():
                ray.kill(worker)

    def _engine_place(self, nodes: Sequence[Mapping[str, Any]]) -> Place:
        gpus = self.gpus_per_engine
        if gpus is None:
            gpus = float(any(node["Alive"] and node["Resources"].get("GPU") for node in nodes))
        threads = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]  # results may depend on it in the last bits
        set_here = int(threads) if threads.isdigit() and int(threads) else 1
        return Place(set_here, gpus)

    def _terms_of(self, folder: Path | None, plugin_files: Sequence[Path]) -> Terms:
        """The terms for work in this folder, with a token that every node must see, removed as this process ends."""
        if (key := (folder, tuple(plugin_files))) not in self._terms:
            run, files = uuid.uuid4().hex, list(plugin_files)
            if folder is not None:
                files.append(temporary_name(folder / f"{run}.shared", os.getpid()))
                write_atomically(files[-1], run.encode())
                atexit.register(files[-1].unlink, missing_ok=True)
            self._terms[key] = make_terms(run, files)
        return self._terms[key]

    @cached_property
    def _ray(self) -> Any:
        """The module `ray`, connected to the cluster."""
        address = self.address or os.environ.get("RAY_ADDRESS") or "local"
        _require_address(address)
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        if address == "local":  # Ray reads it when it is imported, and then listens on loopback alone, on any system
            os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        import ray

        if not ray.is_initialized():
            _start(ray, self.workers) if address == "local" else _join(ray, address)
        # Ray prints messages about lost nodes on standard output, where --json goes. No public option turns this off.
        ray._private.worker._worker_logs_enabled = False
        return ray


def _tell(loss: Exception, is_unreadable: bool, times: int) -> None:
    """Tell that work was lost with its worker; HarnessError if repeating it does not help, or never could."""
    lines = [line.strip() for line in str(loss).splitlines() if line.strip()] or [""]
    name = type(loss).__name__
    if is_unreadable:
        raise HarnessError(f"executor ray: {lines[-1]}: is diversity-harness installed everywhere?") from loss
    if times >= TRIES:
        raise HarnessError(
            f"executor ray: the same work was lost with its worker {TRIES} times ({name}: {lines[0]:.300}; out of "
            "memory?): what is finished is kept; give it more room, or run the same command again. Ray's logs on the "
            "nodes say more"
        ) from loss
    print(f"ray: a worker was lost ({name}): what it was doing is done again", file=sys.stderr, flush=True)


# The cluster.


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
        lines = [line.strip() for line in str(failure).splitlines() if line.strip()] or [type(failure).__name__]
        if "ersion mismatch" in str(failure):
            raise HarnessError(f"executor ray: {address}: {' '.join(lines)}: install the same") from failure
        raise HarnessError(
            f"executor ray: cannot join the cluster at {address} ({lines[0]}): this machine must be one of its nodes "
            "(`ray start --address=...`), and RAY_AUTH_MODE what the head has"
        ) from failure


def _require_address(address: str) -> None:
    """Raise HarnessError if the address is not valid or nothing listens at it; Ray itself would try for minutes."""
    if address in ("local", "auto"):
        return
    host, _, port = address.rpartition(":")
    if "://" in address or not host or not port.isdigit():
        raise HarnessError(
            "executor ray: an address is host:port (not ray://, of Ray Client: start the run on a node of the "
            f"cluster), auto or local, got {address!r}"
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), ANSWERS_S).close()
    except (OSError, OverflowError) as failure:
        raise HarnessError(
            f"executor ray: nothing answers at {address} ({failure}): is the head running (`ray start --head`)?"
        ) from failure


@dataclass(frozen=True)
class Place:
    """The cores and GPUs that one worker gets."""

    cpus: float
    gpus: float

    def rooms(self, nodes: Sequence[Mapping[str, Any]]) -> list[int]:
        """Return how many such workers have room on each living node (of `ray.nodes()`), if nothing else runs there."""
        needed = {"CPU": self.cpus, "GPU": self.gpus}
        return [
            min(int(node["Resources"].get(name, 0) / count) for name, count in needed.items() if count > 0)
            for node in nodes
            if node["Alive"]
        ]

    def __str__(self) -> str:
        return f"{self.cpus:g} CPUs" + (f" and {self.gpus:g} GPUs" if self.gpus else "")


def _require_room(nodes: Sequence[Mapping[str, Any]], place: Place, uses_model: bool) -> None:
    if any(place.rooms(nodes)):
        return
    there = [node["Resources"] for node in nodes if node["Alive"]]
    most = Place(*(max(int(node.get(name, 0)) for node in there) for name in ("CPU", "GPU")))
    user = "engine (OMP_NUM_THREADS, gpus_per_engine)" if uses_model else "task that grades or ranks (gpus_per_task)"
    raise HarnessError(
        f"executor ray: none of the {len(there)} nodes has {place} for each {user}; no node has more than {most}: ask "
        "for less, or add such a node"
    )


def environment_of(threads: float, gpus: float) -> dict[str, str]:
    """Return a worker's environment variables: those of this process that are passed on, and OMP_NUM_THREADS = threads.

    Passed on are those whose names begin as in `PASSED_ON`. With gpus 0 the worker sees no GPU (Ray would show all).
    """
    passed_on = {name: value for name, value in os.environ.items() if name.startswith(PASSED_ON)}
    hidden = {} if gpus else {"CUDA_VISIBLE_DEVICES": ""}
    return passed_on | {"OMP_NUM_THREADS": str(max(1, int(threads)))} | hidden


# On a node: a process first compares itself with the one that started the run. Nothing here imports ray.


@dataclass(frozen=True)
class Terms:
    """What each process that works for a run must have in common with the one that started it.

    run       the run's id
    folder    the working folder, where relative paths mean what they mean at the start
    versions  of Python, and of the distributions that have plugins
    files     path -> hash of each plugin file, and of a token in the store
    """

    run: str
    folder: str
    versions: Mapping[str, str]
    files: Mapping[str, str]

    def difference(self) -> str:
        """Return how this process differs, in a few words; "" if it does not."""
        for name, expected in self.versions.items():
            if (installed := _version(name)) != expected:
                return f"{name} {installed} there, {expected} here: install the same"
        for name, hashed in self.files.items():
            if _hashed(name) != hashed:
                return (
                    f"it does not see {name}, or another file: --store and --plugin must be on a file system that all "
                    "nodes share"
                )
        return ""


def make_terms(run: str, files: Sequence[Path]) -> Terms:
    """Return the terms that this process fulfils."""
    plugins = {
        dist.metadata["Name"] for dist in distributions() if any(point.group == GROUP for point in dist.entry_points)
    }
    versions = {name: _version(name) for name in ("Python", *sorted(plugins))}
    return Terms(run, os.getcwd(), versions, {os.path.abspath(path): _hashed(path) for path in files})


_differences: dict[str, str] = {}  # of this process, by run


def do(terms: Terms, function: Callable[[Any], Any], item: Any) -> tuple[Exception | None, Any]:
    """Call the function; return None and its result, or the exception that it raised, picklable, and None.

    First this process is compared with the one that started the run.
    """
    if terms.run not in _differences:
        with contextlib.suppress(OSError):  # without the folder a fault is shown
            os.chdir(terms.folder)
        _differences[terms.run] = terms.difference()
    if fault := _differences[terms.run]:
        return HarnessError(f"executor ray: node {platform.node()}: {fault}"), None
    try:
        return None, function(item)
    except Exception as failure:
        if not isinstance(failure, HarnessError):  # a bug: its traceback is of this process
            failure.add_note(f"on {platform.node()}:\n{''.join(traceback.format_exception(failure))}")
        try:
            pickle.loads(pickle.dumps(failure))
        except Exception:
            if isinstance(failure, HarnessError):
                return HarnessError(str(failure)), None
            return RuntimeError(f"{type(failure).__name__}: {failure}\n{failure.__notes__[0]}"), None
        return failure, None


class Worker:
    """Does one item after another in a process of its own; what its functions load stays loaded."""

    do = staticmethod(do)


def _version(name: str) -> str:
    if name == "Python":
        return ".".join(map(str, sys.version_info[:2]))
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _hashed(path: Path | str) -> str:
    """The hash of a file; "" if there is none."""
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return ""


@hookimpl
def register_executors(register: Callable[..., None]) -> None:
    """Register `ray`."""
    register("ray", "harness_plugins.executors.ray:Ray")
