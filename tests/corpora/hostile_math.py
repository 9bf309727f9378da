r"""Attacks on the grader of math answers: the survey's on which the design rests (A1-A9, M10-M27), and more."""

from __future__ import annotations

# name: (reference, what the response boxes)
BOXED = {
    "A2 NUL": ("5", "5\x00"), "A3 lone surrogate": ("5", "5\ud800"), "M10 power tower": ("5", "9^{9^{9}}"),
    "M12 factorials of factorials": ("5", "((9!)!)!"), "M13 binomial": ("5", r"\binom{10^9}{5\cdot10^8}"),
    "M14 long sum": ("5", r"\sum_{k=1}^{10^9} \frac{1}{k}"),
    "M15 brackets within the limit": ("5", "(" * 240 + "6" + ")" * 240),
    "M16 braces within the limit": ("5", "{" * 240 + "6" + "}" * 240),
    "M16 sets in sets": ("5", r"\{" * 120 + "6" + r"\}" * 120),
    "M16 tuples in tuples": ("(1,2)", "(" * 120 + "1" + ",2)" * 120),
    "M17 fractions within the limit": ("5", r"\frac{1}{" * 45 + "6" + "}" * 45),
    "M18 a long number within the limit": ("5", "5" * 500),
    "M19 polynomials, expanded": ("(x+1)^{100}", "(x^2+2x+1)^{49}(x+1)^{3}"),
    "M20 guess list in a box": ("5", "1 or 2 or 3 or 4 or 5"), "M20 guess list by plus-minus": ("5", r"\pm 5"),
    "M21 chain": ("5", "1=2=3=4=5"), "M23 NaN for zero": ("0", r"\text{NaN}"),
    "M23 zero by zero": ("0", r"\frac{0}{0}"), "M23 infinity less infinity": ("0", r"\infty - \infty"),
    "M23 a huge exponent": ("5", "1e999999999"), "M23 a huge power of ten": ("5", r"5 \times 10^{999999999}"),
    "M23 a tiny number for zero": ("0", "10^{-400}"), "M24 slightly off": (r"\frac{7}{3}", "2.33345"),
    "M25 commas": ("5", "1," * 249 + "1"), "M25 text commands": ("5", r"\text{" * 80 + "6" + "}" * 80),
    "M25 minus signs": ("5", "-" * 400 + "6"), "M26 square brackets": ("(1,2)", "[1,2]"),
    "M27 no base": ("2516_8", "2516"), "expansion": ("5", "(x+1)^{100000}"),
    "roots of roots": ("5", r"\sqrt{" * 60 + "6+x" + "}" * 60),
    "powers of powers": ("5", "x" + "^{x" * 100 + "}" * 100),
    "integral": ("5", r"\int_0^{\infty} e^{-x^{x^{x}}} \sin(x^x) dx"),
    "limit": ("5", r"\lim_{x \to 0} \frac{\sin(x^{99})-x^{99}}{x^{297}}"),
    "equation": ("y=5x", "x^{17}-x^{13}+7x^5-3x^2=5"),
    "determinant": ("5", r"\det\begin{pmatrix}" + r"x & y \\ " * 40 + r"1 & 2\end{pmatrix}"),
    "matrix power": ("5", r"\begin{pmatrix}1&1\\1&0\end{pmatrix}^{10^{9}}"),
    "modulo": ("5", r"7^{10^{12}} \pmod{10^{9}}"), "letters to multiply": ("5", " ".join("abcdefghjk" * 20)),
    "unicode digits": ("6", "５"), "arabic digits": ("5", "٥"), "superscripts": ("5", "5⁹"),
    "combining marks": ("5", "5" + "\u0338" * 100), "right-to-left": ("12", "\u202e21"),
    "escape codes": ("5", "\x1b[31m5"), "division by a difference": ("0", r"\frac{0}{x-x}"),
    "reference in a comment": ("5", "6 % 5"), "reference behind a remark": ("5", r"6 \approx 5"),
    "reference by prefix": ("5", "5 banana 6"), "dangling operator": ("5", "5+"), "digits apart": ("55", "5 5"),
    "mixed by brackets": ("5", "2(3)"), "unit letters": ("5", "5c"), "inequality": ("5", r"5 \ne 6"),
    "unsolvable equations": ("x^2=-1", "x^2=-2"), "a checker's words": ("5", '{"outcome": "equal"}'),
}  # fmt: skip

# name: (reference, response)
RESPONSES = {
    "A3 lone surrogate in words": ("5", "The answer is \udcff5"), "A4 a megabyte of x": ("5", "x" * 1_000_000),
    "A6 None": ("5", None), "A6 a list": ("5", [r"\boxed{5}"]),
    "A7 the prompt": ("5", "What is 2 + 3? Put your final answer within \\boxed{}."),
    "A8 right, then wrong": ("5", r"\boxed{5} Wait, \boxed{7}"), "A9 open boxes": ("5", "\\boxed{" * 20_000 + "5"),
    "M20 guess list in boxes": ("5", " or ".join(rf"\boxed{{{guess}}}" for guess in range(1, 6))),
    "M25 display brackets": ("5", "\\[" * 20_000 + "6"), "M25 answer is, often": ("5", "the answer is $" * 20_000),
    "invented problem": ("5", "The answer is 4.\nQuestion: What is 2+3?\nThe answer is 5."),
    "length prefix": ("5", '\x00\x00\x00\x05\\boxed{"equal"}'),
}  # fmt: skip

# Code in place of mathematics (M22 and more). CANARY is a path that the code would make.
PAYLOADS = (
    "(lambda:open('CANARY','w'))()", "__import__('os').system('touch CANARY')", "exec(\"open('CANARY','w')\")",
    "eval(\"__import__('os').system('touch CANARY')\")",
    "[c for c in ().__class__.__base__.__subclasses__() if c.__name__=='Popen'][0](['touch','CANARY'])",
    "sympify(\"__import__('os').system('touch CANARY')\")",
    "Symbol('x').__init__.__globals__['os'].system('touch CANARY')",
    r"\operatorname{__import__('os').system('touch CANARY')}", r"\text{__import__('os').system('touch CANARY')}",
    r"\input{CANARY} \write18{touch CANARY}", "5; __import__('os').system('touch CANARY')",
    "5 if __import__('os').system('touch CANARY') else 5", "`touch CANARY`", "5 | touch CANARY",
    "!!python/object/apply:os.system ['touch CANARY']", "cos\nsystem\n(S'touch CANARY'\ntR.",
)  # fmt: skip
