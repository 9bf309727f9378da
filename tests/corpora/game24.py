"""What is written to puzzles of the Game of 24, as models write it and as nobody should; and bad files of puzzles."""

HONEST = "10 - 6 = 4\n4 * 5 = 20\n20 + 4 = 24\nAnswer: (10 - 6) * 5 + 4 = 24"
RIGHT = "(10 - 6) * 5 + 4"  # in the next two tables: ~

# To 4 5 6 10: each a clear correct answer
ACCEPTED = [
    HONEST, "~", "Answer: ~ = 24.", "answer:(10-6)*5+4=24", "Answer: (10 − 6) × 5 + 4 = 24", "Answer: (10 - 6) · 5 + 4",
    "Answer: (10 - 6) x 5 + 4 = 24", "Answer: [10 - 6] * 5 + 4 = 24", "Answer: {[10 - 6] * 5} + 4",
    "Answer: 4 + ((10 - 6)) * (5)", "Answer: 24 = ~", "Answer: 24 = ~ = 20 + 4", "Answer: 24 = 20 + 4 = ~",
    "Answer: ~ = 4 * 5 + 4 = 20 + 4 = 24.", "Answer: ~ = 20 + 4", "Answer: ~ = 48 / 2 = 24", "Answer: ~ == 24",
    "Answer: ~ → 20 + 4 → 24", "Answer: ~\n= 4 * 5 + 4\n= 20 + 4\n= 24", "Answer: ~\n=> correct",
    "The solution is ~ = 20 + 4 = 24.", "Answer: The expression is ~ = 24",
    "Answer: ~ = 24 (using 4, 5, 6 and 10 once each)", "Answer: ~, which makes 24", "Answer: ~. The result is 24",
    r"Answer: ~ = 24 \boxed{24}", r"Answer: ~ = 24. Therefore, \boxed{24}", r"Answer: ~ = 20 + 4 = \boxed{\text{24}}",
    r"\boxed{(10 - 6) \times 5 + 4 = 4 \times 5 + 4 = 24}", r"\boxed{Answer: (10 - 6) \times 5 + 4 = 24}",
    r"$(10 - 6) \times 5 + 4 \Rightarrow 20 + 4 \Rightarrow 24$",
    "\\[\n\\begin{aligned}\n(10 - 6) \\times 5 + 4 &= 4 \\times 5 + 4 \\\\\n&= 24\n\\end{aligned}\n\\]",
    "Answer: ~ (each number is used once).", "Answer: ~ = 24. This uses each number exactly once!", "Answer: ~ = 24 ✓",
    "The answer is: ~ = 24", "**Answer: (10-6)*5+4 = 24**", "**Final Answer:** **~ = 24**", "### Answer: `~ = 24`",
    "> Answer: ~", "Answer:\n(10-6)*5+4", "**Answer:**\n\n**(10-6)*5+4**\n", "Answer:\n```\n~\n```",
    "Answer：~ = 24\r\n", "Answer: ~ = 24\n\nEach number is used exactly once.",
    "Answer: 10 * 6\nNo, that is 60.\nAnswer: ~", r"Answer: $$(10-6)\cdot5+4=24$$.",
    r"Answer: \( (10 - 6) \times 5 + 4 = 24 \)", r"Answer: \left(10 - 6\right) \times 5 + 4",
    r"Answer: $5 \times \left\{10 - 6\right\} + 4$", "Answer:\n\\[\n(10 - 6) \\times 5 + 4 = 24\n\\]\n",
    r"\boxed{(10-6)\times5+4}", r"Answer: $\boxed{\left(10 - 6\right) \cdot {5} + 4}$",
    r"Answer: 4 + 4 = 8. \boxed{(10-6)*5+4} is right", r"Answer: ~ = \boxed{24}", "Answer: ~\n\n\\boxed{24}",
    r"\boxed{10 + 6} no, \boxed{(10-6)*5+4} and \boxed{", "\\boxed{10 + 6}\nAnswer: (10-6)*5+4",
    "<think>Answer: 10 * 6</think>\n<answer>~</answer>", "thinking " * 100_000 + "\n" + HONEST,
]  # fmt: skip
ACCEPTED = [text.replace("~", RIGHT) for text in ACCEPTED]

