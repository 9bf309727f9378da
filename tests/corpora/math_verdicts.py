r"""Answers that must be accepted or rejected, by kind. The texts are ours: no row is taken from a data set."""

from __future__ import annotations

UNION = r"(-\infty,2) \cup (3,\infty)"

# kind: reference: boxed answers that are right, and those that are wrong, between bars
BOXED: dict[str, dict[str, tuple[str, str]]] = {
    "words behind a value": {
        "8": (r"8\text{ dozen} | 8 apples | 8 men | 8 feet squared | 8\text{ miles per }\text{hour} | 8\text{ m} | "
            r"exactly 8 | about 8", r"8 or more | 8\text{ more} | \text{at least }8 | at most 8 | more than 8 | "
            r"8\text{ below zero} | 8\text{ is wrong} | 8 incorrect | \text{not }8 | 8 squared | "
            r"8\text{ factorial} | 8\text{!} | 8 tenths | 8\text{ hundredths} | 8 halves | 8 tens | "
            r"8\text{ point two} | 8\text{ of }20 | 8 to 1"),
    },
    "letters behind a value": {
        "12": ("", r"12\text{k} | 12\text{M} | 12\text{x} | 12k | 12 hundred | 12\text{ thousand}"),
        "12000": (r"12\text{k} | 12\text{ thousand}", ""), "12k": ("12k", ""), "1200": ("12 hundred", ""),
    },
    "remarks": {
        "18": ("18 apples, out of 20", ""), "7": ("7 apples, out of 10", "7 out of 10 | 7 or more out of 10"),
        "10": ("", "7 apples, out of 10"), r"\frac{7}{10}": ("7 out of 10", ""),
        "24": ("24, not 25 | 24, since 6 times 4 is that | 24 apples rather than 25", "24 rather than 25"),
        "25": ("", "24, not 25 | 24 apples rather than 25"), r"\text{does not exist}": ("does not exist", ""),
        r"\text{even}": ("even, not odd", ""), r"\text{odd}": ("", "even, not odd"),
    },
    "per cent signs: the sign is dropped on both sides, the number must be the reference's": {
        "24": (r"24\% | 24 percent", r"2400\% | 0.24\%"), r"24\%": ("24", ""), "0.5": (r"0.5\%", ""),
        r"0.5\%": (r"0.50\%", ""), "0.6": ("", r"60\%"), r"60\%": ("", "0.6"),
    },
    "numbers in words": {
        "12": (r"twelve | \text{Twelve} | twelve apples", "twenty | twelve hundred | not twelve | twelve or more | "
            "a twelve"),
        "24": ("twenty-four", ""), "1000": ("", "one thousand two million"), "-5": ("negative five | minus 5", ""),
        "0": ("zero", ""), "3": ("", "three quarters"), "1": ("", "one quarter | one of the angles"),
        "2": ("", "two thirds of it"), "100": ("", "one hundred and five"),
        "5": ("", "one hundred and five | two and three | five hundred"), r"\frac{5}{2}": ("", "two and a half dozen"),
        "2.5": ("2 and a half", ""), "2, 3": ("two and three", ""), r"\text{one-to-one}": ("", "1"),
    },
    "scientific notation": {
        "24": ("24e0 | 2.4e1 | 2.4E+1", "24e1 | 24e | 24e0x | 1e999999999"), "0.024": ("2.4e-2", ""),
        "2400000": ("2.4e6", ""), "24e": ("24e", ""),
    },
    "mixed numbers": {
        r"\frac{7}{2}": (r"3 1/2 | 3\frac{1}{2} | 3½", ""), "-3.5": ("-3 1/2", ""), r"\frac{3}{2}": ("", "3 1/2"),
        "4": ("", "3 2/2"), r"3, \frac{1}{2}": ("", "3 1/2"), "55": ("", "5 5"),
    },
    "inequalities and intervals": {
        UNION: (r"x<2 or x>3 | x<2 \text{ or } x>3 | x < 2 \lor 3 < x | 2 > x or x > 3 | "
            r"(3,\infty) \cup (-\infty,2)", r"x \le 2 or x > 3 | x<2 and x>3 | x<3 or x>2 | x<2 | x<2 or x>4 | "
            r"x<2 or x>3 or x=2.5 | x \ne 2"),
        r"(-\infty,3) \cup (3,\infty)": (r"x \ne 3", ""),
        "x<2 or x>3": (r"(-\infty,2) \cup (3,\infty) | x>3 or x<2", "y<2 or y>3"),
        "(2,3)": ("x>2 and x<3 | 2<x<3", "x>2 or x<3"), "(2,3]": (r"2 < x \le 3 | 3 >= x > 2", "2 <= x < 3"),
        r"[2,\infty)": (r"x \geq 2 | x \geqslant \frac{4}{2}", "x>2"), r"[-1,1] \cup \{3\}": ("", r"-1 \le x \le 1"),
        "2": ("", "x<2"),
    },
    "signs that say more": {
        "99": ("", r"4 \approx 99"), r"\sqrt{51}": (r"\sqrt{51} \approx 7.14", ""), "7.14": (r"\approx 7.14", ""),
        "9": ("", "9'"), "(5,6)": ("", "(5,6)'"), "2k+2": ("", "2k+2_3"), "0": ("", r"\text{not }0 | 0\text{ minus }1"),
        "xyz": ("zyx", ""), "64": ("", "64_7"), "-64_7": ("-64_{7}", ""), "720": ("6!=720", ""),
        "9.815": ("9 163/200", ""),
    },
    "no solution": {
        r"\emptyset": (r"\text{no solution} | \varnothing | \{\} | no real solutions | the empty set", r"0 | \{0\} | "
            r"\{\emptyset\} | no | (-\infty,\infty)"),
        r"\text{no solution}": (r"\emptyset", ""), r"\text{does not exist}": ("DNE", ""),
        "0": ("", r"\emptyset | \text{no solution} | none"), r"\text{no}": ("", r"\text{no solution}"),
    },
    "several answers": {
        r"\{5\}": ("5", "6"), "0, " * 23 + "0": ("0, " * 23 + "0.0", ""), "0, " * 24 + "0": ("", "0, " * 24 + "0.0"),
        r"\boxed{1}, \boxed{2}": (r"1, 2 | 2 \text{ and } 1 | \{1,2\}", "2 | 1 | 1, 2, 3"),
        r"\boxed{(1,2)}, \boxed{(3,4)}": ("(3,4) and (1,2)", "(1,3), (2,4)"),
        r"\boxed{\frac{1}{\sqrt{3}}}, \boxed{x^2}": (r"\frac{\sqrt{3}}{3}, x \cdot x", ""),
    },
    "the same answer in another spelling": {
        "5": (r"x \in \{5\}", ""), "11.5": (r"11\frac12", ""), "25": ("025.", ""), "10{,}000": ("10,000", ""),
        "3,250": ("3250", ""), r"11,\! 111,\! 100": ("11111100", ""), "1234": (r"1\,234 | 1 234", ""),
        "100,200": ("100, 200", ""), "2516_8": (r"2516_{8} | (2516)_{\text{eight}} | 2516\text{ (base 8)}", ""),
        "31": ("31_{10}", ""), r"50\%": ("50", ""), r"\frac13": (r"0.\overline{3} | 0.333333", ""),
        "0.0000672": (r"6.72 \times 10^{-5}", ""),
        "12": (r"\boxed{12} | m + n = 12 | \frac{AB}{CD} = 12 | x = \frac{24}{2} = 12 | 12 = x | "
            r"\angle ABC = 12^\circ", ""),
        r"\frac12": (r"\sin 30^\circ = \frac{1}{2}", ""), "2x+1": ("f(x) = 2x + 1", ""),
        "y = 2x + 3": ("2x + 3 | -2x + y = 3", ""), "5x - 7y + 4 = 0": ("-5x + 7y - 4 = 0", ""),
        "(2,3)": ("x = 2, y = 3 | (x,y) = (2,3)", ""), "1,-2": (r"x = 1 \text{ or } x = -2 | -2 and 1", ""),
        "1,2,3": (r"\{3, 2, 1\}", ""), r"1 \pm \sqrt{19}": (r"1 - \sqrt{19}, 1 + \sqrt{19}", ""),
        r"\{1\pm\sqrt{5},-2\}": (r"-2, 1+\sqrt5, 1-\sqrt5", ""), "(0,0), (1,1)": ("(1,1), (0,0)", ""),
        r"x \in [-2,7]": (r"-2 \le x \le 7", ""), "x<3": (r"(-\infty, 3)", ""),
        r"\begin{pmatrix} -1/3 \\ 2 \end{pmatrix}": (r"\begin{bmatrix} -\frac13 \\ 2 \end{bmatrix}", ""),
        r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}": (r"\begin{pmatrix}1&\sqrt4\\3&4\\\end{pmatrix}", ""),
        r"\text{(C)}": (r"C | \textbf{(C)}\ 17", ""), r"\text{Evelyn}": ("evelyn", ""),
        r"\text{ellipse}": ("An ellipse.", ""), "ab": ("ba", ""), "x = 1, y = 2": ("y = 2, x = 1 | 1, 2", ""),
        "(x+1,0), (1,1)": (r"(1,1), (\frac{2x+2}{2},0)", ""), "6-5i": ("-5i + 6", ""), "6": ("2(3)", ""),
        "x^2-1": ("(x-1)(x+1)", ""), r"\frac{3\pi}{4}": (r"\frac34\pi", ""), "7": ("", "7, 7"),
    },
    "another answer": {
        "5": (r"5\text{ dozen}", r"1=2=3=4=5 | 5=6 | 4x = 5 | x^2 | 5 or 6 | \pm 5 | 5 factorial | 2(3) | "
            r"five hundred | \text{no solution}"),
        "3": ("", r"4x = 12 = 3 | 1 2 | \log_{2}{8}c | x > 3 | 3 < 4"), "2516_8": ("", "2516 | 2516_6"),
        "2516": ("", "2516_8"), "(x+1)^{100}": ("", "(x+1)^{101}"), "(1,2)": ("", r"(2,1) | \{2,1\}"),
        r"\{1,2\}": ("", "(1,2) | [1,2]"), r"(-\infty,2)": ("", r"(-\infty,2]"), r"(2,\infty)": ("", r"\{2,\infty\}"),
        "1,-2": ("", "1,2 | 1 | 1,-2,3"), r"\pm 5": ("", "5"), "12": ("", "1,2 | 1 2"), "56": ("", "5$6"),
        "7,200": ("", "200"), r"\frac12": ("", r"50\%"), r"\frac13": ("", "0.33333"), "1": ("", "0.999999"),
        "0": ("", "0.0000001"), r"\sqrt2": ("", "1.4142"), "2": ("", "2k | 2ab"), "y=2x+3": ("", "x=2y+3 | 2x+4"),
        "x^2=-1": ("", "x^2=-2"), "x<3": ("", r"x \le 3"),
        r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}": ("", r"\begin{pmatrix} 2 \\ 1 \end{pmatrix} | "
            r"\begin{pmatrix} 1 & 2 \end{pmatrix} | 12"),
        r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}": ("", r"\begin{pmatrix} 1 & 2 & 3 \\ 4 \end{pmatrix}"),
        "A": ("", "A,B"), r"\text{(C)}": ("", "(C) or (D)"), r"\text{Evelyn}": ("", "Navin"),
        r"\text{east}": ("", "seat"), "x = 1, y = 2": ("", "x = 2, y = 1 | 2, 1"),
        "(x,0), (y,1)": ("", r"[x,0], (y,1) | [\frac{2x}{2},0], (\frac{2y}{2},1)"),
    },
    "tiny and large numbers are compared exactly": {
        r"\frac{2^{2005}+1}{3 \cdot 2^{2006}}": (r"\frac{1}{6} + \frac{1}{3 \cdot 2^{2006}}",
            r"\frac{7}{3 \cdot 2^{2006}}"), "2^{-251}": ("", "2^{-250}"),
        r"\frac{1}{21!}": (r"\frac{1}{21 \cdot 20!}", r"\frac{1}{20!}"), "e^{-101}": ("", "e^{-100}"),
        r"\sqrt{2} \cdot 3^{-90}": ("", r"\sqrt{2} \cdot 3^{-91}"), r"1 - \frac{1}{2^{99}}": ("", "1"),
        "2^{20000}": ("4^{10000}", "2^{20001}"), "x + 2^{-250}": ("", "x + 2^{-251}"),
        r"\frac{\sqrt{3}}{10^{30}}": (r"\frac{3}{\sqrt{3} \cdot 10^{30}}", ""),
    },
    "a decimal for a fraction is the fraction, rounded or cut off": {
        r"\frac13": ("0.333333", "0.333334"), r"\frac23": ("0.666666 | 0.666667", "0.666665"),
        r"\frac12": ("", "0.500001"), r"\frac{96319}{2}": ("", "48159.51"), r"\sqrt{2}": ("1.41421", "1.41422"),
        r"\frac{2\pi}{3}": ("2.09439", "2.0944"),
    },
    "an equation is not its right side": {
        "0": ("", "5x - 7y + 11z + 4 = 0"), "1": ("", "x^2+y^2=1"), "12": ("m+n=12", ""), "5": ("x=5", ""),
    },
    "commands that only change how it looks": {
        "5": (r"\textcolor{blue}{5} | \color{red}{5}", ""), r"\frac32": (r"\mathbf{\frac{3}{2}}", ""),
        "6": ("", r"\textcolor{blue}{5}"),
    },
    "formulas and units at the end": {
        "4.123105625617661": (r"\sqrt{17}", ""), "4.12": ("", r"\sqrt{17}"), "1,2,3": ("", "1, 2, 3, ..."),
        r"\frac{71}{6}": ("+11 5/6", ""),
    },
    "an answer twice is two answers": {
        "7": ("", "7, 7"), r"\{1,2\}": (r"\{1,1,2\}", ""), r"\{1,1,2\}": (r"\{1,2\}", ""), "1,2": (r"\{2,1,2\}", ""),
        "1,1,2": ("", "1,2"),
    },
    "units and digits of other alphabets": {
        "42": (r"42元 | 42\text{ Äpfel} | 42\text{ яблока}", "43元"), "3.5": ("３．５", ""),
    },
    "morning and afternoon": {
        r"\text{1:03 PM}": (r"\text{1:03 p.m.}", r"\text{1:03 AM}"),
        r"1\!:\!03 \text{ p.m.}": ("", r"1:03 \text{ a.m.}"), "7:30": ("7:30", ""),
    },
    "the same in another form": {
        r"\frac{1}{\sqrt{n}}": (r"\sqrt{1/n}", ""), "50^{0.5}": (r"\sqrt{50}", ""), r"\sqrt{50}": (r"5\sqrt{2}", ""),
        "3:2": (r"3 \text{ to } 2", r"2 \text{ to } 3"), "3": ("", r"3 \text{ to } 1"),
        "(x,y)=(1,2)": ("y=2,x=1", "y=1,x=2"), r"(3,\frac{\pi}{2})": (r"r=3,\theta=\frac\pi2", ""),
        r"e^{i\pi/3}": (r"\frac12+\frac{\sqrt3}{2}i", r"\frac12-\frac{\sqrt3}{2}i"),
        r"\begin{pmatrix} -1/3 \\ 2 \end{pmatrix}": (r"\begin{pmatrix} -\frac{1}{3} \\[4pt] 2 \end{pmatrix}", ""),
        "x^{1/3}": (r"\sqrt[3]{x}", ""), r"\sqrt{x^2}": ("", "x"),
    },
}  # fmt: skip

