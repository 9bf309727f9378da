"""Where the program begins and ends in what models write."""

from __future__ import annotations

import ast
import textwrap
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_tasks.programs.program_text import LOOK_AT, program_in

DEFINITION = "def add(a, b):\n    return a + b"
PROMPT = 'from typing import List\n\n\ndef total(numbers: List[int]) -> int:\n    """ Sum them.\n    """\n'
BODY = "    found = 0\n    for number in numbers:\n        found += number\n    return found"
SECONDS = 5.0  # hostile text takes milliseconds; machines are shared


def called(program, *given, name="add"):
    """What the program's function returns: the tests' own programs are harmless."""
    scope = {}
    exec(program, scope)
    return scope[name](*given)


def completion(response):
    return called(program_in(response, "total", PROMPT), [1, 2, 3], name="total")


@pytest.mark.parametrize("info", ["python", "py", "Python", "python3", "", "{.python .numberLines}", " python"])
@pytest.mark.parametrize("fence", ["```", "~~~", "````"])
def test_a_fenced_block_is_found_whatever_its_fence(fence, info):
    response = f"Sure! Here it is:\n\n{fence}{info}\n{DEFINITION}\n{fence}\n\nIt adds them."
    assert program_in(response, "add") == DEFINITION


def test_of_several_blocks_the_last_that_defines_the_function_is_taken():
    first = "```python\ndef add(a, b):\n    return a - b\n```"
    usage = "```python\nprint(add(1, 2))\n```\n```\n3\n```"
    assert program_in(f"{first}\nNo, that is wrong.\n```python\n{DEFINITION}\n```\nUse it so:\n{usage}", "add") == (
        DEFINITION
    )


def test_an_unclosed_last_block_counts():
    assert called(program_in(f"Here:\n```python\n{DEFINITION}\n", "add"), 1, 2) == 3
    assert (
        program_in(f"```python\ndef add(a, b):\n    return\n```\nBetter:\n```python\n{DEFINITION}", "add") == DEFINITION
    )


def test_a_last_block_that_the_token_limit_cut_off_falls_back_on_the_last_closed_one():
    """Asked to improve on its program, a model begins a second one and runs out of tokens."""
    response = f"```python\n{DEFINITION}\n```\nBetter:\n```python\ndef add(a, b):\n    return (a"
    assert program_in(response, "add", cut_off=True) == DEFINITION
    assert program_in(response, "add").endswith("return (a")  # one that the model ended itself is its last word
    alone = f"Here:\n```python\n{DEFINITION}"
    assert program_in(alone, "add", cut_off=True) == DEFINITION  # there is no other, and it may be whole
    usage = f"```python\n{DEFINITION}\n```\nUse it so:\n```python\nprint(add(1,"
    assert program_in(usage, "add", cut_off=True) == DEFINITION


def test_a_block_that_was_opened_in_the_prompt_ends_at_its_fence():
    assert program_in(f"{DEFINITION}\n```\nThis adds the two numbers.", "add") == DEFINITION


def test_a_block_may_be_wrapped_in_another_one():
    assert program_in(f"````markdown\n# Answer\n```python\n{DEFINITION}\n```\n````", "add") == DEFINITION


def test_a_block_in_a_list_loses_the_lists_indentation():
    block = textwrap.indent(f"```python\nimport math\n\n{DEFINITION}\n```", "   ")
    assert program_in(f"1. The code:\n\n{block}\n\n2. Done.", "add") == f"import math\n\n{DEFINITION}"


def test_fences_in_a_docstring_are_part_of_the_program():
    program = 'def add(a, b):\n    """Adds.\n\n    ```python\n    add(1, 2)\n    ```\n    """\n    return a + b'
    assert program_in(f"```python\n{program}\n```\nBye", "add") == program


def test_helpers_and_imports_before_and_behind_the_function_stay():
    program = f"import math\nFOUR = 4\n\n{DEFINITION}\n\ndef helper(x):\n    return x\n\nclass Node:\n    pass"
    assert program_in(f"```python\n{program}\n```", "add") == program


@pytest.mark.parametrize(
    "example",
    ["print(add(1, 2))", "assert add(1, 2) == 4", "if __name__ == '__main__':\n    main()", "def main():\n    input()"],
)
def test_examples_behind_the_function_are_left_away(example):
    assert program_in(f"```python\n{DEFINITION}\n\n{example}\n```", "add").strip() == DEFINITION


