"""Give work to a Ray cluster, and give it out again if a worker or a node is lost.

Grading and ranking are Ray tasks with one core each. Models are loaded once, in actors, which take one group after
another and hold their GPUs. Work that is lost with its process is repeated; work that is lost three times is taken to
kill its worker, and is an error. Work that raised an exception is not repeated.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness import HarnessError
from harness.contracts import tokens_of

from .worker import Counted, Terms, Worker, done

TRIES = 3
POLL_S = 1.0
AHEAD = 2  # items submitted for each core, so that the next one is ready when one is finished


@dataclass(frozen=True)
class Place:
    """What one worker gets: cores, GPUs, environment variables, and bytes of memory (0: not counted)."""

    cpus: float
    gpus: float
    environment: Mapping[str, str]
    memory: float = 0

    @property
    def options(self) -> dict[str, Any]:
        """Return cores, GPUs and environment as options of Ray's `remote`, which spreads workers over the nodes."""
        environment = {"env_vars": dict(self.environment)}
        return {
            "num_cpus": self.cpus,
            "num_gpus": self.gpus,
            **({"memory": int(self.memory)} if self.memory else {}),
            "runtime_env": environment,
            "scheduling_strategy": "SPREAD",
        }

    def fitting(self, nodes: Sequence[Mapping[str, Any]]) -> int:
        """Return how many such workers have room on the living nodes (of `ray.nodes()`), if nothing else runs there."""
        return sum(self._fitting(node["Resources"]) for node in nodes if node["Alive"])

    def _fitting(self, resources: Mapping[str, float]) -> int:
        needed = {"CPU": self.cpus, "GPU": self.gpus, "memory": int(self.memory)}
        return min(int(resources.get(name, 0) / count) for name, count in needed.items() if count > 0)

    def __str__(self) -> str:
        parts = [f"{count:g} {name}{'s' * (count != 1)}" for name, count in (("CPU", self.cpus), ("GPU", self.gpus))]
        return " and ".join(parts if self.gpus else parts[:1])


class Room:
    """The number of workers that the cluster has room for, at most `most` (0: no limit); updated every second."""

    def __init__(self, ray: Any, place: Place, most: int) -> None:
        self.ray, self.place, self.most = ray, place, most
        self.updated_at, self.workers = -POLL_S, 0

    def now(self) -> int:
        """Return the number of workers that have room, at most `most`, as it was at most a second ago."""
        if time.monotonic() - self.updated_at >= POLL_S:
            self.workers, self.updated_at = self.place.fitting(self.ray.nodes()), time.monotonic()
        return min(self.workers, self.most) if self.most else self.workers


@dataclass
class Losses:
    """Counts how often each item was lost with its worker, and stores when work was last possible."""

    patience_s: float
    tries: Counter[int] = field(default_factory=Counter)
    possible_at: float = field(default_factory=time.monotonic)

    def lost(self, index: int, failure: Exception) -> None:
        """Count a loss of the item with this index and print a line; raise HarnessError at its third loss."""
        self.tries[index] += 1
        if self.tries[index] >= TRIES:
            raise HarnessError(
                f"executor ray: the same work was lost with its worker {TRIES} times ({_reason(failure)}; out of "
                "memory?): what is finished is kept; give it more room, or run the same command again"
            ) from failure
        print(f"ray: {_reason(failure)}: what it was doing is done again", file=sys.stderr, flush=True)

    def progressed(self) -> None:
        """Record that an item was finished, or that there is room for workers."""
        self.possible_at = time.monotonic()

    def require_room(self, place: Place, room: int) -> None:
        """Raise HarnessError if `room` is 0 and for `patience_s` seconds there was no room and no item was finished.

        room   the number of workers that the cluster has room for
        """
        if room:
            self.progressed()
        elif time.monotonic() - self.possible_at > self.patience_s:
            raise HarnessError(
                f"executor ray: for {self.patience_s:g} s no node has had {place}: what is finished is kept; add nodes "
                "and run the same command again"
            )


