r"""Texts of mathematical answers: pieces and dresses of them, normal forms, statements, what verl's rules accept."""

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

# Answers and their normal forms
NORMAL_FORMS = [
    (r"\left( 3, \dfrac\pi2 \right)", r"(3,\frac{\pi}{2})"), ("1, 234", "1, 234"), ("(1,234)", "(1,234)"),
    (r"\{1,234\}", r"\{1,234\}"), (r"\sqrt{1,234}", r"\sqrt{1234}"), ("1,23", "1,23"), (r"1,\!234{,}567", "1234567"),
    ("$5$", "5"), ("5$6", "5 6"), ("{5}", "5"), ("{5}{6}", "{5}{6}"), ("**5**", "5"), ("-0.50", "-0.5"), ("-0", "0"),
    ("+007.", "7"), ("3/4", r"\frac{3}{4}"), ("6/8", r"\frac{6}{8}"), ("x = 5", "5"), ("y = 2x + 3", "y=2x+3"),
    (r"x \in [1,2]", "[1,2]"), (r"5\text{ m}/\text{s}^{2}", "5"), (r"30^{\circ}", "30"), (r"30^\circ\text{C}", "30"),
    (r"5\text{ million dollars}", r"5\times10^{6}"), (r"2\text{ feet }3\text{ inches}", "2 feet3"),
    (r"6 + 2\text{i}", "6+2i"), (r"\text{(C)}", "C"), (r"1 \text{ or } 2; 3", "1,2,3"), (r"\pi \approx 3.1", r"\pi"),
    (r"2 \pi r", r"2\pi r"), ("x^10 + x^-1", "x^{10}+x^{-1}"),
    (r"\frac12 \frac1{72} \sqrt3", r"\frac{1}{2}\frac{1}{72}\sqrt{3}"),
    (r"\begin{bmatrix} 1 \\ 2 \end{bmatrix}", r"\begin{pmatrix}1\\2\end{pmatrix}"),
    (r"\begin{vmatrix} 1 \end{vmatrix}", r"\begin{vmatrix}1\end{vmatrix}"), ("2 √3 × ½", r"2\sqrt{3}\times\frac{1}{2}"),
    ("", ""),
]  # fmt: skip

# the form that the task asks for: (response, answer, route)
STATEMENTS = {
    "boxed": [
        (r"\boxed{1} then \boxed{2}", "2", "boxed"), (r"\boxed 5", "5", "boxed"), (r"$\boxed -7$ it is", "-7", "boxed"),
        (r"$\boxed \frac12$", r"\frac12", "boxed"), (r"\boxed{\{1, 2\}}", r"\{1, 2\}", "boxed"),
        (r"\boxed{\left\{x \mid x > 1\right.}", r"\left\{x \mid x > 1\right.", "boxed"),
        (r"\boxed{x=\fbox{8}}", r"x=\fbox{8}", "boxed"), (r"an open { and \boxed{9}", "9", "boxed"),
        (r"a closed } and \boxed{9}", "9", "boxed"), (r"\boxed{1} \text{ or } \boxed{2}", "1, 2", "boxed"),
        (r"\boxed{5} or \boxed{5}", "5", "boxed"),
        (r"\boxed{1} or rather, thinking about it again, \boxed{2}", "2", "boxed"),
        ("so we have\n#### 18", "18", "fallback"), ("The answer is 5.", "5", "fallback"),
        ("There are 5. The answer is", "5", "fallback"), ("**Answer:** 5 apples", "5 apples", "fallback"),
        ("Answer:\n\n12", "12", "fallback"), (r"The answer is \(x+1\).", r"\(x+1\)", "fallback"),
        ("The answer is\n$$\n12\n$$", "12", "fallback"), ("The answer is 5.\n#### Step 2: check", "5", "fallback"),
        ("The answer is 5, since $x = 3$.", "5", "fallback"),
        ("The answer is 3.5 metres. The answer is 4", "4", "fallback"), ("The answer is $18.", "$18", "fallback"),
        ("There are 1,234", "1,234", "fallback"), ("so -7", "-7", "fallback"),
    ],
    "####": [
        ("#### 18", "18", "####"), ("#### **18**", "18", "####"), ("#### $1,800.00", "$1,800.00", "####"),
        (r"#### \boxed{18}", "18", "boxed"), (r"\boxed{17} no: #### 18", "18", "####"),
        (r"#### 17 no: \boxed{18}", "18", "boxed"), ("#### Now add\nthe answer is 18", "18", "fallback"),
        ("the answer is 18\n#### Step 2: check", "18", "fallback"),
    ],
}  # fmt: skip

# What verl's strict rules accept: (reference, response, whether it is accepted)
MATH = [
    (r"\frac{1}{2}", r"\boxed{0.5}", True), (r"\frac{1}{2}", r"\boxed{\frac12}", True),
    (r"\frac{1}{2}", r"\boxed{\dfrac 1 2}", True), (r"\frac{1}{72}", r"\boxed{\frac1{72}}", True),
    (r"\frac{01}{2}", r"\boxed{01/2}", False), (r"\sqrt{3}", r"\boxed{\sqrt3}", True), ("0.3", r"\boxed{.3}", True),
    ("5", r"\boxed{abc=5}", False), ("5", r"\boxed{5\text{ cm}}", True), ("5", r"\boxed{5\text{ cm}\text{ m}}", False),
    ("5", r"\boxed 5$ and", True), ("5", r"\fbox{5}", False), ("5", r"\boxed{5", False),
    (r"\sqrt", r"\boxed{\sqrt}", True), (r"\frac", r"\boxed{\frac}", True), (r"\sqrt ", r"\boxed{\sqrt}", False),
]  # fmt: skip

# responses to a problem whose reference is 18
GSM8K = [
    ("#### 18", True), ("#### 7\n#### 18", True), ("#### 18.", False), ("#### 18.00", False), ("####18", False),
    (r"#### \boxed{18}", False), ("#### 18" + " " * 400, False), ("#### 18 eggs", True), ("18", False),
]  # fmt: skip
