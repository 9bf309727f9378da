"""Executor ray on real clusters of this machine: the bytes of a local run, whatever dies, and one line a fault.

One cluster of two nodes and one process for commands serve all tests but those of a run with a cluster of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.paths import SUPPORT, TOY
from support.processes import alive, descendants, harness_command, run_to_end, wait_for
from support.stores import files_of, results_of
from support.training_runs import COUNTING, counted_run

if find_spec("ray") is None:  # not imported: it is used in processes of its own
    pytest.skip("needs ray", allow_module_level=True)
pytestmark = pytest.mark.slow
HANGS_S = 300  # a shared machine is slow; nothing here waits for it in vain
# Loopback alone, whatever network there is; one thread, as `make test` has it.
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "OMP_NUM_THREADS": "1"}
QUIET |= {"RAY_raylet_start_wait_time_s": "240"}
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"} | QUIET

NODES = """
import json, sys
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=False)
for _ in sys.stdin:
    node = cluster.add_node(num_cpus=1, object_store_memory=80 * 2**20, include_dashboard=False)
    print(json.dumps([cluster.address, node.all_processes["raylet"][0].process.pid]), flush=True)
cluster.shutdown()
"""
COMMANDS = """
import json, os, sys
from harness.cli import main
answers = os.fdopen(os.dup(1), "w")
for line in sys.stdin:
    folder, files, *arguments = json.loads(line)
    for descriptor, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(f"{files}/{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
    os.chdir(folder)
    sys.argv, code = ["harness", *arguments], 0
    try:
        main()
    except SystemExit as stop:
        code = stop.code or 0
    sys.stdout.flush()
    sys.stderr.flush()
    print(code, file=answers, flush=True)
"""


class Program:
    """A Python program that answers each line of JSON with one."""

    def __init__(self, code: str) -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        self.process = subprocess.Popen([sys.executable, "-c", code], env=ENVIRONMENT, **pipes)

    def ask(self, *question: object) -> None:
        print(json.dumps([*map(str, question)]), file=self.process.stdin, flush=True)

    def answer(self) -> Any:
        wait_for(lambda: select.select([self.process.stdout], [], [], 1.0)[0], HANGS_S, "an answer")
        return json.loads(self.process.stdout.readline())


@contextlib.contextmanager
def running(code: str):
    program = Program(code)
    with program.process:  # which closes its input and waits
        yield program


@pytest.fixture(scope="module")
def cluster():
    """A cluster of two nodes of one core: `executor` joins it, `add()` adds a node and returns its raylet's pid."""
    with running(NODES) as nodes:

        def add() -> int:
            nodes.ask()
            address, raylet = nodes.answer()
            there.executor = f"ray:address={address}"
            return raylet

        there = SimpleNamespace(add=add)
        add()
        add()
        yield there


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """A process that runs commands one after another, so that it joins a cluster once and its workers stay."""
    files = tmp_path_factory.mktemp("session")
    with running(COMMANDS) as commands:

        def finish():
            code = commands.answer()
            return SimpleNamespace(code=code, out=(files / "out").read_text(), err=(files / "err").read_text())

        def run(*arguments: object, folder: Path = files):
            commands.ask(folder, files, *arguments)
            return finish()

        yield SimpleNamespace(
            run=run, start=lambda *words: commands.ask(files, files, *words), finish=finish, err=files / "err"
        )


def marked(folder: Path) -> Path:
    """A copy of the plugin of gates and faults, under a name of its own, in a new folder for its marks."""
    (folder / "marks").mkdir()
    return Path(shutil.copy(SUPPORT / "gated_engine.py", folder / "marks" / f"gated_{folder.name}.py"))


@pytest.fixture
def marks(tmp_path):
    return marked(tmp_path)


def arguments(store: Path, executor: str, plugin: Path, engine: str = "gated:group=1") -> list[object]:
    words = ["run", "--task", "colours", "--engine", engine, "--plugin", TOY, "--plugin", plugin, "--store", store]
    return [*words, "--json", "--executor", executor, "--selector", "spread", "--selector", "shuffle"]


@pytest.fixture(scope="module")
def here(session, tmp_path_factory):
    """A local run of the gated engine, whose gate is open: its table and its store."""
    folder = tmp_path_factory.mktemp("here")
    marks = marked(folder)
    open_gate(marks)
    done = session.run(*arguments(folder / "runs", "local", marks, "gated"))
    assert done.code == 0, done.err
    return done.out, results_of(folder / "runs")


def results(store: Path) -> dict[str, bytes]:
    """All files but the one by which the workers know the store, which is removed as the session ends."""
    return {name: content for name, content in results_of(store).items() if not name.endswith(".shared.tmp")}


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
    options = arguments(Path("runs"), cluster.executor, marks.relative_to(tmp_path), "gated")
    done = session.run(*options, folder=tmp_path)
    assert done.code == 0, done.err
    assert (done.out, results(tmp_path / "runs")) == here


def test_an_evaluation_by_two_engines_has_the_bytes_of_one_and_fewer_engines_than_asked_are_told(
    cluster, session, tmp_path
):
    run = counted_run(tmp_path / "trained", 1)
    small = ["--n", 8, "--max-tokens", 64, "--limit", 8, "--no-base", "--no-likelihood", "--json"]
    done, stores = [], []
    for executor in ("local", f"{cluster.executor},engines=3"):
        stores.append(tmp_path / executor[:3])
        command = ["rl", "eval", run.folder, *small, "--plugin", COUNTING, "--executor", executor]
        done.append(session.run(*command, "--store", stores[-1]))
        assert done[-1].code == 0, done[-1].err
    assert done[0].out == done[1].out
    assert results(stores[0]) == results(stores[1])
    assert any("vectors." in name for name in results(stores[0]))
    few = "ray: 2 of 3 engines are started: there is room for 2, of 1 CPUs each"
    assert [few] == [line for line in done[1].err.splitlines() if "engines" in line]


def test_a_killed_node_loses_nothing_and_the_bytes_are_those_of_a_local_run(cluster, session, here, marks, tmp_path):
    raylet = cluster.add()
    session.start(*arguments(tmp_path / "runs", cluster.executor, marks))
    wait_for(lambda: {*waiting(marks)} & {*descendants(raylet)}, HANGS_S, "work on the third node")
    for pid in (raylet, *({*waiting(marks)} & {*descendants(raylet)})):
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: "what it was doing is done again" in session.err.read_text(), HANGS_S, "the loss")
    open_gate(marks)
    done = session.finish()
    assert done.code == 0, done.err
    assert (done.out, results(tmp_path / "runs")) == here


