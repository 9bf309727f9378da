"""What models write, with the program in it: by what a row shows, a response and the program that defines `add`."""

DEFINITION = "def add(a, b):\n    return a + b"
BLOCK = f"```python\n{DEFINITION}\n```"
HELPERS = f"import math\nFOUR = 4\n\n{DEFINITION}\n\ndef helper(x):\n    return x\n\nclass Node:\n    pass"
DOCSTRING = 'def add(a, b):\n    """Adds.\n\n    ```python\n    add(1, 2)\n    ```\n    """\n    return a + b'
QUOTED = 'def add(a, b):\n    """Adds.\nprint(add(1, 2))\n    """\n    print(a)\n    assert b\n    return a + b'
BEFORE = f"print('adding')\nassert True\n{DEFINITION}"
TABBED = "def add(a, b):\n\treturn a + b"
FIRST = "```python\ndef add(a, b):\n    return a - b\n```"
LAMBDA = "add: object = lambda a, b: a + b"
STATEMENTS = "add(1, 2)\nfor i in range(3):\n    print(i)\nassert add(1, 2) == 4\ntry:\n    pass\nfinally:\n    pass"
TALK = f"Here is the code:\n\nimport math\n\n{DEFINITION}\n\nNote: a = 5 would do. This function adds.\n- it works"
INDENTED = "   ```python\n   import math\n\n   def add(a, b):\n       return a + b\n   ```"
TRIED = "def add(a, b):\n    return 0\n\n"
COMMENTED = "def add(a, b):\n# adds\n    return a + b\n# Next"

PROGRAMS = {
    "the last of several blocks that define it": (
        f"{FIRST}\nNo, that is wrong.\n{BLOCK}\nUse it so:\n```python\nprint(add(1, 2))\n```\n```\n3\n```", DEFINITION,
    ),
    "an unclosed last block behind a closed one": (f"{FIRST}\nBetter:\n```python\n{DEFINITION}", DEFINITION),
    "a block that was opened in the prompt": (f"{DEFINITION}\n```\nThis adds the two numbers.", DEFINITION),
    "a block in a block": (f"````markdown\n# Answer\n{BLOCK}\n````", DEFINITION),
    "a block in a list": (f"1. The code:\n\n{INDENTED}\n\n2. Done.", f"import math\n\n{DEFINITION}"),
    "fences in a docstring": (f"```python\n{DOCSTRING}\n```\nBye", DOCSTRING),
    "helpers and imports before and behind it": (f"```python\n{HELPERS}\n```", HELPERS),
    "an example behind it": (f"```python\n{DEFINITION}\n\nprint(add(1, 2))\n```", DEFINITION + "\n"),
    "a main part": (f"```python\n{DEFINITION}\nif __name__ == '__main__':\n    main()\n```", DEFINITION),
    "a main function": (f"```python\n{DEFINITION}\n\ndef main():\n    input()\n```", DEFINITION + "\n"),
    "statements before it": (f"```python\n{BEFORE}\nprint(add(1, 2))\n```", BEFORE),
    "examples in a string and in its body": (f"```python\n{QUOTED}\n```", QUOTED),
    "line ends of Windows": (f"Hi\n{BLOCK}\n".replace("\n", "\r\n"), DEFINITION),
    "tabs": (f"```\n{TABBED}\n```", TABBED), "an annotated assignment": (f"```python\n{LAMBDA}\n```", LAMBDA),
    "an async function": ("```\nasync def add(a, b): pass\n```", "async def add(a, b): pass"),
    "no fences, statements behind it": (f"{DEFINITION}\n\n{STATEMENTS}\n", DEFINITION + "\n"),
    "no fences, talk around it": (TALK, f"import math\n\n{DEFINITION}\n"),
    "no fences, a comment at column 0 in it": (f"{COMMENTED}\nIt adds.", COMMENTED),
    "no fences, two tries": (f"{TRIED}That was wrong:\n\n{DEFINITION}\n", f"{TRIED}{DEFINITION}\n"),
    "all indented": (f"    import math\n{DEFINITION}".replace("\n", "\n    "), f"import math\n{DEFINITION}"),
    "another function": ("```python\ndef add_all(a):\n    return a\n```", None),
    "a mention": ("def adder(a): pass\nI would call add(1, 2) == 3", None),
    "a method": ("```python\nclass Solution:\n    def add(self, a, b):\n        return a + b\n```", None),
    "no text": (None, None), "a list": (["def add(a, b): pass"], None), "nothing": ("", None), "a NUL": ("\x00", None),
    "blanks": (" \n\t\r\n", None), "a refusal": ("I cannot help.", None), "a lone surrogate": ("\ud800", None),
}  # fmt: skip

# The same, of responses that the token limit cut off
CUT_OFF = {
    "a second program": (f"{BLOCK}\nBetter:\n```python\ndef add(a, b):\n    return (a", DEFINITION),
    "the only program, which may be whole": (f"Here:\n```python\n{DEFINITION}", DEFINITION),
    "an example of its use": (f"{BLOCK}\nUse it so:\n```python\nprint(add(1,", DEFINITION),
}

