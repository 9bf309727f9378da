"""What is written to an OpenAI-compatible server, and how its answers are read, whatever they hold."""

from support.refusals import refusal_of

from harness import Sampler
from harness.records import SampleRequest
from harness_plugins.engines.openai.requests import OPTIONAL, first_form, read_choice, reason_in, usage
from harness_plugins.samplers.plain import MinP, Nucleus

EXTRAS = {"min_p", "top_k", "repetition_penalty"}
FORM = first_form("chat", knows_extras=True)


def form_after(refusal, sampler=None, proven=False, form=FORM):
    return form.after_refusal(refusal, sampler or Sampler(), proven)


def request(sampler, **more):
    return SampleRequest([], 1, sampler, 5, [], **more)


# Requests.


def test_a_chat_is_sent_as_messages_and_a_completion_as_one_text():
    parts = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    chat = first_form("chat", False).body("m", parts, request(Sampler()), 3)
    text = first_form("completions", False).body("m", parts, request(Sampler(), stop=["Q:"]), 3)
    assert (chat["messages"], chat["logprobs"], chat["max_tokens"], chat["seed"]) == (parts, True, 5, 3)
    assert (text["prompt"], text["logprobs"], text["stop"]) == ("Be brief.\n\nHi", 1, ["Q:"])
    assert "stop" not in chat


def test_extra_fields_are_sent_where_the_sampler_uses_them_or_the_servers_defaults_may_filter():
    def body(knows_extras, sampler):
        return first_form("chat", knows_extras).body("m", [], request(sampler), 3)

    plain, min_p, neutral = body(False, Sampler()), body(False, MinP()), body(True, Sampler())
    assert not EXTRAS & set(plain)
    assert (plain["temperature"], plain["top_p"]) == (1, 1)
    assert (min_p["temperature"], min_p["min_p"]) == (1.5, 0.05)
    assert EXTRAS & set(min_p) == {"min_p"}
    assert {name: neutral[name] for name in EXTRAS} == {"min_p": 0, "top_k": -1, "repetition_penalty": 1}


def test_a_refused_field_is_left_out_unless_the_sampler_needs_it_or_the_form_has_worked_before():
    for name in sorted(FORM.fields):
        refusal = f"Unrecognized request argument supplied: {name}"
        assert form_after(refusal).fields == FORM.fields - {name}, name
        assert form_after(refusal, proven=True) is None, name
    for sampler, name in ((MinP(), "min_p"), (Sampler(top_k=5), "top_k"), (Nucleus(), "top_p")):
        line = refusal_of(form_after, f"no {name} here", sampler)
        assert line.startswith(f"openai: the server refuses {name}, which the sampler needs (no {name} here)"), name
        assert form_after(f"no {name}_x here", sampler) is not None, name


def test_a_refusal_that_names_no_field_drops_the_optional_fields_in_turn():
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
    for answer, reason in (
        ({"error": "busy"}, "busy"),
        ({"error": {"message": "no", "param": "seed", "code": "unsupported"}}, "no seed unsupported"),
        ({"detail": "Not Found"}, '{"detail": "Not Found"}'),
        (
            {"detail": [{"msg": "too big", "loc": ["body", "n"]}]},
            '{"detail": [{"msg": "too big", "loc": ["body", "n"]}]}',
        ),
        ({"message": "no"}, "no"),
        (["no"], ""),
        ({"error": None}, ""),
        ({"error": {"message": 3}}, '{"message": 3}'),
    ):
        assert reason_in(answer) == reason


def choice_of(**more):
    return read_choice({"choices": [{"index": 0, "finish_reason": "stop", "text": "x", **more}]})


def test_a_usage_counts_where_it_is_a_count():
    assert usage({"usage": {"prompt_tokens": 9, "completion_tokens": 0}}) == [9, 0]
    for given in ({"usage": {"prompt_tokens": value}} for value in (True, -1, 2**31, "9")):
        assert usage(given) == [None, None]


def test_log_probabilities_are_summed_where_each_token_has_a_real_one():
    def logprob(values, **more):
        return choice_of(logprobs={"token_logprobs": values}, **more).logprob

    assert logprob([-1.5, -0.5]) == -2
    assert logprob([1e-4]) == 0  # rounding
    for values in ([-1.0, None], [-1.0, 0.1], [True], [-1e7], ["-1"]):
        assert logprob(values) is None, values
    assert logprob([-1.5], token_ids=[1, 2]) is None


def test_a_message_that_is_only_reasoning_has_no_text():
    assert choice_of(message={"content": None, "reasoning_content": "hm"}).text == ""
