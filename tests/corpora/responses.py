"""What models write, with the program in it: by what a row shows, a response and the program that defines `add`."""

from __future__ import annotations

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

PROGRAMS = {
    "the last of several blocks that define it": (
        f"{FIRST}\nNo, that is wrong.\n{BLOCK}\nUse it so:\n```python\nprint(add(1, 2))\n```\n```\n3\n```",
        DEFINITION,
    ),
    "an unclosed last block": (f"Here:\n```python\n{DEFINITION}\n", DEFINITION + "\n"),
    "an unclosed last block behind a closed one": (f"{FIRST}\nBetter:\n```python\n{DEFINITION}", DEFINITION),
    "a block that was opened in the prompt": (f"{DEFINITION}\n```\nThis adds the two numbers.", DEFINITION),
    "a block in a block": (f"````markdown\n# Answer\n{BLOCK}\n````", DEFINITION),
    "a block in a list": (
        "1. The code:\n\n   ```python\n   import math\n\n   def add(a, b):\n       return a + b\n   ```\n\n2. Done.",
        f"import math\n\n{DEFINITION}",
    ),
    "fences in a docstring": (f"```python\n{DOCSTRING}\n```\nBye", DOCSTRING),
    "helpers and imports before and behind it": (f"```python\n{HELPERS}\n```", HELPERS),
    "an example behind it": (f"```python\n{DEFINITION}\n\nprint(add(1, 2))\n```", DEFINITION + "\n"),
    "an assertion behind it": (f"```python\n{DEFINITION}\n\nassert add(1, 2) == 4\n```", DEFINITION + "\n"),
    "a main part": (f"```python\n{DEFINITION}\nif __name__ == '__main__':\n    main()\n```", DEFINITION),
    "a main function": (f"```python\n{DEFINITION}\n\ndef main():\n    input()\n```", DEFINITION + "\n"),
    "statements before it": (f"```python\n{BEFORE}\nprint(add(1, 2))\n```", BEFORE),
    "examples in a string and in its body": (f"```python\n{QUOTED}\n```", QUOTED),
    "line ends of Windows": (f"Hi\n{BLOCK}\n".replace("\n", "\r\n"), DEFINITION),
    "line ends of an old Mac": (f"Hi\n{BLOCK}\n".replace("\n", "\r"), DEFINITION),
    "tabs": (f"```\n{TABBED}\n```", TABBED),
    "an assignment": ("```python\nadd = lambda a, b: a + b\n```", "add = lambda a, b: a + b"),
    "an annotated assignment": (f"```python\n{LAMBDA}\n```", LAMBDA),
    "an async function": ("```\nasync def add(a, b): pass\n```", "async def add(a, b): pass"),
    "no fences, statements behind it": (f"{DEFINITION}\n\n{STATEMENTS}\n", DEFINITION + "\n"),
    "no fences, talk around it": (
        f"Here is the code:\n\nimport math\n\n{DEFINITION}\n\nNote: a = 5 would do. This function adds.\n- it works",
        f"import math\n\n{DEFINITION}\n",
    ),
    "no fences, two tries": (
        f"def add(a, b):\n    return 0\n\nThat was wrong. Better:\n\n{DEFINITION}\n",
        f"def add(a, b):\n    return 0\n\n{DEFINITION}\n",
    ),
    "all indented": (f"    import math\n{DEFINITION}".replace("\n", "\n    "), f"import math\n{DEFINITION}"),
    "another function": ("```python\ndef add_all(a):\n    return a\n```", None),
    "a mention": ("def adder(a): pass\nI would call add(1, 2) == 3", None),
    "a method": ("```python\nclass Solution:\n    def add(self, a, b):\n        return a + b\n```", None),
    "no text": (None, None),
    "a number": (7, None),
    "a list": (["def add(a, b): pass"], None),
    "nothing": ("", None),
    "blanks": (" \n\t\r\n", None),
    "a NUL": ("\x00", None),
    "a refusal": ("I cannot help.", None),
    "a lone surrogate": ("\ud800", None),
}

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
    BODY,
    f"{BODY}\n",
    f"\n{BODY}",
    BODY.lstrip(),  # the tokenizer has eaten the first indentation
    " " + BODY.lstrip(),
    UNINDENTED,
    f"```python\n{BODY}\n```",
    f"Here is the body:\n```python\n{UNINDENTED}\n```\nIt sums.",
    "return sum(numbers)",
    "return sum(numbers)\n\nThe built-in does it.",
    "return sum(numbers)\n```\nThe built-in does it.",
    PROMPT + BODY,
    PROMPT.strip() + "\n" + BODY,
    f"```python\n{PROMPT}{BODY}\n```",
    f"{BODY}\n<|endoftext|>def total(numbers):\n    return 0",
    f"{BODY}</s>",
    "\tresult = 0\n\tfor number in numbers:\n\t\tresult += number\n\treturn result\n",
    "  def total(numbers):\n      return sum(numbers)",
    "for number in numbers:\n        if numbers: return sum(numbers)\n    return 0",
]
STOPS = ["class A:", "def total(x):", "# next", "@app", "if __name__", "print(1)", "```", '"""', "That is all.", "Done"]
GO_ON = ["assert total([1]) == 2", "import missing", "from missing import x", "x = 1", "run()"]

# Long text, which must be read in linear time
LENGTH = 400_000
HOSTILE = {
    "backticks": "`" * LENGTH,
    "lines of backticks": "```\n" * (LENGTH // 4),
    "fences that open": "```python\n" * (LENGTH // 10),
    "deeper and deeper fences": "".join(" " * i + "```x\n" for i in range(1_400)),
    "spaces": " " * LENGTH,
    "indented line": " " * LENGTH + "x",
    "fence and spaces": "```" + " " * LENGTH + "`",
    "newlines": "\n" * LENGTH,
    "carriage returns": "\r" * LENGTH,
    "tabs": "\t" * LENGTH + "x",
    "one word": "x" * LENGTH,
    "definitions": "def add(" * (LENGTH // 8),
    "lines of definitions": "def add(a, b): pass\n" * (LENGTH // 20),
    "dots": "a." * (LENGTH // 2),
    "brackets": "a[" * (LENGTH // 2),
    "colons": "a:" * (LENGTH // 2),
    "triple quotes": '"""' * (LENGTH // 3),
    "almost a special token": "<|im_en" * (LENGTH // 7),
}
