"""One loaded checkpoint of each kind of model for all tests of this folder."""

import pytest
from support.tiny_checkpoints import CONFIGS, MORE_CONFIGS, TEMPLATE, save_checkpoint

from harness_plugins.engines.transformers.engine import Transformers


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory):
    """One folder for each kind of model; only the Llama has no chat template."""
    root = tmp_path_factory.mktemp("checkpoints")
    kinds = (*CONFIGS, *MORE_CONFIGS)
    return {kind: save_checkpoint(root / kind, kind, None if kind == "llama" else TEMPLATE) for kind in kinds}


@pytest.fixture(scope="session")
def engines(checkpoints):
    """An engine for each kind of model; whoever changes one puts it back."""
    return {kind: Transformers(str(folder), device="cpu") for kind, folder in checkpoints.items()}
