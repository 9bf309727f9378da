"""The scorer `reward-model`: the logit that transformers gives, also in batches; what is no reward model is refused."""

import json

import numpy as np
import pytest
import torch
from support.refusals import refusal_of
from support.tiny_checkpoints import SHORT, save_checkpoint, save_reward_model
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from harness import Problem
from harness_plugins.scorers.reward_model import RewardModel

PROBLEM = Problem("a", "1 2 3 4")
TEXTS = ["the quick brown fox", "24", "the lazy dog, please <end>", "24", "solve \ud83d", ""]
pytestmark = pytest.mark.usefixtures("one_thread")


def plainly(folder, text):
    """The logit of one response, as a model's card shows it."""
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForSequenceClassification.from_pretrained(folder)
    text = text.encode("utf-8", "replace").decode()
    if tokenizer.chat_template:
        chat = [*SHORT, {"role": "assistant", "content": text}]
        inputs = tokenizer.apply_chat_template(chat, return_tensors="pt", return_dict=True)
    else:
        inputs = tokenizer(SHORT[0]["content"], text, return_tensors="pt")
    with torch.inference_mode():
        return model.eval()(**inputs).logits[0, 0].item()


@pytest.mark.parametrize(("kind", "padding"), [("llama", None), ("llama", 0), ("llama", 1), ("bert", 2)])
def test_a_score_is_the_logit_for_the_prompt_and_the_response(tmp_path, kind, padding):
    folder = save_reward_model(tmp_path / "rm", kind, padding=padding)
    scores = RewardModel(str(folder), batch=3).score(PROBLEM, SHORT, TEXTS)
    assert scores.dtype == np.float64
    assert scores == pytest.approx([plainly(folder, text) for text in TEXTS], abs=1e-6)
    assert scores[1] == scores[3]
    assert len(set(scores.tolist())) == 5


def test_what_is_no_reward_model_is_refused(tmp_path):
    def said_of(folder):
        return refusal_of(RewardModel(str(folder)).score, PROBLEM, SHORT, TEXTS)

    assert "model 'two' has 2 labels: a reward model has one" in said_of(save_reward_model(tmp_path / "two", labels=2))
    headless = save_checkpoint(tmp_path / "lm", "llama")
    config = json.loads((headless / "config.json").read_text()) | {"id2label": {"0": "score"}}
    (headless / "config.json").write_text(json.dumps(config))
    assert "model 'lm': its weights lack score.weight: not a whole reward model" in said_of(headless)
    assert "does not exist" in said_of(tmp_path / "nowhere")
    blank = [{"role": "user", "content": " "}]
    line = refusal_of(RewardModel(str(save_reward_model(tmp_path / "rm"))).score, PROBLEM, blank, TEXTS)
    assert line.startswith("reward-model: problem 'a' has no prompt: add `prompt` to the pool's lines")
    assert refusal_of(RewardModel).startswith("reward-model: say which model")
    assert refusal_of(RewardModel, "rm", 0) == "reward-model: batch must be at least 1, got 0"


def test_its_identity_changes_with_the_weights_and_reads_none(tmp_path):
    folder = save_reward_model(tmp_path / "rm")
    first = RewardModel(str(folder)).identity()
    assert first["dtype"] == "float32"
    save_reward_model(folder, padding=1)
    assert RewardModel(str(folder)).identity() != first
