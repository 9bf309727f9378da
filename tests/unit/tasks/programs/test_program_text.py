"""Where the program begins and ends in what models write."""

import time

from corpora.responses import BODY, COMPLETIONS, CUT_OFF, DEFINITION, GO_ON, HOSTILE, PROGRAMS, PROMPT, STOPS
from hypothesis import given
from hypothesis import strategies as st

from harness_tasks.programs.program_text import LOOK_AT, defines_a_function, program_in

CPU_S = 3.0  # hostile text takes some hundredths of a second


def source_in(response, entry_point, prompt="", cut_off=False):
    """The source of the program in a response, None without one."""
    program = program_in(response, entry_point, prompt, cut_off)
    return program and program.source


def completion(response):
    """What the completed function returns: the tests' own programs are harmless."""
    scope = {}
    exec(source_in(response, "total", PROMPT), scope)
    return scope["total"]([1, 2, 3])


def test_the_program_in_a_response_is_found_whatever_its_fence():
    extracted = {name: source_in(response, "add") for name, (response, _) in PROGRAMS.items()}
    assert extracted == {name: program for name, (_, program) in PROGRAMS.items()}
    for fence in ("```", "~~~", "````"):
        for info in ("python", "Python3", "", "{.python .numberLines}", " python"):
            response = f"Sure! Here it is:\n\n{fence}{info}\n{DEFINITION}\n{fence}\n\nIt adds them."
            assert source_in(response, "add") == DEFINITION, response
    for junk in ("\x00", "\ud800", "\u2028", "\x0c"):  # it stays in the program, for the sandbox to refuse
        assert junk in source_in(f"```python\n{DEFINITION} # {junk}\n```", "add")


def test_a_last_block_that_the_token_limit_cut_off_falls_back_on_the_last_closed_one():
    """Asked to improve on its program, a model begins a second one and runs out of tokens."""
    extracted = {name: source_in(response, "add", cut_off=True) for name, (response, _) in CUT_OFF.items()}
    assert extracted == {name: program for name, (_, program) in CUT_OFF.items()}
    response, _ = CUT_OFF["a second program"]
    assert source_in(response, "add").endswith("return (a")  # one that the model ended itself is its last word


def test_completions_continue_the_prompt_where_it_begins_the_function():
    assert [response for response in COMPLETIONS if completion(response) != 6] == []
    assert source_in(BODY, "total", '"""\nWrite a function to sum.\nassert total([1]) == 1\n"""\n') is None
    assert source_in("    total = 0\n    return total\n", "total", PROMPT).startswith(PROMPT)


def test_a_completion_ends_at_the_usual_stop_sequences_and_at_what_is_no_code_and_keeps_what_follows_its_function():
    programs = {stop: source_in(f"{BODY}\n{stop}\n    junk (((", "total", PROMPT) for stop in STOPS}
    assert programs == dict.fromkeys(STOPS, f"{PROMPT}{BODY}\n")
    programs = {more: source_in(f"{BODY}\n{more}\nprint(1)", "total", PROMPT) for more in GO_ON}
    assert programs == {more: f"{PROMPT}{BODY}\n{more}\n" for more in GO_ON}
    text = '    text = """\nprint(1)\n"""\n'  # brackets, strings and its own attributes
    body = f"    total.calls = [\n        1,\n]\n{text}    return len(text) + len(total.calls) + total.more"
    assert completion(f"{body}\n\ntotal.more = 2\nprint(total)") == 13


def test_hostile_text_is_read_in_linear_time_and_of_long_text_the_last_block_and_the_first_completion():
    slow = []
    for name, text in HOSTILE.items():
        for prompt in ("", PROMPT.replace("total", "add")):
            started = time.process_time()
            source_in(text, "add", prompt)
            defines_a_function(text)
            source_in(f"{text}\n```python\n{DEFINITION}\n```", "add", prompt)
            slow += [name] * (time.process_time() - started > CPU_S)
    assert slow == []
    talk = "Let me think about it. " * (4 * LOOK_AT // 20)
    assert source_in(f"{talk}\n```python\n{DEFINITION}\n```", "add") == DEFINITION
    assert completion(f"{BODY}\n\n{talk}") == 6


@given(st.lists(st.sampled_from(["import os", DEFINITION, "x = 1", "class A:\n    pass", "# why", ""]), max_size=6))
def test_a_program_in_a_block_comes_out_as_it_went_in(parts):
    program = "\n".join([*parts, DEFINITION])
    assert source_in(f"Text.\n```python\n{program}\n```\nText.", "add") == program
