"""Handing work to a Ray cluster, and handing it out again where a worker or a node was lost.

Grading and ranking are Ray tasks, one core each, wherever there is room. Models live in actors, which load them once
and take a group after the other; each holds the GPUs it was given. What is lost with its process is done again; what is
lost three times kills its worker itself. An error that the work raised is never tried again.
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

from .worker import Terms, Worker, done

TRIES = 3
POLL_S = 1.0
AHEAD = 2  # items under way for each core: the next one is there when one is finished


@dataclass(frozen=True)
class Place:
    """What one worker is given: cores, GPUs, and its environment."""

    cpus: float
    gpus: float
    environment: Mapping[str, str]

    @property
    def options(self) -> dict[str, Any]:
        """As Ray takes them."""
        environment = {"env_vars": dict(self.environment)}
        return {
            "num_cpus": self.cpus,
            "num_gpus": self.gpus,
            "runtime_env": environment,
            "scheduling_strategy": "SPREAD",
        }

    def fitting(self, nodes: Sequence[Mapping[str, Any]]) -> int:
        """How many of them the cluster's living nodes have room for."""
        return sum(self._fitting(node["Resources"]) for node in nodes if node["Alive"])

    def _fitting(self, resources: Mapping[str, float]) -> int:
        wanted = {"CPU": self.cpus, "GPU": self.gpus}
        return min(int(resources.get(name, 0) / count) for name, count in wanted.items() if count > 0)

    def __str__(self) -> str:
        parts = [f"{count:g} {name}{'s' * (count != 1)}" for name, count in (("CPU", self.cpus), ("GPU", self.gpus))]
        return " and ".join(parts if self.gpus else parts[:1])


class Room:
    """How many workers the cluster has room for, at most `most` (0: no such bound); asked once a second."""

    def __init__(self, ray: Any, place: Place, most: int) -> None:
        self.ray, self.place, self.most = ray, place, most
        self.asked, self.found = -POLL_S, 0

    def now(self) -> int:
        """The number, at most a second old: nodes come and go."""
        if time.monotonic() - self.asked >= POLL_S:
            self.found, self.asked = self.place.fitting(self.ray.nodes()), time.monotonic()
        return min(self.found, self.most) if self.most else self.found


@dataclass
class Losses:
    """How often each item was lost with its worker, and since when nothing has been done at all."""

    patience_s: float
    tries: Counter[int] = field(default_factory=Counter)
    seen: float = field(default_factory=time.monotonic)

    def lost(self, index: int, failure: Exception) -> None:
        """Say that an item is to be done again; HarnessError where it was lost too often."""
        self.tries[index] += 1
        if self.tries[index] >= TRIES:
            raise HarnessError(
                f"executor ray: the same work was lost with its worker {TRIES} times ({_reason(failure)}; out of "
                "memory?): what is finished is kept; give it more room, or run the same command again"
            ) from failure
        print(f"ray: {_reason(failure)}: what it was doing is done again", file=sys.stderr, flush=True)

    def progressed(self) -> None:
        """Something was done."""
        self.seen = time.monotonic()

    def require_hope(self, place: Place, room: int) -> None:
        """Raise HarnessError where nothing could run for as long as one is ready to wait."""
        if room:
            self.progressed()
        elif time.monotonic() - self.seen > self.patience_s:
            raise HarnessError(
                f"executor ray: for {self.patience_s:g} s no node has had {place}: what is finished is kept; add nodes "
                "and run the same command again"
            )


def run_tasks(
    ray: Any, terms: Terms, place: Place, most: int, patience_s: float, function: Callable[[Any], Any], items: list[Any]
) -> Iterator[Any]:
    """What the function gives for each item, in order; at most `most` (0: as many as fit) run at once."""
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
            losses.require_hope(place, room)
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
                    if not well:  # raised in its turn, as where one item is done after the other
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
    """An actor. `answer`: what it was asked last (at first, to be there); `index`: of the item that it works on."""

    actor: Any
    answer: Any
    index: int | None = None
    counted: int = 0
    said: Any = None


