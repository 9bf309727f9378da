"""What is sent in names no path, host, user or address, whatever a library's message says."""

import pytest

from harness_plugins.gpu_check import anonymous as module
from harness_plugins.gpu_check.anonymous import LONGEST, anonymous

MESSAGES = {
    "vllm: CUDA out of memory: its log is /tmp/harness-vllm-1000/ab.log": "vllm: CUDA out of memory: its log is PATH",
    "cannot open '/data/My Models/x.json'": "cannot open 'PATH'",
    "no such file: /home/Ann Lee/models/a b": "no such file: PATH b",
    "~/x and ~ann/y and [/a/b], (/c)": "PATH and PATH and [PATH], (PATH)",
    "get https://ann:secret@hub.example/a?b=c failed": "get URL failed",
    "tcp://10.0.0.7:4321 or 192.168.0.1:80 refused": "URL or ADDRESS refused",
    "node7.example.org: ann is not allowed on node7, says annotate": "HOST: USER is not allowed on HOST, says annotate",
    "3,400 tokens/s, org/model-1.5B, torch 2.13.0": "3,400 tokens/s, org/model-1.5B, torch 2.13.0",
    'File "/home/ann/v/lib/python3.11/site-packages/vllm/v1/worker.py", line 3': 'File "PATH/worker.py", line 3',
    "/usr/lib/libcuda.so.1: not found, /home/ann/secret.txt neither": "PATH/libcuda.so.1: not found, PATH neither",
    "two\nlines": "two lines",
}


@pytest.fixture(autouse=True)
def machine(monkeypatch):
    monkeypatch.setattr(module.platform, "node", lambda: "node7.example.org")
    monkeypatch.setattr(module.getpass, "getuser", lambda: "ann")
    monkeypatch.setenv("HOME", "/home/Ann Lee")


def test_paths_addresses_and_names_become_words():
    assert {message: anonymous(message) for message in MESSAGES} == MESSAGES


def test_a_long_message_is_cut_and_a_user_without_a_name_is_no_error(monkeypatch):
    def nobody():
        raise KeyError("getpwuid(): uid not found: 1234")

    monkeypatch.setattr(module.getpass, "getuser", nobody)
    assert anonymous("ann on node7") == "ann on HOST"
    assert len(anonymous("x " * 1000)) == LONGEST
