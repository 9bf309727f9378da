"""What the documents show is run."""

import glob
import json
import os
import re
import shlex
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement
from packaging.version import Version
from support.documents import code_blocks
from support.json_lines import write_json_lines
from support.notebooks import code_cells
from support.paths import ROOT
from support.processes import harness_command, printed_by, run_to_end

VERIFY = "docs/verify.md"
README = (ROOT / "README.md").read_text()


def commands_in(name, section=""):
    """The words of each command line in the blocks of shell of a document, or of its section, without the first."""
    text = "\n".join(code_blocks(name, "sh", section))
    return [shlex.split(line)[1:] for line in text.splitlines() if line.startswith("harness ")]


@pytest.fixture
def succeed(harness, tmp_path, monkeypatch):
    """Run a command that must succeed, in `tmp_path`, where `python` is this interpreter; its outcome."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable), prepend=os.pathsep)

    def call(words, *more):
        outcome = harness(*words, *more)
        assert outcome.code == 0, f"{words}: {outcome.err}"
        return outcome

    return call


def saved(page, section, language, *names):
    """Write the blocks of a section to files of these names, and return the others."""
    blocks = code_blocks(page, language, section)
    for name, text in zip(names, blocks, strict=False):
        Path(name).write_text(text)
    return blocks[len(names) :]


# README


@pytest.mark.slow
def test_the_readmes_commands_on_own_files_run_as_they_stand(succeed, tmp_path):
    np.savez("vectors.npz", mine=np.random.default_rng(0).normal(size=(1000, 384)))
    texts = [f"the sum is {number}" for number in range(6)]
    graded = [
        {"problem_id": f"p{row}", "responses": texts, "correct": [i == row % 6 for i in range(6)]} for row in range(12)
    ]
    write_json_lines(tmp_path / "done.jsonl", [{"problem_id": "mine", "indices": [3, 17]}])
    write_json_lines(tmp_path / "responses.jsonl", [{"problem_id": "a", "responses": texts}])
    write_json_lines(tmp_path / "graded.jsonl", graded)
    saved("README.md", "", "python", "farthest.py")
    (tmp_path / "check.py").write_text("import sys; sys.exit('4' not in open(sys.argv[1]).read())")
    commands = [words for words in commands_in("README.md") if words[0] != "rl"]
    commands += [shlex.split(line) for line in re.findall(r"`harness (run [^`]*)`", README)]
    assert [words[0] for words in commands] == ["select", "verify", "run", "run"]
    for words in commands:
        succeed(words)


def test_ci_runs_the_readmes_first_block_which_is_all_of_the_set_up_and_the_readme_is_short():
    lines = code_blocks("README.md", "sh")[0].splitlines()
    assert [line.partition("#")[0].split() for line in lines] == [["make", "run"], ["make", "test"]]
    assert "README.md > build/first-block.sh" in (ROOT / ".ci" / "run").read_text()
    assert len(README.splitlines()) <= 100


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [
        ["--sampler", "repexp-guided", "--limit", "2", "--n", "3", "--max-tokens", "8"],
        ["--model", "tiny24", "--pool", "responses.jsonl", "--embedder", "hidden-last"],  # a pass over given responses
    ],
)
def test_the_readmes_first_command_prints_no_warning_of_a_library(more, tmp_path):
    [first] = re.findall(r"\$\(BIN\)/harness (run .*)", (ROOT / "Makefile").read_text())
    write_json_lines(tmp_path / "responses.jsonl", [{"problem_id": "1-2-11-11", "responses": ["11+11+2*1=24", "23+1"]}])
    ended = run_to_end(harness_command(*first.split(), *more), cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert "Warning" not in ended.stdout + ended.stderr


def test_transformers_is_allowed_up_to_the_version_that_is_tried_here():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    wanted = [Requirement(text).specifier for text in extras["hf"] + extras["protein"] if text.startswith("transf")]
    tried = Version(version("transformers"))
    assert [each.contains(f"{tried.major}.{tried.minor + 1}.0") for each in wanted] == [False, False]
    assert [each.contains(tried) for each in wanted] == [True, True]


def test_the_readmes_selector_has_15_lines_appears_in_the_list_and_runs(harness, toy, tmp_path):
    source = code_blocks("README.md", "python")[0]
    assert len([line for line in source.splitlines() if line.strip()]) <= 15
    plugin = tmp_path / "farthest.py"
    plugin.write_text(source)
    rows = harness("list", "selectors", "--plugin", plugin, "--json").rows
    assert [row["what"] for row in rows if row["name"] == "farthest"] == ["Farthest from the pool's mean first."]
    outcome = toy("--selector", "farthest", "--plugin", plugin)
    assert outcome.code == 0, outcome.err
    assert outcome.rows[0]["samples_to_correct"] >= 1


# The guides of docs/


def test_the_guide_for_choosing_runs_as_it_stands(succeed):
    exec(code_blocks(VERIFY, "python", "Choose")[0], {})
    saved(VERIFY, "Choose", "json", "responses.jsonl", "done.jsonl")
    assert len([succeed(words) for words in commands_in(VERIFY, "Choose")]) == 4


@pytest.mark.slow
def test_the_guide_for_verifying_in_a_loop_runs_as_it_stands(succeed, tmp_path):
    section = "Verify by a program"
    saved(VERIFY, "", "json", "responses.jsonl")
    [python] = saved(VERIFY, section, "python", "check.py", "measure.py")
    first, second = map(succeed, commands_in(VERIFY, section))
    assert "2 of 2 problems solved" in first.out
    assert "6 calls" in second.out
    assert printed_by(python, cwd=tmp_path).startswith("2 solved with")


def test_the_guide_for_a_wet_lab_runs_as_it_stands(succeed, tmp_path):
    pytest.importorskip("rdkit")
    section = "A wet lab by mail"
    saved(VERIFY, section, "csv", "molecules.csv")
    monday, friday, plate, report = commands_in(VERIFY, section)
    succeed(monday)
    header, *rows = (tmp_path / "week-1.csv").read_text().splitlines()
    assert [header, *rows[:2]] == code_blocks(VERIFY, "text", section)[0].splitlines()
    filled = [row + value for row, value in zip(rows, ["4.1", "y", "6.5", "n", "skip", "", "", ""], strict=True)]
    (tmp_path / "week-1.csv").write_text("\n".join([header, *filled]))
    ended = succeed(friday, "--json").rows
    assert (ended["calls"], len(ended["found"])) == (4, 2)
    next_rows = (tmp_path / "week-2.csv").read_text().splitlines()[1:]
    assert next_rows[:3] == rows[5:]
    assert len(next_rows) == 8
    robot, vectors = code_blocks(VERIFY, "python", section)
    out, found = printed_by(robot, cwd=tmp_path).splitlines()
    assert out == str([row.split(",")[2] for row in next_rows])
    assert found == "6 ['CHEMBL8', 'CHEMBL71']"
    names = printed_by(vectors, cwd=tmp_path)
    succeed(plate)
    assert names == str([row.split(",")[2] for row in (tmp_path / "plate.csv").read_text().splitlines()[1:]])
    succeed(report)
    assert (tmp_path / "verify-report.html").exists()


@pytest.mark.slow
def test_the_guide_for_own_problems_runs_as_it_stands_but_for_its_model(succeed):
    guide, section = "docs/pools.md", "Your own problems"
    saved(guide, section, "json", "questions.jsonl", "responses.jsonl")
    saved(guide, section, "python", "check.py")
    commands = [words for words in commands_in(guide, section) if "--model" not in words]
    rows = [succeed(words, "--unsafe-exec", "--json").rows[0] for words in commands]
    random = [row["samples_to_correct_random"] for row in rows]
    assert random == pytest.approx([35 / 18, 20 / 9, 5 / 2])  # 2, 2 and 1 of 4 are correct, then 2, 1, 1, then 1, 1, 1


@pytest.mark.slow
def test_the_guide_for_best_of_n_runs_as_it_stands(succeed, tmp_path):
    from support.tiny_checkpoints import save_reward_model

    save_reward_model(tmp_path / "my-reward-model")
    commands = commands_in(VERIFY, "Best of n")
    assert [words[0] for words in commands] == ["run", "pool", "pool", "run", "run", "select"]
    for words in commands:
        if words[1] == "inspect":
            exec(code_blocks(VERIFY, "python", "Best of n")[0], {})
        key = min((path.name for path in tmp_path.glob("runs/pool/*")), default="")
        outcome = succeed([key if word == "KEY" else word for word in words])
    assert "scores: reused for 10 of 10 problems" in outcome.err


@pytest.mark.slow
def test_the_study_of_the_pools_page_runs_as_it_stands(succeed, tmp_path):
    saved("docs/pools.md", "", "toml", "study.toml")
    lines = [line for block in code_blocks("docs/pools.md", "sh", "Study files") for line in block.splitlines()]
    assert len(lines) == 5
    for line in lines:
        cell = min((path.stem for path in tmp_path.glob("runs/cells/*.json")), default="")
        outcome = succeed([cell if word == "CELL" else word for word in shlex.split(line)[1:]])
        if line.startswith("harness rerun"):
            assert f"rerun: the same cell, {cell}, with the same outcomes\n" in outcome.err
    assert len(list(tmp_path.glob("runs/cells/*.json"))) == 9  # three selectors, and three controls by two embedders
    assert len(list(tmp_path.glob("fresh/cells/*.json"))) == 3


@pytest.mark.slow
def test_the_guide_for_a_new_selector_runs_as_it_stands(succeed, tmp_path):
    page, section = "docs/plugins.md", "A selector in fifteen lines"
    saved(page, section, "python", "farthest.py")
    lines = [line for block in code_blocks(page, "sh", section) for line in block.splitlines()]
    printed = "".join(succeed(shlex.split(line)[1:]).out for line in lines)
    assert "0 failed" in printed
    assert "all cells can be counted" in printed
    table = (tmp_path / "mine" / "leaderboard.md").read_text()
    assert table.count("| farthest |") == 2
    assert re.search(r"Conformance kit: (\d+) of \1 rows pass\.", table)


@pytest.mark.slow
def test_the_guide_for_training_runs_as_it_stands(succeed, tmp_path):
    pytest.importorskip("trl")
    commands = commands_in("docs/rl.md")
    assert [words[0] for words in commands] == ["rl", "rl", "plot", "plot"]
    for words in commands:
        succeed([path for word in words for path in (sorted(glob.glob(word)) or [word])])
    assert {path.name for path in (tmp_path / "runs" / "plots").glob("*.png")} == {"rl-passk.png", "rl-likelihoods.png"}


def test_the_plugin_pages_task_embedder_sampler_and_layout_run(harness, succeed, tmp_path):
    plugins, names = [], ("sums", "lengths", "top", "acme")
    for name, source in zip(names, code_blocks("docs/plugins.md", "python", "Each kind")[:4], strict=True):
        (tmp_path / f"{name}.py").write_text(source)
        plugins += ["--plugin", tmp_path / f"{name}.py"]
    pool = write_json_lines(tmp_path / "pool.jsonl", [{"problem_id": "1+7", "responses": ["It is 9.", "8", "Is it 8"]}])
    options = ("--task", "sums", "--embedder", "lengths", "--selector", "repexp")
    rows = succeed(["run", "--pool", pool, *options, *plugins, "--json"]).rows
    assert rows[0]["samples_to_correct_random"] == pytest.approx(4 / 3)
    assert "top-50" in harness("list", "samplers", *plugins).out
    log = write_json_lines(tmp_path / "log.jsonl", [{"q": "1 + 1?", "candidates": [{"text": "2"}, {"text": "3"}]}])
    outcome = succeed(["pool", "import", log, *plugins, "--json"])
    assert (outcome.rows["problems"], outcome.rows["n"]) == (1, 2)
    assert "pool: read as acme samples" in outcome.err


def test_the_studies_pages_script_makes_the_gpt4_pool(succeed, shared_data):
    saved("studies/README.md", "", "python", "script.py")
    logs = shared_data / "pools" / "tot_game24_gpt4_standard_n100.json"
    run_to_end([sys.executable, "script.py", shared_data / "tasks" / "game24.csv", logs, "gpt4.jsonl"], check=True)
    value = succeed(["pool", "import", "gpt4.jsonl", "--task", "game24", "--json"]).rows
    assert (value["problems"], value["n"]) == (100, 100)


# Python


def printed_by_cells(cells, folder):
    """What a session in a fresh interpreter prints after these cells; figures go nowhere."""
    code = f"import sys; sys.path.insert(0, {str(ROOT / 'tests')!r})\nfrom support.notebooks import run_cell\n"
    code += f"for cell in {cells!r}: run_cell(cell, globals())"
    return printed_by(code, cwd=folder, env={**os.environ, "MPLBACKEND": "Agg"})


@pytest.mark.slow
def test_the_python_page_runs_as_it_stands(tmp_path):
    then = "print([row.selector for row in race], len(eight), len(board.rows), len({*picks, *more}))"
    printed = printed_by_cells([*code_blocks("docs/python.md", "python"), then], tmp_path)
    assert printed.endswith("['repexp', 'Farthest', 'Farthest(power=1.0)'] 8 5 16")
    assert "random (exact)" in printed


NOTEBOOK = ROOT / "examples" / "harness.ipynb"


@pytest.mark.slow
def test_the_notebook_runs_and_a_changed_cell_is_ranked_again(tmp_path):
    cells = code_cells(NOTEBOOK)
    raced = "print(frame.shape[0], len(axes.lines), [row.selector for row in race], list(board['selector']))"
    changed = cells[-2].replace("-(", "(")
    printed = printed_by_cells([*cells, raced, changed, "print(race[1].cell != board.cell[0])"], tmp_path)
    assert printed == "3 3 ['repexp', 'Farthest'] ['Farthest', 'kcenter', 'repexp', 'uniform']\nTrue"


def test_the_notebooks_outputs_are_stripped():
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    assert [cell for cell in cells if cell.get("outputs") or cell.get("execution_count")] == []


EXAMPLES = {
    "verify_next": r"1\d of 20 active candidates found in \d+ checks:\n.*\nAt random \d+ checks would find [\d.]+\.",
    "compare": r"\n[\w-]+ needs [\d.]+ checks, random order [\d.]+\.",
    "train": r"\n repexp:dim=4,spread=0.5 +[\d.]+ ",
}


@pytest.mark.parametrize(
    "name", ["verify_next", *(pytest.param(name, marks=pytest.mark.slow) for name in ("compare", "train"))]
)
def test_an_example_runs_as_it_stands_and_prints_no_warning(tmp_path, name):
    if name == "train":
        pytest.importorskip("trl")
    ended = run_to_end([sys.executable, ROOT / "examples" / f"{name}.py"], cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert "Warning" not in ended.stdout + ended.stderr
    assert name == "train" or ended.stderr == ""
    assert re.search(EXAMPLES[name], ended.stdout)
