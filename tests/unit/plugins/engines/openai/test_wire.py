"""What is written to an OpenAI-compatible server, and how its answers are read, whatever they hold."""

import math

from harness import Sampler
from harness_plugins.engines.openai.wire import OPTIONAL, first_form, prompt_tokens, read_choices, reason_in
from harness_plugins.samplers.plain import MinP, Nucleus

EXTRAS = {"min_p", "top_k", "repetition_penalty"}
FORM = first_form("chat", 16, knows_extras=True)


def form_after(refusal, sampler=None, rows=1, proven=False, form=FORM):
    return form.after_refusal(refusal, sampler or Sampler(), rows, proven)


# Requests.


def test_a_chat_is_sent_as_messages_and_a_completion_as_one_text():
    parts = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    chat = first_form("chat", 1, False).body("m", parts, Sampler(), 5, 3, 1)
    text = first_form("completions", 1, False).body("m", parts, Sampler(), 5, 3, 2)
    assert (chat["messages"], chat["logprobs"], chat["max_tokens"], chat["seed"]) == (parts, True, 5, 3)
    assert (text["prompt"], text["logprobs"], text["n"]) == ("Be brief.\n\nHi", 1, 2)
    assert "n" not in chat


def test_extra_fields_are_sent_where_the_sampler_uses_them_or_the_servers_defaults_may_filter():
    def body(knows_extras, sampler):
        return first_form("chat", 1, knows_extras).body("m", [], sampler, 5, 3, 1)

    plain, min_p, neutral = body(False, Sampler()), body(False, MinP()), body(True, Sampler())
    assert not EXTRAS & set(plain)
    assert (plain["temperature"], plain["top_p"]) == (1, 1)
    assert (min_p["temperature"], min_p["min_p"]) == (1.5, 0.05)
    assert EXTRAS & set(min_p) == {"min_p"}
    assert {name: neutral[name] for name in EXTRAS} == {"min_p": 0, "top_k": -1, "repetition_penalty": 1}


def test_a_refused_field_is_left_out_unless_the_sampler_needs_it_or_the_form_has_worked_before():
    for name in sorted(FORM.fields):
        refusal = f"Unrecognized request argument supplied: {name}"
        assert form_after(refusal) == FORM.without(name), name
        assert form_after(refusal, proven=True) is None, name
        assert form_after(refusal, rows=2, proven=True) == FORM.one_row(), name
    for sampler, name in ((MinP(), "min_p"), (Sampler(top_k=5), "top_k"), (Nucleus(), "top_p")):
        assert form_after(f"no {name} here", sampler) is None, name
        assert FORM.needed(f"no {name} here", sampler) == name
        assert FORM.needed(f"no {name}_x here", sampler) is None


def test_a_refusal_that_names_no_field_first_asks_for_one_row_and_then_drops_the_optional_fields_in_turn():
    assert form_after("Bad request.", rows=2) == FORM.one_row()
    form, dropped = FORM, []
    while (narrower := form_after("Bad request.", form=form)) is not None:
        dropped += form.fields - narrower.fields
        form = narrower
    assert dropped == list(OPTIONAL)


def test_a_prompt_that_is_too_long_is_refused_for_good_and_another_name_of_the_limit_is_taken():
    for refusal in ("maximum context length is 128 tokens", "the prompt is too long", "max_tokens: at most 40"):
        assert form_after(refusal) is None, refusal
    newer = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
    assert form_after(newer).limit == "max_completion_tokens"


# Answers.


def test_a_reason_holds_the_servers_message_and_the_fields_that_it_names():
    body = {"msg": "too big", "loc": ["body", "n"]}
    for answer, reason in (
        ({"error": "busy"}, "busy"),
        ({"error": {"message": "no", "param": "seed", "code": "unsupported"}}, "no seed unsupported"),
        ({"detail": "Not Found"}, "Not Found"),
        ({"detail": [body, 3]}, "too big (body.n)"),
        ({"message": "no"}, "no"),
        (["no"], ""),
        ({"error": None}, ""),
        ({"error": {"message": 3}}, ""),
    ):
        assert reason_in(answer) == reason


def choice_of(index=0, **more):
    return {"index": index, "finish_reason": "stop", "text": "x", **more}


def test_choices_are_put_in_the_order_of_their_index():
    choices = [choice_of(i, text=f"row {i}") for i in (2, 0, 1)]
    assert [read_choices({"choices": choices}, 3)[row].text for row in range(3)] == ["row 0", "row 1", "row 2"]
    assert list(read_choices({"choices": choices}, 2)) == [0, 1]
    assert [choice.text for choice in read_choices({"choices": choices[:2]}, 3).values()] == ["row 2", "row 0"]


def test_a_usage_of_several_responses_is_shared_by_their_length():
    usage = {"completion_tokens": 20, "prompt_tokens": 9}
    choices = [choice_of(i, text="x" * size) for i, size in enumerate((30, 10))]
    shared = read_choices({"choices": choices, "usage": usage}, 2)
    assert [shared[row].tokens for row in (0, 1)] == [15, 5]
    assert read_choices({"choices": choices, "usage": usage}, 1)[0].tokens is None  # it counts another response too
    assert prompt_tokens({"usage": usage}) == 9
    assert [prompt_tokens({"usage": {"prompt_tokens": value}}) for value in (True, -1, 2**31, "9")] == [None] * 4


def test_log_probabilities_are_summed_where_each_token_has_a_real_one():
    def logprob(values, **more):
        return read_choices({"choices": [choice_of(logprobs={"token_logprobs": values}, **more)]}, 1)[0].logprob

    assert logprob([-1.5, -0.5]) == -2
    assert logprob([1e-4]) == 0  # rounding
    for values in ([-1.0, None], [-1.0, 0.1], [True], [-1e7], ["-1"]):
        assert math.isnan(logprob(values)), values
    assert math.isnan(logprob([-1.5], token_ids=[1, 2]))


def test_the_text_of_a_message_is_what_it_says_without_its_reasoning():
    parts = [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]
    for content, text in ((None, ""), (parts, "ab")):
        message = {"content": content, "reasoning_content": "hm"}
        assert read_choices({"choices": [choice_of(message=message)]}, 1)[0].text == text
