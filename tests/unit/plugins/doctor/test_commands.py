"""`harness doctor`: what is installed, where programs are graded, what is wrong, in plugins and in a store."""

import pytest
from support.json_lines import write_json_lines
from support.paths import TOY
from support.refusals import error_line
from support.stores import contents, files_of

from harness_plugins.doctor.commands import of_plugins

KEYED = ("--task", "keyed", "--engine", "toy", "--plugin", TOY)


def test_tasks_with_one_remark_share_a_line_and_faults_stand_last():
    graders = {"one": "sandbox: bwrap", "two": "sandbox: bwrap", "three": "cannot grade on this machine: no weights"}
    report = {"registered": {"task": 3, "report": 1}, "graders": graders, "faults": []}
    report["lacking"] = {"tar not installed: get tar": ["engine x", "embedder y"]}
    assert of_plugins(report) == (
        "installed: 3 tasks, 1 report\n\ngrading on this machine:\n  one, two: sandbox: bwrap\n"
        "  three: cannot grade on this machine: no weights\n\nlacking on this machine:\n"
        "  engine x, embedder y: tar not installed: get tar\n\nno plugin has a fault"
    )
    report |= {"graders": {}, "lacking": {}, "faults": [{"fault": "task 'four' is broken", "trace": "Traceback\n"}]}
    assert of_plugins(report).endswith("\n\ntask 'four' is broken\nTraceback\n\nfaults of plugins: 1")


@pytest.fixture
def doctor(harness, tmp_path):
    return lambda *options: harness("doctor", "--store", tmp_path / "runs", *options)


def test_all_damage_of_a_store_is_listed_with_what_to_do_and_a_run_then_makes_the_same_again(harness, doctor, tmp_path):
    store = tmp_path / "runs"
    given = ("--n", "4", "--embedder", "letters", "--selector", "spread", "--audit", "--json")
    rows = harness("run", *KEYED, *given, "--store", store).rows
    before = contents(store)
    costly, cell = files_of(store, "responses")[2], next(store.glob("cells/*.json"))
    derived = [files_of(store, kind)[1] for kind in ("vectors", "verdicts", "audits", "orders", "choices")]
    derived += [next(store.glob(name)) for name in ("*/verdicts.*/column.json", "*/pool.json", "memo/*/test_1.*")]
    swapped = files_of(store, "verdicts")[2]  # holds another problem's rows
    for path in (costly, cell, *derived):
        path.write_bytes(path.read_bytes().replace(b'"', b" ", 1)[:-2] + b"zz")
    swapped.write_bytes(files_of(store, "verdicts")[3].read_bytes())
    listed = doctor("--json")
    assert listed.code == 1
    assert {fault["path"]: fault["cure"] for fault in listed.rows["faults"]} == {
        **{str(path): "delete it; the next run makes it again" for path in (*derived, swapped)},
        str(cell): "move it away",
        str(costly): "move it away; its problem is then sampled again",
    }
    for path in (costly, cell, *derived, swapped):
        path.unlink()
    assert harness("run", *KEYED, *given, "--store", store).rows == rows
    assert contents(store).keys() == before.keys()
    harness("run", "--until-correct", *KEYED, "--limit", "2", "--store", store)
    sound = doctor()
    assert (sound.code, sound.out.splitlines()[-1].endswith("0 faults")) == (0, True)
    assert sound.out.startswith(f"{len(contents(store)) - 2} files of")  # all but .lock and store.json
    assert "is no store" in error_line(harness("doctor", "--store", tmp_path))


def test_an_imported_pool_is_imported_again(harness, doctor, tmp_path):
    lines = [{"problem_id": str(i), "responses": ["a", "b"], "correct": [i == 0, True]} for i in range(3)]
    pool = write_json_lines(tmp_path / "pool.jsonl", lines)
    run = ("run", "--pool", pool, "--selector", "uniform", "--store", tmp_path / "runs", "--json")
    rows, path = harness(*run).rows, files_of(tmp_path / "runs", "responses")[0]
    path.write_bytes(b"")
    assert f"{path} is damaged: move it away; the pool file is then imported again" in doctor().out
    path.unlink()
    assert harness(*run).rows == rows
    assert doctor().code == 0
