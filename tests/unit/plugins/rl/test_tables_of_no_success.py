"""What the table of an evaluation compares, and what it does not."""

from __future__ import annotations

from harness_plugins.rl import evaluation as rl_eval
from harness_plugins.rl import tables as rl_tables


def shown(capsys, *counts):
    """The table of policies `base` and `repexp` with so many correct responses, of 4 to each of two problems."""
    policies = [
        {"bonus": bonus, "seed": None, "step": None, "c": list(c)}
        for bonus, c in zip(("base", "repexp"), counts, strict=True)
    ]
    evaluation = {"task": "game24", "split": "test", "n": 4, "problems": ["a", "b"], "policies": policies}
    rl_tables.evaluated(rl_eval.rows(evaluation), as_json=False)
    return capsys.readouterr().out


def test_a_policy_without_a_correct_response_is_compared_with_nothing(capsys):
    text = shown(capsys, (0, 0), (0, 0))
    assert "no response was correct: base, repexp; nothing is compared with what solves no problem" in text
    assert "times fewer" not in text
    text = shown(capsys, (0, 0), (2, 0))
    assert "no response was correct: base; " in text
    assert "times fewer" not in text
    assert "repexp needs 4.0 times fewer than base" in shown(capsys, (1, 0), (4, 0))