def run_tasks(
    ray: Any, terms: Terms, place: Place, most: int, patience_s: float, function: Callable[[Any], Any], items: list[Any]
) -> Iterator[Any]:
    """Yield the function's result for each item, in order; at most `most` (0: as many as fit) run at once.

    An exception is raised where its result would be. Lost work is repeated; HarnessError at the third loss of an item.
    """
    task = ray.remote(max_retries=0, **place.options)(done)
    losses, rooms, waiting = Losses(patience_s), Room(ray, place, most), deque(range(len(items)))
    running: dict[Any, int] = {}
    results: dict[int, tuple[bool, Any]] = {}
    following = 0
    try:
        while following < len(items):
            room = rooms.now()
            while waiting and len(running) < (most or AHEAD * room):
                index = waiting.popleft()
                running[task.remote(terms, function, items[index])] = index
            losses.require_room(place, room)
            for answer in _ready(ray, list(running), POLL_S):
                index = running.pop(answer)
                try:
                    well, result = ray.get(answer)
                except ray.exceptions.RayError as failure:
                    _require_loss(ray, failure)
                    losses.lost(index, failure)
                    waiting.appendleft(index)
                else:
                    losses.progressed()
                    results[index] = well, result
                    if not well:  # raised after the results before it, as if items were done one after another
                        waiting = deque(later for later in waiting if later < index)
            while following in results:
                yield _well(*results.pop(following))
                following += 1
    finally:
        for answer in running:
            with contextlib.suppress(Exception):
                ray.cancel(answer, force=True)


@dataclass(eq=False)
class _Member:
    """An actor of a crew.

    answer    Ray's reference to the result of its current call (at first of `ready`); None if it has no work
    index     of the item that it works on
    counted   units and tokens of this item that were reported
    progress  Ray's reference to the result of `Worker.at`; None if none is awaited
    """

    actor: Any
    answer: Any
    index: int | None = None
    counted: Counted = (0, None)
    progress: Any = None

    def tell(self, report: Callable[[int], None], counted: Counted) -> None:
        """Report what is counted beyond what was reported before; less if it was lost."""
        (units, tokens), (units_before, tokens_before), self.counted = counted, self.counted, counted
        if tokens != tokens_before:
            tokens_of(report)((tokens or 0) - (tokens_before or 0))
        if units != units_before:
            report(units - units_before)


