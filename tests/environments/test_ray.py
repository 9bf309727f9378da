"""Executor ray on real clusters of this machine: the bytes of a local run, whatever dies, and one line a fault.

One cluster of two nodes and one process for commands serve all tests but those of a run with a cluster of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest
from support.command_session import CommandSession
from support.paths import SUPPORT, TOY
from support.processes import alive, descendants, harness_command, wait_for
from support.stores import files_of, results_of
from support.training_runs import COUNTING, counted_run

if find_spec("ray") is None:  # not imported: it is used in processes of its own
    pytest.skip("needs ray", allow_module_level=True)
pytestmark = pytest.mark.slow
HANGS_S = 300  # a shared machine is slow; nothing here waits for it in vain
# Loopback alone, whatever network there is; one thread, as `make test` has it.
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "OMP_NUM_THREADS": "1"}
SELECTORS = ("--selector", "spread", "--selector", "shuffle")


def environment(**more: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    return inherited | QUIET | more


class Nodes:
    """A cluster's nodes; `executor` joins it."""

    def __init__(self) -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        self.process = subprocess.Popen([sys.executable, SUPPORT / "ray_nodes.py"], env=environment(), **pipes)

    def add(self) -> int:
        """Add a node of one core; the process id of its raylet."""
        print(json.dumps({"cpus": 1}), file=self.process.stdin, flush=True)
        added = json.loads(self.process.stdout.readline())
        self.executor = f"ray:address={added['address']}"
        return added["raylet"]

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait(HANGS_S)
        self.process.stdout.close()


@pytest.fixture(scope="module")
def cluster():
    nodes = Nodes()
    nodes.add()
    nodes.add()
    yield nodes
    nodes.close()


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """A process that runs commands one after another."""
    session = CommandSession(tmp_path_factory.mktemp("session"), environment())
    yield session
    session.close()


def marked(folder: Path) -> Path:
    """A copy of the plugin of gates and faults, under a name of its own, in a new folder for its marks."""
    (folder / "marks").mkdir()
    return Path(shutil.copy(SUPPORT / "gated_engine.py", folder / "marks" / f"gated_{folder.name}.py"))


@pytest.fixture
def marks(tmp_path):
    return marked(tmp_path)


def arguments(store: Path, executor: str, *more: object, engine: str = "toy:group=2", plugin: Path | str = TOY):
    plugins = () if plugin == TOY else ("--plugin", plugin)
    fixed = ("run", "--task", "colours", "--engine", engine, "--plugin", TOY, *plugins, "--store", store, "--json")
    return [*fixed, "--executor", executor, *(() if "--selector" in more else SELECTORS), *more]


@pytest.fixture(scope="module")
def here(session, tmp_path_factory):
    """A local run of the gated engine, whose gate is open: its table and its store."""
    folder = tmp_path_factory.mktemp("here")
    marks = marked(folder)
    open_gate(marks)
    done = session.run(*arguments(folder / "runs", "local", engine="gated", plugin=marks))
    assert done.code == 0, done.err
    return done.out, results_of(folder / "runs")


def results(store: Path) -> dict[str, bytes]:
    """All files but the one by which the workers know the store, which is removed as the session ends."""
    return {name: content for name, content in results_of(store).items() if not name.endswith(".shared.tmp")}


def sampled(store: Path) -> int:
    return len(files_of(store, "responses"))


def waiting(marks: Path) -> list[int]:
    """The processes that wait at the gate."""
    return [int(path.name.partition("-")[2]) for path in marks.parent.glob("waiting-*")]


def open_gate(marks: Path) -> None:
    (marks.parent / "open").touch()


# The bytes of a local run.


def test_a_cluster_gives_the_table_and_the_bytes_of_a_local_run_with_relative_paths_too(
    cluster, session, here, marks, tmp_path
):
    open_gate(marks)
    options = {"engine": "gated", "plugin": marks.relative_to(tmp_path)}
    done = session.run(*arguments(Path("runs"), cluster.executor, **options), folder=tmp_path)
    assert done.code == 0, done.err
    assert done.out == here[0]
    assert results(tmp_path / "runs") == here[1]


def test_an_evaluation_by_two_engines_has_the_bytes_of_one_and_fewer_engines_than_asked_are_told(
    cluster, session, tmp_path
):
    run = counted_run(tmp_path / "trained", 1)
    small = ["rl", "eval", run.folder, "--n", 8, "--max-tokens", 64, "--plugin", COUNTING, "--json"]
    two = f"{cluster.executor},engines=2"

    def evaluated(executor: str, limit: int) -> tuple[str, dict[str, bytes], str]:
        store = tmp_path / f"{limit}-{executor.partition(':')[0]}"
        done = session.run(*small, "--limit", limit, "--executor", executor, "--store", store)
        assert done.code == 0, done.err
        return done.out, results(store), done.err

    here, there = evaluated("local", 8), evaluated(two, 8)  # of 8 rows: a batch of the engine holds all 8 problems
    assert here[:2] == there[:2]
    assert any("vectors." in name for name in here[1])
    assert "engines" not in there[2]
    few = evaluated(two, 1)[2].splitlines()
    assert [line for line in few if "engines" in line] == [
        "ray: 1 of 2 engines are started: there are no more groups of problems (a smaller batch of the engine makes "
        "more: docs/cluster.md)"
    ] * 2  # for each policy


