"""Tiny random checkpoints of ESM3, ESM C and ESMFold, saved as theirs are and loaded by their own loaders.

`python -m harness_plugins.proteins.tiny FOLDER` makes all three, to try the experiment on a CPU. ESM3's is made
in the environment that has `esm`; without one a line says so, and the exit code is 1.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from harness import HarnessError

TINY_ESM3 = {"d_model": 64, "n_heads": 2, "v_heads": 4, "n_layers": 2}
MAKE_ESM3 = """
import sys, json, torch
sys.path.insert(0, sys.argv[1])
import child
from esm.models.esm3 import ESM3
torch.set_num_threads(1)
torch.manual_seed(0)
parts = dict.fromkeys(("structure_encoder_fn", "structure_decoder_fn", "function_decoder_fn"))
model = ESM3(**json.loads(sys.argv[3]), **parts, tokenizers=child._tokenizers()).eval()
torch.save(model.state_dict(), sys.argv[2])
"""
CHILD = Path(__file__).parents[1] / "engines" / "esm3"


def tiny_esm3(folder: Path, python: Path) -> Path:
    """A folder laid out as the hub's repository, made in the environment that has esm."""
    weights = folder / "data" / "weights" / "esm3_sm_open_v1.pth"
    weights.parent.mkdir(parents=True, exist_ok=True)
    command = [python, "-c", MAKE_ESM3, CHILD, weights, json.dumps(TINY_ESM3)]
    subprocess.run(list(map(str, command)), check=True, capture_output=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    (folder / "sizes.json").write_text(json.dumps(TINY_ESM3))
    return folder


def tiny_esmc(folder: Path) -> Path:
    """ESM C with two layers of 64, with a head, as its checkpoints have one."""
    import torch
    from transformers import EsmcConfig, EsmcForMaskedLM

    sizes = {"hidden_size": 64, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 2}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        EsmcForMaskedLM(EsmcConfig(**sizes)).save_pretrained(folder)
    return folder


def tiny_esmfold(folder: Path, plddt: float | None = None, ptm: float | None = None, spread: float = 1.0) -> Path:
    """ESMFold with one block; with a `plddt` or `ptm` its head is biased to the bin of that value, near enough.

    spread   times the weights of both heads: with 3,000 the pTM of sequences of 26 letters varies from 0.19 to 0.33
    """
    import torch
    from transformers import EsmConfig, EsmForProteinFolding

    structure: dict[str, Any] = {
        "sequence_dim": 16,
        "pairwise_dim": 16,
        "ipa_dim": 4,
        "resnet_dim": 16,
        "num_heads_ipa": 2,
    }
    structure |= {"num_qk_points": 2, "num_v_points": 2, "num_blocks": 2, "num_transition_layers": 1}
    trunk: dict[str, Any] = {
        "num_blocks": 1,
        "sequence_state_dim": 32,
        "pairwise_state_dim": 16,
        "sequence_head_width": 8,
    }
    trunk |= {"pairwise_head_width": 8, "max_recycles": 1, "structure_module": structure | {"num_resnet_blocks": 1}}
    config = EsmConfig(
        vocab_size=33,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        pad_token_id=1,
        mask_token_id=32,
        position_embedding_type="rotary",
        max_position_embeddings=1026,
        token_dropout=True,
        is_folding_model=True,
        esmfold_config={"fp16_esm": False, "lddt_head_hid_dim": 16, "trunk": trunk},
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = EsmForProteinFolding(config)
    if plddt is not None:
        _bias(model.lddt_head[-1], model.lddt_bins, int(plddt * model.lddt_bins))  # the bins of confidence ascend
    if ptm is not None:
        _bias(
            model.ptm_head, model.distogram_bins, 0 if ptm > 0.5 else model.distogram_bins - 1
        )  # those of the error too
    for head in (model.lddt_head[-1], model.ptm_head):
        head.weight.data *= spread
    model.save_pretrained(folder)
    return folder


def _bias(layer: Any, width: int, place: int) -> None:
    """Make a head say that bin, of `width` each time, whatever it sees."""
    import torch

    with torch.no_grad():
        layer.weight.zero_()
        layer.bias.zero_()
        layer.bias.view(-1, width)[:, place] = 30.0


def main() -> None:
    """Make those of the three folders that are not there; exit code 1, and a line, if one could not be made."""
    from ..engines.esm3.engine import PLACES

    folder = Path(sys.argv[1])
    if not (folder / "esmc").is_dir():
        tiny_esmc(folder / "esmc")
    if not (folder / "esmfold").is_dir():
        tiny_esmfold(folder / "esmfold", spread=3000.0)
    if not (folder / "esm3" / "sizes.json").is_file():
        try:
            tiny_esm3(folder / "esm3", PLACES.find(None, find_spec))
        except HarnessError as failure:
            sys.exit(f"error: {failure}")


if __name__ == "__main__":
    main()