def test_without_fences_statements_behind_the_function_are_left_away():
    statements = (
        "add(1, 2)\nfor i in range(3):\n    print(i)\nassert add(1, 2) == 4\ntry:\n    pass\nfinally:\n    pass"
    )
    assert program_in(f"{DEFINITION}\n\n{statements}\n", "add").strip() == DEFINITION


def test_what_stands_before_the_function_stays():
    program = f"print('adding')\nassert True\n{DEFINITION}"
    assert program_in(f"```python\n{program}\nprint(add(1, 2))\n```", "add") == program


def test_examples_in_a_string_or_in_a_body_are_not_the_end():
    program = 'def add(a, b):\n    """Adds.\nprint(add(1, 2))\n    """\n    print(a)\n    assert b\n    return a + b'
    assert program_in(f"```python\n{program}\n```", "add") == program


@pytest.mark.parametrize("newline", ["\r\n", "\r"])
def test_line_ends_of_other_systems_are_read(newline):
    assert program_in(f"Hi\n```python\n{DEFINITION}\n```\n".replace("\n", newline), "add") == DEFINITION


def test_tabs_are_kept_in_a_program_and_become_four_columns_in_a_completion():
    tabbed = DEFINITION.replace("    ", "\t")
    assert program_in(f"```\n{tabbed}\n```", "add") == tabbed
    assert completion("\tfound = 0\n\tfor number in numbers:\n\t\tfound += number\n\treturn found\n") == 6


def test_code_without_fences_is_taken_and_the_talk_around_it_left():
    response = (
        f"Here is the code:\n\nimport math\n\n{DEFINITION}\n\nNote: a = 5 would do. This function adds.\n- it works"
    )
    assert program_in(response, "add") == f"import math\n\n{DEFINITION}\n"


def test_of_two_tries_without_fences_both_are_kept_so_that_the_last_one_counts():
    response = f"def add(a, b):\n    return 0\n\nThat was wrong. Better:\n\n{DEFINITION}\n"
    assert called(program_in(response, "add"), 1, 2) == 3


def test_a_response_that_is_indented_as_a_whole_is_dedented():
    assert program_in(textwrap.indent(f"import math\n{DEFINITION}", "    "), "add") == f"import math\n{DEFINITION}"
    whole = textwrap.indent("def total(numbers):\n    return sum(numbers)", "  ")
    assert completion(whole) == 6


@pytest.mark.parametrize("definition", ["add = lambda a, b: a + b", "add: object = lambda a, b: a + b"])
def test_a_function_may_be_assigned(definition):
    assert called(program_in(f"```python\n{definition}\n```", "add"), 1, 2) == 3


def test_another_functions_definition_or_a_mention_is_not_enough():
    assert program_in("```python\ndef add_all(a):\n    return a\n```", "add") is None
    assert program_in("def adder(a): pass\nI would call add(1, 2) == 3", "add") is None
    assert program_in("```python\nclass Solution:\n    def add(self, a, b):\n        return a + b\n```", "add") is None


# Completions of HumanEval's prompts


@pytest.mark.parametrize(
    "response",
    [
        BODY,
        f"{BODY}\n",
        f"\n{BODY}",
        BODY.lstrip(),  # the tokenizer has eaten the first indentation
        " " + BODY.lstrip(),
        textwrap.dedent(BODY),
        f"```python\n{BODY}\n```",
        f"Here is the body:\n```python\n{textwrap.dedent(BODY)}\n```\nIt sums.",
        "return sum(numbers)",
        "return sum(numbers)\n\nThe built-in does it.",
        "return sum(numbers)\n```\nThe built-in does it.",
        PROMPT + BODY,
        PROMPT.strip() + "\n" + BODY,
        f"```python\n{PROMPT}{BODY}\n```",
        f"{BODY}\n<|endoftext|>def total(numbers):\n    return 0",
        f"{BODY}</s>",
    ],
)
def test_completions_continue_the_prompt(response):
    assert completion(response) == 6


@pytest.mark.parametrize(
    "stop",
    ["class A:", "def total(x):", "# next", "@app", "if __name__", "print(1)", "```", '"""', "That is all.", "Done"],
)
def test_a_completion_ends_at_the_usual_stop_sequences_and_at_what_is_no_code(stop):
    program = program_in(f"{BODY}\n{stop}\n    junk (((", "total", PROMPT)
    assert program == f"{PROMPT}{BODY}\n"


