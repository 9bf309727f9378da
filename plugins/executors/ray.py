"""Executor `ray`: sampling, embedding, grading and ranking on a Ray cluster; it can start one on this machine.

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
POLL_S = 1.0
GROWTH, LIBRARIES_BYTES = 1.3, 1.5e9  # of an engine on cores: weights with caches, and what torch and others take
ANSWERS_S = 10.0
OBJECTS_BYTES = 100 * 2**20  # results are None: what is made goes through the store's folder
PASSED_ON = ("OMP_", "GOMP_", "KMP_", "MKL_", "HARNESS_")  # variables of threads and of permissions (--unsafe-exec)
LONGEST_TEMPORARY = 24  # characters; Ray adds 80 for its sockets, whose paths have at most 107
LOSSES = {  # Ray's errors after which repeating the work may help
    "WorkerCrashedError": "a worker died",
    "ActorDiedError": "a worker died",
    "ActorUnavailableError": "a worker cannot be reached",
    "NodeDiedError": "a node was lost",
    "OutOfMemoryError": "a worker was ended, since its node ran out of memory",
}


@dataclass(eq=False)
class Ray:
    """Runs on a Ray cluster, in workers that keep what they load; work of a lost worker or node is repeated elsewhere.

    address           of a cluster's head, host:port; "auto": this machine's cluster; "local": a new cluster on this
                      machine, stopped at the end. Default: RAY_ADDRESS, else "local"
    workers           maximum number of workers that grade or rank at once, and the cores of a new cluster; 0: all
    engines           maximum number of models at once; 0: as many as GPUs or, without GPUs, cores and memory allow
    cpus_per_engine   cores and threads of each engine; 0: OMP_NUM_THREADS if it is set, else 1
    gpus_per_engine   GPUs of each engine; none: 1 if the cluster has any GPU, else 0
    gpus_per_task     GPUs, or a part of one, for each worker that grades or ranks
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
    _terms: dict[Path | None, Terms] = field(default_factory=dict, init=False, repr=False)
    _crew: Crew | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("workers", "engines", "cpus_per_engine", "gpus_per_engine", "gpus_per_task", "patience_s"):
            if (getattr(self, name) or 0) < 0:
                raise HarnessError(f"ray: {name} must not be negative, got {getattr(self, name):g}")

    def at_once(self) -> int:
        """Return how many items are graded or ranked at once; joins the cluster of `address` to count its cores."""
        if self.workers or self._address == "local":
            return self.workers or os.cpu_count() or 1
        return max(1, Place(1, self.gpus_per_task).fitting(self._ray.nodes()))

    def map(self, function: Callable[[T], R], items: Iterable[T], uses_model: bool) -> Iterator[R]:
        """Call function(item) for each item in workers, and yield the results in the items' order.

        uses_model   a worker is given the cores and GPUs of an engine, and ends with the call, with what it has loaded
        """
        with doing("starting Ray"):
            ray = self._ray
        nodes = ray.nodes()
        if uses_model:
            place = self._engine_place(nodes, getattr(function, "model_bytes", 0))
            user = f"each engine (cpus_per_engine={place.cpus:g}, gpus_per_engine={place.gpus:g})"
        else:
            place = Place(1, self.gpus_per_task)
            user = f"each task that grades or ranks (gpus_per_task={place.gpus:g})"
        _require_room(nodes, place, user)
        terms = self._terms_of(getattr(function, "folder", None), getattr(function, "plugin_files", ()))
        if self._crew is None or uses_model or (self._crew.terms, self._crew.place) != (terms, place):
            if self._crew:
                self._crew.dismiss()  # it holds cores
            most = self.engines if uses_model else self.workers
            self._crew = Crew(ray, terms, place, most, self.patience_s)
        try:
            yield from self._crew.results(function, list(items))
        finally:
            if uses_model or self._crew.works:
                self._crew.dismiss()
                self._crew = None

    def _engine_place(self, nodes: Sequence[Mapping[str, Any]], model_bytes: float) -> Place:
        gpus = self.gpus_per_engine
        if gpus is None:
            gpus = float(any(node["Alive"] and node["Resources"].get("GPU") for node in nodes))
        memory = 0.0 if gpus or self.engines else engine_memory(model_bytes, nodes)
        threads = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]  # results may depend on it in the last bits
        set_here = int(threads) if threads.isdigit() and int(threads) else 1
        return Place(self.cpus_per_engine or set_here, gpus, memory)

    def _terms_of(self, folder: Path | None, plugin_files: Sequence[Path]) -> Terms:
        """The terms for work in this folder, with a token that every node must see, removed as this process ends."""
        terms = self._terms.get(folder)
        if terms is None or not {*map(str, plugin_files)} <= {*terms.files}:
            run, token = uuid.uuid4().hex, None
            if folder is not None:
                token = temporary_name(folder / f"{run}.shared", os.getpid())
                write_atomically(token, run.encode())
                atexit.register(token.unlink, missing_ok=True)
            terms = self._terms[folder] = make_terms(run, token, plugin_files)
        return terms

    @property
    def _address(self) -> str:
        return self.address or os.environ.get("RAY_ADDRESS") or "local"

    @cached_property
    def _ray(self) -> Any:
        """The module `ray`, connected to the cluster."""
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
        return ray


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