# To 4 5 6 10: each wrong, by its reason
WRONG = {
    "no answer": [
        "", "Answer:",
    ],
    "syntax": [
        "I could not find it", "Answer: ~ = 024", "Answer: ~ = 24.0", "Answer: ~ = 24!", "Answer: ~ ≈ 24",
        "Answer: ~ = 24, or 6 * 4 = 24", "Answer: ~, or 10", "Answer: ~, which is not 24", "The answer is not ~",
        "Answer: ~ ≠ 24", "Answer: ~ is 24", "Answer: ~ or 6 * 4", "Answer: ~ = 24 dozen", "Answer: (10 - 6)5 + 4",
        "Answer: (10 - 6)(5) + 4", "Answer: (10 - 6] * 5 + 4", "Answer: (10 - 6 * 5 + 4", "Answer: 10 - 6) * 5 + 4",
        "Answer: () * 5 + 4", "Answer: ~ *", "Answer: (10 - 6) ** 5 + 4", "Answer: (10 - 6) // 5 + 4",
        "Answer: (10 - 6) ^ 5 + 4", "Answer: -(6 - 10) * 5 + 4", "Answer: (10 - 6) * 5. + 4",
        "Answer: (1 0 - 6) * 5 + 4", "Answer: ~ # x", r"Answer: \frac45 + 10 + 6", r"Answer: \frac{4} + 5",
        r"Answer: \frac(4)(5) + 10 + 6", r"Answer: \sqrt{4} + 5 + 6 + 10", "Answer: " + "(" * 100 + "4" + ")" * 100,
        "Answer: (10 - 6) * 5" + " " * 200 + "+ 4",
    ],
    "numbers": [
        "10 - 6 = 4\n4 * 5 = 20\n20 + 4 = 24", "Answer: 24", "Answer: (10 - 6) * 5 = 20", "Answer: ~ + 4 - 4",
        "Answer: (10 - 6) * 5 = 20 = 20 + 4 = 24", "Answer: 10 - 6 = 4 = 4 * 5 = 20 + 4 = 24",
        "Answer: 20 + 4 = ~ = 24", "Answer: 24 = 24", "Answer: 25 = ~", "Answer: 4 * 5 + 4 == 24",
        r"Answer: (10 - 6) * 5 = 20. \boxed{24}",
    ],
    "value": [
        "Answer: (10 + 6) * 5 + 4", "Answer: (10 + 6) * 5 + 4 = 20 + 4 = 24",
    ],
    "right side": [
        "Answer: ~ = 25", "Answer: ~ =", "Answer: ~ = 20 + 5", "Answer: ~ = 20 + 5 = 24",
        "Answer: ~ = 4 * 5 = 20 + 4 = 24", "Answer: ~ = 20 + 4 = 24 = 25", "Answer: ~ = = 24",
        "Answer: ~ = 20 + 4 / 0 = 24", "Answer: 24 = 20 + 5 = ~", "Answer: ~ → 20 + 5 → 24", "Answer: ~\n= 48",
        r"Answer: ~ = 25 \boxed{24}",
    ],
    "too many sides": [
        "Answer: ~" + " = 24" * 8,
    ],
}  # fmt: skip
WRONG = [(text.replace("~", RIGHT), reason) for reason, texts in WRONG.items() for text in texts]

# To other hands: the verdict and its reason
OF_OTHER_HANDS = [
    ((3, 3, 8, 8), r"\boxed{\frac{8}{3-\frac{8}{3}}=24}", "correct", ""),
    ((3, 3, 7, 7), r"Answer: $7\left(\right.$ no: $7 \times \left(3 + \dfrac{3}{7}\right)$", "wrong", "syntax"),
    ((1, 3, 4, 6), r"Answer: 6 \div (1 - 3 \div 4)", "correct", ""),
    ((2, 2, 6, 13), r"Answer: \[ 13 \times 2 - \tfrac{6}{2} + ... \]" "\nAnswer: 13 * 2 - (6 / 2) + 1", "wrong",
        "numbers"), ((1, 1, 4, 6), "1 * 1 * 4 * 6", "correct", ""),
    ((4, 4, 8, 8), "Answer: 8 / (4 - 4) + 8", "wrong", "division by zero"),
    ((1, 1, 2, 2), "Answer: 12 + 12 = 24", "wrong", "numbers"),
    ((6, 9, 12, 13), "Answer: (13 - 9) * (12 - 6) = 48", "wrong", "right side"),
]  # fmt: skip

