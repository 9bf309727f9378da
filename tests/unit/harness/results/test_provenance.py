"""A cell names the versions and the machine, and imports nothing for it."""

from __future__ import annotations

import os
import platform

from support.processes import printed_by

from harness.results import provenance


def test_versions_and_the_machine_are_named():
    made = provenance.made_with(["pytest", "numpy", "no-such-distribution"])
    names = list(made["versions"])
    assert names[:3] == ["python", "diversity-harness", "numpy"]
    assert names[-1] == "pytest"
    assert (made["versions"]["python"], "no-such-distribution" in names) == (platform.python_version(), False)
    hardware = made["hardware"]
    assert 1 <= hardware["cores_usable"] <= hardware["cores"] == os.cpu_count()
    assert hardware["memory_gb"] > 0.1
    assert hardware["cpu"] == provenance._processor()
    assert (hardware["machine"], hardware["system"]) == (platform.machine(), platform.system())


def test_what_the_system_does_not_report_is_left_open(monkeypatch):
    def fails(*arguments):
        raise OSError(*arguments)

    monkeypatch.setattr(provenance.Path, "read_text", fails)
    monkeypatch.setattr(provenance.platform, "processor", lambda: "given")
    monkeypatch.setattr(provenance.os, "sysconf", fails)
    assert (provenance._processor(), provenance._memory_gb()) == ("given", None)


def test_gpus_are_those_of_a_torch_that_is_imported_already():
    code = "import sys; from harness.results.provenance import _hardware; "
    code += "before = _hardware()['gpus'], 'torch' in sys.modules\n"
    code += "from types import SimpleNamespace as N\n"
    code += "cuda = N(is_available=lambda: True, device_count=lambda: 2, get_device_name=lambda place: f'H{place}')\n"
    code += "sys.modules['torch'] = N(cuda=cuda); print(before, _hardware()['gpus'])"
    assert printed_by(code) == "([], False) ['H0', 'H1']"