class Crew:
    """The actors of one stage of a run; they keep the models that they load."""

    def __init__(self, ray: Any, terms: Terms, place: Place, most: int, patience_s: float) -> None:
        self.ray, self.terms, self.place = ray, terms, place
        self.rooms = Room(ray, place, most)
        self.losses = Losses(patience_s)
        self.members: list[_Member] = []
        self.failed_starts = 0

    def run(
        self, function: Callable[[Any, Callable[[int], None]], Any], items: list[Any], report: Callable[[int], None]
    ) -> None:
        """Call function(item, report) for each item in an actor, and `report` here with the units that actors finish.

        If an actor is lost, its item is repeated, and `report` is first called with minus the units reported for it.
        """
        waiting = deque(range(len(items)))
        try:
            while waiting or any(member.index is not None for member in self.members):
                busy = sum(member.index is not None for member in self.members)
                self._start_workers(len(waiting) + busy)
                for member in self.members:
                    if waiting and member.answer is None:
                        self._assign(member, function, waiting.popleft(), items)
                for member in self._finished():
                    lost = self._take(member, report)
                    if lost is not None:
                        waiting.appendleft(lost)
                self._count(report)
        finally:
            for member in self.members:
                with contextlib.suppress(Exception):
                    self.ray.kill(member.actor)
            self.members.clear()

    def _start_workers(self, useful: int) -> None:
        room = self.rooms.now()
        self.losses.require_room(self.place, room)
        worker = self.ray.remote(
            max_restarts=0, max_task_retries=0, concurrency_groups={"watch": 1}, **self.place.options
        )(Worker)
        while len(self.members) < min(room, useful):
            actor = worker.remote()
            self.members.append(_Member(actor, actor.ready.remote()))

    def _assign(self, member: _Member, function: Callable[..., Any], index: int, items: list[Any]) -> None:
        member.index, member.counted = index, (0, None)
        member.answer = member.actor.do.remote(self.terms, index, function, items[index])

    def _finished(self) -> list[_Member]:
        """Return the members whose call has ended."""
        busy = {member.answer: member for member in self.members if member.answer is not None}
        return [busy[answer] for answer in _ready(self.ray, list(busy), POLL_S)]

    def _take(self, member: _Member, report: Callable[[int], None]) -> int | None:
        """Take a member's result; if the member is gone, remove it and return the index of the lost item."""
        index = member.index
        try:
            answer = self.ray.get(member.answer)
        except self.ray.exceptions.RayError as failure:
            _require_loss(self.ray, failure)
            self._remove(member, failure, report)
            return index
        self.failed_starts = 0
        self.losses.progressed()
        if index is not None:
            well, result, counted = answer
            _well(well, result)
            member.tell(report, counted)
        member.index = member.answer = member.progress = None
        return None

    def _remove(self, member: _Member, failure: Exception, report: Callable[[int], None]) -> None:
        self.members.remove(member)
        with contextlib.suppress(Exception):
            self.ray.kill(member.actor)
        if member.index is not None:
            member.tell(report, (0, None))
            self.losses.lost(member.index, failure)
            return
        self.failed_starts += 1
        if self.failed_starts >= TRIES:
            raise HarnessError(
                f"executor ray: workers die as they start ({_reason(failure)}): Ray's logs on the nodes say why; is "
                "RAY_AUTH_MODE the same everywhere?"
            ) from failure

    def _count(self, report: Callable[[int], None]) -> None:
        """Report the units that members have finished since the last time, without waiting for any member."""
        for member in self.members:
            if member.index is None:
                continue
            if member.progress is not None and _ready(self.ray, [member.progress], 0):
                with contextlib.suppress(self.ray.exceptions.RayError):
                    index, counted = self.ray.get(member.progress)
                    if index == member.index:
                        member.tell(report, counted)
                member.progress = None
            if member.progress is None:
                member.progress = member.actor.at.options(concurrency_group="watch").remote()


def _ready(ray: Any, answers: list[Any], timeout_s: float) -> list[Any]:
    """Return the answers that are ready; wait up to `timeout_s` for a first one, also if there are no answers."""
    if not answers:
        time.sleep(timeout_s)
        return []
    ray.wait(answers, num_returns=1, timeout=timeout_s)
    ready: list[Any] = ray.wait(answers, num_returns=len(answers), timeout=0)[0]
    return ready


def _well(well: bool, result: Any) -> Any:
    if not well:
        raise result
    return result


def _require_loss(ray: Any, failure: Exception) -> None:
    """Raise HarnessError unless the failure is a lost worker or node, after which repeating the work may help."""
    errors = ray.exceptions
    hopeless = (
        errors.RayTaskError,
        errors.RuntimeEnvSetupError,
        errors.TaskUnschedulableError,
        errors.ActorUnschedulableError,
        errors.TaskCancelledError,
    )
    if isinstance(failure, hopeless):
        raise HarnessError(f"executor ray: {_reason(failure)}") from failure


def _reason(failure: Exception) -> str:
    """Return Ray's reason in a few words, without its advice."""
    reasons = {
        "WorkerCrashedError": "a worker died",
        "ActorDiedError": "a worker died",
        "ActorUnavailableError": "a worker cannot be reached",
        "NodeDiedError": "a node was lost",
        "OutOfMemoryError": "a worker was ended, since its node ran out of memory",
    }
    name = type(failure).__name__
    lines = [line.strip() for line in str(failure).splitlines() if line.strip()]
    return reasons.get(name) or f"{name}: {lines[-1] if lines else ''}"