@dataclass(frozen=True)
class Place:
    """What one worker gets: cores, GPUs, and bytes of memory (0: not counted)."""

    cpus: float
    gpus: float
    memory: float = 0

    def fitting(self, nodes: Sequence[Mapping[str, Any]]) -> int:
        """Return how many such workers have room on the living nodes (of `ray.nodes()`), if nothing else runs there."""
        needed = {"CPU": self.cpus, "GPU": self.gpus, "memory": int(self.memory)}
        return sum(
            min(int(node["Resources"].get(name, 0) / count) for name, count in needed.items() if count > 0)
            for node in nodes
            if node["Alive"]
        )

    def __str__(self) -> str:
        parts = [f"{count:g} {name}{'s' * (count != 1)}" for name, count in (("CPU", self.cpus), ("GPU", self.gpus))]
        return " and ".join(parts if self.gpus else parts[:1])


def engine_memory(model_bytes: float, nodes: Sequence[Mapping[str, Any]]) -> float:
    """Return the bytes that an engine on cores is given: its model's and more, or all of the largest node; 0: unknown.

    The sum is an estimate, so that one engine is tried where the node seems too small.
    """
    largest = max((node["Resources"].get("memory", 0.0) for node in nodes if node["Alive"]), default=0.0)
    return min(GROWTH * model_bytes + LIBRARIES_BYTES, largest) if model_bytes else 0.0


def _require_room(nodes: Sequence[Mapping[str, Any]], place: Place, user: str) -> None:
    if place.fitting(nodes):
        return
    there = [node["Resources"] for node in nodes if node["Alive"]]
    most = " and ".join(f"{max(int(node.get(name, 0)) for node in there)} {name}s" for name in ("CPU", "GPU"))
    raise HarnessError(
        f"executor ray: none of the {len(there)} nodes has {place} for {user}; no node has more than {most}: ask for "
        "less, or add such a node"
    )


def environment_of(threads: float, gpus: float) -> Mapping[str, str]:
    """Return a worker's environment variables: those of this process that are passed on, and OMP_NUM_THREADS = threads.

    Passed on are those whose names begin as in `PASSED_ON`. With gpus 0 the worker sees no GPU (Ray would show all).
    """
    passed_on = {name: value for name, value in os.environ.items() if name.startswith(PASSED_ON)}
    hidden = {} if gpus else {"CUDA_VISIBLE_DEVICES": ""}
    return passed_on | {"OMP_NUM_THREADS": str(max(1, int(threads)))} | hidden


# Work, given out again if a worker or a node is lost.