# To 4 4 8 8: what misleads or stalls a checker; each is wrong
HOSTILE = {
    "empty": "", "NUL": "\0", "lone surrogate": "\ud800", "1 MB of x": "x" * 1_000_000,
    "1 MB of line ends": "Answer:" + "\n" * 1_000_000, "None": None, "a list": ["Answer: 4+4+8+8"],
    "right, then boxed wrong": "Answer: 4+4+8+8 = 24\nwait, \\boxed{4*4+8-8}",
    "right, then answer wrong": "\\boxed{4+4+8+8}\nwait, answer: 4*4+8-8", "unclosed boxes": r"\boxed{" * 20_000,
    "closed braces": r"\boxed{4}" + "}" * 1_000_000, "a tower of powers": "9**9**9",
    "100,000 brackets": "(" * 100_000 + "4+4+8+8" + ")" * 100_000, "nested fractions": "Answer: " + r"\frac{" * 3000,
    "code": '__import__("os").system("x")+4+4+8+8', "comment": "4+4+8+8 # x", "glued digits": "44-8*8+4",
    "a number twice": "(4 - 8/8) * 8", "a number left out": "8 + 8 + 8", "division by zero": "4/0*4*8+8",
    "another right side": "4+4+8+8 = 25", "factorial": "4! + (8 - 8) * 4", "implicit product": "4(4)+8+8",
    "Arabic digits": "٤+4+8+8", "zero-width space": "4\u200b+4+8+8", "200,000 digits": "Answer: " + "4" * 200_000,
    "answers and spaces": "answer   " * 100_000, "19,000 stars": "Answer: " + "*" * 19_000 + "4",
    "statement cut by the window": "Answer: 5+4+4+8+8" + " " * (20_000 - len("4+4+8+8")),
    "unary": "Answer: -8+4*(8+4*1)", "a chain of nothing": "Answer: " + "=" * 19_000,
    "lines of chains": "4+4+8+8" + "\n= 24" * 3900,
    "nines in a chain": "Answer: 4+4+8+8" + (" = " + "*".join(["9999"] * 32)) * 7,
    "a long remark": "Answer: 4+4+8+8, " + "and 4 or 8 " * 1700, "arrows": "Answer: 4+4+8+8" + "->" * 9000,
    "environments": r"\begin{a}" * 2000, "a flood of layout": "Answer: " + r"\," * 9000 + "4+4+8+8",
}  # fmt: skip

# Files of puzzles, and what is said of them
BAD_CSV_FILES = [
    ("Hand,Rank\n1 1 4 6,1\n", "line 2: no column 'Puzzles', 'numbers', 'puzzle' or 'prompt' (found: Hand, Rank)"),
    ("Puzzles\n", "has no rows"),
    ("Puzzles\n1 1 4 6\n1 2 3\n", "line 3: expected four integers from 1 to 9999, got '1 2 3'"),
    ("Puzzles\n1 1 4 x\n", "line 2: expected four integers"),
    ("Puzzles,Rank\n1 1 4 6,1\n6 4 1 1,2\n", "line 3: problem '1-1-4-6' is there already (line 2)"),
    (b"Puzzles\n\xff\xfe\n", "utf-8"),
]  # fmt: skip
BAD_JSON_FILES = [
    ('{"numbers": [1, 1, 4, 6.0]}\n', "line 1: expected four integers from 1 to 9999, got [1, 1, 4, 6.0]"),
    ('{"numbers": [1, 1, 4, true]}\n', "line 1: expected four integers"),
    ('{"numbers": "1 1 4 ６"}\n', "line 1: expected four integers"),
    ('{"puzzle": "1 1 4 6"}\n{"question": "1 1 4 6"}\n',
        "line 2: no column 'Puzzles', 'numbers', 'puzzle' or 'prompt'"),
    ('{"puzzle": "1 1 4 6"}\n{"puzzle"\n', "line 2: not JSON (Expecting ':' delimiter"),
]  # fmt: skip
