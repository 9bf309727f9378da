"""Save the model of a GGUF file as a folder, in float32: `python -m harness_plugins.models.dequantize FILE FOLDER`.

All engines and trainers read such a folder. It gives the same tokens as the file.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from harness import HarnessError
from harness.system import extras
from harness.system.files import disk_errors

from .checkpoint import Checkpoint, quiet
from .location import locate


def dequantize(file: Path, folder: Path) -> None:
    """Save the model of a GGUF file in a folder, which then exists complete or not at all.

    HarnessError if the folder exists, or if the file is not a causal language model that transformers reads.
    """
    extras.require(f"model {file}", "torch", "transformers", "gguf", "accelerate")
    if folder.exists():
        raise HarnessError(f"folder {folder} exists already: give another one, or delete it first")
    part = Checkpoint(locate(str(file.absolute()), takes_gguf=True), "cpu", "float32", None)
    model = part.model
    model.generation_config.eos_token_id = part.eos
    vars(model.config).pop("quantization_config", None)  # the weights are no longer quantized
    model.hf_quantizer = None
    with disk_errors(folder), quiet():
        folder.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        try:
            model.save_pretrained(scratch)
            part.tokenizer.save_pretrained(scratch)
            scratch.chmod(0o755)  # mkdtemp's is for its owner alone
            scratch.rename(folder)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m harness_plugins.models.dequantize", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    try:
        dequantize(arguments.file, arguments.folder)
    except HarnessError as failure:
        sys.exit(f"error: {failure}")