class Crew:
    """Workers (Ray's actors) that take one item after another; at most `most` (0: as many as the cluster has room for).

    busy   Ray's reference to a worker's current answer -> the worker, and the item's index (None: it is starting)
    """

    def __init__(self, ray: Any, terms: Terms, place: Place, most: int, patience_s: float) -> None:
        self.ray, self.terms, self.place, self.most, self.patience_s = ray, terms, place, most, patience_s
        self.idle: list[Any] = []
        self.busy: dict[Any, tuple[Any, int | None]] = {}
        self.polled_at, self.possible_at, self.room = -POLL_S, time.monotonic(), 0

    @property
    def works(self) -> bool:
        """Whether a worker is doing an item."""
        return any(index is not None for _, index in self.busy.values())

    def results(self, function: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]:
        """Yield function(item) for each item, in order.

        What the function raises is raised at once, and not tried again. The item of a lost worker is done again;
        HarnessError at its third loss, at the third worker that does not start, or when patience ends.
        """
        shared, waiting = self.ray.put(function), deque(range(len(items)))
        lost: Counter[int | None] = Counter()  # by item; None: workers that were starting
        finished: dict[int, Any] = {}
        self.possible_at, following = time.monotonic(), 0
        while following < len(items):
            self._hire(len(items) - following - len(finished))
            while waiting and self.idle:
                worker, index = self.idle.pop(), waiting.popleft()
                self.busy[worker.do.remote(shared, items[index])] = worker, index
            for answer in self._answers():
                worker, place = self.busy.pop(answer)
                try:
                    value = self.ray.get(answer)
                except self.ray.exceptions.RayError as failure:
                    lost[place] += 1
                    self._lose(worker, place, failure, lost[place])
                    if place is not None:
                        waiting.appendleft(place)
                    continue
                self.idle.append(worker)
                self.possible_at, lost[None] = time.monotonic(), 0
                if place is not None:
                    finished[place] = _result(value)
                elif value:
                    raise HarnessError(f"executor ray: {value}")
            while following in finished:
                yield finished.pop(following)
                following += 1

    def _hire(self, useful: int) -> None:
        """Start workers where there is room; HarnessError if there was none for `patience_s` seconds, and no answer."""
        now = time.monotonic()
        if now - self.polled_at >= POLL_S:
            self.room, self.polled_at = self.place.fitting(self.ray.nodes()), now
        if self.room:
            self.possible_at = now
        elif now - self.possible_at > self.patience_s:
            raise HarnessError(
                f"executor ray: for {self.patience_s:g} s no node has had {self.place}: what is finished is kept; add "
                "nodes and run the same command again"
            )
        hired = self.ray.remote(
            num_cpus=self.place.cpus,
            num_gpus=self.place.gpus,
            **({"memory": int(self.place.memory)} if self.place.memory else {}),
            runtime_env={"env_vars": dict(environment_of(self.place.cpus, self.place.gpus))},
            scheduling_strategy="SPREAD",
        )(Worker)
        while len(self.idle) + len(self.busy) < min(self.room, self.most or self.room, useful):
            worker = hired.remote(self.terms)
            self.busy[worker.fault.remote()] = worker, None

    def _answers(self) -> list[Any]:
        """The answers that are there; waits a second for a first one."""
        if not self.busy:
            time.sleep(POLL_S)
            return []
        self.ray.wait(list(self.busy), num_returns=1, timeout=POLL_S)
        ready: list[Any] = self.ray.wait(list(self.busy), num_returns=len(self.busy), timeout=0)[0]
        return ready

    def _lose(self, worker: Any, index: int | None, failure: Exception, times: int) -> None:
        """Tell that a worker is lost; HarnessError if it was so often that repeating does not help, or never could."""
        lines = [line.strip() for line in str(failure).splitlines() if line.strip()]
        name = type(failure).__name__
        reason = LOSSES.get(name) or f"{name}: {lines[-1] if lines else ''}"
        with contextlib.suppress(Exception):
            self.ray.kill(worker)
        if name not in LOSSES:
            raise HarnessError(f"executor ray: {reason}") from failure
        if index is None and times >= TRIES:
            raise HarnessError(
                f"executor ray: workers die as they start ({reason}; {lines[-1] if lines else name}): Ray's logs on "
                "the nodes say why; is diversity-harness installed, and RAY_AUTH_MODE the same, everywhere?"
            ) from failure
        if times >= TRIES:
            raise HarnessError(
                f"executor ray: the same work was lost with its worker {TRIES} times ({reason}; out of memory?): what "
                "is finished is kept; give it more room, or run the same command again"
            ) from failure
        if index is not None:
            print(f"ray: {reason}: what it was doing is done again", file=sys.stderr, flush=True)

    def dismiss(self) -> None:
        """End all workers, whatever they are doing."""
        for worker in [*self.idle, *(worker for worker, _ in self.busy.values())]:
            with contextlib.suppress(Exception):
                self.ray.kill(worker)
        self.idle.clear()
        self.busy.clear()


