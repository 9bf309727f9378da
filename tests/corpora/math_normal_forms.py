r"""Answers and their normal forms."""

from __future__ import annotations

NORMAL_FORMS = [
    (r"\left( 3, \dfrac\pi2 \right)", r"(3,\frac{\pi}{2})"), ("1,234", "1234"), ("1, 234", "1, 234"),
    ("(1,234)", "(1,234)"), (r"\{1,234\}", r"\{1,234\}"), ("(1{,}234, 5)", "(1234,5)"),
    (r"\sqrt{1,234}", r"\sqrt{1234}"), ("1,23", "1,23"), ("0,123", "0,123"), (r"1,\!234{,}567", "1234567"),
    ("$5$", "5"), ("5$6", "5 6"), ("{5}", "5"), ("{{5}", "{{5}"), ("{5}{6}", "{5}{6}"), ("**5**", "5"),
    ("-0.50", "-0.5"), ("-0", "0"), ("+007.", "7"), ("3/4", r"\frac{3}{4}"), ("6/8", r"\frac{6}{8}"), ("x = 5", "5"),
    ("y = 2x + 3", "y=2x+3"), (r"x \in [1,2]", "[1,2]"), (r"\text{Area} = 5 \text{ cm}^2", "5"), ("5 m/s", "5m/s"),
    (r"5\text{ m}/\text{s}^{2}", "5"), (r"30^{\circ}", "30"), (r"30^\circ\text{C}", "30"),
    (r"5\text{ million dollars}", r"5\times10^{6}"), (r"2\text{ feet }3\text{ inches}", "2 feet3"),
    (r"6 + 2\text{i}", "6+2i"), (r"\text{(C)}", "C"), (r"1 \text{ or } 2; 3", "1,2,3"), (r"\approx 3.1", "3.1"),
    (r"\pi \approx 3.1", r"\pi"), (r"2 \pi r", r"2\pi r"), ("x^10 + x^-1", "x^{10}+x^{-1}"),
    (r"\frac12 \frac1{72} \sqrt3", r"\frac{1}{2}\frac{1}{72}\sqrt{3}"),
    (r"\begin{bmatrix} 1 \\ 2 \end{bmatrix}", r"\begin{pmatrix}1\\2\end{pmatrix}"),
    (r"\begin{vmatrix} 1 \end{vmatrix}", r"\begin{vmatrix}1\end{vmatrix}"),
    ("2 √3 × ½", r"2\sqrt{3}\times\frac{1}{2}"), ("", ""),
]  # fmt: skip