# kind: (reference, a response, whether that is right)
STATED: dict[str, list[tuple[str, str, bool]]] = {
    "denied in its own words: they are part of what is stated": [
        ("24", "The answer is not 24", False), ("24", "The answer is **not** $24$.", False),
        ("25", "The answer is not 24. The answer is 25.", True), ("24", "The answer is 24, not 25", True),
    ],
    "no word takes a box back": [
        ("24", r"The answer is not \boxed{24}", True), ("24", r"$x \ne \boxed{24}$", True),
        ("25", r"It is \boxed{24}, and not \boxed{25}.", True), ("24", r"It is \boxed{24}, and not \boxed{25}.", False),
    ],
    "bounded": [
        ("24", "The answer is at least 24", False), ("24", "The answer is less than $24$.", False),
        ("24", "The answer is between 20 and 24", False), ("24", "The answer is either 23 or 24", False),
        ("24", "The answer is 23 or 24", False), ("24", "The answer is 24 or more", False),
        ("24", "the answer is 20-24", False),
    ],
    "said in words": [
        ("24", "The answer is twenty-four.", True), ("18", "The answer is 18 apples, out of 20", True),
        ("20", "The answer is 18 apples, out of 20", False), ("18", "the answer is therefore 18 dollars", True),
        ("18", "The answer is exactly 18.", True), ("3.5", "The answer is 3 1/2.", True),
    ],
}  # fmt: skip