def _result(answer: tuple[bool, Any]) -> Any:
    well, result = answer
    if not well:
        raise result
    return result


# On a node: a process first compares itself with the one that started the run. Nothing here imports ray.


@dataclass(frozen=True)
class Terms:
    """What each process that works for a run must have in common with the one that started it.

    run      the run's id, which the file `token`, in the store, holds; "": this is not checked
    folder   the working folder, where relative paths mean what they mean at the start
    files    path -> hash of each plugin file
    """

    run: str
    folder: str
    token: str
    python: str
    versions: Mapping[str, str]
    files: Mapping[str, str]

    def difference(self) -> str:
        """Return how this process differs, in a few words; "" if it does not."""
        if self.python != _python():
            return f"Python {_python()} there, {self.python} here: install the same"
        for name, expected in self.versions.items():
            installed = "not installed"
            with contextlib.suppress(PackageNotFoundError):
                installed = version(name)
            if installed != expected:
                return f"{name} {installed} there, {expected} here: install the same"
        if self.token and _content(self.token) != self.run.encode():
            folder = Path(self.token).parent
            return f"it does not see the store's folder {folder}: --store must be on a file system that all nodes share"
        for name, hashed in self.files.items():
            if _hashed(name) != hashed:
                return (
                    f"--plugin {name} is not there, or another file: it must be on a file system that all nodes share"
                )
        return ""


def make_terms(run: str, token: Path | None, plugin_files: Sequence[Path]) -> Terms:
    """Return the terms that this process fulfils. `token`: None if no folder must be shared."""
    installed = {
        dist.metadata["Name"] for dist in distributions() if any(point.group == GROUP for point in dist.entry_points)
    }
    return Terms(
        run,
        os.getcwd(),
        str(token.absolute()) if token else "",
        _python(),
        {name: version(name) for name in sorted(installed)},
        {str(path): _hashed(str(path)) for path in plugin_files},
    )


class Worker:
    """Does one item after another; what its functions load stays loaded."""

    def __init__(self, terms: Terms) -> None:
        with contextlib.suppress(OSError):  # without the folder a fault is shown
            os.chdir(terms.folder)
        self._difference = terms.difference()

    def fault(self) -> str:
        """Return why it cannot work; "" if it can."""
        return self._difference and f"node {platform.node()}: {self._difference}"

    def do(self, function: Callable[[Any], Any], item: Any) -> tuple[bool, Any]:
        """Call the function; return (True, its result), or (False, the exception that it raised, picklable)."""
        try:
            return True, function(item)
        except Exception as failure:
            if not isinstance(failure, HarnessError):  # a bug: its traceback is of this process
                failure.add_note(f"on {platform.node()}:\n{''.join(traceback.format_exception(failure))}")
            try:
                pickle.loads(pickle.dumps(failure))
            except Exception:
                if isinstance(failure, HarnessError):
                    return False, HarnessError(str(failure))
                return False, RuntimeError(f"{type(failure).__name__}: {failure}\n{failure.__notes__[0]}")
            return False, failure


def _python() -> str:
    return ".".join(map(str, sys.version_info[:2]))


def _content(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def _hashed(path: str) -> str:
    content = _content(path)
    return hashlib.sha256(content).hexdigest() if content else ""


@hookimpl
def register_executors(register: Callable[..., None]) -> None:
    """Register `ray`."""
    register("ray", "harness_plugins.executors.ray:Ray")
