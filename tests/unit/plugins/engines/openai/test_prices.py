"""Price files, the tokens that answers count, and what they cost."""

import json

import pytest
from support.refusals import refusal_of

from harness_plugins.engines.openai.prices import Price, Tokens, read_price, tokens_in

FILE = """
currency = "EUR"
models.small = { input = 1, output = 4.5 }
models."org/big" = { input = 2, cached = 0.5, output = 8, batch = 0.5 }
"""


def test_cached_prompt_tokens_and_batches_cost_what_the_file_says_and_reasoning_is_part_of_the_response(tmp_path):
    (tmp_path / "prices.toml").write_text(FILE)
    big, small = (read_price(tmp_path / "prices.toml", name) for name in ("org/big", "small"))
    used = Tokens(requests=3, prompt=1_000_000, cached=400_000, completion=250_000, reasoning=200_000)
    assert big.cost(used) == pytest.approx(0.6 * 2 + 0.4 * 0.5 + 0.25 * 8)
    assert big.cost(used, batch=True) == pytest.approx(big.cost(used) / 2)
    assert small.cost(used) == small.cost(used, batch=True) == pytest.approx(1 + 0.25 * 4.5)
    models = {"small": {"input": 1, "output": 4.5}}
    (tmp_path / "prices.json").write_text(json.dumps({"currency": "EUR", "models": models}))
    assert read_price(tmp_path / "prices.json", "small") == small
    assert [small.shown(cost) for cost in (0, 0.000123456, 0.5, 12.3, 4321)] == [
        "0.00 EUR",
        "0.000123 EUR",
        "0.500 EUR",
        "12.30 EUR",
        "4,321.00 EUR",
    ]
    assert Price(1, 1, 1, 1).shown(2) == "2.00"


def test_a_price_file_that_cannot_be_used_is_one_line(tmp_path):
    wrong = []
    for content, model, reason in (
        (FILE, "smal", "no price of model 'smal' (did you mean 'small'? it has: org/big, small)"),
        ("models = 3", "small", "must hold `models`"),
        ("currency = 3\n[models]", "small", "must hold `models`, and `currency` as a text"),
        ("[models.small]\ninput = 1", "small", "must have the prices `input` and `output`"),
        ("[models.small]\ninput = 1\noutput = -2", "small", "output must be a number >= 0, got -2"),
        ("[models.small]\ninput = 1\noutput = inf", "small", "output must be a number >= 0, got inf"),
        ("[models.small]\ninput = true\noutput = 1", "small", "input must be a number >= 0, got True"),
        ("[models.small]\ninput = 1\noutput = 1\ncache = 1", "small", "no price 'cache' (did you mean 'cached'?"),
        ("[models.small", "small", "is no TOML"),
        ("\xff", "small", "is no TOML"),
    ):
        path = tmp_path / "prices.toml"
        path.write_text(content, encoding="latin1")
        line = refusal_of(read_price, path, model)
        if reason not in line or not line.startswith(f"--prices {path}: "):
            wrong.append((content, line))
    assert wrong == []
    (tmp_path / "list.json").write_text("[1]")
    assert "must hold `models`" in refusal_of(read_price, tmp_path / "list.json", "small")
    assert "cannot be read" in refusal_of(read_price, tmp_path / "none.toml", "small")


def test_what_a_server_counts_is_read_and_nonsense_is_not():
    counts = {"prompt_tokens": 9, "completion_tokens": 5}
    details = {"prompt_tokens_details": {"cached_tokens": 4}, "completion_tokens_details": {"reasoning_tokens": 3}}
    read = [
        tokens_in({"usage": usage})
        for usage in (
            counts,
            counts | details,
            counts | {"prompt_cache_hit_tokens": 4},
            counts | {"prompt_tokens_details": None, "completion_tokens_details": {"reasoning_tokens": 99}},
        )
    ]
    assert read == [Tokens(1, 9, 0, 5, 0), Tokens(1, 9, 4, 5, 3), Tokens(1, 9, 4, 5, 0), Tokens(1, 9, 0, 5, 5)]
    nonsense = ({}, None, [], {"usage": 3}, {"usage": {"prompt_tokens": 9}}, {"usage": counts | {"prompt_tokens": -1}})
    assert [tokens_in(answer) for answer in nonsense] == [None] * 6
