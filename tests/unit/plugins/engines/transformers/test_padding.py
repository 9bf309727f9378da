"""Which caches the rows of a prompt share, and that sharing changes nothing."""

from __future__ import annotations

import pytest
import torch
from support.tiny_checkpoints import CONFIGS, LONG, SHORT, assert_same_responses, save_checkpoint

from harness import Sampler
from harness.records import SampleRequest
from harness_plugins.engines.transformers import padding
from harness_plugins.engines.transformers.engine import Transformers

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def engines(tmp_path_factory):
    root = tmp_path_factory.mktemp("checkpoints")
    return {kind: Transformers(str(save_checkpoint(root / kind, kind)), device="cpu") for kind in CONFIGS}


def test_only_plain_caches_are_shared(engines):
    def cache(kind):
        with torch.inference_mode():
            return padding.left_padded(engines[kind]._checkpoint, [[5, 6, 7]]).cache

    assert {kind for kind in CONFIGS if cache(kind) is not None} == {"qwen2", "llama", "gpt2"}


def test_without_a_shared_cache_the_same_rows_are_drawn(engines, monkeypatch):
    def full(*_):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    request = SampleRequest([SHORT, LONG], n=10, sampler=Sampler(), max_tokens=12, seeds=[3, 4], states=("mean",))
    shared = engines["qwen2"].sample(request)
    for unshared in (lambda *_: None, full):
        monkeypatch.setattr(padding, "_shared_cache", unshared)
        for with_cache, without in zip(shared, engines["qwen2"].sample(request), strict=True):
            assert_same_responses(with_cache, without)


def test_another_failure_while_the_cache_is_made_is_raised(engines, monkeypatch):
    def broken(*_):
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    monkeypatch.setattr(padding, "_shared_cache", broken)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        padding.left_padded(engines["qwen2"]._checkpoint, [[5, 6, 7]])


def test_prompts_are_padded_on_the_left(engines):
    ids, mask = padding.padded(engines["qwen2"]._checkpoint, [[5, 6, 7], [8]])
    filler = engines["qwen2"]._checkpoint.filler
    assert ids.tolist() == [[5, 6, 7], [filler, filler, 8]]
    assert mask.tolist() == [[1, 1, 1], [0, 0, 1]]