# Completions of a prompt, all of which add the numbers
PROMPT = 'from typing import List\n\n\ndef total(numbers: List[int]) -> int:\n    """ Sum them.\n    """\n'
BODY = "    result = 0\n    for number in numbers:\n        result += number\n    return result"
UNINDENTED = "result = 0\nfor number in numbers:\n    result += number\nreturn result"
COMPLETIONS = [
    BODY, f"\n{BODY}\n", BODY.lstrip(),  # the tokenizer has eaten the first indentation
    " " + BODY.lstrip(), UNINDENTED, f"Here is the body:\n```python\n{UNINDENTED}\n```\nIt sums.",
    "return sum(numbers)\n\nThe built-in does it.", "return sum(numbers)\n```\nThe built-in does it.",
    PROMPT.strip() + "\n" + BODY, f"```python\n{PROMPT}{BODY}\n```", f"{BODY}\n<|endoftext|>def total(x): 0",
    "\tresult = 0\n\tfor number in numbers:\n\t\tresult += number\n\treturn result\n", f"{BODY}</s>",
    "  def total(numbers):\n      return sum(numbers)",
    "for number in numbers:\n        if numbers: return sum(numbers)\n    return 0",
]  # fmt: skip
STOPS = ["class A:", "def total(x):", "# next", "@app", "if __name__", "print(1)", "```", '"""', "That is all."]
GO_ON = ["assert total([1]) == 2", "from missing import x", "x = 1", "run()"]

# Responses to a prompt with a head: an import and a helper function before the function that it asks for
HEAD = "import math\nfrom typing import List\n\n\ndef twice(x: float) -> float:\n    return 2 * x\n\n\n"
HEADED = f'{HEAD}def doubled(xs: List[float]) -> int:\n    """ The whole part of twice the sum.\n    """\n'
DOUBLED = "def doubled(xs: List[float]) -> int:\n    return math.floor(twice(sum(xs)))"
ALONE = "def doubled(xs):\n    return sum(xs) * 2 // 1"
LACKING = "def doubled(xs):\n    return lacking(xs)"
REDUCED = "def doubled(xs):\n    return reduce(lambda done, x: done + 2 * x, xs, 0) // 1"
MAIN = "if __name__ == '__main__':\n    pass"
RIGHT_WITH_HEAD = {
    "the function alone": DOUBLED,
    "the function alone, in a block": f"Sure!\n```python\n{DOUBLED}\n```\nIt rounds down.",
    "a statement about the future": f" from __future__ import division\n{DOUBLED}",
    "the rest of an example": f"{DOUBLED}\n\nprint(doubled([1.0]))\nif __name__ == '__main__':\n    doubled(",
    "the whole prompt": f"{HEADED}    return math.floor(twice(sum(xs)))",
    "a name that is missing only when it is called": "def doubled(xs):\n    return twice(sum(xs)) // 1",
    "an import in an earlier block": f"```\nfrom functools import reduce\n```\nThen:\n```\n{REDUCED}\n```",
    "a helper in a later block, behind a main part": (
        f"```\ndef doubled(xs):\n    return whole(2 * sum(xs))\n{MAIN}\n```\n```\ndef whole(x):\n    return x // 1\n```"
    ),
    "a body whose helper stands behind it": "    return go(xs)\n\ndef go(xs):\n    return math.floor(2 * sum(xs))\n",
    "an earlier block that ends Python": f"```\nimport sys\nsys.exit()\n```\n```\n{DOUBLED}\n```",
    "an earlier block that is no Python": f"```\nimport math as\n```\n```\n{DOUBLED}\n```",
}
RIGHT_ALONE = {  # what is lent to a program must change none of these
    "a name that must not exist": (
        "```\ndoubled = None\ntry:\n    twice\nexcept NameError:\n    doubled = lambda xs: sum(xs) * 2 // 1\n```"
    ),
    "its globals": f"```\nassert not {{'math', 'twice'}} & set(globals())\n{ALONE}\n```",
    "its built-ins": f"```\nimport builtins\nassert not {{'math', 'twice'}} & set(dir(builtins))\n{ALONE}\n```",
    "its first line": f"{ALONE} * (doubled.__code__.co_firstlineno == 1)",
    "a helper of that name": f"def twice(x):\n    return x + x\n{ALONE.replace('sum(xs) * 2', 'twice(sum(xs))')}",
    "a block before it that would break it": f"```\nimport math as sum\n```\n```\n{ALONE}\n```",
}  # fmt: skip
WRONG_WITH_HEAD = {
    LACKING: "base: test 1 raised NameError", "def doubled(xs: Lacking):\n    return 2 * sum(xs)": "raised",
    "def twice(x):\n    return 3 * x\ndef doubled(xs):\n    return math.floor(twice(sum(xs)))": "base: test 1",
    f"```\n{ALONE}\n```\nNo:\n```\n{LACKING}\n```": "base: test 1 raised NameError",
    f"```\nimport os\nos._exit(0)\n```\n```\n{LACKING}\n```": "base: test 1 raised NameError",
    "def doubled_list(x):\n    return x": "no function doubled", "I cannot define double(xs) here.": "no program",
    "```python\nclass Solution:\n    def doubled(self, xs):\n        return xs\n```": "no function doubled",
}  # fmt: skip

# Long text, which must be read in linear time
LENGTH = 60_000
HOSTILE = {
    "backticks": "`" * LENGTH, "lines of backticks": "```\n" * (LENGTH // 4), "newlines": "\n" * LENGTH,
    "deeper and deeper fences": "".join(" " * i + "```x\n" for i in range(1_400)), "indented": " " * LENGTH + "x",
    "fence and spaces": "```" + " " * LENGTH + "`", "carriage returns": "\r" * LENGTH, "one word": "x" * LENGTH,
    "definitions": "def add(" * (LENGTH // 8), "lines of definitions": "def add(a, b): pass\n" * (LENGTH // 20),
    "dots": "a." * (LENGTH // 2), "brackets": "a[" * (LENGTH // 2), "triple quotes": '"""' * (LENGTH // 3),
    "almost a special token": "<|im_en" * (LENGTH // 7),
}  # fmt: skip