class Crew:
    """Workers that keep what they load, for one stage of a run."""

    def __init__(self, ray: Any, terms: Terms, place: Place, most: int, patience_s: float) -> None:
        self.ray, self.terms, self.place = ray, terms, place
        self.rooms = Room(ray, place, most)
        self.losses = Losses(patience_s)
        self.members: list[_Member] = []
        self.stillborn = 0

    def run(
        self, function: Callable[[Any, Callable[[int], None]], Any], items: list[Any], report: Callable[[int], None]
    ) -> None:
        """Call the function with each item; units that a worker reports are reported here, once for each item."""
        waiting = deque(range(len(items)))
        try:
            while waiting or any(member.index is not None for member in self.members):
                busy = sum(member.index is not None for member in self.members)
                self._hire(len(waiting) + busy)
                for member in self.members:
                    if waiting and member.answer is None:
                        self._ask(member, function, waiting.popleft(), items)
                for member in self._answered():
                    lost = self._take(member, report)
                    if lost is not None:
                        waiting.appendleft(lost)
                self._count(report)
        finally:
            for member in self.members:
                with contextlib.suppress(Exception):
                    self.ray.kill(member.actor)
            self.members.clear()

    def _hire(self, useful: int) -> None:
        room = self.rooms.now()
        self.losses.require_hope(self.place, room)
        hired = self.ray.remote(
            max_restarts=0, max_task_retries=0, concurrency_groups={"watch": 1}, **self.place.options
        )(Worker)
        while len(self.members) < min(room, useful):
            actor = hired.remote()
            self.members.append(_Member(actor, actor.ready.remote()))

    def _ask(self, member: _Member, function: Callable[..., Any], index: int, items: list[Any]) -> None:
        member.index, member.counted = index, 0
        member.answer = member.actor.do.remote(self.terms, index, function, items[index])

    def _answered(self) -> list[_Member]:
        asked = {member.answer: member for member in self.members if member.answer is not None}
        return [asked[answer] for answer in _ready(self.ray, list(asked), POLL_S)]

    def _take(self, member: _Member, report: Callable[[int], None]) -> int | None:
        """Take what a member answered; the index of what was lost, where the member is gone."""
        index = member.index
        try:
            answer = self.ray.get(member.answer)
        except self.ray.exceptions.RayError as failure:
            _require_loss(self.ray, failure)
            self._dismiss(member, failure, report)
            return index
        self.stillborn = 0
        self.losses.progressed()
        if index is not None:
            well, result, units = answer
            _well(well, result)
            report(units - member.counted)
        member.index = member.answer = member.said = None
        return None

    def _dismiss(self, member: _Member, failure: Exception, report: Callable[[int], None]) -> None:
        self.members.remove(member)
        with contextlib.suppress(Exception):
            self.ray.kill(member.actor)
        if member.index is not None:
            if member.counted:
                report(-member.counted)
            self.losses.lost(member.index, failure)
            return
        self.stillborn += 1
        if self.stillborn >= TRIES:
            raise HarnessError(
                f"executor ray: workers die as they start ({_reason(failure)}): Ray's logs on the nodes say why; is "
                "RAY_AUTH_MODE the same everywhere?"
            ) from failure

    def _count(self, report: Callable[[int], None]) -> None:
        """Report what the members have finished since they were last asked; nobody is waited for."""
        for member in self.members:
            if member.index is None:
                continue
            if member.said is not None and _ready(self.ray, [member.said], 0):
                with contextlib.suppress(self.ray.exceptions.RayError):
                    index, units = self.ray.get(member.said)
                    if index == member.index and units > member.counted:
                        report(units - member.counted)
                        member.counted = units
                member.said = None
            if member.said is None:
                member.said = member.actor.at.options(concurrency_group="watch").remote()


def _ready(ray: Any, answers: list[Any], timeout_s: float) -> list[Any]:
    """Those that are there; waits for one, so long, and where there is nothing to wait for too."""
    if not answers:
        time.sleep(timeout_s)
        return []
    ray.wait(answers, num_returns=1, timeout=timeout_s)
    there: list[Any] = ray.wait(answers, num_returns=len(answers), timeout=0)[0]
    return there


def _well(well: bool, result: Any) -> Any:
    if not well:
        raise result
    return result


def _require_loss(ray: Any, failure: Exception) -> None:
    """Raise HarnessError unless it was the machinery that failed, and trying again may help."""
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
    """What Ray says, without its pages of advice."""
    known = {
        "WorkerCrashedError": "a worker died",
        "ActorDiedError": "a worker died",
        "ActorUnavailableError": "a worker cannot be reached",
        "NodeDiedError": "a node was lost",
        "OutOfMemoryError": "a worker was ended, since its node ran out of memory",
    }
    name = type(failure).__name__
    lines = [line.strip() for line in str(failure).splitlines() if line.strip()]
    return known.get(name) or f"{name}: {lines[-1] if lines else ''}"
