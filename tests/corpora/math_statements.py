r"""Responses and the final answers that they state."""

from __future__ import annotations

# the form that the task asks for: (response, answer, route)
STATEMENTS = {
    "boxed": [
        (r"\boxed{1} then \boxed{2}", "2", "boxed"), (r"\fbox{3}", "3", "boxed"), (r"\boxed 5", "5", "boxed"),
        (r"$\boxed -7$ it is", "-7", "boxed"), (r"$\boxed \frac12$", r"\frac12", "boxed"),
        (r"\boxed{\frac{1}{\sqrt{2}}}.", r"\frac{1}{\sqrt{2}}", "boxed"), (r"\boxed{\{1, 2\}}", r"\{1, 2\}", "boxed"),
        (r"\boxed{\left\{x \mid x > 1\right.}", r"\left\{x \mid x > 1\right.", "boxed"),
        (r"\boxed{\boxed{8}}", r"\boxed{8}", "boxed"), (r"\boxed{x=\fbox{8}}", r"x=\fbox{8}", "boxed"),
        (r"an open { and \boxed{9}", "9", "boxed"), (r"a closed } and \boxed{9}", "9", "boxed"),
        (r"\boxed{1}, \boxed{2}", "1, 2", "boxed"), (r"$\boxed{1}$ and $\boxed{2}$", "1, 2", "boxed"),
        (r"\boxed{1} \text{ or } \boxed{2}", "1, 2", "boxed"), (r"\boxed{5} or \boxed{5}", "5", "boxed"),
        (r"\boxed{1}. Then \boxed{2}", "2", "boxed"),
        (r"\boxed{1} or rather, thinking about it again, \boxed{2}", "2", "boxed"),
        ("so we have\n#### 18", "18", "fallback"), ("The answer is 5.", "5", "fallback"),
        ("There are 5. The answer is", "5", "fallback"),
        ("The final answer is $\\frac{1}{2}$. I hope it is correct.", r"$\frac{1}{2}$", "fallback"),
        ("**Answer:** 5 apples", "5 apples", "fallback"), ("Answer:\n\n12", "12", "fallback"),
        (r"The answer is \(x+1\).", r"\(x+1\)", "fallback"), ("the answer is therefore 18 dollars", "18", "fallback"),
        ("the answer is Evelyn.", "Evelyn", "fallback"), ("The answer is\n$$\n12\n$$", "12", "fallback"),
        ("The answer is 5.\n#### Step 2: check", "5", "fallback"),
        ("The answer is 5.\n#### 2. Check it", "5", "fallback"), ("The answer is 5, since $x = 3$.", "5", "fallback"),
        ("The answer is 5 because 2 + 3 is", "5", "fallback"),
        ("The answer is 3.5 metres. The answer is 4", "4", "fallback"), ("The answer is $18.", "$18", "fallback"),
        ("There are 1,234", "1,234", "fallback"), ("so -7", "-7", "fallback"), ("It is 3/4 of it", "3/4", "fallback"),
    ],
    "####": [
        ("#### 18", "18", "####"), ("####18", "18", "####"), ("#### **18**", "18", "####"),
        ("#### $1,800.00", "$1,800.00", "####"), ("#### 18 eggs per day.", "18 eggs per day", "####"),
        (r"#### \boxed{18}", "18", "boxed"), (r"\boxed{17} no: #### 18", "18", "####"),
        (r"#### 17 no: \boxed{18}", "18", "boxed"), ("#### Now add\nthe answer is 18", "18", "fallback"),
        ("the answer is 18\n#### Step 2: check", "18", "fallback"),
    ],
}  # fmt: skip
