r"""Pieces of mathematical answers, and ways to write a value, from which tests make texts."""

from __future__ import annotations

FRAGMENTS = [
    r"\boxed{", r"\boxed", r"\fbox{", "{", "}", r"\{", r"\}", "$", "$$", r"\(", r"\)", r"\[", r"\]", "####", "answer",
    "is", "Answer:", "or", "and", ",", ".", ";", r"\text{", r"\frac", r"\frac12", r"\sqrt2", r"\left(", r"\right)",
    "(", ")", "[", "]", "^", "_", "=", "+", "-", "*", "/", "1", "23", "1,234", ".5", "x", "y", r"\pi", "pi", r"\pm",
    r"\cup", r"\in", r"\infty", r"\cdot", r"\le", "<", ">", r"\!", r"\,", "\\\\", r"^\circ", r"\%", r"\$", r"\approx",
    r"\begin{pmatrix}", r"\end{pmatrix}", "&", "cm", "base", "Evelyn", "π", "√", "½", "°",
]  # fmt: skip

# a number stays the same value
DRESSES = [
    "{}", r"{}\text{{ cm}}", "{} apples", r"{}\text{{ square units}}", "x = {}", r"\displaystyle {}", r"\$ {}",
    r"{}\%", "{{{}}}", r"\approx {}", "**{}**", "{}.", r"\,{}\,", "{}, not 7", "{} apples, out of 99",
]  # fmt: skip

# a number is no longer the answer
SPOILED = [
    "not {}", "{} or more", r"{}\text{{ or less}}", "at least {}", "{} tenths", "{} hundredths", "{}_7", "{} 7",
    r"{}\text{{ thousand}}", r"{}\text{{k}}", "{} is wrong", "{}, 7777", "{} or 7777", r"\pm {}",
    "{} squared", "{}e3", "x > {}", r"x \ne {}", r"{} \cdot x", "{}x", r"{}\text{{ more}}", "({}, 7777)",
    r"\{{{}, 7777\}}", "[{}, 7777]", "{} < x", "{}7", "7{}",
]  # fmt: skip

SHAPES = [
    "({}, {})", "[{}, {}]", "({}, {}]", r"\{{{}, {}\}}", "{}, {}", r"\begin{{pmatrix}} {} \\ {} \end{{pmatrix}}",
    "{} + {}i", r"{}\sqrt{{{}}}",
]  # fmt: skip

# repeated to 200,000 characters, they would stall a rule that takes quadratic time
REPEATED = [
    "\\boxed{", "\\boxed{1} ", "\\boxed ", "#### ", "answer is $", "answer ", "\nProblem:", "\n", " ", "1,", "{", "}",
    "\\",
]  # fmt: skip