@pytest.mark.parametrize(
    "more", ["assert total([1]) == 2", "import missing", "from missing import x", "x = 1", "run()"]
)
def test_a_completion_is_judged_with_the_code_that_follows_its_function(more):
    program = program_in(f"{BODY}\n{more}\nprint(1)", "total", PROMPT)
    assert program == f"{PROMPT}{BODY}\n{more}\n"


def test_a_completion_goes_on_behind_brackets_strings_and_its_own_attributes():
    text = '    text = """\nprint(1)\n"""\n'
    body = f"    total.calls = [\n        1,\n]\n{text}    return len(text) + len(total.calls) + total.more"
    assert completion(f"{body}\n\ntotal.more = 2\nprint(total)") == 13


def test_only_a_prompt_that_begins_the_function_is_continued():
    assert program_in(BODY, "total", '"""\nWrite a function to sum.\nassert total([1]) == 1\n"""\n') is None


def test_a_local_variable_named_as_the_function_does_not_make_a_body_a_program():
    assert program_in("    total = 0\n    return total\n", "total", PROMPT).startswith(PROMPT)


# Hostile text


NOTHING = [None, 7, ["def add(a, b): pass"], "", " \n\t\r\n", "\x00", "I cannot help.", "\ud800"]


@pytest.mark.parametrize("response", NOTHING)
def test_what_holds_no_program_has_none(response):
    assert program_in(response, "add") is None


@pytest.mark.parametrize("junk", ["\x00", "\ud800", "\u2028", "\x0c"])
def test_odd_characters_stay_in_the_program_for_the_sandbox_to_refuse(junk):
    assert junk in program_in(f"```python\n{DEFINITION} # {junk}\n```", "add")


MEGABYTE = 1_000_000
HOSTILE = {
    "backticks": "`" * MEGABYTE,
    "lines of backticks": "```\n" * (MEGABYTE // 4),
    "fences that open": "```python\n" * (MEGABYTE // 10),
    "deeper and deeper fences": "".join(" " * i + "```x\n" for i in range(1_400)),
    "spaces": " " * MEGABYTE,
    "indented line": " " * MEGABYTE + "x",
    "fence and spaces": "```" + " " * MEGABYTE + "`",
    "newlines": "\n" * MEGABYTE,
    "carriage returns": "\r" * MEGABYTE,
    "tabs": "\t" * MEGABYTE + "x",
    "one word": "x" * MEGABYTE,
    "definitions": "def add(" * (MEGABYTE // 8),
    "lines of definitions": "def add(a, b): pass\n" * (MEGABYTE // 20),
    "dots": "a." * (MEGABYTE // 2),
    "brackets": "a[" * (MEGABYTE // 2),
    "colons": "a:" * (MEGABYTE // 2),
    "triple quotes": '"""' * (MEGABYTE // 3),
    "almost a special token": "<|im_en" * (MEGABYTE // 7),
}


@pytest.mark.parametrize("prompt", ["", PROMPT.replace("total", "add")])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_read_in_linear_time(name, prompt):
    started = time.monotonic()
    program_in(HOSTILE[name], "add", prompt)
    program_in(f"{HOSTILE[name]}\n```python\n{DEFINITION}\n```", "add", prompt)
    assert time.monotonic() - started < SECONDS


def test_of_long_text_the_last_block_and_the_first_completion_are_found():
    talk = "Let me think about it. " * 40_000
    assert len(talk) > 4 * LOOK_AT
    assert program_in(f"{talk}\n```python\n{DEFINITION}\n```", "add") == DEFINITION
    assert completion(f"{BODY}\n\n{talk}") == 6


@given(st.text(alphabet="`~ \n\tdefa(b):=x\"'", max_size=200))
def test_what_is_found_is_text_that_defines_the_function(response):
    program = program_in(response, "add")
    assert program is None or "add" in program


@given(st.lists(st.sampled_from(["import os", DEFINITION, "x = 1", "class A:\n    pass", "# why", ""]), max_size=6))
def test_a_program_in_a_block_comes_out_as_it_went_in(parts):
    program = "\n".join([*parts, DEFINITION])
    ast.parse(program)
    assert program_in(f"Text.\n```python\n{program}\n```\nText.", "add") == program
