"""How work is given to a crew, and given out again when a worker is lost. A list of answers stands in for Ray."""

from types import SimpleNamespace

import pytest
from support.refusals import refusal_of

from harness import HarnessError
from harness_plugins.executors.ray import crew
from harness_plugins.executors.ray.crew import Losses, Place, run_tasks

PLACE = Place(cpus=2, gpus=1, environment={})
NODE = {"Alive": True, "Resources": {"CPU": 7.0, "GPU": 2.0}}


class WorkerCrashedError(Exception):
    """Ray's failure of a lost worker."""


class RayTaskError(WorkerCrashedError):
    """Ray's failure of a task that cannot be repeated."""


class FakeRay:
    """Tasks that are done at once; `lost` counts for each item how often its worker is lost before."""

    def __init__(self, lost=()):
        self.lost, self.running, self.most = dict(lost), 0, 0
        failures = {"TaskUnschedulableError", "ActorUnschedulableError", "TaskCancelledError", "RuntimeEnvSetupError"}
        self.exceptions = SimpleNamespace(
            RayError=WorkerCrashedError, RayTaskError=RayTaskError, **dict.fromkeys(failures, RayTaskError)
        )

    def nodes(self):
        return [NODE]

    def remote(self, **options):
        assert options["max_retries"] == 0

        def task(done):
            def submit(terms, function, item):
                self.running += 1
                self.most = max(self.most, self.running)
                return lambda: self.answer(function, item)

            return SimpleNamespace(remote=submit)

        return task

    def answer(self, function, item):
        self.running -= 1
        if self.lost.get(item):
            self.lost[item] -= 1
            raise WorkerCrashedError
        try:
            return True, function(item)
        except ZeroDivisionError as failure:
            return False, failure

    def wait(self, answers, num_returns, timeout):
        return answers[-1:], answers[:-1]  # the last one first

    def get(self, answer):
        return answer()

    def cancel(self, answer, force):
        self.running -= 1


def results(ray, function, items, most=0):
    return run_tasks(ray, {}, PLACE, most, 60, function, list(items))


class Counted:
    """A report that counts tokens too."""

    def __init__(self):
        self.units, self.sampled = [], []

    def __call__(self, units):
        self.units.append(units)

    def tokens(self, count):
        self.sampled.append(count)


def test_what_a_member_counts_is_reported_once_and_taken_back_where_it_is_lost():
    report, member = Counted(), crew._Member(None, None)
    for counted in ((0, None), (0, 0), (2, 30), (2, 30), (3, 31), (0, None)):
        member.tell(report, counted)
    assert report.units == [2, 1, -3]
    assert report.sampled == [0, 30, 1, -31]
    plain = []
    member.tell(plain.append, (4, 50))  # a report of units alone
    assert plain == [4]


def test_results_come_in_order_and_no_more_tasks_run_than_allowed():
    ray = FakeRay()
    assert list(results(ray, lambda item: -item, range(9), most=3)) == [-item for item in range(9)]
    assert ray.most == 3
    ray = FakeRay()
    assert len(list(results(ray, abs, range(9)))) == 9
    assert ray.most == crew.AHEAD * 2  # two have room on the node
    assert list(results(ray, abs, [])) == []


def test_lost_work_is_done_again_until_its_third_loss_but_not_where_repeating_cannot_help(capsys, monkeypatch):
    assert list(results(FakeRay({1: 2, 3: 1}), abs, range(5))) == [0, 1, 2, 3, 4]
    assert capsys.readouterr().err.count("ray: a worker died: what it was doing is done again") == 3
    line = refusal_of(lambda: list(results(FakeRay({1: 3}), abs, range(5))))
    assert "the same work was lost with its worker 3 times (a worker died; out of memory?)" in line
    monkeypatch.setattr(FakeRay, "get", lambda self, answer: (_ for _ in ()).throw(RayTaskError("no\n such env")))
    assert refusal_of(lambda: list(results(FakeRay(), abs, [1]))) == "executor ray: RayTaskError: such env"


def test_an_exception_is_raised_where_its_result_would_be_and_nothing_is_left_running():
    ray = FakeRay()
    received = results(ray, lambda item: 6 / (item - 3), range(100), most=4)
    assert [next(received) for _ in range(3)] == [-2, -3, -6]
    with pytest.raises(ZeroDivisionError):
        next(received)
    assert ray.running == 0


def test_workers_fit_where_cores_and_gpus_are_free_on_living_nodes():
    others = [{**NODE, "Alive": False}, {"Alive": True, "Resources": {"CPU": 64.0}}]
    assert PLACE.fitting([NODE, *others]) == 2
    assert Place(2, 0, {}).fitting([NODE, *others]) == 3 + 32
    assert (str(PLACE), str(Place(1, 0, {})), str(Place(1, 0.5, {}))) == (
        "2 CPUs and 1 GPU",
        "1 CPU",
        "1 CPU and 0.5 GPUs",
    )
    assert PLACE.options["num_gpus"] == 1


def test_a_run_waits_for_nodes_only_so_long(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(crew.time, "monotonic", lambda: clock[0])
    waiting = Losses(patience_s=60)
    clock[0] += 61
    waiting.require_room(PLACE, room=2)
    clock[0] += 60
    waiting.require_room(PLACE, room=0)
    clock[0] += 1
    with pytest.raises(HarnessError, match="for 60 s no node has had 2 CPUs and 1 GPU: what is finished is kept"):
        waiting.require_room(PLACE, room=0)