def test_a_killed_node_loses_nothing_and_the_bytes_are_those_of_a_local_run(cluster, session, here, marks, tmp_path):
    raylet = cluster.add()
    store = tmp_path / "runs"
    err = session.start(*arguments(store, cluster.executor, engine="gated:group=1", plugin=marks))
    wait_for(lambda: {*waiting(marks)} & {*descendants(raylet)}, HANGS_S, "work on the third node")
    for pid in (raylet, *({*waiting(marks)} & {*descendants(raylet)})):
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: "what it was doing is done again" in err.read_text(), HANGS_S, "the loss")
    open_gate(marks)
    done = session.finish()
    assert done.code == 0, done.err
    assert done.out == here[0]
    assert results(store) == here[1]


# Faults.


def test_what_a_plugin_raises_arrives_as_from_a_local_run_and_is_not_tried_again(cluster, session, marks, tmp_path):
    for executor in ("local", cluster.executor):
        options = {"engine": "faulty:group=6", "plugin": marks}
        done = session.run(*arguments(tmp_path / executor[:3], executor, **options))
        assert done.code == 2
        assert "error: faulty: no ink left; fill it up" in done.err.splitlines()
    assert (marks.parent / "calls").read_text() == "xx"  # once each


MAPPED = """
import os
from harness import HarnessError
from harness_plugins.executors.ray import Ray
ray = Ray(workers=1)
for uses_model in (True, False):
    print(list(ray.map(abs, range(-9, 0), uses_model)))
    try:
        list(ray.map(os._exit, [1], uses_model))
    except HarnessError as failure:
        print(failure)
"""


def test_results_come_in_order_and_work_that_kills_its_worker_three_times_is_one_line():
    done = subprocess.run([sys.executable, "-c", MAPPED], env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[::2] == [str(list(range(9, 0, -1)))] * 2
    assert all("the same work was lost with its worker 3 times" in line for line in lines[1::2])
    assert done.stderr.count("what it was doing is done again") == 4


# A cluster that the run starts itself.


@pytest.fixture
def own_run(marks, tmp_path):
    """A run with its own cluster, whose worker has sampled one problem and waits; and the processes below it."""
    with tempfile.TemporaryDirectory(prefix="t", dir="/tmp", ignore_cleanup_errors=True) as short:  # of Ray's sockets
        line = harness_command(*arguments(tmp_path / "runs", "ray:workers=1", engine="gated:group=1", plugin=marks))
        process = subprocess.Popen(
            line, stderr=subprocess.PIPE, text=True, env=environment(TMPDIR=short), start_new_session=True
        )
        wait_for(lambda: waiting(marks), HANGS_S, "a worker that waits")
        commands = {}
        for pid in descendants(process.pid):
            with contextlib.suppress(OSError):
                commands[pid] = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
        assert any("raylet" in command for command in commands.values())
        yield process, commands, Path(short)
        process.kill()
        process.communicate()


def test_an_interrupted_run_leaves_nothing_running_and_goes_on_where_it_was(own_run, session, here, marks, tmp_path):
    process, commands, short = own_run
    os.killpg(process.pid, signal.SIGINT)  # as a terminal sends it: to all of the group
    _, err = process.communicate(timeout=HANGS_S)
    assert process.returncode == 130, err
    assert "interrupted: what is finished is kept" in err
    assert "Traceback" not in err
    wait_for(lambda: not any(map(alive, commands)), HANGS_S, f"the end of {commands}")
    assert not list(short.iterdir())
    store = tmp_path / "runs"
    assert sampled(store) == 1
    open_gate(marks)
    again = session.run(*arguments(store, "local", engine="gated:group=1", plugin=marks))
    assert "pool: reused for 1 of 6 problems" in again.err
    assert again.out == here[0]
    assert results_of(store) == here[1]


def test_a_run_killed_with_sigkill_takes_its_own_cluster_with_it(own_run):
    process, commands, _ = own_run
    process.kill()
    process.wait()
    # Ray's two agents try for a minute to tell the dead head that their node is dead, and then end too.
    others = [pid for pid, command in commands.items() if "Agent" not in command]
    wait_for(lambda: not any(map(alive, others)), HANGS_S, "the end of the cluster")