# Faults.


def test_what_a_plugin_raises_arrives_as_from_a_local_run_and_is_not_tried_again(cluster, session, marks, tmp_path):
    for executor in ("local", cluster.executor):
        done = session.run(*arguments(tmp_path / executor[:3], executor, marks, "faulty:group=6"))
        assert done.code == 2
        assert "error: faulty: no ink left; fill it up" in done.err.splitlines()
    assert (marks.parent / "calls").read_text() == "xx"  # once each


MAPPED = """
import os, sys
from harness import HarnessError
from harness_plugins.executors.ray import Ray
ray = Ray(address=sys.argv[1], workers=1)
for uses_model in (True, False):
    print(list(ray.map(abs, range(-9, 0), uses_model)))
    try:
        list(ray.map(os._exit, [1], uses_model))
    except HarnessError as failure:
        print(failure)
"""


def test_results_come_in_order_and_work_that_kills_its_worker_three_times_is_one_line(cluster):
    done = run_to_end([sys.executable, "-c", MAPPED, cluster.executor.partition("=")[2]], env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[::2] == [str(list(range(9, 0, -1)))] * 2
    assert all("the same work was lost with its worker 3 times" in line for line in lines[1::2])
    assert done.stderr.count("what it was doing is done again") >= 4  # a neighbour may be lost with a worker


# A cluster that the run starts itself.


@pytest.fixture
def own_run(marks, tmp_path):
    """A run with its own cluster, whose worker has sampled one problem and waits; and the processes below it."""
    with tempfile.TemporaryDirectory(prefix="t", dir="/tmp", ignore_cleanup_errors=True) as short:  # of Ray's sockets
        line, environment = arguments(tmp_path / "runs", "ray:workers=1", marks), ENVIRONMENT | {"TMPDIR": short}
        process = subprocess.Popen(
            harness_command(*line), stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
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
    assert len(files_of(tmp_path / "runs", "responses")) == 1
    open_gate(marks)
    again = session.run(*arguments(tmp_path / "runs", "local", marks))
    assert "pool: reused for 1 of 6 problems" in again.err
    assert (again.out, results_of(tmp_path / "runs")) == here


def test_a_run_killed_with_sigkill_takes_its_own_cluster_with_it(own_run):
    process, commands, _ = own_run
    process.kill()
    process.wait()
    # Ray's two agents try for a minute to tell the dead head that their node is dead, and then end too.
    others = [pid for pid, command in commands.items() if "Agent" not in command]
    wait_for(lambda: not any(map(alive, others)), HANGS_S, "the end of the cluster")
