"""Wrong inputs are one clear line and exit code 2; the help is light."""

from __future__ import annotations

import os
import re
import subprocess

import pytest
from support.paths import TOY
from support.processes import harness_command, printed_by, wait_for
from support.refusals import error_line


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--selector", "repex"], "unknown selector 'repex' (did you mean 'repexp'?"),
        (["--selector", "repexp:lam=-1"], "repexp: lam must be > 0, got -1"),
        (["--selector", "repexp:lam=x"], "repexp: lam must be a valid number"),
        (["--selector", "repexp:lamda=1"], "did you mean 'lam'?"),
        (["--selector", "uniform", "--selector", "uniform"], "a selector is given twice"),
        (["--selector", "uniform", "--task", "colour"], "unknown task 'colour' (did you mean 'colours'?"),
        (["--selector", "uniform", "--engine", "vlm"], "unknown engine 'vlm'"),
        (["--selector", "uniform", "--embedder", "hidden-means"], "did you mean 'hidden-mean'?"),
        (["--selector", "uniform", "--embedder", "hidden-last"], "needs the model's hidden states, which engine"),
        (["--selector", "uniform", "--sampler", "minp"], "did you mean 'min-p'?"),
        (["--selector", "uniform", "--sampler", "min-p:p=2"], "min-p"),
        (["--selector", "uniform", "--sampler", "nucleus:q=2"], "nucleus: no parameter 'q'"),
        (["--selector", "uniform", "--sampler", "vanilla:temperature=0"], "temperature must be > 0"),
        (["--selector", "uniform", "--split", "tests"], "no split 'tests' (did you mean 'test'?"),
        (["--selector", "uniform", "--n", "0"], "--n must be at least 1, got 0"),
        (["--selector", "uniform", "--seed", "-1"], "--seed must not be negative"),
        (["--selector", "uniform", "--max-tokens", "2000"], "a parrot forgets after 1,000 tokens"),
        (["--selector", "uniform", "--executor", "locl"], "unknown executor 'locl' (did you mean 'local'?"),
        (["--selector", "uniform", "--executor", "local:workers=-1"], "workers must be at least 0"),
        (["--selector", "uniform", "--embeddings", "x.npz"], "--embeddings goes with --pool"),
        (["--selector", "uniform", "--plugin", "absent.py"], "absent.py: no such file"),
    ],
)
def test_a_wrong_input_is_one_clear_line_and_exit_code_2(toy, args, said):
    assert said in error_line(toy(*args))


@pytest.mark.parametrize(
    ("model", "said"),
    [("./no/such/folder", "no/such/folder"), ("/etc", "/etc"), ("tiny25", "did you mean 'tiny24'?")],
)
def test_a_wrong_model_path_is_one_clear_line(harness, tmp_path, model, said):
    args = ("run", "--task", "game24", "--selector", "uniform", "--model", model, "--store", tmp_path)
    assert said in error_line(harness(*args))


def test_nothing_to_run_is_one_clear_line(harness):
    assert "--task game24" in error_line(harness("run", "--selector", "uniform"))
    assert harness("run").code == 2


def test_a_store_that_cannot_be_written_is_one_clear_line(toy, tmp_path):
    (tmp_path / "file").write_text("")
    assert "choose another --store" in error_line(toy("--selector", "shuffle", store=tmp_path / "file" / "runs"))


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="needs root to mount a small tmpfs")
def test_a_full_disk_is_one_clear_line_and_what_was_finished_is_kept(toy, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(small)], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"cannot mount a tmpfs here: {mounted.stderr.decode().strip()}")
    try:
        outcome = toy("--selector", "shuffle", "--data", "200", store=small)
        assert outcome.code == 2
        assert "no space left" in outcome.err
        assert "Traceback" not in outcome.err
        assert list(small.rglob("*.parquet"))
        subprocess.run(["mount", "-o", "remount,size=30m", str(small)], check=True)
        outcome = toy("--selector", "shuffle", "--data", "200", store=small)
        assert outcome.code == 0
        assert "pool: reused for" in outcome.err
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_help_imports_nothing_heavy():
    heavy = {"torch", "transformers", "pyarrow", "sklearn", "scipy", "pydantic", "datasets", "safetensors"}
    code = (
        "import sys; from harness.cli import main; sys.argv = ['harness', '--help']\n"
        "try: main()\nexcept SystemExit: pass\n"
        f"print('heavy:', sorted({heavy!r} & set(sys.modules)))"
    )
    assert printed_by(code).endswith("heavy: []")


def test_listing_plugins_imports_no_torch():
    code = (
        "import sys; from harness.cli import main; sys.argv = ['harness', 'list']\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print('torch' in sys.modules, 'transformers' in sys.modules)"
    )
    assert printed_by(code).endswith("False False")


def test_every_command_answers_help(harness):
    commands = [[], ["run"], ["list"], ["show"], ["doctor"], ["pool"]]
    commands += [["pool", name] for name in ("import", "inspect", "export")]
    for command in commands:
        outcome = harness(*command, "--help")
        assert outcome.code == 0
        assert "Usage:" in outcome.out


def test_list_names_kind_origin_and_what_it_is(harness):
    rows = harness("list", "selectors", "--plugin", TOY, "--json").rows
    assert {"repexp", "uniform", "spread"} <= {row["name"] for row in rows}
    (spread,) = [row for row in rows if row["name"] == "spread"]
    assert spread == {"kind": "selector", "name": "spread", "from": "toy", "what": "Farthest vector first."}
    assert "unknown kind 'selektors' (did you mean 'selector'?" in harness("list", "selektors").err
    assert "repexp" in harness("list").out


def test_show_gives_parameters_with_defaults_and_the_formula(harness):
    outcome = harness("show", "selector", "repexp")
    assert "lam: float = 1.0" in outcome.out
    assert "2510.11686" in outcome.out
    assert harness("show", "selector", "repexp", "--json").rows["parameters"]["lam"]["default"] == 1.0
    assert "diversity-harness/uniform" in harness("show", "selector", "uniform").out


def test_show_example_prints_the_exact_first_prompt(harness):
    outcome = harness("show", "task", "colours", "--example", "--plugin", TOY)
    assert "Say colour 0 (test)." in outcome.out
    value = harness("show", "task", "game24", "--example", "--json").rows
    assert value["id"] == "1-1-1-8"
    assert value["messages"][0]["role"] == "user"
    assert "for tasks only" in harness("show", "selector", "uniform", "--example").err


def test_progress_is_plain_lines_away_from_a_terminal(toy):
    outcome = toy("--selector", "shuffle", "--engine", "toy:delay_s=0.5,group=1")
    assert re.search(r"^sample: \d+/96 responses, \d+/s, \d+ s left$", outcome.err, re.M)
    assert "\x1b" not in outcome.err


def test_ctrl_c_keeps_what_is_finished_and_says_so(tmp_path):
    import signal

    options = ("--task", "colours", "--engine", "toy:delay_s=0.3,group=1", "--plugin", TOY, "--selector", "shuffle")
    command = harness_command("run", *options, "--store", tmp_path)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: list(tmp_path.rglob("*.parquet")), 60, "the first shard")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "interrupted: what is finished is kept" in err
    assert "Traceback" not in err
