"""Why vLLM did not start or died, in one line, from its log."""

from __future__ import annotations

from harness_plugins.engines.vllm.failures import reason
from harness_plugins.engines.vllm.warden import KILLED

RAISED = "RuntimeError: Engine core initialization failed. See root cause above."
QUANTIZED = "this vLLM does not read the model's quantized weights here: "
REASONS = [
    ("RuntimeError: operator torchvision::nms does not exist", "pip uninstall -y torchvision"),
    ("ValueError: No available memory for the cache blocks. Try increasing", "raise kv_gib"),
    (
        "ValueError: To serve at least one request with the model's max seq len, (2 GiB KV cache is needed",
        "raise kv_gib",
    ),
    ("ValueError: Available memory on node 0 (18/23 GiB) on startup is less than desired (0.92", "gpu_memory_util"),
    ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate", "lower max_num_seqs"),
    ("RuntimeError: Failed to infer device type", "finds no GPU"),
    ("huggingface_hub.errors.LocalEntryNotFoundError: Cannot find the requested files", "give a local folder"),
    (
        "  Value error, torch.float32 is not supported for quantization method awq. Supported: [torch.float16]",
        QUANTIZED,
    ),
    ("  Value error, Unknown quantization method: bitsandbytes. Must be one of ['awq', 'gptq']", QUANTIZED),
    (f"(EngineCore pid=12) ERROR 11-20 10:00:00 [core.py:1] KeyError: 'rope'\n{RAISED}", "KeyError: 'rope'"),
    (f"Traceback\n{KILLED} SIGKILL", f"{KILLED} SIGKILL (by the system, where memory ran out)"),
    (f"Traceback\n{KILLED} SIGSEGV", f"{KILLED} SIGSEGV"),
]


def test_a_log_gives_its_cause_in_one_line(tmp_path):
    path, wrong = tmp_path / "log.txt", []
    for log, cause in REASONS:
        path.write_text(f"INFO 11-20 10:00:00 [x.py:1] loading\nX WARNING y: a ValueError: nothing\n{log}\n")
        line = reason(RAISED, path)
        if cause not in line or "\n" in line:
            wrong.append((log, line))
    assert wrong == []


def test_what_a_log_held_before_is_no_reason(tmp_path):
    path = tmp_path / "log.txt"
    path.write_text("ValueError: No available memory for the cache blocks\n")
    assert reason("it was ended", path, path.stat().st_size) == "it was ended"
    assert reason("", tmp_path / "none") == "it said nothing"
    assert len(reason("KeyError: " + "x" * 900, tmp_path / "none")) == 300
