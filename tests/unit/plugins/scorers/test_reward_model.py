"""The scorer `reward-model`: the logit that transformers gives, also in batches; what is no reward model is refused."""

import json

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


@pytest.mark.parametrize(("kind", "padding"), [("llama", None), ("llama", 1), ("bert", 2)])
def test_a_score_is_the_logit_for_the_prompt_and_the_response(tmp_path, kind, padding):
    folder = save_reward_model(tmp_path / "rm", kind, padding=padding)
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForSequenceClassification.from_pretrained(folder)
    scorer, expected = RewardModel(str(folder), batch=3), []
    scores, identity = scorer.score(PROBLEM, SHORT, TEXTS), scorer.identity()
    for text in (text.encode("utf-8", "replace").decode() for text in TEXTS):  # as a model's card shows it
        chat, given = [*SHORT, {"role": "assistant", "content": text}], {"return_tensors": "pt"}
        pair = kind == "bert"
        with torch.inference_mode():
            inputs = tokenizer(SHORT[0]["content"], text, **given) if pair else None
            inputs = inputs or tokenizer.apply_chat_template(chat, return_dict=True, **given)
            expected.append(model.eval()(**inputs).logits[0, 0].item())
    assert scores == pytest.approx(expected, abs=1e-6)
    assert len(set(scores.tolist())) == 5
    assert identity["dtype"] == "float32"
    assert RewardModel(str(save_reward_model(folder, kind, padding=3))).identity() != identity


def test_what_is_no_reward_model_is_refused(tmp_path):
    headless = save_checkpoint(tmp_path / "lm", "llama")
    config = json.loads((headless / "config.json").read_text()) | {"id2label": {"0": "score"}}
    (headless / "config.json").write_text(json.dumps(config))
    for folder, words in (
        (save_reward_model(tmp_path / "two", labels=2), "model 'two' has 2 labels: a reward model has one"),
        (headless, "model 'lm': its weights lack score.weight: not a whole reward model"),
        (tmp_path / "nowhere", "does not exist"),
    ):
        assert words in refusal_of(RewardModel(str(folder)).score, PROBLEM, SHORT, TEXTS)
    line = refusal_of(RewardModel("rm").score, PROBLEM, [{"role": "user", "content": " "}], TEXTS)
    assert line.startswith("reward-model: problem 'a' has no prompt: add `prompt` to the pool's lines")
    assert refusal_of(RewardModel).startswith("reward-model: say which model")
    assert refusal_of(RewardModel, "rm", 0) == "reward-model: batch must be at least 1, got 0"
